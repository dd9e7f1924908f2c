"""Addresses behind proxies: only a trusted proxy may name the client, and memory stays bounded."""

from __future__ import annotations

from pathlib import Path

import pytest
from http_service import server

from recollect.errors import InvalidInput
from recollect.serve.http import limits
from recollect.serve.http.hosts import client_address
from recollect.serve.http.service import ServiceConfig

PROXIES = ("10.0.0.0/8", "::1")


@pytest.mark.parametrize(
    ("peer", "headers", "client"),
    [
        ("192.0.2.1", [], "192.0.2.1"),
        ("192.0.2.1", ["198.51.100.7"], "192.0.2.1"),
        ("10.0.0.1", [], "10.0.0.1"),
        ("10.0.0.1", ["198.51.100.7"], "198.51.100.7"),
        ("10.0.0.1", ["1.1.1.1, 198.51.100.7"], "198.51.100.7"),
        ("10.0.0.1", ["1.1.1.1", "198.51.100.7, 10.2.3.4"], "198.51.100.7"),
        ("::1", ["2001:db8::7"], "2001:db8::7"),
        ("::ffff:10.0.0.1", ["198.51.100.7"], "198.51.100.7"),
        ("10.0.0.1", ["198.51.100.7, unknown"], "10.0.0.1"),
        ("10.0.0.1", ["198.51.100.7:1234"], "10.0.0.1"),
        ("10.0.0.1", ["x" * 100_000], "10.0.0.1"),
        ("10.0.0.1", ["10.0.0.2, 10.0.0.3"], "10.0.0.2"),
        ("", ["198.51.100.7"], ""),
        ("a unix socket", ["198.51.100.7"], "a unix socket"),
    ],
)
def test_only_what_trusted_proxies_wrote_counts(peer: str, headers: list[str], client: str) -> None:
    assert client_address(peer, headers, PROXIES) == client


def test_without_trusted_proxies_the_header_is_ignored() -> None:
    assert client_address("127.0.0.1", ["198.51.100.7"], ()) == "127.0.0.1"


@pytest.mark.parametrize("proxy", ["nonsense", "10.0.0.1/8", "proxy.example"])
def test_a_trusted_proxy_is_an_address_or_a_network(proxy: str) -> None:
    with pytest.raises(InvalidInput, match="trusted proxies"):
        ServiceConfig(trusted_proxies=(proxy,))


@pytest.mark.parametrize("path", ["/healthz", "/conversations"])
def test_requests_without_a_credential_are_limited_by_address(
    tmp_path: Path, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "ANONYMOUS_PER_MINUTE", 20)
    with server(tmp_path, rate_per_minute=100) as instance:
        instance.key()
        client = instance.client(client=("192.0.2.1", 1))
        for buckets in instance.service.limiter._buckets.values():
            monkeypatch.setattr(buckets, "_clock", lambda: 0.0)  # on a busy computer, time passes
        statuses = []
        for number in range(40):
            headers = {
                "X-Forwarded-For": f"198.51.100.{number}",
                "Forwarded": f"for=198.51.100.{number}",
                "X-Real-IP": f"198.51.100.{number}",
            }
            statuses.append(client.get(path, headers=headers).status_code)
        assert 429 not in statuses[:20]
        assert statuses[25:] == [429] * 15
        assert len(instance.service.limiter) == 1
        other = instance.client(client=("192.0.2.2", 1))
        assert other.get(path).status_code in (200, 401)


def test_clients_behind_a_trusted_proxy_have_limits_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "ANONYMOUS_PER_MINUTE", 5)
    with server(tmp_path, rate_per_minute=100, trusted_proxies=("192.0.2.1",)) as instance:
        client = instance.client(client=("192.0.2.1", 1))
        for number in range(20):
            headers = {"X-Forwarded-For": f"6.6.6.6, 198.51.100.{number}"}
            assert client.get("/healthz", headers=headers).status_code == 200
        headers = {"X-Forwarded-For": "198.51.100.1"}
        statuses = [client.get("/healthz", headers=headers).status_code for _ in range(10)]
        assert statuses[-1] == 429


def test_failed_logins_count_against_the_client_behind_the_proxy(tmp_path: Path) -> None:
    with server(tmp_path, trusted_proxies=("192.0.2.1",)) as instance:
        key = instance.key()
        client = instance.client(client=("192.0.2.1", 1))
        attacker = {"X-Forwarded-For": "198.51.100.1", "X-API-Key": "rk_wrong"}
        statuses = [client.get("/conversations", headers=attacker).status_code for _ in range(40)]
        assert (statuses[0], statuses[-1]) == (401, 429)
        person = {"X-Forwarded-For": "198.51.100.2", "X-API-Key": key}
        assert client.get("/conversations", headers=person).status_code == 200
