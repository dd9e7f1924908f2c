"""Searches come before background work in the same process."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from recollect import Library, priority
from recollect.index.background import BackgroundThread, Job
from recollect.models.stopping import Stop
from recollect.priority import after_searches, searching


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Background work waits as long as a test may take, however little it has done."""
    monkeypatch.setattr(priority, "_WAITING_PER_WORKING", 1e9)
    monkeypatch.setattr(priority, "_LONGEST_WAIT", 30.0)


def in_thread(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work)
    thread.start()
    return thread


def test_background_work_waits_until_the_searches_of_other_threads_end(patient: None) -> None:
    has_ended = threading.Event()
    stop = after_searches(lambda: True)

    def work() -> None:
        assert stop()
        has_ended.set()

    with searching():
        with searching():
            thread = in_thread(work)
        assert not has_ended.wait(0.1)
    thread.join(30)
    assert has_ended.is_set()


def test_work_does_not_wait_for_the_search_that_it_is_part_of(patient: None) -> None:
    stop = after_searches(lambda: True)
    with searching():
        assert stop()


def test_searches_that_never_end_do_not_stop_background_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(priority, "_LONGEST_WAIT", 0.01)
    steps: list[bool] = []
    stop = after_searches(lambda: False)
    with searching():
        in_thread(lambda: steps.extend(stop() for _ in range(10))).join(30)
    assert steps == [False] * 10


def test_the_background_thread_waits_for_searches_of_either_store(
    library: Library, patient: None
) -> None:
    has_ended = threading.Event()

    def run(stop: Stop) -> bool:
        stop()
        has_ended.set()
        return True

    thread = BackgroundThread([Job("Working", run)])
    with library._store.snapshot():
        thread.wake()
        assert not has_ended.wait(0.1)
    assert has_ended.wait(30)
    thread.close()
