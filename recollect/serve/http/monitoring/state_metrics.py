"""Metrics that are read when they are requested: the queue, the index and the database pool."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from recollect.errors import RecollectError
from recollect.library import Library
from recollect.places import pool_statistics
from recollect.serve.http.libraries import Libraries

# Counting what is not embedded reads every open library.
_SECONDS_BETWEEN_COUNTS = 60.0


class JobCounts(Protocol):
    """The jobs of one kind."""

    @property
    def waiting(self) -> int: ...
    @property
    def running(self) -> int: ...
    @property
    def failed(self) -> int: ...
    @property
    def oldest_seconds(self) -> float: ...


class StateCollector(Collector):
    """Reads the state of a server. Values that cannot be read are left out."""

    def __init__(
        self,
        libraries: Libraries,
        place: Path | str,
        count_jobs: Callable[[], Mapping[str, JobCounts]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._libraries = libraries
        self._place = place
        self._count_jobs = count_jobs
        self._clock = clock
        self._lock = threading.Lock()
        self._unembedded = 0
        self._counted_until = 0.0

    def describe(self) -> Iterable[Metric]:
        return []

    def collect(self) -> Iterable[Metric]:
        yield from self._job_metrics()
        unembedded = self._count_unembedded()
        yield GaugeMetricFamily(
            "recollect_unembedded_messages",
            "Messages without a vector in the libraries that this server has open.",
            value=unembedded,
        )
        yield from self._pool_metrics()

    def _job_metrics(self) -> Iterable[Metric]:
        jobs = GaugeMetricFamily(
            "recollect_jobs", "Jobs of all servers by kind and state.", labels=["kind", "state"]
        )
        oldest = GaugeMetricFamily(
            "recollect_oldest_job_seconds",
            "How long the oldest waiting job of a kind has been due.",
            labels=["kind"],
        )
        try:
            counts = self._count_jobs()
        except RecollectError:
            return
        for kind, count in counts.items():
            jobs.add_metric([kind, "waiting"], count.waiting)
            jobs.add_metric([kind, "running"], count.running)
            jobs.add_metric([kind, "failed"], count.failed)
            oldest.add_metric([kind], count.oldest_seconds)
        yield jobs
        yield oldest

    def _count_unembedded(self) -> int:
        with self._lock:
            if self._clock() >= self._counted_until:
                self._unembedded = sum(self._libraries.map(_count_unembedded))
                self._counted_until = self._clock() + _SECONDS_BETWEEN_COUNTS
            return self._unembedded

    def _pool_metrics(self) -> Iterable[Metric]:
        statistics = pool_statistics(self._place)
        if statistics is None:
            return
        connections = GaugeMetricFamily(
            "recollect_database_connections",
            "Connections to the database by state.",
            labels=["state"],
        )
        idle = statistics.get("pool_available", 0)
        connections.add_metric(["idle"], idle)
        connections.add_metric(["busy"], statistics.get("pool_size", 0) - idle)
        yield connections
        yield GaugeMetricFamily(
            "recollect_database_connections_limit",
            "Connections that this server may have.",
            value=statistics.get("pool_max", 0),
        )
        yield GaugeMetricFamily(
            "recollect_database_waiting",
            "Transactions that wait for a connection.",
            value=statistics.get("requests_waiting", 0),
        )
        for name, help, key, unit in _POOL_COUNTERS:
            yield CounterMetricFamily(name, help, value=statistics.get(key, 0) / unit)


_POOL_COUNTERS = (
    ("recollect_database_transactions", "Transactions.", "requests_num", 1),
    (
        "recollect_database_waits",
        "Transactions that had to wait for a connection.",
        "requests_queued",
        1,
    ),
    (
        "recollect_database_wait_seconds",
        "Time that transactions waited for a connection.",
        "requests_wait_ms",
        1000,
    ),
    (
        "recollect_database_failed_waits",
        "Transactions that got no connection in time.",
        "requests_errors",
        1,
    ),
    (
        "recollect_database_connection_failures",
        "Attempts to connect that failed.",
        "connections_errors",
        1,
    ),
)


def _count_unembedded(library: Library) -> int:
    try:
        status = library.index_status()
    except RecollectError:  # closed in the meantime
        return 0
    return status.passages - status.embedded
