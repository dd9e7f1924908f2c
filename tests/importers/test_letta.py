"""Letta: agent files and lists of messages."""

from __future__ import annotations

from typing import Any

from builders import claimed_by, entry, only, read_as


def rows(document: Any) -> list[tuple[Any, ...]]:
    return [(p.role, p.type, p.tool, p.content, p.visibility) for p in document.passages]


def test_a_list_of_messages_is_read_oldest_first() -> None:
    call = {"name": "search", "arguments": '{"query": "looms"}', "tool_call_id": "t1"}
    messages = [
        {"id": "m3", "date": "2025-03-03T00:00:00Z", "message_type": "assistant_message"}
        | {"content": "Found one."},
        {"id": "m2", "date": "2025-03-02T00:00:01Z", "message_type": "tool_return_message"}
        | {"tool_call_id": "t1", "tool_return": '{"status": "OK", "message": "A loom"}'},
        {"id": "m1", "date": "2025-03-02T00:00:00Z", "message_type": "tool_call_message"}
        | {"tool_call": call},
        {"id": "m1", "date": "2025-03-02T00:00:00Z", "message_type": "reasoning_message"}
        | {"reasoning": "I search."},
        {"id": "m0", "date": "2025-03-01T00:00:00Z", "message_type": "user_message"}
        | {"content": '{"type": "user_message", "message": "Looms?", "time": "now"}'},
    ]
    file = entry(messages, "messages.json")
    assert claimed_by("letta", file)
    document = only(read_as("letta", file))
    assert rows(document) == [
        ("user", "message", None, "Looms?", "all"),
        ("assistant", "thinking", None, "I search.", "all"),
        ("assistant", "tool_call", "search", "search\nquery: looms", "all"),
        ("tool", "tool_result", "search", "A loom", "all"),
        ("assistant", "message", None, "Found one.", "all"),
    ]
    assert (document.source_id, document.title) == ("m0", "Looms?")
    assert [p.parent for p in document.passages] == [None, *(p.id for p in document.passages[:-1])]


def test_an_agent_file_is_a_conversation_and_what_it_says_by_a_tool_is_text() -> None:
    speech = {"name": "send_message", "arguments": '{"inner_thoughts": "Hm", "message": "Hello"}'}
    messages = [
        {"id": "message-0", "role": "system", "content": [{"type": "text", "text": "Be Ada."}]},
        {"id": "message-1", "role": "user", "content": [{"type": "text", "text": "Hi"}]},
        {"id": "message-2", "role": "user", "content": '{"type": "login", "time": "now"}'},
        {"id": "message-3", "role": "assistant", "content": None}
        | {"tool_calls": [{"id": "t", "type": "function", "function": speech}]},
    ]
    for message in messages:
        message["created_at"] = "2025-03-01T00:00:00Z"
    agent = {"name": "ada", "id": "agent-0", "in_context_message_ids": [], "messages": messages}
    expected = [
        ("system", "message", None, "Be Ada.", "hidden"),
        ("user", "message", None, "Hi", "all"),
        ("user", "context", None, '{"type": "login", "time": "now"}', "hidden"),
        ("assistant", "thinking", None, "Hm", "all"),
        ("assistant", "message", None, "Hello", "all"),
    ]
    for file in (
        entry({"agents": [agent], "blocks": []}, "ada.af"),
        entry({"agent_type": "memgpt_agent", **agent}, "ada.af"),
    ):
        assert claimed_by("letta", file)
        document = only(read_as("letta", file))
        assert rows(document) == expected
        assert (document.title, document.source_id) == ("ada", "ada@2025-03-01T00:00:00Z")


def test_other_json_is_not_claimed() -> None:
    assert not claimed_by("letta", entry([{"message_type": "text"}], "x.json"))
    assert not claimed_by("letta", entry({"agents": []}, "agents.json"))
