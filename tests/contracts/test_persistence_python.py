"""The Python calls of the Persistence API (docs/contracts/persistence-api.md)."""

from __future__ import annotations

import uuid

import pytest
from clauses import proves
from persistence_fields import CONVERSATION, MESSAGE
from states import settle

import recollect
from recollect import PersistenceApi
from recollect.errors import InvalidInput, NotFound


@proves("C1-38")
@pytest.mark.every_state
@pytest.mark.every_store
def test_the_documented_example_of_direct_access_works(library: recollect.Library) -> None:
    db = PersistenceApi(library)
    conversation = db.create_conversation(
        conversation_id="my-conv-id",
        session_id="my-session-id",
        title="My Conversation",
        namespace="my-namespace",
    )
    assert conversation["id"] == "my-conv-id"

    db.add_message(
        message_id="msg-1",
        conversation_id="my-conv-id",
        role="user",
        content="Hello",
    )
    db.add_message(
        message_id="msg-2", conversation_id="my-conv-id", role="assistant", content="Python it is"
    )

    messages = db.get_messages("my-conv-id")
    assert [m["id"] for m in messages] == ["msg-1", "msg-2"]

    settle(library)
    results = db.search_messages("python", limit=10)
    assert [m["id"] for m in results] == ["msg-2"]

    db.update_conversation("my-conv-id", title="Updated Title")
    assert db.get_conversation("my-conv-id")["title"] == "Updated Title"

    db.delete_conversation("my-conv-id")
    with pytest.raises(NotFound):
        db.get_messages("my-conv-id")
    assert db.search_messages("python") == []


def chat(
    db: PersistenceApi, session_id: str, message: str, response: dict[str, str], namespace: str
) -> None:
    """The documented chat endpoint that saves every interaction."""
    conversation = db.get_conversation_by_session(session_id)
    if not conversation:
        title = message
        if len(message) > 50:
            title = message[:50] + "..."
        conversation = db.create_conversation(
            conversation_id=str(uuid.uuid4()),
            session_id=session_id,
            title=title,
            namespace=namespace,
        )
    db.add_message(
        message_id=str(uuid.uuid4()),
        conversation_id=conversation["id"],
        role="user",
        content=message,
    )
    db.add_message(
        message_id=str(uuid.uuid4()),
        conversation_id=conversation["id"],
        role="assistant",
        content=response.get("answer", ""),
        model="gemini-2.0-flash-001",
        tool_used=response.get("tool_used"),
    )


@proves("C1-39", "C1-02", "C1-03")
def test_the_documented_example_of_automatic_saving_works(library: recollect.Library) -> None:
    db = PersistenceApi(library)
    chat(
        db,
        "session-1",
        "Tell me about Python, as much as you can in one sentence",
        {"answer": "Snakes."},
        "work",
    )
    chat(db, "session-1", "More", {"answer": "No.", "tool_used": "web_search"}, "work")
    chat(db, "session-2", "Hello", {}, "default")
    first = db.get_conversation_by_session("session-1")
    assert first is not None
    assert first["title"] == "Tell me about Python, as much as you can in one se..."
    assert (first["namespace"], first["message_count"]) == ("work", 4)
    messages = [
        (m["role"], m["content"], m["model"], m["tool_used"]) for m in db.get_messages(first["id"])
    ]
    assert messages == [
        ("user", "Tell me about Python, as much as you can in one sentence", None, None),
        ("assistant", "Snakes.", "gemini-2.0-flash-001", None),
        ("user", "More", None, None),
        ("assistant", "No.", "gemini-2.0-flash-001", "web_search"),
    ]
    assert library.conversation_page()[1] == 2


@proves("C1-40")
def test_calls_return_the_documented_shapes(library: recollect.Library) -> None:
    db = PersistenceApi(library)
    conversation = db.create_conversation("c1", "s1", "Title", "work", {"a": 1})
    assert conversation.keys() == CONVERSATION
    assert (
        conversation.items()
        >= {
            "id": "c1",
            "session_id": "s1",
            "title": "Title",
            "namespace": "work",
            "message_count": 0,
            "metadata": {"a": 1},
        }.items()
    )
    assert db.create_conversation("c1", "s1", "Title", "work", {"a": 1}) == conversation
    attachments, citations = [{"name": "a.png"}], [{"url": "https://example.org"}]
    moment = "2025-10-09T19:37:47.783681+00:00"
    id_ = db.add_message(
        "m1",
        "c1",
        "user",
        "Hello",
        "m",
        "t",
        attachments=attachments,
        citations=citations,
        timestamp=moment,
    )
    assert id_ == "m1"
    (message,) = db.get_messages("c1")
    assert message == {
        "id": "m1",
        "conversation_id": "c1",
        "role": "user",
        "content": "Hello",
        "model": "m",
        "tool_used": "t",
        "attachments": attachments,
        "citations": citations,
        "timestamp": moment,
    }
    assert message.keys() == MESSAGE
    assert db.search_messages("HELLO") == [message]
    whole = db.get_conversation("c1")
    assert whole.keys() == CONVERSATION | {"messages"}
    assert (whole["messages"], whole["message_count"]) == ([message], 1)
    by_session = db.get_conversation_by_session("s1")
    assert by_session is not None
    assert by_session.items() <= whole.items()


@proves("C1-41")
def test_missing_objects_are_none_or_not_found(library: recollect.Library) -> None:
    db = PersistenceApi(library)
    assert db.get_conversation_by_session("nobody") is None
    for call in (
        lambda: db.get_conversation("none"),
        lambda: db.get_messages("none"),
        lambda: db.add_message(None, "none", "user", "Hello"),
        lambda: db.search_messages("x", conversation_id="none"),
    ):
        with pytest.raises(NotFound):
            call()


@proves("C1-41")
def test_an_invalid_message_is_refused(library: recollect.Library) -> None:
    db = PersistenceApi(library)
    db.create_conversation("c1")
    for fields in ({"unknown": 1}, {"timestamp": "never"}, {"role": ""}, {"content": None}):
        with pytest.raises(InvalidInput):
            db.add_message(
                None, **{"conversation_id": "c1", "role": "user", "content": "x", **fields}
            )
    assert db.get_messages("c1") == []
    assert db.update_conversation("none", title="x") is False
    assert db.delete_conversation("none") is False
