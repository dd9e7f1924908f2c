"""Cancel a long statement on the server when the program should stop."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import errors

from recollect.errors import IndexingStopped

_POLL_SECONDS = 0.2


@contextmanager
def cancel_on_stop(connection: psycopg.Connection[Any], stop: Callable[[], bool]) -> Iterator[None]:
    """Cancel the statements of the block once `stop` returns True. Raises IndexingStopped then."""
    is_done = threading.Event()

    def watch() -> None:
        while not is_done.wait(_POLL_SECONDS):
            if stop():
                connection.cancel()

    watcher = threading.Thread(target=watch, name="recollect-cancel", daemon=True)
    watcher.start()
    try:
        yield
    except errors.QueryCanceled as error:
        if stop():
            raise IndexingStopped("Indexing was stopped.") from error
        raise
    finally:
        is_done.set()
        watcher.join()
