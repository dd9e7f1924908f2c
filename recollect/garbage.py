"""How often Python looks for garbage: unreachable objects that refer to each other."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_RARE = (100_000, 20, 100)

_lock = threading.Lock()
_uses = 0
_usual_thresholds = gc.get_threshold()


@contextmanager
def rare_garbage_collection() -> Iterator[None]:
    """Look for garbage less often.

    Importing and indexing make millions of values without reference cycles. Looking for cycles
    would take five percent of their time. The setting is that of the whole process, so it ends with
    the last of those that run at the same time.
    """
    global _uses, _usual_thresholds
    with _lock:
        if not _uses:
            _usual_thresholds = gc.get_threshold()
            gc.set_threshold(*_RARE)
        _uses += 1
    try:
        yield
    finally:
        with _lock:
            _uses -= 1
            if not _uses:
                gc.set_threshold(*_usual_thresholds)
