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
from recollect.serve.http.monitoring.state_metrics import JobCounts, StateCollector

disable_created_metrics()  # type: ignore[no-untyped-call]

_METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))
_SECONDS = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Metrics:
    content_type = CONTENT_TYPE_PLAIN_1_0_0

    def __init__(self, libraries: Libraries) -> None:
        self._registry = CollectorRegistry()
        self._requests = self._counter(
            "recollect_requests_total",
            "Requests by route, method and status.",
            "route",
            "method",
            "status",
        )
        self._seconds = Histogram(
            "recollect_request_seconds",
            "Duration of requests.",
            ["route", "method"],
            buckets=_SECONDS,
            registry=self._registry,
        )
        self.in_flight = self._gauge("recollect_requests_in_flight", "Requests in progress.")
        self.open_streams = self._gauge(
            "recollect_open_streams", "Open event streams and WebSockets."
        )
        self.auth_failures = self._counter(
            "recollect_auth_failures_total", "Requests with a missing or invalid credential."
        )
        self.rate_limited = self._counter(
            "recollect_rate_limited_total", "Requests rejected by a rate limit.", "group"
        )
        self.saved_messages = self._counter(
            "recollect_saved_messages_total",
            "Messages saved while talking to a model, by interface.",
            "interface",
        )
        self.upstream_failures = self._counter(
            "recollect_upstream_failures_total", "Requests the model server did not answer."
        )
        self.not_recorded = self._counter(
            "recollect_not_recorded_total",
            "Messages to or from the model that could not be saved.",
        )
        open_libraries = self._gauge("recollect_open_libraries", "Open libraries.")
        open_libraries.set_function(lambda: len(libraries))

    def _counter(self, name: str, description: str, *labels: str) -> Counter:
        return Counter(name, description, labels, registry=self._registry)

    def _gauge(self, name: str, description: str) -> Gauge:
        return Gauge(name, description, registry=self._registry)

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
