"""Fixtures that every test may use: a library in a folder of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import recollect


@pytest.fixture(autouse=True)
def no_settings_of_the_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Tests never see the person's own library or settings."""
    monkeypatch.setenv("RECOLLECT_HOME", str(tmp_path / "home"))
    for name in ("CONVERSATION_DB", "ORIGIN_CONVERSATION_DB"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "200")


@pytest.fixture
def library(tmp_path: Path) -> Iterator[recollect.Library]:
    with recollect.open(tmp_path / "home") as opened:
        yield opened
