"""Which imports run now. Each holds the lock of a file, which ends with its process.

A receipt that was never finished belongs to an import that runs, or to one that was stopped.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from recollect.store.sqlite.files.file_lock import file_lock

_STALE_SECONDS = 60
"""A younger file may belong to a process that has not locked it yet."""


@contextmanager
def mark_running(folder: Path) -> Iterator[None]:
    """Count as a running import until the end of the block or of the process."""
    file = folder / f"{os.getpid()}-{uuid.uuid4().hex[:8]}.lock"
    with ExitStack() as stack:
        with suppress(OSError):  # where nothing can be written, the store says so
            stack.enter_context(file_lock(file))
        try:
            yield
        finally:
            with suppress(OSError):
                file.unlink()


def running_since(folder: Path) -> datetime | None:
    """When the oldest import that runs now was started; None if none runs."""
    starts = []
    for file in folder.glob("*.lock"):
        with suppress(OSError):
            start = file.stat().st_mtime
            with file_lock(file) as is_free:
                if not is_free:
                    starts.append(start)
                elif start < time.time() - _STALE_SECONDS:
                    file.unlink()
    if not starts:
        return None
    return datetime.fromtimestamp(min(starts), UTC)
