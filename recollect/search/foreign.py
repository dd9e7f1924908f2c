"""Search in a ChatGPT Browser database in place, without importing it.

The file belongs to another program and may be malicious. It is opened read-only and nothing in it
is trusted: no views, no triggers, no functions of its schema, and there is a deadline.

Without an index, every message has to be examined: newest first, until there are enough matches.
"""

from __future__ import annotations

import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from recollect.errors import DamagedLibrary, SearchTimeout, StoreBusy, UnsafeFile
from recollect.importers.chats.chatgpt import decode_parts
from recollect.importers.databases import connect, why_unusual
from recollect.language.text import (
    comparable,
    fold,
    from_micros,
    has_all_words,
    micros,
    moment,
    tokens,
)
from recollect.settings import LIMITS

STEPS_BETWEEN_DEADLINE_CHECKS = 10_000
_MIN_TITLE_BYTES = 1_000_000
COLUMNS = {
    "messages": {"conversation_id", "role", "content", "create_time"},
    "conversations": {"id", "title"},
}


class Match(NamedTuple):
    """A message that matches, and its conversation."""

    created_at: datetime | None
    role: str | None
    title: str
    conversation_id: str
    content: str


class ForeignDatabase:
    """A ChatGPT Browser database: the one that the program uses, or a canonical export."""

    def __init__(self, path: Path) -> None:
        """Raises UnsafeFile if the path is not a regular file."""
        if not stat.S_ISREG(path.stat().st_mode):
            raise UnsafeFile(f"{path} is not a regular file. Give the path of a database file.")
        self._path = path

    def recent(
        self,
        query: str | None,
        *,
        roles: tuple[str, ...] = (),
        after: datetime | None = None,
        before: datetime | None = None,
        limit: int = 50,
    ) -> list[Match]:
        """The newest messages that match by their text or by the title of their conversation."""
        try:
            with connection(self._path) as db:
                columns = check_schema(db, self._path)
                return newest(db, columns, query, roles, after, before, limit)
        except apsw.InterruptError as error:
            seconds = f"{LIMITS.foreign_search_seconds:g}"
            raise SearchTimeout(
                f"The search in {self._path} took more than {seconds} s. Restrict it by date or "
                "role."
            ) from error
        except (apsw.BusyError, apsw.LockedError) as error:
            raise StoreBusy(f"Another program is writing to {self._path}. Try again.") from error
        except (apsw.NotADBError, apsw.CorruptError) as error:
            raise DamagedLibrary(f"{self._path} cannot be read as a SQLite database.") from error
        except apsw.CantOpenError as error:
            raise UnsafeFile(
                f"{self._path} cannot be opened. Check that you may read it and its folder."
            ) from error


# -- opening ---------------------------------------------------------------


@contextmanager
def connection(path: Path) -> Iterator[apsw.Connection]:
    """A read-only connection with one snapshot and the deadline."""
    db = connect(path)
    try:
        deadline = time.thread_time() + LIMITS.foreign_search_seconds
        db.set_progress_handler(
            lambda: time.thread_time() > deadline, STEPS_BETWEEN_DEADLINE_CHECKS
        )
        with db:
            yield db
    finally:
        db.close()


def check_schema(db: apsw.Connection, path: Path) -> set[str]:
    """Check that the tables have the expected columns; returns the columns of `messages`."""
    encoding = db.pragma("encoding")
    if encoding != "UTF-8":
        raise wrong_database(path, f"its text is {encoding}")
    reason = why_unusual(db, COLUMNS)
    if reason:
        raise wrong_database(path, reason)
    for table, expected in COLUMNS.items():
        columns = _columns(db, table)
        if columns is None:
            raise wrong_database(path, f"it has no table {table!r}")
        missing = sorted(expected - columns)
        if missing:
            raise wrong_database(path, f"{table!r} has no column {missing[0]!r}")
    return _columns(db, "messages") or set()


def wrong_database(path: Path, reason: str) -> UnsafeFile:
    return UnsafeFile(f"{path} is not a ChatGPT Browser database: {reason}.")


def _columns(db: apsw.Connection, table: str) -> set[str] | None:
    """The columns of a table; None if there is no such table."""
    kind = db.execute(
        "select type from pragma_table_list where schema = 'main' and name = ?", (table,)
    ).get
    if kind != "table":
        return None
    rows = db.execute("select name from pragma_table_info(?)", (table,))
    return {name for (name,) in rows}


# -- searching -------------------------------------------------------------

_EARLIEST = datetime.min.replace(tzinfo=UTC)
_LATEST = datetime.max.replace(tzinfo=UTC)


def newest(
    db: apsw.Connection,
    columns: set[str],
    query: str | None,
    roles: Sequence[str],
    after: datetime | None,
    before: datetime | None,
    limit: int,
) -> list[Match]:
    """The newest messages that contain the query; if there are none, those with all of its words.

    Messages match by their text or by the title of their conversation. `columns` are those of
    `messages`. Dates are inclusive; messages without a time are in no range.
    """
    db.create_scalar_function("instant", instant, 1, deterministic=True)
    titles = dict(read_titles(db))
    clauses = ["cast(conversation_id as text) in (select cast(id as text) from conversations)"]
    values: list[Any] = [*roles]
    if roles:
        clauses.append(f"role in ({', '.join('?' * len(roles))})")
    if after or before:
        clauses.append("instant(create_time) between ? and ?")
        values += [micros(after or _EARLIEST), micros(before or _LATEST)]
    rows = db.execute(
        f"""select rowid, instant(create_time) as at from messages
          where {" and ".join(clauses)}
          order by at desc nulls last,
            {"position" if "position" in columns else "rowid"} desc, rowid desc""",  # noqa: S608
        values,
    )
    text, words = fold(query or ""), set(tokens(query or ""))
    titled = {key for key, title in titles.items() if text in comparable(title)}
    titled_by_words = {key for key, title in titles.items() if has_all_words(title, words)}
    matches: list[Match] = []
    by_words: list[Match] = []
    deadline = time.thread_time() + LIMITS.foreign_search_seconds
    for row, at in rows:
        if time.thread_time() > deadline:  # SQLite notices only single statements that take long
            raise apsw.InterruptError
        match = read_message(db, row, from_micros(at), titles)
        if match.conversation_id in titled or text in comparable(match.content):
            matches.append(match)
            if len(matches) == limit:
                break
        elif len(by_words) < limit and (
            match.conversation_id in titled_by_words or has_all_words(match.content, words)
        ):
            by_words.append(match)
    return matches or by_words


def read_message(
    db: apsw.Connection, row: int, created_at: datetime | None, titles: Mapping[str, str]
) -> Match:
    sql = """select cast(conversation_id as text), cast(role as blob), cast(content as blob)
      from messages where rowid = ?"""
    ((conversation, raw_role, raw_content),) = db.execute(sql, (row,))
    return Match(
        created_at,
        None if raw_role is None else _text(raw_role),
        titles[conversation],
        conversation,
        decode_parts(_text(raw_content))[0],
    )


def read_titles(db: apsw.Connection) -> Iterator[tuple[str, str]]:
    """The ids and titles of the conversations. They cannot be larger than the file."""
    rest = max(2 * Path(db.filename).stat().st_size, _MIN_TITLE_BYTES)
    rows = db.execute("select cast(id as text), cast(title as blob) from conversations")
    for key, title in rows:
        rest -= len(key or "") + len(title or b"")
        if rest < 0:
            raise apsw.CorruptError("pages are used twice")
        yield key, _text(title)


def instant(*values: Any) -> int | None:
    return micros(moment(values[0]))


def _text(raw: bytes | None) -> str:
    return (raw or b"").decode("utf-8", "replace")
