"""Claude.ai exports: blocks, branches, pasted files, projects, memories."""

from __future__ import annotations

import json
from typing import Any

import pytest
from builders import (
    PASSAGE_TYPES,
    ROOT,
    Problem,
    arrange,
    claimed_by,
    claude_chat,
    documents,
    entry,
    mutate,
    only,
    passage,
    problems,
    read_as,
    text_of,
    turn,
    values,
)
from hypothesis import given
from hypothesis import strategies as st

from recollect import Document

THINKING = {"type": "thinking", "thinking": "Let me see.", "summaries": [{"summary": "Looking"}]}
CALL = {"type": "tool_use", "name": "web_search", "input": {"query": "trains to Zürich"}}
RESULT = {
    "type": "tool_result",
    "name": "web_search",
    "content": [{"type": "text", "text": "At nine."}],
    "is_error": False,
}
PROJECT = {
    "uuid": "p-1",
    "name": "Garden",
    "description": "All about beans.",
    "prompt_template": "Be brief.",
    "is_private": True,
    "created_at": "2026-01-01T00:00:00+00:00",
    "docs": [
        {
            "uuid": "d-1",
            "filename": "beans.md",
            "content": "# Beans",
            "created_at": "2026-01-02T00:00:00+00:00",
        }
    ],
}
MEMORY = {
    "conversations_memory": "Likes maps.",
    "project_memories": {"p-1": "brief"},
    "account_uuid": "acc-1",
}


def read(*records: Any) -> Document:
    return only(read_as("claude", entry(list(records))))


def links(document: Document) -> dict[str, str | None]:
    return {p.id: p.parent for p in document.passages}


# -- detection --------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("conversations.json", [claude_chat(turn("h", "hi"))]),
        ("conversations.json", [{"uuid": "k", "name": "no messages field"}]),
        ("whatever.json", claude_chat()),
        ("projects.json", [PROJECT]),
        ("projects/p-1.json", PROJECT),
        ("memories.json", [MEMORY]),
        ("memories/acc-1.json", MEMORY),
    ],
)
def test_the_files_of_an_export_are_recognized(name: str, content: Any) -> None:
    assert claimed_by("claude", entry(content, name))
    assert not claimed_by("chatgpt", entry(content, name))


# -- conversations ---------------------------------------------------------


def test_branches_are_imported_and_the_newest_leaf_is_the_head() -> None:
    document = arrange(
        read(
            claude_chat(
                turn("h", "Plan?", parent_message_uuid=ROOT),
                turn(
                    "a1",
                    "First",
                    sender="assistant",
                    parent_message_uuid="h",
                    created_at="2026-03-01T10:01:00Z",
                ),
                turn(
                    "a2",
                    "Second",
                    sender="assistant",
                    parent_message_uuid="h",
                    created_at="2026-03-01T10:02:00Z",
                ),
            )
        )
    )
    assert [p.id for p in document.passages] == ["h", "a1", "a2"]
    assert [p.id for p in document.canonical] == ["h", "a2"]


def test_older_exports_without_parents_become_a_chain() -> None:
    document = read(
        claude_chat(turn("a", "one"), turn("b", "two", sender="assistant"), turn("c", "three"))
    )
    assert links(document) == {"a": None, "b": "a", "c": "b"}


@pytest.mark.parametrize("chained", [True, False])
def test_children_of_an_empty_message_belong_to_the_nearest_ancestor(chained: bool) -> None:
    def parent(uuid: str) -> dict[str, str]:
        return {} if chained else {"parent_message_uuid": uuid}

    messages = [
        turn("a", "one", **parent(ROOT)),
        turn("b", "", sender="assistant", **parent("a")),
        turn("c", {"type": "token_budget"}, **parent("b")),
        turn("d", "two", sender="assistant", **parent("c")),
    ]
    items = list(read_as("claude", entry([claude_chat(*messages)])))
    assert links(only(items)) == {"a": None, "d": "a"}
    assert problems(items) == [Problem("empty message", where="A talk", count=2)]


# -- blocks ----------------------------------------------------------------


def test_the_parts_of_an_answer_are_a_chain_that_ends_with_its_text() -> None:
    answer = turn("a", THINKING, "Looking it up.", CALL, RESULT, "At nine.", sender="assistant")
    document = read(claude_chat(turn("h", "When?"), answer, turn("t", "Thanks")))
    assert links(document) == {
        "h": None,
        "a:thinking": "h",
        "a:2": "a:thinking",
        "a:3": "a:2",
        "a": "a:3",
        "t": "a",
    }
    assert [(p.type, p.role, p.tool, p.content) for p in document.passages[1:5]] == [
        ("thinking", "assistant", None, "Let me see."),
        ("tool_call", "assistant", "web_search", '{"query": "trains to Zürich"}'),
        ("tool_result", "tool", "web_search", "At nine."),
        ("message", "assistant", None, "Looking it up.\nAt nine."),
    ]
    assert all(p.canonical for p in arrange(document).passages)


@pytest.mark.parametrize(
    ("given_input", "text"),
    [
        (
            {"command": "create", "id": "x", "title": "Poem", "content": "Roses\nare"},
            "Poem\nRoses\nare",
        ),
        ({"path": "a.py", "file_text": "print('é')\n"}, "a.py\nprint('é')\n"),
        (
            {"path": "a.py", "old_str": "old words", "new_str": "new words"},
            "a.py\nold words\nnew words",
        ),
        ({"code": "1 + 1"}, "1 + 1"),
        ({"query": "naïve"}, '{"query": "naïve"}'),
        ({}, "{}"),
    ],
)
def test_the_input_of_a_tool_is_readable(given_input: Any, text: str) -> None:
    answer = turn(
        "a",
        {"type": "tool_use", "name": "artifacts", "input": given_input},
        "Done.",
        sender="assistant",
    )
    assert passage(read(claude_chat(answer)), "a:1").content == text


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("plain", "plain"),
        ([{"type": "text", "text": "one"}, {"type": "text", "text": "two"}], "one\ntwo"),
        (
            [{"type": "knowledge", "title": "Page", "url": "https://x", "text": "body"}],
            "Page\nbody",
        ),
        (["bare"], "bare"),
        (None, "shown"),
    ],
)
def test_the_output_of_a_tool_is_readable(content: Any, text: str) -> None:
    block = {
        "type": "tool_result",
        "name": "x",
        "content": content,
        "display_content": {"text": "shown"},
    }
    message = passage(read(claude_chat(turn("a", block, "Done.", sender="assistant"))), "a:1")
    assert (message.role, message.type, message.content) == ("tool", "tool_result", text)


def test_an_unknown_block_becomes_context_or_metadata() -> None:
    answer = turn(
        "a",
        {"type": "new", "display_content": {"text": "shown"}},
        {"type": "flag", "flag": "x"},
        "Hi",
    )
    document = read(claude_chat(answer))
    assert (passage(document, "a:1").type, passage(document, "a:1").content) == ("context", "shown")
    assert passage(document, "a").metadata == {"blocks": [{"type": "flag", "flag": "x"}]}


# -- attachments -----------------------------------------------------------

PASTED = {
    "file_name": "notes.txt",
    "file_size": 12,
    "file_type": "txt",
    "extracted_content": "pasted notes",
}
NAMED = {"file_name": "notes.txt", "file_size": 12, "file_type": "txt"}


def test_pasted_text_is_context_before_the_users_message() -> None:
    message = turn("h", "What is this?", attachments=[PASTED], files=[{"file_name": "map.png"}])
    context, words = read(claude_chat(message)).passages
    assert (context.id, context.type, context.role, context.content) == (
        "h:1",
        "context",
        "user",
        "pasted notes",
    )
    assert context.attachments == (NAMED,)
    assert (words.id, words.parent, words.content) == ("h", "h:1", "What is this?")
    assert words.attachments == (NAMED, {"file_name": "map.png"})


# -- notes -----------------------------------------------------------------


@pytest.mark.parametrize("content", [PROJECT, [PROJECT]])
def test_the_instructions_and_documents_of_a_project_become_notes(content: Any) -> None:
    instructions, beans = documents(read_as("claude", entry(content, "projects.json")))
    assert (instructions.kind, instructions.source_id, instructions.title) == (
        "note",
        "p-1",
        "Garden",
    )
    assert text_of(instructions.passages) == "All about beans.\n\nBe brief."
    assert instructions.metadata == {"is_private": True}
    assert (beans.kind, beans.source_id, beans.title) == ("note", "d-1", "beans.md")
    assert text_of(beans.passages) == "# Beans"
    assert beans.metadata == {"project": "Garden", "project_id": "p-1", "file": "beans.md"}
    assert [p.type for p in (*instructions.passages, *beans.passages)] == ["chunk", "chunk"]


@pytest.mark.parametrize("content", [MEMORY, [MEMORY]])
def test_memories_become_notes(content: Any) -> None:
    conversations = documents(read_as("claude", entry(content, "memories.json")))
    assert {d.kind for d in conversations} == {"note"}
    assert {(d.source_id, d.title): text_of(d.passages) for d in conversations} == {
        ("memory:acc-1", "Claude's memory"): "Likes maps.",
        ("memory:acc-1:p-1", "Claude's memory of project p-1"): "brief",
    }


# -- properties -----------------------------------------------------------


RICH = claude_chat(
    turn(
        "h",
        "When?",
        parent_message_uuid=ROOT,
        attachments=[PASTED],
        files=[{"file_name": "map.png"}],
    ),
    turn("a", THINKING, CALL, RESULT, "At nine.", sender="assistant", parent_message_uuid="h"),
)


@given(
    st.sampled_from([RICH, PROJECT, MEMORY]),
    st.lists(st.integers(0, 20), min_size=1, max_size=6),
    values,
)
def test_a_record_with_any_mutation_is_read_or_reported(
    record: Any, path: list[int], value: Any
) -> None:
    items = list(
        read_as(
            "claude",
            entry([mutate(record, path, value), claude_chat(turn("h", "hi"), uuid="good")]),
        )
    )
    assert any(document.source_id == "good" for document in documents(items))
    for document in documents(items):
        arrange(document)
        assert len({p.id for p in document.passages}) == len(document.passages)
        for p in document.passages:
            assert isinstance(p.content, str)
            assert p.type in PASSAGE_TYPES
            assert p.role is None or isinstance(p.role, str)
            json.dumps([dict(p.metadata), p.attachments, p.citations], allow_nan=False)


# -- samples ---------------------------------------------------------------
