"""Benchmark search against plain FTS5 and bare Tantivy.

    python -m bench.speed [--sizes 5000,100000,1000000] [--keep FOLDER] [--only PARTS]

All engines contain the same messages and answer the same queries, in one process, on one core, one
after the other. A library in FOLDER is reused. Times are CPU time of the whole process including
threads. Each kind has forty queries, which run once after a warm-up with other queries. Slow
engines run fewer queries: they stop after their time budget, but not before five queries.

Plain FTS5 is an external-content table, with words joined by OR, ordered by rank. Bare
Tantivy is one index of text. Both return ten keys; Recollect also loads, ranks, counts and formats
its results.

`use` measures what people do: asking, typing, turning to page 2. `worst` measures the most
expensive queries in a library of a hundred messages of a megabyte each.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import resource
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any, NamedTuple, TypeVar

import apsw
import tantivy
from tantivy import Query

import recollect
from bench import corpus
from bench.corpus import SampleQuery
from recollect.model.search import Page, SearchOptions
from recollect.store.sqlite.connection import connect

T = TypeVar("T")

LIMIT = 10
QUERIES = 40
WARMUP = 6
MIN_QUERIES = 5  # per kind, however slow
SECONDS = 10.0  # time budget for one engine and one kind
TYPED = 12  # queries that are typed, letter by letter
LONG_MESSAGES = 100
LONG_MESSAGE_CHARACTERS = 1_000_000
PARTS = ("building", "queries", "use", "worst")


class Cost(NamedTuple):
    cpu: float
    wall: float
    peak: float = 0.0
    """Peak resident memory in MiB."""


class Clock:
    """CPU and wall time since the last lap."""

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
    """Peak resident memory in MiB.

    ru_maxrss is only the fallback: on Linux it includes the parent process.
    """
    return process_memory("VmHWM") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def process_memory(name: str) -> float:
    """A field of /proc/self/status in MiB; 0 if the system has no such file."""
    status = Path("/proc/self/status")
    if not status.exists():
        return 0.0
    lines = status.read_text().splitlines()
    return sum(int(line.split()[1]) / 1024 for line in lines if line.startswith(f"{name}:"))


def in_own_process(work: Callable[..., T], *arguments: object) -> T:
    """Run a function in a new process, so that its memory is measured separately."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(work, *arguments).result()


# -- building ------------------------------------------------------------------


@dataclass(frozen=True)
class Data:
    """A folder that contains the same messages for every engine."""

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
    def costs_file(self) -> Path:
        """The costs of building. This file is written last."""
        return self.folder / "built.json"


def build(data: Data) -> dict[str, Cost]:
    if data.costs_file.exists():
        return {name: Cost(*cost) for name, cost in json.loads(data.costs_file.read_text()).items()}
    shutil.rmtree(data.folder, ignore_errors=True)
    data.folder.mkdir(parents=True)
    export = data.folder / "conversations.json"
    log(f"Writing an export of {data.messages:,} messages")
    corpus.write_chatgpt_export(export, data.messages)
    log("Importing")
    costs = {"import": in_own_process(run_import, data.home, export)}
    export.unlink()
    log("Indexing")
    costs |= in_own_process(run_indexing, data.home)
    log("Building FTS5")
    costs["FTS5"] = in_own_process(build_fts5, data)
    log("Building Tantivy")
    costs["Tantivy"] = in_own_process(build_tantivy, data)
    data.costs_file.write_text(json.dumps(costs))
    return costs


def run_import(home: Path, export: Path) -> Cost:
    with recollect.open(home) as library:
        clock = Clock()
        library.import_path(export)
        return clock.end()


def run_indexing(home: Path) -> dict[str, Cost]:
    """The cost of each step of indexing, as reported by its progress callback.

    Work after the last report of a step counts for the next step.
    """
    costs: dict[str, Cost] = {}
    with recollect.open(home) as library:
        clock = Clock()

        def report(what: str, _done: int, _total: int) -> None:
            lap = clock.lap()
            total = costs.get(what, Cost(0, 0))
            costs[what] = Cost(total.cpu + lap.cpu, total.wall + lap.wall)

        library.index(report)
        report("Embedding", 0, 0)
    return {name.lower(): cost._replace(peak=peak()) for name, cost in costs.items()}


def _messages(data: Data) -> Iterator[tuple[Any, ...]]:
    db = connect(data.database)
    yield from db.execute(
        "select key, content from passage where visibility <> 'hidden' order by key"
    )
    db.close()


def build_fts5(data: Data) -> Cost:
    db = apsw.Connection(str(data.bare))
    db.execute("pragma journal_mode = off; pragma synchronous = off").fetchall()
    with db:
        db.execute("create table message (key integer primary key, content text)")
        db.executemany("insert into message values (?, ?)", _messages(data))
    clock = Clock()
    with db:
        db.execute(
            "create virtual table FTS5 using fts5(content, content=message, content_rowid=key)"
        )
        db.execute("insert into FTS5 (rowid, content) select key, content from message")
    db.close()
    return clock.end()


def _schema() -> tantivy.Schema:
    builder = tantivy.SchemaBuilder()
    builder.add_text_field("text")
    builder.add_unsigned_field("key", fast=True)
    return builder.build()


def build_tantivy(data: Data) -> Cost:
    data.tantivy.mkdir()
    clock = Clock()
    index = tantivy.Index(_schema(), path=str(data.tantivy))
    writer = index.writer(256_000_000, 1)
    for key, content in _messages(data):
        entry = tantivy.Document()
        entry.add_text("text", content)
        entry.add_unsigned("key", key)
        writer.add_document(entry)
    writer.commit()
    writer.wait_merging_threads()
    return clock.end()


# -- engines -------------------------------------------------------------------

Engine = Callable[[SampleQuery], int]
"""Runs a query and returns the number of results or of matches."""


def query_text(query: SampleQuery) -> str:
    """A query as a user types it."""
    match query.kind:
        case "prefix":
            return query.words[0] + "*"
        case "phrase":
            return f'"{" ".join(query.words)}"'
        case "two words, AND":
            return " AND ".join(query.words)
        case "three words, OR":
            return " OR ".join(query.words)
    return " ".join(query.words)


def ours(library: recollect.Library, mode: str) -> Engine:
    options = SearchOptions(mode=mode, limit=LIMIT)
    return lambda query: library.search(query_text(query), options=options).total


def fts5(db: apsw.Connection) -> Engine:
    def answer(query: SampleQuery) -> int:
        words = [f'"{word}"' for word in query.words]
        match query.kind:
            case "prefix":
                match = words[0] + "*"
            case "phrase":
                match = f'"{" ".join(query.words)}"'
            case "two words, AND":
                match = " AND ".join(words)
            case _:
                match = " OR ".join(words)
        sql = "select rowid from FTS5 where FTS5 match ? order by rank limit ?"
        return len(db.execute(sql, (match, LIMIT)).fetchall())

    return answer


def bare_tantivy(index: tantivy.Index) -> Engine:
    searcher, schema = index.searcher(), index.schema

    def answer(query: SampleQuery) -> int:
        if query.kind == "prefix":
            engine_query = Query.regex_query(schema, "text", query.words[0] + ".*")
        else:
            engine_query = index.parse_query(query_text(query), ["text"])
        hits = searcher.search(engine_query, LIMIT, count=False).hits
        return len(searcher.fast_field_values("key", [address for _, address in hits]))

    return answer


# -- measuring -----------------------------------------------------------------


def median_and_95th_percentile(times: Sequence[float]) -> tuple[float, float]:
    ordered = sorted(times)
    return statistics.median(ordered), ordered[int(len(ordered) * 0.95)]


def measure(answer: Engine, queries: Sequence[SampleQuery]) -> list[float]:
    """The CPU milliseconds of each query. The first queries warm up and do not count."""
    deadline = time.perf_counter() + SECONDS
    for query in queries[:WARMUP]:
        answer(query)
        if time.perf_counter() > deadline - SECONDS * 0.8:
            break
    times: list[float] = []
    for query in queries[WARMUP:]:
        if time.perf_counter() > deadline and len(times) >= MIN_QUERIES:
            break
        clock = Clock()
        answer(query)
        times.append(clock.lap().cpu * 1000)
    return times


Use = Iterator[tuple[str, list[float], str]]
"""What was done, the CPU milliseconds of each time, and a remark."""


def cpu_milliseconds(action: Callable[[], Page]) -> tuple[float, Page]:
    start = time.process_time()
    page = action()
    return (time.process_time() - start) * 1000, page


def everyday_use(home: Path) -> Use:
    """Asking, typing and turning to the next page in mode `both`, then other queries in `text`."""
    queries = corpus.many_queries(2 * QUERIES + WARMUP)
    questions = [" ".join(query.words) for query in queries["question"]]
    both = SearchOptions(mode="both", limit=LIMIT)
    # The background thread would observe messages meanwhile, and its CPU time would count.
    with recollect.open(home, background=False) as library:

        def milliseconds(text: str, options: SearchOptions) -> float:
            return cpu_milliseconds(lambda: library.search(text, options=options))[0]

        for text in questions[:WARMUP]:
            milliseconds(text, both)
        asked = questions[WARMUP : QUERIES + WARMUP]
        typing = replace(both, typing=True)
        keys = []
        for text in asked[-TYPED:]:
            keys += [milliseconds(text[:end], typing) for end in range(3, len(text) + 1)]
        yield "a key while typing", keys, f"{len(keys)} keys of {TYPED} questions"
        pages: list[list[float]] = [[], []]
        for text in asked:
            for number, page in enumerate(pages):
                page.append(milliseconds(text, replace(both, offset=number * LIMIT)))
        yield "a question", pages[0], ""
        yield "page 2", pages[1], ""
        by_text = replace(both, mode="text")
        others = [milliseconds(text, by_text) for text in questions[QUERIES + WARMUP :]]
        yield "a question, mode text", others, ""
        rare = [milliseconds(" ".join(query.words), by_text) for query in queries["rare word"]]
        yield "a rare word, mode text", rare, ""


def worst_queries(home: Path) -> Use:
    """The most expensive queries in a library of very long messages."""
    with recollect.open(home) as library:
        if not library.size():
            conversation = library.add_conversation(title="Long")
            for text in _long_messages():
                library.add_message(conversation.id, "user", text)
            library.index()
        common = sorted(set(corpus.vocabulary()[:400]))
        queries = {
            "64 common words": " ".join(common[:64]),
            "64 common words, one of which is required": " ".join(common[:63]) + " AND the",
            "symbols only": "=>",
            "symbols that occur nowhere": "=>=>=>=>",
            "a prefix of many words": "s*",
        }
        for name, text in queries.items():
            for mode in ("text", "both"):
                options = SearchOptions(mode=mode, limit=LIMIT)
                cost, page = cpu_milliseconds(
                    lambda t=text, o=options: library.search(t, options=o)
                )
                remark = f"{len(page.hits)} hits, {'partial' if page.partial else 'complete'}"
                yield f"{name}, {mode}", [cost], remark


def _long_messages() -> Iterator[str]:
    rng = Random("long messages")
    texts = [turn.text for turn in corpus.messages(3_000)]
    for _ in range(LONG_MESSAGES):
        parts: list[str] = []
        characters = 0
        while characters < LONG_MESSAGE_CHARACTERS:
            part = rng.choice(texts)
            parts.append(part)
            characters += len(part) + 4
        yield "\n=> ".join(parts)


# -- output --------------------------------------------------------------------


def log(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def table_row(*cells: object) -> None:
    print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)


def table_head(*cells: str) -> None:
    print()
    table_row(*cells)
    print("|---" * len(cells) + "|")


def format_ms(value: float) -> str:
    if value >= 100:
        return f"{value:,.0f}"
    if value >= 1:
        return f"{value:.1f}"
    return f"{value:.2f}"


def show_building(data: Data, costs: dict[str, Cost]) -> None:
    table_head("build", "CPU s", "wall s", "messages / CPU s", "peak MiB")
    for name, cost in costs.items():
        rate = f"{data.messages / cost.cpu:,.0f}"
        table_row(name, f"{cost.cpu:.1f}", f"{cost.wall:.1f}", rate, f"{cost.peak:.0f}")
    ours = [cost for name, cost in costs.items() if name in ("import", "sealing", "embedding")]
    cpu = sum(c.cpu for c in ours)
    table_row(
        "**Recollect in total**",
        f"{cpu:.1f}",
        f"{sum(c.wall for c in ours):.1f}",
        f"{data.messages / cpu:,.0f}",
        f"{max(c.peak for c in ours):.0f}",
    )


TABLES = {
    "passage": "messages",
    "passage_text_": "FTS5",
    "word": "words and stems",
    "vector": "vectors in the database",
}
OTHER_PART = "everything else in the database"


def show_sizes(data: Data) -> None:
    db = apsw.Connection(str(data.database))
    sizes: dict[str, int] = {}
    tables = (
        "select s.tbl_name, s.type, d.pages "
        "from (select name, sum(pgsize) as pages from dbstat group by name) d "
        "join sqlite_schema s on s.name = d.name"
    )
    for table, type_, size in db.execute(tables):
        part = next(
            (p for start, p in reversed(TABLES.items()) if table.startswith(start)),
            OTHER_PART,
        )
        if part == "messages" and type_ == "index":
            part = "indexes of messages"
        sizes[part] = sizes.get(part, 0) + size
    sizes[OTHER_PART] += 4096 * db.execute("pragma freelist_count").get
    db.close()
    index = data.database.with_name("index")
    sizes |= {
        "volumes": folder_size(index / "volumes"),
        "vector files": folder_size(index / "vectors"),
    }
    table_head("on disk", "MB", "bytes per message")
    for part, size in [*sizes.items(), ("**Recollect in total**", sum(sizes.values()))]:
        table_row(part, f"{size / 1e6:,.1f}", f"{size / data.messages:,.0f}")
    for name, size in (("bare Tantivy", folder_size(data.tantivy)), *_bare_sizes(data).items()):
        table_row(f"baseline: {name}", f"{size / 1e6:,.1f}", f"{size / data.messages:,.0f}")


def _bare_sizes(data: Data) -> dict[str, int]:
    db = apsw.Connection(str(data.bare))
    sql = "select sum(pgsize) from dbstat where name = ?1 or name glob ?1 || '_*'"
    sizes = {"plain FTS5": db.execute(sql, ("FTS5",)).get}
    sizes["messages of plain FTS5"] = db.execute(sql, ("message",)).get
    return sizes


def folder_size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def compare_engines(data: Data, queries: dict[str, list[SampleQuery]]) -> None:
    with recollect.open(data.home, background=False) as library:
        db = apsw.Connection(str(data.bare), flags=apsw.SQLITE_OPEN_READONLY)
        engines: dict[str, Engine] = {
            "text": ours(library, "text"),
            "both": ours(library, "both"),
            "FTS5": fts5(db),
            "Tantivy": bare_tantivy(tantivy.Index.open(str(data.tantivy))),
        }
        names = [f"{name} ms" for name in engines]
        table_head("query", *names, "FTS5 / text", "text / Tantivy")
        for kind, samples in queries.items():
            p50 = {
                name: statistics.median(measure(engine, samples))
                for name, engine in engines.items()
            }
            ratios = (p50["FTS5"] / p50["text"], p50["text"] / p50["Tantivy"])
            table_row(kind, *map(format_ms, (*p50.values(), *ratios)))
        db.close()


def show_use(rows: Use) -> None:
    table_head("use", "CPU ms p50", "p95", "")
    for name, times, remark in rows:
        table_row(name, *map(format_ms, median_and_95th_percentile(times)), remark)


# -- the whole run -------------------------------------------------------------


@contextmanager
def folder_for(keep: Path | None) -> Iterator[Path]:
    if keep is not None:
        yield keep
    else:
        with tempfile.TemporaryDirectory() as folder:
            yield Path(folder)


def show(data: Data, parts: Sequence[str]) -> None:
    print(f"\n## {data.messages:,} messages")
    costs = build(data)
    queries = corpus.many_queries(WARMUP + QUERIES)
    if "building" in parts:
        show_building(data, costs)
        show_sizes(data)
    if "queries" in parts:
        compare_engines(data, queries)
    if "use" in parts:
        show_use(everyday_use(data.home))


def main(sizes: Sequence[int], parts: Sequence[str], keep: Path | None = None) -> None:
    os.environ["RECOLLECT_INDEXING"] = "manual"
    os.environ["RECOLLECT_OBSERVER"] = "off"
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {0})
    with folder_for(keep) as folder:
        for messages in sizes:
            show(Data(folder / f"speed-{messages}", messages), parts)
        if "worst" in parts:
            print(f"\n## {LONG_MESSAGES} messages of a megabyte")
            show_use(worst_queries(folder / "speed-long"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Benchmark search in a large library.")
    parser.add_argument(
        "--sizes", default="5000,100000,1000000", help="messages per library, separated by commas"
    )
    parser.add_argument(
        "--keep", type=Path, metavar="FOLDER", help="build the libraries here, or reuse them"
    )
    parser.add_argument(
        "--only", default=",".join(PARTS), help=f"what to measure: {', '.join(PARTS)}"
    )
    arguments = parser.parse_args()
    main(
        [int(size) for size in arguments.sizes.split(",")],
        arguments.only.split(","),
        arguments.keep,
    )
