"""Turn the rows of a damaged file into rows of a library, and check them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from recollect.errors import DamagedLibrary
from recollect.language.text import from_micros, storable
from recollect.model.kinds import CONVERSATION, KINDS, OBSERVATION
from recollect.store.sql.encoding import (
    PASSAGE_COLUMNS,
    decode_passage,
    matches_digest,
    passage_row,
)
from recollect.store.sqlite.passages.compression import FIRST_DICTIONARY, Codec, unpack_id
from recollect.transfer.salvage.cells import Cell, Malformed
from recollect.transfer.salvage.pages import Pages
from recollect.transfer.salvage.rows import DOCUMENT, PASSAGE, Row, read_row

_UNREADABLE = (Malformed, DamagedLibrary, ValueError, TypeError, IndexError, MemoryError)
_JSON_OBJECTS = ("metadata", "original")
_JSON_LISTS = ("attachments", "citations")
_MAX_VERSION = 1 << 31


class Message(NamedTuple):
    """A message that can be read."""

    key: int
    document: int
    position: int
    canonical: bool
    shared: bool
    columns: tuple[Any, ...]
    """PASSAGE_COLUMNS."""
    is_altered: bool

    @property
    def id(self) -> str:
        return str(self.columns[PASSAGE_COLUMNS.index("id")])


class MessageReader:
    def __init__(self, pages: Pages) -> None:
        self._pages = pages
        self._codec = Codec()

    def read(self, cell: Cell) -> Message | None:
        """The message in a cell; None if it cannot be read."""
        try:
            row = read_row(self._pages, cell, PASSAGE)
        except Malformed:
            return None
        altered: Message | None = None
        for body in _possible_bodies(row["body"]):
            try:
                message = self._decode(row | {"body": body})
            except _UNREADABLE:
                continue
            if not message.is_altered:
                return message
            altered = altered or message
        return altered

    def _decode(self, row: Row) -> Message:
        values = self._columns(row)
        columns = tuple(values[name] for name in PASSAGE_COLUMNS)
        is_altered = not _is_intact(columns)
        if is_altered:
            columns = _restore(columns)
        return Message(
            row["key"],
            row["document"],
            row["position"],
            bool(row["canonical"]),
            bool(row["shared"]),
            columns,
            is_altered,
        )

    def _columns(self, row: Row) -> Row:
        body, details = row["body"], row["details"]
        id_, parent = row["packed_id"], row["parent_id"]
        content = self._codec.content(body)
        metadata = self._codec.metadata(body, details, parent)
        if isinstance(id_, bytes):
            id_ = unpack_id(id_)
        if isinstance(parent, bytes):
            parent = unpack_id(parent)
        return row | {"id": id_, "content": content, "metadata": metadata, "parent": parent}


def _possible_bodies(body: str | bytes) -> list[str | bytes]:
    """The body of a message, and the same as if the number of its dictionary were damaged."""
    if isinstance(body, bytes) and body and body[0] != FIRST_DICTIONARY:
        return [body, bytes((FIRST_DICTIONARY,)) + body[1:]]
    return [body]


def _is_intact(columns: tuple[Any, ...]) -> bool:
    try:
        return matches_digest(columns)
    except ValueError:  # damaged JSON
        return False


def _restore(columns: tuple[Any, ...]) -> tuple[Any, ...]:
    """A message that differs from its digest, with what is valid of it and a new digest."""
    row = dict(zip(PASSAGE_COLUMNS, columns, strict=True))
    _clear_invalid(row)
    passage = decode_passage(tuple(row.values()))
    return passage_row(passage, row["position"], bool(row["canonical"]))


def with_id(columns: Sequence[Any], id: str) -> tuple[Any, ...]:
    """The columns of a message with another id."""
    passage = decode_passage(tuple(columns))
    return passage_row(passage._replace(id=id), passage.position, passage.canonical)


def _clear_invalid(row: Row) -> bool:
    """Clear fields that are not valid JSON or dates, and replace bytes that are not UTF-8.

    Returns whether there were any.
    """
    before = dict(row)
    for name, value in before.items():
        if isinstance(value, str):
            row[name] = storable(value)
    for name in _JSON_OBJECTS:
        row[name] = _valid_json(row[name], dict)
    for name in _JSON_LISTS:
        if name in row:
            row[name] = _valid_json(row[name], list)
    for name in ("created_at", "updated_at"):
        row[name] = _valid_date(row[name])
    return any(row[name] != value for name, value in before.items())


def _valid_json(text: str | None, type_: type) -> str | None:
    try:
        if text and isinstance(json.loads(text), type_):
            return text
    except ValueError:
        return None  # damaged
    return None


def _valid_date(date: int | None) -> int | None:
    try:
        from_micros(date)
    except (ValueError, OverflowError, OSError):
        return None
    return date


# -- documents ---


def read_document(pages: Pages, cell: Cell) -> tuple[Row, bool] | None:
    """The columns of the document in a cell, and whether all are valid."""
    try:
        row = read_row(pages, cell, DOCUMENT)
    except Malformed:
        return None
    is_valid = not _clear_invalid(row)
    if row["kind"] not in (*KINDS, OBSERVATION):
        row["kind"] = CONVERSATION
        is_valid = False
    if not 0 < row["version"] < _MAX_VERSION or not 0 <= row["passages"] < _MAX_VERSION:
        row["version"], row["passages"] = 1, 0
        is_valid = False
    return row, is_valid
