"""One table describes every source, and all interfaces use it."""

from __future__ import annotations

import re
from pathlib import PurePath

import pytest

from recollect.importers.registry import FORMATS
from recollect.model.sources import (
    CODEX,
    GEMINI_CLI,
    SOURCES,
    WATCHED,
    Source,
    find_source,
    source_label,
)


def test_the_source_of_every_format_is_in_the_table() -> None:
    for format_ in FORMATS:
        assert SOURCES[format_.SOURCE.name] is format_.SOURCE
        assert format_.SOURCE.label


@pytest.mark.parametrize(
    "source",
    [source for source in SOURCES.values() if source.assistant],
    ids=[source.name for source in SOURCES.values() if source.assistant],
)
def test_a_source_of_conversations_has_all_that_the_interfaces_show(source: Source) -> None:
    assert re.fullmatch(r"#[0-9a-f]{6}", source.colour)
    link = source.open_url or source.resume_command
    assert link.count("{}") == bool(link)
    assert bool(source.resume_command) == bool(source.transcripts)


def test_names_are_written_one_way_and_found_in_any() -> None:
    for name, source in SOURCES.items():
        assert re.fullmatch(r"[a-z][a-z-]*", name)
        assert find_source(name.upper().replace("-", "_")) is source
        assert source_label(name) == source.label
    assert find_source("somewhere else") is None
    assert source_label("somewhere else") == "somewhere else"


def test_transcripts_are_known_by_their_path() -> None:
    assert WATCHED == ("claude-code", "codex", "gemini-cli")
    codex, gemini = CODEX.transcripts, GEMINI_CLI.transcripts
    assert codex is not None and gemini is not None
    assert codex.includes(PurePath("2026/04/rollout-x.jsonl"))
    assert not codex.includes(PurePath("2026/04/history.jsonl"))
    assert gemini.includes(PurePath("project/chats/session-1.json"))
    assert not gemini.includes(PurePath("project/logs.json"))
