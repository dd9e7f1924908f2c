"""CPU time for what a text can do without: the colours of code, and drawn formulas."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable


class _Spent(BaseException):
    """The time is over. No library catches it."""


class Allowance:
    """Some seconds for one text. `re`, which lexers use, is interrupted; native code is not."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def spend(self, work: Callable[[], str]) -> str:
        """What some work returns; empty if the time does not suffice."""
        if self._seconds <= 0:
            return ""
        start = time.process_time()
        try:
            try:
                _set_timer(self._seconds)
                return work()
            finally:
                _set_timer(0)
        except _Spent:
            return ""
        finally:
            self._seconds -= time.process_time() - start


def _set_timer(seconds: float) -> None:
    if hasattr(signal, "setitimer"):
        signal.signal(signal.SIGVTALRM, _interrupt)
        signal.setitimer(signal.ITIMER_VIRTUAL, seconds)


def _interrupt(*_: object) -> None:
    raise _Spent
