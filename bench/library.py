"""Benchmark import and search of a library with 180,000 messages against a LIKE scan.

    python -m bench.library [MESSAGES]

Everything runs on one core. Query times are medians. Each query runs on the library and then as a
LIKE scan of the same table, in the same process.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import apsw

import recollect
from bench import corpus
from recollect.model.search import SearchOptions
from recollect.store.sqlite.connections.connection import connect

OUT = Path(__file__).parent / "out"
ROUNDS = 7

IMPORT = """
import os, resource, sys, time
os.sched_setaffinity(0, {0}) if hasattr(os, "sched_setaffinity") else None
import recollect
library = recollect.open(sys.argv[1])
wall, cpu = time.perf_counter(), time.process_time()
receipt = library.import_path(sys.argv[2])
wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
count = sum(f.messages.new + f.messages.same for f in receipt.files)
print(count, wall, cpu, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def export_of(messages: int) -> Path:
    OUT.mkdir(exist_ok=True)
    path = OUT / f"conversations-{messages}.json"
    if not path.exists():
        corpus.write_chatgpt_export(path, messages)
    return path


def run_import(home: Path, export: Path) -> tuple[int, float, float, float]:
    process = subprocess.run(
        [sys.executable, "-c", IMPORT, str(home), str(export)],
        capture_output=True,
        text=True,
        check=True,
    )
    count, wall, cpu, memory = map(float, process.stdout.split())
    return int(count), wall, cpu, memory


def milliseconds(action: Callable[[], object], rounds: int = ROUNDS) -> float:
    times = []
    for _ in range(rounds):
        start = time.process_time()
        action()
        times.append((time.process_time() - start) * 1000)
    return statistics.median(times)


def uncompressed_copy(path: Path) -> apsw.Connection:
    """The messages as a program would store them that does not compress them."""
    db = connect(path)
    db.execute("create temp table plain as select id, created_at, content from passage")
    return db


def like_scan(db: apsw.Connection, query: str) -> list[tuple[object, ...]]:
    """The baseline: LIKE on every message, newest fifty."""
    return db.execute(
        "select id from plain where content like ? order by created_at desc limit 50",
        (f"%{query}%",),
    ).fetchall()


def show_import(home: Path, messages: int) -> None:
    export = export_of(messages)
    first = run_import(home, export)
    again = run_import(home, export)
    library = next(home.rglob("library.db"))
    print(
        f"Export: {export.stat().st_size / 1e6:,.0f} MB. "
        f"Library: {library.stat().st_size / 1e6:,.0f} MB.\n"
    )
    print(
        "| import | messages | wall s | CPU s | messages/s | peak MiB |\n|---|---|---|---|---|---|"
    )
    for name, (count, wall, cpu, memory) in (("first", first), ("repeated", again)):
        print(
            f"| {name} | {count:,} | {wall:.1f} | {cpu:.1f} | {count / wall:,.0f} | {memory:.0f} |"
        )


def show_queries(home: Path) -> None:
    with recollect.open(home) as library:
        db = uncompressed_copy(library._store.path)  # type: ignore[attr-defined]
        print(
            "\n| query | matches | search ms | conversation_search ms | LIKE scan ms "
            "| scan / conversation_search |"
        )
        print("|---|---|---|---|---|---|")
        for kind, query in corpus.queries().items():
            plain = query.strip('"*')
            page = library.search(query, options=SearchOptions(limit=10))
            search = milliseconds(
                lambda q=query: library.search(q, options=SearchOptions(limit=10))
            )
            recent = milliseconds(lambda q=plain: library.recent(q, limit=50))
            scan = milliseconds(lambda q=plain: like_scan(db, q), 3)
            numbers = f"{search:.1f} | {recent:.1f} | {scan:.0f} | {scan / recent:,.0f}"
            print(f"| {kind} | {page.total:,} | {numbers} |")
        db.close()


def show_appends(home: Path) -> None:
    with recollect.open(home) as library:
        conversation = library.add_conversation(title="Live")
        times = []
        for n in range(200):
            start = time.perf_counter()
            library.add_message(conversation.id, "user", f"appended needle{n} and some more words")
            times.append((time.perf_counter() - start) * 1000)
            assert library.search(f"needle{n}").total == 1
    times.sort()
    print(
        f"\nAppend until durable and searchable: p50 {times[100]:.1f} ms, "
        f"p99 {times[197]:.1f} ms (wall)."
    )


def main(messages: int = 180_000) -> None:
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {0})
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        show_import(home, messages)
        show_queries(home)
        show_appends(home)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"Peak memory while searching: {peak:.0f} MiB.")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
