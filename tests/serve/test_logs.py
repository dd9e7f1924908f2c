"""How the lines of the log are written."""

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
    about = logging.logThreads, logging.logProcesses, logging.logMultiprocessing
    made = Stream()
    logs.start_logging("json", made)
    yield made
    root.handlers[:] = before[0]
    root.setLevel(before[1])
    logs.log.setLevel(before[2])
    logging.logThreads, logging.logProcesses, logging.logMultiprocessing = about


def lines(stream: Stream) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_line_is_written_at_once_where_no_event_loop_runs(stream: Stream) -> None:
    logs.event("first", number=1)
    assert [line["number"] for line in lines(stream)] == [1]


def test_the_lines_of_one_turn_of_the_event_loop_are_written_together(stream: Stream) -> None:
    async def work() -> None:
        for number in range(3):
            logs.event("request", number=number)
        assert stream.written == []
        await asyncio.sleep(0)
        assert len(stream.written) == 1
        logs.event("request", number=3)

    asyncio.run(work())
    assert [line["number"] for line in lines(stream)] == [0, 1, 2, 3]


def test_a_loop_that_ends_takes_no_line_with_it(stream: Stream) -> None:
    loop = asyncio.new_event_loop()

    async def work() -> None:
        logs.event("last words")

    task = loop.create_task(work())
    loop.run_until_complete(task)
    loop.close()
    logs.event("afterwards")
    assert [line["event"] for line in lines(stream)] == ["last words", "afterwards"]


def test_threads_beside_a_loop_write_their_lines(stream: Stream) -> None:
    async def work() -> None:
        logs.event("of the loop")
        await asyncio.to_thread(logs.event, "of a thread")

    asyncio.run(work())
    assert {line["event"] for line in lines(stream)} == {"of the loop", "of a thread"}


@pytest.mark.parametrize(
    "value", ["a\nb", "\x1b[31m", "\x9b31m", "\u2028", "é", "\ud800", 2**70, {1: 2}, object]
)
def test_whatever_a_fact_is_it_is_one_line_of_ascii(stream: Stream, value: object) -> None:
    logs.event("request", fact=value)
    assert stream.getvalue().isascii()
    assert len(stream.getvalue().splitlines()) == 1
    (line,) = lines(stream)
    assert line["fact"] == (value if isinstance(value, (str, int)) else line["fact"])
