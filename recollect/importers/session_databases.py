"""SQLite databases of other programs with conversations or items: one description per program.

A description in `DATABASES` says what the columns of its tables have. Columns and tables that an
older version does not have are left out. What is marked as deleted is not imported.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import apsw

from recollect.importers.boundary import contain_errors
from recollect.importers.chats import own
from recollect.importers.databases import columns, connect, has_shared_pages, quote
from recollect.importers.entries import Entry
from recollect.importers.items import FIELDS, with_fields, with_text
from recollect.importers.knowledge.characters import Avatar, character
from recollect.importers.records import (
    EMPTY_CONVERSATION,
    UNEXPECTED,
    UNKNOWN_CONVERSATION,
    Ancestors,
)
from recollect.language.text import moment
from recollect.model.chat_messages import parse_json
from recollect.model.documents import Document, Json
from recollect.model.kinds import CHARACTER, CONVERSATION, MEDIA, NOTE, PROMPT
from recollect.model.receipts import Problem
from recollect.model.sources import BUS, RECOLLECT, TLDW, Source

MESSAGE = "message"
_SUFFIXES = (".db", ".sqlite", ".sqlite3")
_ROLES = {"human": "user", "ai": "assistant", "bot": "assistant"}
_KNOWN_ROLES = ("user", "assistant", "system", "tool")
_DELETED = "deleted in the program"
_LEFT_OUT = frozenset(("session", "order", "suborder", "sender", "image", "media_type", "deleted"))
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
    keywords: str = ""
    """The table that links rows and keywords, its column with the row, the table of keywords."""
    human_only: bool = False
    """Whether only people may read its messages."""

    def column_names(self) -> dict[str, str]:
        columns = f"{self.columns} {self.extras}".split()
        pairs = (column.partition("=") for column in columns)
        return {field: name or field for field, _, name in pairs}


class SessionDatabase:
    """The database of a program; a format, see `recollect.importers`."""

    def __init__(self, source: Source, description: str, *tables: Table) -> None:
        self.SOURCE = source
        self.DESCRIPTION = description
        self.tables = tables
        self._messages = [table for table in tables if table.kind == MESSAGE]

    def claims(self, entry: Entry) -> bool:
        if not entry.basename.lower().endswith(_SUFFIXES) or entry.path is None:
            return False
        try:
            with closing(connect(entry.path)) as db:
                return all(columns(db, t.name) >= {*t.required.split()} for t in self.tables)
        except apsw.Error:
            return False

    def read(self, entry: Entry) -> Iterator[Document | Problem]:
        return contain_errors(self._read)(entry)

    def _read(self, entry: Entry) -> Iterator[Document | Problem]:
        assert entry.path is not None
        try:
            with closing(connect(entry.path)) as db:
                if any(has_shared_pages(db, t.name) for t in self.tables if columns(db, t.name)):
                    yield _failure("database is damaged: its pages are used twice", entry.name)
                    return
                for table in self.tables:
                    if table.kind == MESSAGE:
                        continue
                    deleted: list[Json] = []
                    rows = _without_deleted(_rows(db, [table]), deleted)
                    if table.kind == CONVERSATION:
                        yield from self._conversations(db, table, rows)
                    else:
                        yield from self._items(db, table, rows, entry)
                    if deleted:
                        count = len(deleted)
                        yield Problem(_DELETED, table.name, unit="conversations", count=count)
        except (apsw.Error, UnicodeDecodeError) as error:
            yield _failure("database cannot be read to its end", f"{entry.name}: {error}")

    # -- conversations ---

    def _conversations(
        self, db: apsw.Connection, table: Table, rows: Iterator[Row]
    ) -> Iterator[Document | Problem]:
        sessions: dict[str, Row] = {}
        topics: set[Json] = set()
        for row in rows:
            if row.get("source_id") in topics:  # two threads with one topic stay apart
                row.pop("source_id", None)
            topics.add(row.get("source_id"))
            sessions[str(row.get("id"))] = row
        keywords = _keywords(db, table)
        for id_, group in groupby(_rows(db, self._messages), lambda row: str(row.get("session"))):
            session = sessions.pop(id_, None)
            messages = list(group)
            if session is None:
                yield Problem(_DELETED, id_, count=len(messages))
                continue
            try:
                yield from self._conversation(session, messages, keywords.get(id_, []))
            except UNEXPECTED:
                yield _failure(UNKNOWN_CONVERSATION, id_)
        if sessions:
            yield Problem(EMPTY_CONVERSATION, table.name, unit="conversations", count=len(sessions))

    def _conversation(
        self, row: Row, messages: list[Row], tags: list[str]
    ) -> Iterator[Document | Problem]:
        """A conversation, read by the same code as one in Recollect's JSON."""
        where = str(row.get("title") or row["id"])
        passages = {str(m["id"]): _message(m) for m in messages if not m.get("deleted")}
        if len(passages) < len(messages):
            yield Problem(_DELETED, where, count=len(messages) - len(passages))
        parents = {str(m["id"]): m.get("parent_id") for m in messages}
        if any(parents.values()):
            ancestors = Ancestors(parents, passages)
            for id_, message in passages.items():
                message["parent_id"] = ancestors.nearest(parents[id_])
        record = {**row, "source": self.SOURCE.name, "messages": list(passages.values())}
        record["metadata"] = {
            **(_json(row.get("metadata")) or {}),
            **({"tags": tags} if tags else {}),
        }
        yield from own.conversation(record, where)

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
                yield _failure(f"{table.kind} of an unknown shape", id_)


def _failure(reason: str, where: str) -> Problem:
    return Problem(reason, where, failed=True, unit="conversations")


# -- rows --------------------------------------------------------------------


def _rows(db: apsw.Connection, tables: list[Table]) -> Iterator[Row]:
    """The rows of tables of one sort: by session and in order, if the tables have these."""
    names = list(dict.fromkeys(name for table in tables for name in table.column_names()))
    selects = []
    for table in tables:
        present = columns(db, table.name)
        if not present:
            continue
        own = table.column_names()
        chosen = []
        for name in names:
            value = quote(own[name]) if own.get(name) in {*present, "rowid"} else "null"
            if name == "content":  # as bytes: text that is not UTF-8 would abort the query
                value = f"cast({value} as blob)"
            chosen.append(value)
        chosen.append("1" if table.human_only else "null")
        selects.append(f"select {', '.join(chosen)} from {quote(table.name)}")  # noqa: S608
    if not selects:
        return
    order = [str(n) for n, name in enumerate(names, 1) if name in ("session", "order", "suborder")]
    statement = " union all ".join(selects) + (f" order by {', '.join(order)}" if order else "")
    encoding = str(db.pragma("encoding"))
    for values in db.execute(statement):
        pairs = zip((*names, "human_only"), values, strict=True)
        row: Row = {name: value for name, value in pairs if value is not None}
        if isinstance(row.get("content"), bytes):
            row["content"] = row["content"].decode(encoding, "replace")
        yield row


def _without_deleted(rows: Iterator[Row], deleted: list[Json]) -> Iterator[Row]:
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


def _json(value: Any) -> Json:
    """The value of JSON in a column; None if it is none."""
    return parse_json(value) if isinstance(value, str) else None


# -- messages and items ------------------------------------------------------


def _message(row: Row) -> dict[str, Json]:
    """A message as Recollect's JSON has it; columns that it does not know become metadata."""
    message = {name: value for name, value in row.items() if name not in _LEFT_OUT}
    for name in ("attachments", "citations", "metadata"):
        value = _json(row.get(name))
        if value is not None:
            message[name] = value
        elif "human" in str(row.get(name, "")).lower():  # damaged, and may say who may read it
            message["human_only"] = True
    sender = row.get("sender")
    role = str(row.get("role") or sender or "").lower()
    role = _ROLES.get(role, role)
    if "role" in row or role not in _KNOWN_ROLES:
        message.setdefault("author", sender)
    if "role" not in row and role not in _KNOWN_ROLES:  # the name of a character
        role = "assistant"
    if isinstance(row.get("image"), bytes):
        file = {"type": "image", "media_type": row.get("media_type"), "bytes": len(row["image"])}
        message["attachments"] = [{**file, "sha256": hashlib.sha256(row["image"]).hexdigest()}]
        message.setdefault("content", "")
    return {**message, "role": role, "type": "tool_result" if role == "tool" else "message"}


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
    card = {n: _json(value) or value for n, value in row.items() if n not in _NOT_ON_CARDS}
    avatar, image = None, row.get("image")
    if isinstance(image, bytes):
        kinds = {b"\x89PNG": "image/png", b"RIFF": "image/webp"}
        avatar = Avatar(kinds.get(image[:4], "image/jpeg"), image)
    item = character({"spec": "chara_card_v2", "data": card}, entry, avatar)
    if isinstance(item, Problem):
        return item
    fields = ("source", "source_id", "id", "created_at", "updated_at")
    return replace(item, **{name: getattr(document, name) for name in fields})


# -- the programs ------------------------------------------------------------

_TLDW = "updated_at=last_modified deleted"
_BUS_MESSAGE = (
    "id role content metadata session=thread_id author=author_name sender=author"
    " timestamp=created_at updated_at=edited_at"
)
_BUS_EXTRAS = "author_id priority reply_to_msg_id"

DATABASES = (
    SessionDatabase(
        RECOLLECT,
        "AgentKit's conversations.db",
        Table(
            "conversations",
            # As the source id, the session id stays valid in the Persistence API.
            "id source_id=session_id title namespace created_at updated_at metadata",
            required="id session_id title",
        ),
        Table(
            "messages",
            "id role content session=conversation_id order=timestamp suborder=rowid model"
            " tool_used attachments citations timestamp",
            MESSAGE,
            required="id conversation_id role content timestamp",
        ),
    ),
    SessionDatabase(
        BUS,
        "AgentChatBus' bus.db",
        Table(
            "threads",
            "id source_id=topic title=topic created_at updated_at metadata",
            required="id topic status",
            extras="status summary system_prompt closed_at",
        ),
        Table(
            "messages",
            f"{_BUS_MESSAGE} order=seq",
            MESSAGE,
            required="id thread_id author content seq",
            extras=_BUS_EXTRAS,
        ),
        Table(
            "human_only_messages",
            f"{_BUS_MESSAGE} order=anchor_seq suborder=anchor_order",
            MESSAGE,
            extras=_BUS_EXTRAS,
            human_only=True,
        ),
    ),
    SessionDatabase(
        TLDW,
        "tldw_server's ChaChaNotes database",
        Table(
            "conversations",
            f"id title created_at {_TLDW}",
            required="id root_id title",
            extras="character_id rating root_id parent_conversation_id",
            keywords="conversation_keywords conversation_id keywords",
        ),
        Table(
            "messages",
            "id content sender session=conversation_id order=timestamp suborder=rowid"
            " parent_id=parent_message_id image=image_data media_type=image_mime_type"
            " timestamp deleted",
            MESSAGE,
            required="id conversation_id sender content",
        ),
        Table(
            "notes",
            f"id title content created_at {_TLDW}",
            NOTE,
            keywords="note_keywords note_id keywords",
        ),
        Table(
            "character_cards",
            "id name description personality scenario system_prompt image creator_notes creator"
            " post_history_instructions first_mes=first_message mes_example=message_example"
            f" alternate_greetings tags character_version extensions created_at {_TLDW}",
            CHARACTER,
        ),
    ),
    SessionDatabase(
        TLDW,
        "tldw_server's media database",
        Table(
            "Media",
            "id=uuid key=id title content media_type=type created_at=ingestion_date"
            f" {_TLDW} trash=is_trash",
            MEDIA,
            required="uuid title type content ingestion_date",
            extras="url author",
            keywords="MediaKeywords media_id Keywords",
        ),
    ),
    SessionDatabase(
        TLDW,
        "tldw_server's prompts database",
        Table(
            "Prompts",
            f"id=uuid key=id title=name name author details system_prompt user_prompt {_TLDW}",
            PROMPT,
            required="uuid name system_prompt user_prompt",
            extras="author",
            keywords="PromptKeywordLinks prompt_id PromptKeywordsTable",
        ),
    ),
)
