"""Rate limits by user and group of routes, and limits on failed logins."""

from __future__ import annotations

import asyncio

import pytest
from asgi import MakeKey, raw
from fastapi import FastAPI
from starlette.testclient import TestClient

from recollect.serve.http import assets
from recollect.serve.http.limits import ANONYMOUS, STATIC, Limiter
from recollect.serve.http.service import Service, ServiceConfig
from recollect.serve.identity.auth import FAILURES_PER_MINUTE


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


# -- over HTTP ---


@pytest.fixture
def config() -> ServiceConfig:
    return ServiceConfig(rate_per_minute=5)


def test_requests_over_the_limit_get_a_retry_after(client: TestClient) -> None:
    statuses = [client.get("/openapi.json").status_code for _ in range(6)]
    assert statuses == [200] * 5 + [429]
    refused = client.get("/openapi.json")
    assert 1 <= int(refused.headers["retry-after"]) <= 12
    assert refused.json()["error"]["retry_after"] == int(refused.headers["retry-after"])
    assert refused.json()["error"]["code"] == "RATE_LIMIT_EXCEEDED"
    assert client.post("/api/keys", json={}).status_code == 400  # another group
    assert client.get("/healthz").status_code == 200


def test_the_limit_covers_all_keys_of_a_user_but_no_other_users(
    client: TestClient, key: MakeKey, user: str
) -> None:
    first, second, other = key(user=user), key(user=user), key(user=f"{user}-other")
    for n in range(5):
        assert client.get("/openapi.json", headers=(first, second)[n % 2]).status_code == 200
    assert client.get("/openapi.json", headers=second).status_code == 429
    assert client.get("/openapi.json", headers=other).status_code == 200


def test_invalid_keys_are_limited_by_address_whatever_the_headers_claim(
    app: FastAPI, service: Service, key: MakeKey, user: str
) -> None:
    good = key(user=user)["Authorization"]

    def proxy_headers(n: int) -> list[tuple[str, str]]:
        return [
            ("x-forwarded-for", f"10.1.{n}.1"),
            ("forwarded", f"for=10.2.{n}.1"),
            ("x-real-ip", f"10.3.{n}.1"),
        ]

    async def run() -> list[int]:
        statuses = []
        for n in range(FAILURES_PER_MINUTE + 20):
            wrong = f"Bearer rk_{n:012x}_{'A' * 43}"
            answer = await raw(
                app, "GET", "/openapi.json", headers=[("authorization", wrong), *proxy_headers(n)]
            )
            statuses.append(answer.status)
        unfamiliar = await raw(app, "GET", "/openapi.json", headers=[("authorization", good)])
        elsewhere = await raw(
            app, "GET", "/openapi.json", headers=[("authorization", good)], peer="192.0.2.1"
        )
        familiar = await raw(app, "GET", "/openapi.json", headers=[("authorization", good)])
        return [*statuses, unfamiliar.status, elsewhere.status, familiar.status]

    statuses = asyncio.run(run())
    assert statuses[:-3] == [401] * FAILURES_PER_MINUTE + [429] * 20
    # A key that was never used here must wait as well. One that was used need not, or one bad
    # client would lock out everyone behind the same proxy.
    assert statuses[-3:] == [429, 200, 200]


def test_static_files_have_a_limit_of_their_own(client: TestClient, service: Service) -> None:
    for group, static_status, health_status in ((ANONYMOUS, 200, 429), (STATIC, 429, 200)):
        service.limiter = Limiter(5, Clock())
        while not service.limiter.take("127.0.0.1", group):
            pass
        assert client.get(assets.url("sources.css")).status_code == static_status
        assert client.get("/healthz").status_code == health_status
        assert client.get("/openapi.json").status_code == 200


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_addresses_of_one_ipv6_network_share_a_limit(app: FastAPI, key: MakeKey, user: str) -> None:
    key(user=user)

    async def run() -> set[int]:
        wrong = [("authorization", f"Bearer rk_{'0' * 12}_{'A' * 43}")]
        answers = [
            await raw(app, "GET", "/x", headers=wrong, peer=f"2001:db8:0:1::{n:x}")
            for n in range(FAILURES_PER_MINUTE + 1)
        ]
        other = await raw(app, "GET", "/x", headers=wrong, peer="2001:db8:0:2::1")
        return {answers[-1].status, other.status}

    assert asyncio.run(run()) == {429, 401}
