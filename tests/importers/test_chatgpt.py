"""ChatGPT exports: trees, content types, hidden messages and unexpected shapes."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from builders import (
    PASSAGE_TYPES,
    VISIBILITIES,
    Problem,
    arrange,
    chat,
    claimed_by,
    documents,
    entry,
    message_node,
    mutate,
    only,
    passage,
    problems,
    read_as,
    values,
)
from hypothesis import given
from hypothesis import strategies as st

from recollect import Document

TREE = {
    "root": (None, None),
    "ask": ("root", message_node("How do I bake bread?", at=1700000001.0)),
    "first": ("ask", message_node("With yeast.", "assistant", at=1700000002.0)),
    "again": ("ask", message_node("With sourdough.", "assistant", at=1700000003.0)),
    "thanks": ("first", message_node("Thanks!", at=1700000004.0)),
}


def read(*conversations: Any) -> Document:
    return only(read_as("chatgpt", entry(list(conversations))))


def one(content: Any, role: str = "assistant", **more: Any) -> Any:
    """The passage of a single message with this content."""
    message = {"author": {"role": role}, "content": content, **more}
    (passage_,) = read(chat({"m": (None, message)})).passages
    return passage_


# -- detection --------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["conversations.json", "conversations-000.json", "export/conversations-012.json"]
)
def test_the_files_of_both_layouts_are_recognized(name: str) -> None:
    assert claimed_by("chatgpt", entry([chat(TREE)], name))


# -- trees -----------------------------------------------------------------


def test_every_branch_is_imported_and_the_head_is_the_current_node() -> None:
    document = arrange(read(chat(TREE, current_node="again")))
    assert {p.id: p.parent for p in document.passages} == {
        "ask": None,
        "first": "ask",
        "thanks": "first",
        "again": "ask",
    }
    assert [p.id for p in document.canonical] == ["ask", "again"]


def test_children_of_an_empty_message_belong_to_the_nearest_ancestor() -> None:
    nodes = {
        **TREE,
        "empty": ("thanks", message_node("", "assistant")),
        "blank": ("empty", message_node(" \n", "assistant")),
        "null": ("blank", None),
        "more": ("null", message_node("Anything else?", "assistant")),
    }
    items = list(read_as("chatgpt", entry([chat(nodes)])))
    assert passage(only(items), "more").parent == "thanks"
    assert problems(items) == [Problem("empty message", where="A chat", count=3)]


def test_a_cycle_of_parents_is_broken() -> None:
    nodes = {
        "tail": ("a", message_node("five", at=5.0)),
        "a": ("c", message_node("one", at=1.0)),
        "b": ("a", message_node("two", at=2.0)),
        "c": ("b", message_node("three", at=3.0)),
        "self": ("self", message_node("four", at=4.0)),
    }
    document = only(read_as("chatgpt", entry([chat(nodes)])))
    assert {p.content for p in document.passages} == {"one", "two", "three", "four", "five"}
    assert passage(document, "c").parent == "b"


def test_a_chain_of_5000_messages_is_read_without_recursion() -> None:
    nodes = {str(n): (str(n - 1) if n else None, message_node(f"turn {n}")) for n in range(5000)}
    document = arrange(read(chat(nodes)))
    assert len(document.canonical) == 5000
    assert [p.content for p in document.passages[:2]] == ["turn 0", "turn 1"]


# -- conversations ---------------------------------------------------------


def test_a_chatgpt_project_is_the_project_and_a_gpt_is_not() -> None:
    assert read(chat(TREE, gizmo_id="g-p-123")).project == "g-p-123"
    assert read(chat(TREE, gizmo_id=None, conversation_template_id="g-p-9")).project == "g-p-9"
    assert read(chat(TREE, gizmo_id="g-abc")).project == "default"


def test_a_damaged_conversation_does_not_stop_the_rest() -> None:
    first, second = json.dumps(chat(TREE)), json.dumps(chat(TREE, id="c-2"))
    text = f'[{first}, {{"title": oops, "mapping": {{}}}}, {second}]'
    items = list(read_as("chatgpt", entry(text)))
    assert len(documents(items)) == 2
    assert [(p.reason, p.failed, p.unit) for p in problems(items)] == [
        ("not valid JSON", True, "conversations")
    ]


# -- messages --------------------------------------------------------------


def test_a_message_has_its_text_times_model_and_metadata() -> None:
    message = message_node(
        "Hello \ue200cite\ue202turn0search1\ue201 【1†source】",
        "assistant",
        at=1700000002.25,
        update_time=1700000003,
        status="finished_successfully",
        weight=1.0,
        recipient="all",
        channel="final",
        metadata={"model_slug": "gpt-4o", "request_id": "r-1", "gizmo_id": None},
    )
    result = passage(read(chat({"m": (None, message)}, default_model_slug="auto")), "m")
    assert result.content == "Hello \ue200cite\ue202turn0search1\ue201 【1†source】"
    assert (result.role, result.type, result.model, result.visibility) == (
        "assistant",
        "message",
        "gpt-4o",
        "all",
    )
    assert result.created_at == datetime(2023, 11, 14, 22, 13, 22, 250000, tzinfo=UTC)
    assert result.updated_at == datetime(2023, 11, 14, 22, 13, 23, tzinfo=UTC)
    assert result.metadata == {
        "status": "finished_successfully",
        "weight": 1.0,
        "recipient": "all",
        "channel": "final",
        "content_type": "text",
        "metadata": {"request_id": "r-1"},
    }


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ({"content_type": "text", "parts": ["one", "", None, "two"]}, "one\ntwo"),
        ({"content_type": "code", "language": "python", "text": "print(1)"}, "print(1)"),
        ({"content_type": "execution_output", "text": "1\n"}, "1\n"),
        (
            {
                "content_type": "tether_quote",
                "title": "T",
                "text": "quoted",
                "url": "https://x",
                "domain": "x",
            },
            "T\nquoted",
        ),
        (
            {"content_type": "tether_browsing_display", "result": "# page", "summary": "short"},
            "# page\nshort",
        ),
        (
            {
                "content_type": "thoughts",
                "thoughts": [{"summary": "S", "content": "C"}, {"summary": "D"}],
            },
            "S\nC\nD",
        ),
        ({"content_type": "reasoning_recap", "content": "Thought for 5s"}, "Thought for 5s"),
        (
            {
                "content_type": "user_editable_context",
                "user_profile": "P",
                "user_instructions": "I",
            },
            "P\nI",
        ),
        (
            {
                "content_type": "model_editable_context",
                "model_set_context": "M",
                "repository": None,
            },
            "M",
        ),
        (
            {"content_type": "system_error", "name": "Timeout", "text": "too slow"},
            "Timeout\ntoo slow",
        ),
        ({"content_type": "citable_code_output", "output_str": "42"}, "42"),
        (
            {"content_type": "sonic_webpage", "title": "T", "text": "body", "url": "https://x"},
            "T\nbody",
        ),
        ({"content_type": "computer_output", "computer_id": "1", "text": "clicked"}, "clicked"),
        (
            {
                "content_type": "of tomorrow",
                "parts": ["a"],
                "caption": "b",
                "url": "https://x",
                "size": 3,
            },
            "a\nb",
        ),
        ({"parts": ["no type"]}, "no type"),
        ("just text", "just text"),
    ],
)
def test_text_is_read_from_every_content_type(content: Any, text: str) -> None:
    assert one(content).content == text


def test_images_and_audio_become_attachments_and_transcripts_text() -> None:
    picture = {
        "content_type": "image_asset_pointer",
        "asset_pointer": "file-service://file-1",
        "width": 10,
    }
    voice = {"content_type": "audio_transcription", "text": "Good morning", "direction": "in"}
    sound = {"content_type": "audio_asset_pointer", "asset_pointer": "sediment://file_2"}
    message = one(
        {"content_type": "multimodal_text", "parts": [picture, voice, sound, "typed"]}, "user"
    )
    assert message.content == "Good morning\ntyped"
    assert message.attachments == (
        picture,
        {"content_type": "audio_transcription", "direction": "in"},
        sound,
    )


TEXT = {"content_type": "text", "parts": ["words"]}


@pytest.mark.parametrize(
    ("content", "message", "kind", "tool"),
    [
        (TEXT, {"author": {"role": "assistant"}}, "message", None),
        (TEXT, {"author": {"role": "assistant"}, "recipient": "all"}, "message", None),
        (TEXT, {"author": {"role": "assistant"}, "recipient": "web.run"}, "tool_call", "web.run"),
        (TEXT, {"author": {"role": "user"}, "recipient": "web.run"}, "message", None),
        (TEXT, {"author": {"role": "tool", "name": "bio"}}, "tool_result", "bio"),
        ({"content_type": "thoughts", "thoughts": [{"content": "x"}]}, {}, "thinking", None),
        ({"content_type": "reasoning_recap", "content": "x"}, {}, "thinking", None),
        ({"content_type": "user_editable_context", "user_profile": "x"}, {}, "context", None),
    ],
)
def test_the_type_of_a_message_follows_from_its_content_and_role(
    content: Any, message: dict[str, Any], kind: str, tool: str | None
) -> None:
    result = one(content, **message)
    assert (result.type, result.tool) == (kind, tool)


@pytest.mark.parametrize(
    ("content", "message", "visibility"),
    [
        (TEXT, {"author": {"role": "user"}}, "all"),
        (TEXT, {"author": {"role": "user"}, "weight": 0}, "hidden"),
        (TEXT, {"author": {"role": "tool"}, "weight": 0}, "all"),
        (TEXT, {"author": {"role": "system"}}, "hidden"),
        (TEXT, {"author": {"role": "system"}, "metadata": {"is_user_system_message": True}}, "all"),
        (TEXT, {"metadata": {"is_visually_hidden_from_conversation": True}}, "hidden"),
        ({"content_type": "model_editable_context", "model_set_context": "x"}, {}, "hidden"),
    ],
)
def test_messages_that_the_user_did_not_see_are_hidden(
    content: Any, message: dict[str, Any], visibility: str
) -> None:
    assert one(content, **message).visibility == visibility


# -- properties -----------------------------------------------------------


RICH = chat(
    {
        **TREE,
        "voice": (
            "again",
            message_node(
                "x", content={"content_type": "multimodal_text", "parts": [{"text": "a"}, {"b": 1}]}
            ),
        ),
        "think": (
            "voice",
            message_node("x", content={"content_type": "thoughts", "thoughts": [{"summary": "s"}]}),
        ),
        "tool": (
            "think",
            message_node(
                "y", "tool", metadata={"citations": [{"a": 1}], "attachments": [{"id": "f"}]}
            ),
        ),
    }
)


@given(st.lists(st.integers(0, 20), min_size=1, max_size=8), values)
def test_a_conversation_with_any_mutation_is_read_or_reported(path: list[int], value: Any) -> None:
    items = list(
        read_as("chatgpt", entry([mutate(RICH, path, value), chat(TREE, conversation_id="good")]))
    )
    assert any(document.source_id == "good" for document in documents(items))
    for document in documents(items):
        arrange(document)
        assert len({p.id for p in document.passages}) == len(document.passages)
        for p in document.passages:
            assert isinstance(p.content, str)
            assert p.type in PASSAGE_TYPES
            assert p.visibility in VISIBILITIES
            assert p.role is None or isinstance(p.role, str)
            json.dumps([dict(p.metadata), p.attachments, p.citations], allow_nan=False)


# -- samples ---------------------------------------------------------------
