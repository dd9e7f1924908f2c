"""Copy everything that can be read in a damaged SQLite file to a new library.

The rows of documents and messages are recognised by their shape (`damaged_file`), and messages are
checked against their digests. So a message is lost only if its own bytes are. Indexes that can
still be read tell what is missing. Receipts of imports are not rescued, so imports in the new
library cannot be undone. Derived data, such as observations, is made again.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from recollect.errors import DamagedLibrary, InvalidInput, RecollectError
from recollect.language.text import from_micros, storable
from recollect.model.kinds import CONVERSATION, KINDS, OBSERVATION
from recollect.progress import Progress, ignore_progress
from recollect.store.base import Store
from recollect.store.sql.encoding import (
    DOCUMENT_COLUMNS,
    PASSAGE_COLUMNS,
    decode_passage,
    matches_digest,
    passage_row,
)
from recollect.store.sql.transfer import MAX_BATCH_ROWS
from recollect.store.sqlite.compression import Codec, unpack_id
from recollect.store.values import Batch
from recollect.transfer.damaged_file import Cell, Malformed, Pages, find_rows, read_index, read_row

_UNREADABLE = (Malformed, DamagedLibrary, ValueError, TypeError, IndexError, MemoryError)
_MAX_BATCH_CHARACTERS = 16_000_000
_MESSAGES_PER_REPORT = 1_000
_MAX_NUMBER = 1 << 31
_SOURCE = "salvage"
"""The source of documents whose own is lost."""

Row = dict[str, Any]


# -- the report --------------------------------------------------------------


@dataclass(slots=True)
class Loss:
    """A conversation or item that is not complete."""

    id: str
    title: str
    rescued: int
    """Messages that were rescued."""
    missing: int
    """Messages that were not."""
    missing_ids: list[str] = field(default_factory=list)
    """The ids of missing messages, as far as an index still lists them."""
    is_header_lost: bool = False
    """Whether the title and the other fields of the document are lost."""


@dataclass(slots=True)
class SalvageReport:
    """What was rescued, and what was not."""

    source: str
    documents: int = 0
    """Conversations and items that were rescued."""
    messages: int = 0
    missing_messages: int = 0
    altered: list[tuple[str, str]] = field(default_factory=list)
    """Messages that were rescued, but differ from their checksum: (document, message)."""
    altered_documents: list[str] = field(default_factory=list)
    """Documents of which some fields could not be read."""
    losses: list[Loss] = field(default_factory=list)
    lost_documents: list[str] = field(default_factory=list)
    """Ids of documents of which nothing was rescued."""

    @property
    def is_complete(self) -> bool:
        return not (
            self.missing_messages
            or self.altered
            or self.altered_documents
            or self.losses
            or self.lost_documents
        )


# -- rows --------------------------------------------------------------------


@cache
def table_columns(table: str) -> list[tuple[str, str]]:
    """The stored columns of a table, each with the types it can have: Number, Text, Blob, Empty."""
    schema = files("recollect.store.sqlite").joinpath("schema.sql").read_text("utf-8")
    _, _, lines = schema.partition(f"create table {table} (\n")
    columns = []
    for line in lines.splitlines():
        name, type_, *rest = line.strip(", ").split()
        if type_ not in ("integer", "text", "blob") or "generated" in rest:
            break
        types = {"integer": "N", "text": "TB", "blob": "B"}[type_]
        if "primary" in rest:  # the key is the rowid, and not stored twice
            types = "E"
        elif "not" not in rest:
            types += "E"
        columns.append((name, types))
    return columns


def has_shape(types: Sequence[int], table: str) -> bool:
    """Whether a row with these serial types can be one of a table."""
    columns = table_columns(table)
    if len(types) != len(columns):
        return False
    for type_, (_, allowed) in zip(types, columns, strict=True):
        kind = "BT"[type_ % 2] if type_ >= 12 else "?" if type_ in (7, 10, 11) else "N"
        if ("E" if type_ == 0 else kind) not in allowed:
            return False
    return True


def find_table_rows(pages: Pages) -> tuple[list[Cell], list[Cell]]:
    """Where the rows of documents and of messages are."""
    cells: dict[str, list[Cell]] = {"document": [], "passage": []}

    def table_of(types: Sequence[int]) -> str:
        return next((table for table in cells if has_shape(types, table)), "")

    for table, cell in find_rows(pages, table_of):
        cells[table].append(cell)
    return sorted(cells["document"]), sorted(cells["passage"])


def read_columns(pages: Pages, cell: Cell, table: str) -> Row:
    """The columns of a row by name. Raises Malformed."""
    names = [name for name, _ in table_columns(table)]
    return dict(zip(names, read_row(pages, cell), strict=True)) | {"key": cell.rowid}


class Message(NamedTuple):
    """A message that can be read."""

    cell: Cell
    document: int
    id: str
    position: int
    canonical: bool
    shared: bool
    columns: tuple[Any, ...]
    """PASSAGE_COLUMNS."""
    is_altered: bool


def read_message(pages: Pages, cell: Cell, codec: Codec) -> Message | None:
    """The message in a row; None if it cannot be read.

    Of a message that differs from its digest, what is valid is used.
    """
    try:
        row = read_columns(pages, cell, "passage")
        body, id_, parent = row["body"], row["packed_id"], row["parent_id"]
        row["content"] = codec.content(body)
        row["metadata"] = codec.metadata(body, row["details"], parent)
        row["id"] = unpack_id(id_) if isinstance(id_, bytes) else id_
        row["parent"] = unpack_id(parent) if isinstance(parent, bytes) else parent
        columns = tuple(row[name] for name in PASSAGE_COLUMNS)
        is_altered = not is_intact(columns)
        if is_altered:
            row = dict(zip(PASSAGE_COLUMNS, columns, strict=True)) | {
                name: row[name] for name in ("document", "shared")
            }
            clear_invalid(row)
            passage = decode_passage(tuple(row[name] for name in PASSAGE_COLUMNS))
            columns = passage_row(passage, row["position"], bool(row["canonical"]))
        return Message(
            cell,
            row["document"],
            str(columns[PASSAGE_COLUMNS.index("id")]),
            row["position"],
            bool(row["canonical"]),
            bool(row["shared"]),
            columns,
            is_altered,
        )
    except _UNREADABLE:
        return None


def is_intact(columns: tuple[Any, ...]) -> bool:
    try:
        return matches_digest(columns)
    except ValueError:  # damaged JSON
        return False


def read_document(pages: Pages, cell: Cell) -> tuple[Row, bool] | None:
    """The columns of a document, and whether all are valid; None if it cannot be read."""
    try:
        row = read_columns(pages, cell, "document")
    except Malformed:
        return None
    is_valid = not clear_invalid(row)
    if row["kind"] not in (*KINDS, OBSERVATION):
        row["kind"] = CONVERSATION
        is_valid = False
    if not 0 < row["version"] < _MAX_NUMBER or not 0 <= row["passages"] < _MAX_NUMBER:
        row["version"], row["passages"] = 1, 0
        is_valid = False
    return row, is_valid


def clear_invalid(row: Row) -> bool:
    """Clear fields that are not valid JSON or dates, and replace bytes that are not UTF-8.

    Returns whether there were any.
    """
    before = dict(row)
    json_types = {"metadata": dict, "original": dict, "attachments": list, "citations": list}
    for name, value in before.items():
        if isinstance(value, str):
            row[name] = storable(value)
        try:
            if name in ("created_at", "updated_at"):
                from_micros(value)
            elif name in json_types and not isinstance(json.loads(value or ""), json_types[name]):
                row[name] = None
        except (ValueError, OverflowError, OSError):
            row[name] = None
    return row != before


# -- rescue ------------------------------------------------------------------


@dataclass(slots=True)
class _Expected:
    """What the indexes of the file list."""

    messages: dict[int, tuple[int, str]] = field(default_factory=dict)
    """The document and the id of each message, by its key."""
    ids: dict[int, str] = field(default_factory=dict)
    """The ids of documents, by their keys."""
    sources: dict[int, tuple[str, str]] = field(default_factory=dict)
    kinds: dict[int, tuple[str, str, int]] = field(default_factory=dict)
    """The kind and the project of documents, and their numbers of messages."""


def rescue(source: Path, target: Store, progress: Progress | None = None) -> SalvageReport:
    """Copy what can be read in a file to a new library, and report what cannot.

    The file is not changed. No program may write to it meanwhile.
    """
    before = stamp(source)
    with Pages(source) as pages:
        documents, messages = find_table_rows(pages)
        if not documents and not messages:
            raise InvalidInput(f"{source} contains no conversations that can be read.")
        work = _Rescue(pages, target, progress or ignore_progress)
        work.read_documents(documents)
        work.read_messages(messages)
        work.add_lost_documents()
        work.write()
        report = work.report(str(source))
    if stamp(source) != before:
        raise RecollectError(
            f"{source} was written to while it was read. Stop the programs that use it, remove the "
            "new library and run the same command again."
        )
    target.set_closure(None)
    return report


def stamp(source: Path) -> list[tuple[int, int]]:
    paths = (source, source.with_name(f"{source.name}-wal"))
    return [(p.stat().st_size, p.stat().st_mtime_ns) for p in paths if p.exists()]


class _Rescue:
    def __init__(self, pages: Pages, target: Store, progress: Progress) -> None:
        self._pages = pages
        self._target = target
        self._progress = progress
        self._codec = Codec()
        self._expected = read_expected(pages)
        self._documents: dict[int, Row] = {}
        self._altered_documents: list[str] = []
        self._messages: dict[tuple[int, str], Message] = {}
        """By document and id, without their columns. Digests do not cover keys, so these may be
        wrong."""
        self._observations = {
            key for key, (kind, _, _) in self._expected.kinds.items() if kind == OBSERVATION
        }
        """The keys of documents with observations."""

    def read_documents(self, cells: Sequence[Cell]) -> None:
        keys = {id_: key for key, id_ in self._expected.ids.items()}
        for cell in cells:
            result = read_document(self._pages, cell)
            if result is None:
                continue
            row, is_valid = result
            key: int = row["key"]
            if key not in self._expected.ids:
                key = keys.get(row["id"], key)  # the key in the file may be damaged
            if row["kind"] == OBSERVATION:
                self._observations.add(key)
            if key in self._documents or key in self._observations:
                continue
            self._documents[key] = row
            if not is_valid:
                self._altered_documents.append(row["id"])

    def read_messages(self, cells: Sequence[Cell]) -> None:
        for count, cell in enumerate(cells, 1):
            message = read_message(self._pages, cell, self._codec)
            if count % _MESSAGES_PER_REPORT == 0:
                self._progress("Reading", count, len(cells))
            if message is None:
                continue
            # If the document or the id are damaged, the index may have them.
            document, id_ = message.document, message.id
            expected = self._expected.messages.get(cell.rowid, (document, id_))
            if document not in self._documents:
                document = expected[0]
            if message.is_altered and expected[0] == document:
                id_ = expected[1]
            other = self._messages.get((document, id_))
            if document not in self._observations and (other is None or other.is_altered):
                self._messages[document, id_] = message._replace(
                    document=document, id=id_, columns=()
                )

    def add_lost_documents(self) -> None:
        """Make a document for messages whose own document cannot be read."""
        keys = {document for document, _ in self._messages}
        for key in sorted(keys - self._documents.keys()):
            source, source_id = self._expected.sources.get(key, (_SOURCE, str(key)))
            kind, project, _ = self._expected.kinds.get(key, (CONVERSATION, "default", 0))
            self._documents[key] = dict.fromkeys(DOCUMENT_COLUMNS) | {
                "id": self._expected.ids.get(key, f"salvaged-{key}"),
                "source": source,
                "source_id": source_id,
                "kind": kind,
                "project": project,
                "title": "",
                "partial": True,
                "shared_ids": False,
                "version": 1,
                "passages": None,
            }

    # -- writing ---

    def write(self) -> None:
        """Write everything with new keys, because the old ones may be damaged."""
        found = sorted(self._messages.values(), key=lambda message: message.cell.rowid)
        by_document: dict[int, list[tuple[int, Message]]] = defaultdict(list)
        for key, message in enumerate(found, 1):
            by_document[message.document].append((key, message))
        positions: dict[int, int] = {}
        for members in by_document.values():
            members.sort(key=lambda member: (member[1].position, member[0]))
            positions |= {key: position for position, (key, _) in enumerate(members)}
        new_keys: dict[int, int] = {}
        documents = []
        names: set[tuple[str, str]] = set()
        for new_key, key in enumerate(sorted(self._documents), 1):
            new_keys[key] = new_key
            row, members = self._documents[key], by_document.get(key, [])
            row["id"] = _unique(names, "id", row["id"])
            row["source_id"] = _unique(names, f"source {row['source']}", row["source_id"])
            row["partial"] = bool(row["partial"])
            row["shared_ids"] = bool(row["shared_ids"])
            if row["head"] not in {message.id for _, message in members}:
                path = [message.id for _, message in members if message.canonical]
                row["head"] = path[-1] if path else None
            opening = members[0][0] if members else None
            columns = [row[name] for name in DOCUMENT_COLUMNS]
            documents.append((new_key, *columns, opening, len(members), 0))
        self._target.import_batch(Batch("receipt", (0,), [], True))
        self._write_rows("document", iter(documents))
        self._write_rows("passage", self._message_rows(found, new_keys, positions))

    def _message_rows(
        self, found: Sequence[Message], new_keys: Mapping[int, int], positions: Mapping[int, int]
    ) -> Iterator[tuple[Any, ...]]:
        for key, place in enumerate(found, 1):
            message = read_message(self._pages, place.cell, self._codec)
            assert message is not None
            columns = message.columns
            if message.id != place.id:
                passage = decode_passage(columns)._replace(id=place.id)
                columns = passage_row(passage, passage.position, passage.canonical)
            values = dict(zip(PASSAGE_COLUMNS, columns, strict=True))
            values |= {"position": positions[key], "canonical": message.canonical}
            if key % _MESSAGES_PER_REPORT == 0:
                self._progress("Writing", key, len(found))
            yield (key, new_keys[place.document], None, message.shared, *values.values())

    def _write_rows(self, table: str, rows: Iterator[tuple[Any, ...]]) -> None:
        """Write rows in batches. The last batch may be empty."""
        after = 0
        batch: list[tuple[Any, ...]] = []
        characters = 0

        def write_batch(*, is_last: bool) -> int:
            last = batch[-1][0] if batch else after
            highest = last if table == "passage" else 0
            self._target.import_batch(Batch(table, (after,), batch, is_last, highest))
            return last

        for row in rows:
            if len(batch) >= MAX_BATCH_ROWS or characters >= _MAX_BATCH_CHARACTERS:
                after = write_batch(is_last=False)
                batch, characters = [], 0
            batch.append(row)
            if table == "passage":
                characters += len(row[-1])
        write_batch(is_last=True)

    # -- the report ---

    def report(self, source: str) -> SalvageReport:
        documents, messages, expected = self._documents, self._messages, self._expected
        report = SalvageReport(source, len(documents), len(messages))
        report.altered_documents = self._altered_documents
        missing_ids: dict[int, list[str]] = defaultdict(list)
        for _, (document, id_) in sorted(expected.messages.items()):
            if (document, id_) not in messages:
                missing_ids[document].append(id_)
        rescued = Counter(document for document, _ in messages)
        for key, row in sorted(documents.items()):
            is_header_lost = row["passages"] is None
            count = expected.kinds.get(key, ("", "", 0))[2] if is_header_lost else row["passages"]
            missing = max(count - rescued[key], len(missing_ids[key]))
            if missing > 0 or is_header_lost:
                report.losses.append(
                    Loss(
                        row["id"],
                        row["title"],
                        rescued[key],
                        missing,
                        missing_ids[key],
                        is_header_lost,
                    )
                )
        for key, id_ in sorted(expected.ids.items()):
            if key not in documents and key not in self._observations:
                report.lost_documents.append(id_)
                report.missing_messages += len(missing_ids[key])
        report.missing_messages += sum(loss.missing for loss in report.losses)
        report.altered = [
            (documents[message.document]["id"], message.id)
            for message in messages.values()
            if message.is_altered
        ]
        return report


def _unique(names: set[tuple[str, str]], group: str, name: str) -> str:
    """A name that damage may have made equal to another one, with a number appended if so."""
    number, unique = 1, name
    while (group, unique) in names:
        number += 1
        unique = f"{name}-{number}"
    names.add((group, unique))
    return unique


def read_expected(pages: Pages) -> _Expected:
    def entries(index: str, *types: type | tuple[type, ...]) -> Iterator[list[Any]]:
        for values in read_index(pages, index):
            if len(values) == len(types) and all(map(isinstance, values, types)):
                yield values

    expected = _Expected()
    for document, id_, key in entries("sqlite_autoindex_passage_1", int, (str, bytes), int):
        expected.messages[key] = (document, unpack_id(id_) if isinstance(id_, bytes) else id_)
    for id_, key in entries("sqlite_autoindex_document_1", str, int):
        expected.ids[key] = id_
    for source, source_id, key in entries("sqlite_autoindex_document_2", str, str, int):
        expected.sources[key] = (source, source_id)
    for kind, _, project, count, key in entries("document_counts", str, str, str, int, int):
        expected.kinds[key] = (kind, project, count)
    return expected
