"""A service with clients for attacks on its HTTP interfaces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from starlette.testclient import TestClient

from recollect.serve.app import make_app
from recollect.serve.http.service import Service, ServiceConfig
from recollect.serve.identity.accounts import new_key
from recollect.settings import default_user

ADDRESS = "http://127.0.0.1:8765"


class Server:
    """A service and its app."""

    def __init__(self, home: Path, config: ServiceConfig) -> None:
        self.service = Service(home, config)
        self.app: FastAPI = make_app(self.service)

    def key(
        self,
        scopes: Sequence[str] = ("read", "write"),
        toolsets: Sequence[str] | None = None,
        **more: Any,
    ) -> str:
        text, _ = new_key(self.service.keys, default_user(), "a test", scopes, toolsets, **more)
        self.service.auth.keys_changed()
        return text

    def client(self, key: str = "", **options: Any) -> TestClient:
        headers = {}
        if key:
            headers["Authorization"] = f"Bearer {key}"
        options.setdefault("client", ("127.0.0.1", 50_000))
        return TestClient(self.app, ADDRESS, headers=headers, follow_redirects=False, **options)


@contextmanager
def server(home: Path, **config: Any) -> Iterator[Server]:
    config.setdefault("rate_per_minute", 0)
    instance = Server(home, ServiceConfig(**config))
    try:
        yield instance
    finally:
        instance.service.drain()
        instance.service.close()
