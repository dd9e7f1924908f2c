"""What a server counts, in Prometheus' words. Labels are few and never hold what somebody wrote."""

from __future__ import annotations

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

disable_created_metrics()  # type: ignore[no-untyped-call]

_METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))
_SECONDS = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Metrics:
    content_type = CONTENT_TYPE_PLAIN_1_0_0

    def __init__(self, libraries: Libraries) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "recollect_requests_total",
            "Requests answered.",
            ["route", "method", "status"],
            registry=self._registry,
        )
        self._seconds = Histogram(
            "recollect_request_seconds",
            "How long requests took.",
            ["route", "method"],
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._answered: dict[
            tuple[str, str, int], tuple[Counter, Histogram]
        ] = {}  # to find labels is dear
        self.in_flight = Gauge(
            "recollect_requests_in_flight", "Requests being answered.", registry=self._registry
        )
        self.open_streams = Gauge(
            "recollect_open_streams", "Event streams being sent.", registry=self._registry
        )
        self.auth_failures = Counter(
            "recollect_auth_failures_total",
            "Requests whose credential was missing or wrong.",
            registry=self._registry,
        )
        self.rate_limited = Counter(
            "recollect_rate_limited_total",
            "Requests refused because there were too many.",
            ["group"],
            registry=self._registry,
        )
        self.saved_messages = Counter(
            "recollect_saved_messages_total",
            "Messages saved, by the door they came through.",
            ["door"],
            registry=self._registry,
        )
        self.imports = Counter(
            "recollect_imports_total", "Imports ended.", ["result"], registry=self._registry
        )
        self.upstream_failures = Counter(
            "recollect_upstream_failures_total",
            "Requests that the model behind did not answer.",
            registry=self._registry,
        )
        self.not_recorded = Counter(
            "recollect_not_recorded_total",
            "What was said to or by the model behind and could not be saved.",
            registry=self._registry,
        )
        Gauge(
            "recollect_open_libraries", "Libraries kept open.", registry=self._registry
        ).set_function(lambda: len(libraries))

    def answered(self, route: str, method: str, status: int, seconds: float) -> None:
        method = method if method in _METHODS else "OTHER"
        counted = self._answered.get((route, method, status))
        if counted is None:
            counted = (
                self._requests.labels(route, method, str(status)),
                self._seconds.labels(route, method),
            )
            self._answered[route, method, status] = counted
        requests, times = counted
        requests.inc()
        times.observe(seconds)

    def text(self) -> bytes:
        return generate_latest(self._registry)
