"""The format of the log."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from collections.abc import Iterator

import pytest

from recollect.serve.http import logs


class Stream(io.StringIO):
    def __init__(self) -> None:
        super().__init__()
        self.written: list[str] = []

    def write(self, text: str) -> int:
        self.written.append(text)
        return super().write(text)


@pytest.fixture
def stream() -> Iterator[Stream]:
    root = logging.getLogger()
    before = root.handlers[:], root.level, logs.log.level
    created = Stream()
    logs.start_logging("json", created)
    yield created
    root.handlers[:] = before[0]
    root.setLevel(before[1])
    logs.log.setLevel(before[2])


def lines(stream: Stream) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_an_event_is_written_at_once(stream: Stream) -> None:
    logs.event("first", number=1)
    assert [line["number"] for line in lines(stream)] == [1]


def test_events_of_threads_are_written_as_well(stream: Stream) -> None:
    async def work() -> None:
        logs.event("from the event loop")
        await asyncio.to_thread(logs.event, "from a thread")

    asyncio.run(work())
    assert [line["event"] for line in lines(stream)] == ["from the event loop", "from a thread"]


@pytest.mark.parametrize(
    "value", ["a\nb", "\x1b[31m", "\x9b31m", "\u2028", "é", "\ud800", 2**70, {1: 2}, object]
)
def test_every_event_is_one_line_of_ascii(stream: Stream, value: object) -> None:
    logs.event("request", fact=value)
    assert stream.getvalue().isascii()
    assert len(stream.getvalue().splitlines()) == 1
    (line,) = lines(stream)
    assert line["fact"] == (value if isinstance(value, (str, int)) else line["fact"])
