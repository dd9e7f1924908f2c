"""What a number of users needs, and what breaks first: computed and simulated.

    python -m bench.scale [--users 10000] [--write]

The inputs are in `bench/scale.toml`: assumptions about users, and measured costs. `--write` updates
the tables in docs/scale.md.

The simulation plays a day. Requests arrive at random, most of them in the afternoon. A search, a
list and an append first use a core of a server, then a core of the database that has the user, and
wait in a queue for each. The times are random around the measured means, and a search takes longer
in a larger library. The databases of a cluster do not share anything, so one database with its
users and its share of the servers is simulated.
"""

from __future__ import annotations

import argparse
import heapq
import math
import tomllib
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

ROOT = Path(__file__).parents[1]
INPUTS = Path(__file__).with_name("scale.toml")
PAGE = ROOT / "docs/scale.md"
SIZES = (10_000, 100_000, 1_000_000, 10_000_000)
SIMULATED = (10_000, 10_000_000)
# The users of a database with two cores, like the machine of the measurements.
CROWDED_USERS = 28_000
CROWDED_CORES = 2
HOUR = 3_600
HOURS = 24
BUSY_HOUR = 14
GIGABYTE = 1e9
# Libraries differ in size: the logarithm is normal with this deviation, as in bench/teams.py.
SPREAD = 1.2
# Times of one kind of request differ: so do those of bench/README.md (p95 / p50).
JITTER = 0.4

Inputs = dict[str, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Load:
    """What all users together do in the busy hour and store in the end."""

    users: int
    requests: float
    """Per second."""
    server_cores: float
    """Used on average in the busy hour."""
    database_cores: float
    worker_cores: float
    bytes: float
    hot_bytes: float
    log_bytes: float
    """Per second."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The machines for a load."""

    load: Load
    servers: int
    workers: int
    databases: int
    reason: str
    """What decides the number of databases."""


def read_inputs(path: Path = INPUTS) -> Inputs:
    return tomllib.loads(path.read_text(encoding="utf-8"))


def messages_of(inputs: Inputs) -> float:
    """The messages of an average user in the end."""
    usage = inputs["usage"]
    written = usage["messages_per_day"] * usage["active_share"] * usage["days"]
    return float(usage["history_messages"] + written)


def bytes_per_message(inputs: Inputs) -> float:
    """On the disk of the database, with indexes, vectors and observations."""
    sizes = inputs["bytes"]
    return float(sizes["table_and_index"] + sizes["vector"] + sizes["observations"])


def search_ms(inputs: Inputs, messages: float) -> float:
    """The database's CPU time of a search in a library of this size."""
    cpu = inputs["cpu_ms"]
    return float(cpu["search_database"] + cpu["search_database_each_1000"] * messages / 1000)


def load_of(users: int, inputs: Inputs, on_cluster: bool) -> Load:
    usage, cpu, sizes = inputs["usage"], inputs["cpu_ms"], inputs["bytes"]
    per_second = users * usage["active_share"] * usage["busy_hour_share"] / HOUR
    searches = per_second * usage["searches_per_day"]
    lists = per_second * usage["lists_per_day"]
    appends = per_second * usage["messages_per_day"]
    factor = cpu["cluster_factor"] if on_cluster else 1.0
    messages = messages_of(inputs)
    server_ms = (
        searches * cpu["search_server"]
        + lists * cpu["list_server"]
        + appends * cpu["append_server"]
    )
    database_ms = (
        searches * search_ms(inputs, messages)
        + lists * cpu["list_database"]
        + appends * cpu["append_database"]
    )
    stored = users * messages * bytes_per_message(inputs)
    return Load(
        users,
        searches + lists + appends,
        server_ms / 1000,
        database_ms * factor / 1000,
        appends * cpu["embed_worker"] / 1000,
        stored,
        stored * usage["active_share"] * sizes["hot_share"],
        appends * sizes["wal"],
    )


def limits_of_a_database(load: Load, inputs: Inputs) -> dict[str, float]:
    """How many machines each resource needs."""
    node, server = inputs["node"], inputs["server"]
    servers = _servers(load, inputs)
    return {
        "CPU": load.database_cores / (node["cores"] * node["utilization"]),
        "disk": load.bytes / (node["disk_gb"] * GIGABYTE * 0.7),
        "memory": load.hot_bytes / (node["memory_gb"] * GIGABYTE),
        "log": load.log_bytes / (node["disk_writes_mb_per_second"] * 1e6 * node["utilization"]),
        "connections": servers * server["connections"] / node["connections"],
    }


def _servers(load: Load, inputs: Inputs) -> int:
    capacity = inputs["server"]["cores"] * inputs["node"]["utilization"]
    return max(2, math.ceil(load.server_cores / capacity))


def plan(users: int, inputs: Inputs) -> Plan:
    """The machines for so many users: one database if it is enough, else a cluster."""
    load = load_of(users, inputs, on_cluster=False)
    limits = limits_of_a_database(load, inputs)
    if max(limits.values()) > 1:
        load = load_of(users, inputs, on_cluster=True)
        limits = limits_of_a_database(load, inputs)
        # A pooler such as PgBouncer shares the connections of many servers.
        del limits["connections"]
    reason = max(limits, key=lambda name: limits[name])
    capacity = inputs["server"]["cores"] * inputs["node"]["utilization"]
    return Plan(
        load,
        _servers(load, inputs),
        max(1, math.ceil(load.worker_cores / capacity)),
        math.ceil(limits[reason]),
        reason,
    )


def capacity_of_one_node(inputs: Inputs) -> dict[str, int]:
    """For how many users each resource of one database is enough."""
    sample = 1_000_000
    limits = limits_of_a_database(load_of(sample, inputs, on_cluster=False), inputs)
    return {name: int(sample / value) for name, value in limits.items()}


# -- simulation ----------------------------------------------------------------


class Station:
    """Cores with one queue: first come, first served."""

    def __init__(self, cores: int) -> None:
        self.cores = cores
        self._free_at = [0.0] * cores
        self.busy_seconds = 0.0
        """In the busy hour."""

    def serve(self, arrival: float, seconds: float) -> float:
        """When a request that arrives now is finished."""
        start = max(arrival, heapq.heappop(self._free_at))
        heapq.heappush(self._free_at, start + seconds)
        if is_busy(start):
            self.busy_seconds += seconds
        return start + seconds


@dataclass(frozen=True, slots=True)
class Result:
    """The busy hour of a simulated day."""

    requests: int
    """Of the whole day."""
    milliseconds: dict[str, tuple[float, float, float]]
    """p50, p95 and p99 of each kind of request."""
    server_use: float
    database_use: float


@dataclass(frozen=True, slots=True)
class Machines:
    servers: int
    cores: int
    """Of the database."""
    on_cluster: bool = False


def simulate(users: int, machines: Machines, inputs: Inputs, seed: int = 1) -> Result:
    """A day of one database and its share of the servers."""
    random = Random(seed)
    factor = inputs["cpu_ms"]["cluster_factor"] if machines.on_cluster else 1.0
    servers = [Station(inputs["server"]["cores"]) for _ in range(machines.servers)]
    database = Station(machines.cores)
    # Requests reach the database in the order in which their server finishes with them.
    queue: list[tuple[float, float, str, float]] = []
    for arrival, kind in _arrivals(users, inputs, random):
        server_ms, database_ms = _costs(kind, inputs, random)
        leaves = random.choice(servers).serve(arrival, _vary(server_ms, random) / 1000)
        queue.append((leaves, arrival, kind, _vary(database_ms * factor, random) / 1000))
    durations: dict[str, list[float]] = {"search": [], "list": [], "append": []}
    for leaves, arrival, kind, seconds in sorted(queue):
        finish = database.serve(leaves, seconds)
        if is_busy(arrival):
            durations[kind].append(finish - arrival)
    return Result(
        len(queue),
        {kind: _percentiles(values) for kind, values in durations.items()},
        _use(servers),
        _use([database]),
    )


def is_busy(seconds: float) -> bool:
    """Whether a time of the day is in the busy hour."""
    return BUSY_HOUR * HOUR <= seconds < (BUSY_HOUR + 1) * HOUR


def _use(stations: list[Station]) -> float:
    """The share of the cores that is busy in the busy hour."""
    return sum(station.busy_seconds / station.cores for station in stations) / len(stations) / HOUR


def _arrivals(users: int, inputs: Inputs, random: Random) -> list[tuple[float, str]]:
    """The requests of a day by time. The busy hour has its share of them."""
    usage = inputs["usage"]
    counts = {
        "search": usage["searches_per_day"],
        "list": usage["lists_per_day"],
        "append": usage["messages_per_day"],
    }
    total = round(users * usage["active_share"] * sum(counts.values()))
    kinds = random.choices(list(counts), list(counts.values()), k=total)
    # The density of the normal distribution is 1 / (deviation * sqrt(2 pi)) in its middle.
    deviation = 1 / (usage["busy_hour_share"] * math.sqrt(2 * math.pi))
    times = sorted(random.gauss(BUSY_HOUR + 0.5, deviation) % HOURS * HOUR for _ in range(total))
    return list(zip(times, kinds, strict=True))


def _costs(kind: str, inputs: Inputs, random: Random) -> tuple[float, float]:
    cpu = inputs["cpu_ms"]
    if kind == "list":
        return cpu["list_server"], cpu["list_database"]
    if kind == "append":
        return cpu["append_server"], cpu["append_database"]
    # The mean of a lognormal number is exp(deviation² / 2) times its median.
    median = messages_of(inputs) / math.exp(SPREAD**2 / 2)
    messages = median * math.exp(random.gauss(0, SPREAD))
    return cpu["search_server"], search_ms(inputs, messages)


def _vary(milliseconds: float, random: Random) -> float:
    return milliseconds * math.exp(random.gauss(0, JITTER) - JITTER**2 / 2)


def _percentiles(values: list[float]) -> tuple[float, float, float]:
    ordered = sorted(values)
    last = len(ordered) - 1
    p50, p95, p99 = (ordered[round(last * share)] * 1000 for share in (0.5, 0.95, 0.99))
    return p50, p95, p99


# -- tables --------------------------------------------------------------------


def table_of_a_user(inputs: Inputs) -> list[str]:
    usage, sizes = inputs["usage"], inputs["bytes"]
    daily = usage["messages_per_day"]
    stored = bytes_per_message(inputs)
    return [
        "| one active user and day | |",
        "|---|---|",
        f"| messages written | {daily} ({daily * usage['text_bytes'] / 1e3:,.0f} kB of text) |",
        f"| searches | {usage['searches_per_day']} |",
        f"| lists and conversations read | {usage['lists_per_day']} |",
        f"| stored by the database | {daily * stored / 1e3:,.0f} kB |",
        f"| written to its log | {daily * sizes['wal'] / 1e6:,.1f} MB |",
        f"| CPU time of servers | {_server_seconds(inputs):,.1f} s |",
        f"| CPU time of the database | {_database_seconds(inputs):,.1f} s |",
        f"| after three years | {messages_of(inputs):,.0f} messages, "
        f"{messages_of(inputs) * stored / 1e6:,.0f} MB |",
    ]


def _server_seconds(inputs: Inputs) -> float:
    usage, cpu = inputs["usage"], inputs["cpu_ms"]
    return (
        float(
            usage["searches_per_day"] * cpu["search_server"]
            + usage["lists_per_day"] * cpu["list_server"]
            + usage["messages_per_day"] * cpu["append_server"]
        )
        / 1000
    )


def _database_seconds(inputs: Inputs) -> float:
    usage, cpu = inputs["usage"], inputs["cpu_ms"]
    return (
        float(
            usage["searches_per_day"] * search_ms(inputs, messages_of(inputs))
            + usage["lists_per_day"] * cpu["list_database"]
            + usage["messages_per_day"] * cpu["append_database"]
        )
        / 1000
    )


def table_of_one_node(inputs: Inputs) -> list[str]:
    rows = ["| resource of one database | enough for users |", "|---|---|"]
    limits = sorted(capacity_of_one_node(inputs).items(), key=lambda item: item[1])
    return rows + [f"| {name} | {_round(users):,} |" for name, users in limits]


def table_of_plans(inputs: Inputs) -> list[str]:
    rows = [
        "| users | requests / s, busy hour | servers (4 cores) | workers | databases (32 cores) "
        "| decided by | stored | log |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for users in SIZES:
        result = plan(users, inputs)
        load = result.load
        rows.append(
            f"| {users:,} | {load.requests:,.0f} | {result.servers:,} | {result.workers:,} "
            f"| {result.databases:,} | {result.reason} | {load.bytes / 1e12:,.1f} TB "
            f"| {load.log_bytes / 1e6:,.0f} MB/s |"
        )
    return rows


def table_of_simulations(inputs: Inputs) -> list[str]:
    rows = [
        "| users | simulated | requests | search p50 / p95 / p99 ms | append | list "
        "| servers busy | database busy |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for users in SIMULATED:
        result = plan(users, inputs)
        share = result.databases
        servers = math.ceil(result.servers / share)
        machines = Machines(servers, inputs["node"]["cores"], on_cluster=share > 1)
        rows.append(
            _simulation_row(users, share, machines, simulate(users // share, machines, inputs))
        )
    machines = Machines(2, CROWDED_CORES)
    outcome = simulate(CROWDED_USERS, machines, inputs)
    rows.append(_simulation_row(CROWDED_USERS, 1, machines, outcome))
    return rows


def _simulation_row(users: int, share: int, machines: Machines, outcome: Result) -> str:
    cells = [
        " / ".join(f"{value:,.0f}" for value in outcome.milliseconds[kind])
        for kind in ("search", "append", "list")
    ]
    description = f"1 of {share:,} databases"
    if share == 1:
        description = "1 database"
    description += f" ({machines.cores} cores)"
    return (
        f"| {users:,} | {description}, {_count(machines.servers, 'server')} "
        f"| {outcome.requests:,} | {' | '.join(cells)} "
        f"| {outcome.server_use:.0%} | {outcome.database_use:.0%} |"
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _round(number: int) -> int:
    """Two digits are enough for an estimate."""
    digits = max(0, len(str(number)) - 2)
    return int(round(number, -digits))


TABLES = {
    "user": table_of_a_user,
    "node": table_of_one_node,
    "plans": table_of_plans,
    "simulations": table_of_simulations,
}


def fill(page: str, names: list[str], inputs: Inputs) -> str:
    """Replace the tables of a page between its markers."""
    for name in names:
        start, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
        before, _, rest = page.partition(start)
        _, _, after = rest.partition(end)
        page = before + start + "\n".join(TABLES[name](inputs)) + "\n" + end + after
    return page


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--users", type=int, help="what so many users need")
    parser.add_argument("--write", action="store_true", help="update the tables in docs/scale.md")
    arguments = parser.parse_args()
    inputs = read_inputs()
    if arguments.users:
        print(plan(arguments.users, inputs))
        return
    if arguments.write:
        page = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(fill(page, list(TABLES), inputs), encoding="utf-8")
        return
    for table in TABLES.values():
        print("\n".join(table(inputs)), end="\n\n")


if __name__ == "__main__":
    main()
