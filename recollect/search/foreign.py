"""Search in a ChatGPT Browser database in place, without importing it.

The file belongs to another program and may be malicious. It is opened read-only and nothing in it
is trusted: no views, no triggers, no functions of its schema, and there is a deadline.

Without an index, every message has to be examined. A cheap check of its stored form skips most of
them. The rest is sorted by time and compared, newest first, until there are enough matches.
"""

from __future__ import annotations

import json
import re
import stat
import time
from collections.abc import Iterator, Sequence
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
                return _Search(db, query, columns).newest(roles, after, before, limit)
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


class _Search:
    """One search in one snapshot."""

    def __init__(self, db: apsw.Connection, query: str | None, columns: set[str]) -> None:
        """`columns` are those of `messages`."""
        self._db = db
        self._needle = Needle(query) if query else None
        self._order_column = "position" if "position" in columns else "rowid"
        self._titles = dict(read_titles(db))
        self._titled: set[str] = set()
        """The conversations whose title contains the query."""
        self._titled_by_words: set[str] = set()
        """Those whose title has all of its words."""
        for key, title in self._titles.items():
            if self._needle and self._needle.is_in(title):
                self._titled.add(key)
            elif self._needle and self._needle.has_words_in(title):
                self._titled_by_words.add(key)
        db.create_scalar_function("instant", instant, 1, deterministic=True)
        db.create_scalar_function("may_match", self._may_match, 1, deterministic=True)

    def newest(
        self,
        roles: Sequence[str],
        after: datetime | None,
        before: datetime | None,
        limit: int,
    ) -> list[Match]:
        """The newest matches. Dates are inclusive; messages without a time are in no range."""
        clauses = ["cast(conversation_id as text) in (select cast(id as text) from conversations)"]
        values: list[Any] = [*roles]
        if roles:
            clauses.append(f"role in ({', '.join('?' * len(roles))})")
        if after or before:
            clauses.append("instant(create_time) between ? and ?")
            values += [micros(after or _EARLIEST), micros(before or _LATEST)]
        if self._needle:
            clauses.append(
                """(cast(conversation_id as text) in (select value from json_each(?))
                  or may_match(cast(content as blob)))"""
            )
            values.append(json.dumps([*self._titled, *self._titled_by_words]))
        rows = self._db.execute(
            f"""select rowid, instant(create_time) as at from messages
              where {" and ".join(clauses)}
              order by at desc nulls last, {self._order_column} desc, rowid desc
              limit ?""",  # noqa: S608
            (*values, -1 if self._needle else limit),  # not every row matches
        )
        messages = (self._read(row, at) for row, at in rows)
        needle = self._needle
        if needle is None:
            return list(messages)
        matches: list[Match] = []
        by_words: list[Match] = []
        for message in messages:
            conversation = message.conversation_id
            if conversation in self._titled or needle.is_in(message.content):
                matches.append(message)
                if len(matches) == limit:
                    break
            elif len(by_words) < limit and (
                conversation in self._titled_by_words or needle.has_words_in(message.content)
            ):
                by_words.append(message)
        return matches or by_words

    def _may_match(self, *values: Any) -> bool:
        (raw,) = values
        return raw is not None and self._needle is not None and self._needle.may_be_in(raw)

    def _read(self, row: int, at: int | None) -> Match:
        sql = """select cast(conversation_id as text), cast(role as blob), cast(content as blob)
          from messages where rowid = ?"""
        ((conversation, raw_role, raw_content),) = self._db.execute(sql, (row,))
        return Match(
            created_at=from_micros(at),
            role=None if raw_role is None else _text(raw_role),
            title=self._titles[conversation],
            conversation_id=conversation,
            content=decode(raw_content),
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


def decode(raw: bytes | None) -> str:
    return decode_parts(_text(raw))[0]


def _text(raw: bytes | None) -> str:
    return (raw or b"").decode("utf-8", "replace")


# -- comparing -------------------------------------------------------------

# Characters that are folded to ASCII letters (ß to ss, the Kelvin sign to k, ligatures and so on),
# as JSON escapes them. Short escapes stand for all that begin with them.
ESCAPES_FOLDED_TO_ASCII = tuple(
    rb"\u" + code for code in (b"00df", b"0130", b"0149", b"017f", b"01f0", b"1e9", b"212a", b"fb0")
)


class Needle:
    """A query to be found in many texts: literally, or all of its words."""

    def __init__(self, query: str) -> None:
        self._query = fold(query)
        self._tokens = set(tokens(query))
        runs = re.findall("[a-z0-9]+", self._query)
        self._ascii_runs = [run.encode() for run in runs]
        self._is_ascii = self._query.isascii()

    def is_in(self, text: str) -> bool:
        return self._query in comparable(text)

    def has_words_in(self, text: str) -> bool:
        return has_all_words(text, self._tokens)

    def may_be_in(self, raw: bytes) -> bool:
        """Whether a stored text may match. A quick check leaves out most that do not."""
        if raw.isascii() and self._is_ascii:
            lower = raw.lower()
            if all(run in lower for run in self._ascii_runs):
                return True
            if rb"\u" not in lower or not any(e in lower for e in ESCAPES_FOLDED_TO_ASCII):
                return False
        text = decode(raw)
        return self.is_in(text) or self.has_words_in(text)
