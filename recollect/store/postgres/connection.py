"""One user's transactions on a PostgreSQL server.

Every transaction begins by saying whose it is; row-level security lets it see
nothing else. Writes of one user take turns on the user's row of `last_key`, as
they do on the one writer of SQLite. When the server goes away, what was not
committed is done again on a new connection until the deadline. Every write
leaves a mark in that row: where the answer to COMMIT was lost, the mark tells
whether it was done, so that nothing is done twice and nothing acknowledged that
was not. (The number of a transaction does not tell: a server that crashed gives
out the numbers again that it lost.)
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache
from itertools import count
from typing import Any, TypeVar

import psycopg
from psycopg import errors

from recollect.errors import RecollectError, SearchTimeout, StoreUnavailable
from recollect.language.text import fold
from recollect.model.search import Filter
from recollect.settings import LIMITS
from recollect.store.postgres import bm25
from recollect.store.postgres.filters import conditions, document_conditions
from recollect.store.postgres.migrations import APP, is_prepared, works_as_app
from recollect.store.postgres.pool import Pool, Session, explained, explaining, place
from recollect.store.postgres.server import Server, reached

T = TypeVar("T")

_TRIES = (
    5  # times that work is begun whose connection then breaks: it may be what breaks the server
)
_MARKS = 64  # writes of a user that are remembered
_HUNG = 5.0  # seconds over the limit of a search after which the server, which should have stopped it, is given up


class Connection:
    """One user's transaction (see store.database for what the methods do)."""

    def __init__(self, connection: Session, owner: int, server: Server) -> None:
        self.owner = owner
        self.server = server
        self._connection = connection
        self._cursor = psycopg.RawCursor(connection)

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return self._execute(sql, values).fetchall()

    def get(self, sql: str, values: Sequence[Any] = ()) -> Any:
        row = self._execute(sql, values).fetchone()
        return None if row is None else row[0]

    def run(self, sql: str, values: Sequence[Any] = ()) -> None:
        self._execute(sql, values)

    def run_many(self, sql: str, values: Iterable[Sequence[Any]]) -> None:
        listed = list(values)
        if listed:
            self._cursor.executemany(numbered(sql), listed)

    def insert(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """One statement for any number of rows, a column as one array; without those that nobody has."""
        types = self.server.types[table]
        columns_ = {
            name: values
            for name, values in zip(columns, zip(*rows, strict=True), strict=True)
            if any(value is not None for value in values)
        }
        arrays = ", ".join(f"?::{types[name]}[]" for name in columns_)
        self._execute(
            f"insert into {table} ({', '.join(columns_)}) select * from unnest({arrays})",
            [list(values) for values in columns_.values()],
        )

    def in_list(self, values: Sequence[int] | Sequence[str]) -> tuple[str, Any]:
        kind = "text" if values and isinstance(values[0], str) else "bigint"
        return f"select unnest(?::{kind}[])", list(values)

    def mark_outdated(self, passages: Sequence[int]) -> None:
        keys = list(passages)
        self.run(
            """update passage_text t set created_at = p.created_at, role = p.role, author = p.author,
              hidden = p.visibility = 'hidden' from passage p
            where p.owner = ?::integer and p.key = any(?::bigint[]) and t.owner = ?::integer and t.key = p.key""",
            (self.owner, keys, self.owner),
        )
        if bm25.is_indexed(self):
            bm25.update(self, keys)
        self._drop_vectors(keys)
        self.run(
            """insert into unembedded (passage, space) select p.key, s.id from passage p, space s
            where p.owner = ?::integer and p.key = any(?::bigint[]) and s.owner = ?::integer and not s.gone""",
            (self.owner, keys, self.owner),
        )

    def delete_derived(self, passages: Sequence[int]) -> None:
        self._drop_vectors(list(passages))

    def _drop_vectors(self, keys: list[int]) -> None:
        for table in ("vector", "unembedded"):
            self.run(
                f"""delete from {table} v where v.owner = ?::integer and v.passage = any(?::bigint[])
                and v.space in (select s.id from space s where s.owner = ?::integer)""",
                (self.owner, keys, self.owner),
            )

    def derived_columns(self, row: Mapping[str, Any]) -> dict[str, Any]:
        from recollect.store.postgres.filters import derived

        return derived(row)

    def conditions(self, filter: Filter, search: str = "") -> tuple[str, list[Any]]:
        where, values = document_conditions(filter)
        if search:
            where += " and (strpos(d.folded_title, ?) > 0 or strpos(d.folded_id, ?) > 0)"
            values += [fold(search)] * 2
        if filter.of_passages:
            of_passage, more = conditions(filter, "p", "p.visibility = 'hidden'")
            where += (
                f" and exists (select 1 from passage p where p.document = d.key and {of_passage})"
            )
            values += more
        return where, values

    def _execute(self, sql: str, values: Sequence[Any]) -> psycopg.RawCursor[Any]:
        # A plan that is kept is one for any owner, and reads every partition's statistics. Statements that name the
        # owner are planned each time, for the one partition that they touch.
        prepare = False if "owner = ?" in sql else None
        return self._cursor.execute(numbered(sql), values, prepare=prepare, binary=True)

    def begin(self, start: str) -> list[tuple[Any, ...]]:
        """Statements without values, in one message to the server; gives the rows of the last."""
        self._cursor.execute(start)
        while self._cursor.nextset():
            pass
        return self._cursor.fetchall()

    @property
    def broken(self) -> bool:
        return self._connection.broken

    def commit(self, last: str = "") -> None:
        self._cursor.execute(f"{last}commit")
        while self._cursor.nextset():
            pass
        if (
            self._cursor.statusmessage != "COMMIT"
        ):  # an error inside was overlooked, and all of it is undone
            raise psycopg.InternalError("the transaction was rolled back")


@lru_cache(2_000)
def numbered(sql: str) -> str:
    """Values as PostgreSQL numbers them; a `?` is never anything else in our statements."""
    numbers = count(1)
    return "".join(f"${next(numbers)}" if c == "?" else c for c in sql)


def has_account(url: str, user: str) -> bool:
    """Whether a user has a library there; nothing is created."""
    with explaining(place(url)), reached(url, place(url)) as connection, connection.transaction():
        if not is_prepared(connection):
            return False
        if works_as_app(connection):
            connection.execute(f"set local role {APP}")
        connection.execute("select set_config('recollect.user', %s, true)", [user])
        row = connection.execute(
            "select id from recollect.account where name = %s", [user]
        ).fetchone()
        if row is None:
            return False
        connection.execute(
            "select set_config('recollect.owner', %s, true)", [str(row[0])]
        )  # an account is for ever
        return (
            connection.execute("select 1 from recollect.last_key where owner = %s", row).fetchone()
            is not None
        )


class Connections:
    """One user's way to the server."""

    def __init__(self, url: str, user: str) -> None:
        self._pool = Pool.take(url)
        self.user = user
        self.owner = 0
        self._closed = False
        try:
            self.owner = self._account()
        except BaseException:
            self.close()
            raise

    @property
    def server(self) -> Server:
        return self._pool.server

    @property
    def place(self) -> str:
        return self._pool.place

    def as_login(self) -> AbstractContextManager[psycopg.Connection[Any]]:
        """A connection of its own as whoever logs in, who may own the tables."""
        return reached(self._pool.url, self.place)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._pool.give_back()

    def _account(self) -> int:
        """The number of the user, given on first use."""
        find = "select id from account where name = ?"

        def attempt(db: Connection, _: object) -> int:
            db.run("select set_config('recollect.user', ?, true)", [self.user])
            if db.get(find, [self.user]) is None:
                db.run("insert into account (name) values (?) on conflict do nothing", [self.user])
            owner = int(db.get(find, [self.user]))
            db.run("select set_config('recollect.owner', ?, true)", [str(owner)])
            db.run("insert into last_key (owner) values (?) on conflict do nothing", [owner])
            db.commit()
            return owner

        return self._again_and_again(lambda: f"{_BEGIN}; select 1", attempt, _deadline())

    # -- writing ---

    def write(self, work: Callable[[Connection], T]) -> T:
        """Run `work` in a transaction and return its value once that is durable. It may be run
        again, so it must begin from what the database says."""
        deadline = _deadline()

        def attempt(db: Connection, began: list[tuple[Any, ...]]) -> T:
            if not began:
                raise RecollectError(f"The library of {self.user} is no longer in {self.place}.")
            ((marks,),) = began
            value = work(db)
            mark = secrets.randbits(62)
            try:
                db.commit(
                    f"update last_key set marks = array[{mark}] || marks[:{_MARKS - 1}] where owner = {self.owner}; "
                )
            except psycopg.Error as error:
                if db.broken:
                    raise _AnswerLost(mark, marks, value) from error
                raise
            return value

        while True:
            try:
                return self._again_and_again(lambda: self._turn(deadline), attempt, deadline)
            except _AnswerLost as lost:
                if self._was_committed(lost):
                    return lost.value  # type: ignore[no-any-return]
                if time.monotonic() >= deadline:
                    raise StoreUnavailable(
                        f"The PostgreSQL server {self.place} went away, and this was not saved. Try again."
                    ) from lost

    def _turn(self, deadline: float) -> str:
        """Begin when no other write of the user is under way, and say which were the last."""
        wait = max(1, round((deadline - time.monotonic()) * 1000))
        return (
            f"{_BEGIN}; {self._whose()}, set_config('lock_timeout', '{wait}', true); "
            f"select marks from last_key where owner = {self.owner} for update"
        )

    def _was_committed(self, lost: _AnswerLost) -> bool:
        """Whether a write was, whose end we did not see. It has the user's turn until it ends."""

        def attempt(db: Connection, began: list[tuple[Any, ...]]) -> bool:
            marks = (
                began[0][0] if began else [lost.mark]
            )  # the library was removed, by this or after it
            if lost.mark in marks:
                return True
            if len(marks) < _MARKS or lost.before[0] in marks:
                return False
            raise StoreUnavailable("Others have written too much since.")

        deadline = _deadline()
        try:
            return self._again_and_again(lambda: self._turn(deadline), attempt, deadline)
        except RecollectError as error:
            raise StoreUnavailable(
                f"The PostgreSQL server {self.place} went away while this was being saved, and it is not known "
                f"whether it was. ({error}) Look, or do it again: a message with the same id is stored once."
            ) from error

    # -- reading ---

    def read(self, work: Callable[[Connection], T], seconds: float | None = None) -> T:
        """Run `work` on a snapshot; with `seconds`, no statement of it may take longer."""
        timeout = 0 if seconds is None else max(1, round(seconds * 1000))
        start = (
            "begin isolation level repeatable read read only; "
            f"{self._whose()}, set_config('statement_timeout', '{timeout}', true)"
        )

        def attempt(db: Connection, _: object) -> T:
            try:
                value = work(db)
            except errors.QueryCanceled as error:
                if seconds is None:
                    raise
                raise SearchTimeout(
                    "The search took too long and was stopped. Use rarer words or a narrower filter."
                ) from error
            db.commit()
            return value

        return self._again_and_again(
            lambda: start, attempt, _deadline(), seconds and seconds + _HUNG
        )

    def _whose(self) -> str:
        return f"select set_config('recollect.owner', '{self.owner:d}', true)"

    def _again_and_again(
        self,
        start: Callable[[], str],
        attempt: Callable[[Connection, list[tuple[Any, ...]]], T],
        deadline: float,
        patience: float | None = None,
    ) -> T:
        """The value of an attempt, begun on another connection when one breaks."""
        if self._closed:
            raise RecollectError("This library is closed.")
        tries = 0
        while True:
            with self._pool.connection(deadline) as connection:
                connection.patience = patience
                db = Connection(connection, self.owner, self.server)
                try:
                    began = db.begin(start())
                    tries += 1
                    return attempt(db, began)
                except psycopg.Error as error:
                    if not db.broken or tries == _TRIES or time.monotonic() >= deadline:
                        raise explained(error, self.place) from error

    @contextmanager
    def alone(self) -> Iterator[bool]:
        """True while nobody else, in any process, has this lock of the user's."""
        if self._closed:
            raise RecollectError("This library is closed.")
        alone = self._pool.locks.take(self.owner)
        try:
            yield alone
        finally:
            if alone:
                self._pool.locks.let_go(self.owner)


# Whatever the database has as its default: with any other level, waiting for one's turn ends in an error.
_BEGIN = "begin isolation level read committed"


def _deadline() -> float:
    return time.monotonic() + LIMITS.write_wait_seconds


class _AnswerLost(Exception):
    """COMMIT was sent, and the connection broke before the answer came."""

    def __init__(self, mark: int, before: list[int], value: Any) -> None:
        super().__init__(mark)
        self.mark = mark
        self.before = before
        self.value = value
