"""Searches take turns: too many at once would push each other past their deadlines."""

from __future__ import annotations

import asyncio
import os

from recollect.serve.http.error_responses import Problem
from recollect.settings import LIMITS


def searches_at_once() -> int:
    """How many searches may run at once: one per processor, at least two.

    Threads that compete for a processor and for Python's lock need more CPU time: on two
    processors, a search took 34 ms alone, 46 ms next to one other, and 57 ms next to three.
    """
    return min(LIMITS.searches_at_once, max(2, os.cpu_count() or 1))


class SearchTurns:
    """`async with` waits for a turn. Raises Problem if it takes too long."""

    def __init__(self) -> None:
        self._semaphore = asyncio.Semaphore(searches_at_once())

    async def __aenter__(self) -> None:
        try:
            async with asyncio.timeout(LIMITS.search_wait_seconds):
                await self._semaphore.acquire()
        except TimeoutError:
            raise Problem(
                503, "The server is busy with other searches. Try again.", retry_after=1
            ) from None

    async def __aexit__(self, *_: object) -> None:
        self._semaphore.release()
