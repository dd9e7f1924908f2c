"""Health, readiness, metrics and the API reference."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from fastapi import FastAPI
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient

import recollect
from recollect.errors import StoreUnavailable
from recollect.serve.http.service import Service
from recollect.settings import LIMITS

CANARY = "zebra-canary"


@pytest.fixture
def metric(service: Service) -> Callable[..., float | None]:
    """The current value of a metric."""

    def value(name: str, **labels: str) -> float | None:
        values = [
            sample.value
            for family in text_string_to_metric_families(service.metrics.text().decode())
            for sample in family.samples
            if sample.name == name and sample.labels == labels
        ]
        return values[0] if values else None

    return value


def test_health_returns_the_version_and_the_limits(client: TestClient, place: str) -> None:
    body = client.get("/healthz").json()
    assert body == {
        "status": "ok",
        "version": recollect.__version__,
        "limits": LIMITS.table(),
        "engine": "postgresql" if "://" in place else "sqlite",
    }


def test_readiness_depends_on_the_store_and_the_shutdown(
    client: TestClient, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert client.get("/readyz").json() == {"status": "ready"}
    with monkeypatch.context() as patched:
        patched.setattr(
            service.keys,
            "has_any",
            lambda: (_ for _ in ()).throw(StoreUnavailable(f"{CANARY} is down")),
        )
        answer = client.get("/readyz")
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "UNAVAILABLE")
        assert CANARY not in answer.text
        assert client.get("/healthz").status_code == 200
    service.draining.set()
    assert client.get("/readyz").status_code == 503
    assert client.get("/healthz").status_code == 200


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_requests_are_counted_by_route_template(
    app: FastAPI, client: TestClient, service: Service, metric: Any
) -> None:
    for n in range(20):
        client.get(f"/{CANARY}/{n}?q={CANARY}")
        client.delete(f"/api/keys/{CANARY}{n}")
        client.request(f"M{n}", f"/healthz?{CANARY}")
    client.get("/healthz")
    assert metric("recollect_requests_total", route="-", method="GET", status="404") == 20
    assert (
        metric("recollect_requests_total", route="/api/keys/{id}", method="DELETE", status="404")
        == 20
    )
    assert metric("recollect_requests_total", route="/healthz", method="OTHER", status="405") == 20
    assert metric("recollect_request_seconds_count", route="/healthz", method="GET") == 1
    assert metric("recollect_requests_in_flight") == 0
    assert CANARY not in service.metrics.text().decode()


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_the_api_reference_has_all_operations_with_examples(
    app: FastAPI, client: TestClient
) -> None:
    page = client.get("/docs")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    for path, methods in app.openapi()["paths"].items():
        for method in methods:
            assert f"<code>{method.upper()} {path}</code>" in page.text
    scripts = re.findall(r"<script[^>]*>", page.text)
    assert len(scripts) == 1  # our own; the reference works without it
    script = re.search(r'src="(/static/[^"]+)"', scripts[0])
    assert script is not None
    assert client.get(script[1]).headers["content-type"].startswith("text/javascript")
    assert "retry_after: integer or null " in page.text
    assert page.text.count('<form class="try"') > 50
    assert page.text.count("<code>curl ") == page.text.count("<details>")
    assert not re.findall(r"(?:src|href)=\"(?!/)", page.text), "no external resources"
    assert " style=" not in page.text


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_the_queue_and_what_is_not_embedded_are_reported(
    service: Service, user: str, metric: Any
) -> None:
    with service.libraries.borrow(user):
        service.jobs.add("later", user, {})  # which nobody runs
        assert metric("recollect_jobs", kind="later", state="waiting") == 1
        assert metric("recollect_jobs", kind="later", state="failed") == 0
        assert metric("recollect_oldest_job_seconds", kind="later") >= 0
        assert metric("recollect_unembedded_messages") == 0
    assert metric("recollect_database_waiting") is None


@pytest.mark.full
def test_the_use_of_the_connection_pool_is_reported(on_postgres: str, user: str) -> None:
    service = Service(on_postgres)
    with service.libraries.borrow(user) as library:
        library.stats()
        text = service.metrics.text().decode()
    service.drain()
    service.close()
    samples = {
        sample.name: sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert samples["recollect_database_transactions_total"] > 0
    assert samples["recollect_database_connections_limit"] == LIMITS.server_connections
    assert samples["recollect_database_waiting"] == 0
