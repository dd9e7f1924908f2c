"""A user of a PostgreSQL library can neither see nor change the data of another user.

Each attack is an SQL statement that a bug of ours or an injection could send: on a connection that
is configured like ours, in a transaction of the attacker. Both users have rows in the same tables
and partitions. All data of the victim contains the canary.

On a cluster (test_citus.py), Citus refuses some statements on its own, and cannot send temporary
functions to the workers. There, an attacker with the password of the application can do more harm
on the worker, so the same statements are tried on it, with the shard that both users share.
"""

from __future__ import annotations

import random
import threading
import unicodedata
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import psycopg
import pytest
from contents import all_contents
from logins import login, of
from messages import recent
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict

import recollect
from recollect import Document, Filter, Library, Passage, SearchOptions
from recollect.errors import InvalidInput, NotFound, RecollectError
from recollect.language.queries.query import parse
from recollect.model import undo
from recollect.model.kinds import KINDS
from recollect.model.undo import Edit
from recollect.settings import LIMITS
from recollect.store.postgres import PostgresStore
from recollect.store.postgres.connection import Connection
from recollect.store.postgres.schema import APPEND_ONLY, is_distributed

CANARY = "zebracanary"
NONSENSE = "xylonothing"  # a word of the same length that nobody has
NOON = datetime(2025, 5, 1, 12, tzinfo=UTC)
EVERYTHING = Filter(hidden=True)
# Passages of each user. The keys of both start at 1, so keys above 6 belong to the other user.
MINE, THEIRS = 6, 40


@dataclass
class Neighbours:
    url: str
    mine: PostgresStore
    theirs: PostgresStore
    my_name: str
    their_name: str

    @property
    def me(self) -> int:
        return owner(self.mine)

    @property
    def them(self) -> int:
        return owner(self.theirs)

    def tables(self) -> list[str]:
        """Every table with an owner, from the system catalog."""
        rows = self.mine._read(
            lambda db: db.rows(
                """select c.relname from pg_class c
                where c.relnamespace = 'recollect'::regnamespace and c.relkind in ('r', 'p')
                  and not c.relispartition and c.relname not in ('account', 'schema_version')"""
            )
        )
        return [name for (name,) in rows]

    def is_distributed(self) -> bool:
        with psycopg.connect(self.url) as db:
            return is_distributed(db)


@dataclass
class Storage:
    """Where the rows of both users are: the tables, or on a cluster the shards on a worker."""

    connection: psycopg.Connection[Any]
    """In a transaction of the attacker."""
    names: dict[str, str]
    """The names by which the tables are known there."""


def owner(store: PostgresStore) -> int:
    return store._read(lambda db: db.owner)


@pytest.fixture(scope="module")
def neighbours(database: str) -> Iterator[Neighbours]:
    """Two users whose rows are in the same partitions."""
    with ExitStack() as stack:
        by_partition: dict[str, tuple[PostgresStore, str]] = {}
        while True:
            name = f"user-{uuid.uuid4()}"
            store = PostgresStore(database, name)
            stack.callback(store.close)
            partition = store._read(
                lambda db: db.get("select tableoid::regclass::text from last_key")
            )
            if partition in by_partition:
                break
            by_partition[partition] = store, name
        mine, my_name = by_partition[partition]
        fill(mine, "mine", MINE)
        fill(store, CANARY, THEIRS)
        with psycopg.connect(database, autocommit=True) as db:
            db.execute("analyze")
        yield Neighbours(database, mine, store, my_name, name)


def fill(store: PostgresStore, word: str, count: int) -> None:
    """Store a row in every table, with the word in every text."""
    receipt = store.start_import(f"/{word}.json")
    passages = tuple(
        Passage(
            f"{word}-{n}",
            word,
            f"{word} says {n}",
            author=word,
            model=word,
            metadata={word: word},
            created_at=NOON,
        )
        for n in range(count)
    )
    conversation = Document(
        "test", word, title=word, project=word, passages=passages, metadata={"tags": [word]}
    )
    store.save([conversation], receipt.id)
    new_passages = (passages[0]._replace(content=f"{word} says something else"), *passages[1:])
    space = store.add_space(word, word, 4, word.encode())
    queue, _ = store.unembedded(space, 1_000)
    store.add_vectors(space, {p: [np.array([0.5, 0.5, 0.5, 0.5], np.float32)] for p in queue})
    store.update_space(space, ready=True)
    second = store.start_import(f"/{word}-2.json")
    store.save([replace(conversation, passages=new_passages)], second.id)
    store.update_receipt(receipt)
    store.edit(word, Edit(undo.PIN, pinned=True), NOON + timedelta(days=10_000))
    store._write(lambda db: db.run("insert into forgotten (high, low) values (?, ?)", (1, count)))
    values = (1, word, word)
    store._write(
        lambda db: db.run("insert into audit (number, record, hash) values (?, ?, ?)", values)
    )


@pytest.fixture
def attacker(neighbours: Neighbours) -> Iterator[psycopg.Connection[Any]]:
    """A connection like those of our pool, in a transaction of one user that is rolled back."""
    with psycopg.connect(neighbours.url, autocommit=True) as connection:
        neighbours.mine._transactions.server.configure(connection)
        connection.execute("begin")
        become(connection, neighbours.me)
        yield connection
        connection.execute("rollback")


@pytest.fixture
def storage(neighbours: Neighbours, attacker: psycopg.Connection[Any]) -> Iterator[Storage]:
    if not neighbours.is_distributed():
        yield Storage(attacker, {table: table for table in neighbours.tables()})
        return
    names = shard_names(neighbours)
    with psycopg.connect(worker_url(neighbours, "recollect_app"), autocommit=True) as connection:
        connection.execute("set citus.override_table_visibility = off")
        connection.execute("set citus.enable_manual_changes_to_shards = on")
        connection.execute("set search_path = recollect, pg_catalog, pg_temp")
        connection.execute("begin")
        become(connection, neighbours.me)
        yield Storage(connection, names)
        connection.execute("rollback")


def shard_names(neighbours: Neighbours) -> dict[str, str]:
    """The shards that both users share, by their tables."""
    with psycopg.connect(neighbours.url) as db:
        shards = db.execute(
            """select t.relname, get_shard_id_for_distribution_column(t.oid, %s)
            from pg_class t where t.oid = any(%s::regclass[])""",
            [neighbours.me, [f"recollect.{table}" for table in neighbours.tables()]],
        ).fetchall()
    return {table: f"recollect.{table}_{shard}" for table, shard in shards}


def worker_url(neighbours: Neighbours, role: str) -> str:
    """The address of the worker that has the rows of both users."""
    with psycopg.connect(neighbours.url) as db:
        ((host, port),) = db.execute(
            """select nodename, nodeport from pg_dist_shard_placement
            where shardid = get_shard_id_for_distribution_column('recollect.last_key', %s)""",
            [neighbours.me],
        ).fetchall()
        database = db.info.dbname
    return f"postgresql://{role}@{host}:{port}/{database}"


def become(connection: psycopg.Connection[Any], owner: int | str) -> None:
    connection.execute(f"set local recollect.owner = '{owner}'")


def rows(
    connection: psycopg.Connection[Any], statement: str, *values: Any
) -> list[tuple[Any, ...]]:
    cursor = connection.execute(statement, values or None)  # type: ignore[arg-type]
    return cursor.fetchall() if cursor.description else []


def attempt(connection: psycopg.Connection[Any], statement: str) -> str:
    """Everything that the statement reveals: its rows, or all fields of its error."""
    try:
        with connection.transaction():
            return repr(rows(connection, statement))
    except psycopg.Error as error:
        if (error.sqlstate or "").startswith("42") and not isinstance(
            error, errors.InsufficientPrivilege
        ):
            # An invalid statement proves nothing.
            raise
        fields = [getattr(error.diag, name) for name in dir(error.diag) if name[0] != "_"]
        texts = [text for text in fields if isinstance(text, str) and not text.isdigit()]
        return repr([type(error).__name__, *texts])


def fingerprint(
    connection: psycopg.Connection[Any], neighbours: Neighbours, owner: int
) -> dict[str, Any]:
    """The number and a hash of a user's rows in every table, as this transaction sees them."""
    current_owner = rows(connection, "select current_setting('recollect.owner', true)")[0][0]
    become(connection, owner)
    hashes = {
        table: rows(
            connection,
            f"select count(*), md5(string_agg(t::text, ' ' order by t::text)) from {table} t",
        )[0]
        for table in neighbours.tables()
    }
    become(connection, current_owner)
    return hashes


# -- reading ------------------------------------------------------------------------


def test_both_users_have_rows_in_every_table_and_in_the_same_partition(
    neighbours: Neighbours, attacker: psycopg.Connection[Any]
) -> None:
    tables = neighbours.tables()
    assert len(tables) >= 12
    partitions = []
    for owner in (neighbours.me, neighbours.them):
        become(attacker, owner)
        partitions.append(
            [rows(attacker, f"select distinct tableoid from {table}") for table in tables]
        )
    assert all(len(rows) == 1 for rows in partitions[0])
    assert partitions[0] == partitions[1]


def test_no_table_shows_a_row_of_another_user(
    neighbours: Neighbours, attacker: psycopg.Connection[Any]
) -> None:
    for table in neighbours.tables():
        assert rows(attacker, f"select distinct owner from {table}") == [(neighbours.me,)]
        assert rows(
            attacker, f"select count(*) from {table} where owner = %s", neighbours.them
        ) == [(0,)]
        assert rows(attacker, f"select count(*) from {table} where owner <> %s", neighbours.me) == [
            (0,)
        ]
        assert rows(
            attacker, f"select exists (select from {table} where owner = %s)", neighbours.them
        ) == [(False,)]
        assert CANARY not in repr(rows(attacker, f"select t::text, ctid, xmin from {table} t"))


@pytest.mark.parametrize(
    "statement",
    [
        "select * from passage p join document d on true",
        "select * from generate_series(1, 100) k(key) join passage p using (key)",
        "select * from generate_series(1, 99) k "
        "left join lateral (select * from passage p where p.key = k) x on true",
        "select * from document d right join passage p on d.key = p.document "
        "full join passage_text t on t.key = p.key",
        "select max(content), min(content), string_agg(title, ','), count(*) "
        "from passage, document",
        "select content, count(*) over (), first_value(content) over (order by key desc) "
        "from passage",
        "with recursive r as (select 1::bigint key "
        "union select key + 1 from passage join r using (key)) select * from r",
        "with d as materialized (select * from passage) select * from d",
        "(select content from passage) union all (select title from document) order by 1",
        "select * from passage tablesample system (100)",
        "select * from passage_text "
        "where words @@ to_tsquery('simple', 'zebracanary') or hidden or not hidden",
        "select * from passage where owner = any(select generate_series(0, 1000))",
        "select * from passage order by key desc for update skip locked",
        "select p from passage p where p is not null or p is null",
        "select to_jsonb(d), row_to_json(p) from document d, passage p",
        "select query_to_xml('select * from recollect.passage', true, true, '')",
        "select table_to_xml('recollect.word', true, true, '')",
        "select * from account",
        "select * from word where term like 'zebra%'",
        "select * from vector order by passage desc",
    ],
)
def test_no_query_shows_the_text_of_another_user(
    attacker: psycopg.Connection[Any], statement: str
) -> None:
    result = attempt(attacker, statement)
    assert CANARY not in result
    assert "mine" in result or "[" in result


@pytest.mark.parametrize("owner", ["", "0", "-1", "2147483647"])
def test_without_a_valid_owner_every_table_is_empty(
    neighbours: Neighbours, attacker: psycopg.Connection[Any], owner: str
) -> None:
    become(attacker, owner)
    for table in neighbours.tables():
        assert rows(attacker, f"select count(*) from {table}") == [(0,)]
    for library in (neighbours.me, neighbours.them):
        assert frequencies(attacker, library) == [(0, 0)] * 3


def frequencies(connection: psycopg.Connection[Any], library: int) -> list[tuple[Any, ...]]:
    queries = "array['mine', 'zebracanary', '!x']::tsquery[]"
    return rows(connection, f"select * from frequencies({library}, {queries}, 100)")


def test_a_search_function_returns_nothing_for_an_owner_that_the_transaction_does_not_name(
    neighbours: Neighbours, attacker: psycopg.Connection[Any]
) -> None:
    no_filter = ", ".join(["null"] * 9)
    them = neighbours.them
    assert frequencies(attacker, neighbours.me)[0] == (MINE, MINE)
    assert frequencies(attacker, them) == [(0, 0)] * 3
    for sql, expected in (
        (f"select counted({them}, 'zebracanary', null, 100, {no_filter}, true)", [(0,)]),
        (f"select newest({them}, 'zebracanary', null, 100, {no_filter}, true)", []),
        (
            f"select * from matches({them}, array['zebracanary']::tsquery[], array[1.0], null, "
            f"null, 100, null, {no_filter}, true)",
            [],
        ),
        (f"select absent({them}, array['zebracanary'])", [("zebracanary",)]),
    ):
        assert rows(attacker, sql) == expected


def test_row_level_security_cannot_be_disabled(
    neighbours: Neighbours, attacker: psycopg.Connection[Any]
) -> None:
    attacker.execute("set local row_security = off")
    for table in [*neighbours.tables(), "account"]:
        with (
            pytest.raises(errors.InsufficientPrivilege, match="row-level security"),
            attacker.transaction(),
        ):
            rows(attacker, f"select * from {table}")
    for call in calls(attacker, CANARY):
        assert "row-level security" in attempt(attacker, call)


@pytest.mark.parametrize(
    "statement",
    [
        "copy (select * from recollect.passage) to stdout",
        "copy (select * from recollect.document where true) to stdout (format csv, header)",
        "copy recollect.passage to stdout",
        "copy recollect.account to stdout",
    ],
)
def test_copy_out_returns_only_own_rows(attacker: psycopg.Connection[Any], statement: str) -> None:
    output = b""
    try:
        with attacker.transaction(), attacker.cursor().copy(statement.encode()) as copy:
            output = b"".join(bytes(part) for part in copy)
    except psycopg.Error as error:
        output = str(error).encode()
    assert CANARY.encode() not in output


def test_partitions_cannot_be_accessed_directly(
    neighbours: Neighbours, attacker: psycopg.Connection[Any]
) -> None:
    if neighbours.is_distributed():
        pytest.skip("there are shards instead, which the next test attacks")
    for table in neighbours.tables():
        ((name,),) = rows(attacker, f"select distinct tableoid::regclass::text from {table}")
        for statement in (
            "select * from {}",
            "delete from {}",
            "update {} set owner = 1",
            "insert into {} select",
            "copy {} to stdout",
            "lock table {}",
            "truncate {}",
        ):
            with pytest.raises(errors.InsufficientPrivilege), attacker.transaction():
                attacker.execute(statement.format(name))  # type: ignore[arg-type]


def test_a_shard_on_a_worker_gives_only_own_rows(
    neighbours: Neighbours, attacker: psycopg.Connection[Any], storage: Storage
) -> None:
    """On one machine, these are the tables."""
    before = fingerprint(attacker, neighbours, neighbours.them)
    with attacker.transaction(force_rollback=True):
        for table, name in storage.names.items():
            assert rows(storage.connection, f"select distinct owner from {name}") == [
                (neighbours.me,)
            ]
            assert CANARY not in repr(rows(storage.connection, f"select t::text from {name} t"))
            with pytest.raises(errors.InsufficientPrivilege), storage.connection.transaction():
                rows(storage.connection, f"truncate {name}")
            with pytest.raises(errors.InsufficientPrivilege), storage.connection.transaction():
                rows(storage.connection, f"alter table {name} disable row level security")
            if table not in APPEND_ONLY:
                with storage.connection.transaction(force_rollback=True):
                    statement = f"delete from {name} where owner = {neighbours.them} or owner = -1"
                    assert storage.connection.execute(statement).rowcount == 0
    for owner in ("", "-1"):
        become(storage.connection, owner)
        for name in storage.names.values():
            assert rows(storage.connection, f"select count(*) from {name}") == [(0,)]
    assert fingerprint(attacker, neighbours, neighbours.them) == before


# -- the search functions --------------------------------------------------------------


def calls(connection: psycopg.Connection[Any], query: str) -> list[str]:
    """A call of every search function, with the query wherever it takes one."""
    ((owner,),) = rows(connection, "select current_setting('recollect.owner')")
    values = {
        "library": str(owner),
        "tsquery": f"'{query}'",
        "tsquery[]": f"array['{query}']",
        "double precision[]": "array[1]",
        "integer": "1000",
        "terms": f"array['{query}']",
        "words": f"array['{query}']",
        "stems": f"array['{query}']",
        "is_counted": "array[true]",
        "with_hidden": "true",
    }
    arguments: dict[str, list[str]] = {}
    for function, name, type_name in rows(
        connection,
        """select p.oid::text, a.name, format_type(a.type, null)
        from pg_proc p, unnest(p.proargtypes::oid[], p.proargnames[1:p.pronargs])
          with ordinality a(type, name, place)
        where p.pronamespace = 'recollect'::regnamespace and p.prosecdef
        order by p.proname, a.place""",
    ):
        value = values.get(name) or values.get(type_name, "null")
        schema = "pg_catalog." if type_name.startswith("ts") else ""
        arguments.setdefault(function, []).append(f"{value}::{schema}{type_name}")
    names = dict(
        rows(
            connection,
            """select oid::text, proname from pg_proc
            where pronamespace = 'recollect'::regnamespace""",
        )
    )
    return [
        f"select * from recollect.{names[function]}({', '.join(each)})"
        for function, each in arguments.items()
    ]


@pytest.mark.parametrize(
    "query",
    [
        "zebracanary",
        "zebra:*",
        "zebracanary:ABCD",
        "z:*",
        "mine | zebracanary",
        "zebracanary <-> says",
        "!xyz & zebracanary",
        "!zebracanary",
    ],
)
def test_a_word_of_another_user_gives_the_same_results_as_an_unknown_word(
    attacker: psycopg.Connection[Any], query: str
) -> None:
    control = query.replace("zebracanary", NONSENSE).replace("zebra", "xylo").replace("z:*", "x:*")
    query_calls, control_calls = calls(attacker, query), calls(attacker, control)
    assert len(query_calls) >= 5
    for query_call, control_call in zip(query_calls, control_calls, strict=True):
        result = attempt(attacker, query_call).replace(query, "")
        assert result == attempt(attacker, control_call).replace(control, "")


def test_a_temporary_table_does_not_replace_ours(neighbours: Neighbours) -> None:
    with psycopg.connect(neighbours.url, autocommit=True) as connection:
        neighbours.mine._transactions.server.configure(connection)
        for table in neighbours.tables():
            statement = f"create temp table {table} as select 1 as trap"
            connection.execute(statement)  # type: ignore[arg-type]
        connection.execute("begin")
        become(connection, neighbours.me)
        assert rows(connection, "select max(key) from passage") == [(MINE,)]
        assert (
            rows(connection, "select count(*) from word w join passage_text t using (owner)")[0][0]
            > MINE
        )


# -- functions that run while rows are filtered ---------------------------------------------


def test_a_cheap_function_with_side_effects_sees_only_own_rows(
    neighbours: Neighbours, attacker: psycopg.Connection[Any], storage: Storage
) -> None:
    notices: list[str] = []
    for connection in {attacker, storage.connection}:
        connection.add_notice_handler(lambda notice: notices.append(notice.message_primary or ""))
        if neighbours.is_distributed():
            connection.execute("set local citus.enable_ddl_propagation = off")
        prepare_to_look(connection, storage.names["passage"])
    for statement in (
        "select count(*) from {passage} where pg_temp.look(content)",
        "select count(*) from {passage} p where content operator(pg_temp.===) 'x'",
        "select count(*) from pg_temp.everything where pg_temp.look(content)",
        "select count(*) from {document} d join {passage} p "
        "on pg_temp.look(d.title) and pg_temp.look(p.content)",
        "select count(*) from {passage_text} where pg_temp.look(words::text)",
        "select term from {word} where pg_temp.look(term) order by pg_temp.look(term)",
        "update {passage} set role = 'x' where pg_temp.look(content)",
        "delete from {word} where pg_temp.look(term)",
    ):
        storage.connection.execute(statement.format(**storage.names))  # type: ignore[arg-type]
    attacker.execute("select count(*) from account where pg_temp.look(name)")
    assert len(notices) >= 5 * MINE
    assert CANARY not in "".join(notices)


def prepare_to_look(connection: psycopg.Connection[Any], passages: str) -> None:
    """Create a function that reports its argument, and make the planner call it early."""
    connection.execute("set local client_min_messages = notice")
    connection.execute("""create function pg_temp.look(text) returns boolean language plpgsql
        cost 0.0000000001 as $$ begin raise notice 'saw %', $1; return true; end $$""")
    connection.execute("""create function pg_temp.equal(text, text) returns boolean language sql
        cost 0.0000000001 as 'select pg_temp.look($1)'""")
    connection.execute(
        "create operator pg_temp.=== (leftarg = text, rightarg = text, function = pg_temp.equal)"
    )
    ((exists,),) = rows(connection, "select to_regclass(%s) is not null", passages)
    if exists:
        connection.execute(f"""create temp view everything with (security_barrier = false) as
            select * from {passages}""")  # type: ignore[arg-type]
    for setting in (
        "enable_indexscan",
        "enable_bitmapscan",
        "enable_indexonlyscan",
        "enable_partition_pruning",
    ):
        connection.execute(f"set local {setting} = off")  # type: ignore[arg-type]


PROBES = (
    "select 1 / (case when content like '%{word}%' then 0 else 1 end) from passage",
    "select 1 / (case when title = '{word}' then 0 else 1 end) from document",
    "select sum(1 / (case when owner <> current_setting('recollect.owner')::integer "
    "then 0 else 1 end)) from passage",
    "select content::integer from passage where content like '%{word}%'",
    "select content::integer from passage order by key desc",
    "select ('{{' || content)::jsonb from passage where author = '{word}'",
    "select count(*) from word where term = '{word}'",
    "select (select content from passage where author = '{word}')",
    "select 1 from passage where author = '{word}' for update nowait",
    "insert into word (term) values ('{word}')",
    "insert into word (term) values ('{word}') on conflict do nothing returning term",
    "insert into word (term) values ('{word}') "
    "on conflict (owner, term) do update set stem = 'x' returning stem",
    "insert into account (name) values ('{word}')",
    "insert into account (name) values ('{word}') on conflict do nothing",
    "insert into space (id, name, version, dimensions) "
    "values (1000 + length('{word}') + ascii('{word}'), '{word}', '{word}', 4) "
    "returning name",
    "insert into derived (name, version) values ('{word}', 1) returning *",
    "update document set id = '{word}', source_id = '{word}' returning id",
    "merge into word w using (select '{word}' as term) x on w.term = x.term "
    "when matched then delete when not matched then insert (term) values (x.term)",
    "explain (costs off) select * from passage where author = '{word}'",
    "explain (analyze, costs off, timing off, summary off, buffers off) "
    "select * from word where owner = {me} and term = '{word}'",
    "explain select * from passage where content like '%{word}%'",
    "explain select * from passage where content ~ '{word}'",
    "select * from pg_stats where '{word}' = any(most_common_vals::text::text[])",
)


@pytest.mark.parametrize("probe", PROBES)
def test_neither_results_nor_errors_reveal_what_another_user_has(
    neighbours: Neighbours, attacker: psycopg.Connection[Any], probe: str
) -> None:
    results = [
        attempt(attacker, probe.format(word=word, me=neighbours.me)).replace(word, "")
        for word in (CANARY, NONSENSE)
    ]
    assert results[0] == results[1]


# -- writing ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "statement",
    [
        "update {table} set owner = owner",
        "update {table} set owner = owner where owner = {them}",
        "delete from {table}",
        "delete from {table} where owner = {them} or true",
        "delete from {table} t using passage p where p.owner <> {me} or p.owner = {me}",
        "update {table} set owner = {me} where owner = {them}",
        "with gone as (delete from {table} returning *) select * from gone",
        "merge into {table} t using generate_series(1, 1000) g on t.owner = g "
        "when matched then delete",
    ],
)
def test_writing_to_all_rows_changes_only_own_rows(
    neighbours: Neighbours, attacker: psycopg.Connection[Any], statement: str
) -> None:
    before = fingerprint(attacker, neighbours, neighbours.them)
    assert all(count for count, _ in before.values())
    for table in neighbours.tables():
        result = attempt(
            attacker, statement.format(table=table, me=neighbours.me, them=neighbours.them)
        )
        assert CANARY not in result
    assert fingerprint(attacker, neighbours, neighbours.them) == before


@pytest.mark.parametrize(
    "statement",
    [
        "insert into {table} {select}",
        "insert into {table} {select} on conflict do nothing",
        "insert into {table} {select} returning *",
        "update {table} set owner = {them}",
        "update {table} set owner = {them} returning *",
        "merge into {table} t using (select 1) x on true "
        "when matched then update set owner = {them}",
    ],
)
def test_no_row_can_be_given_to_another_user(
    neighbours: Neighbours,
    attacker: psycopg.Connection[Any],
    storage: Storage,
    statement: str,
) -> None:
    is_distributed = neighbours.is_distributed()
    for table, name in storage.names.items():
        error = "row-level security"
        if table in APPEND_ONLY and not statement.startswith("insert"):
            error = "permission denied"
        with (
            pytest.raises(errors.InsufficientPrivilege, match=error),
            storage.connection.transaction(),
        ):
            rows(storage.connection, gift(statement, name, neighbours.them))
        if is_distributed:
            # Through the coordinator, Citus may refuse it first.
            with pytest.raises(psycopg.Error), attacker.transaction():
                rows(attacker, gift(statement, table, neighbours.them))


def append_call(connection: psycopg.Connection[Any], library: int) -> str:
    """A call of `append_message`, with some value for each argument."""
    values = {
        "bigint": "1000000",
        "integer": "1",
        "boolean": "true",
        "bytea": r"'\x00'",
        "text": "'x'",
        "text[]": "'{x}'",
        "bigint[]": "'{1}'",
    }
    ((last_token,),) = rows(connection, "select marks[1] from last_key")
    parameters = rows(
        connection,
        """select a.name, format_type(a.type, null)
        from pg_proc p,
          unnest(p.proargtypes::oid[], p.proargnames) with ordinality a(type, name, place)
        where p.oid = 'recollect.append_message'::regproc and a.place > 1 order by a.place""",
    )
    arguments = [
        f"{last_token if name == 'last_token' else values[type_name]}::{type_name}"
        for name, type_name in parameters
    ]
    return f"select append_message({library}, {', '.join(arguments)})"


def test_a_message_cannot_be_appended_to_the_library_of_another_user(
    neighbours: Neighbours, attacker: psycopg.Connection[Any]
) -> None:
    them = neighbours.them
    assert rows(attacker, f"select * from append_state({neighbours.me}, 'mine', 'x')")
    assert rows(attacker, f"select * from append_state({them}, '{CANARY}', 'x')") == []
    before = fingerprint(attacker, neighbours, them)
    with pytest.raises(errors.SerializationFailure), attacker.transaction():
        attacker.execute(append_call(attacker, them))
    attacker.execute(append_call(attacker, neighbours.me))
    assert rows(attacker, "select count(*) from passage") == [(MINE + 1,)]
    assert fingerprint(attacker, neighbours, them) == before


def gift(statement: str, table: str, them: int) -> str:
    values = f'{{"owner": {them}}}'
    select = f"select (jsonb_populate_record(t, '{values}')).* from {table} t"
    return statement.format(table=table, them=them, select=select)


def test_nobody_can_take_over_the_number_of_another_account(
    neighbours: Neighbours, attacker: psycopg.Connection[Any]
) -> None:
    me = neighbours.my_name
    attacker.execute("select set_config('recollect.user', %s, true)", [me])
    for statement in (
        f"update account set id = {neighbours.them}",
        f"update account set name = '{neighbours.their_name}'",
        "delete from account",
        f"insert into account (id, name) overriding system value "
        f"values ({neighbours.them}, '{me}')",
        f"insert into account (id, name) overriding system value "
        f"values ({neighbours.them}, '{me}') on conflict (name) do update set id = excluded.id",
        f"merge into account a using (select 1) x on a.name = '{me}' when matched then delete",
    ):
        with pytest.raises(psycopg.ProgrammingError), attacker.transaction():
            rows(attacker, statement)


@pytest.mark.parametrize(
    "statement",
    [
        "alter table recollect.passage disable row level security",
        "alter table recollect.passage no force row level security",
        "alter table recollect.passage owner to current_user",
        "alter table recollect.passage rename to other",
        "alter table recollect.passage detach partition recollect.passage_1",
        "create policy more on recollect.passage using (true)",
        "alter policy own on recollect.passage using (true)",
        "drop policy own on recollect.passage",
        "create trigger t before insert on recollect.passage for each row "
        "execute function recollect.number_receipt()",
        "create rule r as on select to recollect.passage do instead select 1",
        "create index on recollect.passage (content)",
        "create statistics s on role, author from recollect.passage",
        "create table recollect.mine (a integer)",
        "create table public.refers "
        "(o integer, k bigint, foreign key (o, k) references recollect.passage)",
        "create temp table heir () inherits (recollect.account)",
        "create function recollect.f() returns integer language sql as 'select 1'",
        "create or replace function recollect.absent(library integer, terms text[]) "
        "returns setof text language sql as 'select 1::text'",
        "alter function recollect.absent(integer, text[]) reset all",
        "alter function recollect.absent(integer, text[]) owner to recollect_app",
        "grant recollect_search to recollect_app",
        "alter role recollect_app bypassrls",
        "alter role recollect_app set recollect.owner = '1'",
        "alter database template1 set recollect.owner = '1'",
        "create role helper superuser",
        "truncate recollect.passage",
        "truncate recollect.account cascade",
        "drop table recollect.passage cascade",
        "drop schema recollect cascade",
        "alter schema recollect rename to other",
        "set session_replication_role = replica",
        "set allow_system_table_mods = on",
        "create event trigger t on ddl_command_end execute function recollect.number_receipt()",
        "create extension pageinspect",
        "select pg_read_file('postgresql.conf')",
        "copy (select 1) to program 'true'",
        "select lo_export(1, '/tmp/x')",
        "create publication p for table recollect.passage",
        "select pg_create_logical_replication_slot('s', 'pgoutput')",
        "insert into recollect.schema_version values (2)",
        "delete from recollect.schema_version",
    ],
)
def test_the_app_role_cannot_change_anything_that_protects_users(
    attacker: psycopg.Connection[Any], statement: str
) -> None:
    with pytest.raises(
        (errors.InsufficientPrivilege, errors.WrongObjectType, errors.InvalidObjectDefinition)
    ) as error:
        rows(attacker, statement)
    assert CANARY not in str(error.value)
    # Nobody can create such a rule, so the privilege is not checked.
    assert isinstance(error.value, errors.InsufficientPrivilege) or "rule" in statement


# -- state that outlives a transaction -------------------------------------------------------


def test_a_statement_prepared_for_one_user_is_safe_for_the_next_user(
    neighbours: Neighbours,
) -> None:
    with psycopg.connect(neighbours.url, autocommit=True) as connection:
        neighbours.mine._transactions.server.configure(connection)
        connection.execute("prepare everything as select owner, content from passage")
        connection.execute("""prepare counts as
            select * from frequencies($1, array['zebracanary', 'mine']::tsquery[], 100)""")
        connection.execute("prepare writing as update passage set role = 'x' returning owner")
        modes = ["auto", "force_generic_plan", "force_custom_plan"]
        if neighbours.is_distributed():
            # A function runs on the worker of the owner, who must be known when it is planned.
            modes = ["force_custom_plan"]
        for mode in modes:
            connection.execute(f"set plan_cache_mode = {mode}")
            for _ in range(7):
                for owner, expected in (
                    (neighbours.them, (THEIRS, 0)),
                    (neighbours.me, (0, MINE)),
                    ("", (0, 0)),
                ):
                    connection.execute("begin")
                    become(connection, owner)
                    assert {o for o, _ in rows(connection, "execute everything")} == (
                        {owner} if owner else set()
                    )
                    assert (
                        tuple(n for n, _ in rows(connection, f"execute counts({owner or 0})"))
                        == expected
                    )
                    assert {o for (o,) in rows(connection, "execute writing")} == (
                        {owner} if owner else set()
                    )
                    connection.execute("rollback")
                assert rows(connection, "execute everything") == []


# -- a login that is only a member of the app role --------------------------------------------


@pytest.fixture(scope="module")
def member(neighbours: Neighbours) -> Iterator[str]:
    """The URL of the database for a login that is only a member of the app role."""
    with login(neighbours.url, member_of="recollect_app") as name:
        yield of(neighbours.url, name)


@pytest.mark.parametrize(
    "statement",
    [
        "set role recollect_search",
        "set role postgres",
        "set session authorization postgres",
        "set session authorization recollect_search",
        "set role pg_read_all_data",
        "set role pg_database_owner",
    ],
)
def test_a_login_cannot_set_a_more_powerful_role(
    neighbours: Neighbours, member: str, statement: str
) -> None:
    with psycopg.connect(member, autocommit=True) as connection:
        neighbours.mine._transactions.server.configure(connection)
        for first in ("reset role", "set role recollect_app", "reset session authorization"):
            connection.execute(first)  # type: ignore[arg-type]
            with pytest.raises((errors.InsufficientPrivilege, errors.InvalidParameterValue)):
                connection.execute(statement)  # type: ignore[arg-type]


def test_the_list_of_sessions_does_not_show_search_terms_of_others(
    neighbours: Neighbours, member: str
) -> None:
    theirs = recollect.open(member, neighbours.their_name)
    with theirs, psycopg.connect(member, autocommit=True) as connection:
        theirs.search(CANARY)
        theirs.add_message(CANARY, "user", f"{CANARY} again", id=f"{CANARY}-0-again")
        theirs.conversation_page(title=CANARY)
        theirs.recent(CANARY)
        texts = rows(connection, "select query from pg_stat_activity where usename = current_user")
        assert len(texts) >= 2
        assert all(text != "<insufficient privilege>" for (text,) in texts)
        assert CANARY not in repr(texts)
        neighbours.mine._transactions.server.configure(connection)
        texts = rows(connection, "select query from pg_stat_activity where pid <> pg_backend_pid()")
        assert CANARY not in repr(texts)


# -- through the interfaces ---------------------------------------------------------------------


@pytest.fixture
def pair(database: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Library, Library]]:
    """The libraries of two users that share a pool of two connections."""
    # The machine may be busy, so searches have time.
    limits = replace(LIMITS, server_connections=2, search_seconds=60.0)
    for module in (
        "postgres.transactions",
        "postgres.pool",
        "sql.store",
    ):
        monkeypatch.setattr(f"recollect.store.{module}.LIMITS", limits)
    url = of(database) + "&connect_timeout=6"
    with (
        recollect.open(url, f"ann-{uuid.uuid4()}") as ann,
        recollect.open(url, f"bob-{uuid.uuid4()}") as bob,
    ):
        for library, word in ((ann, ANN), (bob, BOB)):
            library._store.save(
                [
                    Document(
                        "recollect",
                        f"c{n}",
                        f"{word} title {n}",
                        project=word,
                        metadata={"tags": [word]},
                        passages=tuple(
                            Passage(
                                f"c{n}:{k}",
                                "user",
                                f"{word} speaks of gardens {n} {k}",
                                author=word,
                            )
                            for k in range(3)
                        ),
                    )
                    for n in range(4)
                ]
            )
            library._store.update_receipt(library._store.start_import(f"/{word}.json"))
        yield ann, bob


ANN, BOB = "anncanary", "bobcanary"
OPERATIONS: tuple[Callable[[Library, str], object], ...] = (
    lambda library, word: library.search(word),
    lambda library, word: library.search(
        f"{word[:6]}*", Filter.of(hidden=True), SearchOptions(mode="text")
    ),
    lambda library, word: library.search(
        "gardens", options=SearchOptions(group="conversation", limit=200)
    ),
    lambda library, word: library.search(["gardens", word]),
    lambda library, word: library.search(
        f'"{word} speaks"', Filter.of(authors=[word], projects=[word], tags=[word])
    ),
    lambda library, word: library.related("c1", "c1:0"),
    lambda library, word: library.recent(word),
    lambda library, word: library.recent(word[2:8]),
    lambda library, word: library.recent(),
    lambda library, word: library.conversation("c1"),
    lambda library, word: library.conversation_page(title=word[:4]),
    lambda library, word: list(library.documents(Filter.of(projects=[word]))),
    lambda library, word: library.stats(),
    lambda library, word: library.receipts(),
    lambda library, word: library.verify(),
    lambda library, word: library._store.variants([word, word[:6], "gardens", "canary"]),
    lambda library, word: library._store.newest(EVERYTHING, 100, text=word),
    lambda library, word: library._store.newest(EVERYTHING, 100, 0, by_document=True),
    lambda library, word: library._store.candidates(range(1, 100), EVERYTHING),
    lambda library, word: library._store.candidates(range(1, 100), EVERYTHING, True),
    lambda library, word: library._store.spaces(),
    lambda library, word: library.update_conversation("c2", f"{word} renamed"),
    lambda library, word: library.add_message(
        "c3", "user", f"{word} more", created_at="2025-05-02"
    ),
    lambda library, word: add_and_delete(library),
    lambda library, word: error_messages(library),
)


def add_and_delete(library: Library) -> Document:
    messages = [{"role": "user", "content": "short lived"}]
    return library.delete_conversation(library.add_conversation(messages=messages).id)


def error_messages(library: Library) -> list[str]:
    messages = []
    for call in (
        lambda: library.conversation("nowhere"),
        lambda: library.delete_conversation("nowhere"),
        lambda: library.undo_import(999),
        lambda: library.add_message("nowhere", "user", "x"),
        lambda: library.related("c1", "nothing"),
        lambda: library.add_message("c1", "user", "other", id="c1:0"),
    ):
        with pytest.raises((NotFound, InvalidInput)) as error:
            call()
        messages.append(str(error.value))
    return messages


def test_two_users_that_share_connections_never_get_results_of_each_other(
    pair: tuple[Library, Library],
) -> None:
    def run_operations(seed: int) -> None:
        rng = random.Random(seed)
        try:
            for n in range(50):
                library, own_word, other_word = sides[(n + seed) % 2]
                assert other_word not in all_contents(rng.choice(OPERATIONS)(library, own_word))
                page = library.search(other_word, Filter.of(hidden=True))
                assert (page.total, page.hits) == (0, ())
        except BaseException as error:
            failures.append(error)

    sides = ((pair[0], ANN, BOB), (pair[1], BOB, ANN))
    failures: list[BaseException] = []
    threads = [threading.Thread(target=run_operations, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    assert pair[0]._store._store._store._transactions._pool._pool.max_size == 2  # type: ignore[attr-defined]


def test_every_operation_uses_only_the_users_own_library(pair: tuple[Library, Library]) -> None:
    ann, bob = pair
    for operation in OPERATIONS:
        for library, own_word, other_word in ((ann, ANN, BOB), (bob, BOB, ANN)):
            assert other_word not in all_contents(operation(library, own_word))


def test_searching_for_text_of_another_user_finds_nothing(
    pair: tuple[Library, Library],
) -> None:
    ann, bob = pair
    for library, word in ((ann, BOB), (bob, ANN)):
        store = library._store
        for query in (
            word,
            f"{word[:7]}*",
            f'"{word} speaks"',
            f"{word} OR {word[:5]}*",
            f"NEAR({word} gardens, 5)",
            f"title:{word}",
            f"from:{word}",
            f"in:{word}",
            f"tag:{word}",
            f"gardens AND {word}",
        ):
            for group in ("message", "conversation"):
                page = library.search(
                    query, Filter.of(hidden=True), SearchOptions(group=group, limit=200)
                )
                assert (page.hits, page.total, page.exact) == ((), 0, True)
        nodes = [parse(word), parse(f"{word[:7]}*"), parse(NONSENSE)]
        assert store.frequencies(nodes)[0] == [0, 0, 0]
        assert store.count(parse(word), EVERYTHING) == (0, True)
        assert store.match(parse(word), EVERYTHING, 100) == []
        assert store.variants([word, word[:6]]) == [(word,), (word[:6],)]
        assert store.newest(EVERYTHING, 100, text=word[1:7]) == ([], 0, True)
        assert recent(store, word, EVERYTHING, 100) == []
        assert library.conversation_page(Filter.of(kinds=KINDS), title=word) == ([], 0)
        assert library.search("NOT nothing", Filter.of(hidden=True)).total <= 13


@pytest.mark.parametrize("name", ["", "a\0b", "\ud800", "b" * 501])
def test_invalid_user_names_are_refused(database: str, name: str) -> None:
    with pytest.raises(InvalidInput):
        recollect.open(database, name)


def test_a_removed_library_leaves_no_row_in_any_table_but_the_audit_log(
    neighbours: Neighbours,
) -> None:
    store = PostgresStore(neighbours.url, f"user-{uuid.uuid4()}")
    fill(store, "gone", 3)
    number = owner(store)
    store.remove_library()
    with psycopg.connect(neighbours.url) as connection:
        for table in set(neighbours.tables()) - APPEND_ONLY:
            count = rows(
                connection, f"select count(*) from recollect.{table} where owner = {number}"
            )
            assert count == [(0,)], table


def test_a_join_on_every_key_returns_only_own_rows(
    attacker: psycopg.Connection[Any],
) -> None:
    for table, key in (("passage", "key"), ("passage_text", "key"), ("vector", "passage")):
        ((count, largest_key),) = rows(
            attacker,
            f"""select count(*), max(t.{key})
            from generate_series(1, 1000) k join {table} t on t.{key} = k""",
        )
        assert count <= MINE
        assert largest_key <= MINE


def test_a_connection_without_an_owner_sees_nothing_and_writes_nothing(
    neighbours: Neighbours,
) -> None:
    with psycopg.connect(neighbours.url, autocommit=True) as connection:
        neighbours.mine._transactions.server.configure(connection)
        assert rows(connection, "select current_setting('recollect.owner', true)") == [(None,)]
        for table in [*neighbours.tables(), "account"]:
            assert rows(connection, f"select count(*) from {table}") == [(0,)]
            if table in APPEND_ONLY:
                with pytest.raises(errors.InsufficientPrivilege):
                    connection.execute(f"delete from {table}")
            elif table != "account":
                assert connection.execute(f"delete from {table}").rowcount == 0
        for write in (
            "insert into word (term) values ('a')",
            "insert into word (owner, term) values (1, 'a')",
        ):
            with pytest.raises(psycopg.Error, match=r"recollect\.owner|row-level security"):
                connection.execute(write)


@pytest.mark.parametrize("owner", ["x", "1 or true", "99999999999999"])
def test_an_owner_that_is_not_a_number_is_an_error(
    attacker: psycopg.Connection[Any], owner: str
) -> None:
    become(attacker, owner)
    with pytest.raises(psycopg.DataError):
        rows(attacker, "select count(*) from passage")


def test_copy_in_is_refused(neighbours: Neighbours, attacker: psycopg.Connection[Any]) -> None:
    with (
        pytest.raises(errors.FeatureNotSupported, match="row-level security"),
        attacker.transaction(),
        attacker.cursor().copy("copy recollect.word (owner, term) from stdin") as copy,
    ):
        copy.write(f"{neighbours.them}\tintruder\n")


@pytest.mark.parametrize(
    "query", ["!xyz", "!!zebracanary | !zebracanary", "says", "!(zebracanary & !says)", "s:*"]
)
def test_a_query_that_matches_everything_returns_only_own_passages(
    attacker: psycopg.Connection[Any], query: str
) -> None:
    results = [rows(attacker, call) for call in calls(attacker, query)]
    numbers = [
        value for result in results for row in result for value in row if isinstance(value, int)
    ]
    assert max(numbers) == MINE
    assert all(len(result) <= MINE for result in results)


def use_only_own_functions(attacker: psycopg.Connection[Any]) -> None:
    statements = calls(attacker, "!xyz")
    before = [attempt(attacker, call) for call in statements]
    assert "666" not in repr(before)
    for statement in (
        "create temp table passage_text as select * from recollect.passage_text",
        "update pg_temp.passage_text set key = 666",
        "create domain pg_temp.tsquery as text",
        "create function pg_temp.count(text) returns bigint language sql as 'select 666::bigint'",
        "create function pg_temp.unnest(text[]) returns setof text language sql "
        "as 'select ''zebracanary'''",
        "create function pg_temp.current_setting(text, boolean) returns text language sql "
        "as 'select ''2'''",
        "create function pg_temp.yes(tsvector, tsquery) returns boolean language sql "
        "as 'select true'",
        "create operator pg_temp.@@ "
        "(leftarg = tsvector, rightarg = tsquery, function = pg_temp.yes)",
        "create function pg_temp.same(integer, integer) returns boolean language sql "
        "as 'select true'",
        "create operator pg_temp.= "
        "(leftarg = integer, rightarg = integer, function = pg_temp.same)",
        "set local search_path = pg_temp, recollect, pg_catalog",
    ):
        attacker.execute(statement)  # type: ignore[arg-type]
    assert [attempt(attacker, call) for call in statements] == before


def test_search_functions_use_nothing_from_pg_temp(
    neighbours: Neighbours, attacker: psycopg.Connection[Any], storage: Storage
) -> None:
    if neighbours.is_distributed():
        # Otherwise Citus tries to create the traps on the workers as well, where they would be in
        # the temporary schema of its own connection. Here, they are on both nodes.
        attacker.execute("set local citus.enable_ddl_propagation = off")
        storage.connection.execute("set local citus.enable_ddl_propagation = off")
        use_only_own_functions(storage.connection)
    use_only_own_functions(attacker)


def test_only_an_administrator_can_mark_a_function_as_leakproof(
    attacker: psycopg.Connection[Any],
) -> None:
    with pytest.raises(errors.InsufficientPrivilege, match="leakproof"):
        attacker.execute("""create function pg_temp.look(text) returns boolean language sql
            leakproof as 'select true'""")


def test_the_name_of_an_account_cannot_be_probed(
    neighbours: Neighbours, attacker: psycopg.Connection[Any]
) -> None:
    attacker.execute("select set_config('recollect.user', %s, true)", [neighbours.my_name])
    assert rows(attacker, "select name from account") == [(neighbours.my_name,)]
    nobody = str(uuid.uuid4())
    for statement in (
        "insert into account (name) values ('{}')",
        "select * from account where name = '{}'",
        "insert into account (name) values ('{}') on conflict do nothing",
    ):
        result = attempt(attacker, statement.format(neighbours.their_name))
        assert result == attempt(attacker, statement.format(nobody))


def test_statistics_of_the_tables_are_not_visible(attacker: psycopg.Connection[Any]) -> None:
    for view in ("pg_stats", "pg_stats_ext", "pg_stats_ext_exprs"):
        statistics = f"select tablename from {view} where schemaname = 'recollect'"
        assert {table for (table,) in rows(attacker, statistics)} <= {"schema_version"}
    for table in ("pg_statistic", "pg_statistic_ext_data"):
        with pytest.raises(errors.InsufficientPrivilege), attacker.transaction():
            rows(attacker, f"select * from {table}")


def test_sequences_can_be_neither_used_nor_set(
    attacker: psycopg.Connection[Any],
) -> None:
    for statement in (
        "select * from recollect.account_id_seq",
        "select nextval('recollect.account_id_seq')",
        "select setval('recollect.account_id_seq', 1)",
        "alter sequence recollect.account_id_seq restart",
        "drop sequence recollect.account_id_seq",
    ):
        with pytest.raises(errors.InsufficientPrivilege), attacker.transaction():
            rows(attacker, statement)


def test_a_row_does_not_conflict_with_a_row_of_another_user(
    neighbours: Neighbours, attacker: psycopg.Connection[Any]
) -> None:
    before = fingerprint(attacker, neighbours, neighbours.them)
    titles = rows(
        attacker,
        """insert into document
        select (jsonb_populate_record(d, jsonb_build_object(
          'key', 7, 'id', 'zebracanary', 'source_id', 'zebracanary'))).* from document d
        on conflict (owner, id) do update set title = 'x' returning title""",
    )
    # The row was inserted, not updated.
    assert titles == [("mine",)]
    assert fingerprint(attacker, neighbours, neighbours.them) == before


def test_the_app_role_cannot_grant_its_privileges(attacker: psycopg.Connection[Any]) -> None:
    privileges = "select relacl::text from pg_class where oid = 'recollect.passage'::regclass"
    before = rows(attacker, privileges)
    # This only produces a warning.
    attacker.execute("grant all on recollect.passage to public")
    assert rows(attacker, privileges) == before


def test_a_plan_of_an_administrator_is_not_used_for_the_app_role(
    neighbours: Neighbours,
) -> None:
    with psycopg.connect(neighbours.url, autocommit=True) as connection:
        connection.execute("set plan_cache_mode = force_generic_plan")
        connection.execute("prepare everything as select owner from recollect.passage")
        rows(connection, "execute everything")
        neighbours.mine._transactions.server.configure(connection)
        assert rows(connection, "execute everything") == []


def test_a_cursor_ends_with_its_transaction(neighbours: Neighbours) -> None:
    with psycopg.connect(neighbours.url, autocommit=True) as connection:
        neighbours.mine._transactions.server.configure(connection)
        connection.execute("begin")
        become(connection, neighbours.them)
        connection.execute("declare peek cursor for select content from passage")
        assert CANARY in repr(rows(connection, "fetch 1 from peek"))
        connection.execute("commit")
        connection.execute("begin")
        become(connection, neighbours.me)
        with pytest.raises(errors.InvalidCursorName):
            rows(connection, "fetch 1 from peek")


def test_a_transaction_leaves_no_state_on_its_connection(database: str, user: str) -> None:
    # Another URL, so that the store has its own pool.
    store = PostgresStore(of(database) + "&connect_timeout=7", user)
    pool = store._transactions._pool
    pids: list[int] = []

    def check_state() -> None:
        with pool.connection(1e12) as connection:
            pids.append(connection.info.backend_pid)
            state = rows(
                connection,
                """select coalesce(current_setting('recollect.owner', true), ''),
                  coalesce(current_setting('recollect.user', true), ''),
                  current_setting('statement_timeout'), current_setting('lock_timeout'),
                  current_setting('transaction_isolation'), current_user,
                  (select count(*) from recollect.passage)""",
            )
            assert state == [("", "", "0", "0", "read committed", "recollect_app", 0)]

    def fail(db: Connection) -> None:
        db.run("select 1 / 0")

    try:
        check_state()
        store.save([Document("test", "c1", passages=(Passage("a", "user", "hello"),))])
        check_state()
        store.match(parse("hello"), EVERYTHING, 10)
        check_state()
        with pytest.raises(NotFound):
            store.document("nothing")
        check_state()
        with pytest.raises(NotFound):
            store.delete("nothing")
        check_state()
        for run in (store._read, store._write):
            with pytest.raises(RecollectError, match="division"):
                run(fail)
            check_state()
        with store.indexing_lock():
            pass
        check_state()
        assert len(set(pids)) == 1
    finally:
        store.close()


def test_a_login_that_resets_its_role_sees_no_more_rows(
    neighbours: Neighbours, member: str
) -> None:
    is_cluster = neighbours.is_distributed()
    with psycopg.connect(member, autocommit=True) as connection:
        neighbours.mine._transactions.server.configure(connection)
        for statement in (
            "reset role",
            "set role none",
            "reset session authorization",
            "reset all",
            "discard all",
        ):
            connection.execute(statement)  # type: ignore[arg-type]
            assert rows(connection, "select count(*) from recollect.passage") == [(0,)]
            connection.execute("begin")
            become(connection, neighbours.me)
            # After `reset all`, Citus does not pass the owner on to the workers.
            owners = {neighbours.me}
            if is_cluster and statement in ("reset all", "discard all"):
                owners = set()
            for table in neighbours.tables():
                own_rows = rows(connection, f"select owner from recollect.{table}")
                assert {owner for (owner,) in own_rows} == owners
            if not is_cluster:
                with pytest.raises(errors.InsufficientPrivilege), connection.transaction():
                    rows(connection, "select * from recollect.passage_1")
            connection.execute("rollback")
    if is_cluster:
        shard = shard_names(neighbours)["passage"]
        worker = worker_url(neighbours, conninfo_to_dict(member)["user"])
        with psycopg.connect(worker) as connection:
            connection.execute("set local citus.override_table_visibility = off")
            become(connection, neighbours.me)
            assert rows(connection, f"select distinct owner from {shard}") == [(neighbours.me,)]


def test_a_conversation_of_another_user_gives_the_same_error_as_an_unknown_one(
    pair: tuple[Library, Library],
) -> None:
    ann, bob = pair
    bob.add_conversation(
        "bobs", "", messages=[{"role": "user", "content": "only here", "id": "bobs-message"}]
    )
    for call in (
        lambda id: ann.conversation(id),
        lambda id: ann.delete_conversation(id),
        lambda id: ann.update_conversation(id, "mine"),
        lambda id: ann.add_message(id, "user", "hello"),
        lambda id: ann.related(id, "bobs-message"),
        lambda id: ann._store.passage_key(id, "bobs-message"),
        lambda id: ann.add_message("c1", "user", "hello", parent=f"{id}-message"),
    ):
        messages = []
        for conversation in ("bobs", "none"):
            with pytest.raises(NotFound) as error:
                call(conversation)
            messages.append(str(error.value).replace(conversation, ""))
        assert messages[0] == messages[1]
    assert bob.conversation("bobs").title == ""


def test_deleting_a_conversation_that_both_users_have_deletes_only_ones_own(
    pair: tuple[Library, Library],
) -> None:
    ann, bob = pair
    before = (
        bob.conversation("c1"),
        bob.stats(),
        bob.search("gardens").total,
        bob._store.variants(["gardens"]),
    )
    ann.delete_conversation("c1")
    for n in (0, 2, 3):
        ann.delete_conversation(f"c{n}")
    assert ann.search("gardens").total == 0
    assert ann.stats()["words"] == 0
    assert (
        bob.conversation("c1"),
        bob.stats(),
        bob.search("gardens").total,
        bob._store.variants(["gardens"]),
    ) == before
    assert bob.verify().healthy


def test_each_user_has_their_own_receipts_and_can_undo_only_those(
    pair: tuple[Library, Library],
) -> None:
    ann, bob = pair
    receipt = bob._store.start_import("/bobs.json")
    bob._store.save(
        [Document("x", "imported", passages=(Passage("a", "user", "imported words"),))], receipt.id
    )
    assert [r.path for r in ann.receipts()] == [f"/{ANN}.json"]
    with pytest.raises(NotFound):
        ann.undo_import(receipt.id)
    # Both users have a receipt with this number.
    ann.undo_import(1)
    assert bob.receipts()[-1].undone_at is None
    assert bob.search("imported").total == 1


def test_the_vector_space_of_another_user_cannot_be_used(pair: tuple[Library, Library]) -> None:
    ann, bob = (library._store for library in pair)
    bob.drop_space(bob.add_space("earlier", "1", 4, None))
    spaces = [store.add_space("model", "1", 4, None) for store in (ann, bob)]
    vector = np.array([0.5, 0.5, 0.5, 0.5], np.float32)
    for store, space in zip((ann, bob), spaces, strict=True):
        store.add_vectors(space, {p: [vector] for p in store.unembedded(space, 100)[0]})
        store.update_space(space, ready=True)
    theirs = spaces[1]
    assert ann.nearest(theirs, vector, EVERYTHING, 100) == []
    assert ann.cosines(theirs, vector, range(100)) == {}
    assert ann.vectors(theirs, 1) == []
    before = bob.nearest(theirs, vector, EVERYTHING, 100)
    assert len(before) == 12
    ann.add_vectors(theirs, {p: [vector] for p in ann.unembedded(theirs, 100)[0]})
    ann.update_space(theirs, ready=True)
    ann.drop_space(theirs)
    assert [s.id for s in ann.spaces()] == [spaces[0].id]
    assert bob.nearest(theirs, vector, EVERYTHING, 100) == before
    assert [(s.id, s.ready) for s in bob.spaces()] == [(theirs.id, True)]


def test_rebuilding_an_index_does_not_change_the_index_of_another_user(
    neighbours: Neighbours, attacker: psycopg.Connection[Any]
) -> None:
    before = fingerprint(attacker, neighbours, neighbours.them)
    neighbours.mine.repair()
    assert neighbours.mine.verify().healthy
    assert fingerprint(attacker, neighbours, neighbours.them) == before


NAMES = (
    unicodedata.normalize("NFC", "böb"),
    unicodedata.normalize("NFD", "böb"),
    "bob",
    "BOB",
    "bob ",
    " bob",
    "bob/",
    "../bob",
    "bob%",
    "bo'b",
    'bo"b',
    "bob'; drop table recollect.account; --",
    "bob\\",
    "$1",
    "%s",
    "?",
    "b" * 300,
    "b" * 299,
    "😀",
    "😀" * 500,
    "ßob",
    "ssob",
    "ﬁn",
    "fin",
    "bob\n",
    "\u202ebob",
    "0",
    "null",
    "recollect_app",
    "b_b",
    "b\u200bob",
    "ıob",
    "iob",
)


@pytest.mark.full
def test_similar_user_names_have_different_libraries(database: str) -> None:
    with ExitStack() as stack:
        run = uuid.uuid4().hex[:8]
        users = {name: f"{run}{name}"[:500] for name in NAMES}
        stores = {name: PostgresStore(database, user) for name, user in users.items()}
        for store in stores.values():
            stack.callback(store.close)
        assert len({owner(store) for store in stores.values()}) == len(NAMES)
        for name, store in stores.items():
            assert store.size() == 0
            store.save([Document("test", "same", name, passages=(Passage("a", "user", "secret"),))])
        stores["BOB"].delete("same")
        for name, store in stores.items():
            titles = [document.title for document in store.iter_documents(EVERYTHING)]
            assert titles == ([] if name == "BOB" else [name])
            assert PostgresStore.exists(database, users[name])
        assert not PostgresStore.exists(database, f"{run}nobody")
