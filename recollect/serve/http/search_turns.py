"""Searches take turns: too many at once would push each other past their deadlines."""

from __future__ import annotations

import asyncio

from recollect.serve.http.error_responses import Problem
from recollect.settings import LIMITS


class SearchTurns:
    """`async with` waits for a turn. Raises Problem if it takes too long."""

    def __init__(self) -> None:
        self._semaphore = asyncio.Semaphore(LIMITS.searches_at_once)

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
