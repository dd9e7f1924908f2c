"""Which format a file has: alone, next to other files, and if the user names its kind."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from builders import chat, message_node

from recollect.errors import InvalidInput, UnknownFormat
from recollect.importers.registry import (
    find,
)
from recollect.model.receipts import Problem

CHAT = [chat({"m1": (None, message_node("hello"))})]
CARD = {"name": "Zoë", "description": "d", "first_mes": "Salut"}


def folder(path: Path, **files: Any) -> Path:
    for name, content in files.items():
        file = path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content if isinstance(content, str) else json.dumps(content))
        os.utime(file, (1_700_000_000, 1_700_000_000))
    return path


def formats(path: Path, kind: str | None = None) -> dict[str, str]:
    return {
        item[0].name: item[1].SOURCE.name
        for item in find(path, kind)
        if not isinstance(item, Problem)
    }


def skip_reasons(path: Path, kind: str | None = None) -> dict[str, int]:
    return {item.reason: item.count for item in find(path, kind) if isinstance(item, Problem)}


MIXED = {
    "conversations.json": CHAT,
    "a.md": "A note",
    "chat.html": "<p>hello</p>",
    "prompts.json": [{"title": "t", "prompt": "p"}],
    "own.json": {"name": "n", "user_prompt": "u"},
    "card.json": CARD,
    "what.xyz": "?",
}


def test_generic_files_next_to_conversations_are_skipped(tmp_path: Path) -> None:
    path = folder(tmp_path, **MIXED)
    assert formats(path) == {
        "card.json": "characters",
        "conversations.json": "chatgpt",
        "own.json": "prompts",
    }
    assert skip_reasons(path) == {
        "notes next to conversations are skipped; import them with --as notes": 1,
        "media next to conversations are skipped; import them with --as media": 1,
        "prompts next to conversations are skipped; import them with --as prompts": 1,
        "contains no conversations": 1,
    }


def test_an_empty_file_or_folder_is_called_empty(tmp_path: Path) -> None:
    with pytest.raises(UnknownFormat, match="is an empty folder"):
        formats(tmp_path)
    file = tmp_path / "export.json"
    file.touch()
    with pytest.raises(UnknownFormat, match=r"is empty\."):
        formats(file)


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("conversations", {"conversations.json"}),
        ("notes", {"a.md"}),
        ("media", {"a.md", "chat.html"}),
        ("characters", {"card.json", "conversations.json", "own.json", "prompts.json"}),
        ("prompts", {"a.md", "card.json", "conversations.json", "own.json", "prompts.json"}),
    ],
)
def test_the_user_can_set_the_kind(tmp_path: Path, kind: str, names: set[str]) -> None:
    path = folder(tmp_path, **MIXED)
    assert formats(path, kind) == dict.fromkeys(
        names, "chatgpt" if kind == "conversations" else kind
    )
    assert skip_reasons(path, kind)


def test_files_of_another_kind_are_an_error(tmp_path: Path) -> None:
    path = folder(tmp_path, **{"a.md": "x"})
    with pytest.raises(
        UnknownFormat,
        match=r"contains no characters. Known formats: Character cards \(JSON, PNG or CHARX\)\.",
    ):
        list(find(path, "characters"))
    with pytest.raises(
        InvalidInput, match=r"Cannot import as 'music'. Use one of: conversations, notes"
    ):
        list(find(path, "music"))
