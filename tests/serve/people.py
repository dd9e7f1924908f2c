"""A service for all tests of a module, and clients with API keys of their own."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from urllib.parse import quote, unquote

import pytest
from asgi import ADDRESS
from fastapi import FastAPI
from postgres import STORES as STORES
from starlette.testclient import TestClient
from starlette.types import Receive, Scope, Send

from recollect.serve.app import make_app
from recollect.serve.http.service import Service, ServiceConfig
from recollect.serve.identity.accounts import new_key, revoke
from recollect.serve.server import _Server
from recollect.settings import LIMITS
from recollect.settings import place as library_place

MAX_MESSAGE_BYTES = LIMITS.mcp_line_bytes
"""Of one message over MCP."""


def set_limits(patch: pytest.MonkeyPatch, module: str, **limits: int) -> None:
    """Change limits as a module of the server sees them."""
    patch.setattr(f"recollect.serve.{module}.LIMITS", replace(LIMITS, **limits))


class World:
    """One service and its app."""

    def __init__(self, home: str, rate_per_minute: int = 0) -> None:
        config = ServiceConfig(rate_per_minute=rate_per_minute)
        self.service = Service(library_place(home), config)
        self.app: FastAPI = make_app(self.service)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call the app as a server does.

        Decode the path once (a test client does it twice), and do not shut the app down when a
        client disconnects.
        """
        if scope["type"] == "http":
            await self.app({**scope, "path": unquote(scope["raw_path"].decode())}, receive, send)
        elif scope["type"] == "lifespan":
            for kind in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{kind}.complete"})

    def key(self, user: str, scopes: Sequence[str] = ("read", "write"), **more: Any) -> str:
        text, _ = new_key(self.service.keys, user, "", scopes, **more)
        self.service.auth.keys_changed()
        return text

    def revoke_keys(self, user: str) -> None:
        for key in self.service.keys.all_keys():
            if key.user == user:
                revoke(self.service.keys, key.id)

    def client(
        self, user: str, scopes: Sequence[str] = ("read", "write"), **more: Any
    ) -> TestClient:
        headers = {"Authorization": f"Bearer {self.key(user, scopes, **more)}"}
        return TestClient(self, ADDRESS, headers=headers, follow_redirects=False)


@contextmanager
def world(request: pytest.FixtureRequest, folders: pytest.TempPathFactory) -> Iterator[World]:
    """A world on the store named by the fixture's parameter."""
    home = (
        request.getfixturevalue("database")
        if request.param == "postgres"
        else str(folders.mktemp("service"))
    )
    instance = World(home)
    yield instance
    instance.service.drain()
    instance.service.close()


@contextmanager
def listening(world: World) -> Iterator[str]:
    """Run the world's server on a free port until the end of the block. Yields its URL."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        is_ready = threading.Event()
        server = _Server(world.service, is_ready.set)
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        is_ready.wait(60)
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


def percent_encode(text: str) -> str:
    return quote(text, safe="")
