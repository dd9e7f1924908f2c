"""Files with messages as lines or in arrays, which are read by a table."""

from __future__ import annotations

from typing import Any

from builders import ChatLog, Problem, claimed_by, documents, entry, lines_entry, only, read_as
from builders import Sources as sources

PROGRAM = ChatLog(
    sources.LETTA,
    "A program",
    required="chat turns",
    suffixes=(".json",),
    session="chat.id",
    messages="turns",
    about="title=chat.name created_at=chat.started",
    fields="id role=who content=say.text timestamp=at parent_id=after tool_calls",
    roles={"me": "user", "it": "assistant"},
)


def turn(who: str, text: str, **more: Any) -> dict[str, Any]:
    return {"who": who, "say": {"text": text}, "at": 1767323045, **more}


def test_an_array_of_conversations_is_read_by_a_table() -> None:
    chat = {"id": "c", "name": "Looms", "started": "2026-01-01T00:00:00Z"}
    call = {"id": "1", "function": {"name": "look", "arguments": "{}"}}
    turns = [
        turn("me", "Warp?", id="a"),
        turn("it", "Weft.", id="b", after="a", tool_calls=[call]),
        turn("it", "Or both.", id="d", after="a"),
    ]
    file = entry([{"chat": chat, "turns": turns}, {"chat": {"id": "e"}, "turns": []}], "x.json")
    assert PROGRAM.claims(file) and not PROGRAM.claims(entry([{"chat": chat}], "x.json"))
    items = list(PROGRAM.read(file))
    document = only(items)
    assert (document.source_id, document.title, document.created_at.year) == ("c", "Looms", 2026)  # type: ignore[union-attr]
    assert {p.id: (p.role, p.parent) for p in document.passages} == {
        "a": ("user", None),
        "b.1": ("assistant", "a"),
        "b": ("assistant", "b.1"),
        "d": ("assistant", "a"),
    }
    assert Problem("conversation without messages", "e", unit="conversations") in items


def test_the_history_of_codex_gives_each_session_its_prompts() -> None:
    lines = [
        {"session_id": "a", "ts": 1767323045, "text": "Warp"},
        {"session_id": "b", "ts": 1767323046, "text": "Other"},
        {"session_id": "a", "ts": 1767323047, "text": "Weft"},
        {"session_id": "a", "ts": 1767323047, "text": "Weft"},
        {"session_id": "a", "ts": 1767323048, "text": ""},
    ]
    file = lines_entry(lines, "history.jsonl")
    assert claimed_by("codex_history", file) and not claimed_by("codex", file)
    items = list(read_as("codex_history", file))
    assert [(d.source_id, d.partial, d.title) for d in documents(items)] == [
        ("history:a", True, "Warp"),
        ("history:b", True, "Other"),
    ]
    assert [p.content for p in documents(items)[0].passages] == ["Warp", "Weft", "Weft"]
    assert Problem("empty message", "a") in items
    rest = list(read_as("codex_history", lines_entry(lines[2:], "history.jsonl")))
    kept = {p.id for p in documents(rest)[0].passages}
    assert kept < {p.id for p in documents(items)[0].passages}
