"""kill -9 at random points: every acknowledged message is stored once, and search agrees."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from kills import KILLS, run_and_kill

import recollect
from recollect import Filter
from recollect.language.queries.query import parse

SERIES = max(1, KILLS // 50)
KILLS_PER_SERIES = max(1, KILLS // 2 // SERIES)

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
from recollect.transfer import importing
importing.BATCH = 40
recollect.open(sys.argv[1]).import_path(sys.argv[2], progress=lambda *a: print(a[1], flush=True))
"""


@pytest.mark.parametrize("series", range(SERIES))
def test_acknowledged_messages_survive_a_kill(series: int, tmp_path: Path) -> None:
    rng = random.Random(series)
    home = tmp_path / "home"
    with recollect.open(home) as library:
        library.add_conversation("c1", "Crash")
    acknowledged: set[int] = set()
    for kill in range(KILLS_PER_SERIES):
        first = str(kill * 1_000_000)
        lines = run_and_kill(APPENDER, str(home), first, lines=rng.randint(1, 60))
        acknowledged |= {int(line) for line in lines}
        with recollect.open(home) as library:
            stored_ids = [p.id for p in library.conversation("c1").passages]
            assert len(stored_ids) == len(set(stored_ids))
            assert {f"m{n}" for n in acknowledged} <= set(stored_ids)
            assert library._store.count(parse("acknowledged"), Filter())[0] == len(stored_ids)
            assert library.verify().healthy
    with recollect.open(home) as library:
        for n in acknowledged:
            assert [h.message_id for h in library.search(f"word{n}x").hits] == [f"m{n}"]


def write_export(path: Path) -> list[str]:
    """Write 60 conversations of 20 messages, and return the ids of the messages."""
    conversations = []
    for c in range(60):
        messages = [
            {
                "id": f"c{c}m{m}",
                "role": "user",
                "content": f"imported word{c}x{m} " + "filler " * 200,
            }
            for m in range(20)
        ]
        conversations.append({"id": f"c{c}", "title": f"Conversation {c}", "messages": messages})
    path.write_text(json.dumps({"conversations": conversations}))
    return [message["id"] for c in conversations for message in c["messages"]]


@pytest.mark.full
@pytest.mark.parametrize("series", range(SERIES))
def test_an_import_survives_kills_and_finishes_when_run_again(series: int, tmp_path: Path) -> None:
    rng = random.Random(1_000 + series)
    home, export = tmp_path / "home", tmp_path / "conversations.json"
    ids = write_export(export)
    for _ in range(KILLS_PER_SERIES):
        run_and_kill(IMPORTER, str(home), str(export), lines=rng.randint(1, 20))
        with recollect.open(home) as library:
            assert library.verify().healthy
            stored_ids = [p.id for d in library.documents() for p in d.passages]
            assert len(stored_ids) == len(set(stored_ids))
            assert library._store.count(parse("imported"), Filter())[0] == len(stored_ids)
    with recollect.open(home) as library:
        library.import_path(export)
        assert sorted(p.id for d in library.documents() for p in d.passages) == sorted(ids)
        assert library.search("word7x3").hits[0].message_id == "c7m3"
        assert library.verify().healthy
        for receipt in library.receipts():
            library.undo_import(receipt.id)
        assert list(library.documents()) == []
