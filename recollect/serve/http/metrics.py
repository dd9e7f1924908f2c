"""Prometheus metrics of a server. There are few labels, and none holds user data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_1_0_0

from recollect.serve.http.libraries import Libraries
from recollect.serve.http.state_metrics import JobCounts, StateCollector

disable_created_metrics()  # type: ignore[no-untyped-call]

_METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))
_SECONDS = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Metrics:
    content_type = CONTENT_TYPE_PLAIN_1_0_0

    def __init__(self, libraries: Libraries) -> None:
        self._registry = registry = CollectorRegistry()
        self._requests = Counter(
            "recollect_requests_total",
            "Requests by route, method and status.",
            ["route", "method", "status"],
            registry=registry,
        )
        self._seconds = Histogram(
            "recollect_request_seconds",
            "Duration of requests.",
            ["route", "method"],
            buckets=_SECONDS,
            registry=registry,
        )
        self.in_flight = Gauge(
            "recollect_requests_in_flight", "Requests in progress.", registry=registry
        )
        self.open_streams = Gauge(
            "recollect_open_streams", "Open event streams and WebSockets.", registry=registry
        )
        self.auth_failures = Counter(
            "recollect_auth_failures_total",
            "Requests with a missing or invalid credential.",
            registry=registry,
        )
        self.rate_limited = Counter(
            "recollect_rate_limited_total",
            "Requests rejected by a rate limit.",
            ["group"],
            registry=registry,
        )
        self.saved_messages = Counter(
            "recollect_saved_messages_total",
            "Messages saved while talking to a model, by interface.",
            ["interface"],
            registry=registry,
        )
        self.upstream_failures = Counter(
            "recollect_upstream_failures_total",
            "Requests the model server did not answer.",
            registry=registry,
        )
        self.not_recorded = Counter(
            "recollect_not_recorded_total",
            "Messages to or from the model that could not be saved.",
            registry=registry,
        )
        open_libraries = Gauge("recollect_open_libraries", "Open libraries.", registry=registry)
        open_libraries.set_function(lambda: len(libraries))

    def watch(
        self,
        libraries: Libraries,
        place: Path | str,
        count_jobs: Callable[[], Mapping[str, JobCounts]],
    ) -> None:
        """Also report the state of the queue, the index and the database."""
        self._registry.register(StateCollector(libraries, place, count_jobs))

    def count_request(self, route: str, method: str, status: int, seconds: float) -> None:
        if method not in _METHODS:
            method = "OTHER"
        self._requests.labels(route, method, str(status)).inc()
        self._seconds.labels(route, method).observe(seconds)

    def text(self) -> bytes:
        return generate_latest(self._registry)
