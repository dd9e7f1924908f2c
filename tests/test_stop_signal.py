"""Programs that wait for a signal end when it arrives, whatever they do at that moment."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any

import pytest

from recollect.stop_signal import StopSignal
from recollect.store.shared.jobs import TABLES


@pytest.fixture(autouse=True)
def restored_handlers() -> Iterator[None]:
    numbers = (signal.SIGINT, signal.SIGTERM)
    handlers = [signal.getsignal(number) for number in numbers]
    yield
    for number, handler in zip(numbers, handlers, strict=True):
        signal.signal(number, handler)


def wait_with_signal_at(step: int) -> bool:
    """Wait for a signal that arrives at the n-th step of waiting. False if there are fewer."""
    stop = StopSignal()
    steps = 0

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal steps
        if frame.f_code.co_name == "_handle":
            return None
        steps += 1
        if steps == step:
            signal.raise_signal(signal.SIGTERM)
        return trace

    sys.settrace(trace)
    try:
        stop.wait(0.01)
    finally:
        sys.settrace(None)
    if steps < step:
        return False
    assert stop.wait(60)
    return True


def test_a_signal_is_noticed_at_every_step_of_waiting() -> None:
    """With a `threading.Event`, some steps would wait for themselves forever."""
    step = 1
    while wait_with_signal_at(step):
        step += 1
    assert step > 5


@pytest.mark.full
def test_a_signal_ends_the_wait() -> None:
    calls: list[int] = []
    stop = StopSignal(lambda: calls.append(1))
    assert not stop.wait(0.0)
    timer = threading.Timer(0.05, signal.raise_signal, [signal.SIGTERM])
    timer.start()
    assert stop.wait()
    timer.join()
    assert (stop.is_set(), calls) == (True, [1])


SIGNAL_TO_ANOTHER_THREAD = """
import signal, threading, time
from recollect.stop_signal import StopSignal

stop = StopSignal()

def raise_signal():
    time.sleep(0.2)  # until the main thread waits
    signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
    time.sleep(30)

threading.Thread(target=raise_signal, daemon=True).start()
assert stop.wait()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows sends no signals to threads.")
def test_a_signal_that_another_thread_gets_ends_the_wait() -> None:
    subprocess.run([sys.executable, "-c", SIGNAL_TO_ANOTHER_THREAD], check=True, timeout=20)


def test_handlers_are_restored() -> None:
    before = signal.getsignal(signal.SIGTERM)
    StopSignal().restore()
    assert signal.getsignal(signal.SIGTERM) is before


def test_nobody_waits_for_an_absent_database_when_the_process_ends() -> None:
    pytest.importorskip("psycopg")
    from recollect.errors import StoreUnavailable
    from recollect.store.postgres.shared_database import PostgresSharedDatabase

    database = PostgresSharedDatabase("postgresql://localhost:1/none")
    database.stop_waiting()
    with pytest.raises(StoreUnavailable, match="cannot be reached"):
        database.execute(TABLES, "select 1")
    database.close()
