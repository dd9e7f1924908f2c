"""The pool of open libraries: opened once, kept while there is room, closed when nobody has them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from recollect.errors import InvalidInput, StoreUnavailable
from recollect.library import Library
from recollect.places import open
from recollect.serve.http.libraries import Libraries
from recollect.settings import place as placed


class Opened:
    """Libraries that only know whether they are open."""

    def __init__(self) -> None:
        self.opened: list[str] = []
        self.closed: list[str] = []
        self.gate: Callable[[str], None] = lambda user: None

    def __call__(self, place: Path | str, user: str) -> Any:
        self.gate(user)
        self.opened.append(user)
        return _Fake(self, user)


class _Fake:
    def __init__(self, shelf: Opened, user: str) -> None:
        self.shelf, self.user = shelf, user

    def close(self) -> None:
        self.shelf.closed.append(self.user)


@pytest.fixture
def shelf() -> Opened:
    return Opened()


@pytest.fixture
def pool(shelf: Opened) -> Iterator[Libraries]:
    made = Libraries("postgresql://nowhere", 3, shelf)
    yield made
    made.close()


def settled(pool: Libraries) -> None:
    for thread in list(pool._closers):
        thread.join()


def use(pool: Libraries, *users: str) -> None:
    for user in users:
        with pool.borrow(user):
            pass
    settled(pool)


def test_a_library_is_opened_once_and_kept(pool: Libraries, shelf: Opened) -> None:
    use(pool, "ann", "ann", "ben", "ann")
    assert (shelf.opened, shelf.closed, len(pool)) == (["ann", "ben"], [], 2)


def test_beyond_the_cap_the_one_used_least_recently_is_closed(
    pool: Libraries, shelf: Opened
) -> None:
    use(pool, "a", "b", "c", "a", "d")
    assert shelf.closed == ["b"]
    use(pool, "b")
    assert (shelf.closed, len(pool)) == (["b", "c"], 3)


def test_what_somebody_has_is_never_closed(pool: Libraries, shelf: Opened) -> None:
    with pool.borrow("a"), pool.borrow("b"), pool.borrow("c"), pool.borrow("d"):
        use(pool, "e", "f")
        assert set(shelf.closed) <= {"e", "f"}
        assert len(pool) == 4
    settled(pool)
    assert len(pool) == 3


def test_many_who_want_the_same_library_open_it_once(pool: Libraries, shelf: Opened) -> None:
    together = threading.Barrier(8)

    def work() -> object:
        together.wait()
        with pool.borrow("ann") as library:
            return library

    with ThreadPoolExecutor(8) as threads:
        found = [future.result() for future in [threads.submit(work) for _ in range(8)]]
    assert shelf.opened == ["ann"]
    assert len({id(library) for library in found}) == 1


def test_a_slow_library_keeps_nobody_else_waiting(pool: Libraries, shelf: Opened) -> None:
    going, go_on = threading.Event(), threading.Event()

    def gate(user: str) -> None:
        if user == "slow":
            going.set()
            assert go_on.wait(60)

    shelf.gate = gate
    with ThreadPoolExecutor(1) as threads:
        slow = threads.submit(use, pool, "slow")
        assert going.wait(60)
        use(pool, "ann")
        assert shelf.opened == ["ann"]
        go_on.set()
        slow.result()


def test_a_library_that_cannot_be_opened_is_tried_again(pool: Libraries, shelf: Opened) -> None:
    def refuse(user: str) -> None:
        raise StoreUnavailable("down")

    shelf.gate = refuse
    for _ in range(10):
        with pytest.raises(StoreUnavailable), pool.borrow("ann"):
            raise AssertionError
    assert len(pool) == 0
    shelf.gate = lambda user: None
    use(pool, "ann")
    assert shelf.opened == ["ann"]


def test_an_error_of_a_borrower_gives_the_library_back(pool: Libraries, shelf: Opened) -> None:
    with pytest.raises(ValueError), pool.borrow("ann"):
        raise ValueError
    use(pool, "b", "c", "d")
    assert shelf.closed == ["ann"]


def test_closing_closes_all_and_what_is_borrowed_when_it_comes_back(
    pool: Libraries, shelf: Opened
) -> None:
    use(pool, "ann")
    with pool.borrow("ben"):
        pool.close()
        assert shelf.closed == ["ann"]
        with pytest.raises(StoreUnavailable), pool.borrow("cid"):
            pass
    settled(pool)
    assert (shelf.closed, len(pool)) == (["ann", "ben"], 0)


def test_many_users_at_once_each_have_their_own(place: str, user: str) -> None:
    pool = Libraries(placed(place), 4, lambda where, name: open(where, name, background=False))
    names = [f"{user}-{n}" for n in range(8)]

    def work(turn: int) -> None:
        name = names[turn % len(names)]
        with pool.borrow(name) as library:
            library.add_conversation(
                f"{name} {turn}", messages=[{"role": "user", "content": f"of {name}"}]
            )

    with ThreadPoolExecutor(8) as threads:
        for future in [threads.submit(work, turn) for turn in range(48)]:
            future.result()
    for name in names:
        with pool.borrow(name) as library:
            assert isinstance(library, Library)
            found, total = library.conversations()
            assert total == 6
            assert {summary.source_id.rsplit(" ", 1)[0] for summary in found} == {name}
    pool.close()


def test_a_name_that_is_none_is_refused(place: str) -> None:
    pool = Libraries(placed(place))
    for name in ("", "x" * 501):
        with pytest.raises(InvalidInput), pool.borrow(name):
            raise AssertionError
    pool.close()
