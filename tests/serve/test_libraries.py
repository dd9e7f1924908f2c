"""The pool of open libraries."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from recollect.serve.http.libraries import Libraries


class FakeOpener:
    """Opens fake libraries and records which were opened and closed."""

    def __init__(self) -> None:
        self.opened: list[str] = []
        self.closed: list[str] = []
        self.gate: Callable[[str], None] = lambda user: None

    def __call__(self, place: Path | str, user: str) -> Any:
        self.gate(user)
        self.opened.append(user)
        return _FakeLibrary(self, user)


class _FakeLibrary:
    def __init__(self, opener: FakeOpener, user: str) -> None:
        self.shelf, self.user = opener, user

    def close(self) -> None:
        self.shelf.closed.append(self.user)


@pytest.fixture
def opener() -> FakeOpener:
    return FakeOpener()


@pytest.fixture
def pool(opener: FakeOpener) -> Iterator[Libraries]:
    created = Libraries("postgresql://nowhere", 3, opener)
    yield created
    created.close()


def wait_for_closers(pool: Libraries) -> None:
    for thread in list(pool._closers):
        thread.join()


def use(pool: Libraries, *users: str) -> None:
    for user in users:
        with pool.borrow(user):
            pass
    wait_for_closers(pool)


def test_the_least_recently_used_library_is_closed(pool: Libraries, opener: FakeOpener) -> None:
    use(pool, "a", "b", "c", "a", "d")
    assert opener.closed == ["b"]
    use(pool, "b")
    assert (opener.closed, len(pool)) == (["b", "c"], 3)


def test_borrowed_libraries_are_never_closed(pool: Libraries, opener: FakeOpener) -> None:
    with pool.borrow("a"), pool.borrow("b"), pool.borrow("c"), pool.borrow("d"):
        use(pool, "e", "f")
        assert set(opener.closed) <= {"e", "f"}
        assert len(pool) == 4
    wait_for_closers(pool)
    assert len(pool) == 3


def test_concurrent_borrowers_open_a_library_once(pool: Libraries, opener: FakeOpener) -> None:
    together = threading.Barrier(8)

    def work() -> object:
        together.wait()
        with pool.borrow("ann") as library:
            return library

    with ThreadPoolExecutor(8) as threads:
        libraries = [future.result() for future in [threads.submit(work) for _ in range(8)]]
    assert opener.opened == ["ann"]
    assert len({id(library) for library in libraries}) == 1
