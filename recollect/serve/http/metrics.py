"""Prometheus metrics of a server. There are few labels, and none holds user data.

The state of the queue, the index and the database pool is read when the metrics are requested.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_1_0_0
from prometheus_client.registry import Collector

from recollect.errors import RecollectError
from recollect.library import Library
from recollect.places import pool_statistics
from recollect.serve.http.libraries import Libraries
from recollect.store.shared.jobs import JobCounts

disable_created_metrics()  # type: ignore[no-untyped-call]

# Counting what is not embedded reads every open library.
_SECONDS_BETWEEN_COUNTS = 60.0
_METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))
_SECONDS = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_POOL_GAUGES = (
    ("connections_limit", "Connections that this server may have.", "pool_max"),
    ("waiting", "Transactions that wait for a connection.", "requests_waiting"),
)
_POOL_COUNTERS = (
    ("transactions", "Transactions.", "requests_num"),
    ("waits", "Transactions that had to wait for a connection.", "requests_queued"),
    ("wait_seconds", "Time that transactions waited for a connection.", "requests_wait_ms"),
    ("failed_waits", "Transactions that got no connection in time.", "requests_errors"),
    ("connection_failures", "Attempts to connect that failed.", "connections_errors"),
)


class Metrics(Collector):
    content_type = CONTENT_TYPE_PLAIN_1_0_0

    def __init__(
        self,
        libraries: Libraries,
        place: Path | str,
        count_jobs: Callable[[], Mapping[str, JobCounts]],
    ) -> None:
        self._libraries = libraries
        self._place = place
        self._count_jobs = count_jobs
        self._lock = threading.Lock()
        self._unembedded = 0
        self._counted_until = 0.0
        self._registry = CollectorRegistry()

        def counter(name: str, about: str, *labels: str) -> Counter:
            return Counter(f"recollect_{name}_total", about, labels, registry=self._registry)

        def gauge(name: str, about: str) -> Gauge:
            return Gauge(f"recollect_{name}", about, registry=self._registry)

        self._requests = counter(
            "requests", "Requests by route, method and status.", "route", "method", "status"
        )
        self._seconds = Histogram(
            "recollect_request_seconds",
            "Duration of requests.",
            ["route", "method"],
            buckets=_SECONDS,
            registry=self._registry,
        )
        self.in_flight = gauge("requests_in_flight", "Requests in progress.")
        self.open_streams = gauge("open_streams", "Open event streams and WebSockets.")
        self.auth_failures = counter(
            "auth_failures", "Requests with a missing or invalid credential."
        )
        self.rate_limited = counter("rate_limited", "Requests rejected by a rate limit.", "group")
        self.saved_messages = counter(
            "saved_messages", "Messages saved while talking to a model, by interface.", "interface"
        )
        self.upstream_failures = counter(
            "upstream_failures", "Requests the model server did not answer."
        )
        self.not_recorded = counter(
            "not_recorded", "Messages to or from the model that could not be saved."
        )
        gauge("open_libraries", "Open libraries.").set_function(lambda: len(libraries))
        self._registry.register(self)

    def count_request(self, route: str, method: str, status: int, seconds: float) -> None:
        if method not in _METHODS:
            method = "OTHER"
        self._requests.labels(route, method, str(status)).inc()
        self._seconds.labels(route, method).observe(seconds)

    def text(self) -> bytes:
        return generate_latest(self._registry)

    def describe(self) -> Iterable[Metric]:
        return []  # otherwise registering would call `collect`

    def collect(self) -> Iterable[Metric]:
        """The state of the server. Values that cannot be read are left out."""
        yield from self._job_metrics()
        yield GaugeMetricFamily(
            "recollect_unembedded_messages",
            "Messages without a vector in the libraries that this server has open.",
            value=self.count_unembedded(),
        )
        pool = pool_statistics(self._place)
        if pool is None:
            return
        connections = GaugeMetricFamily(
            "recollect_database_connections",
            "Connections to the database by state.",
            labels=["state"],
        )
        idle = pool.get("pool_available", 0)
        connections.add_metric(["idle"], idle)
        connections.add_metric(["busy"], pool.get("pool_size", 0) - idle)
        yield connections
        for name, about, key in _POOL_GAUGES:
            yield GaugeMetricFamily(f"recollect_database_{name}", about, value=pool.get(key, 0))
        for name, about, key in _POOL_COUNTERS:
            value = pool.get(key, 0) / (1000 if key.endswith("_ms") else 1)
            yield CounterMetricFamily(f"recollect_database_{name}", about, value=value)

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
            for state in ("waiting", "running", "failed"):
                jobs.add_metric([kind, state], getattr(count, state))
            oldest.add_metric([kind], count.oldest_seconds)
        yield jobs
        yield oldest

    def count_unembedded(self) -> int:
        def count(library: Library) -> int:
            try:
                status = library.index_status()
            except RecollectError:  # closed in the meantime
                return 0
            return status.passages - status.embedded

        with self._lock:
            if time.monotonic() >= self._counted_until:
                self._unembedded = sum(self._libraries.map(count))
                self._counted_until = time.monotonic() + _SECONDS_BETWEEN_COUNTS
            return self._unembedded
