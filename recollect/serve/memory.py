"""Return freed memory to the system while the server runs.

glibc gives every few threads a heap of their own and keeps what they free. In a server with many
threads that looks like a leak: with fifty agents the objects stay at 75 MiB, but the heaps grow by
10 MiB a minute. Elsewhere, this does nothing.
"""

from __future__ import annotations

import asyncio
import ctypes
import sys
from collections.abc import Callable
from contextlib import suppress

INTERVAL = 15.0
"""Seconds between two times. Each takes a few milliseconds, in a thread."""
_M_ARENA_MAX = -8
_MAX_HEAPS = 2


def limit_heaps() -> bool:
    """Let all threads share few heaps. Call it before threads start. False if not supported."""
    with suppress(OSError, AttributeError):
        return bool(libc().mallopt(_M_ARENA_MAX, _MAX_HEAPS))
    return False


def trim() -> bool:
    """Return freed memory to the system. False if there was none, or this is not supported."""
    with suppress(OSError, AttributeError):
        return bool(libc().malloc_trim(0))
    return False


async def trim_regularly(count_requests: Callable[[], int]) -> None:
    """Return freed memory to the system at intervals, unless the server is idle."""
    last_count = 0
    while True:
        count = count_requests()
        if count != last_count:
            await asyncio.to_thread(trim)
        last_count = count
        await asyncio.sleep(INTERVAL)


def libc() -> ctypes.CDLL:
    if sys.platform != "linux":
        raise OSError("Only glibc has these functions.")
    return ctypes.CDLL("libc.so.6")
