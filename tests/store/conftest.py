"""Every store passes the same tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from recollect.store.base import Store
from recollect.store.sqlite import SqliteStore


@pytest.fixture(params=["sqlite", "postgres"])
def reopen(
    request: pytest.FixtureRequest, tmp_path: Path, user: str
) -> Iterator[Callable[[], Store]]:
    """Open the same store again, as another process would."""
    stores: list[Store] = []
    url: str = ""
    if request.param == "postgres":
        url = request.getfixturevalue("database")

    def open_again() -> Store:
        store = open_store(url, tmp_path / "store", user)
        stores.append(store)
        return store

    yield open_again
    for store in stores:
        store.close()


def open_store(url: str, folder: Path, user: str) -> Store:
    if url:
        from recollect.store.postgres import PostgresStore

        return PostgresStore(url, user)
    return SqliteStore(folder / "library.db")


@pytest.fixture
def store(reopen: Callable[[], Store]) -> Store:
    return reopen()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The file of an SQLite store."""
    return tmp_path / "store" / "library.db"


@pytest.fixture
def sqlite_store(path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(path)
    yield store
    store.close()
