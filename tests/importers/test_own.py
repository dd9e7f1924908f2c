"""Recollect's own JSON, as exported and as written by hand."""

import io
import json
from datetime import UTC, datetime

import pytest
from builders import Entry, Problem, arrange, claimed_by, read_as

from recollect import Document

GREETING = {
    "id": "m1",
    "role": "user",
    "content": "Hello",
    "timestamp": "2025-10-09T19:37:47+00:00",
}
REPLY = {"id": "m2", "role": "assistant", "content": "Hi there!"}


def entry(value: object, name: str = "conversations.json") -> Entry:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return Entry(name, len(data), lambda: io.BytesIO(data))


def read(value: object) -> tuple[list[Document], list[Problem]]:
    items = list(read_as("own", entry(value)))
    return [f for f in items if isinstance(f, Document)], [
        f for f in items if isinstance(f, Problem)
    ]


def conversation(*messages: object, **more: object) -> dict[str, object]:
    return {"id": "c1", "title": "Greetings", "messages": list(messages), **more}


def only(*messages: object, **more: object) -> Document:
    (document,), problems = read([conversation(*messages, **more)])
    assert problems == []
    return document


# -- detection ---------------------------------------------------------------------


@pytest.mark.parametrize("wrap", [lambda c: {"conversations": [c]}, lambda c: [c], lambda c: c])
def test_a_wrapper_a_list_and_a_single_conversation_are_read(wrap):
    file = wrap(conversation(GREETING, REPLY))
    assert claimed_by("own", entry(file))
    (document,), problems = read(file)
    assert problems == []
    assert [p.content for p in document.passages] == ["Hello", "Hi there!"]


@pytest.mark.parametrize(
    "foreign",
    [
        pytest.param([{"id": "1", "title": "x", "mapping": {}, "current_node": "n"}], id="chatgpt"),
        pytest.param([{"uuid": "1", "name": "x", "chat_messages": []}], id="claude"),
        pytest.param(
            {"conversationId": "1", "messagesTree": [], "id": "1", "messages": [GREETING]},
            id="librechat",
        ),
        pytest.param([{"id": "1", "chat": {"messages": [GREETING]}}], id="open webui"),
        pytest.param({"id": "", "history": {}, "messages": [GREETING]}, id="open webui, one chat"),
        pytest.param(
            {"guild": {"id": "9"}, "channel": {}, "messages": [{"id": "1", "content": "hi"}]},
            id="discord",
        ),
        pytest.param(
            {"sessionId": "1", "projectHash": "f", "messages": [{"id": "1", "content": "hi"}]},
            id="gemini",
        ),
        pytest.param({"version": 4, "history": [conversation(GREETING)]}, id="chatbot ui"),
        pytest.param({"messages": [{"role": "user", "content": "hi"}]}, id="no ids"),
        pytest.param({"conversations": [], "total": 0}, id="no conversations"),
        pytest.param({"id": "1", "messages": [{"text": "hi"}]}, id="no roles"),
        pytest.param(["a", 1, None], id="no objects"),
        pytest.param(b"\x00\xff not json", id="no json"),
        pytest.param(b"", id="empty"),
    ],
)
def test_other_files_are_not_claimed(foreign):
    assert not claimed_by("own", entry(foreign))


# -- conversations ----------------------------------------------------------------


def test_ids_times_and_names_are_preserved():
    document = only(
        GREETING, created_at="2025-10-09T19:00:00Z", namespace="garden", session_id="s1"
    )
    assert (document.id, document.source, document.source_id) == ("c1", "recollect", "s1")
    assert (document.title, document.project) == ("Greetings", "garden")
    assert document.created_at == datetime(2025, 10, 9, 19, tzinfo=UTC)
    assert document.metadata == {}
    assert document.passages[0].created_at == datetime(2025, 10, 9, 19, 37, 47, tzinfo=UTC)


def test_a_conversation_exported_by_version_0_1_is_read_by_its_names():
    document = only(
        {**GREETING, "kind": "thinking"},
        origin="chatgpt",
        origin_id="abc",
        session_id="abc",
        head="m1",
        shared_ids=True,
    )
    assert (document.source, document.source_id, document.id) == ("chatgpt", "abc", "c1")
    assert (document.kind, document.head, document.shared_ids) == ("conversation", "m1", True)
    assert document.passages[0].type == "thinking"
    assert document.metadata == {} and document.passages[0].metadata == {}


def test_an_item_exported_by_version_0_1_is_read_by_its_names():
    old_item = {"origin": "notes", "origin_id": "a.md", "source": "note"}
    document = only({**GREETING, "kind": "chunk"}, **old_item)
    assert (document.source, document.source_id, document.kind) == ("notes", "a.md", "note")
    assert document.passages[0].type == "chunk"


def test_unknown_keys_are_stored_in_metadata():
    document = only({**GREETING, "mood": "calm", "metadata": {"a": 1}}, pinned=True, metadata=None)
    assert document.metadata == {"pinned": True}
    assert document.passages[0].metadata == {"mood": "calm", "a": 1}


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        ("text", "not a conversation"),
        ({"title": "x", "messages": []}, "conversation without an id"),
        ({"id": True, "messages": []}, "conversation without an id"),
        ({"id": "c0", "messages": None}, "conversation without messages"),
    ],
)
def test_a_record_that_is_not_a_conversation_fails_and_the_next_is_read(record, reason):
    documents, problems = read([record, conversation(GREETING)])
    assert [d.id for d in documents] == ["c1"]
    assert problems == [Problem(reason, "record 0", failed=True, unit="conversations")]


# -- messages ---------------------------------------------------------------------


def test_messages_without_parents_follow_one_another():
    document = arrange(only(GREETING, REPLY, {"role": "user", "content": "Bye"}))
    assert [(p.id, p.parent) for p in document.passages] == [
        ("m1", None),
        ("m2", "m1"),
        ("c1:2", "m2"),
    ]
    assert len(document.canonical) == 3


def test_text_parts_are_joined_and_files_become_attachments():
    image = {"type": "image_url", "image_url": {"url": "file:cat.png"}}
    parts = [{"type": "text", "text": "Look:"}, image, {"type": "text", "text": "a cat"}]
    passage = only({**GREETING, "content": parts, "attachments": ["note.txt"]}).passages[0]
    assert passage.content == "Look:\na cat"
    assert passage.attachments == ("note.txt", {"type": "image", "url": "file:cat.png"})


@pytest.mark.parametrize("content", [None, 7, {}, [], [{"type": "text", "text": ""}]])
def test_a_message_without_text_fails_and_its_children_move_to_its_parent(content):
    lost = {"id": "lost", "role": "assistant", "content": content, "parent_id": "m1"}
    (document,), problems = read(
        conversation(
            {**GREETING, "parent_id": None}, lost, {**REPLY, "parent_id": "lost"}, head="m2"
        )
    )
    assert problems == [Problem("message without text", "conversation c1, message 1", failed=True)]
    assert [(p.id, p.parent) for p in document.passages] == [("m1", None), ("m2", "m1")]


def test_a_repeated_message_is_skipped_and_a_reused_id_fails():
    (document,), problems = read(
        conversation(GREETING, REPLY, GREETING, {**REPLY, "content": "Go away!"})
    )
    assert [p.content for p in document.passages] == ["Hello", "Hi there!"]
    assert [(p.reason, p.failed) for p in problems] == [
        ("repeated message", False),
        ("message id used twice", True),
    ]


@pytest.mark.parametrize(
    "mark",
    [
        {"visibility": "human_only"},
        {"visibility": "Human-Only"},
        {"human_only": True},
        {"audience": ["human"]},
        {"metadata": {"human-only": "yes"}},
    ],
)
def test_a_message_can_be_marked_as_human_only(mark):
    assert only({**GREETING, **mark}).passages[0].visibility == "human_only"
