"""Hostile files are imported or refused: quickly, in little memory, without touching anything else.

`make test` imports a few, `make test-all` the whole corpus.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hostile_corpus import CORPUS
from hostile_files import import_hostile, listening

QUICK = ["zip entry '../PWNED.md'", "docx nested boxes", "database tree bomb"]
FEWEST = 150


def test_the_corpus_is_large_enough() -> None:
    assert len(CORPUS) >= FEWEST


@pytest.mark.parametrize("name", QUICK)
def test_a_hostile_file_does_no_harm(name: str, tmp_path: Path) -> None:
    check(name, tmp_path)


@pytest.mark.full
@pytest.mark.parametrize("name", [name for name in CORPUS if name not in QUICK])
def test_no_hostile_file_does_harm(name: str, tmp_path: Path) -> None:
    check(name, tmp_path)


def check(name: str, folder: Path) -> None:
    with listening() as beacon:
        outcome = import_hostile(name, folder / "import")
        assert not outcome.faults
        assert not beacon.connections
