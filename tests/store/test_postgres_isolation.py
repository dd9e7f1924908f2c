"""What one user of a PostgreSQL library can learn or change of another's: nothing.

Each attack is SQL as a mistake of ours, or an injection, could send it: on a
connection that is set up as ours are, inside a transaction of the attacker's.
The two users have the same tables filled, in the same partitions; everything
that the victim has contains the canary.
"""

from __future__ import annotations

import random
import threading
import unicodedata
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import psycopg
import pytest
from logins import login, of
from psycopg import errors

import recollect
from recollect.errors import InvalidInput, NotFound, RecollectError
from recollect.language.query import parse
from recollect.library import Library
from recollect.model.documents import Document, Passage
from recollect.model.kinds import KINDS
from recollect.model.search import Filter, SearchOptions
from recollect.settings import LIMITS
from recollect.store.postgres import PostgresStore
from recollect.store.postgres.connection import Connection

CANARY = "zebracanary"
NONSENSE = "xylonothing"  # a word as long, that nobody has
NOON = datetime(2025, 5, 1, 12, tzinfo=UTC)
EVERYTHING = Filter(hidden=True)
MINE, THEIRS = (
    6,
    40,
)  # passages: the keys of both begin at 1, so what is above six is somebody else's


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
        """Every table with an owner, as the catalogue has it."""
        return self.mine._read(
            lambda db: [
                t
                for (t,) in db.rows(
                    "select c.relname from pg_class c where c.relnamespace = 'recollect'::regnamespace and c.relkind = 'p'"
                )
            ]
        )


def owner(store: PostgresStore) -> int:
    return store._read(lambda db: db.owner)


@pytest.fixture(scope="module")
def neighbours(database: str) -> Iterator[Neighbours]:
    """Two users whose rows lie in the same partitions."""
    with ExitStack() as opened:
        found: dict[str, tuple[PostgresStore, str]] = {}
        while True:
            store = PostgresStore(database, name := f"user-{uuid.uuid4()}")
            opened.callback(store.close)
            place = store._read(lambda db: db.get("select tableoid::regclass::text from last_key"))
            if place in found:
                break
            found[place] = store, name
        mine, my_name = found[place]
        fill(mine, "mine", MINE)
        fill(store, CANARY, THEIRS)
        with psycopg.connect(database, autocommit=True) as db:
            db.execute("analyze")
        yield Neighbours(database, mine, store, my_name, name)


def fill(store: PostgresStore, word: str, count: int) -> None:
    """A library with a row in every table, and the word in every text."""
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
    talk = Document(
        "test", word, title=word, project=word, passages=passages, metadata={"tags": [word]}
    )
    store.save([talk], receipt.id)
    changed = (passages[0]._replace(content=f"{word} says something else"), *passages[1:])
    space = store.add_space(word, word, 4, word.encode())
    waiting, _ = store.unembedded(space, 1_000)
    store.add_vectors(space, {p: [np.array([0.5, 0.5, 0.5, 0.5], np.float32)] for p in waiting})
    store.mark_space_ready(space)
    second = store.start_import(f"/{word}-2.json")
    store.save([replace(talk, passages=changed)], second.id)
    store.finish_import(receipt)


@pytest.fixture
def attacker(neighbours: Neighbours) -> Iterator[psycopg.Connection[Any]]:
    """A connection as our pool makes it, inside a transaction of one user; what it does is taken back."""
    with psycopg.connect(neighbours.url, autocommit=True) as connection:
        neighbours.mine._transactions.server.configure(connection)
        connection.execute("begin")
        become(connection, neighbours.me)
        yield connection
        connection.execute("rollback")


def become(connection: psycopg.Connection[Any], owner: int | str) -> None:
    connection.execute("select set_config('recollect.owner', %s, true)", [str(owner)])


def rows(
    connection: psycopg.Connection[Any], statement: str, *values: Any
) -> list[tuple[Any, ...]]:
    cursor = connection.execute(statement, values or None)  # type: ignore[arg-type]
    return cursor.fetchall() if cursor.description else []


def attempt(connection: psycopg.Connection[Any], statement: str) -> str:
    """Everything that the statement gives away: its rows, or all that its error says."""
    try:
        with connection.transaction():
            return repr(rows(connection, statement))
    except psycopg.Error as error:
        if (error.sqlstate or "").startswith("42") and not isinstance(
            error, errors.InsufficientPrivilege
        ):
            raise  # a statement that no server understands proves nothing
        said = (getattr(error.diag, name) for name in dir(error.diag) if not name.startswith("_"))
        return repr(
            [type(error).__name__, *(s for s in said if isinstance(s, str) and not s.isdigit())]
        )


def fingerprint(
    connection: psycopg.Connection[Any], neighbours: Neighbours, owner: int
) -> dict[str, Any]:
    """What somebody has in every table, as this transaction would leave it."""
    before = rows(connection, "select current_setting('recollect.owner', true)")[0][0]
    become(connection, owner)
    found = {
        table: rows(
            connection,
            f"select count(*), md5(string_agg(t::text, ' ' order by t::text)) from {table} t",
        )[0]
        for table in neighbours.tables()
    }
    become(connection, before)
    return found


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
    assert all(len(found) == 1 for found in partitions[0])
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
        "select * from generate_series(1, 99) k left join lateral (select * from passage p where p.key = k) x on true",
        "select * from document d right join passage p on d.key = p.document full join passage_text t on t.key = p.key",
        "select max(content), min(content), string_agg(title, ','), count(*) from passage, document",
        "select content, count(*) over (), first_value(content) over (order by key desc) from passage",
        "with recursive r as (select 1::bigint key union select key + 1 from passage join r using (key)) select * from r",
        "with d as materialized (select * from passage) select * from d",
        "(select content from passage) union all (select title from document) order by 1",
        "select * from passage tablesample system (100)",
        "select * from passage_text where words @@ to_tsquery('simple', 'zebracanary') or hidden or not hidden",
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
def test_no_way_of_asking_shows_another_users_text(
    attacker: psycopg.Connection[Any], statement: str
) -> None:
    shown = attempt(attacker, statement)
    assert CANARY not in shown
    assert "mine" in shown or "[" in shown


def test_a_join_over_every_key_finds_no_more_than_ones_own(
    attacker: psycopg.Connection[Any],
) -> None:
    for table, key in (("passage", "key"), ("passage_text", "key"), ("vector", "passage")):
        found = rows(
            attacker,
            f"select count(*), max(t.{key}) from generate_series(1, 1000) k join {table} t on t.{key} = k",
        )
        assert found[0][0] <= MINE and found[0][1] <= MINE


@pytest.mark.parametrize("owner", ["", "0", "-1", "2147483647"])
def test_without_an_owner_there_is_nothing_to_see(
    neighbours: Neighbours, attacker: psycopg.Connection[Any], owner: str
) -> None:
    become(attacker, owner)
    for table in neighbours.tables():
        assert rows(attacker, f"select count(*) from {table}") == [(0,)]
    assert (
        rows(
            attacker,
            "select * from frequencies(array['mine', 'zebracanary', '!x']::tsquery[], 100)",
        )
        == [(0, 0)] * 3
    )


def test_a_connection_on_which_nobody_was_named_sees_nothing_and_writes_nothing(
    neighbours: Neighbours,
) -> None:
    with psycopg.connect(neighbours.url, autocommit=True) as connection:
        neighbours.mine._transactions.server.configure(connection)
        assert rows(connection, "select current_setting('recollect.owner', true)") == [(None,)]
        for table in [*neighbours.tables(), "account"]:
            assert rows(connection, f"select count(*) from {table}") == [(0,)]
            assert (
                connection.execute(f"delete from {table}").rowcount == 0
                if table != "account"
                else True
            )
        for write in (
            "insert into word (term) values ('a')",
            "insert into word (owner, term) values (1, 'a')",
        ):
            with pytest.raises(psycopg.Error, match=r"recollect\.owner|row-level security"):
                connection.execute(write)


@pytest.mark.parametrize("owner", ["x", "1 or true", "99999999999999"])
def test_an_owner_that_is_no_number_stops_the_statement(
    attacker: psycopg.Connection[Any], owner: str
) -> None:
    become(attacker, owner)
    with pytest.raises(psycopg.DataError):
        rows(attacker, "select count(*) from passage")


def test_row_security_cannot_be_switched_off(
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
def test_copying_out_gives_ones_own_rows_or_nothing(
    attacker: psycopg.Connection[Any], statement: str
) -> None:
    copied = b""
    try:
        with attacker.transaction(), attacker.cursor().copy(statement) as copy:  # type: ignore[call-overload]
            copied = b"".join(bytes(part) for part in copy)
    except psycopg.Error as error:
        copied = str(error).encode()
    assert CANARY.encode() not in copied


def test_copying_in_is_refused(neighbours: Neighbours, attacker: psycopg.Connection[Any]) -> None:
    with (
        pytest.raises(errors.FeatureNotSupported, match="row-level security"),
        attacker.transaction(),
        attacker.cursor().copy("copy recollect.word (owner, term) from stdin") as copy,
    ):
        copy.write(f"{neighbours.them}\tintruder\n")


def test_partitions_cannot_be_reached_but_through_their_table(
    neighbours: Neighbours, attacker: psycopg.Connection[Any]
) -> None:
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


# -- what the search functions tell ----------------------------------------------------


def calls(connection: psycopg.Connection[Any], query: str) -> list[str]:
    """A call of every function that searches, with the query wherever it takes one."""
    values = {
        "tsquery": f"'{query}'",
        "tsquery[]": f"array['{query}']",
        "double precision[]": "array[1]",
        "integer": "1000",
        "terms": f"array['{query}']",
        "with_hidden": "true",
    }
    found: dict[str, list[str]] = {}
    for function, name, kind in rows(
        connection,
        """select p.oid::text, a.name, format_type(a.kind, null)
        from pg_proc p, unnest(p.proargtypes::oid[], p.proargnames[1:p.pronargs]) with ordinality a(kind, name, place)
        where p.pronamespace = 'recollect'::regnamespace and p.prosecdef order by p.proname, a.place""",
    ):
        value = values.get(name) or values.get(kind, "null")
        found.setdefault(function, []).append(
            f"{value}::pg_catalog.{kind}" if kind.startswith("ts") else f"{value}::{kind}"
        )
    names = dict(
        rows(
            connection,
            "select oid::text, proname from pg_proc where pronamespace = 'recollect'::regnamespace",
        )
    )
    return [
        f"select * from recollect.{names[f]}({', '.join(arguments)})"
        for f, arguments in found.items()
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
def test_a_word_that_only_another_has_is_like_a_word_that_nobody_has(
    attacker: psycopg.Connection[Any], query: str
) -> None:
    nothing = query.replace("zebracanary", NONSENSE).replace("zebra", "xylo").replace("z:*", "x:*")
    about_them, about_nobody = calls(attacker, query), calls(attacker, nothing)
    assert len(about_them) >= 5
    for theirs, nobodys in zip(about_them, about_nobody, strict=True):
        assert attempt(attacker, theirs).replace(query, "") == attempt(attacker, nobodys).replace(
            nothing, ""
        )


@pytest.mark.parametrize(
    "query", ["!xyz", "!!zebracanary | !zebracanary", "says", "!(zebracanary & !says)", "s:*"]
)
def test_a_query_that_everything_matches_finds_ones_own_passages_only(
    attacker: psycopg.Connection[Any], query: str
) -> None:
    found = [rows(attacker, call) for call in calls(attacker, query)]
    numbers = [
        value for answer in found for row in answer for value in row if isinstance(value, int)
    ]
    assert max(numbers) == MINE
    assert all(len(answer) <= MINE for answer in found)


def test_what_stands_in_pg_temp_is_not_used_by_the_search_functions(
    attacker: psycopg.Connection[Any],
) -> None:
    asked = calls(attacker, "!xyz")
    before = [attempt(attacker, call) for call in asked]
    for statement in (
        "create temp table passage_text as select * from recollect.passage_text",
        "update pg_temp.passage_text set key = 666",
        "create domain pg_temp.tsquery as text",
        "create function pg_temp.count(text) returns bigint language sql as 'select 666::bigint'",
        "create function pg_temp.unnest(text[]) returns setof text language sql as 'select ''zebracanary'''",
        "create function pg_temp.current_setting(text, boolean) returns text language sql as 'select ''2'''",
        "create function pg_temp.yes(tsvector, tsquery) returns boolean language sql as 'select true'",
        "create operator pg_temp.@@ (leftarg = tsvector, rightarg = tsquery, function = pg_temp.yes)",
        "create function pg_temp.same(integer, integer) returns boolean language sql as 'select true'",
        "create operator pg_temp.= (leftarg = integer, rightarg = integer, function = pg_temp.same)",
        "set local search_path = pg_temp, recollect, pg_catalog",
    ):
        attacker.execute(statement)  # type: ignore[arg-type]
    assert [attempt(attacker, call) for call in asked] == before


def test_a_temporary_table_does_not_stand_in_for_ours(neighbours: Neighbours) -> None:
    with psycopg.connect(neighbours.url, autocommit=True) as connection:
        neighbours.mine._transactions.server.configure(connection)
        for table in neighbours.tables():
            connection.execute(f"create temp table {table} as select 1 as trap")  # type: ignore[arg-type]
        connection.execute("begin")
        become(connection, neighbours.me)
        assert rows(connection, "select max(key) from passage") == [(MINE,)]
        assert (
            rows(connection, "select count(*) from word w join passage_text t using (owner)")[0][0]
            > MINE
        )


# -- code that looks while rows are filtered ---------------------------------------------


def test_a_cheap_function_with_side_effects_is_shown_ones_own_rows_only(
    attacker: psycopg.Connection[Any],
) -> None:
    heard: list[str] = []
    attacker.add_notice_handler(lambda notice: heard.append(notice.message_primary or ""))
    attacker.execute("set local client_min_messages = notice")
    attacker.execute("""create function pg_temp.look(text) returns boolean language plpgsql cost 0.0000000001 as
        $$ begin raise notice 'saw %', $1; return true; end $$""")
    attacker.execute(
        "create function pg_temp.equal(text, text) returns boolean language sql cost 0.0000000001 as "
        "'select pg_temp.look($1)'"
    )
    attacker.execute(
        "create operator pg_temp.=== (leftarg = text, rightarg = text, function = pg_temp.equal)"
    )
    attacker.execute(
        "create temp view everything with (security_barrier = false) as select * from recollect.passage"
    )
    for setting in (
        "enable_indexscan",
        "enable_bitmapscan",
        "enable_indexonlyscan",
        "enable_partition_pruning",
    ):
        attacker.execute(f"set local {setting} = off")  # type: ignore[arg-type]
    for statement in (
        "select count(*) from passage where pg_temp.look(content)",
        "select count(*) from passage p where content operator(pg_temp.===) 'x'",
        "select count(*) from everything where pg_temp.look(content)",
        "select count(*) from document d join passage p on pg_temp.look(d.title) and pg_temp.look(p.content)",
        "select count(*) from passage_text where pg_temp.look(words::text)",
        "select term from word where pg_temp.look(term) order by pg_temp.look(term)",
        "select count(*) from account where pg_temp.look(name)",
        "update passage set role = 'x' where pg_temp.look(content)",
        "delete from word where pg_temp.look(term)",
    ):
        attacker.execute(statement)  # type: ignore[arg-type]
    assert len(heard) >= 5 * MINE
    assert CANARY not in "".join(heard)


def test_nobody_but_an_administrator_can_call_a_function_leakproof(
    attacker: psycopg.Connection[Any],
) -> None:
    with pytest.raises(errors.InsufficientPrivilege, match="leakproof"):
        attacker.execute(
            "create function pg_temp.look(text) returns boolean language sql leakproof as 'select true'"
        )


PROBES = (
    "select 1 / (case when content like '%{word}%' then 0 else 1 end) from passage",
    "select 1 / (case when title = '{word}' then 0 else 1 end) from document",
    "select sum(1 / (case when owner <> current_setting('recollect.owner')::integer then 0 else 1 end)) from passage",
    "select content::integer from passage where content like '%{word}%'",
    "select content::integer from passage order by key desc",
    "select ('{{' || content)::jsonb from passage where author = '{word}'",
    "select count(*) from word where term = '{word}'",
    "select (select content from passage where author = '{word}')",
    "select 1 from passage where author = '{word}' for update nowait",
    "insert into word (term) values ('{word}')",
    "insert into word (term) values ('{word}') on conflict do nothing returning term",
    "insert into word (term) values ('{word}') on conflict (owner, term) do update set stem = 'x' returning stem",
    "insert into account (name) values ('{word}')",
    "insert into account (name) values ('{word}') on conflict do nothing",
    "insert into space (name, version, dimensions) values ('{word}', '{word}', 4) returning name",
    "insert into derived (name, version) values ('{word}', 1) returning *",
    "update document set id = '{word}', source_id = '{word}' returning id",
    "merge into word w using (select '{word}' as term) x on w.term = x.term when matched then delete "
    "when not matched then insert (term) values (x.term)",
    "explain (costs off) select * from passage where author = '{word}'",
    "explain (analyze, costs off, timing off, summary off, buffers off) select * from word where term = '{word}'",
    "explain select * from passage where content like '%{word}%'",
    "explain select * from passage where content ~ '{word}'",
    "select * from pg_stats where '{word}' = any(most_common_vals::text::text[])",
)


@pytest.mark.parametrize("probe", PROBES)
def test_neither_answers_nor_errors_tell_whether_another_has_something(
    attacker: psycopg.Connection[Any], probe: str
) -> None:
    about_them, about_nobody = (
        attempt(attacker, probe.format(word=word)) for word in (CANARY, NONSENSE)
    )
    assert about_them.replace(CANARY, "") == about_nobody.replace(NONSENSE, "")


def test_the_name_of_an_account_cannot_be_probed(
    neighbours: Neighbours, attacker: psycopg.Connection[Any]
) -> None:
    attacker.execute("select set_config('recollect.user', %s, true)", [neighbours.my_name])
    assert rows(attacker, "select name from account") == [(neighbours.my_name,)]
    there, nobody = neighbours.their_name, str(uuid.uuid4())
    for statement in (
        "insert into account (name) values ('{}')",
        "select * from account where name = '{}'",
        "insert into account (name) values ('{}') on conflict do nothing",
    ):
        assert attempt(attacker, statement.format(there)) == attempt(
            attacker, statement.format(nobody)
        )


def test_a_key_that_another_has_is_like_a_key_that_nobody_has(
    attacker: psycopg.Connection[Any],
) -> None:
    def refer(document: int) -> str:
        return attempt(
            attacker,
            f"insert into receipt_revision (receipt, passage, before) values (1, {document}, '')",
        )

    assert refer(THEIRS).replace(str(THEIRS), "n") == refer(99_999).replace("99999", "n")


def test_statistics_of_the_tables_are_not_shown(attacker: psycopg.Connection[Any]) -> None:
    for view in ("pg_stats", "pg_stats_ext", "pg_stats_ext_exprs"):
        assert (
            rows(
                attacker,
                f"select * from {view} where schemaname = 'recollect' and tablename <> 'migration'",
            )
            == []
        )
    for table in ("pg_statistic", "pg_statistic_ext_data"):
        with pytest.raises(errors.InsufficientPrivilege), attacker.transaction():
            rows(attacker, f"select * from {table}")


def test_sequences_can_be_counted_on_but_not_read_or_set(attacker: psycopg.Connection[Any]) -> None:
    for name in ("mark", "space_number", "account_id_seq"):
        for statement in (
            f"select * from recollect.{name}",
            f"select setval('recollect.{name}', 1)",
            f"alter sequence recollect.{name} restart",
            f"drop sequence recollect.{name}",
        ):
            with pytest.raises(errors.InsufficientPrivilege), attacker.transaction():
                rows(attacker, statement)


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
        "merge into {table} t using generate_series(1, 1000) g on t.owner = g when matched then delete",
    ],
)
def test_writing_to_everything_writes_to_ones_own_rows(
    neighbours: Neighbours, attacker: psycopg.Connection[Any], statement: str
) -> None:
    before = fingerprint(attacker, neighbours, neighbours.them)
    assert all(count for count, _ in before.values())
    for table in neighbours.tables():
        shown = attempt(
            attacker, statement.format(table=table, me=neighbours.me, them=neighbours.them)
        )
        assert CANARY not in shown
    assert fingerprint(attacker, neighbours, neighbours.them) == before


@pytest.mark.parametrize(
    "statement",
    [
        "insert into {table} {given}",
        "insert into {table} {given} on conflict do nothing",
        "insert into {table} {given} returning *",
        "update {table} set owner = {them}",
        "update {table} set owner = {them} returning *",
        "merge into {table} t using (select 1) x on true when matched then update set owner = {them}",
    ],
)
def test_nothing_can_be_given_to_another_user(
    neighbours: Neighbours, attacker: psycopg.Connection[Any], statement: str
) -> None:
    for table in neighbours.tables():
        given = f"select (jsonb_populate_record(t, '{{\"owner\": {neighbours.them}}}')).* from {table} t"
        with (
            pytest.raises(errors.InsufficientPrivilege, match="row-level security"),
            attacker.transaction(),
        ):
            rows(attacker, statement.format(table=table, them=neighbours.them, given=given))


def test_a_conflict_with_a_row_of_another_is_none(
    neighbours: Neighbours, attacker: psycopg.Connection[Any]
) -> None:
    before = fingerprint(attacker, neighbours, neighbours.them)
    taken = rows(
        attacker,
        """insert into document select (jsonb_populate_record(d, jsonb_build_object('key', 7, 'id',
        'zebracanary', 'source_id', 'zebracanary'))).* from document d on conflict (owner, id) do update set title = 'x'
        returning title""",
    )
    assert taken == [("mine",)]  # inserted, not updated
    assert fingerprint(attacker, neighbours, neighbours.them) == before


def test_nobody_can_take_the_number_of_another_account(
    neighbours: Neighbours, attacker: psycopg.Connection[Any]
) -> None:
    me = neighbours.my_name
    attacker.execute("select set_config('recollect.user', %s, true)", [me])
    for statement in (
        f"update account set id = {neighbours.them}",
        f"update account set name = '{neighbours.their_name}'",
        "delete from account",
        f"insert into account (id, name) overriding system value values ({neighbours.them}, '{me}')",
        f"insert into account (id, name) overriding system value values ({neighbours.them}, '{me}') "
        "on conflict (name) do update set id = excluded.id",
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
        "create trigger t before insert on recollect.passage for each row execute function recollect.number_receipt()",
        "create rule r as on select to recollect.passage do instead select 1",
        "create index on recollect.passage (content)",
        "create statistics s on role, author from recollect.passage",
        "create table recollect.mine (a integer)",
        "create table public.refers (o integer, k bigint, foreign key (o, k) references recollect.passage)",
        "create temp table heir () inherits (recollect.account)",
        "create function recollect.f() returns integer language sql as 'select 1'",
        "create or replace function recollect.absent(terms text[]) returns setof text language sql as 'select 1::text'",
        "alter function recollect.absent(text[]) reset all",
        "alter function recollect.absent(text[]) owner to recollect_app",
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
        "insert into recollect.migration (name) values ('m999_evil')",
        "delete from recollect.migration",
    ],
)
def test_the_application_may_change_nothing_that_protects_the_users(
    attacker: psycopg.Connection[Any], statement: str
) -> None:
    with pytest.raises(
        (errors.InsufficientPrivilege, errors.WrongObjectType, errors.InvalidObjectDefinition)
    ) as refused:
        rows(attacker, statement)
    assert CANARY not in str(refused.value)
    if not isinstance(
        refused.value, errors.InsufficientPrivilege
    ):  # then it is for its owner, and cannot be done at all
        assert "rule" in statement


def test_the_application_cannot_pass_on_what_it_may(attacker: psycopg.Connection[Any]) -> None:
    allowed = "select relacl::text from pg_class where oid = 'recollect.passage'::regclass"
    before = rows(attacker, allowed)
    attacker.execute(
        "grant all on recollect.passage to public"
    )  # a warning says that nothing was granted
    assert rows(attacker, allowed) == before


# -- what outlives a transaction ----------------------------------------------------------


def test_a_statement_prepared_for_one_user_shows_the_next_what_is_the_nexts(
    neighbours: Neighbours,
) -> None:
    with psycopg.connect(neighbours.url, autocommit=True) as connection:
        neighbours.mine._transactions.server.configure(connection)
        connection.execute("prepare everything as select owner, content from passage")
        connection.execute(
            "prepare counts as select * from frequencies(array['zebracanary', 'mine']::tsquery[], 100)"
        )
        connection.execute("prepare writing as update passage set role = 'x' returning owner")
        for mode in ("auto", "force_generic_plan", "force_custom_plan"):
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
                    assert tuple(n for n, _ in rows(connection, "execute counts")) == expected
                    assert {o for (o,) in rows(connection, "execute writing")} == (
                        {owner} if owner else set()
                    )
                    connection.execute("rollback")
                assert rows(connection, "execute everything") == []


def test_a_plan_made_as_administrator_does_not_serve_the_application(
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


def test_a_transaction_leaves_nothing_on_its_connection(database: str, user: str) -> None:
    with_one = of(database) + "&connect_timeout=7"  # a pool of its own
    store = PostgresStore(with_one, user)
    pool = store._transactions._pool
    seen: list[int] = []

    def look() -> None:
        with pool.connection(1e12) as connection:
            seen.append(connection.info.backend_pid)
            found = rows(
                connection,
                """select coalesce(current_setting('recollect.owner', true), ''),
              coalesce(current_setting('recollect.user', true), ''), current_setting('statement_timeout'),
              current_setting('lock_timeout'), current_setting('transaction_isolation'), current_user,
              (select count(*) from recollect.passage)""",
            )
            assert found == [("", "", "0", "0", "read committed", "recollect_app", 0)]

    def fails(db: Connection) -> None:
        db.run("select 1 / 0")

    try:
        look()
        store.save([Document("test", "c1", passages=(Passage("a", "user", "hello"),))])
        look()
        store.match(parse("hello"), EVERYTHING, 10)
        look()
        with pytest.raises(NotFound):
            store.document("nothing")
        look()
        with pytest.raises(NotFound):
            store.delete("nothing")
        look()
        for run in (store._read, store._write):
            with pytest.raises(RecollectError, match="division"):
                run(fails)
            look()
        with store.indexing_lock():
            pass
        look()
        assert len(set(seen)) == 1
    finally:
        store.close()


# -- a login that is only a member of the application's role ---------------------------------


@pytest.fixture(scope="module")
def member(neighbours: Neighbours) -> Iterator[str]:
    """The address of the database for a login that may work as the application, and nothing else."""
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
def test_a_login_cannot_become_more_than_the_application(
    neighbours: Neighbours, member: str, statement: str
) -> None:
    with psycopg.connect(member, autocommit=True) as connection:
        neighbours.mine._transactions.server.configure(connection)
        for first in ("reset role", "set role recollect_app", "reset session authorization"):
            connection.execute(first)  # type: ignore[arg-type]
            with pytest.raises((errors.InsufficientPrivilege, errors.InvalidParameterValue)):
                connection.execute(statement)  # type: ignore[arg-type]


def test_a_login_that_resets_its_role_sees_no_more(neighbours: Neighbours, member: str) -> None:
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
            for table in neighbours.tables():
                assert {o for (o,) in rows(connection, f"select owner from recollect.{table}")} == {
                    neighbours.me
                }
            with pytest.raises(errors.InsufficientPrivilege), connection.transaction():
                rows(connection, "select * from recollect.passage_1")
            connection.execute("rollback")


def test_what_others_ask_does_not_stand_in_the_list_of_sessions(
    neighbours: Neighbours, member: str
) -> None:
    theirs = recollect.open(member, neighbours.their_name)
    with theirs, psycopg.connect(member, autocommit=True) as connection:
        theirs.search(CANARY)
        theirs.add_message(CANARY, "user", f"{CANARY} again", id=f"{CANARY}-0-again")
        theirs.conversations(title=CANARY)
        theirs.recent(CANARY)
        texts = rows(connection, "select query from pg_stat_activity where usename = current_user")
        assert len(texts) >= 2 and all(text != "<insufficient privilege>" for (text,) in texts)
        assert CANARY not in repr(texts)
        neighbours.mine._transactions.server.configure(connection)
        texts = rows(connection, "select query from pg_stat_activity where pid <> pg_backend_pid()")
        assert CANARY not in repr(texts)


# -- through the interfaces ---------------------------------------------------------------------


@pytest.fixture
def pair(database: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Library, Library]]:
    """The libraries of two users over one pool of two connections."""
    limits = replace(
        LIMITS, server_connections=2, search_seconds=60.0
    )  # a busy machine is no failure
    for module in ("postgres.transactions", "postgres.pool", "sql.store"):
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
            library._store.finish_import(library._store.start_import(f"/{word}.json"))
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
    lambda library, word: library.conversations(title=word[:4]),
    lambda library, word: list(library.documents(Filter.of(projects=[word]))),
    lambda library, word: library.stats(),
    lambda library, word: library.receipts(),
    lambda library, word: library.verify(),
    lambda library, word: library._store.variants([word, word[:6], "gardens", "canary"]),
    lambda library, word: library._store.find_substring(word, EVERYTHING, 100, 0),
    lambda library, word: library._store.newest(EVERYTHING, 100, 0, True),
    lambda library, word: library._store.candidates(range(1, 100), EVERYTHING),
    lambda library, word: library._store.previous_passages(range(1, 100)),
    lambda library, word: list(library._store.sample(100)),
    lambda library, word: library._store.spaces(),
    lambda library, word: library.update_conversation("c2", f"{word} renamed"),
    lambda library, word: library.add_message(
        "c3", "user", f"{word} more", created_at="2025-05-02"
    ),
    lambda library, word: (
        library.add_conversation("c9", "", messages=[{"role": "user", "content": "short lived"}]),
        library.delete_conversation("c9"),
    ),
    lambda library, word: errors_of(library),
)


def errors_of(library: Library) -> list[str]:
    said = []
    for call in (
        lambda: library.conversation("nowhere"),
        lambda: library.delete_conversation("nowhere"),
        lambda: library.undo_import(999),
        lambda: library.add_message("nowhere", "user", "x"),
        lambda: library.related("c1", "nothing"),
        lambda: library.add_message("c1", "user", "other", id="c1:0"),
    ):
        with pytest.raises((NotFound, InvalidInput)) as refused:
            call()
        said.append(str(refused.value))
    return said


def test_two_users_over_two_connections_never_get_each_others_answers(
    pair: tuple[Library, Library],
) -> None:
    def ask(seed: int) -> None:
        chance = random.Random(seed)
        try:
            for n in range(50):
                library, own, foreign = sides[(n + seed) % 2]
                assert foreign not in repr(chance.choice(OPERATIONS)(library, own))
                page = library.search(foreign, Filter.of(hidden=True))
                assert (page.total, page.hits) == (0, ())
        except BaseException as error:
            failed.append(error)

    sides = ((pair[0], ANN, BOB), (pair[1], BOB, ANN))
    failed: list[BaseException] = []
    threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
    assert pair[0]._store._transactions._pool._pool.max_size == 2  # type: ignore[attr-defined]


def test_every_operation_is_answered_from_ones_own_library(pair: tuple[Library, Library]) -> None:
    ann, bob = pair
    for operation in OPERATIONS:
        for library, own, foreign in ((ann, ANN, BOB), (bob, BOB, ANN)):
            assert foreign not in repr(operation(library, own))


def test_asking_for_what_only_another_has_is_asking_for_nothing(
    pair: tuple[Library, Library],
) -> None:
    ann, bob = pair
    for library, foreign in ((ann, BOB), (bob, ANN)):
        store = library._store
        for query in (
            foreign,
            f"{foreign[:7]}*",
            f'"{foreign} speaks"',
            f"{foreign} OR {foreign[:5]}*",
            f"NEAR({foreign} gardens, 5)",
            f"title:{foreign}",
            f"from:{foreign}",
            f"in:{foreign}",
            f"tag:{foreign}",
            f"gardens AND {foreign}",
        ):
            for group in ("message", "conversation"):
                page = library.search(
                    query, Filter.of(hidden=True), SearchOptions(group=group, limit=200)
                )
                assert (page.hits, page.total, page.exact) == ((), 0, True)
        assert store.frequencies([parse(foreign), parse(f"{foreign[:7]}*"), parse(NONSENSE)])[
            0
        ] == [0, 0, 0]
        assert store.count(parse(foreign), EVERYTHING) == (0, True)
        assert store.match(parse(foreign), EVERYTHING, 100) == []
        assert store.variants([foreign, foreign[:6]]) == [(foreign,), (foreign[:6],)]
        assert store.find_substring(foreign[1:7], EVERYTHING, 100, 0) == ([], 0)
        assert store.recent(foreign, EVERYTHING, 100) == []
        assert library.conversations(Filter.of(kinds=KINDS), title=foreign) == ([], 0)
        assert library.search("NOT nothing", Filter.of(hidden=True)).total <= 13


def test_a_conversation_that_only_another_has_is_refused_like_one_that_nobody_has(
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
        said = []
        for id_ in ("bobs", "none"):
            with pytest.raises(NotFound) as refused:
                call(id_)
            said.append(str(refused.value).replace(id_, ""))
        assert said[0] == said[1]
    assert bob.conversation("bobs").title == ""


def test_deleting_a_conversation_that_both_have_removes_ones_own(
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


def test_receipts_are_counted_and_taken_back_for_each_user_alone(
    pair: tuple[Library, Library],
) -> None:
    ann, bob = pair
    imported = bob._store.start_import("/bobs.json")
    bob._store.save(
        [Document("x", "imported", passages=(Passage("a", "user", "imported words"),))], imported.id
    )
    assert [r.path for r in ann.receipts()] == [f"/{ANN}.json"]
    with pytest.raises(NotFound):
        ann.undo_import(imported.id)
    ann.undo_import(1)  # both have one of this number
    assert bob.receipts()[-1].undone_at is None
    assert bob.search("imported").total == 1


def test_the_space_of_another_user_is_of_no_use(pair: tuple[Library, Library]) -> None:
    ann, bob = (library._store for library in pair)
    spaces = [store.add_space("model", "1", 4, None) for store in (ann, bob)]
    vector = np.array([0.5, 0.5, 0.5, 0.5], np.float32)
    for store, space in zip((ann, bob), spaces, strict=True):
        store.add_vectors(space, {p: [vector] for p in store.unembedded(space, 100)[0]})
        store.mark_space_ready(space)
    theirs = spaces[1]
    assert ann.nearest(theirs, vector, EVERYTHING, 100) == []
    assert ann.cosines(theirs, vector, range(100)) == {}
    assert ann.vectors(theirs, 1) == []
    before = bob.nearest(theirs, vector, EVERYTHING, 100)
    assert len(before) == 12
    ann.add_vectors(theirs, {p: [vector] for p in ann.unembedded(theirs, 100)[0]})
    ann.mark_space_ready(theirs)
    ann.drop_space(theirs)
    assert [s.id for s in ann.spaces()] == [spaces[0].id]
    assert bob.nearest(theirs, vector, EVERYTHING, 100) == before
    assert [(s.id, s.ready) for s in bob.spaces()] == [(theirs.id, True)]


def test_rebuilding_ones_index_leaves_those_of_others_alone(
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


def test_names_that_look_alike_are_different_libraries(database: str) -> None:
    with ExitStack() as opened:
        run = uuid.uuid4().hex[:8]
        users = {name: f"{run}{name}"[:500] for name in NAMES}
        stores = {name: PostgresStore(database, user) for name, user in users.items()}
        for store in stores.values():
            opened.callback(store.close)
        assert len({owner(store) for store in stores.values()}) == len(NAMES)
        for name, store in stores.items():
            assert store.size() == 0
            store.save([Document("test", "same", name, passages=(Passage("a", "user", "secret"),))])
        stores["BOB"].delete("same")
        for name, store in stores.items():
            assert [d.title for d in store.iter_documents(EVERYTHING)] == (
                [] if name == "BOB" else [name]
            )
            assert PostgresStore.exists(database, users[name])
        assert not PostgresStore.exists(database, f"{run}nobody")


@pytest.mark.parametrize("name", ["", "a\0b", "\ud800", "b" * 501])
def test_names_that_cannot_be_kept_apart_are_refused(database: str, name: str) -> None:
    with pytest.raises(InvalidInput):
        recollect.open(database, name)
