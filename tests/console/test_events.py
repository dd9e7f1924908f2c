"""Event streams: pages are notified of changes, and streams end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

import recollect
from recollect.serve.http import events
from recollect.serve.http.events import Events, TooManyStreams
from recollect.serve.http.service import Service
from recollect.settings import LIMITS, default_user


async def still_open() -> bool:
    return False


async def until(stream: AsyncIterator[bytes], part: bytes) -> None:
    async with asyncio.timeout(60):
        async for chunk in stream:
            if part in chunk:
                return
    raise AssertionError("The stream ended.")


def test_a_change_by_anyone_is_sent_to_all_listeners(
    service: Service, library: recollect.Library
) -> None:
    async def run() -> None:
        hub = Events(service.libraries, service.changes, service.draining)
        streams = [hub.stream(default_user(), still_open) for _ in range(3)]
        for stream in streams:
            await until(stream, b"event: ready")
        waiting = [asyncio.create_task(until(stream, b"event: changed")) for stream in streams]
        await asyncio.to_thread(
            library.add_conversation, "c1", messages=[{"role": "user", "content": "x"}]
        )
        await asyncio.gather(*waiting)
        assert len(hub) == 3
        assert len(hub._watchers) == 1
        for stream in streams:
            await stream.aclose()  # type: ignore[attr-defined]
        assert len(hub) == 0
        assert not hub._watchers

    asyncio.run(run())


def test_streams_end_when_the_server_stops_or_the_page_closes(service: Service) -> None:
    async def run() -> None:
        hub = Events(service.libraries, service.changes, service.draining)
        is_closed = False

        async def page_closed() -> bool:
            return is_closed

        closing, staying = (
            hub.stream(default_user(), page_closed),
            hub.stream(default_user(), still_open),
        )
        await until(closing, b"ready")
        await until(staying, b"ready")
        is_closed = True
        async with asyncio.timeout(60):
            assert [chunk async for chunk in closing] == []
            service.draining.set()
            assert [chunk async for chunk in staying] == []

    asyncio.run(run())


def test_quiet_streams_are_kept_alive_and_long_ones_are_ended(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "KEEP_ALIVE_SECONDS", 0.0)
    monkeypatch.setattr(events, "POLL_SECONDS", 0.01)

    async def run() -> None:
        stream = Events(service.libraries, service.changes, service.draining).stream(
            default_user(), still_open
        )
        await until(stream, b": keep-alive")
        monkeypatch.setattr(events, "MAX_SECONDS", 0.0)
        short = Events(service.libraries, service.changes, service.draining).stream(
            default_user(), still_open
        )
        async with asyncio.timeout(60):
            assert len([chunk async for chunk in short]) == 1
        await stream.aclose()  # type: ignore[attr-defined]

    asyncio.run(run())


def test_the_number_of_streams_is_limited(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "LIMITS", replace(LIMITS, streams_each_user=1))

    async def run() -> None:
        hub = Events(service.libraries, service.changes, service.draining)
        stream = hub.stream("ann", still_open)
        await until(stream, b"ready")
        with pytest.raises(TooManyStreams):
            hub.stream("ann", still_open)
        other = hub.stream("bob", still_open)
        await until(other, b"ready")
        monkeypatch.setattr(events, "LIMITS", replace(LIMITS, streams=2))
        with pytest.raises(TooManyStreams):
            hub.stream("eve", still_open)
        await stream.aclose()  # type: ignore[attr-defined]
        await other.aclose()  # type: ignore[attr-defined]

    asyncio.run(run())
