"""Health, readiness, numbers and the page of operations."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from asgi import MakeKey
from fastapi import FastAPI
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient

import recollect
from recollect.errors import StoreUnavailable
from recollect.serve.http.service import Service
from recollect.settings import LIMITS

CANARY = "zebra-canary"


@pytest.fixture
def number(service: Service) -> Callable[..., float | None]:
    """What a metric says now."""

    def value(name: str, **labels: str) -> float | None:
        found = [
            sample.value
            for family in text_string_to_metric_families(service.metrics.text().decode())
            for sample in family.samples
            if sample.name == name and sample.labels == labels
        ]
        return found[0] if found else None

    return value


def test_health_says_the_version_and_the_limits(client: TestClient, place: str) -> None:
    said = client.get("/healthz").json()
    assert said == {
        "status": "ok",
        "version": recollect.__version__,
        "limits": LIMITS.table(),
        "engine": "postgresql" if "://" in place else "sqlite",
    }


def test_readiness_depends_on_the_store_and_on_the_end(
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
def test_nobody_comes_in_while_it_is_not_known_whether_there_are_keys(
    client: TestClient, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        service.keys,
        "has_any",
        lambda: (_ for _ in ()).throw(StoreUnavailable(f"{CANARY} is down")),
    )
    answer = client.get("/openapi.json")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "2")
    assert CANARY not in answer.text


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_requests_are_counted_by_route_and_never_by_what_was_asked(
    app: FastAPI, client: TestClient, service: Service, number: Any
) -> None:
    for n in range(20):
        client.get(f"/{CANARY}/{n}?q={CANARY}")
        client.delete(f"/api/keys/{CANARY}{n}")
        client.request(f"M{n}", f"/healthz?{CANARY}")
    client.get("/healthz")
    assert number("recollect_requests_total", route="-", method="GET", status="404") == 20
    assert (
        number("recollect_requests_total", route="/api/keys/{id}", method="DELETE", status="404")
        == 20
    )
    assert number("recollect_requests_total", route="/healthz", method="OTHER", status="405") == 20
    assert number("recollect_request_seconds_count", route="/healthz", method="GET") == 1
    assert number("recollect_requests_in_flight") == 0
    assert CANARY not in service.metrics.text().decode()


def test_failures_limits_and_open_libraries_are_counted(
    client: TestClient, service: Service, key: MakeKey, user: str, number: Any
) -> None:
    with service.libraries.borrow(user):
        assert number("recollect_open_libraries") == 1
    headers = key(user=user)
    client.get("/docs")
    client.get("/docs", headers={"X-API-Key": "wrong"})
    client.get("/docs", headers=headers)
    assert number("recollect_auth_failures_total") == 2
    service.metrics.saved_messages.labels("rest").inc(3)
    assert number("recollect_saved_messages_total", interface="rest") == 3


def test_numbers_are_for_administrators(client: TestClient, key: MakeKey, user: str) -> None:
    answer = client.get("/metrics")
    assert answer.status_code == 200, "on this computer, without keys, everybody is"
    assert answer.headers["content-type"].startswith("text/plain; version=")
    admin, plain = key(("admin",), user=user), key(user=user)
    assert client.get("/metrics").status_code == 401
    assert client.get("/metrics", headers=plain).status_code == 403
    assert "recollect_requests_total" in client.get("/metrics", headers=admin).text


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_each_service_counts_for_itself(
    client: TestClient, service: Service, tmp_path: Any
) -> None:
    other = Service(tmp_path / "other")
    client.get("/healthz")
    assert "/healthz" in service.metrics.text().decode()
    assert "/healthz" not in other.metrics.text().decode()
    other.close()


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_the_page_of_operations_has_them_all_and_no_script(
    app: FastAPI, client: TestClient
) -> None:
    page = client.get("/docs")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    for path, methods in app.openapi()["paths"].items():
        for method in methods:
            assert f"<code>{method.upper()} {path}</code>" in page.text
    assert "<script" not in page.text
    assert not re.findall(r"(?:src|href)=\"(?!/)", page.text), "nothing comes from elsewhere"
    assert " style=" not in page.text
