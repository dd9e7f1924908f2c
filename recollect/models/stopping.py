"""Stop the computation of vectors between two steps, for example because the server ends."""

from __future__ import annotations

from collections.abc import Callable

from recollect.errors import IndexingStopped

Stop = Callable[[], bool]
"""Returns True once indexing, or another job, should stop."""


def never_stop() -> bool:
    """For work that is not interrupted."""
    return False


def require_running(stop: Stop) -> None:
    """Raise IndexingStopped if the work should stop."""
    if stop():
        raise IndexingStopped("Indexing was stopped.")
