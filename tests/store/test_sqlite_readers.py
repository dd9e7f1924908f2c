"""Reads of one SQLite file: snapshots, and what is remembered between reads."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest
from messages import conversation, message

from recollect import Filter
from recollect.language.queries.query import parse
from recollect.store.sqlite.store import SqliteStore

EVERYTHING = Filter()


@pytest.fixture
def other_store(sqlite_store: SqliteStore, path: Path) -> SqliteStore:
    """The same library, opened by another program."""
    return SqliteStore(path)


def _matches(store: SqliteStore, word: str) -> list[str]:
    keys = store.match(parse(word), EVERYTHING, 10)
    return sorted(candidate.content for candidate in store.candidates(keys, EVERYTHING))


def test_the_reads_of_a_snapshot_see_one_state(
    sqlite_store: SqliteStore, other_store: SqliteStore
) -> None:
    sqlite_store.save([conversation(message("a", "an otter"))])
    with sqlite_store.snapshot():
        assert _matches(sqlite_store, "otter") == ["an otter"]
        other_store.append("c1", message("b", "a second otter"))
        assert _matches(sqlite_store, "otter") == ["an otter"]
        assert sqlite_store.frequencies([parse("otter")]) == ([1], 1)
    assert _matches(sqlite_store, "otter") == ["a second otter", "an otter"]
    assert sqlite_store.frequencies([parse("otter")]) == ([2], 2)
    other_store.close()


def test_a_write_inside_a_snapshot_is_visible_afterwards(sqlite_store: SqliteStore) -> None:
    sqlite_store.save([conversation(message("a", "an otter"))])
    with sqlite_store.snapshot():
        assert sqlite_store.size() == 1
        sqlite_store.append("c1", message("b", "a second otter"))
        assert sqlite_store.size() == 2
        assert len(_matches(sqlite_store, "otter")) == 2


def test_an_error_ends_a_snapshot(sqlite_store: SqliteStore, other_store: SqliteStore) -> None:
    sqlite_store.save([conversation(message("a", "an otter"))])

    def fail(db: apsw.Connection) -> None:
        raise ValueError

    with sqlite_store.snapshot():
        assert sqlite_store.size() == 1
        with pytest.raises(ValueError):
            sqlite_store._read(fail)
        other_store.append("c1", message("b", "a second otter"))
        assert sqlite_store.size() == 2
    other_store.close()
