"""The tool, and each world in which a clause must hold: the library in every store, and three kinds of database."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import databases
import pytest
from databases import Message
from worlds import Tool, World


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def tool() -> Iterator[Tool]:
    opened = Tool()
    yield opened
    opened.catalog.close()


@pytest.fixture(params=["sqlite", "postgres", *databases.SHAPES])
def world(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    file = tmp_path / "export with spaces & 100%?#.db"
    if request.param == "postgres":
        request.getfixturevalue("on_postgres")
    if request.param in databases.SHAPES:
        monkeypatch.setenv("CONVERSATION_DB", str(file))
    return World(request.param, file)


@pytest.fixture
def export(tmp_path: Path) -> Path:
    """A canonical export with one message."""
    path = tmp_path / "canonical-export-2026-01-01.db"
    databases.create(path, "canonical-json")
    databases.add(path, "canonical-json", "c1", "Fruit", [Message("user", "an apple")])
    return path
