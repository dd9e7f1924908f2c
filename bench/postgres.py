"""Measure the CPU time of searches and writes on PostgreSQL and a Citus cluster, next to SQLite.

    python -m bench.postgres [--stores postgresql,sqlite] [--keep FOLDER] [--fill] [--vectors 1]
                             [--messages 1000000] [--users 50] [--agents 64] [--seconds 20]
    python -m bench.postgres --stores citus --citus BUILD …

Of 50 people with a million messages, the largest library has 182,000 and the smallest 400.
`--vectors` people have vectors, the largest first. The servers are private (`bench/server.py`,
`bench/citus.py`; BUILD is a PostgreSQL installation that has Citus).

With `--keep`, the libraries stay in FOLDER. `--fill` only fills them: run it on a busy machine, and
measure later. What was filled is not filled again, and an interrupted run is resumed.

CPU is that of this process and of all servers, including their background work. An append returns
when the message is durable and searchable. An import saves 1,000 messages in one transaction, in a
library that is new. Agents search (text, both) and append in turn, each in a random library, from
four processes.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.synchronize import Barrier
from pathlib import Path
from random import Random
from typing import NamedTuple

import recollect
from bench import corpus
from bench.citus import Cluster
from bench.corpus import SampleQuery
from bench.server import Server, server_cpu
from bench.speed import LIMIT, WARMUP, folder_for, format_ms, log, query_text, table_head, table_row
from recollect.errors import RecollectError, SearchTimeout
from recollect.model.documents import Document
from recollect.model.search import SearchOptions
from recollect.settings import EMBEDDINGS, OBSERVER
from recollect.transfer.importing import BATCH

STORES = {"postgresql": "PostgreSQL", "citus": "Citus", "sqlite": "SQLite"}
QUERIES = 30
APPENDS = 200
IMPORTS = 20
IMPORTED = 1_000  # messages of one import
PROCESSES = 4  # that the agents share
READY_SECONDS = 120.0  # time limit for all of them to be ready
KINDS = (("question", "text"), ("question", "both"), ("rare word", "text"), ("prefix", "text"))
AGENT_STEPS = ("text", "both", "append")


class Person(NamedTuple):
    name: str
    messages: int
    seed: int


def people(messages: int, count: int) -> tuple[Person, ...]:
    """Largest first."""
    weights = [(19 + 49 * n / max(count - 1, 1)) ** -4.8 for n in range(count)]
    sizes = [max(1, round(messages * w / sum(weights))) for w in weights]
    sizes[0] += messages - sum(sizes)
    return tuple(Person(f"person-{n:02}", size, n) for n, size in enumerate(sizes))


def batches(person: Person, messages: int = BATCH) -> Iterator[list[Document]]:
    """The documents of a person, about so many messages at a time."""
    batch: list[Document] = []
    size = 0
    for document in corpus.documents(person.messages, person.seed):
        batch.append(document)
        size += len(document.passages)
        if size >= messages:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def at(times: Sequence[float], percent: float) -> float:
    """A percentile of sorted times."""
    return times[min(int(len(times) * percent / 100), len(times) - 1)] if times else 0.0


@dataclass(frozen=True)
class Place:
    """Where libraries are, and the servers whose CPU time counts."""

    name: str
    where: str
    data: tuple[Path, ...] = ()

    def cpu(self) -> float:
        return sum(map(server_cpu, self.data))


@dataclass
class Costs:
    """Milliseconds of each operation."""

    wall: list[float] = field(default_factory=list)
    client: list[float] = field(default_factory=list)
    server: list[float] = field(default_factory=list)

    @property
    def total(self) -> list[float]:
        return [ours + theirs for ours, theirs in zip(self.client, self.server, strict=True)]

    def cells(self) -> Iterator[str]:
        for values in (self.wall, self.client, self.server, self.total):
            yield from (format_ms(at(sorted(values), percent)) for percent in (50, 95))

    @contextmanager
    def measure(self, place: Place) -> Iterator[None]:
        """Add the cost of what happens in this block."""
        server, client, wall = place.cpu(), time.process_time(), time.perf_counter()
        yield
        self.wall.append((time.perf_counter() - wall) * 1000)
        self.client.append((time.process_time() - client) * 1000)
        self.server.append((place.cpu() - server) * 1000)


COLUMNS = ("wall ms p50", "p95", "our CPU", "p95", "servers' CPU", "p95", "total CPU", "p95")


def _set_embeddings(enabled: bool) -> None:
    os.environ[EMBEDDINGS.name] = "static" if enabled else "off"
    os.environ[OBSERVER.name] = "off"


# -- filling ---------------------------------------------------------------------


def fill(place: Place, team: Sequence[Person], vectors: int) -> None:
    """Save the messages that are not in the libraries yet, and show what that took."""
    _set_embeddings(False)
    costs, messages = Costs(), 0
    for person in team:
        with recollect.open(place.where, person.name, background=False) as library:
            if library.stats()["messages"] >= person.messages:
                continue
            log(f"{place.name}: {person.name}, {person.messages:,} messages")
            for batch in batches(person):
                with costs.measure(place):
                    library._store.save(batch)
        messages += person.messages
    if messages:
        seconds = [sum(each) / 1000 for each in (costs.wall, costs.client, costs.server)]
        table_head("filling", "messages", "wall s", "our CPU s", "servers' CPU s", "messages / s")
        table_row(
            place.name,
            f"{messages:,}",
            *(f"{each:.0f}" for each in seconds),
            f"{messages / seconds[0]:,.0f}",
        )
    _set_embeddings(True)
    for person in team[:vectors]:
        log(f"{place.name}: {person.name}, vectors")
        with recollect.open(place.where, person.name, background=False) as library:
            library.index()


# -- one at a time ----------------------------------------------------------------


def search(library: recollect.Library, query: SampleQuery, mode: str) -> None:
    library.search(query_text(query), options=SearchOptions(mode=mode, limit=LIMIT))


def search_costs(place: Place, person: Person, kind: str, mode: str) -> Costs:
    queries = corpus.many_queries(WARMUP + QUERIES, person.seed)[kind]
    costs = Costs()
    with recollect.open(place.where, person.name, background=False) as library:
        for query in queries[:WARMUP]:
            search(library, query, mode)
        for query in queries[WARMUP:]:
            with costs.measure(place):
                search(library, query, mode)
    return costs


def append_costs(place: Place, person: Person) -> Costs:
    texts = [turn.text for turn in corpus.messages(APPENDS + WARMUP, seed=99)]
    costs = Costs()
    with recollect.open(place.where, person.name, background=False) as library:
        conversation = library.add_conversation(title="Live").id
        for text in texts[:WARMUP]:
            library.add_message(conversation, "user", text)
        for text in texts[WARMUP:]:
            with costs.measure(place):
                library.add_message(conversation, "user", text)
        library.delete_conversation(conversation)
    return costs


def import_costs(place: Place) -> Costs:
    newcomer = Person(f"import-{time.time_ns()}", IMPORTED * (IMPORTS + 1), 999)
    costs = Costs()
    with recollect.open(place.where, newcomer.name, background=False) as library:
        for number, batch in enumerate(batches(newcomer, IMPORTED)):
            if number == 0:
                library._store.save(batch)
                continue
            with costs.measure(place):
                library._store.save(batch)
    return costs


def show_single(places: Sequence[Place], team: Sequence[Person], vectors: int) -> None:
    largest = team[0]
    table_head(f"within {largest.messages:,} messages", "store", *COLUMNS)
    for kind, mode in KINDS:
        if mode != "text" and not vectors:
            continue
        for place in places:
            costs = search_costs(place, largest, kind, mode)
            table_row(f"{kind}, {mode}", place.name, *costs.cells())
    for place in places:
        table_row("append", place.name, *append_costs(place, largest).cells())
        table_row(f"import of {IMPORTED:,}", place.name, *import_costs(place).cells())


# -- many at once ------------------------------------------------------------------


@dataclass
class Load:
    """What the agents of one process did."""

    times: dict[str, list[float]]
    """Milliseconds of each step."""
    errors: Counter[str]
    client: float = 0.0
    """CPU seconds of the process, and of the servers meanwhile."""
    server: float = 0.0


_start: Barrier
"""Every process of agents waits here until all are ready."""


def _share(start: Barrier) -> None:
    global _start
    _start = start


def run_agents(
    place: Place, team: Sequence[Person], agents: int, vectors: int, seconds: float, seed: int
) -> Load:
    load = Load({step: [] for step in AGENT_STEPS}, Counter())
    with ExitStack() as stack:
        libraries = [
            stack.enter_context(recollect.open(place.where, person.name, background=False))
            for person in team
        ]
        run = _agent_runner(libraries, vectors, load)
        _start.wait()
        end = time.monotonic() + seconds
        threads = [
            threading.Thread(target=run, args=(Random(seed + n), end)) for n in range(agents)
        ]
        server, client = place.cpu(), time.process_time()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        load.client, load.server = time.process_time() - client, place.cpu() - server
    return load


def _agent_runner(
    libraries: Sequence[recollect.Library], vectors: int, load: Load
) -> Callable[[Random, float], None]:
    """The work of an agent until a time. Making the queries takes seconds."""
    queries = corpus.many_queries(200)["question"]
    texts = [turn.text for turn in corpus.messages(200, seed=99)]
    # The first search of a process loads the model.
    with suppress(SearchTimeout):
        search(libraries[0], queries[0], "both" if vectors else "text")

    def run(rng: Random, end: float) -> None:
        while True:
            for step in AGENT_STEPS:
                if time.monotonic() >= end:
                    return
                number = rng.randrange(len(libraries))
                if step == "both":
                    number = rng.randrange(max(vectors, 1))
                start = time.perf_counter()
                try:
                    _agent_step(libraries[number], step, rng.choice(queries), rng.choice(texts))
                except RecollectError as error:
                    load.errors[f"{step}: {error}"] += 1
                    continue
                load.times[step].append((time.perf_counter() - start) * 1000)

    return run


def _agent_step(library: recollect.Library, step: str, query: SampleQuery, text: str) -> None:
    if step == "append":
        library.add_message(library.add_conversation(title="Live").id, "user", text)
    else:
        search(library, query, step)


def agent_loads(
    place: Place, team: Sequence[Person], agents: int, vectors: int, seconds: float
) -> list[Load]:
    context = multiprocessing.get_context("spawn")
    start = context.Barrier(PROCESSES, timeout=READY_SECONDS)
    with ProcessPoolExecutor(PROCESSES, context, _share, (start,)) as pool:
        runs = [
            pool.submit(run_agents, place, team, agents // PROCESSES, vectors, seconds, seed)
            for seed in range(0, 1000 * PROCESSES, 1000)
        ]
        return [run.result() for run in runs]


def show_agents(
    places: Sequence[Place], team: Sequence[Person], agents: int, vectors: int, seconds: float
) -> None:
    table_head(
        f"{agents} agents for {seconds:.0f} s",
        "operations / s",
        "errors",
        "our CPU ms of an operation",
        "servers' CPU",
        *(f"{step} {percentile}" for step in AGENT_STEPS for percentile in ("p50", "p99")),
    )
    all_errors: Counter[str] = Counter()
    for place in places:
        loads = agent_loads(place, team, agents, vectors, seconds)
        times = {
            step: sorted(each for load in loads for each in load.times[step])
            for step in AGENT_STEPS
        }
        count = sum(map(len, times.values()))
        errors = sum((load.errors for load in loads), Counter[str]())
        client = sum(load.client for load in loads)
        server = max(load.server for load in loads)
        table_row(
            place.name,
            format_ms(count / seconds),
            errors.total(),
            *(format_ms(cpu * 1000 / max(count, 1)) for cpu in (client, server)),
            *(
                format_ms(at(times[step], percent)) if times[step] else "none"
                for step in AGENT_STEPS
                for percent in (50, 99)
            ),
        )
        all_errors += errors
    for error, number in all_errors.most_common(10):
        print(f"\n{number} x {error}")


# -- the program -------------------------------------------------------------------


@contextmanager
def running(store: str, folder: Path, citus: Path | None) -> Iterator[Place]:
    name = STORES[store]
    if store == "sqlite":
        yield Place(name, str(folder / "sqlite"))
    elif store == "postgresql":
        with Server(folder / "postgres") as server:
            yield Place(name, server.database("bench"), (server.folder,))
    else:
        assert citus is not None
        with Cluster(citus, folder / "citus") as cluster:
            yield Place(name, cluster.url, tuple(cluster.data_folders))


def main() -> None:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--stores", default="postgresql,sqlite", help=", ".join(STORES))
    parser.add_argument("--citus", type=Path, metavar="BUILD", help="an installation with Citus")
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--users", type=int, default=50)
    parser.add_argument("--vectors", type=int, default=1, help="people who have vectors")
    parser.add_argument("--agents", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--keep", type=Path, help="a folder for the libraries, which is reused")
    parser.add_argument("--fill", action="store_true", help="fill the libraries and stop")
    options = parser.parse_args()
    stores = options.stores.split(",")
    if not set(stores) <= set(STORES) or ("citus" in stores and options.citus is None):
        parser.error(f"--stores are some of {', '.join(STORES)}; citus needs --citus")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the servers are stopped too
    team = people(options.messages, options.users)
    with ExitStack() as stack:
        folder = stack.enter_context(folder_for(options.keep))
        places = [stack.enter_context(running(store, folder, options.citus)) for store in stores]
        for place in places:
            fill(place, team, options.vectors)
        if options.fill:
            return
        _set_embeddings(options.vectors > 0)
        show_single(places, team, options.vectors)
        if options.agents:
            show_agents(places, team, options.agents, options.vectors, options.seconds)


if __name__ == "__main__":
    main()
