"""One suite, every store: a store that is added here is tested by all of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from recollect.store.base import Store
from recollect.store.sqlite import SqliteStore


def _sqlite(folder: Path) -> Store:
    return SqliteStore(folder / "library.db")


STORES: dict[str, Callable[[Path], Store]] = {"sqlite": _sqlite}


@pytest.fixture(params=STORES)
def reopen(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], Store]]:
    """Opens the same store again, as another process would."""
    opened: list[Store] = []

    def open_again() -> Store:
        opened.append(STORES[request.param](tmp_path / "store"))
        return opened[-1]

    yield open_again
    for store in opened:
        store.close()


@pytest.fixture
def store(reopen: Callable[[], Store]) -> Store:
    return reopen()
