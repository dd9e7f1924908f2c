"""kill -9 at random points: every acknowledged message is there once, and search agrees.

KILLS sets the number of kills in all (100 by default; `make soak` runs 1,000).
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import recollect
from recollect.model import Filter
from recollect.query import parse

KILLS = int(os.environ.get("KILLS", "100"))
SERIES = 10

APPENDER = """
import sys, recollect
library = recollect.open(sys.argv[1])
first = int(sys.argv[2])
for n in range(first, first + 100_000):
    library.add_message("c1", "user", f"acknowledged word{n}x", id=f"m{n}")
    print(n, flush=True)
"""
IMPORTER = """
import sys, recollect
from recollect.manage import importing
importing.BATCH = 40
recollect.open(sys.argv[1]).import_path(sys.argv[2], progress=lambda *a: print(a[1], flush=True))
"""


def run_and_kill(code: str, *arguments: str, lines: int) -> list[str]:
    """Start a program, kill it after it has printed this many lines, and return all it printed."""
    process = subprocess.Popen(
        [sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    printed = []
    for _ in range(lines):
        line = process.stdout.readline()
        if not line:
            break
        printed.append(line)
    process.send_signal(signal.SIGKILL)
    printed += process.stdout.readlines()
    process.wait()
    process.stdout.close()
    return [line.strip() for line in printed if line.endswith("\n")]


@pytest.mark.parametrize("series", range(SERIES))
def test_appends_survive_being_killed(series: int, tmp_path: Path) -> None:
    rng = random.Random(series)
    home = tmp_path / "home"
    with recollect.open(home) as library:
        library.add_conversation("c1", "Crash")
    acknowledged: set[int] = set()
    for kill in range(max(1, KILLS // 2 // SERIES)):
        printed = run_and_kill(APPENDER, str(home), str(kill * 1_000_000), lines=rng.randint(1, 60))
        acknowledged |= {int(line) for line in printed}
        with recollect.open(home) as library:
            stored = [p.id for p in library.conversation("c1").passages]
            assert len(stored) == len(set(stored))
            assert {f"m{n}" for n in acknowledged} <= set(stored)
            assert library.store.count(parse("acknowledged"), Filter())[0] == len(stored)
            assert library.verify().healthy
    with recollect.open(home) as library:
        for n in acknowledged:
            assert [h.message_id for h in library.search(f"word{n}x").hits] == [f"m{n}"]


@pytest.mark.parametrize("series", range(SERIES))
def test_imports_survive_being_killed_and_finish_when_run_again(
    series: int, tmp_path: Path
) -> None:
    rng = random.Random(1_000 + series)
    home, export = tmp_path / "home", tmp_path / "conversations.json"
    export.write_text(
        json.dumps(
            {
                "conversations": [
                    {
                        "id": f"c{c}",
                        "title": f"Talk {c}",
                        "created_at": "2025-01-01",
                        "messages": [
                            {
                                "id": f"c{c}m{m}",
                                "role": "user",
                                "content": f"imported word{c}x{m} " + "filler " * 200,
                            }
                            for m in range(20)
                        ],
                    }
                    for c in range(60)
                ]
            }
        )
    )
    for _ in range(max(1, KILLS // 2 // SERIES)):
        run_and_kill(IMPORTER, str(home), str(export), lines=rng.randint(1, 20))
        with recollect.open(home) as library:
            assert library.verify().healthy
            stored = [p.id for d in library.every() for p in d.passages]
            assert len(stored) == len(set(stored))
            assert library.store.count(parse("imported"), Filter())[0] == len(stored)
    with recollect.open(home) as library:
        library.import_path(export)
        stored = [p.id for d in library.every() for p in d.passages]
        assert sorted(stored) == sorted(f"c{c}m{m}" for c in range(60) for m in range(20))
        assert library.search("word7x3").hits[0].message_id == "c7m3"
        assert library.verify().healthy
        for receipt in library.receipts():
            library.undo(receipt.id)
        assert list(library.every()) == []
