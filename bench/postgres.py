"""Measure the total CPU time of searches and writes on PostgreSQL or a cluster, next to SQLite.

    python -m bench.postgres [--messages 1000000] [--users 50] [--vectors 1] [--agents 64]
                             [--seconds 20] [--keep FOLDER]
    python -m bench.postgres --url postgresql://… --data FOLDER [--data FOLDER …] …

The people and their messages are those of `bench.teams`: of 50 people with a million messages, the
largest library has 182,000. `--vectors` people have vectors, the largest first. Without `--url`,
the server is private (`bench/server.py`). With it, the libraries are made in that database, which
can be the coordinator of a Citus cluster. `--data` are the data directories of all its servers on
this machine: without them, only our own CPU time is known. What is in the database or in FOLDER is
not made again.

Total CPU is that of this process and of all servers, including their background work. A search has
words that were searched before (`usual`) or that were not (`first`). An append returns when the
message is durable and searchable. Agents search (text, both) and append in turn, each in a random
library, from four processes.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import recollect
from bench import corpus
from bench.corpus import SampleQuery
from bench.server import Server, server_cpu
from bench.speed import LIMIT, WARMUP, folder_for, format_ms, log, query_text, table_head, table_row
from bench.teams import Person, at, batches, people
from recollect.model.search import SearchOptions
from recollect.settings import EMBEDDINGS

QUERIES = 30
APPENDS = 200
PROCESSES = 4  # that the agents share
KINDS = (("question", "text"), ("question", "both"), ("rare word", "text"), ("prefix", "text"))
AGENT_STEPS = ("text", "both", "append")


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
            yield format_ms(statistics.median(values))
        yield format_ms(at(sorted(self.total), 95))

    @contextmanager
    def measure(self, place: Place) -> Iterator[None]:
        """Add the cost of what happens in this block."""
        server, client, wall = place.cpu(), time.process_time(), time.perf_counter()
        yield
        self.wall.append((time.perf_counter() - wall) * 1000)
        self.client.append((time.process_time() - client) * 1000)
        self.server.append((place.cpu() - server) * 1000)


COLUMNS = ("wall ms p50", "our CPU", "servers' CPU", "total CPU p50", "total CPU p95")


def _set_embeddings(enabled: bool) -> None:
    os.environ[EMBEDDINGS.name] = "static" if enabled else "off"


# -- building --------------------------------------------------------------------


def build(place: Place, team: Sequence[Person], vectors: int) -> None:
    """Save the messages that are not in the libraries yet, and show what that took."""
    costs, messages = Costs(), 0
    for number, person in enumerate(team):
        _set_embeddings(number < vectors)
        with recollect.open(place.where, person.name, background=False) as library:
            if library.stats()["messages"]:
                continue
            log(f"{place.name}: {person.name}, {person.messages:,} messages")
            with costs.measure(place):
                for batch in batches(person):
                    library._store.save(batch)
            messages += person.messages
            if number < vectors:
                library.index()
    if messages:
        seconds = [sum(each) / 1000 for each in (costs.wall, costs.client, costs.server)]
        table_head("import", "messages", "wall s", "our CPU s", "servers' CPU s", "messages / s")
        table_row(
            place.name,
            f"{messages:,}",
            *(f"{each:.0f}" for each in seconds),
            f"{messages / seconds[0]:,.0f}",
        )


# -- one at a time ----------------------------------------------------------------


def search(library: recollect.Library, query: SampleQuery, mode: str) -> None:
    library.search(query_text(query), options=SearchOptions(mode=mode, limit=LIMIT))


def search_costs(place: Place, person: Person, kind: str, mode: str) -> tuple[Costs, Costs]:
    """The costs of first searches, and of searches for words that were searched before."""
    queries = corpus.many_queries(WARMUP + QUERIES, person.seed)[kind]
    first, usual = Costs(), Costs()
    with recollect.open(place.where, person.name, background=False) as library:
        for query in queries[:WARMUP]:
            search(library, query, mode)
        for costs in (first, usual):
            for query in queries[WARMUP:]:
                with costs.measure(place):
                    search(library, query, mode)
    return first, usual


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


def show_single(places: Sequence[Place], team: Sequence[Person], vectors: int) -> None:
    largest = team[0]
    table_head(f"within {largest.messages:,} messages", "store", *COLUMNS)
    for kind, mode in KINDS:
        if mode != "text" and not vectors:
            continue
        for place in places:
            first, usual = search_costs(place, largest, kind, mode)
            table_row(f"{kind}, {mode}, first", place.name, *first.cells())
            table_row(f"{kind}, {mode}", place.name, *usual.cells())
    for place in places:
        table_row("append", place.name, *append_costs(place, largest).cells())


# -- many at once ------------------------------------------------------------------


def run_agents(
    where: str, team: Sequence[Person], agents: int, vectors: int, seconds: float, seed: int
) -> tuple[dict[str, list[float]], float]:
    """The times of each step of some agents in milliseconds, and the CPU time of this process."""
    times: dict[str, list[float]] = {step: [] for step in AGENT_STEPS}
    with ExitStack() as stack:
        libraries = [
            stack.enter_context(recollect.open(where, person.name, background=False))
            for person in team
        ]
        run = _agent_runner(libraries, vectors, times, time.monotonic() + seconds)
        threads = [threading.Thread(target=run, args=(Random(seed + n),)) for n in range(agents)]
        cpu = time.process_time()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return times, time.process_time() - cpu


def _agent_runner(
    libraries: Sequence[recollect.Library],
    vectors: int,
    times: dict[str, list[float]],
    end: float,
) -> Callable[[Random], None]:
    queries = corpus.many_queries(200)["question"]
    texts = [turn.text for turn in corpus.messages(200, seed=99)]

    def run(rng: Random) -> None:
        while time.monotonic() < end:
            for step in AGENT_STEPS:
                number = rng.randrange(len(libraries))
                if step == "both":
                    number = rng.randrange(max(vectors, 1))
                start = time.perf_counter()
                _agent_step(libraries[number], step, rng.choice(queries), rng.choice(texts))
                times[step].append((time.perf_counter() - start) * 1000)

    return run


def _agent_step(library: recollect.Library, step: str, query: SampleQuery, text: str) -> None:
    if step == "append":
        library.add_message(library.add_conversation(title="Live").id, "user", text)
    else:
        search(library, query, step)


def show_agents(
    places: Sequence[Place], team: Sequence[Person], agents: int, vectors: int, seconds: float
) -> None:
    table_head(
        f"{agents} agents for {seconds:.0f} s",
        "store",
        "operations / s",
        "CPU ms of an operation",
        *(f"{step} {percentile}" for step in AGENT_STEPS for percentile in ("p50", "p95")),
    )
    for place in places:
        server = place.cpu()
        with ProcessPoolExecutor(PROCESSES, multiprocessing.get_context("spawn")) as pool:
            runs = [
                pool.submit(
                    run_agents, place.where, team, agents // PROCESSES, vectors, seconds, seed
                )
                for seed in range(0, 1000 * PROCESSES, 1000)
            ]
            results = [run.result() for run in runs]
        times = {
            step: sorted(each for result, _ in results for each in result[step])
            for step in AGENT_STEPS
        }
        count = sum(map(len, times.values()))
        cpu = place.cpu() - server + sum(client for _, client in results)
        percentiles = [at(times[step], percent) for step in AGENT_STEPS for percent in (50, 95)]
        table_row(
            "",
            place.name,
            format_ms(count / seconds),
            format_ms(cpu * 1000 / max(count, 1)),
            *map(format_ms, percentiles),
        )


# -- the program -------------------------------------------------------------------


def measure(places: Sequence[Place], options: argparse.Namespace) -> None:
    team = people(options.messages, options.users)
    for place in places:
        build(place, team, options.vectors)
    _set_embeddings(options.vectors > 0)
    show_single(places, team, options.vectors)
    if options.agents:
        show_agents(places, team, options.agents, options.vectors, options.seconds)


def main() -> None:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--users", type=int, default=50)
    parser.add_argument("--vectors", type=int, default=1, help="people who have vectors")
    parser.add_argument("--agents", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--keep", type=Path, help="a folder for the libraries, which is reused")
    parser.add_argument("--url", default="", help="a database to use instead of a private server")
    parser.add_argument("--data", type=Path, action="append", default=[], help="of its servers")
    options = parser.parse_args()
    with ExitStack() as stack:
        folder = stack.enter_context(folder_for(options.keep))
        places = [Place("SQLite", str(folder / "sqlite"))]
        if options.url:
            places.insert(0, Place("PostgreSQL", options.url, tuple(options.data)))
        else:
            server = stack.enter_context(Server(folder / "server"))
            places.insert(0, Place("PostgreSQL", server.database("bench"), (server.folder,)))
        measure(places, options)


if __name__ == "__main__":
    main()
