"""A team on PostgreSQL, beside the same people on SQLite, in one run.

    python -m bench.teams [--messages 1000000] [--users 50] [--embed-users 3] [--keep FOLDER]

The messages are those of people of very different size, made by
`bench/corpus.py` with a seed each; both places hold the same. The largest person's
come from a real import of a ChatGPT export, those of the others are saved as an
import saves them, ten thousand a transaction, but without a file to read: that
is faster, and said apart. Vectors are made for as many people as
`--embed-users` says: the largest, a small one, a middle one, then the others.
A folder that is kept is used again; a step of building that was cut short is
done again, and its cost is then of what was left.

The server is one of our own (`bench/server.py`), on a socket, with the settings
of a real one: what is acknowledged is on disk. After loading, VACUUM (ANALYZE)
is run once, as autovacuum does sooner or later.

Times are milliseconds, wall time unless CPU is said: that is of our own process,
the server's (on average) stands apart. Each kind has forty queries, asked three times after others have warmed
up; a query counts with its median, and `first` is when it was asked for the
first time, before anything about its words was remembered. What is slow is
asked less: no further once it has had its seconds, but five queries at least.

Beside a question stands what one would write first: one table of all people's
messages with a tsvector of to_tsvector('simple'), found by GIN, ordered by
ts_rank, under the same row-level security, ten keys.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import os
import shutil
import signal
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import psycopg

import recollect
from bench import corpus
from bench.corpus import Asked
from bench.server import SETTINGS, Server
from bench.speed import (
    APPENDS,
    LEAST,
    LIMIT,
    ONLY,
    QUERIES,
    ROUNDS,
    WARMING,
    Clock,
    Cost,
    Times,
    _bytes,
    _head,
    _met,
    _ms,
    _row,
    _say,
    _status,
    alone,
    folder_for,
    ours,
    peak,
    typed,
)
from recollect.errors import SearchTimeout
from recollect.language.query import content_words, parse_query
from recollect.language.text import tokens
from recollect.model.documents import Document
from recollect.model.search import SearchOptions
from recollect.store.postgres.migrations import FUNCTIONS, MIGRATIONS
from recollect.transfer.importing import BATCH

SECONDS = 20.0  # for one place and one kind
READING = 20.0  # seconds that many read at once
READY = 120.0  # seconds in which all of them must be ready
READERS = ((1, 32), (4, 8))  # processes, and threads in each
GOAL = 10  # times faster than ts_rank over GIN
SMALL = 1_500  # messages of a small person, about
KINDS = (
    ("question", "text"),
    ("question", "vector"),
    ("question", "both"),
    ("common word", "text"),
    ("phrase", "text"),
    ("prefix", "text"),
)
POSTGRES, SQLITE = "PostgreSQL", "SQLite"


# -- the team --------------------------------------------------------------------


class Person(NamedTuple):
    name: str
    messages: int
    seed: int


def people(messages: int, count: int) -> tuple[Person, ...]:
    """The largest first: of 50 with a million, it has 182,000, the tenth 27,000, the last 400."""
    weights = [(19 + 49 * n / max(count - 1, 1)) ** -4.8 for n in range(count)]
    sizes = [max(1, round(messages * w / sum(weights))) for w in weights]
    sizes[0] += messages - sum(sizes)
    return tuple(Person(f"person-{n:02}", size, n) for n, size in enumerate(sizes))


@dataclass(frozen=True)
class Team:
    folder: Path
    people: tuple[Person, ...]
    embedding: int
    """For how many there are vectors."""
    url: str = ""

    @property
    def home(self) -> Path:
        return self.folder / "sqlite"

    @property
    def places(self) -> dict[str, str | Path]:
        return {POSTGRES: self.url, SQLITE: self.home}

    @property
    def largest(self) -> Person:
        return self.people[0]

    @property
    def small(self) -> Person:
        return min(self.people, key=lambda p: abs(p.messages - SMALL))

    @property
    def embedded(self) -> tuple[Person, ...]:
        first = (self.largest, self.small, self.people[len(self.people) // 4])
        return tuple(dict.fromkeys((*first, *self.people)))[: self.embedding]

    @property
    def messages(self) -> int:
        return sum(p.messages for p in self.people)


# -- building ----------------------------------------------------------------------


class Built:
    """What each step of building cost, kept in a file: a step is done once."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "built.json"
        self.costs: dict[str, Cost] = {}
        if self._file.exists():
            self.costs = {
                name: Cost(*cost) for name, cost in json.loads(self._file.read_text()).items()
            }

    def step(self, name: str, work: Callable[[], dict[str, Cost]]) -> None:
        if name in self.costs:
            return
        _say(name)
        clock = Clock()
        found = work()
        self.costs |= found | {name: clock.end()}
        self._file.write_text(json.dumps(self.costs))


def build(team: Team, built: Built) -> None:
    built.step("Importing the largest", lambda: _import(team))
    built.step("Saving the others", lambda: alone(saved, team))
    for name, place in team.places.items():
        others = tuple(p for p in team.people if p not in team.embedded)
        built.step(
            f"Indexing, {name}, {team.embedding}",
            lambda name=name, place=place, others=others: {  # type: ignore[misc]
                f"{what}, {name}": cost
                for some, embed in ((others, False), (team.embedded, True))
                for what, cost in alone(indexed, place, some, embed).items()
            },
        )
    built.step("Filling the plain table", lambda: _plain_table(team))
    built.step(f"VACUUM (ANALYZE), {team.embedding}", lambda: _analyze(team))


def _import(team: Team) -> dict[str, Cost]:
    export = team.folder / "conversations.json"
    corpus.write_chatgpt_export(export, team.largest.messages, team.largest.seed)
    costs = {
        f"import, {name}": alone(imported, place, team.largest, export)
        for name, place in team.places.items()
    }
    export.unlink()
    return costs


def imported(place: str | Path, person: Person, export: Path) -> Cost:
    with recollect.open(place, person.name, background=False) as library:
        clock = Clock()
        library.import_path(export)
        return clock.end()


def saved(team: Team) -> dict[str, Cost]:
    """Everybody but the largest, batch by batch in turns."""
    spent = {name: Cost(0, 0) for name in team.places}
    for person in team.people[1:]:
        with ExitStack() as stack:
            stores = {
                name: stack.enter_context(
                    recollect.open(place, person.name, background=False)
                )._store
                for name, place in team.places.items()
            }
            for batch in _batches(person):
                for name, store in stores.items():
                    clock = Clock()
                    store.save(batch)
                    spent[name] = _sum(spent[name], clock.lap())
    return {f"saving, {name}": cost for name, cost in spent.items()}


def _batches(person: Person) -> Iterator[list[Document]]:
    batch: list[Document] = []
    size = 0
    for document in corpus.documents(person.messages, person.seed):
        batch.append(document)
        size += len(document.passages)
        if size >= BATCH:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _sum(one: Cost, other: Cost) -> Cost:
    return Cost(one.cpu + other.cpu, one.wall + other.wall, max(one.peak, other.peak))


def indexed(place: str | Path, some: Sequence[Person], embed: bool) -> dict[str, Cost]:
    """The steps of indexing, told apart by what they report; what comes after a step's last report is the next's."""
    os.environ["RECOLLECT_EMBEDDINGS"] = "static" if embed else "off"
    costs: dict[str, Cost] = {}
    for person in some:
        with recollect.open(place, person.name, background=False) as library:
            clock = Clock()

            def report(what: str, _done: int, _total: int, clock: Clock = clock) -> None:
                costs[what] = _sum(costs.get(what, Cost(0, 0)), clock.end())

            library.index(report)
            report("Embedding" if embed else "Sealing", 0, 0)
    return {
        what.lower() if embed else f"{what.lower()} the others": cost
        for what, cost in costs.items()
    }


PLAIN = """
create schema plain;
create table plain.message (
  owner integer not null,
  key bigint not null,
  content text not null,
  words tsvector generated always as (to_tsvector('simple', content)) stored,
  primary key (owner, key)
);
insert into plain.message (owner, key, content)
  select owner, key, content from recollect.passage where visibility <> 'hidden' order by owner, key;
create index message_words on plain.message using gin (words);
create index message_owner_words on plain.message using gin (owner, words);
alter table plain.message enable row level security;
alter table plain.message force row level security;
create policy own on plain.message using (owner = nullif(current_setting('recollect.owner', true), '')::integer);
create role plain_reader nologin nobypassrls;
grant usage on schema plain to plain_reader;
grant select on plain.message to plain_reader;
"""


def _plain_table(team: Team) -> dict[str, Cost]:
    with psycopg.connect(team.url, autocommit=True) as db:
        db.execute("create extension if not exists btree_gin")
        db.execute("drop schema if exists plain cascade; drop role if exists plain_reader")
        db.execute("set maintenance_work_mem = '1GB'")
        db.execute(PLAIN)
    return {}


def _analyze(team: Team) -> dict[str, Cost]:
    with psycopg.connect(team.url, autocommit=True) as db:
        db.execute("vacuum (analyze)")
        db.execute("checkpoint")
    return {}


# -- measuring ----------------------------------------------------------------------

Answer = Callable[[Asked], object]


@dataclass(frozen=True)
class Timed:
    """Times of some queries: as they usually are, and when each was asked for the first time."""

    usual: Times
    first: Times
    ours: float
    """CPU milliseconds of our process, on average."""
    server: float
    """And of the server, whatever it did meanwhile."""
    stopped: int
    """Searches that took longer than a search may."""

    @property
    def wall(self) -> float:
        return statistics.median(self.usual.wall)

    @property
    def cpu(self) -> float:
        return self.ours + self.server


def at(times: Sequence[float], percent: float) -> float:
    """Of times in order."""
    return times[min(int(len(times) * percent / 100), len(times) - 1)] if times else 0.0


def timed(answer: Answer, queries: Sequence[Asked], server: Server) -> Timed:
    """The first queries warm up and do not count."""
    deadline = time.perf_counter() + SECONDS
    for asked in queries[:WARMING]:
        with suppress(SearchTimeout):
            answer(asked)
        if time.perf_counter() > deadline - SECONDS * 0.8:
            break
    laps: dict[Asked, list[Cost]] = {}
    stopped, spent = 0, server.cpu()
    for turn in range(ROUNDS):
        for asked in queries[WARMING:]:
            if time.perf_counter() > deadline and (turn or len(laps) >= LEAST):
                break
            clock = Clock()
            try:
                answer(asked)
            except SearchTimeout:
                stopped += 1
            else:
                laps.setdefault(asked, []).append(clock.lap())
    spent = server.cpu() - spent
    count = sum(map(len, laps.values()))
    return Timed(
        _times(laps.values(), statistics.median),
        _times(laps.values(), lambda each: next(iter(each))),
        sum(lap.cpu for each in laps.values() for lap in each) * 1000 / count,
        spent * 1000 / count,
        stopped,
    )


def _times(laps: Any, one: Callable[[Any], float]) -> Times:
    return Times(
        [one(c.cpu * 1000 for c in each) for each in laps],
        [one(c.wall * 1000 for c in each) for each in laps],
    )


def recollected(library: recollect.Library, mode: str) -> Answer:
    search = ours(library, mode)
    return lambda asked: search(asked, ONLY[0])


# -- what one would write first --------------------------------------------------------


@contextmanager
def plain(
    team: Team, person: Person, without: str, telling: bool, secure: bool = True
) -> Iterator[Answer]:
    """The statement, with one of the two indexes: the other is dropped in a transaction that is taken back."""
    with psycopg.connect(team.url) as db:
        (owner,) = db.execute(
            "select id from recollect.account where name = %s", [person.name]
        ).fetchone() or (0,)
        db.execute(f"drop index plain.{without}")
        if secure:
            db.execute("set local role plain_reader")
        db.execute("select set_config('recollect.owner', %s, true)", [str(owner)])
        whose = "" if secure else f"owner = {owner} and "
        sql = (
            f"select key from plain.message where {whose}words @@ to_tsquery('simple', %(words)s) "
            f"order by ts_rank(words, to_tsquery('simple', %(words)s)) desc limit {LIMIT}"
        )

        def answer(asked: Asked) -> object:
            words = _telling(asked) if telling else asked.words
            return db.execute(
                sql, {"words": " | ".join(f"'{w}'" for w in words)}, prepare=False
            ).fetchall()

        yield answer
        db.rollback()


def _telling(asked: Asked) -> list[str]:
    """The words that say what is asked about, as Recollect sees it."""
    node = parse_query(typed(asked)).node
    assert node is not None
    return [token for word in content_words(node) for token in tokens(word.text)]


# -- showing ----------------------------------------------------------------------------


def show_building(team: Team, built: Built) -> None:
    others = team.messages - team.largest.messages
    embedded = sum(p.messages for p in team.embedded)
    _head(
        "build",
        "messages",
        "place",
        "wall s",
        "our CPU s",
        "messages / s",
        "messages / our CPU s",
        "peak MiB",
    )
    for what, name, messages in (
        ("import of an export (the largest)", "import", team.largest.messages),
        ("saving, no file (the others)", "saving", others),
        ("sealing (the others)", "sealing the others", others),
        ("sealing (with vectors)", "sealing", embedded),
        ("embedding", "embedding", embedded),
    ):
        for place in team.places:
            cost = built.costs.get(f"{name}, {place}")
            if cost is not None and cost.wall > 0.1:
                rates = (
                    f"{messages / max(seconds, 0.001):,.0f}" for seconds in (cost.wall, cost.cpu)
                )
                most = f"{cost.peak:.0f}" if cost.peak else "–"
                _row(
                    what,
                    f"{messages:,}",
                    place,
                    f"{cost.wall:.1f}",
                    f"{cost.cpu:.1f}",
                    *rates,
                    most,
                )


Results = dict[tuple[str, str, str, str], Timed]
"""By person, kind, mode and place."""


def show_searches(team: Team, server: Server) -> Results:
    results: Results = {}
    columns = [
        f"{POSTGRES} {what}"
        for what in ("p50", "p95", "first p50", "CPU p50", "CPU p95", "server CPU")
    ]
    columns += [f"{SQLITE} {what}" for what in ("p50", "p95", "CPU p50", "CPU p95")]
    _head("within", "query", "mode", *columns, f"{POSTGRES} / {SQLITE}")
    for person in (team.largest, team.small):
        queries = corpus.many_queries(WARMING + QUERIES, person.seed)
        for kind, mode in KINDS:
            if mode != "text" and person not in team.embedded:
                continue
            each = {}
            for name, place in team.places.items():
                with recollect.open(place, person.name, background=False) as library:
                    each[name] = timed(recollected(library, mode), queries[kind], server)
                results[person.name, kind, mode, name] = each[name]
            there, here = each.values()
            cells = (
                there.wall,
                at(there.usual.wall, 95),
                statistics.median(there.first.wall),
                there.usual.p50,
                there.usual.at(95),
                there.server,
                here.wall,
                at(here.usual.wall, 95),
                here.usual.p50,
                here.usual.at(95),
                there.wall / here.wall,
            )
            _row(f"{person.messages:,}", kind, mode, *map(_ms, cells))
    if stopped := sum(each.stopped for each in results.values()):
        print(f"\n{stopped} searches took so long that they were stopped; they are not counted.")
    return results


def show_agreement(team: Team) -> None:
    """Whether both places give the same, since they hold the same."""
    same, first, count = 0.0, 0, 0
    queries = corpus.many_queries(WARMING + QUERIES, team.largest.seed)["question"][WARMING:]
    with ExitStack() as stack:
        libraries = [
            stack.enter_context(recollect.open(place, team.largest.name, background=False))
            for place in team.places.values()
        ]
        for asked in queries:
            one, other = (
                [
                    h.message_id
                    for h in library.search(
                        typed(asked), options=SearchOptions(mode="text", limit=LIMIT)
                    ).hits
                ]
                for library in libraries
            )
            count += 1
            first += one[:1] == other[:1]
            same += len(set(one) & set(other)) / max(len(one), 1)
    print(
        f"\nOf {count} questions within the largest, both places have the same first hit in {first}, and "
        f"{100 * same / count:.0f} % of the first {LIMIT} in common."
    )


def show_goal(team: Team, server: Server, results: Results) -> None:
    queries = corpus.many_queries(WARMING + QUERIES, team.largest.seed)["question"]
    mine = results[team.largest.name, "question", "text", POSTGRES]
    first = statistics.median(mine.first.wall)
    _head(
        "a question within the largest",
        "p50",
        "p95",
        "/ Recollect",
        "/ Recollect, first time",
        "CPU, ours and the server's",
        "/ Recollect",
    )
    _row(
        "Recollect: ranked, with snippets and totals",
        _ms(mine.wall),
        _ms(at(mine.usual.wall, 95)),
        "1",
        _ms(mine.wall / first),
        _ms(mine.cpu),
        "1",
    )
    _row(
        "Recollect, asked for the first time",
        _ms(first),
        _ms(at(mine.first.wall, 95)),
        _ms(first / mine.wall),
        "1",
        "–",
        "–",
    )
    ratios: list[float] = []
    for words, telling in (("all words", False), ("telling words", True)):
        for index, without, secure in (
            ("gin (words)", "message_owner_words", True),
            ("gin (owner, words)", "message_words", True),
            ("gin (owner, words), no row-level security", "message_words", False),
        ):
            with plain(team, team.largest, without, telling, secure) as answer:
                each = timed(answer, queries, server)
            ratio = each.wall / mine.wall
            if secure and not telling:
                ratios.append(ratio)
            cells = (
                each.wall,
                at(each.usual.wall, 95),
                ratio,
                each.wall / first,
                each.cpu,
                each.cpu / mine.cpu,
            )
            _row(f"ts_rank, {words}, {index}", *map(_ms, cells))
    _head("goal", "here", "met")
    _row(
        f"a question within the largest is {GOAL} times faster than ts_rank over GIN, under row-level security",
        f"{min(ratios):.1f} and {max(ratios):.1f} times",
        _met(min(ratios) >= GOAL),
    )


def show_appends(team: Team) -> None:
    """The conversation is removed again, so that a folder that is kept stays as it is."""
    _head("one append to the largest", "place", "p50", "p95", "max", "CPU p50")
    for name, place in team.places.items():
        appended, found = [], []
        with recollect.open(place, team.largest.name, background=False) as library:
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
        for what, costs in (
            ("until durable and searchable", appended),
            ("then searched for by its word", found),
        ):
            cpu, wall = (sorted(c[n] * 1000 for c in costs) for n in (0, 1))
            _row(
                what,
                name,
                _ms(statistics.median(wall)),
                _ms(at(wall, 95)),
                _ms(wall[-1]),
                _ms(statistics.median(cpu)),
            )


# -- many at once ---------------------------------------------------------------------------


class Read(NamedTuple):
    """What the readers of one process saw."""

    walls: list[float]
    errors: Counter[str]
    cpu: float
    peak: float


def reading(place: str | Path, names: Sequence[str], threads: int, seed: int, ready: Any) -> Read:
    queries = corpus.many_queries(WARMING + QUERIES)["question"]
    walls: list[float] = []
    errors: Counter[str] = Counter()

    def search(number: int) -> None:
        rng = Random(seed * 1_000 + number)
        while (began := time.perf_counter()) < end:
            try:
                rng.choice(libraries).search(
                    typed(rng.choice(queries)), options=SearchOptions(mode="text", limit=LIMIT)
                )
                walls.append((time.perf_counter() - began) * 1000)
            except Exception as error:
                errors[f"{type(error).__name__}: {error}"] += 1

    with ExitStack() as stack:
        libraries = [
            stack.enter_context(recollect.open(place, name, background=False)) for name in names
        ]
        for library in libraries:
            library.search(typed(queries[0]), options=SearchOptions(mode="text", limit=LIMIT))
        ready.wait(READY)
        cpu, end = time.process_time(), time.perf_counter() + READING
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(search, range(threads)))
        return Read(walls, errors, time.process_time() - cpu, peak())


def read_at_once(
    place: str | Path, names: Sequence[str], processes: int, threads: int
) -> list[Read]:
    context = multiprocessing.get_context("spawn")
    with context.Manager() as manager, ProcessPoolExecutor(processes, context) as pool:
        ready = manager.Barrier(processes)
        running = [pool.submit(reading, place, names, threads, n, ready) for n in range(processes)]
        return [each.result() for each in running]


def show_readers(team: Team) -> None:
    names = [p.name for p in team.people]
    _head(
        "32 readers, questions in `text`, random people",
        "place",
        "searches / s",
        "p50",
        "p95",
        "p99",
        "max",
        "errors",
        "our CPU ms a search",
        "peak MiB a process",
    )
    said: Counter[str] = Counter()
    for processes, threads in READERS:
        for name, place in team.places.items():
            found = read_at_once(place, names, processes, threads)
            walls = sorted(w for each in found for w in each.walls)
            errors = sum((each.errors for each in found), Counter())
            said.update({f"{name}: {what}": number for what, number in errors.items()})
            cpu = sum(each.cpu for each in found) * 1000 / max(len(walls), 1)
            _row(
                f"{processes} process{'es' * (processes > 1)} of {threads} threads",
                name,
                f"{len(walls) / READING:.0f}",
                *(_ms(at(walls, p)) for p in (50, 95, 99, 100)),
                errors.total(),
                _ms(cpu),
                f"{max(each.peak for each in found):.0f}",
            )
    for what, number in said.most_common(10):
        print(f"\nError, {number} times: {what}")


# -- what it takes up --------------------------------------------------------------------------

SIZES = """
select parent.relname, sum(pg_relation_size(part.oid))::bigint,
  sum(pg_total_relation_size(part.oid) - pg_relation_size(part.oid) - pg_indexes_size(part.oid))::bigint,
  sum(pg_indexes_size(part.oid))::bigint
from pg_class parent join pg_inherits i on i.inhparent = parent.oid join pg_class part on part.oid = i.inhrelid
where parent.relnamespace = 'recollect'::regnamespace and parent.relkind = 'p'
group by 1 having sum(pg_total_relation_size(part.oid)) > 1000000 order by sum(pg_total_relation_size(part.oid)) desc
"""


def show_sizes(team: Team) -> None:
    embedded = sum(p.messages for p in team.embedded)
    _head("on disk", "MB", "rows", "long values", "indexes", "bytes a message")
    with psycopg.connect(team.url, autocommit=True) as db:
        total = 0
        for table, *parts in db.execute(SIZES).fetchall():
            of = embedded if table == "vector" else team.messages
            total += sum(parts)
            _row(
                f"{POSTGRES}: {table}",
                *(f"{size / 1e6:,.1f}" for size in (sum(parts), *parts)),
                f"{sum(parts) / of:,.0f}{' with vectors' if table == 'vector' else ''}",
            )
        _row(
            f"**{POSTGRES} in all**",
            f"{total / 1e6:,.1f}",
            "",
            "",
            "",
            f"{total / team.messages:,.0f}",
        )
        (bare, words, both) = db.execute(
            "select pg_table_size('plain.message'), pg_relation_size('plain.message_words'), "
            "pg_relation_size('plain.message_owner_words')"
        ).fetchone() or (0, 0, 0)
    found = {"library.db": 0, "volumes": 0, "vectors": 0}
    for user in (team.home / "users").iterdir():
        found["library.db"] += sum(path.stat().st_size for path in user.glob("library.db*"))
        found["volumes"] += _bytes(user / "index" / "volumes")
        found["vectors"] += _bytes(user / "index" / "vectors")
    for part, size in found.items():
        of = embedded if part == "vectors" else team.messages
        _row(
            f"{SQLITE}: {part}",
            f"{size / 1e6:,.1f}",
            "",
            "",
            "",
            f"{size / of:,.0f}{' with vectors' if part == 'vectors' else ''}",
        )
    total = sum(found.values())
    _row(f"**{SQLITE} in all**", f"{total / 1e6:,.1f}", "", "", "", f"{total / team.messages:,.0f}")
    for name, size in (
        ("the plain table", bare),
        ("gin (words)", words),
        ("gin (owner, words)", both),
    ):
        _row(f"beside it: {name}", f"{size / 1e6:,.1f}", "", "", "", f"{size / team.messages:,.0f}")


def memory(
    place: str | Path, person: Person, mode: str, queries: Sequence[Asked]
) -> tuple[float, float]:
    """The peak of a process that only searches, and what of its memory is not files, in MiB."""
    with recollect.open(place, person.name, background=False) as library:
        answer = recollected(library, mode)
        for asked in queries:
            answer(asked)
        return peak(), _status("RssAnon")


def show_memory(team: Team) -> None:
    every = [
        a
        for some in corpus.many_queries(WARMING + QUERIES, team.largest.seed).values()
        for a in some
    ]
    _head("memory while searching the largest", "place", "peak MiB", "of that its own, not files")
    for mode in ("text", "both"):
        for name, place in team.places.items():
            most, own = alone(memory, place, team.largest, mode, every)
            _row(mode, name, f"{most:.0f}", f"{own:.0f}")


# -- all of it -----------------------------------------------------------------------------------


def show(team: Team, server: Server) -> None:
    print(f"\n## {team.messages:,} messages of {len(team.people)} people\n")
    said = server.says("server_version", *SETTINGS)
    print(
        f"PostgreSQL {said.pop('server_version')}, on a socket: {', '.join(f'{n} {v}' for n, v in said.items())}. "
        "VACUUM (ANALYZE) after loading."
    )
    sizes = [p.messages for p in team.people]
    print(
        f"The largest has {sizes[0]:,} messages, the tenth {sizes[min(9, len(sizes) - 1)]:,}, the small one "
        f"{team.small.messages:,}, the last {sizes[-1]:,}; {len(team.embedded)} have vectors."
    )
    built = Built(team.folder)
    build(team, built)
    show_building(team, built)
    show_sizes(team)
    results = show_searches(team, server)
    show_agreement(team)
    show_goal(team, server, results)
    show_memory(team)
    show_readers(team)
    show_appends(team)


def _check_schema(file: Path) -> None:
    """Data of another schema cannot be used again while the schema itself is worked on."""
    now = hashlib.sha256(repr((MIGRATIONS, FUNCTIONS)).encode()).hexdigest()
    if file.exists() and file.read_text() != now:
        sys.exit(
            f"{file.parent} was built with another schema of the PostgreSQL store. Remove it, or name another folder."
        )
    file.write_text(now)


def main(messages: int, users: int, embedding: int, keep: Path | None = None) -> None:
    os.environ["RECOLLECT_INDEXING"] = "manual"
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the server is stopped too
    with folder_for(keep) as folder:
        within = folder / f"teams-{messages}-{users}"
        if not (within / "built.json").exists():
            shutil.rmtree(within, ignore_errors=True)
        within.mkdir(parents=True, exist_ok=True)
        _check_schema(within / "schema")
        with Server(within / "postgres") as server:
            url = server.database("team")
            show(Team(within, people(messages, users), max(1, min(embedding, users)), url), server)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description="A team on PostgreSQL, beside the same people on SQLite."
    )
    parser.add_argument("--messages", type=int, default=1_000_000, help="of all people together")
    parser.add_argument("--users", type=int, default=50, help="how many people")
    parser.add_argument(
        "--embed-users", type=int, default=3, metavar="N", help="how many of them get vectors"
    )
    parser.add_argument(
        "--keep", type=Path, metavar="FOLDER", help="build the libraries here, or use them again"
    )
    given = parser.parse_args()
    if given.messages < given.users:
        sys.exit("There must be a message for every person.")
    main(given.messages, given.users, given.embed_users, given.keep)
