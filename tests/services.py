"""Services for tests: a service on the libraries of a place, its app, its keys, a real socket."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from fastapi import FastAPI

from recollect.serve.app import make_app
from recollect.serve.http.service import Service, ServiceConfig
from recollect.serve.identity.accounts import new_key
from recollect.serve.server import _Server
from recollect.settings import default_user
from recollect.settings import place as library_place

__all__ = ["Service", "default_user", "listening", "make_app", "make_key", "make_service"]


def make_service(place: str, **config: Any) -> Service:
    """A service without limits of rates. The caller closes it."""
    return Service(library_place(place), ServiceConfig(**{"rate_per_minute": 0, **config}))


def make_key(
    service: Service,
    scopes: Sequence[str] = ("read", "write"),
    user: str | None = None,
    **more: Any,
) -> str:
    """A new API key."""
    text, _ = new_key(service.keys, user or default_user(), "a test", scopes, **more)
    service.auth.keys_changed()
    return text


def description() -> dict[str, Any]:
    """The OpenAPI description. It needs no service."""
    app: FastAPI = make_app(None)  # type: ignore[arg-type]
    return app.openapi()


@contextmanager
def listening(service: Service) -> Iterator[str]:
    """Run a service's server on a free port until the end of the block. Yields its URL."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        is_ready = threading.Event()
        server = _Server(service, is_ready.set)
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            assert is_ready.wait(60)
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()
