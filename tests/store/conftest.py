"""One suite, every store: a store that is added here is tested by all of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from recollect.store.base import Store


@pytest.fixture(params=["sqlite", "postgres"])
def reopen(
    request: pytest.FixtureRequest, tmp_path: Path, user: str
) -> Iterator[Callable[[], Store]]:
    """Opens the same store again, as another process would."""
    opened: list[Store] = []
    address: str = request.getfixturevalue("database") if request.param == "postgres" else ""

    def open_again() -> Store:
        opened.append(_opened(address, tmp_path / "store", user))
        return opened[-1]

    yield open_again
    for store in opened:
        store.close()


def _opened(address: str, folder: Path, user: str) -> Store:
    if address:
        from recollect.store.postgres import PostgresStore

        return PostgresStore(address, user)
    from recollect.store.sqlite import SqliteStore

    return SqliteStore(folder / "library.db")


@pytest.fixture
def store(reopen: Callable[[], Store]) -> Store:
    return reopen()
