"""SQLite databases of other programs with conversations or items: one description per program.

A description (see `chats/programs.toml`) says which tables there are, and what their columns have.
Columns and tables that an older version does not have are left out. What is marked as deleted is
not imported. Messages are read in order, grouped by conversation, and only their row ids are
sorted, so a database of any size is read with little memory.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import apsw

from recollect.importers.chats import own
from recollect.importers.databases import (
    columns,
    connect,
    has_shared_pages,
    objects,
    quote,
    why_unusual,
)
from recollect.importers.entries import UNREADABLE, Entry
from recollect.importers.items import FIELDS, with_fields, with_text
from recollect.importers.knowledge.characters import Avatar, character
from recollect.importers.records import (
    EMPTY_CONVERSATION,
    EMPTY_MESSAGE,
    REPEATED_MESSAGE,
    UNEXPECTED,
    UNKNOWN_CONVERSATION,
    Ancestors,
    contain_errors,
    failure,
    is_blank,
)
from recollect.language.text import EPOCH, moment, truncate
from recollect.model.chat_messages import parse_json
from recollect.model.documents import Document, Json
from recollect.model.kinds import CHARACTER, CONVERSATION, PROMPT
from recollect.model.receipts import Problem
from recollect.model.sources import Source

MESSAGE = "message"
_SUFFIXES = (".db", ".sqlite", ".sqlite3")
_MAGIC = b"SQLite format 3\0"
_ROLES = {"human": "user", "ai": "assistant", "bot": "assistant"}
_KNOWN_ROLES = ("user", "assistant", "system", "tool")
_DELETED = "deleted in the program"
_ORDER = ("session", "order", "suborder")
_LEFT_OUT = frozenset((*_ORDER, "sender", "image", "media_type", "deleted"))
_NOT_ON_CARDS = frozenset(("id", "image", "created_at", "updated_at", "deleted"))
Row = dict[str, Any]


@dataclass
class Table:
    """A table of conversations, of their messages, or of items. Lists are separated by spaces."""

    name: str
    columns: str
    """What its columns have: `title`, or `title=topic` if the column has another name."""
    kind: str = CONVERSATION
    required: str = ""
    """The columns by which the program is recognized."""
    extras: str = ""
    """Columns that are stored in the metadata under their own names."""
    details: str = ""
    """A table with more columns of each row: its name, its column with the id, and `columns`."""
    keywords: str = ""
    """The table that links rows and keywords, its column with the row, the table of keywords."""
    human_only: bool = False
    """Whether only people may read its messages."""
    convert: Callable[[Row], None] | None = None
    """Changes a row before it is read, if the program writes values in a way of its own."""


def column_names(columns: str) -> dict[str, str]:
    pairs = (column.partition("=") for column in columns.split())
    return {field: name or field for field, _, name in pairs}


class SessionDatabase:
    """The database of a program; a format, see `recollect.importers`."""

    def __init__(
        self, source: Source, description: str, *tables: Table, is_copy: bool = False
    ) -> None:
        """`is_copy`: the database is a lossy copy of another source. It replaces nothing, and
        has messages of conversations that it does not list."""
        self.SOURCE = source
        self.DESCRIPTION = description
        self.tables = tables
        self._messages = [table for table in tables if table.kind == MESSAGE]
        self._is_copy = is_copy

    def claims(self, entry: Entry) -> bool:
        if not entry.basename.lower().endswith(_SUFFIXES):
            return False
        required = {table.name: {*table.required.split()} for table in self.tables}
        try:
            if entry.path is None:  # in an archive; `read` says what to do
                head = entry.head()
                names = {*required}.union(*required.values())
                return head.startswith(_MAGIC) and all(name.encode() in head for name in names)
            with closing(connect(entry.path)) as db:
                if self._is_copy and why_unusual(db, required):  # `read` says why
                    return objects(db) >= {name.lower() for name, own in required.items() if own}
                return all(columns(db, name) >= own for name, own in required.items())
        except (apsw.Error, *UNREADABLE):
            return False

    def read(self, entry: Entry) -> Iterator[Document | Problem]:
        return contain_errors(self._read)(entry)

    def _read(self, entry: Entry) -> Iterator[Document | Problem]:
        if entry.path is None:
            reason = "database inside an archive; unpack it and import the database"
            yield failure(reason, entry.name)
            return
        try:
            with closing(connect(entry.path)) as db:
                names = [table.name for table in self.tables]
                names += [table.details.split()[0] for table in self.tables if table.details]
                reason = why_unusual(db, names)
                if reason:
                    yield failure("database has another structure", f"{entry.name}: {reason}")
                    return
                if any(has_shared_pages(db, name) for name in names if columns(db, name)):
                    yield failure("database is damaged: its pages are used twice", entry.name)
                    return
                for table in self.tables:
                    if table.kind == MESSAGE:
                        continue
                    deleted: list[Json] = []
                    rows = without_deleted(_rows(db, [table]), deleted)
                    if table.kind == CONVERSATION:
                        yield from self._conversations(db, table, rows, entry)
                    else:
                        yield from self._items(db, table, rows, entry)
                    if deleted:
                        count = len(deleted)
                        yield Problem(_DELETED, table.name, unit="conversations", count=count)
        except (apsw.Error, UnicodeDecodeError) as error:
            yield failure("database cannot be read to its end", f"{entry.name}: {error}")

    # -- conversations ---

    def _conversations(
        self, db: apsw.Connection, table: Table, rows: Iterator[Row], entry: Entry
    ) -> Iterator[Document | Problem]:
        sessions: dict[str, Row] = {}
        topics: set[Json] = set()
        for row in rows:
            if row.get("source_id") in topics:  # two threads with one topic stay apart
                row.pop("source_id", None)
            topics.add(row.get("source_id"))
            sessions[str(row.get("id"))] = row
        keywords = _keywords(db, table)
        for session, group in groupby(_rows(db, self._messages), lambda row: row.get("session")):
            messages, id_ = list(group), str(session)
            row = sessions.pop(id_, {})
            if not row and not self._is_copy:
                yield Problem(_DELETED, id_, count=len(messages))
            elif session is None:
                where = "message without a conversation"
                yield Problem(where, id_, failed=True, count=len(messages))
            else:
                try:
                    yield from self._conversation({"id": id_, **row}, messages, keywords.get(id_))
                except UNEXPECTED:
                    yield failure(UNKNOWN_CONVERSATION, id_)
        if sessions:
            where, count = entry.name, len(sessions)
            yield Problem(EMPTY_CONVERSATION, where, unit="conversations", count=count)

    def _conversation(
        self, row: Row, records: list[Row], tags: list[str] | None
    ) -> Iterator[Document | Problem]:
        """A conversation, read by the same code as one in Recollect's JSON."""
        where = truncate(str(row.get("title") or ""), 80) or str(row["id"])
        if "order" not in records[0]:
            records.sort(key=lambda record: moment(record.get("timestamp")) or EPOCH)
        skipped: Counter[str] = Counter()
        messages: dict[str, Row] = {}
        parents: dict[str, str | None] = {}
        previous = None
        is_chain = not any(record.get("parent_id") for record in records)
        for number, record in enumerate(records):
            id_ = str(record.get("id", f"{row['id']}:{number}"))
            if id_ in parents:
                skipped[REPEATED_MESSAGE] += 1
                continue
            parent = previous if is_chain else record.get("parent_id")
            parents[id_] = None if parent is None else str(parent)
            previous = id_
            message = {**_message(record), "id": id_}
            if record.get("deleted"):
                skipped[_DELETED] += 1
            elif is_blank(str(message.get("content", ""))) and not message.get("attachments"):
                skipped[EMPTY_MESSAGE] += 1
            else:
                messages[id_] = message
        for reason, count in skipped.items():
            yield Problem(reason, where, count=count)
        if not messages:
            yield Problem(EMPTY_CONVERSATION, where, unit="conversations")
            return
        ancestors = Ancestors(parents, messages)
        for id_, message in messages.items():
            message["parent_id"] = ancestors.nearest(parents[id_])
        metadata = parse_json(str(row.get("metadata", "null"))) or {}
        yield from own.conversation(
            {
                **row,
                "source": self.SOURCE.name,
                "messages": list(messages.values()),
                "metadata": {**metadata, "tags": tags} if tags else metadata,
                "partial": self._is_copy,
            },
            where,
        )

    # -- items ---

    def _items(
        self, db: apsw.Connection, table: Table, rows: Iterator[Row], entry: Entry
    ) -> Iterator[Document | Problem]:
        keywords = _keywords(db, table)
        for row in rows:
            tags = keywords.get(str(row.get("key", row.get("id"))), [])
            metadata = {name: row[name] for name in table.extras.split() if row.get(name)}
            value = row.get("id", "")
            id_ = f"{table.kind}-{value}" if isinstance(value, int) else str(value)
            created_at, updated_at = moment(row.get("created_at")), moment(row.get("updated_at"))
            item = Document(
                self.SOURCE.name,
                id_,
                str(row.get("title", "")),
                kind=table.kind,
                created_at=created_at or updated_at,
                updated_at=updated_at,
                metadata={**metadata, "tags": tags} if tags else metadata,
                id=id_,
            )
            try:
                yield _item(item, row, tags, entry)
            except UNEXPECTED:
                yield failure(f"{table.kind} of an unknown shape", id_)


# -- rows --------------------------------------------------------------------


def _rows(db: apsw.Connection, tables: Sequence[Table]) -> Iterator[Row]:
    """The rows of tables of one sort: by session and in order, if the tables have these."""
    keys: list[str] = []
    selections: list[tuple[Table, list[str], str]] = []
    for table in tables:
        present, name = columns(db, table.name), quote(table.name)
        if not present:
            continue
        own = column_names(f"{table.columns} {table.extras}")
        found = {n: f"t.{quote(c)}" for n, c in own.items() if c in {*present, "rowid"}}
        order = ", ".join(found.get(key, "null") for key in _ORDER)
        keys.append(f"select {len(keys)}, rowid, {order} from {name} t")  # noqa: S608
        if "content" in found:  # as bytes: text that is not UTF-8 would abort the query
            found["content"] = f"cast({found['content']} as blob)"
        join = ""
        if table.details:
            details, link, *wanted = table.details.split()
            present = columns(db, details)
            more = {
                n: f"d.{quote(c)}"
                for n, c in column_names(" ".join(wanted)).items()
                if c in present
            }
            if link in present:
                found |= more
                first = f"select min(rowid) from {details} where {link} = {found['id']}"  # noqa: S608
                join = f" left join {details} d on d.rowid = ({first})"
        select = f"select {', '.join(found.values())} from {name} t{join} where t.rowid = ?"  # noqa: S608
        selections.append((table, [*found], select))
    if not keys:
        return
    encoding = str(db.pragma("encoding"))
    # Only the row ids are sorted, in memory.
    for number, row_id, *_ in db.execute(" union all ".join(keys) + " order by 3, 4, 5, 2"):
        table, names, select = selections[number]
        for fields in db.execute(select, (row_id,)):
            row = {n: value for n, value in zip(names, fields, strict=True) if value is not None}
            if isinstance(row.get("content"), bytes):
                row["content"] = row["content"].decode(encoding, "replace")
            if table.human_only:
                row["human_only"] = True
            if table.convert is not None:
                table.convert(row)
            yield row


def without_deleted(rows: Iterator[Row], deleted: list[Json]) -> Iterator[Row]:
    """The rows that are not deleted. The ids of the others are added to `deleted`."""
    for row in rows:
        if row.get("deleted") or row.get("trash"):
            deleted.append(row.get("id"))
        else:
            yield row


def _keywords(db: apsw.Connection, table: Table) -> dict[str, list[str]]:
    """The keywords of the rows of a table, by row."""
    keywords: dict[str, list[str]] = {}
    if table.keywords:
        links, column, words = table.keywords.split()
        if columns(db, links) and columns(db, words) >= {"id", "keyword", "deleted"}:
            statement = (
                f"select l.{column}, k.keyword from {links} l"  # noqa: S608
                f" join {words} k on k.id = l.keyword_id where not k.deleted"
            )
            for row, keyword in db.execute(statement):
                keywords.setdefault(str(row), []).append(str(keyword))
    return keywords


# -- messages and items ------------------------------------------------------


def _message(row: Row) -> Row:
    """A message as Recollect's JSON has it; columns that it does not know become metadata."""
    message = {name: value for name, value in row.items() if name not in _LEFT_OUT}
    for name in ("attachments", "citations", "metadata"):
        value = row.get(name)
        parsed = parse_json(value) if isinstance(value, str) else None
        if parsed is not None:
            message[name] = parsed
        elif "human" in str(row.get(name, "")).lower():  # damaged, and may say who may read it
            message["human_only"] = True
    sender = row.get("sender")
    role = str(row.get("role") or sender or "").lower()
    role = _ROLES.get(role, role)
    if "role" in row or role not in _KNOWN_ROLES:
        message.setdefault("author", sender)
    if "role" not in row and role not in _KNOWN_ROLES and sender:  # the name of a character
        role = "assistant"
    if isinstance(row.get("image"), bytes):
        file = {"type": "image", "media_type": row.get("media_type"), "bytes": len(row["image"])}
        message["attachments"] = [{**file, "sha256": hashlib.sha256(row["image"]).hexdigest()}]
        message.setdefault("content", "")
    type_ = "tool_result" if role == "tool" else "message"
    return {**message, "role": role or None, "type": type_}


def _item(document: Document, row: Row, tags: list[str], entry: Entry) -> Document | Problem:
    if document.kind == CHARACTER:
        return _character(document, row, entry)
    if document.kind == PROMPT:
        fields = {name: str(row.get(name, "")) for name in FIELDS[PROMPT]}
        return with_fields(document, {**fields, "keywords": ", ".join(tags)})
    if "media_type" in row:
        metadata = {**document.metadata, "media_type": row["media_type"]}
        document = replace(document, metadata=metadata)
    return with_text(document, str(row.get("content", "")))


def _character(document: Document, row: Row, entry: Entry) -> Document | Problem:
    card: Row = {}
    for name, value in row.items():
        if name not in _NOT_ON_CARDS:
            card[name] = (parse_json(value) if isinstance(value, str) else None) or value
    avatar, image = None, row.get("image")
    if isinstance(image, bytes):
        kinds = {b"\x89PNG": "image/png", b"RIFF": "image/webp"}
        avatar = Avatar(kinds.get(image[:4], "image/jpeg"), image)
    item = character({"spec": "chara_card_v2", "data": card}, entry, avatar)
    if isinstance(item, Problem):
        return item
    fields = ("source", "source_id", "id", "created_at", "updated_at")
    return replace(item, **{name: getattr(document, name) for name in fields})
