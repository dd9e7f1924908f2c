"""Limits by user and kind of request, for strangers, and their memory."""

from __future__ import annotations

import asyncio

import pytest
from asgi import MakeKey, raw
from fastapi import FastAPI
from starlette.testclient import TestClient

from recollect.serve.http.auth import FAILURES_PER_MINUTE
from recollect.serve.http.limits import GROUPS, Buckets, Limiter
from recollect.serve.http.service import Service, ServiceConfig


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_bucket_empties_and_fills_again() -> None:
    clock = Clock()
    buckets = Buckets(60, 3, clock)
    assert [buckets.take("ann") for _ in range(4)] == [0, 0, 0, 1.0]
    assert buckets.take("ben") == 0
    clock.now += 0.5
    assert buckets.take("ann") == pytest.approx(0.5)
    clock.now += 0.5
    assert (buckets.take("ann"), buckets.take("ann")) == (0, 1.0)
    clock.now += 3600
    assert [buckets.take("ann") for _ in range(4)] == [0, 0, 0, 1.0]


def test_a_clock_that_goes_back_gives_nothing_away_and_takes_nothing() -> None:
    clock = Clock()
    buckets = Buckets(60, 1, clock)
    buckets.take("ann")
    clock.now -= 500
    assert buckets.take("ann") == pytest.approx(1.0)


def test_the_memory_of_a_limiter_is_bounded() -> None:
    buckets = Buckets(60, 3, Clock(), max_buckets=1_000)
    for n in range(100_000):
        buckets.take(f"peer {n}")
        buckets.wait(f"other {n}")
    assert len(buckets) == 1_000


def test_who_asks_often_is_not_forgotten_before_who_asked_once() -> None:
    buckets = Buckets(60, 2, Clock(), max_buckets=10)
    assert [buckets.take("often") for _ in range(2)] == [0, 0]
    for n in range(100):
        buckets.take(n)
        assert buckets.take("often") > 0


def test_kinds_of_requests_are_limited_apart_and_chats_more() -> None:
    limiter = Limiter(100, Clock())
    assert all(limiter.take("ann", "read") == 0 for _ in range(100))
    assert limiter.take("ann", "read") == 1
    assert limiter.take("ann", "write") == limiter.take("ann", "search") == 0
    assert limiter.take("ben", "read") == 0
    for group in ("chat", "import"):
        assert [limiter.take("ann", group) for _ in range(61)] == [0] * 60 + [1]


def test_a_rate_of_nothing_is_no_limit() -> None:
    limiter = Limiter(0, Clock())
    assert not any(limiter.take("ann", group) for group in GROUPS for _ in range(10_000))
    assert len(limiter) == 0


# -- over HTTP ---


@pytest.fixture
def config() -> ServiceConfig:
    return ServiceConfig(rate_per_minute=5)


def test_over_the_limit_there_is_a_time_to_wait(client: TestClient) -> None:
    statuses = [client.get("/openapi.json").status_code for _ in range(6)]
    assert statuses == [200] * 5 + [429]
    refused = client.get("/openapi.json")
    assert 1 <= int(refused.headers["retry-after"]) <= 12
    assert refused.json()["error"]["retry_after"] == int(refused.headers["retry-after"])
    assert refused.json()["error"]["code"] == "RATE_LIMIT_EXCEEDED"
    assert client.post("/api/keys", json={}).status_code == 400  # another kind
    assert client.get("/healthz").status_code == 200


def test_a_user_is_limited_over_all_keys_and_not_for_others(
    client: TestClient, key: MakeKey, user: str
) -> None:
    first, second, other = key(user=user), key(user=user), key(user=f"{user}-other")
    for n in range(5):
        assert client.get("/openapi.json", headers=(first, second)[n % 2]).status_code == 200
    assert client.get("/openapi.json", headers=second).status_code == 429
    assert client.get("/openapi.json", headers=other).status_code == 200


def test_wrong_keys_are_limited_by_where_they_come_from_and_nothing_they_say(
    app: FastAPI, service: Service, key: MakeKey, user: str
) -> None:
    good = key(user=user)["Authorization"]

    def told(n: int) -> list[tuple[str, str]]:
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
                app, "GET", "/openapi.json", headers=[("authorization", wrong), *told(n)]
            )
            statuses.append(answer.status)
        late = await raw(app, "GET", "/openapi.json", headers=[("authorization", good)])
        elsewhere = await raw(
            app, "GET", "/openapi.json", headers=[("authorization", good)], peer="192.0.2.1"
        )
        known = await raw(app, "GET", "/openapi.json", headers=[("authorization", good)])
        return [*statuses, late.status, elsewhere.status, known.status]

    statuses = asyncio.run(run())
    assert statuses[:-3] == [401] * FAILURES_PER_MINUTE + [429] * 20
    # Who was never seen waits with the stranger; who is known does not, or one bad client would lock out all
    # who come through the same proxy.
    assert statuses[-3:] == [429, 200, 200]


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_addresses_of_one_ipv6_network_are_one_peer(app: FastAPI, key: MakeKey, user: str) -> None:
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


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_many_strangers_cost_little_memory(
    app: FastAPI, service: Service, key: MakeKey, user: str
) -> None:
    key(user=user)

    async def run() -> None:
        for n in range(500):
            wrong = [("authorization", f"Bearer rk_{n:012x}_{'A' * 43}")]
            await raw(app, "GET", "/x", headers=wrong, peer=f"10.0.{n // 250}.{n % 250}")

    service.auth._failures._max_buckets = 100
    asyncio.run(run())
    assert len(service.auth._failures) == 100
    assert not service.auth._valid
