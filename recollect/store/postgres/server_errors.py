"""Turn PostgreSQL errors into Recollect's errors, without showing passwords."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict

from recollect.errors import (
    DamagedLibrary,
    ReadOnlyLibrary,
    RecollectError,
    StorageFull,
    StoreBusy,
    StoreUnavailable,
)
from recollect.settings import LIMITS

# SQLSTATEs: connection exceptions, and a server that shuts down, crashed or is starting.
_CONNECTION_LOST = ("08", "57P")
# 40001: the shard for an owner does not exist any more, or was moved during a transaction.
_WORKER_LOST = (*_CONNECTION_LOST, "40001")
# Errors without a code of their own: a worker that is lost during COMMIT, and a function that was
# passed on to a worker which does not have the shard any more.
_WORKER_LOST_MESSAGES = (
    "could not commit transaction",
    "cannot execute a distributed query from a query on a shard",
)


def location_of(url: str) -> str:
    """The server and database of a URL, without the user and password."""
    try:
        parts = conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        # The original error repeats the password, so it is suppressed.
        raise RecollectError(
            "The address is not valid. Write it as postgresql://user:password@host:5432/database."
        ) from None
    host = str(parts.get("host") or "localhost")
    port = f":{parts['port']}" if parts.get("port") else ""
    return f"{host}{port}/{parts.get('dbname') or parts.get('user') or ''}"


@contextmanager
def explain_errors(location: str) -> Iterator[None]:
    """Raise PostgreSQL errors as Recollect's errors."""
    try:
        yield
    except psycopg.Error as error:
        raise explain_error(error, location) from error


def explain_error(error: psycopg.Error, location: str) -> RecollectError:
    message = first_line(error)
    match error:
        case errors.LockNotAvailable() | errors.DeadlockDetected() | errors.SerializationFailure():
            return StoreBusy(
                f"Another program has been writing to this library at {location} for more than "
                f"{LIMITS.write_wait_seconds:g} seconds. Try again when it has finished."
            )
        case errors.QueryCanceled():
            return StoreBusy(
                f"The server {location} canceled this operation ({message}). Nothing was changed. "
                "Try again."
            )
        case errors.DiskFull():
            return StorageFull(
                "The disk of the PostgreSQL server is full, so nothing was written. "
                "Free some space there and try again."
            )
        case errors.ReadOnlySqlTransaction():
            return ReadOnlyLibrary(
                f"This library is read-only ({message}), so nothing was written. "
                "Searching and reading work."
            )
        case errors.DataCorrupted() | errors.IndexCorrupted():
            return DamagedLibrary(
                f"The server {location} reports damaged data ({message}). Restore a backup."
            )
        case errors.InsufficientPrivilege():
            return RecollectError(
                f"The role that opened {location} is not allowed to do this ({message}). "
                "See docs/postgres.md."
            )
    if is_connection_lost(error):
        return StoreUnavailable(
            f"The connection to the PostgreSQL server {location} was lost ({message}). "
            "Try again; what was saved stays saved."
        )
    return RecollectError(f"The database {location} reported an error: {message}")


def first_line(error: psycopg.Error) -> str:
    """The message of an error, without its details."""
    if error.diag.message_primary:
        return error.diag.message_primary
    lines = str(error).splitlines()
    if lines:
        return lines[0]
    return type(error).__name__


def is_worker_lost(error: psycopg.Error) -> bool:
    """Whether the coordinator of a cluster asks to try again.

    It lost the connection to a worker, or the rows of the user were just moved to another shard or
    worker. The connection to the coordinator still works.
    """
    if error.sqlstate is None:
        return False
    message = error.diag.message_primary or ""
    has_message = any(text in message for text in _WORKER_LOST_MESSAGES)
    return has_message or error.sqlstate.startswith(_WORKER_LOST)


def is_connection_lost(error: psycopg.Error) -> bool:
    if not isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return False
    # An error that the client raised has no state.
    return error.sqlstate is None or error.sqlstate.startswith(_CONNECTION_LOST)
