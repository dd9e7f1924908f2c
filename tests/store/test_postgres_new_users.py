"""A user who is new to a server of many users, so that its statistics know nothing about them."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from typing import Any

import psycopg
import pytest
from messages import conversation, message

from recollect import Document, Filter
from recollect.language.queries.query import parse
from recollect.store.postgres import PostgresStore
from recollect.store.postgres.connection import Connection

CONVERSATIONS = 40
MESSAGES = 30  # in each
OTHER_USERS = 3  # in the same partition
WITH_STATISTICS = "alter table {} set (autovacuum_enabled = {})"


def conversations(count: int) -> list[Document]:
    return [
        conversation(
            *[
                message(f"m{n}", f"walrus {number} {n}" + " \U0001f642" * (n == 0))
                for n in range(MESSAGES)
            ],
            id=f"c{number}",
        )
        for number in range(count)
    ]


def partition(connection: psycopg.Connection, user: str) -> str:
    """The partition that has the messages of a user."""
    rows = connection.execute(
        "select distinct p.tableoid::regclass::text from recollect.passage p "
        "join recollect.account a on a.id = p.owner where a.name = %s",
        [user],
    )
    ((name,),) = rows.fetchall()
    return str(name)


@pytest.fixture
def new_store(database: str, user: str) -> Iterator[PostgresStore]:
    """The store of a user whose messages were stored after the last ANALYZE."""
    with psycopg.connect(database, autocommit=True) as connection:
        store = PostgresStore(database, user)
        store.save(conversations(1))
        name = partition(connection, user)
        store.delete("c0")
        connection.execute(WITH_STATISTICS.format(name, "off"))
        others = 0
        while others < OTHER_USERS:
            other_user = f"other-{uuid.uuid4()}"
            other = PostgresStore(database, other_user)
            other.save(conversations(1))
            if partition(connection, other_user) == name:
                other.save(conversations(CONVERSATIONS))
                others += 1
            other.close()
        connection.execute("analyze")
        store.save(conversations(CONVERSATIONS))
        yield store
        store.close()
        connection.execute(WITH_STATISTICS.format(name, "on"))


def discarded_rows(plan: Any) -> float:
    """How many rows a statement reads and discards, by its plan."""
    if isinstance(plan, list):
        return sum(map(discarded_rows, plan))
    if not isinstance(plan, dict):
        return 0.0
    rows = plan.get("Rows Removed by Filter", 0) + plan.get("Rows Removed by Join Filter", 0)
    own: float = rows * plan.get("Actual Loops", 1)
    return own + sum(map(discarded_rows, plan.values()))


@pytest.fixture
def discarded(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """How many rows each statement of this test has discarded."""
    rows_by_statement: dict[str, float] = {}
    execute = Connection._execute

    def explain(db: Connection, sql: str, values: Sequence[Any] = (), *options: Any) -> Any:
        if sql.lstrip().startswith(("select p.", "select count(", "select array_agg(", "with n")):
            explanation = f"explain (analyze, format json) {sql}"
            ((plans,),) = execute(db, explanation, values, *options).fetchall()
            rows_by_statement[sql] = discarded_rows(plans)
        return execute(db, sql, values, *options)

    monkeypatch.setattr(Connection, "_execute", explain)
    return rows_by_statement


def test_no_statement_reads_all_messages_of_a_new_user_for_each_of_them(
    new_store: PostgresStore, discarded: dict[str, float]
) -> None:
    messages = CONVERSATIONS * MESSAGES
    for by_document in (False, True):
        matches = new_store.newest(Filter(), 5, 0, text="\U0001f642", by_document=by_document)
        assert matches.total == CONVERSATIONS
        newest, total, _ = new_store.newest(Filter(roles=("user",)), 5, 0, by_document=by_document)
        assert len(newest) == 5
        assert total == [messages, CONVERSATIONS][by_document]
    for node in (parse("walrus"), None):
        assert len(new_store.match_times(node, Filter()).keys) == messages
        groups = new_store.match_groups(node, Filter())
        assert sum(group.matches for group in groups.passages) == messages
    assert len(new_store.change_times(list(range(1, messages)))) > messages / 2
    assert new_store.verify().healthy
    assert len(discarded) > 12
    assert max(discarded.values()) < messages**2 / 4, discarded
