"""Appending messages to a conversation."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from recollect import Document, Passage
from recollect.errors import OutdatedPosition
from recollect.store.sqlite import SqliteStore
from recollect.store.sqlite.connection import Connection

NOW = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
PARENT = "0b9e4a52-6f0e-4c2b-9b39-3f1d2c6a7e11"
MESSAGES = (
    Passage(PARENT, "user", "Which tram goes to the castle?", created_at=NOW),
    Passage("m2", "assistant", "Line 22 goes there. " * 20, created_at=NOW, model="a model"),
    Passage("m3", "user", "Größe, naïve, 東京 and \0 or \ud800", created_at=NOW),
    Passage("m4", "assistant", "ran it", created_at=NOW, type="tool_use", tool="shell"),
    Passage("m5", "user", "", created_at=NOW, parent="m4", metadata={"reply_to": PARENT}),
    Passage("m6", "user", "for Ann only", created_at=NOW, metadata={"human_only": True}),
    Passage("m7", None, "trams", author="Ann", created_at=datetime(1969, 1, 1, tzinfo=UTC)),
)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    with closing(new_store(tmp_path / "library.db")) as store:
        yield store


def new_store(path: Path) -> SqliteStore:
    store = SqliteStore(path)
    opening = Passage("m0", "user", "An opening", created_at=NOW)
    document = Document(
        "test", "c", "A title", id="c", created_at=NOW, updated_at=NOW, passages=(opening,)
    )
    store.save([document])
    return store


def contents(store: SqliteStore) -> dict[str, list[tuple[Any, ...]]]:
    """All tables. Of the text index only the words: it is merged at different times."""

    def read(db: Connection) -> dict[str, list[tuple[Any, ...]]]:
        tables = db.rows(
            "select name from sqlite_schema where type = 'table' and name not like 'passage_text%'"
        )
        return {name: sorted(db.rows(f"select * from {name}"), key=repr) for (name,) in tables}

    return store._read(read)


def test_an_append_at_an_outdated_position_changes_nothing(store: SqliteStore) -> None:
    before = contents(store)
    with pytest.raises(OutdatedPosition):
        store.append("c", MESSAGES[0], expected_passages=7)
    assert contents(store) == before


def test_work_that_fails_alone_in_its_transaction_is_rolled_back(store: SqliteStore) -> None:
    def work(db: Connection) -> None:
        db.run("delete from passage")
        raise ValueError("a mistake")

    before = contents(store)
    with pytest.raises(ValueError, match="a mistake"):
        store._write(work)
    assert contents(store) == before
    assert store.append("c", MESSAGES[0])
