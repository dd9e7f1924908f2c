"""Databases of the program ChatGPT Browser: the working database and its canonical export.

Both have tables `conversations` and `messages`. The working one has `parent_id` and
`message_metadata`; the canonical one has a `position` counted from 0 or 1. `content` is a JSON list
of a message's parts, or plain text. Code, tool output and reasoning were never stored. The
databases are lossy copies of a ChatGPT export, so documents are `partial`: they add what is missing
and replace nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import datetime
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

import apsw

from recollect.importers.boundary import contain_errors
from recollect.importers.chats.chatgpt import join_parts
from recollect.importers.databases import columns, connect, has_shared_pages, why_unusual
from recollect.importers.entries import Entry
from recollect.importers.jsonstream import UNREADABLE, decode
from recollect.importers.records import (
    EMPTY_CONVERSATION,
    EMPTY_MESSAGE,
    REPEATED_MESSAGE,
    UNEXPECTED,
    UNKNOWN_CONVERSATION,
    Ancestors,
    as_list,
    is_blank,
    string_or_none,
)
from recollect.language.text import EPOCH, moment, truncate
from recollect.model.documents import Document, Passage
from recollect.model.receipts import Problem
from recollect.model.sources import CHATGPT

SOURCE = CHATGPT
DESCRIPTION = "ChatGPT Browser database (working or canonical)"

_TABLES = ("conversations", "messages", "message_metadata")
_SUFFIXES = (".db", ".sqlite", ".sqlite3")
_REQUIRED = frozenset({"id", "conversation_id", "role", "content", "create_time"})
_ORDER = frozenset({"position", "parent_id"})
"""Columns of which at least one must exist."""
_MESSAGE_FIELDS = (*sorted(_REQUIRED), "update_time", *sorted(_ORDER))
_CITATION_FIELDS = ("citations", "content_references")
_METADATA_FIELDS = tuple(
    (
        "message_type finish_details is_complete request_id timestamp_ message_source"
        " serialization_metadata"
    ).split()
)
_PART_KEYS = frozenset({"content_type", "asset_pointer", "type", "text"})

# Only the first metadata of a message: if there are several, rows would multiply.
_METADATA_JOIN = """
    left join (select message_id, min(rowid) as first_row from message_metadata group by message_id)
      f on f.message_id = m.id
    left join message_metadata x on x.rowid = f.first_row
"""
_EMPTY_CONVERSATIONS = """
    select count(*) from conversations
    where id not in (select conversation_id from messages where conversation_id is not null)
"""


def decode_content(raw: object) -> str:
    """The text in a `content` column: the parts of a JSON list, one per line, or plain text."""
    return _decode(raw)[0]


def _decode(raw: object) -> tuple[str, list[Any]]:
    if raw is None:
        return "", []
    if not isinstance(raw, str):
        return str(raw), []
    if not raw.lstrip().startswith("["):
        return raw, []
    try:
        parts = decode(raw)
    except ValueError:
        return raw, []
    if not all(map(_is_part, parts)):
        return raw, []
    return join_parts(parts)


def _is_part(value: Any) -> bool:
    """Whether ChatGPT could have written it. Plain text that happens to be a list stays text."""
    if isinstance(value, dict):
        return not _PART_KEYS.isdisjoint(value)
    return value is None or isinstance(value, str)


# -- the database ------------------------------------------------------------


def claims(entry: Entry) -> bool:
    if not entry.basename.lower().endswith(_SUFFIXES):
        return False
    if entry.path is None:
        return _looks_like_database(entry)
    try:
        with closing(connect(entry.path)) as database:
            if why_unusual(database, _TABLES):  # `read` says why
                return all(_exists(database, table) for table in ("conversations", "messages"))
            messages = columns(database, "messages")
            if not messages >= _REQUIRED or messages.isdisjoint(_ORDER):
                return False
            return columns(database, "conversations") >= {"id", "title"}
    except apsw.Error:
        return False


@contain_errors
def read(entry: Entry) -> Iterator[Document | Problem]:
    if entry.path is None:
        yield _failure("database inside an archive; unpack it and import the database", entry.name)
        return
    try:
        with closing(connect(entry.path)) as database:
            reason = why_unusual(database, _TABLES)
            if reason:
                yield _failure("database has another structure", f"{entry.name}: {reason}")
                return
            if any(has_shared_pages(database, table) for table in _tables(database)):
                yield _failure("database is damaged: its pages are used twice", entry.name)
                return
            yield from _empty_conversations(database, entry.name)
            find_conversation = _conversation_finder(database)
            for conversation_id, group in groupby(_rows(database), itemgetter("conversation_id")):
                rows = list(group)
                fields = find_conversation(conversation_id)
                try:
                    yield from _conversation(conversation_id, rows, fields)
                except UNEXPECTED:
                    yield _failure(UNKNOWN_CONVERSATION, str(conversation_id))
    except (apsw.Error, UnicodeDecodeError) as error:
        yield _failure("database cannot be read to its end", f"{entry.name}: {error}")


def _failure(reason: str, where: str) -> Problem:
    return Problem(reason, where, failed=True, unit="conversations")


def _looks_like_database(entry: Entry) -> bool:
    try:
        head = entry.head()
    except UNREADABLE:
        return False
    is_sqlite = head.startswith(b"SQLite format 3\0")
    return is_sqlite and b"conversation_id" in head and b"messages" in head


def _tables(database: apsw.Connection) -> list[str]:
    return [table for table in _TABLES if columns(database, table)]


def _exists(database: apsw.Connection, name: str) -> bool:
    sql = "select 1 from sqlite_schema where name = ? collate nocase"
    return bool(database.execute(sql, (name,)).fetchall())


def _empty_conversations(database: apsw.Connection, where: str) -> Iterator[Problem]:
    ((count,),) = database.execute(_EMPTY_CONVERSATIONS).fetchall()
    if isinstance(count, int) and count:
        yield Problem(EMPTY_CONVERSATION, where, unit="conversations", count=count)


def _conversation_finder(database: apsw.Connection) -> Callable[[Any], dict[str, Any]]:
    """A function that returns the fields of a conversation."""
    present = columns(database, "conversations")
    names = [name for name in ("title", "create_time", "update_time") if name in present]
    statement = f"select {', '.join(['id', *names])} from conversations"  # noqa: S608
    by_id: dict[str, dict[str, Any]] = {}
    for conversation_id, *row in database.execute(statement):
        by_id.setdefault(str(conversation_id), dict(zip(names, row, strict=True)))
    return lambda conversation_id: by_id.get(str(conversation_id), {})


def _rows(database: apsw.Connection) -> Iterator[dict[str, Any]]:
    """Every message, grouped by conversation."""
    messages = columns(database, "messages")
    names = [name for name in _MESSAGE_FIELDS if name in messages]
    # Content is read as bytes: text that is not UTF-8 would abort the query.
    values = [f"m.{name}" if name != "content" else "cast(m.content as blob)" for name in names]
    join = ""
    metadata = columns(database, "message_metadata")
    if "message_id" in metadata:
        fields = ("model_slug", *_CITATION_FIELDS, *_METADATA_FIELDS)
        metadata_names = [name for name in fields if name in metadata]
        names += metadata_names
        values += [f"x.{name}" for name in metadata_names]
        if metadata_names:
            join = _METADATA_JOIN
    order = "conversation_id, position" if "position" in messages else "conversation_id"
    # Only the row ids are sorted, in memory. The limit keeps SQLite from sorting what is joined.
    statement = f"""select {", ".join(values)}
        from (select rowid as row from messages order by {order}, rowid limit -1) o
        cross join messages m on m.rowid = o.row {join}"""  # noqa: S608
    encoding = str(database.pragma("encoding"))
    for row in database.execute(statement):
        fields_by_name = dict(zip(names, row, strict=True))
        content = fields_by_name["content"]
        if isinstance(content, bytes):
            fields_by_name["content"] = content.decode(encoding, "replace")
        yield fields_by_name


# -- conversations -----------------------------------------------------------


class _Message(NamedTuple):
    text: str
    attachments: list[Any]
    row: dict[str, Any]


def _conversation(
    conversation_id: Any, rows: list[dict[str, Any]], fields: dict[str, Any]
) -> Iterator[Document | Problem]:
    title = str(fields.get("title") or "")
    where = truncate(title, 80) or str(conversation_id)
    if conversation_id is None:
        yield Problem("message without a conversation", where, failed=True, count=len(rows))
        return
    passages, skipped = _passages(str(conversation_id), rows)
    for reason, count in skipped.items():
        yield Problem(reason, where, count=count)
    if not passages:
        yield Problem(EMPTY_CONVERSATION, where, unit="conversations")
        return
    yield Document(
        source=SOURCE.name,
        source_id=str(conversation_id),
        title=title,
        created_at=moment(fields.get("create_time")),
        updated_at=moment(fields.get("update_time")),
        passages=tuple(passages),
        partial=True,
    )


def _passages(
    conversation_id: str, rows: list[dict[str, Any]]
) -> tuple[list[Passage], Counter[str]]:
    """The messages of a conversation, and the number of skipped ones by reason."""
    has_parents = "parent_id" in rows[0]
    if has_parents:
        rows = sorted(rows, key=_time)
    skipped: Counter[str] = Counter()
    parents: dict[str, str | None] = {}
    messages: dict[str, _Message] = {}
    previous = None
    for number, row in enumerate(rows):
        message_id = f"{conversation_id}:{number}" if row["id"] is None else str(row["id"])
        if message_id in parents:
            skipped[REPEATED_MESSAGE] += 1
            continue
        parent = row["parent_id"] if has_parents else previous
        parents[message_id] = None if parent is None else str(parent)
        previous = message_id
        text, attachments = _decode(row["content"])
        if is_blank(text) and not attachments:
            skipped[EMPTY_MESSAGE] += 1
        else:
            messages[message_id] = _Message(text, attachments, row)
    passages = []
    ancestors = Ancestors(parents, messages)
    for message_id, message in messages.items():
        parent = ancestors.nearest(parents[message_id])
        passages.append(_passage(message_id, parent, message))
    return passages, skipped


def _passage(message_id: str, parent: str | None, message: _Message) -> Passage:
    row = message.row
    role = string_or_none(row["role"]) or None
    citations: list[Any] = []
    for name in _CITATION_FIELDS:
        citations += _json_list(row.get(name))
    return Passage(
        id=message_id,
        role=role,
        content=message.text,
        type="tool_result" if role == "tool" else "message",
        model=string_or_none(row.get("model_slug")),
        parent=parent,
        created_at=moment(row["create_time"]),
        updated_at=moment(row.get("update_time")),
        visibility="hidden" if role == "system" else "all",
        attachments=tuple(message.attachments),
        citations=tuple(citations),
        metadata={name: row[name] for name in _METADATA_FIELDS if row.get(name) is not None},
    )


def _json_list(raw: object) -> list[Any]:
    if not isinstance(raw, str):
        return []
    try:
        return as_list(decode(raw))
    except ValueError:
        return []


def _time(row: dict[str, Any]) -> datetime:
    return moment(row["create_time"]) or EPOCH
