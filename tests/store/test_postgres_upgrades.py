"""Upgrades without downtime: programs of two versions use one PostgreSQL database."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from typing import Any

import postgres
import psycopg
import pytest
from logins import login, of, own_database

from recollect.errors import Conflict, NewerLibrary, RecollectError
from recollect.language.queries.query import parse
from recollect.model.documents import Document, Passage
from recollect.model.search import Filter
from recollect.store.postgres import PostgresStore
from recollect.store.postgres.administration import database_status, prepare_database
from recollect.store.postgres.schema import online
from recollect.store.postgres.schema.migration_steps import BASELINE, CONTRACTIONS, MIGRATIONS
from recollect.store.postgres.schema.migrations import finish, migrate
from recollect.store.postgres.schema.versions import (
    APPLICATION_NAME,
    PROGRAM,
    is_index_step,
    is_optional,
    statements,
)

EVERYTHING = Filter(hidden=True)
NAMES = [name for name, _ in MIGRATIONS]
LATER = MIGRATIONS[NAMES.index(BASELINE) + 1 :]
# A version after this one: a column, an index, rows that change, and a column that goes again.
NEXT_VERSION = """
import importlib, pathlib, sys, types
import recollect
# The schema is changed before the other modules of its package see it.
package = sys.modules["recollect.store.postgres"] = types.ModuleType("recollect.store.postgres")
package.__path__ = [str(pathlib.Path(recollect.__file__).parent / "store/postgres")]
schema = importlib.import_module("recollect.store.postgres.schema.migration_steps")
del sys.modules["recollect.store.postgres"]
schema.MIGRATIONS += (
    ("m900_column", "alter table document add extra text not null default 'old';"),
    ("m901_index", "create index passage_later on passage (owner, document, updated_at);"),
    ("m902_rows", '''update document set extra = 'new' where owner = {owner} and key in (
      select key from document where owner = {owner} and extra = 'old' limit 2);'''),
)
schema.CONTRACTIONS += (
    schema.Contraction("c900_extra", "alter table document drop column extra;", "m900_column"),
)
from recollect.model.documents import Document, Passage
from recollect.model.search import Filter
from recollect.language.queries.query import parse
from recollect.store.postgres import PostgresStore
from recollect.store.postgres.administration import prepare_database
url, user, action = sys.argv[1:]
if action == "finish":
    prepare_database(url, finish_upgrade=True)
elif action == "migrate":
    prepare_database(url)
else:
    store = PostgresStore(url, user)
    store.save([Document("test", "b", passages=(Passage("b0", "user", "start"),))])
    for n in range(1, 30):
        store.append("b", Passage(f"b{n}", "user", f"zebra number{n}"))
        assert store.count(parse(f"number{n}"), Filter(hidden=True)) == (1, True)
    store.close()
"""


def execute(url: str, statement: str, *values: Any) -> list[tuple[Any, ...]]:
    with psycopg.connect(url, autocommit=True) as db:
        cursor = db.execute(statement, values or None)
        return cursor.fetchall() if cursor.description else []


def run_next_version(url: str, action: str) -> None:
    """Run a program of the next version, and raise its error."""
    command = [sys.executable, "-c", NEXT_VERSION, url, "bob", action]
    process = subprocess.run(command, capture_output=True, text=True)
    if process.returncode:
        raise RecollectError(process.stderr.splitlines()[-1])


@pytest.fixture
def url(database: str) -> Iterator[str]:
    """A database with the current schema."""
    name = f"recollect_test_{uuid.uuid4().hex[:12]}"
    yield postgres.new_database(name)
    execute(database, f"drop database {name} with (force)")


def columns(url: str) -> dict[tuple[str, str], tuple[Any, ...]]:
    rows = execute(
        url,
        """select c.relname::text, a.attname::text, format_type(a.atttypid, a.atttypmod),
          a.attnotnull, a.atthasdef
        from pg_attribute a join pg_class c on c.oid = a.attrelid
        where c.relnamespace = 'recollect'::regnamespace and c.relkind in ('r', 'p')
          and not c.relispartition and a.attnum > 0 and not a.attisdropped""",
    )
    return {(table, column): tuple(rest) for table, column, *rest in rows}


def functions(url: str) -> set[tuple[str, str]]:
    return set(
        execute(
            url,
            """select oid::regprocedure::text, pg_get_function_result(oid) from pg_proc
            where pronamespace = 'recollect'::regnamespace""",
        )
    )


def constraints(url: str) -> set[tuple[str, str]]:
    """What rows must fulfil, by table."""
    return set(
        execute(
            url,
            """select c.relname::text, pg_get_constraintdef(k.oid)
            from pg_constraint k join pg_class c on c.oid = k.conrelid
            where c.relnamespace = 'recollect'::regnamespace and not c.relispartition
              and k.contype <> 'n'
            union select c.relname::text, pg_get_indexdef(i.indexrelid)
            from pg_index i join pg_class c on c.oid = i.indrelid
            where c.relnamespace = 'recollect'::regnamespace and not c.relispartition
              and i.indisunique""",
        )
    )


@pytest.mark.full
def test_migrations_after_the_baseline_only_add(database: str) -> None:
    """Whatever an older program uses is still there, and it can write as before."""
    if not LATER:
        pytest.skip("there is no later migration yet")
    with own_database(database) as url, psycopg.connect(url, autocommit=True) as db:
        migrate(db, "here", stop_before=LATER[0][0])
        before = columns(url), functions(url), constraints(url)
        tables = {table for table, _ in before[0]}
        migrate(db, "here")
        after = columns(url)
        assert before[0].items() <= after.items()
        assert before[1] <= functions(url)
        new_columns = {key: after[key] for key in after.keys() - before[0].keys()}
        for (table, column), (_, is_required, has_default) in new_columns.items():
            assert table not in tables or not is_required or has_default, (table, column)
        new_constraints = constraints(url) - before[2]
        assert not {table for table, _ in new_constraints} & tables


def test_indexes_of_older_tables_are_steps_of_their_own() -> None:
    """An index that is created in a transaction blocks writing until it is complete."""
    for name, script in LATER:
        if is_index_step(script):
            continue
        for statement in statements(script):
            match = re.match(r"create (?:unique )?index \w+\s+on (\w+)", statement)
            assert match is None or f"create table {match[1]} " in script, name


def test_contractions_name_a_step_that_exists() -> None:
    for step in CONTRACTIONS:
        assert step.oldest_program in NAMES
        assert re.fullmatch(r"c\d\d\d_\w+", step.name)


def test_names_of_steps_sort_in_their_order() -> None:
    assert sorted(NAMES) == NAMES
    assert NAMES[-1] == PROGRAM
    assert len(APPLICATION_NAME) < 64


def test_programs_work_without_indexes_but_not_without_columns() -> None:
    assert is_optional("m026_pinned_lists")
    assert not is_optional("m024_moves")


@pytest.mark.full
def test_an_upgraded_database_is_like_a_new_one_when_it_is_finished(
    database: str, url: str
) -> None:
    with own_database(database) as upgraded:
        with psycopg.connect(upgraded, autocommit=True) as db:
            migrate(db, "here", stop_before=BASELINE)
            migrate(db, "here")
            assert finish(db, "here") == [step.name for step in CONTRACTIONS]
            assert finish(db, "here") == []
        for describe in (columns, functions, constraints):
            assert describe(upgraded) == describe(url)  # type: ignore[operator]
        sequences = "select sequencename from pg_sequences where schemaname = 'recollect'"
        assert execute(upgraded, sequences) == execute(url, sequences) == [("account_id_seq",)]


@pytest.mark.full
def test_servers_of_two_versions_write_and_search_while_the_schema_is_migrated(url: str) -> None:
    old = PostgresStore(url, "ann")
    old.save([Document("test", f"a{n}", passages=(Passage("p", "user", "x"),)) for n in range(9)])
    stopping = threading.Event()
    errors: list[BaseException] = []
    numbers: list[int] = []

    def work() -> None:
        try:
            while not stopping.is_set():
                number = len(numbers)
                old.append("a0", Passage(f"a0-{number}", "user", f"yak number{number}"))
                assert old.count(parse(f"number{number}"), EVERYTHING) == (1, True)
                numbers.append(number)
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        run_next_version(url, "migrate")
        migrated_at = len(numbers)
        run_next_version(url, "write")
    finally:
        stopping.set()
        thread.join()
    assert errors == []
    assert len(numbers) > migrated_at > 0
    assert old.count(parse("yak"), EVERYTHING) == (len(numbers), True)
    extra = "select extra, count(*) from recollect.document group by 1 order by 1"
    assert execute(url, extra) in ([("new", 9), ("old", 1)], [("new", 10)])
    assert index_validity(url, "passage_later") == {True}
    # A server of the old version can also be started now.
    other = PostgresStore(url, "carol")
    other.close()
    check_finishing(url, old)


def check_finishing(url: str, old: PostgresStore) -> None:
    """An upgrade is finished when the last old server is gone, and then it stays away."""
    with pytest.raises(RecollectError, match=r"belongs? to older programs .*Replace or stop"):
        run_next_version(url, "finish")
    old.append("a0", Passage("last", "user", "the old server still works"))
    # The old server has been idle for so long that it has no connection.
    execute(
        url,
        """select pg_terminate_backend(pid) from pg_stat_activity
        where datname = current_database() and application_name = %s""",
        APPLICATION_NAME,
    )
    run_next_version(url, "finish")
    with pytest.raises(NewerLibrary, match=r"is too old for .* needs schema m900_column or newer"):
        old.append("a0", Passage("later", "user", "never stored"))
    old.close()
    with pytest.raises(NewerLibrary, match="Upgrade Recollect"):
        PostgresStore(url, "ann")
    run_next_version(url, "write")


def index_validity(url: str, name: str) -> set[bool]:
    rows = execute(
        url,
        """select i.indisvalid from pg_index i, to_regclass(%s) parent
        where i.indexrelid = parent
          or i.indexrelid in (select inhrelid from pg_inherits where inhparent = parent)""",
        f"recollect.{name}",
    )
    assert len(rows) == 17
    return {is_valid for (is_valid,) in rows}


@pytest.mark.full
def test_an_interrupted_index_is_completed(url: str) -> None:
    statement = "create index passage_later on passage (owner, document, updated_at)"
    with psycopg.connect(url, autocommit=True) as db:
        # As an interrupted attempt leaves it: some partitions are complete, one is invalid.
        db.execute(statement.replace(" on ", " on only recollect."))
        rest = "(owner, document, updated_at)"
        db.execute(f"create index passage_later_0 on recollect.passage_0 {rest}")
        db.execute(f"create index passage_later_1 on recollect.passage_1 {rest}")
        db.execute(
            "update pg_index set indisvalid = false "
            "where indexrelid = 'recollect.passage_later_1'::regclass"
        )
        online.create_index(db, statement, on_cluster=False)
        online.create_index(db, statement, on_cluster=False)
        assert index_validity(url, "passage_later") == {True}
        online.drop_index(db, "drop index passage_later")
        online.drop_index(db, "drop index passage_later")
    assert execute(url, "select to_regclass('recollect.passage_later')") == [(None,)]


@pytest.mark.full
def test_a_table_that_is_locked_for_a_while_is_changed_later(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody waits long behind the migration, which tries again instead."""
    monkeypatch.setattr(online, "LOCK_SECONDS", 0.05)
    attempts: list[int] = []
    with psycopg.connect(url) as holder, psycopg.connect(url, autocommit=True) as db:
        holder.execute("lock table recollect.document in access share mode")

        def work() -> None:
            attempts.append(1)
            if len(attempts) == 3:
                holder.rollback()
            db.execute("alter table recollect.document add extra text")

        online.retry_until_unlocked(db, work)
    assert len(attempts) == 3


def test_a_program_without_privileges_works_while_indexes_are_missing(
    database: str, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    with login(database, member_of="recollect_app") as name:
        execute(url, "delete from recollect.migration where name = 'm026_pinned_lists'")
        execute(url, "drop index recollect.document_unpinned")
        store = PostgresStore(of(url, name), "ann")
        store.save([Document("test", "a", passages=(Passage("p", "user", "hello"),))])
        assert store.count(parse("hello"), EVERYTHING) == (1, True)
        store.close()
        assert "recollect postgres prepare" in caplog.text


def test_the_status_shows_who_is_connected(url: str) -> None:
    store = PostgresStore(url, "ann")
    store.size()
    status = database_status(url)
    assert [program.step for program in status.programs] == [PROGRAM]
    assert status.unfinished_steps == []
    with psycopg.connect(url, application_name="recollect"):
        assert [program.step for program in database_status(url).programs] == ["", PROGRAM]
        execute(url, "delete from recollect.migration where name = %s", CONTRACTIONS[0].name)
        assert database_status(url).unfinished_steps == [CONTRACTIONS[0].name]
        with pytest.raises(Conflict, match=r"1 connection .* belongs to older programs"):
            prepare_database(url, finish_upgrade=True)
    assert prepare_database(url, finish_upgrade=True).unfinished_steps == []
    store.close()
