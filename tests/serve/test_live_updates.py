"""Live updates over two servers of one installation."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from asgi import ADDRESS, raw
from fastapi import FastAPI
from services import Service, make_app, make_service
from starlette.testclient import TestClient

from recollect.serve.http import events

PATIENCE = 60.0


@pytest.fixture
def servers(place: str) -> Iterator[tuple[Service, Service]]:
    one, other = make_service(place), make_service(place)
    yield one, other
    one.close()
    other.close()


class EventStream:
    """The events of `GET /api/events`."""

    def __init__(self, app: FastAPI) -> None:
        self._app = app
        self._events: asyncio.Queue[bytes] = asyncio.Queue()
        self._task = asyncio.create_task(raw(self._record, "GET", "/api/events"))

    async def _record(self, scope: Any, receive: Any, send: Any) -> None:
        async def record_and_send(message: dict[str, Any]) -> None:
            if message.get("body"):
                self._events.put_nowait(message["body"])
            await send(message)

        await self._app(scope, receive, record_and_send)

    async def next_event(self) -> str:
        """The name of the next event, without comments."""
        while True:
            text = (await asyncio.wait_for(self._events.get(), PATIENCE)).decode()
            for line in text.splitlines():
                if line.startswith("event: "):
                    return line.removeprefix("event: ")

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


def post_message(service: Service) -> None:
    message = {"role": "user", "content": "Line 22 goes to the castle"}
    with TestClient(make_app(service), ADDRESS, client=("127.0.0.1", 50_000)) as client:
        answer = client.post("/conversations", json={"id": "trams", "messages": [message]})
    assert answer.status_code == 201


def test_a_page_at_one_server_is_told_of_a_message_saved_at_another(
    servers: tuple[Service, Service], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On PostgreSQL by a signal: nothing reads the version of the library in between."""
    here, there = servers
    monkeypatch.setattr(events, "RARELY_SECONDS", 600.0)

    async def run() -> None:
        app = make_app(here)
        async with app.router.lifespan_context(app):
            stream = EventStream(app)
            assert await stream.next_event() == "ready"
            while here.engine == "postgresql" and not here.changes.are_live:
                await asyncio.sleep(0.01)
            await asyncio.to_thread(post_message, there)
            assert await stream.next_event() == "changed"
            await stream.close()

    asyncio.run(run())
