"""Damaged files of vectors and volumes are found by their checksums, dropped and made again."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path

import pytest

import recollect
from recollect import Library, SearchOptions
from recollect.cli import main
from recollect.places import library_file
from recollect.store.sqlite import sealing
from recollect.store.sqlite.volume import MANIFEST

TOPICS = ["dog", "invoice", "guitar", "rain", "bread", "flight", "exam", "garden"]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A library with a volume and vectors."""
    monkeypatch.setattr(sealing, "MIN_VOLUME_PASSAGES", 10)
    home = tmp_path / "home"
    with open_library(home) as library:
        messages = [
            {"id": f"m{n}", "role": "user", "content": f"the {TOPICS[n % 8]} number {n}"}
            for n in range(40)
        ]
        library.add_conversation("c1", messages=messages)
        library.index()
        assert library.verify().healthy
    return home


def open_library(home: Path) -> Library:
    return recollect.open(home, "ann", background=False)


def index_file(home: Path, pattern: str) -> Path:
    (file,) = library_file(home, "ann").with_name("index").rglob(pattern)
    return file


def flip(file: Path) -> None:
    """Damage one byte, without changing the time of the file."""
    about = file.stat()
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 0xFF
    file.write_bytes(data)
    os.utime(file, ns=(about.st_atime_ns, about.st_mtime_ns))


def make_due(home: Path) -> None:
    """Let the last verification be two days ago."""
    for pattern in ("*.checksums", MANIFEST):
        file = index_file(home, pattern)
        past = file.stat().st_mtime - 2 * 86_400
        for other in (*file.parent.rglob("*"), file):
            os.utime(other, (past, past))


def test_vectors_that_a_power_cut_damaged_are_made_again(home: Path, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    with open_library(home) as library:
        library.add_message("c1", "user", "one more")
        shutil.copytree(home, disk)  # as it is when the power fails
    flip(index_file(disk, "space-*.vectors"))
    before_start = time.time() - time.monotonic() - 60
    for file in disk.rglob("space-*"):
        os.utime(file, (before_start, before_start))
    with open_library(disk) as library:
        library.index()
        assert library.verify().damaged_files == []


PATTERNS = ["space-*.vectors", "space-*.attributes", "0/*.store"]


@pytest.mark.parametrize(
    "pattern", [PATTERNS[0], *(pytest.param(p, marks=pytest.mark.full) for p in PATTERNS[1:])]
)
def test_doctor_finds_and_repairs_a_damaged_file(
    home: Path, pattern: str, capsys: pytest.CaptureFixture[str]
) -> None:
    flip(index_file(home, pattern))
    assert main(["doctor", "--home", str(home), "--json"]) == 1
    (record,) = json.loads(capsys.readouterr().out)["libraries"]
    assert "differs from its checksum" in record["damaged_files"][0]
    assert main(["doctor", "--home", str(home), "--repair", "--json"]) == 0
    (record,) = json.loads(capsys.readouterr().out)["libraries"]
    assert record["damaged_files"] == [] and len(record["events"]) == 1


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_search_does_not_use_a_damaged_file_which_is_then_made_again(
    home: Path, pattern: str
) -> None:
    damaged = index_file(home, pattern)
    flip(damaged)
    make_due(home)
    with open_library(home) as library:
        assert library.search("dog").total >= 5
        assert library._store.needs_refresh()
        library.index()
        assert library.verify().healthy
        assert len(library.verify().events) == 1
        page = library.search("dog", options=SearchOptions(limit=5))
        assert page.embedded == 1.0
        assert not library._store.needs_refresh()


@pytest.mark.full
def test_checksums_follow_additions_and_deletions(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_library(home) as library:
        for n in range(3):
            messages = [
                {"id": f"n{k}", "role": "user", "content": f"new {TOPICS[k % 8]} {k}"}
                for k in range(n * 250, n * 250 + 250)
            ]
            library.add_conversation("c2", messages=messages)
            library.index()
            library.delete_message("c2", f"n{n * 250 + 249}")
            library.index()
            assert library.verify().healthy
            assert library.verify().events == []
