"""Rate limits by user and group of routes, and limits on failed logins."""

from __future__ import annotations

import asyncio
from contextlib import closing

import pytest
from asgi import MakeKey, raw
from fastapi import FastAPI
from starlette.testclient import TestClient

from recollect.places import shared_database
from recollect.serve.app import make_app
from recollect.serve.http import assets
from recollect.serve.http.checks.limits import ANONYMOUS, CHAT, GROUPS, STATIC, Buckets, Limiter
from recollect.serve.http.service import Service, ServiceConfig
from recollect.serve.identity.auth import FAILURES_PER_MINUTE
from recollect.settings import place as library_place
from recollect.store.shared.limits import LimitStore


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


def test_a_clock_that_goes_back_adds_and_removes_no_tokens() -> None:
    clock = Clock()
    buckets = Buckets(60, 1, clock)
    buckets.take("ann")
    clock.now -= 500
    assert buckets.take("ann") == pytest.approx(1.0)


@pytest.mark.full
def test_the_memory_of_a_limiter_is_bounded() -> None:
    buckets = Buckets(60, 3, Clock(), max_buckets=1_000)
    for n in range(100_000):
        buckets.take(f"peer {n}")
        buckets.wait(f"other {n}")
    assert len(buckets) == 1_000


def test_frequently_used_buckets_are_not_dropped() -> None:
    buckets = Buckets(60, 2, Clock(), max_buckets=10)
    assert [buckets.take("often") for _ in range(2)] == [0, 0]
    for n in range(100):
        buckets.take(n)
        assert buckets.take("often") > 0


def test_groups_have_separate_limits_and_chats_a_lower_one() -> None:
    limiter = Limiter(100, Clock())
    assert all(limiter.take("ann", "read") == 0 for _ in range(100))
    assert limiter.take("ann", "read") == 1
    assert limiter.take("ann", "write") == limiter.take("ann", "search") == 0
    assert limiter.take("ben", "read") == 0
    for group in ("chat", "import"):
        assert [limiter.take("ann", group) for _ in range(61)] == [0] * 60 + [1]


def test_a_rate_of_zero_disables_the_limits() -> None:
    limiter = Limiter(0, Clock())
    assert not any(limiter.take("ann", group) for group in GROUPS for _ in range(10_000))
    assert len(limiter) == 0


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


@pytest.mark.both_stores
def test_invalid_keys_are_counted_over_all_servers(
    app: FastAPI, key: MakeKey, user: str, place: str
) -> None:
    good = key(user=user)["Authorization"]
    other_service = Service(library_place(place), ServiceConfig())
    apps = (app, make_app(other_service))

    async def run() -> list[int]:
        statuses = []
        for n in range(2 * FAILURES_PER_MINUTE):
            headers = [("authorization", f"Bearer rk_{n:012x}_{'A' * 43}")]
            answer = await raw(apps[n % 2], "GET", "/openapi.json", headers=headers)
            statuses.append(answer.status)
        for each in apps:
            answer = await raw(each, "GET", "/openapi.json", headers=[("authorization", good)])
            statuses.append(answer.status)
        return statuses

    statuses = asyncio.run(run())
    other_service.close()
    # The server that does not know of the last failure yet tries one credential more.
    assert FAILURES_PER_MINUTE <= statuses.count(401) <= FAILURES_PER_MINUTE + 5
    assert statuses[-22:] == [429] * 22


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


@pytest.mark.full
@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_many_unknown_clients_use_little_memory(
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


def test_expensive_requests_are_counted_over_all_servers(place: str, user: str) -> None:
    with closing(shared_database(place)) as one, closing(shared_database(place)) as other:
        here = Limiter(3_000, store=LimitStore(one))
        there = Limiter(3_000, store=LimitStore(other))
        for _ in range(40):
            assert here.take(user, CHAT) == 0
        assert here.exchange()
        for _ in range(19):
            assert there.take(user, CHAT) == 0
        assert there.exchange()
        for limiter in (here, there):
            limiter.take("another user", CHAT)
            limiter.exchange()
        waits = [there.take(user, CHAT) for _ in range(5)]
        assert any(waits), "together they have used up the 60 requests of a minute"
        assert there.take("another user", CHAT) == 0
        here.close()
        there.close()


def test_without_the_database_each_server_counts_by_itself(
    place: str, user: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECOLLECT_READ_ONLY", "on")
    with closing(shared_database(place)) as database:
        limiter = Limiter(3_000, store=LimitStore(database))
        assert limiter.take(user, CHAT) == 0
        assert not limiter.exchange()
        assert [limiter.take(user, CHAT) for _ in range(60)][-1] > 0
        limiter.close()
