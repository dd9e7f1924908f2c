"""The cost of every importer grows in proportion to the size of the file.

`make test` counts the calls of functions for a few cases. `make test-all` compares the CPU time of
files that differ in size by a factor of four, which also sees the time spent in C. Four times the
size may take a little more than four times as long, but not sixteen times.
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest
from growth import CASES
from work import count_calls

from recollect.errors import RecollectError
from recollect.importers import registry
from recollect.model.receipts import Problem

FACTOR = 4
MAX_RATIO = 6
SMALL = 40
LARGE = 2_000
NEGLIGIBLE_SECONDS = 0.1
ATTEMPTS = 4

QUICK = [
    "chatgpt branches",
    "chatgpt empty chain",
    "chatgpt cycles",
    "chatgpt browser blank messages",
    "claude empty messages",
    "claude files",
    "claude code sidechains",
    "claude code summaries and agents",
    "codex forks",
    "gemini rewinds",
    "gemini removed in reverse",
    "own unusable chain",
    "json unclosed records",
    "prompts of one name",
    "toml dotted keys",
    "zip of notes",
    "recordings of one name",
    "docx nested boxes",
    "docx alternatives",
    "html nested tables",
]


def import_all(path: Path) -> None:
    try:
        for file in registry.find(path):
            if not isinstance(file, Problem):
                entry, format_ = file
                for _ in format_.read(entry):
                    pass
    except RecollectError:
        pass  # refused, which is also an end


def build(name: str, folder: Path, size: int) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return CASES[name](folder, size)


@pytest.mark.full
@pytest.mark.parametrize("name", QUICK)
def test_the_calls_of_an_importer_grow_linearly(name: str, tmp_path: Path) -> None:
    small, large = (build(name, tmp_path / str(size), size) for size in (SMALL, SMALL * FACTOR))
    import_all(small)  # the first import loads modules
    calls = count_calls(lambda: import_all(small))
    assert count_calls(lambda: import_all(large)) <= MAX_RATIO * calls


@pytest.mark.full
@pytest.mark.parametrize("name", CASES)
def test_the_time_of_an_importer_grows_linearly(name: str, tmp_path: Path) -> None:
    ratios = [measure_ratio(name, tmp_path)]
    while min(ratios) > MAX_RATIO and len(ratios) < ATTEMPTS:  # another process may disturb it
        ratios.append(measure_ratio(name, tmp_path))
    assert min(ratios) <= MAX_RATIO


def measure_ratio(name: str, folder: Path) -> float:
    import_all(build(name, folder / "warm", SMALL))
    small = measure_seconds(build(name, folder / "small", LARGE))
    large = measure_seconds(build(name, folder / "large", LARGE * FACTOR))
    if large < NEGLIGIBLE_SECONDS:
        return 1.0
    return large / small


def measure_seconds(path: Path) -> float:
    start = time.process_time()
    import_all(path)
    return time.process_time() - start
