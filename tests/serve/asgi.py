"""Helpers for tests of the service: types, and requests that no HTTP client would send."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

ADDRESS = "http://127.0.0.1:8765"

MakeKey = Callable[..., dict[str, str]]


@dataclass
class Answer:
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def json(self) -> Any:
        return json.loads(self.body)


async def raw(
    app: Any,
    method: str,
    path: str,
    host: str | None = "127.0.0.1:8765",
    headers: Sequence[tuple[str, str]] = (),
    body: bytes | None = b"",
    peer: str = "127.0.0.1",
    query: str = "",
) -> Answer:
    """Call an app directly. If the body is None, the request never ends."""
    answer = Answer()
    raw_headers = [
        (name.encode(), value.encode("utf-8", "surrogateescape")) for name, value in headers
    ]
    if host is not None:
        raw_headers.append((b"host", host.encode()))
    is_sent = False

    async def receive() -> dict[str, Any]:
        nonlocal is_sent
        if is_sent or body is None:
            await asyncio.Event().wait()
        is_sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            answer.status = message["status"]
            answer.headers = {
                name.decode().lower(): value.decode("latin-1") for name, value in message["headers"]
            }
        else:
            answer.body += message.get("body", b"")

    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": raw_headers,
        "client": (peer, 50_000),
        "server": ("127.0.0.1", 8765),
        "state": {},
    }
    await app(scope, receive, send)
    return answer
