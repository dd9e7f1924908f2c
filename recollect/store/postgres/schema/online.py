"""Change the schema of a database that programs are using.

A statement that needs an exclusive lock waits for it briefly and is then retried, because everybody
else would wait behind it. Indexes are built concurrently. Rows are changed user by user.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import errors, sql
from psycopg.conninfo import make_conninfo

from recollect.store.postgres.schema.names import PARTITIONS, SCHEMA
from recollect.store.postgres.schema.versions import APPLICATION_NAME

MIGRATION_LOCK = 0x5265636F
LOCK_SECONDS = 2
"""How long others may wait behind a statement that waits for a lock."""
_ATTEMPTS = 60
_PAUSE_SECONDS = 0.5
_POLL_SECONDS = 0.1
_CREATE_INDEX = re.compile(
    r"create (?P<unique>unique )?index (?P<name>\w+)\s+on (?P<table>\w+)(?P<rest>.*)", re.DOTALL
)


@contextmanager
def migration_lock(connection: psycopg.Connection[Any]) -> Iterator[None]:
    """Keep other programs from migrating.

    A transaction of another connection holds the lock, because a concurrent index cannot be built
    in a transaction. It is polled: a statement that waited would hold a snapshot, for which the
    index of the program that has the lock would wait in turn.
    """
    info = connection.info
    url = make_conninfo(info.dsn, password=info.password or None, application_name=APPLICATION_NAME)
    with psycopg.connect(url) as holder:
        holder.execute("set local idle_in_transaction_session_timeout = 0")
        while not _try_lock(holder):
            time.sleep(_POLL_SECONDS)
        yield


def _try_lock(connection: psycopg.Connection[Any]) -> bool:
    # Without parameters it is sent as a simple query. The portal of a query with parameters would
    # keep its snapshot while the transaction is idle.
    row = connection.execute(
        f"select pg_try_advisory_xact_lock({MIGRATION_LOCK}, 0)", prepare=False
    ).fetchone()
    return bool(row and row[0])


def retry_until_unlocked(connection: psycopg.Connection[Any], work: Callable[[], None]) -> None:
    """Run `work` in a transaction. Try again if a table is locked by others."""
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            with connection.transaction():
                connection.execute(f"set local lock_timeout = '{LOCK_SECONDS}s'")
                work()
            return
        except (errors.LockNotAvailable, errors.DeadlockDetected):
            if attempt == _ATTEMPTS:
                raise
            time.sleep(_PAUSE_SECONDS)


def set_search_path(connection: psycopg.Connection[Any]) -> None:
    """Let the statements of this transaction name our tables and extensions without a schema."""
    extensions = {extension_schema(connection, name) for name in ("btree_gin", "vector")}
    schemas = [SCHEMA, *sorted(extensions - {""})]
    connection.execute(
        sql.SQL("set local search_path = {}").format(
            sql.SQL(", ").join(map(sql.Identifier, schemas))
        )
    )


def extension_schema(connection: psycopg.Connection[Any], name: str) -> str:
    """The schema of an extension, or empty if it is not installed."""
    row = connection.execute(
        """select n.nspname from pg_extension e join pg_namespace n on n.oid = e.extnamespace
        where e.extname = %s""",
        [name],
    ).fetchone()
    return row[0] if row else ""


# -- indexes -------------------------------------------------------------------


def create_index(connection: psycopg.Connection[Any], statement: str, on_cluster: bool) -> None:
    """Create an index while programs write to its table.

    PostgreSQL cannot do that for a table with partitions. So its index is created without content,
    and the index of each partition is built concurrently and attached to it. What an interrupted
    attempt left behind is used if it is complete.
    """
    match = _CREATE_INDEX.fullmatch(statement)
    if match is None:
        raise ValueError(f"not an index: {statement}")
    unique, name, table, rest = match.group("unique", "name", "table", "rest")
    create = f"create {unique or ''}index"
    if on_cluster:
        _build_index(connection, name, f"{create} concurrently {name} on {SCHEMA}.{table}{rest}")
        return
    retry_until_unlocked(
        connection,
        lambda: _run(connection, f"{create} if not exists {name} on only {SCHEMA}.{table}{rest}"),
    )
    for number in range(PARTITIONS):
        part = f"{name}_{number}"
        if _is_attached(connection, part):
            continue
        partition = f"{SCHEMA}.{table}_{number}"
        _build_index(connection, part, f"{create} concurrently {part} on {partition}{rest}")
        _attach(connection, name, part)


def drop_index(connection: psycopg.Connection[Any], statement: str) -> None:
    statement = statement.replace("drop index ", f"drop index if exists {SCHEMA}.", 1)
    retry_until_unlocked(connection, lambda: _run(connection, statement))


def _run(connection: psycopg.Connection[Any], statement: str) -> None:
    connection.execute(statement)


def _build_index(connection: psycopg.Connection[Any], name: str, statement: str) -> None:
    is_valid = _validity(connection, name)
    if is_valid:
        return
    if is_valid is False:
        _run(connection, f"drop index concurrently {SCHEMA}.{name}")
    _run(connection, statement)


def _validity(connection: psycopg.Connection[Any], name: str) -> bool | None:
    """Whether an index is complete. None if it does not exist."""
    row = connection.execute(
        "select indisvalid from pg_index where indexrelid = to_regclass(%s)", [f"{SCHEMA}.{name}"]
    ).fetchone()
    return None if row is None else bool(row[0])


def _is_attached(connection: psycopg.Connection[Any], name: str) -> bool:
    row = connection.execute(
        "select exists (select from pg_inherits where inhrelid = to_regclass(%s))",
        [f"{SCHEMA}.{name}"],
    ).fetchone()
    return bool(row and row[0])


def _attach(connection: psycopg.Connection[Any], name: str, part: str) -> None:
    statement = f"alter index {SCHEMA}.{name} attach partition {SCHEMA}.{part}"
    retry_until_unlocked(connection, lambda: _run(connection, statement))


# -- rows ----------------------------------------------------------------------


def change_rows(connection: psycopg.Connection[Any], statement: str) -> None:
    """Run a statement for each user until it changes nothing, each time in a transaction.

    It names the user as `{owner}` and should change a few thousand rows at most. Policies apply to
    the owner of the tables as well, so the transaction names the user, too.
    """
    for owner in range(1, _last_owner(connection) + 1):
        while _change_rows_of(connection, statement, owner):
            pass


def _change_rows_of(connection: psycopg.Connection[Any], statement: str, owner: int) -> int:
    with connection.transaction():
        set_search_path(connection)
        connection.execute(f"set local recollect.owner = '{owner:d}'")
        cursor = connection.execute(statement.replace("{owner}", str(owner)))
        return cursor.rowcount


def _last_owner(connection: psycopg.Connection[Any]) -> int:
    """The highest number of a user. The table `account` shows only the account of the user."""
    row = connection.execute(
        "select last_value from pg_sequences where schemaname = %s and sequencename = %s",
        [SCHEMA, "account_id_seq"],
    ).fetchone()
    return int(row[0]) if row and row[0] is not None else 0
