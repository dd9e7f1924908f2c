"""Fixtures that every test may use: a library in a folder of its own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

import recollect

# No test may fail because the machine is busy. On a build server the examples are the same each time; elsewhere
# every run tries new ones.
PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
settings.register_profile("here", PATIENT)
settings.register_profile("server", PATIENT, derandomize=True)
settings.load_profile("server" if os.environ.get("CI") else "here")


@pytest.fixture(autouse=True)
def no_settings_of_the_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Tests never see the person's own library or settings."""
    monkeypatch.setenv("RECOLLECT_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("RECOLLECT_INDEXING", "manual")
    for name in ("CONVERSATION_DB", "ORIGIN_CONVERSATION_DB", "RECOLLECT_EMBEDDINGS", "RECOLLECT_EMBEDDINGS_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "200")


@pytest.fixture
def library(tmp_path: Path) -> Iterator[recollect.Library]:
    with recollect.open(tmp_path / "home") as opened:
        yield opened
