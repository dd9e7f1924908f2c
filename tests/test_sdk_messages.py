"""Messages as OpenAI's and Anthropic's SDKs have them are stored whole, however they come in."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from recollect import Library, SearchOptions

OPENAI: list[dict[str, Any]] = [
    {"role": "user", "content": [{"type": "text", "text": "Rain in Rome?"}]},
    {
        "role": "assistant",
        "content": None,
        "refusal": None,
        "tool_calls": [
            {
                "id": "call_1",
                "type": "function",
                "function": {"name": "get_weather", "arguments": '{"city": "Rome"}'},
            }
        ],
    },
    {"role": "tool", "tool_call_id": "call_1", "content": "Dry"},
    {"role": "assistant", "content": "No rain."},
]
ANTHROPIC: list[dict[str, Any]] = [
    {"role": "user", "content": "Rain in Rome?"},
    {
        "role": "assistant",
        "content": [
            {"type": "tool_use", "id": "call_1", "name": "get_weather", "input": {"city": "Rome"}}
        ],
    },
    {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": "call_1", "content": "Dry"}],
    },
    {"role": "assistant", "content": [{"type": "text", "text": "No rain."}]},
]
RESPONSES: list[dict[str, Any]] = [
    {"role": "user", "content": [{"type": "input_text", "text": "Rain in Rome?"}]},
    {
        "type": "function_call",
        "call_id": "call_1",
        "name": "get_weather",
        "arguments": '{"city": "Rome"}',
    },
    {"type": "function_call_output", "call_id": "call_1", "output": "Dry"},
    {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "No rain."}],
    },
]
STORED = [
    ("user", "message", None, "Rain in Rome?"),
    ("assistant", "tool_call", "get_weather", "get_weather\ncity: Rome"),
    ("tool", "tool_result", "get_weather", "Dry"),
    ("assistant", "message", None, "No rain."),
]
Save = Callable[[Library, list[dict[str, Any]], Path], None]


def add_at_once(library: Library, messages: list[dict[str, Any]], folder: Path) -> None:
    library.add_conversation("c", messages=messages)


def import_items(library: Library, messages: list[dict[str, Any]], folder: Path) -> None:
    library.import_items([{"id": "c", "messages": messages}])


def import_file(library: Library, messages: list[dict[str, Any]], folder: Path) -> None:
    file = folder / "mine.json"
    file.write_text(json.dumps([{"id": "c", "messages": messages}]))
    library.import_path(file)


def rows(library: Library, id: str = "c") -> list[tuple[str | None, str, str | None, str]]:
    return [(p.role, p.type, p.tool, p.content) for p in library.conversation(id).passages]


@pytest.mark.parametrize("messages", [OPENAI, ANTHROPIC, RESPONSES])
@pytest.mark.parametrize("save", [add_at_once, import_items, import_file])
def test_calls_of_tools_and_their_results_are_stored_and_found_by_name(
    library: Library, tmp_path: Path, save: Save, messages: list[dict[str, Any]]
) -> None:
    save(library, messages, tmp_path)
    assert rows(library) == STORED
    (hit,) = library.search("get_weather", options=SearchOptions(mode="text")).hits
    assert hit.message_id == library.conversation("c").passages[1].id


def test_messages_can_be_added_one_by_one(library: Library) -> None:
    library.add_conversation("c")
    for message in OPENAI:
        library.add_message("c", **message)
    assert [row[3] for row in rows(library)] == [row[3] for row in STORED]


class Answer:
    """An object of an SDK."""

    def model_dump(self, **options: Any) -> dict[str, Any]:
        return {"role": "assistant", "content": "No rain.", "stop_reason": "end_turn"}


def test_the_parts_of_one_message_follow_one_another(library: Library) -> None:
    blocks = [
        {"type": "thinking", "thinking": "Rome is far.", "signature": "x"},
        {"type": "text", "text": "Let me look."},
        {"type": "tool_use", "id": "1", "name": "look", "input": {}},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
    ]
    messages: list[Any] = [
        {"id": "m", "role": "assistant", "content": blocks, "author": "Ann"},
        Answer(),
    ]
    passages = library.add_conversation("c", messages=messages).passages
    assert [(p.id, p.parent, p.type) for p in passages] == [
        ("m.1", None, "thinking"),
        ("m.2", "m.1", "message"),
        ("m.3", "m.2", "tool_call"),
        ("m", "m.3", "message"),
        ("c:1", "m", "message"),
    ]
    assert {p.author for p in passages[:4]} == {"Ann"}
    assert passages[3].attachments[0]["bytes"] == 3 and not passages[1].attachments
    assert passages[4].metadata == {"stop_reason": "end_turn"}


def test_one_message_without_content_does_not_lose_the_conversation(library: Library) -> None:
    messages = [{"role": "user", "content": None}, {"role": "user", "content": "Kept"}]
    receipt = library.import_items([{"id": "c", "messages": messages}])
    assert [row[3] for row in rows(library)] == ["Kept"]
    assert receipt.files[0].messages.failed == {"message without text": 1}
