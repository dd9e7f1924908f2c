"""The databases of the program ChatGPT Browser: its working one, and its canonical export.

Both hold `conversations` and `messages`; the working one has `parent_id` and
`message_metadata`, the canonical one has a `position` counted from 0 or 1. Their
`content` is the JSON list of a message's parts, or plain text; code, tool output
and reasoning were never stored. They are lossy copies of a ChatGPT export, so
documents are `partial`: they add what is missing and replace nothing. The file
belongs to others: it is opened read-only, and nothing in its schema is trusted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import datetime
from itertools import groupby
from operator import itemgetter
from typing import Any

import apsw

from recollect.importers.chats.chatgpt import SOURCE, join_parts
from recollect.importers.databases import connect
from recollect.importers.entries import Entry
from recollect.importers.jsonstream import UNREADABLE, decode
from recollect.importers.records import (
    EMPTY_CONVERSATION,
    EMPTY_MESSAGE,
    REPEATED_MESSAGE,
    UNEXPECTED,
    UNKNOWN_CONVERSATION,
    as_list,
    is_blank,
    nearest_included,
    string_or_none,
)
from recollect.language.text import EPOCH, moment, truncate
from recollect.model.documents import Document, Passage
from recollect.model.receipts import Problem

__all__ = ["DESCRIPTION", "SOURCE", "claims", "decode_content", "decode_time", "read"]

DESCRIPTION = "ChatGPT Browser database (working or canonical)"

_SUFFIXES = (".db", ".sqlite", ".sqlite3")
_NEEDED = frozenset({"id", "conversation_id", "role", "content", "create_time"})
_PLACES = frozenset({"position", "parent_id"})
_MESSAGE_FIELDS = (*sorted(_NEEDED), "update_time", *sorted(_PLACES))
_CITATION_FIELDS = ("citations", "content_references")
_METADATA_FIELDS = (
    "message_type",
    "finish_details",
    "is_complete",
    "request_id",
    "timestamp_",
    "message_source",
    "serialization_metadata",
)
_PART_KEYS = frozenset({"content_type", "asset_pointer", "type", "text"})

# A virtual table has no pages of its own.
_REAL_TABLE = (
    "select 1 from sqlite_schema where type = 'table' and rootpage > 0 and name = ? collate nocase"
)
_EMPTY_CONVERSATIONS = """
    select count(*) from conversations
    where id not in (select conversation_id from messages where conversation_id is not null)
"""

decode_time = moment


def decode_content(raw: object) -> str:
    """The words in a `content` column: a JSON list of parts joined by line, anything else as it is."""
    return _decode(raw)[0]


def _decode(raw: object) -> tuple[str, list[Any]]:
    if not isinstance(raw, str):
        return "" if raw is None else str(raw), []
    if not raw.lstrip().startswith("["):
        return raw, []
    try:
        parts = decode(raw)
    except ValueError:
        return raw, []
    return join_parts(parts) if all(map(_is_part, parts)) else (raw, [])


def _is_part(value: Any) -> bool:
    """Whether ChatGPT could have written it, so that plain text that happens to be a list stays itself."""
    return (
        value is None
        or isinstance(value, str)
        or (isinstance(value, dict) and not _PART_KEYS.isdisjoint(value))
    )


# -- the file --------------------------------------------------------------


def claims(entry: Entry) -> bool:
    if not entry.basename.lower().endswith(_SUFFIXES):
        return False
    if entry.path is None:
        return _looks_like_one(entry)
    try:
        with closing(connect(entry.path)) as database:
            messages = _columns(database, "messages")
            placed = not messages.isdisjoint(_PLACES)
            return (
                placed
                and messages >= _NEEDED
                and _columns(database, "conversations") >= {"id", "title"}
            )
    except apsw.Error:
        return False


def read(entry: Entry) -> Iterator[Document | Problem]:
    if entry.path is None:
        yield _lost("database inside an archive; unpack it and import the database", entry.name)
        return
    try:
        with closing(connect(entry.path)) as database:
            yield from _empty_conversations(database, entry.name)
            about = _about(database)
            for conversation_id, group in groupby(_rows(database), itemgetter("conversation_id")):
                rows = list(group)
                try:
                    yield from _conversation(conversation_id, rows, about(conversation_id))
                except UNEXPECTED:
                    yield _lost(UNKNOWN_CONVERSATION, str(conversation_id))
    except (apsw.Error, UnicodeDecodeError) as error:
        yield _lost("database cannot be read to its end", f"{entry.name}: {error}")


def _lost(reason: str, where: str) -> Problem:
    return Problem(reason, where, failed=True, unit="conversations")


def _looks_like_one(entry: Entry) -> bool:
    try:
        head = entry.head()
    except UNREADABLE:
        return False
    return (
        head.startswith(b"SQLite format 3\0") and b"conversation_id" in head and b"messages" in head
    )


def _columns(database: apsw.Connection, table: str) -> frozenset[str]:
    """The columns of a table; none for a view or a virtual table of that name."""
    if not database.execute(_REAL_TABLE, (table,)).fetchall():
        return frozenset()
    columns = database.execute("select name from pragma_table_info(?)", (table,))
    return frozenset(str(name).lower() for (name,) in columns)


def _empty_conversations(database: apsw.Connection, where: str) -> Iterator[Problem]:
    ((count,),) = database.execute(_EMPTY_CONVERSATIONS).fetchall()
    if isinstance(count, int) and count:
        yield Problem(EMPTY_CONVERSATION, where, unit="conversations", count=count)


def _about(database: apsw.Connection) -> Callable[[Any], dict[str, Any]]:
    """Looks up the fields of a conversation."""
    there = _columns(database, "conversations")
    names = [name for name in ("title", "create_time", "update_time") if name in there]
    statement = f"select {', '.join(names)} from conversations where id = ?"  # noqa: S608 - names of this module

    def look_up(conversation_id: Any) -> dict[str, Any]:
        row = database.execute(statement, (conversation_id,)).fetchone()
        return dict(zip(names, row, strict=True)) if row else {}

    return look_up


def _rows(database: apsw.Connection) -> Iterator[dict[str, Any]]:
    """Every message, one conversation after the other."""
    messages = _columns(database, "messages")
    about = _columns(database, "message_metadata")
    names = [n for n in _MESSAGE_FIELDS if n in messages]
    columns = ["cast(m.content as blob)" if n == "content" else f"m.{n}" for n in names]
    more = [
        n
        for n in ("model_slug", *_CITATION_FIELDS, *_METADATA_FIELDS)
        if n in about and "message_id" in about
    ]
    names += more
    columns += [f"x.{n}" for n in more]
    join = "left join message_metadata x on x.message_id = m.id" if more else ""
    order = "m.conversation_id, m.position" if "position" in messages else "m.conversation_id"
    statement = f"select {', '.join(columns)} from messages m {join} order by {order}"  # noqa: S608 - as above
    encoding = str(database.pragma("encoding"))
    for row in database.execute(statement):
        fields = dict(zip(names, row, strict=True))
        if isinstance(
            fields["content"], bytes
        ):  # read as bytes: text that is not UTF-8 would end the query
            fields["content"] = fields["content"].decode(encoding, "replace")
        yield fields


# -- conversations ---------------------------------------------------------


def _conversation(
    conversation_id: Any, rows: list[dict[str, Any]], about: dict[str, Any]
) -> Iterator[Document | Problem]:
    title = str(about.get("title") or "")
    where = truncate(title, 80) or str(conversation_id)
    if conversation_id is None:
        yield Problem("message without a conversation", where, failed=True, count=len(rows))
        return
    passages, left_out = _passages(str(conversation_id), rows)
    for reason, count in left_out.items():
        yield Problem(reason, where, count=count)
    if not passages:
        yield Problem(EMPTY_CONVERSATION, where, unit="conversations")
        return
    yield Document(
        source=SOURCE.name,
        source_id=str(conversation_id),
        title=title,
        created_at=decode_time(about.get("create_time")),
        updated_at=decode_time(about.get("update_time")),
        passages=tuple(passages),
        partial=True,
    )


def _passages(
    conversation_id: str, rows: list[dict[str, Any]]
) -> tuple[list[Passage], Counter[str]]:
    linked = "parent_id" in rows[0]
    if linked:
        rows = sorted(rows, key=_time)
    left_out: Counter[str] = Counter()
    parents: dict[str, str | None] = {}
    said: dict[str, tuple[str, list[Any], dict[str, Any]]] = {}
    previous = None
    for number, row in enumerate(rows):
        message_id = f"{conversation_id}:{number}" if row["id"] is None else str(row["id"])
        if message_id in parents:
            left_out[REPEATED_MESSAGE] += 1
            continue
        parent = row["parent_id"] if linked else previous
        parents[message_id] = None if parent is None else str(parent)
        previous = message_id
        text, assets = _decode(row["content"])
        if is_blank(text) and not assets:
            left_out[EMPTY_MESSAGE] += 1
        else:
            said[message_id] = text, assets, row
    passages = [
        _passage(i, nearest_included(parents[i], parents, said), *what) for i, what in said.items()
    ]
    return passages, left_out


def _passage(
    message_id: str, parent: str | None, text: str, assets: list[Any], row: dict[str, Any]
) -> Passage:
    role = string_or_none(row["role"]) or None
    return Passage(
        id=message_id,
        role=role,
        content=text,
        type="tool_result" if role == "tool" else "message",
        model=string_or_none(row.get("model_slug")),
        parent=parent,
        created_at=decode_time(row["create_time"]),
        updated_at=decode_time(row.get("update_time")),
        visibility="hidden" if role == "system" else "all",
        attachments=tuple(assets),
        citations=tuple(c for name in _CITATION_FIELDS for c in _json_list(row.get(name))),
        metadata={name: row[name] for name in _METADATA_FIELDS if row.get(name) is not None},
    )


def _json_list(raw: object) -> list[Any]:
    try:
        return as_list(decode(raw)) if isinstance(raw, str) else []
    except ValueError:
        return []


def _time(row: dict[str, Any]) -> datetime:
    return decode_time(row["create_time"]) or EPOCH
