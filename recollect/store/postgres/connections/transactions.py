"""One user's transactions on a PostgreSQL server.

The writes of a user run one after another, because each of them locks the user's row of `last_key`.
Each commit stores a random token in `last_key.marks`. If the reply to COMMIT is lost, we look the
token up, so a write is never repeated and never confirmed without being stored. (Transaction ids
cannot be used for this: after a crash, the server assigns lost ids again.)
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, TypeVar

import psycopg
from psycopg import errors

from recollect.errors import (
    LibraryMoved,
    NotFound,
    ReadOnlyLibrary,
    RecollectError,
    StoreUnavailable,
)
from recollect.store.postgres.connections.capabilities import connect_as_login
from recollect.store.postgres.connections.connection import (
    MARKS,
    Connection,
    set_owner,
)
from recollect.store.postgres.connections.read_transactions import (
    ReadTransactions,
    Rows,
    new_deadline,
)
from recollect.store.postgres.connections.server_errors import is_worker_lost
from recollect.store.postgres.functions import TOKENS
from recollect.store.sql.copying.closing import closed_error, parse_closure

T = TypeVar("T")

# The level is set explicitly: at a stricter one, a write that waited for the lock would fail.
_BEGIN = "begin isolation level read committed"
_LOCK = "select marks, closed from last_key"
_AUDIT_LOCK = 0x52656175


class Transactions(ReadTransactions):
    def __init__(self, url: str, user: str, read_only: bool = False) -> None:
        super().__init__(url)
        self.user = user
        self.read_only = read_only
        self.is_mover = False
        """Whether this may write to a library that is closed."""
        self.last_token = 0
        """The token of the last commit of this object."""
        try:
            self.owner = self._find_account() if read_only else self._get_or_create_account()
        except BaseException:  # nobody else would close the pool
            self.close()
            raise

    def connect_as_login(self) -> AbstractContextManager[psycopg.Connection[Any]]:
        """A separate connection with the role that logs in, which may own the tables."""
        return connect_as_login(self._pool.url, self.location)

    def _find_account(self) -> int:
        def attempt(db: Connection, _: Rows) -> int:
            db.run("select set_config('recollect.user', ?, true)", [self.user])
            owner: int | None = db.get("select id from account where name = ?", [self.user])
            db.commit()
            if owner is None:
                raise NotFound(f"There is no library of {self.user!r} at {self.location}.")
            return owner

        return self._retry(lambda: ["begin read only", "select 1"], attempt, new_deadline())

    def _get_or_create_account(self) -> int:
        """The number of the user, assigned on first use."""
        select_id = "select id from account where name = ?"

        def attempt(db: Connection, _: Rows) -> int:
            db.run("select set_config('recollect.user', ?, true)", [self.user])
            if db.get(select_id, [self.user]) is None:
                db.run("insert into account (name) values (?) on conflict do nothing", [self.user])
            owner = int(db.get(select_id, [self.user]))
            db.run(set_owner(owner))
            db.run("insert into last_key (owner) values (?) on conflict do nothing", [owner])
            db.commit()
            return owner

        return self._retry(lambda: [_BEGIN, "select 1"], attempt, new_deadline())

    # -- writing ---

    def write(
        self,
        work: Callable[[Connection], T],
        *,
        lock_query: str = "",
        last_row: Sequence[Any] | None = None,
    ) -> T:
        """Run `work` in a transaction, and return its value when it is stored durably.

        `work` may run more than once, so it must not rely on anything it did before. `lock_query`
        locks the library and returns a row with the columns of `_LOCK` and others, which is then
        `Connection.locked_row`. With it, statements may have generic plans (see `Connection.rows`).

        `last_row` is what `lock_query` returns if nobody has written since this process did. Then
        the library is not locked first. Instead, `work` locks it with a statement that raises
        SerializationFailure if somebody has.
        """
        if self.read_only:
            raise ReadOnlyLibrary(
                "This library is read-only (the setting `read_only` is on), so nothing was "
                "written. Searching and reading work."
            )
        deadline = new_deadline()
        if last_row is not None:
            with suppress(_LibraryChanged):
                return self._write(work, deadline, lock_query, last_row)
        return self._write(work, deadline, lock_query)

    def _write(
        self,
        work: Callable[[Connection], T],
        deadline: float,
        lock_query: str,
        last_row: Sequence[Any] | None = None,
    ) -> T:
        def begin_sql() -> list[str]:
            statements = self._begin_write_sql(deadline, lock_query)
            return statements if last_row is None else statements[:-1]

        def attempt(db: Connection, rows: Rows) -> T:
            if last_row is None:
                return self._work_and_commit(work, db, rows)
            try:
                return self._work_and_commit(work, db, [tuple(last_row)])
            except (errors.UniqueViolation, errors.SerializationFailure) as error:
                raise _LibraryChanged from error

        while True:
            try:
                return self._retry(begin_sql, attempt, deadline)
            except _ReplyLost as lost:
                if self._was_committed(lost):
                    return lost.value  # type: ignore[no-any-return]
                if time.monotonic() >= deadline:
                    raise StoreUnavailable(
                        f"The connection to the PostgreSQL server {self.location} was lost, and "
                        "nothing was saved. Try again."
                    ) from lost

    def _work_and_commit(self, work: Callable[[Connection], T], db: Connection, rows: Rows) -> T:
        tokens = self._require_writable(rows)
        (db.locked_row,) = rows
        token = db.token = secrets.randbits(62)
        value = work(db)
        last_statement = ""
        if not db.is_token_stored:
            last_statement = f"update last_key set {MARKS} where owner = {self.owner}; "
        try:
            db.commit(last_statement.replace("?", str(token)))
        except psycopg.Error as error:
            if db.is_broken or is_worker_lost(error):
                raise _ReplyLost(token, tokens, value) from error
            raise
        self.last_token = token
        self._pool.changes.announce(self.user)
        return value

    def _require_writable(self, rows: Rows) -> list[int]:
        """The commit tokens, unless the library is closed or gone."""
        if not rows:
            raise LibraryMoved(
                f"The library of {self.user} in {self.location} has been removed. If it was moved, "
                "use it at its new place."
            )
        ((tokens, closed, *_),) = rows
        reason = parse_closure(closed)
        if reason is not None and not self.is_mover:
            raise closed_error(f"{self.location}, user {self.user}", reason)
        return list(tokens)

    def append(self, work: Callable[[Connection], None], durable: bool) -> None:
        """Run `work`, which adds to the audit log. It does not count as a change of the library.

        If the connection breaks at the wrong moment, the records are added twice. Without
        `durable`, the server may lose them in a crash.
        """
        begin = [
            _BEGIN,
            set_owner(self.owner),
            f"set local synchronous_commit = {'on' if durable else 'off'}",
            f"select pg_advisory_xact_lock({_AUDIT_LOCK}, {self.owner:d})",
        ]

        def attempt(db: Connection, _: Rows) -> None:
            work(db)
            db.commit()

        self._retry(lambda: begin, attempt, new_deadline())

    def _begin_write_sql(self, deadline: float, lock_query: str = "") -> list[str]:
        """Begin when no other write of the user is in progress, and read the commit tokens."""
        timeout = max(1, round((deadline - time.monotonic()) * 1000))
        return [
            _BEGIN,
            set_owner(self.owner),
            f"set local lock_timeout = {timeout}",
            *self._plan_settings(generic_plans=bool(lock_query)),
            lock_query or f"{_LOCK} where owner = {self.owner} for update",
        ]

    def _was_committed(self, lost: _ReplyLost) -> bool:
        """Look up the token of a write. If the write is still running, it holds the user's lock."""

        def attempt(db: Connection, rows: Rows) -> bool:
            if not rows:
                # The library has been removed, by this write or after it.
                return True
            ((tokens, _),) = rows
            if lost.token in tokens:
                return True
            if len(tokens) < TOKENS or lost.earlier_tokens[0] in tokens:
                return False
            raise StoreUnavailable("Too many other writes have been committed since.")

        deadline = new_deadline()
        try:
            return self._retry(lambda: self._begin_write_sql(deadline), attempt, deadline)
        except RecollectError as error:
            raise StoreUnavailable(
                f"The connection to the PostgreSQL server {self.location} was lost while saving, "
                f"and it is not known whether this was saved. ({error}) Check, or try again: "
                "a message with the same id is stored once."
            ) from error

    @contextmanager
    def indexing_lock(self) -> Iterator[bool]:
        """See Store.indexing_lock."""
        if self._is_closed:
            raise RecollectError("This library is closed.")
        is_locked = self._pool.locks.acquire(self.owner)
        try:
            yield is_locked
        finally:
            if is_locked:
                self._pool.locks.release(self.owner)


class _LibraryChanged(Exception):
    """Somebody has written to the library since."""


class _ReplyLost(Exception):
    """COMMIT was sent, and the connection broke before the reply arrived."""

    def __init__(self, token: int, earlier_tokens: list[int], value: Any) -> None:
        super().__init__(token)
        self.token = token
        self.earlier_tokens = earlier_tokens
        self.value = value
