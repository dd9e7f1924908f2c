"""Sessions of the console and rotation of API keys."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from asgi import ADDRESS, MakeKey
from fastapi import FastAPI
from starlette.testclient import TestClient

from recollect.serve.app import make_app
from recollect.serve.http.service import Service, ServiceConfig
from recollect.serve.identity.accounts import (
    PLAIN_COOKIE,
    SECURE_COOKIE,
    check,
    check_session,
    cookie_values,
    live_sessions,
    new_key,
    rotate,
)
from recollect.serve.identity.principal import JwtSettings, Principal
from recollect.store.api_keys import ApiKeys

FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:130.0) Gecko/20100101 Firefox/130.0"


@pytest.fixture
def keys(service: Service) -> ApiKeys:
    return service.keys


@pytest.fixture
def browser(app: FastAPI) -> Iterator[TestClient]:
    headers = {"User-Agent": FIREFOX, "Accept": "text/html", "Origin": ADDRESS}
    with TestClient(app, ADDRESS, headers=headers, follow_redirects=False) as browser:
        yield browser


def log_in(browser: TestClient, key: dict[str, str]) -> str:
    """Log in with a key. Returns the text of the session."""
    text = key["Authorization"].removeprefix("Bearer ")
    response = browser.post("/login", data={"key": text, "next": "/imports"})
    assert (response.status_code, response.headers["location"]) == (303, "/imports")
    return browser.cookies[PLAIN_COOKIE]


# -- the cookie ---


def test_the_cookie_holds_a_session_and_not_the_key(
    browser: TestClient, keys: ApiKeys, key: MakeKey, user: str
) -> None:
    headers = key(user=user)
    session = log_in(browser, headers)
    secret = headers["Authorization"].removeprefix("Bearer ")
    assert session.startswith("rs_")
    assert secret not in str(browser.cookies)
    assert browser.get("/imports").status_code == 200
    (stored,) = live_sessions(keys, user)
    assert session.encode() not in stored.hash
    assert (stored.key, stored.user_agent) == (secret[3:15], FIREFOX)


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_the_cookie_is_only_for_this_host(browser: TestClient, key: MakeKey, user: str) -> None:
    text = key(user=user)["Authorization"].removeprefix("Bearer ")
    response = browser.post("/login", data={"key": text})
    cookie = response.headers.get_list("set-cookie")[0]
    for attribute in ("HttpOnly", "Path=/", "SameSite=strict", "expires="):
        assert attribute in cookie
    assert "Domain" not in cookie and "Secure" not in cookie


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_over_https_the_cookie_has_the_host_prefix(
    service: Service, key: MakeKey, user: str
) -> None:
    service.config = replace(
        service.config,
        base_url="https://notes.example",
        public_hosts=("notes.example",),
        secure_cookies=True,
    )
    headers = {"Accept": "text/html", "Origin": "https://notes.example"}
    text = key(user=user)["Authorization"].removeprefix("Bearer ")
    with TestClient(
        make_app(service), "https://notes.example", headers=headers, follow_redirects=False
    ) as browser:
        response = browser.post("/login", data={"key": text})
        cookie = response.headers.get_list("set-cookie")[0]
        assert cookie.startswith(f"{SECURE_COOKIE}=rs_")
        assert "Secure" in cookie and "Path=/" in cookie and "Domain" not in cookie
        assert browser.get("/imports").status_code == 200
        assert browser.post("/logout").status_code == 303
        assert browser.get("/imports").status_code == 303


def test_the_secure_cookie_counts_if_there_are_both() -> None:
    header = f"{PLAIN_COOKIE}=rs_tossed; {SECURE_COOKIE}=rs_own"
    assert cookie_values([header]) == {"rs_own"}
    assert cookie_values([f"a=b; {PLAIN_COOKIE}=rs_1", "c=d"]) == {"rs_1"}
    assert cookie_values([f"{PLAIN_COOKIE}="]) == set()


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_a_session_may_do_exactly_what_its_key_may_do(
    browser: TestClient, keys: ApiKeys, key: MakeKey, user: str
) -> None:
    headers = key(("read",), user=user, toolsets=("conversations",), agent=True)
    principal = check_session(keys, log_in(browser, headers))
    assert principal is not None
    expected = Principal(user, frozenset(("read",)), frozenset(("conversations",)), True)
    credential = headers["Authorization"][10:22]
    assert replace(principal, session="") == replace(expected, credential=credential)
    assert browser.get("/conversations").status_code == 200
    assert browser.get("/api/threads").status_code == 403
    response = browser.post("/conversations", json={"id": "x"})
    assert response.status_code == 403


# -- the end of a session ---


def test_a_session_ends_when_its_key_is_revoked(
    browser: TestClient, keys: ApiKeys, key: MakeKey, user: str
) -> None:
    session = log_in(browser, key(user=user))
    principal = check_session(keys, session)
    assert principal is not None and principal.user == user
    keys.revoke(principal.credential, datetime.now(UTC))
    assert check_session(keys, session) is None
    assert live_sessions(keys, user) == []
    assert browser.get("/imports").status_code == 303


def test_logging_out_ends_the_session_on_the_server(
    browser: TestClient, keys: ApiKeys, key: MakeKey, user: str
) -> None:
    session = log_in(browser, key(user=user))
    assert browser.post("/logout").headers["location"] == "/login"
    assert check_session(keys, session) is None
    browser.cookies.set(PLAIN_COOKIE, session)  # a copy of the cookie is worth nothing
    assert browser.get("/imports").status_code == 303


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_logging_in_again_ends_the_last_session(
    browser: TestClient, keys: ApiKeys, key: MakeKey, user: str
) -> None:
    headers = key(user=user)
    first = log_in(browser, headers)
    second = log_in(browser, headers)
    assert first != second
    assert check_session(keys, first) is None
    assert len(live_sessions(keys, user)) == 1


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_a_session_of_a_token_ends_with_the_token(place: str, user: str) -> None:
    import jwt

    secret = "s" * 32
    config = ServiceConfig(rate_per_minute=0, jwt=JwtSettings(secret=secret))
    service = Service(Path(place), config)
    expires_at = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=1)
    claims: dict[str, Any] = {"sub": user, "exp": expires_at.timestamp(), "scope": "read"}
    headers = {"Accept": "text/html", "Origin": ADDRESS}
    with TestClient(make_app(service), ADDRESS, headers=headers) as browser:
        browser.post("/login", data={"key": jwt.encode(claims, secret, "HS256")})
        (session,) = live_sessions(service.keys, user)
        assert (session.key, session.expires_at, session.scopes) == ("", expires_at, ("read",))
        assert browser.get("/imports").status_code == 200
        assert not service.keys.has_any()
    service.close()


# -- listing and ending ---


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_the_page_lists_sessions_and_ends_them(
    app: FastAPI, browser: TestClient, key: MakeKey, user: str
) -> None:
    headers = key(user=user)
    log_in(browser, headers)
    with TestClient(app, ADDRESS, headers={"User-Agent": "<b>x</b>"}) as other:
        other.post("/login", data={"key": headers["Authorization"].removeprefix("Bearer ")})
    page = browser.get("/settings").text
    assert "Firefox on Linux" in page and "this browser" in page
    assert "<b>x</b>" not in page
    assert page.count("End session") == 1
    action = page.partition('action="/sessions/')[2].partition('"')[0]
    assert browser.post(f"/sessions/{action}").headers["location"] == "/settings#sessions"
    assert "End session" not in browser.get("/settings").text
    assert browser.post(f"/sessions/{action}").status_code == 303, "a second click does no harm"


# -- rotation ---


def test_a_rotated_key_may_do_the_same(keys: ApiKeys, user: str) -> None:
    expires_at = datetime.now(UTC) + timedelta(days=9)
    old_text, old = new_key(keys, user, "laptop", ["read"], ["bus"], True, expires_at)
    text, key, replaced_key = rotate(keys, "laptop", user=user)
    assert replaced_key.id == old.id
    assert check(keys, old_text) is None
    stored = check(keys, text)
    assert stored is not None
    same = {"id": old.id, "hash": old.hash, "created_at": old.created_at, "used_at": None}
    assert replace(stored, **same) == replace(old, used_at=None, expires_at=stored.expires_at)
    assert keys.replacements()[old.id] == key.id


def test_the_old_key_works_during_the_grace_period(keys: ApiKeys, user: str) -> None:
    old_text, old = new_key(keys, user, "laptop")
    text, _, old_key = rotate(keys, old.id, timedelta(days=1))
    (stored,) = [key for key in keys.all_keys() if key.id == old.id]
    assert stored == old_key
    assert stored.used_at is None, "replacing a key does not use it"
    assert check(keys, old_text) and check(keys, text)
    expiry = next(key for key in keys.all_keys() if key.id == old.id).expires_at
    assert expiry is not None
    assert timedelta(hours=23) < expiry - datetime.now(UTC) <= timedelta(days=1)
    rotate(keys, "laptop", user=user)  # the name means the new key
    assert check(keys, text) is None


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_a_key_is_rotated_over_http(client: TestClient, key: MakeKey, user: str) -> None:
    admin, old = key(("read", "admin"), user=user), key(user=user)
    id = old["Authorization"].removeprefix("Bearer ")[3:15]
    assert client.post(f"/api/keys/{id}/rotate", json={}, headers=old).status_code == 403
    body = {"grace_seconds": 60}
    response = client.post(f"/api/keys/{id}/rotate", json=body, headers=admin)
    assert response.status_code == 201
    new = {"X-API-Key": response.json()["key"]}
    for headers in (old, new):
        assert client.get("/conversations", headers=headers).status_code == 200
    records = {
        record["id"]: record for record in client.get("/api/keys", headers=admin).json()["keys"]
    }
    assert records[id]["replaced_by"] == response.json()["id"]
    assert records[response.json()["id"]]["replaced_by"] is None
    for bad in ({"grace_seconds": -1}, {"grace_seconds": 10**9}, {"other": 1}):
        assert client.post(f"/api/keys/{id}/rotate", json=bad, headers=admin).status_code == 400


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_a_session_is_valid_in_the_cookie_only(
    browser: TestClient, client: TestClient, key: MakeKey, user: str
) -> None:
    session = log_in(browser, key(user=user))
    for headers in ({"Authorization": f"Bearer {session}"}, {"X-API-Key": session}):
        assert client.get("/conversations", headers=headers).status_code == 401
    assert browser.post("/login", data={"key": session}).status_code == 401
