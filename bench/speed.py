"""How fast a large library is searched, and what it costs, beside plain FTS5, LIKE and bare Tantivy.

    python -m bench.speed [--messages 100000,1000000] [--keep FOLDER]

All engines hold the same messages and answer the same queries in one process,
on one core, one after the other; a library that lies in FOLDER is used again.
Times are CPU time of the whole process, threads included, unless wall is said.
Each kind has forty queries, asked three times in turn after others have warmed
the files; a query counts with its median. What is slow is asked less: no
further once it has had its seconds, but five queries at least.

Plain FTS5 is a table with external content, its words joined by OR, ordered by
rank. LIKE looks for each word with a scan, the newest first (a question as it
is typed). Bare Tantivy is one index of the text, role and time. All give ten
keys; Recollect also reads, ranks, counts and shows what it found.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import apsw
import tantivy
from tantivy import FieldType, Occur, Query

import recollect
from bench import corpus
from bench.corpus import Asked
from recollect.index.meaning import Meaning
from recollect.model.search import Filter, SearchOptions

T = TypeVar("T")

LIMIT = 10
QUERIES = 40
WARMING = 6
ROUNDS = 3
LEAST = 5  # queries of each kind, however slow
SECONDS = 10.0  # for one engine and one kind
STARTS = 7
APPENDS = 200
TOKENIZERS = {"FTS5": "unicode61", "FTS5, porter": "porter unicode61"}


class Cost(NamedTuple):
    cpu: float
    wall: float
    peak: float = 0.0
    """MiB resident at most."""


@dataclass(frozen=True)
class Only:
    """What a search is narrowed to."""

    name: str = ""
    role: str = ""
    after: datetime | None = None
    before: datetime | None = None


ONLY = (
    Only("all"),
    Only("role", role="user"),
    Only(
        "30 days",
        after=datetime(2025, 6, 1, tzinfo=UTC),
        before=datetime(2025, 6, 30, 23, 59, 59, tzinfo=UTC),
    ),
)


class Clock:
    """CPU and wall time since it was made, or since the last lap."""

    def __init__(self) -> None:
        self.lap()

    def lap(self) -> Cost:
        cpu, wall = time.process_time(), time.perf_counter()
        cost = Cost(cpu - getattr(self, "_cpu", cpu), wall - getattr(self, "_wall", wall))
        self._cpu, self._wall = cpu, wall
        return cost

    def end(self) -> Cost:
        return self.lap()._replace(peak=peak())


def peak() -> float:
    """MiB resident at most. Linux's ru_maxrss counts the process that started this one as well, so it comes second."""
    return _status("VmHWM") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _status(name: str) -> float:
    """A line of the system's note on this process, in MiB; 0 where it keeps none."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return sum(int(line.split()[1]) / 1024 for line in lines if line.startswith(f"{name}:"))


def alone(work: Callable[..., T], *given: object) -> T:
    """Run a function in a process of its own, so that its memory is its own."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(work, *given).result()


# -- building ------------------------------------------------------------------


@dataclass(frozen=True)
class Data:
    """A folder with the same messages in every engine."""

    folder: Path
    messages: int

    @property
    def home(self) -> Path:
        return self.folder / "library"

    @property
    def database(self) -> Path:
        return self.home / "users" / "default" / "library.db"

    @property
    def bare(self) -> Path:
        return self.folder / "bare.db"

    @property
    def tantivy(self) -> Path:
        return self.folder / "tantivy"

    @property
    def built(self) -> Path:
        """What building cost; written last."""
        return self.folder / "built.json"


def build(data: Data) -> dict[str, Cost]:
    if data.built.exists():
        return {name: Cost(*cost) for name, cost in json.loads(data.built.read_text()).items()}
    shutil.rmtree(data.folder, ignore_errors=True)
    data.folder.mkdir(parents=True)
    export = data.folder / "conversations.json"
    _say(f"Writing an export of {data.messages:,} messages")
    corpus.write_chatgpt_export(export, data.messages)
    _say("Importing")
    costs = {"import": alone(imported, data.home, export)}
    export.unlink()
    _say("Indexing")
    costs |= alone(indexed, data.home)
    for name, tokenizer in TOKENIZERS.items():
        _say(f"Building {name}")
        costs[name] = alone(built_fts5, data, name, tokenizer)
    _say("Building Tantivy")
    costs["Tantivy"] = alone(built_tantivy, data)
    data.built.write_text(json.dumps(costs))
    return costs


def imported(home: Path, export: Path) -> Cost:
    with recollect.open(home) as library:
        clock = Clock()
        library.import_path(export)
        return clock.end()


def indexed(home: Path) -> dict[str, Cost]:
    """The steps of indexing, told apart by what they report; what comes after a step's last report is the next's."""
    costs: dict[str, Cost] = {}
    with recollect.open(home) as library:
        clock = Clock()

        def report(what: str, _done: int, _total: int) -> None:
            lap, known = clock.lap(), costs.get(what, Cost(0, 0))
            costs[what] = Cost(known.cpu + lap.cpu, known.wall + lap.wall)

        library.index(report)
        report("Embedding", 0, 0)
    return {name.lower(): cost._replace(peak=peak()) for name, cost in costs.items()}


def _messages(data: Data) -> Iterator[tuple[Any, ...]]:
    db = apsw.Connection(str(data.database), flags=apsw.SQLITE_OPEN_READONLY)
    yield from db.execute(
        "select key, role, created_at, content from passage where visibility <> 'hidden' order by key"
    )
    db.close()


def built_fts5(data: Data, name: str, tokenizer: str) -> Cost:
    db = apsw.Connection(str(data.bare))
    db.execute("pragma journal_mode = off; pragma synchronous = off").fetchall()
    with db:
        if not db.execute("select count(*) from sqlite_schema where name = 'message'").get:
            db.execute(
                "create table message (key integer primary key, role text, created_at integer, content text)"
            )
            db.executemany("insert into message values (?, ?, ?, ?)", _messages(data))
    clock = Clock()
    with db:
        db.execute(
            f'create virtual table "{name}" using fts5(content, content=message, content_rowid=key, '
            f"tokenize='{tokenizer}')"
        )
        db.execute(f'insert into "{name}" (rowid, content) select key, content from message')
    db.close()
    return clock.end()


def _schema() -> tantivy.Schema:
    builder = tantivy.SchemaBuilder()
    builder.add_text_field("text")
    builder.add_text_field("role", tokenizer_name="raw", index_option="basic")
    builder.add_integer_field("created_at", fast=True)
    builder.add_unsigned_field("key", fast=True)
    return builder.build()


def built_tantivy(data: Data) -> Cost:
    data.tantivy.mkdir()
    clock = Clock()
    index = tantivy.Index(_schema(), path=str(data.tantivy))
    writer = index.writer(256_000_000, 1)
    for key, role, created_at, content in _messages(data):
        entry = tantivy.Document()
        entry.add_text("text", content)
        entry.add_text("role", role)
        entry.add_unsigned("key", key)
        if created_at is not None:
            entry.add_integer("created_at", created_at)
        writer.add_document(entry)
    writer.commit()
    writer.wait_merging_threads()
    return clock.end()


# -- engines -------------------------------------------------------------------

Engine = Callable[[Asked, Only], int]
"""Answers a query and says how many it found, or how many there are."""


def typed(asked: Asked) -> str:
    """A query as a person types it."""
    match asked.kind:
        case "prefix":
            return asked.words[0] + "*"
        case "phrase":
            return f'"{" ".join(asked.words)}"'
        case "two words, AND":
            return " AND ".join(asked.words)
        case "three words, OR":
            return " OR ".join(asked.words)
    return " ".join(asked.words)


def ours(library: recollect.Library, mode: str) -> Engine:
    def answer(asked: Asked, only: Only) -> int:
        roles = (only.role,) if only.role else ()
        return library.search(
            typed(asked),
            Filter.of(roles=roles, after=only.after, before=only.before),
            SearchOptions(mode=mode, limit=LIMIT),
        ).total

    return answer


def _conditions(only: Only) -> tuple[str, list[object]]:
    if only.role:
        return "and m.role = ?", [only.role]
    if only.after and only.before:
        return "and m.created_at between ? and ?", [_micros(only.after), _micros(only.before)]
    return "", []


def _micros(moment: datetime) -> int:
    return int(moment.timestamp() * 1_000_000)


def fts5(db: apsw.Connection, table: str) -> Engine:
    def answer(asked: Asked, only: Only) -> int:
        words = [f'"{word}"' for word in asked.words]
        match asked.kind:
            case "prefix":
                match = words[0] + "*"
            case "phrase":
                match = f'"{" ".join(asked.words)}"'
            case "two words, AND":
                match = " AND ".join(words)
            case _:
                match = " OR ".join(words)
        where, values = _conditions(only)
        source = f'"{table}" t join message m on m.key = t.rowid' if where else f'"{table}" t'
        sql = (
            f'select t.rowid from {source} where "{table}" match ? {where} order by t.rank limit ?'
        )
        return len(db.execute(sql, (match, *values, LIMIT)).fetchall())

    return answer


def like(db: apsw.Connection) -> Engine:
    def answer(asked: Asked, only: Only) -> int:
        sought = (
            [f"%{w}%" for w in asked.words]
            if asked.kind[-3:] in ("AND", " OR")
            else [f"%{' '.join(asked.words)}%"]
        )
        match = (" or " if asked.kind.endswith("OR") else " and ").join(
            ["m.content like ?"] * len(sought)
        )
        where, values = _conditions(only)
        sql = f"select m.key from message m where ({match}) {where} order by m.created_at desc limit ?"
        return len(db.execute(sql, (*sought, *values, LIMIT)).fetchall())

    return answer


def bare_tantivy(index: tantivy.Index) -> Engine:
    searcher, schema = index.searcher(), index.schema

    def answer(asked: Asked, only: Only) -> int:
        if asked.kind == "prefix":
            query = Query.regex_query(schema, "text", asked.words[0] + ".*")
        else:
            query = index.parse_query(typed(asked), ["text"])
        filters = []
        if only.role:
            filters.append(Query.term_query(schema, "role", only.role, "basic"))
        if only.after and only.before:
            filters.append(
                Query.range_query(
                    schema,
                    "created_at",
                    FieldType.Integer,
                    _micros(only.after),
                    _micros(only.before),
                )
            )
        if filters:
            query = Query.boolean_query(
                [
                    (Occur.Must, query),
                    *((Occur.Must, Query.const_score_query(f, 0.0)) for f in filters),
                ]
            )
        hits = searcher.search(query, LIMIT, count=False).hits
        return len(searcher.fast_field_values("key", [address for _, address in hits]))

    return answer


# -- measuring -----------------------------------------------------------------


class Times:
    """The times of some queries in milliseconds, each the median of its rounds."""

    def __init__(self, cpu: list[float], wall: list[float]) -> None:
        self.cpu, self.wall = sorted(cpu), sorted(wall)

    def at(self, percent: int) -> float:
        return self.cpu[max(0, math.ceil(len(self.cpu) * percent / 100) - 1)]

    @property
    def p50(self) -> float:
        return statistics.median(self.cpu)


def measured(answer: Engine, queries: Sequence[Asked], only: Only) -> Times:
    """The first queries warm up and do not count."""
    deadline = time.perf_counter() + SECONDS
    for asked in queries[:WARMING]:
        answer(asked, only)
        if time.perf_counter() > deadline - SECONDS * 0.8:
            break
    cpu: dict[Asked, list[float]] = {}
    wall: dict[Asked, list[float]] = {}
    for turn in range(ROUNDS):
        for asked in queries[WARMING:]:
            if time.perf_counter() > deadline and (turn or len(cpu) >= LEAST):
                break
            clock = Clock()
            answer(asked, only)
            lap = clock.lap()
            cpu.setdefault(asked, []).append(lap.cpu * 1000)
            wall.setdefault(asked, []).append(lap.wall * 1000)
    return Times(
        [statistics.median(t) for t in cpu.values()], [statistics.median(t) for t in wall.values()]
    )


START = """
import sys, time
import recollect
with recollect.open(sys.argv[1]) as library:
    library.search(sys.argv[2], options=recollect.SearchOptions(mode=sys.argv[3], limit=10))
    print(time.process_time(), time.monotonic() - float(sys.argv[4]))
"""


def started(data: Data, mode: str, queries: Sequence[Asked], cold: bool) -> Cost:
    """From the start of a process to its first answer. The first start only has the programs compiled."""
    costs = []
    compiled = {"PYTHONPYCACHEPREFIX": str(data.folder / "compiled"), "PYTHONDONTWRITEBYTECODE": ""}
    for asked in queries[: 1 + STARTS]:
        if cold:
            _leave_memory(data.home)
        program = [
            sys.executable,
            "-c",
            START,
            str(data.home),
            typed(asked),
            mode,
            str(time.monotonic()),
        ]
        done = subprocess.run(
            program, env=os.environ | compiled, capture_output=True, text=True, check=True
        )
        costs.append(tuple(map(float, done.stdout.split())))
    return Cost(*map(statistics.median, zip(*costs[1:], strict=True)))


def _leave_memory(folder: Path) -> None:
    """Let the system forget what it keeps of these files."""
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def memory(data: Data, mode: str, queries: Sequence[Asked]) -> tuple[float, float]:
    """The peak of a process that only searches, and what of its memory is not files, in MiB."""
    with recollect.open(data.home) as library:
        answer = ours(library, mode)
        for asked in queries:
            answer(asked, ONLY[0])
        return peak(), _status("RssAnon")


# -- showing -------------------------------------------------------------------


def _say(what: str) -> None:
    print(what, file=sys.stderr, flush=True)


def _row(*cells: object) -> None:
    print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)


def _head(*cells: str) -> None:
    print()
    _row(*cells)
    print("|---" * len(cells) + "|")


def _ms(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 1 else f"{value:.2f}"


def show_building(data: Data, costs: dict[str, Cost]) -> None:
    _head("build", "CPU s", "wall s", "messages / CPU s", "peak MiB")
    for name, cost in costs.items():
        rate = f"{data.messages / cost.cpu:,.0f}"
        _row(name, f"{cost.cpu:.1f}", f"{cost.wall:.1f}", rate, f"{cost.peak:.0f}")
    ours = [cost for name, cost in costs.items() if name in ("import", "sealing", "embedding")]
    cpu = sum(c.cpu for c in ours)
    _row(
        "**Recollect in all**",
        f"{cpu:.1f}",
        f"{sum(c.wall for c in ours):.1f}",
        f"{data.messages / cpu:,.0f}",
        f"{max(c.peak for c in ours):.0f}",
    )


PARTS = {
    "passage": "messages",
    "passage_text_": "FTS5",
    "word": "words and stems",
    "vector": "vectors in the database",
}


def show_sizes(data: Data) -> None:
    db = apsw.Connection(str(data.database))
    sizes: dict[str, int] = {}
    tables = "select s.tbl_name, s.type, d.pages from (select name, sum(pgsize) as pages from dbstat group by name) d"
    for table, type_, size in db.execute(f"{tables} join sqlite_schema s on s.name = d.name"):
        part = next(
            (p for start, p in reversed(PARTS.items()) if table.startswith(start)),
            "everything else in it",
        )
        if part == "messages" and type_ == "index":
            part = "indexes of messages"
        sizes[part] = sizes.get(part, 0) + size
    sizes["everything else in it"] += 4096 * db.execute("pragma freelist_count").get
    db.close()
    index = data.database.with_name("index")
    sizes |= {"volumes": _bytes(index / "volumes"), "vector files": _bytes(index / "vectors")}
    _head("on disk", "MB", "bytes a message")
    for part, size in [*sizes.items(), ("**Recollect in all**", sum(sizes.values()))]:
        _row(part, f"{size / 1e6:,.1f}", f"{size / data.messages:,.0f}")
    for name, size in (("bare Tantivy", _bytes(data.tantivy)), *_bare_sizes(data).items()):
        _row(f"beside it: {name}", f"{size / 1e6:,.1f}", f"{size / data.messages:,.0f}")


def _bare_sizes(data: Data) -> dict[str, int]:
    db = apsw.Connection(str(data.bare))
    counted = "select sum(pgsize) from dbstat where name = ?1 or name glob ?1 || '_*'"
    return {
        f"plain {name}" if name in TOKENIZERS else "its messages": db.execute(counted, (name,)).get
        for name in (*TOKENIZERS, "message")
    }


def _bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


Results = dict[tuple[str, str, str], Times]
"""By engine, kind and filter."""


def ask(data: Data, queries: dict[str, list[Asked]]) -> Results:
    results: Results = {}
    with recollect.open(data.home) as library:
        db = apsw.Connection(str(data.bare), flags=apsw.SQLITE_OPEN_READONLY)
        index = tantivy.Index.open(str(data.tantivy))
        engines: dict[str, Engine] = {
            "text": ours(library, "text"),
            "both": ours(library, "both"),
            **{name: fts5(db, name) for name in TOKENIZERS},
            "LIKE": like(db),
            "Tantivy": bare_tantivy(index),
        }
        _head(
            "query", "of", "matches", *(f"{e} ms" for e in engines), "FTS5 / text", "text / Tantivy"
        )
        for kind, some in queries.items():
            for only in ONLY:
                matches = statistics.median(
                    engines["text"](asked, only) for asked in some[WARMING:]
                )
                times = {name: measured(engine, some, only) for name, engine in engines.items()}
                results |= {(name, kind, only.name): t for name, t in times.items()}
                p50 = {name: t.p50 for name, t in times.items()}
                _row(
                    kind,
                    only.name,
                    f"{matches:,.0f}",
                    *map(_ms, p50.values()),
                    _ms(p50["FTS5"] / p50["text"]),
                    _ms(p50["text"] / p50["Tantivy"]),
                )
        db.close()
        print(f"\nSegments of bare Tantivy: {index.searcher().num_segments}.")
    return results


def show_spread(results: Results) -> None:
    columns = [
        f"{mode} {what}" for mode in ("text", "both") for what in ("p50", "p95", "p99", "wall p50")
    ]
    _head("Recollect, ms", "of", *columns)
    for kind, only in dict.fromkeys((kind, only) for _, kind, only in results):
        each = [results[mode, kind, only] for mode in ("text", "both")]
        cells = [c for t in each for c in (t.at(50), t.at(95), t.at(99), statistics.median(t.wall))]
        _row(kind, only, *map(_ms, cells))


def show_starts(data: Data, queries: Sequence[Asked]) -> None:
    can_forget = hasattr(os, "posix_fadvise")
    _head("from start to first answer, a question", "files in memory", "CPU ms", "wall ms")
    for mode in ("text", "both"):
        for cold in (False, True)[: 1 + can_forget]:
            cost = started(data, mode, queries, cold)
            _row(mode, "no" if cold else "yes", f"{cost.cpu * 1000:.0f}", f"{cost.wall * 1000:.0f}")


def show_memory(data: Data, queries: dict[str, list[Asked]]) -> None:
    every = [asked for some in queries.values() for asked in some]
    _head("memory while searching", "peak MiB", "of that its own, not files")
    for mode in ("text", "both"):
        most, own = alone(memory, data, mode, every)
        _row(mode, f"{most:.0f}", f"{own:.0f}")


def show_appends(data: Data) -> None:
    """The conversation is removed again, so that a folder that is kept stays as it is."""
    appended, found = [], []
    with recollect.open(data.home) as library:
        chat = library.add_conversation(title="Live")
        library.search("warm up", options=SearchOptions(mode="text"))
        for n in range(APPENDS):
            clock = Clock()
            library.add_message(chat.id, "user", f"appended needle{n}live and some more words")
            appended.append(clock.lap())
            total = library.search(
                f"needle{n}live", options=SearchOptions(mode="text", limit=LIMIT)
            ).total
            found.append(clock.lap())
            assert total == 1, f"needle{n}live was found {total} times"
        library.delete_conversation(chat.id)
    _head("one append", "CPU ms p50", "wall ms p50", "wall ms p99")
    for name, costs in (
        ("until durable and searchable", appended),
        ("then searched for by its word", found),
    ):
        cpu, wall = (sorted(c[n] * 1000 for c in costs) for n in (0, 1))
        _row(
            name,
            *map(
                _ms, (statistics.median(cpu), statistics.median(wall), wall[int(len(wall) * 0.99)])
            ),
        )


def embedding(data: Data, queries: Sequence[Asked]) -> float:
    """CPU milliseconds to make the vector of a question."""
    with recollect.open(data.home) as library:
        meaning = Meaning(library._store)
        space = meaning.space()
        assert space is not None, "there are no vectors"

        def answer(asked: Asked, _only: Only) -> int:
            meaning.vector(space, typed(asked))
            return 1

        return measured(answer, queries, ONLY[0]).p50


def show_goals(results: Results, embedded: float) -> None:
    question = {
        engine: results[engine, "question", "all"].p50
        for engine in ("text", "both", "FTS5", "Tantivy")
    }
    faster = question["FTS5"] / question["text"]
    slower = question["text"] / question["Tantivy"]
    both = question["both"] - embedded
    slowest = max(
        (t.p50 - embedded, kind, only)
        for (engine, kind, only), t in results.items()
        if engine == "both"
    )
    _head("goal at 1,000,000", "here", "met")
    _row(
        "a question in `text` is 50 times faster than plain FTS5",
        f"{faster:.0f} times",
        _met(faster >= 50),
    )
    _row(
        "and takes at most 3 times as long as in bare Tantivy",
        f"{slower:.1f} times",
        _met(slower <= 3),
    )
    _row(
        "a question in `both` takes under 60 ms beyond its embedding",
        f"{both:.1f} ms (embedding {embedded:.2f})",
        _met(both < 60),
    )
    _row(
        "and so does every other kind, filtered or not",
        f"{slowest[0]:.1f} ms ({slowest[1]}, {slowest[2]})",
        _met(slowest[0] < 60),
    )


def _met(yes: bool) -> str:
    return "yes" if yes else "**no**"


# -- all of it -----------------------------------------------------------------


@contextmanager
def folder_for(keep: Path | None) -> Iterator[Path]:
    if keep is not None:
        yield keep
    else:
        with tempfile.TemporaryDirectory() as folder:
            yield Path(folder)


def show(data: Data) -> None:
    print(f"\n## {data.messages:,} messages")
    costs = build(data)
    show_building(data, costs)
    show_sizes(data)
    queries = corpus.many_queries(WARMING + QUERIES)
    results = ask(data, queries)
    show_spread(results)
    show_starts(data, queries["question"])
    show_memory(data, queries)
    show_appends(data)
    if data.messages >= 1_000_000:
        show_goals(results, embedding(data, queries["question"]))


def main(sizes: Sequence[int], keep: Path | None = None) -> None:
    os.environ["RECOLLECT_INDEXING"] = "manual"
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {0})
    with folder_for(keep) as folder:
        for messages in sizes:
            show(Data(folder / f"speed-{messages}", messages))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description="How fast a large library is searched, and what it costs."
    )
    parser.add_argument(
        "--messages", default="100000,1000000", help="sizes of libraries, with commas between them"
    )
    parser.add_argument(
        "--keep", type=Path, metavar="FOLDER", help="build the libraries here, or use them again"
    )
    given = parser.parse_args()
    main([int(size) for size in given.messages.split(",")], given.keep)
