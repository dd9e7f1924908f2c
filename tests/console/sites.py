"""Servers that run while a test does."""

from __future__ import annotations

import socket
import threading
from dataclasses import dataclass
from typing import Any

import uvicorn

import recollect
from recollect.serve.app import make_app
from recollect.serve.http.service import Service, ServiceConfig
from recollect.settings import place as library_place

TIMEOUT = 60_000  # milliseconds; a busy machine must not fail a test


def expect(*arguments: Any) -> Any:
    """Playwright's `expect`, imported when a test uses it. Every process collects all files."""
    from playwright.sync_api import expect

    return expect(*arguments)


@dataclass(frozen=True)
class Site:
    """A running server."""

    url: str
    place: str
    service: Service
    library: recollect.Library
    """Another connection to the same library."""


class Server:
    """A server that can be stopped while a page is open."""

    def __init__(self, place: str, listener: socket.socket, without: str = "") -> None:
        port = listener.getsockname()[1]
        self._listener = listener
        self._service = Service(library_place(place), ServiceConfig(port=port, rate_per_minute=0))
        app = make_app(self._service)
        app.router.routes[:] = [r for r in app.routes if getattr(r, "path", "") != without]
        config = uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=1)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [self._listener]}
        )
        self._thread.start()

    def stop(self) -> None:
        self._service.draining.set()
        self._server.should_exit = True
        self._thread.join()
        self._listener.close()
        self._service.close()
