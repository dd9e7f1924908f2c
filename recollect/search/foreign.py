"""Searching a ChatGPT Browser database in place, without importing it.

The file belongs to another program and may have been planted, so it is opened
read-only and believed in nothing: no views, no triggers, no functions of its
own schema, and a deadline on everything.

There is no index to ask, so every message is looked at once. A cheap look at
its stored form passes over most of them; what is left is sorted by time, and
then decoded and compared in full, the newest first, until enough is found.
"""

from __future__ import annotations

import json
import re
import stat
import time
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from recollect.errors import DamagedLibrary, SearchTimeout, StoreBusy, UnsafeFile
from recollect.importers.chats.chatgpt_browser import decode_content
from recollect.importers.databases import connect
from recollect.language.text import fold, from_micros, indexable, micros, moment
from recollect.settings import LIMITS

STEPS_BETWEEN_LOOKS_AT_THE_CLOCK = 10_000
COLUMNS = {
    "messages": {"conversation_id", "role", "content", "create_time"},
    "conversations": {"id", "title"},
}


class Match(NamedTuple):
    """A message that was found, and where."""

    created_at: datetime | None
    role: str | None
    title: str
    conversation_id: str
    content: str


class ForeignDatabase:
    """A ChatGPT Browser database: the working one or a canonical export."""

    def __init__(self, path: Path) -> None:
        """Raises UnsafeFile when this is not a regular file."""
        if not stat.S_ISREG(path.stat().st_mode):
            raise UnsafeFile(f"{path} is not a regular file. Name a database file.")
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
        """The newest messages that match, by their text or their conversation's title."""
        try:
            with _opened(self._path) as db:
                search = _Search(db, Needle(query) if query else None)
                return search.newest(_filter(roles, after, before), limit)
        except apsw.InterruptError as error:
            seconds = f"{LIMITS.foreign_search_seconds:g}"
            raise SearchTimeout(
                f"The search took more than {seconds} s. Narrow it by date or role."
            ) from error
        except (apsw.BusyError, apsw.LockedError) as error:
            raise StoreBusy("Another program is writing to the database. Try again.") from error
        except (apsw.NotADBError, apsw.CorruptError) as error:
            raise DamagedLibrary("The file cannot be read as a SQLite database.") from error


# -- opening ---------------------------------------------------------------


@contextmanager
def _opened(path: Path) -> Iterator[apsw.Connection]:
    """A connection that can do no harm, inside one snapshot and under the deadline."""
    db = connect(path)
    try:
        deadline = time.monotonic() + LIMITS.foreign_search_seconds
        db.set_progress_handler(
            lambda: time.monotonic() > deadline, STEPS_BETWEEN_LOOKS_AT_THE_CLOCK
        )
        with db:
            yield db
    finally:
        db.close()


def _check_schema(db: apsw.Connection) -> set[str]:
    """The columns of `messages`, once both tables are known to be what they should be."""
    if (encoding := db.pragma("encoding")) != "UTF-8":
        raise UnsafeFile(f"Not a ChatGPT Browser database: its text is {encoding}.")
    found: dict[str, set[str]] = {}
    for table, needed in COLUMNS.items():
        kind = db.execute(
            "select type from pragma_table_list where schema = 'main' and name = ?", (table,)
        ).get
        if kind != "table":
            raise UnsafeFile(f"Not a ChatGPT Browser database: it has no table {table!r}.")
        found[table] = {
            name for (name,) in db.execute("select name from pragma_table_info(?)", (table,))
        }
        if missing := sorted(needed - found[table]):
            raise UnsafeFile(
                f"Not a ChatGPT Browser database: {table!r} has no column {missing[0]!r}."
            )
    return found["messages"]


# -- searching -------------------------------------------------------------

Condition = tuple[str, list[Any]]
_EARLIEST = datetime.min.replace(tzinfo=UTC)
_LATEST = datetime.max.replace(tzinfo=UTC)


def _filter(roles: tuple[str, ...], after: datetime | None, before: datetime | None) -> Condition:
    """Roles and dates as SQL. Dates are inclusive; what has no time lies in no range."""
    clauses = ["cast(conversation_id as text) in (select cast(id as text) from conversations)"]
    values: list[Any] = [*roles]
    if roles:
        clauses.append(f"role in ({', '.join('?' * len(roles))})")
    if after or before:
        clauses.append("instant(create_time) between ? and ?")
        values += [micros(after or _EARLIEST), micros(before or _LATEST)]
    return " and ".join(clauses), values


class _Search:
    """One search inside one snapshot."""

    def __init__(self, db: apsw.Connection, needle: Needle | None) -> None:
        self._db = db
        self._needle = needle
        self._position = "position" if "position" in _check_schema(db) else "rowid"
        titles = db.execute("select cast(id as text), cast(title as blob) from conversations")
        self._titles = {key: _text(title) for key, title in titles}
        self._title_hits = {
            key for key, title in self._titles.items() if needle and needle.is_in(title)
        }
        db.create_scalar_function("instant", _instant, 1, deterministic=True)
        db.create_scalar_function("may_hold", self._may_hold, 1, deterministic=True)

    def newest(self, filter: Condition, limit: int) -> list[Match]:
        (filtered, first), (promising, second) = filter, self._promising()
        rows = self._db.execute(
            f"""select rowid, instant(create_time) as at from messages where {filtered} and {promising}
              order by at desc nulls last, {self._position} desc, rowid desc limit ?""",  # noqa: S608
            (*first, *second, -1 if self._needle else limit),
        )
        matches = (match for row, at in rows if (match := self._match(row, at)))
        return list(islice(matches, limit))

    def _promising(self) -> Condition:
        """SQL that is true of every message which matches, and of few others."""
        if self._needle is None:
            return "true", []
        patterns = self._needle.escaped_patterns()
        escaped = " and ".join(["content like ?"] * len(patterns)) or "true"
        return (
            f"""(cast(conversation_id as text) in (select value from json_each(?))
              or ({escaped} or octet_length(content) <> length(content)) and may_hold(cast(content as blob)))""",  # noqa: S608
            [json.dumps(list(self._title_hits)), *patterns],
        )

    def _may_hold(self, *values: Any) -> bool:
        (raw,) = values
        if raw is None or self._needle is None:
            return False
        if raw.isascii() and self._needle.is_ascii:
            return self._needle.may_be_in(raw)
        return self._needle.is_in(_decoded(raw))

    def _match(self, row: int, at: int | None) -> Match | None:
        sql = """select cast(conversation_id as text), cast(role as blob), cast(content as blob)
          from messages where rowid = ?"""
        ((conversation, role, raw),) = self._db.execute(sql, (row,))
        content = _decoded(raw)
        if (
            self._needle
            and conversation not in self._title_hits
            and not self._needle.is_in(content)
        ):
            return None
        return Match(
            created_at=from_micros(at),
            role=None if role is None else _text(role),
            title=self._titles[conversation],
            conversation_id=conversation,
            content=content,
        )


def _instant(*values: Any) -> int | None:
    return micros(moment(values[0]))


def _decoded(raw: bytes | None) -> str:
    return decode_content(_text(raw))


def _text(raw: bytes | None) -> str:
    return "" if raw is None else raw.decode("utf-8", "replace")


# -- comparing -------------------------------------------------------------

# Characters beyond ASCII that are folded to ASCII letters (ß to ss, the Kelvin sign to k, ligatures …), as JSON
# escapes them; some stand for all that begin like them.
ESCAPES_FOLDED_TO_ASCII = tuple(
    rb"\u" + code for code in (b"00df", b"0130", b"0149", b"017f", b"01f0", b"1e9", b"212a", b"fb0")
)


class Needle:
    """What is looked for in many texts: a query literally, or all its words."""

    def __init__(self, query: str) -> None:
        self._whole = fold(query)
        self._words = re.findall(r"\w+", self._whole)
        self._spaced = {word for word in self._words if indexable(word) == word}
        self._runs = [run.encode() for run in re.findall("[a-z0-9]+", self._whole)]
        self.is_ascii = all(word.isascii() for word in self._words or [self._whole])

    def is_in(self, text: str) -> bool:
        folded = fold(text)
        if self._whole in folded:
            return True
        return bool(self._words) and all(self._has(folded, word) for word in self._words)

    def _has(self, folded: str, word: str) -> bool:
        return _stands_alone(word, folded) if word in self._spaced else word in folded

    def may_be_in(self, raw: bytes) -> bool:
        """A look at a stored form that is ASCII: false only where `is_in` is false of its text."""
        holds = raw.lower().__contains__
        return all(map(holds, self._runs)) or (
            holds(rb"\u") and any(map(holds, ESCAPES_FOLDED_TO_ASCII))
        )

    def escaped_patterns(self) -> list[str]:
        """LIKE patterns: a text with the words matches all of these in the JSON form that
        escapes everything but ASCII."""
        patterns = (_pattern(word) for word in self._words or [self._whole])
        return [pattern for pattern in patterns if pattern.strip("%_")]


def _stands_alone(word: str, text: str) -> bool:
    at = text.find(word)
    while at >= 0:
        after = at + len(word)
        if not _continues(text[at - 1 : at]) and not _continues(text[after : after + 1]):
            return True
        at = text.find(word, at + 1)
    return False


def _continues(character: str) -> bool:
    return character.isalnum() or character == "_"


def _pattern(word: str) -> str:
    """LIKE looks for what comes first, and backslashes are everywhere: begin with the first one's last digit."""
    first, *others = map(_escaped, word)
    return "%" + "".join([first[-1], *others] if others else first) + "%"


def _escaped(character: str) -> str:
    """A folded character as JSON writes it: `_` where its spellings differ, `%` where it may be anything."""
    if character.isascii() and not character.isalnum():  # JSON may escape it, plain text does not
        return "%"
    forms = {
        json.dumps(spelling)[1:-1] for spelling in (character, *_spellings().get(character, ()))
    }
    if (
        len({len(form) for form in forms}) > 1
        or unicodedata.normalize("NFD", character) != character
    ):
        return "%"
    return "".join(
        column[0] if len(set(column)) == 1 else "_" for column in zip(*forms, strict=True)
    )


@cache
def _spellings() -> dict[str, set[str]]:
    """What else beyond ASCII is folded to a character; "" where it is folded to more than this one."""
    found: dict[str, set[str]] = {}
    for code in range(0x80, 0x30000):
        folded = fold(chr(code))
        if folded != chr(code):
            for character in folded:
                found.setdefault(character, set()).add(chr(code) if len(folded) == 1 else "")
    return found
