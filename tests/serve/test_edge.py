"""Requests that the edge rejects before they reach a route, and headers that it adds."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from asgi import ADDRESS, MakeKey, raw
from fastapi import FastAPI, Request
from starlette.testclient import TestClient

from recollect import Library
from recollect.errors import SearchTimeout
from recollect.serve.app import make_app
from recollect.serve.http import edge
from recollect.serve.http.access import AccessTo
from recollect.serve.http.service import Service
from recollect.serve.identity.accounts import new_session
from recollect.serve.identity.principal import Principal
from recollect.settings import LIMITS

HERE = "http://127.0.0.1:8765"
HTML = {"Accept": "text/html,application/xhtml+xml"}


@pytest.fixture
def probe_client(app: FastAPI, client: TestClient) -> TestClient:
    """A client of an app with a few test routes."""

    @app.post("/probe")
    async def probe(request: Request) -> dict[str, int]:
        return {"length": len(await request.body())}

    @app.get("/probe")
    def who(access: AccessTo) -> dict[str, str]:
        return {"user": access.principal.user}

    @app.post("/probe/json")
    def parsed(value: dict[str, Any]) -> dict[str, int]:
        return {"fields": len(value)}

    return client


# -- Host ---


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "127.0.0.1.evil",
        "127.0.0.1.evil:8765",
        "localhost",
        "localhost:1",
        "[::1]",
        "127.0.0.1",
        "localhost.:8765",
        "localhost:8765@evil",
        "evil:8765",
        "127.1:8765",
        "2130706433:8765",
        "[::1]:8765.evil",
        "",
        "localhost:08765x",
        "0.0.0.0:8765",
        "[::ffff:127.0.0.1]:8765",
    ],
)
@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_other_host_names_are_rejected_on_every_path(client: TestClient, host: str) -> None:
    for path in ("/healthz", "/conversations", "/static/x/y.css", "/api/events", "/nothing"):
        answer = client.get(path, headers={"Host": host})
        assert answer.status_code == 421
        assert answer.json()["error"]["code"] == "MISDIRECTED_REQUEST"


@pytest.mark.parametrize(
    "host", ["localhost:8765", "LOCALHOST:8765", "127.0.0.1:8765", "[::1]:8765"]
)
@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_local_host_names_with_our_port_are_accepted(client: TestClient, host: str) -> None:
    assert client.get("/healthz", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_a_request_without_a_host_header_is_rejected(app: FastAPI) -> None:
    assert asyncio.run(raw(app, "GET", "/healthz", host=None)).status == 421


# -- Origin ---


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"])
@pytest.mark.parametrize(
    "origin",
    [
        "https://evil.example",
        "null",
        "http://localhost:3000",
        "http://localhost:8765",
        "http://127.0.0.1",
        "file://",
        "http://127.0.0.1:8765.evil",
        "http://127.0.0.1:8765/",
        "chrome-extension://abc",
        "",
    ],
)
@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_requests_from_pages_of_other_sites_are_rejected(
    client: TestClient, method: str, origin: str
) -> None:
    answer = client.request(method, "/healthz", headers={"Origin": origin})
    assert answer.status_code == 403
    assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_requests_from_our_own_pages_are_accepted(probe_client: TestClient) -> None:
    headers = {"Origin": HERE, "Sec-Fetch-Site": "same-origin"}
    assert probe_client.post("/probe", content=b"a=1", headers=headers).json() == {"length": 3}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (
            {
                "Sec-Fetch-Site": "cross-site",
                "Sec-Fetch-Mode": "no-cors",
                "Sec-Fetch-Dest": "image",
            },
            403,
        ),
        ({"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "cors"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        (
            {
                "Sec-Fetch-Site": "cross-site",
                "Sec-Fetch-Mode": "navigate",
                "Sec-Fetch-Dest": "iframe",
            },
            403,
        ),
        (
            {
                "Sec-Fetch-Site": "cross-site",
                "Sec-Fetch-Mode": "navigate",
                "Sec-Fetch-Dest": "document",
            },
            200,
        ),
        ({"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate"}, 200),
        ({"Sec-Fetch-Site": "same-origin"}, 200),
    ],
)
@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_other_sites_may_link_here_but_not_embed_or_fetch(
    client: TestClient, headers: dict[str, str], status: int
) -> None:
    assert client.get("/healthz", headers=headers).status_code == status


@pytest.mark.parametrize(
    "content_type", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""]
)
def test_a_simple_request_with_a_cookie_needs_an_origin(
    probe_client: TestClient, service: Service, key: MakeKey, user: str, content_type: str
) -> None:
    text = key(user=user)["Authorization"].removeprefix("Bearer ")
    session, _ = new_session(service.keys, Principal(user), key_id=text[3:15])
    headers = {"Cookie": f"recollect_session={session}", "Content-Type": content_type}
    assert probe_client.post("/probe", content=b"{}", headers=headers).status_code == 403
    answer = probe_client.post("/probe", content=b"{}", headers={**headers, "Origin": HERE})
    assert answer.status_code == 200
    plain = {"Authorization": f"Bearer {text}", "Content-Type": content_type}
    assert probe_client.post("/probe", content=b"{}", headers=plain).status_code == 200


# -- CORS ---


@pytest.fixture
def client_with_cors(place: str, service: Service) -> Iterator[TestClient]:
    service.config = replace(service.config, cors_origins=("https://app.example",))
    with TestClient(make_app(service), ADDRESS) as client:
        yield client


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_cors_is_off_by_default(client: TestClient) -> None:
    headers = {"Origin": "https://app.example", "Access-Control-Request-Method": "GET"}
    answer = client.options("/conversations", headers=headers)
    assert answer.status_code == 403
    assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_only_configured_origins_may_send_requests(client_with_cors: TestClient) -> None:
    headers = {"Origin": "https://app.example", "Access-Control-Request-Method": "POST"}
    headers["Access-Control-Request-Headers"] = "authorization, x-stainless-lang"
    answer = client_with_cors.options("/conversations", headers=headers)
    assert answer.status_code == 204
    assert answer.headers["access-control-allow-origin"] == "https://app.example"
    assert answer.headers["access-control-allow-headers"] == "authorization, x-stainless-lang"
    assert "access-control-allow-credentials" not in answer.headers
    answer = client_with_cors.get(
        "/healthz",
        headers={
            "Origin": "https://app.example",
            "Sec-Fetch-Site": "cross-site",
            "Sec-Fetch-Mode": "cors",
        },
    )
    assert answer.headers["access-control-allow-origin"] == "https://app.example"
    assert "origin" in answer.headers["vary"].lower()
    response = client_with_cors.get("/healthz", headers={"Origin": "https://app.example.evil"})
    assert response.status_code == 403


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_a_configured_origin_cannot_use_the_cookie_of_the_console(
    client_with_cors: TestClient,
) -> None:
    headers = {"Origin": "https://app.example", "Cookie": "recollect_session=rs_x"}
    assert client_with_cors.get("/healthz", headers=headers).status_code == 403


# -- size ---


@pytest.fixture
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edge, "LIMITS", replace(LIMITS, request_bytes=1_000, upload_bytes=5_000))


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
@pytest.mark.parametrize("path", ["/probe", "/probe/json"])
def test_a_body_that_is_too_large_is_rejected_by_its_length_and_while_it_arrives(
    probe_client: TestClient, small_limits: None, path: str
) -> None:
    headers = {"Content-Type": "application/json"}
    too_long = b'{"a":"' + b"x" * 1_000 + b'"}'
    for content in (too_long, iter([too_long[:600], too_long[600:]])):
        answer = probe_client.post(path, content=content, headers=headers)
        assert (answer.status_code, answer.json()["error"]["code"]) == (413, "PAYLOAD_TOO_LARGE")
        assert answer.headers["connection"] == "close"
    response = probe_client.post(path, content=iter([b'{"a":', b'"b"}']), headers=headers)
    assert response.status_code == 200


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_uploads_have_their_own_size_limit(client: TestClient, small_limits: None) -> None:
    assert client.post("/api/imports", content=b"x" * 5_001).status_code == 413
    assert client.post("/api/imports", content=b"x" * 2_000).status_code != 413
    assert client.put("/api/imports", content=b"x" * 2_000).status_code == 413


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
@pytest.mark.parametrize("length", ["-1", "1e3", "٣", "9" * 30, "0x10"])
def test_an_invalid_content_length_is_rejected(app: FastAPI, length: str) -> None:
    answer = asyncio.run(raw(app, "POST", "/conversations", headers=[("content-length", length)]))
    assert answer.status in (400, 413)


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_a_body_that_never_arrives_times_out(
    probe_client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(edge, "LIMITS", replace(LIMITS, body_seconds=0.01))
    answer = asyncio.run(raw(probe_client.app, "POST", "/probe", body=None))
    assert (answer.status, answer.json["error"]["code"]) == (408, "REQUEST_TIMEOUT")


# -- load ---


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_too_many_concurrent_requests_get_a_retry_after(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(edge, "LIMITS", replace(LIMITS, requests_at_once=0))
    answer = client.get("/openapi.json")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert client.get("/healthz").status_code == 200


# -- responses ---


@pytest.mark.parametrize("path", ["/healthz", "/nothing", "/docs", "/conversations", "/metrics"])
@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_every_response_has_security_headers(client: TestClient, path: str) -> None:
    headers = client.get(path).headers
    assert headers["content-security-policy"].startswith("default-src 'none'; script-src 'self';")
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cross-origin-opener-policy"] == "same-origin"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert headers["cache-control"] == "no-store"
    assert "server" not in headers


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_a_request_id_is_echoed_or_generated(client: TestClient) -> None:
    assert client.get("/nothing", headers={"X-Request-ID": "abc 1"}).json()["request_id"] == "abc 1"
    assert (
        client.get("/healthz", headers={"X-Request-ID": "abc 1"}).headers["x-request-id"] == "abc 1"
    )
    for bad in ("x" * 129, "a\u00e9".encode(), ""):
        request_id = client.get("/healthz", headers=[("X-Request-ID", bad)]).headers["x-request-id"]
        assert len(request_id) == 16
    assert (
        client.get("/healthz").headers["x-request-id"]
        != client.get("/healthz").headers["x-request-id"]
    )


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_head_equals_get_without_the_body(client: TestClient) -> None:
    get_response, head_response = client.get("/healthz"), client.head("/healthz")
    assert (head_response.status_code, head_response.content) == (200, b"")
    assert head_response.headers["content-length"] == get_response.headers["content-length"]
    assert client.head("/nothing").status_code == 404


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_the_allowed_methods_are_listed(client: TestClient) -> None:
    refused = client.patch("/api/keys")
    assert (refused.status_code, refused.headers["allow"]) == (405, "GET, HEAD, POST")
    assert client.request("TRACE", "/healthz").status_code == 405
    assert client.options("/nothing").status_code == 404


# -- pages and the login ---


def test_a_browser_without_a_key_is_redirected_to_the_login(
    client: TestClient, key: MakeKey, user: str
) -> None:
    key(user=user)
    answer = client.get("/openapi.json?a=1&b=%2F", headers=HTML)
    assert answer.status_code == 303
    assert answer.headers["location"] == "/login?next=%2Fopenapi.json%3Fa%3D1%26b%3D%252F"
    assert client.get("/", headers=HTML).headers["location"] == "/login"
    assert client.get("/api/keys", headers=HTML).status_code == 401
    assert client.post("/openapi.json", headers=HTML).status_code == 401
    assert client.get("/openapi.json").status_code == 401


@pytest.mark.parametrize("path", ["//evil.example/x", "/\\evil.example", "/\\/evil.example"])
@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_the_login_never_redirects_to_another_site(
    app: FastAPI, key: MakeKey, user: str, path: str
) -> None:
    key(user=user)
    answer = asyncio.run(raw(app, "GET", path, headers=[("accept", "text/html")]))
    assert (answer.status, answer.headers["location"]) == (303, "/login")


# -- searches take turns -------------------------------------------------------------


def test_a_search_that_waits_too_long_for_its_turn_gets_a_retry_after(
    app: FastAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(edge, "LIMITS", replace(LIMITS, search_wait_seconds=0.01))
    started, proceed = threading.Semaphore(0), threading.Event()

    def slow(*_: object, **__: object) -> None:
        started.release()
        proceed.wait(30)
        raise SearchTimeout("too slow")

    monkeypatch.setattr(Library, "search", slow)

    async def ask() -> tuple[int, str | None]:
        first = [
            asyncio.ensure_future(raw(app, "GET", "/api/v1/search", query="q=walrus"))
            for _ in range(edge.searches_at_once())
        ]
        for _ in first:
            await asyncio.to_thread(started.acquire, timeout=30)
        late = await raw(app, "GET", "/api/v1/search", query="q=walrus")
        proceed.set()
        await asyncio.gather(*first)
        return late.status, late.headers.get("retry-after")

    assert asyncio.run(ask()) == (503, "1")


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_a_form_of_another_site_cannot_post_by_navigating(probe_client: TestClient) -> None:
    headers = {
        "Sec-Fetch-Site": "cross-site",
        "Sec-Fetch-Mode": "navigate",
        "Sec-Fetch-Dest": "document",
    }
    assert probe_client.post("/probe", content=b"", headers=headers).status_code == 403
