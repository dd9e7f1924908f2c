"""The check that every statement names the owner, which runs after every test of the store."""

from __future__ import annotations

import psycopg
import pytest
from statements import Recorder, problem

from recollect.model.documents import Document, Passage
from recollect.store.postgres import PostgresStore


@pytest.mark.parametrize(
    "sql",
    [
        "select key from document where id = $1",
        "select p.key from passage p join document d on d.key = p.document where p.owner = $1",
        "select p.key from passage p left join document d on d.key = p.document "
        "where p.owner = $1 and p.key = $2",
        "update document set title = '' where key = $1",
        "delete from word where owner = $1 and term in (select term from word where stem = $2)",
        "insert into word (term) select term from word where owner = $1",
        "insert into word (term) values ($1)",
        "select * from frequencies($2::integer, null, $1)",
    ],
)
def test_a_statement_that_does_not_name_the_owner_everywhere_is_found(
    planner: psycopg.Connection, sql: str
) -> None:
    values = [str(n) for n in range(1, 1 + sql.count("$"))]
    assert problem(planner, (sql, values)) != ""


def test_a_statement_that_names_the_owner_everywhere_is_accepted(
    planner: psycopg.Connection,
) -> None:
    for sql in (
        "select key from document where owner = $1::integer",
        "select p.key from passage p join document d on d.owner = p.owner and d.key = p.document "
        "where p.owner = $1::integer",
        "insert into word (owner, term) values ($1::integer, 'word')",
    ):
        assert problem(planner, (sql, [1])) == ""


def test_the_statements_of_a_store_are_recorded(
    recorder: Recorder, database: str, user: str
) -> None:
    recorder.take()
    before = set(recorder._known)
    recorder._known.clear()
    store = PostgresStore(database, user)
    store.save([Document("test", "c", passages=(Passage("m", "user", "a text"),))])
    store.close()
    assert any(sql.startswith("insert into document (owner, key") for sql, _ in recorder.new)
    assert len(recorder.new) > 10
    recorder._known |= before
