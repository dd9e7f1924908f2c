"""An append on PostgreSQL: a function writes all tables, on the machine with the user's rows."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
from test_appending import MESSAGES

from recollect import Document, Filter, Passage
from recollect.errors import LibraryMoved, OutdatedPosition
from recollect.language.queries.query import parse
from recollect.store.postgres import PostgresStore, appending
from recollect.store.postgres.connection import Connection
from recollect.store.sql import transfer as closing
from recollect.store.values import Appended, Closure, Findings

NOW = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
TABLES = ("document", "passage", "passage_text", "word", "tally", "last_key")


@contextmanager
def new_store(database: str, user: str = "") -> Iterator[PostgresStore]:
    store = PostgresStore(database, user or f"user-{uuid.uuid4()}")
    opening = Passage("m0", "user", "An opening", created_at=NOW)
    document = Document(
        "test", "c", "A title", id="c", created_at=NOW, updated_at=NOW, passages=(opening,)
    )
    store.save([document])
    yield store
    store.close()


def contents(store: PostgresStore) -> dict[str, list[str]]:
    """The rows of the user, without her number and the tokens of commits."""

    def read(db: Connection) -> dict[str, list[str]]:
        return {
            table: [
                row
                for (row,) in db.rows(
                    f"""select (to_jsonb(t) - 'owner' - 'marks')::text from {table} t
                    where t.owner = :owner order by 1"""
                )
            ]
            for table in TABLES
        }

    return store._read(read)


def test_a_plain_append_stores_the_same_as_the_general_one(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with new_store(database) as plain, new_store(database) as general:
        for message in MESSAGES:
            assert plain.append("c", message)
        monkeypatch.setattr(appending, "append", lambda *_: None)
        for message in MESSAGES:
            assert general.append("c", message)
        assert contents(plain) == contents(general)
        assert len(contents(plain)["passage"]) == 1 + len(MESSAGES)


def test_an_append_at_an_outdated_position_changes_nothing(database: str) -> None:
    with new_store(database) as store:
        before = contents(store)
        with pytest.raises(OutdatedPosition):
            store.append("c", Passage("m1", "user", "late", created_at=NOW), 0)
        assert contents(store) == before
        assert store.append("c", Passage("m1", "user", "in time", created_at=NOW), 1)


@pytest.mark.parametrize(
    "id", ["a'b", "a\\b", "a\nb;c", "ü – 東京 🦓", "$1", "%s", "{}", "x" * 3000]
)
def test_an_id_may_have_any_characters(database: str, id: str) -> None:
    with new_store(database) as store:
        store.save([Document("test", id, id=id, passages=(Passage("m0", "user", "first"),))])
        assert store.append(id, Passage(id, "user", "second"))
        assert not store.append(id, Passage(id, "user", "second"))
        assert [passage.id for passage in store.document(id).passages] == ["m0", id]


def test_an_append_is_repeated_if_another_one_was_committed_after_the_lock(database: str) -> None:
    """Locks of rows are lost if a cluster moves them to another worker during a transaction."""
    message = Passage("m1", "user", "a castle", created_at=NOW)
    tokens: list[Any] = []
    with new_store(database) as store:

        def work(db: Connection) -> Appended | None:
            tokens.append(db.token)
            if len(tokens) == 1:
                db.run("update last_key set marks = array[7::bigint] || marks where owner = :owner")
            return appending.append(db, "c", message)

        owner = store._transactions.owner
        appended = store._transactions.write(
            work, lock_query=appending.lock_query(owner, "c", message)
        )
        assert appended == Appended(1, True)
        assert len(tokens) == 2
        assert store.count(parse("castle"), Filter()) == (1, True)
        assert (
            store._read(lambda db: db.get("select marks[1] from last_key where owner = :owner"))
            == tokens[1]
        )


# -- two processes ---


def message(number: int, text: str = "a castle") -> Passage:
    return Passage(f"m{number}", "user", f"{text} {number}", created_at=NOW)


@contextmanager
def two_stores(database: str, user: str) -> Iterator[tuple[PostgresStore, PostgresStore]]:
    """Of the same user."""
    with new_store(database, user) as store:
        for number in range(1, 4):
            store.append("c", message(number))
        other = PostgresStore(database, user)
        yield store, other
        other.close()


def stored_ids(store: PostgresStore) -> list[str]:
    return [passage.id for passage in store.document("c").passages]


def test_nothing_is_added_to_a_library_that_another_process_has_closed(
    database: str, user: str
) -> None:
    with two_stores(database, user) as (store, other):
        other._write(lambda db: closing.set_closure(db, Closure("elsewhere")))
        with pytest.raises(LibraryMoved):
            store.append("c", message(4))
        assert len(stored_ids(store)) == 4


def test_threads_that_append_at_once_lose_nothing(database: str, user: str) -> None:
    with (
        two_stores(database, user) as (store, other),
        ThreadPoolExecutor(4) as pool,
    ):
        numbers = range(4, 44)
        stores = [(store, other)[number % 4 == 0] for number in numbers]
        appended = list(pool.map(lambda s, n: s.append("c", message(n)), stores, numbers))
        assert sorted(appended) == [Appended(number, True) for number in numbers]
        assert sorted(stored_ids(store)) == sorted(f"m{number}" for number in range(44))
        assert store.verify() == Findings()
