"""Copy everything that can be read in a damaged file to a new library.

Receipts of imports are not rescued, so imports in the new
library cannot be undone. Derived data, such as observations, is made again.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from recollect.errors import InvalidInput, RecollectError
from recollect.model.kinds import CONVERSATION, OBSERVATION
from recollect.progress import Progress, ignore_progress
from recollect.store.base import Store
from recollect.store.sql.copying.transfer import MAX_BATCH_ROWS
from recollect.store.sql.encoding import DOCUMENT_COLUMNS, PASSAGE_COLUMNS
from recollect.store.sqlite.passages.compression import unpack_id
from recollect.store.values import Batch
from recollect.transfer.salvage.cells import Cell
from recollect.transfer.salvage.pages import Pages
from recollect.transfer.salvage.reading import (
    Message,
    MessageReader,
    read_document,
    with_id,
)
from recollect.transfer.salvage.report import Loss, SalvageReport
from recollect.transfer.salvage.rows import Cells, Row, find_cells, read_index

_MAX_BATCH_CHARACTERS = 16_000_000
_MESSAGES_PER_REPORT = 1_000
_POSITION = PASSAGE_COLUMNS.index("position")
_CANONICAL = PASSAGE_COLUMNS.index("canonical")
_SOURCE = "salvage"
"""The source of documents whose own is lost."""


class _Entry(NamedTuple):
    """A message that can be read, without its text."""

    cell: Cell
    document: int
    id: str
    position: int
    canonical: bool
    is_altered: bool


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
    before = _stamp(source)
    with Pages(source) as pages:
        cells = find_cells(pages)
        if not cells.passages and not cells.documents:
            raise InvalidInput(f"{source} contains no conversations that can be read.")
        report = _Rescue(pages, cells, target, progress or ignore_progress).run(source)
    if _stamp(source) != before:
        raise RecollectError(
            f"{source} was written to while it was read. Stop the programs that use it, remove the "
            "new library and run the same command again."
        )
    target.complete_move()
    return report


def _stamp(source: Path) -> list[tuple[int, int]]:
    stamps = []
    for path in (source, source.with_name(f"{source.name}-wal")):
        if path.exists():
            about = path.stat()
            stamps.append((about.st_size, about.st_mtime_ns))
    return stamps


class _Rescue:
    def __init__(self, pages: Pages, cells: Cells, target: Store, progress: Progress) -> None:
        self._pages = pages
        self._cells = cells
        self._target = target
        self._progress = progress
        self._reader = MessageReader(pages)
        self._expected = _read_expected(pages)
        self._documents: dict[int, Row] = {}
        self._messages: dict[tuple[int, str], _Entry] = {}
        """By document and id. Digests do not cover keys, so these may be wrong."""
        self._observations: set[int] = set()
        """The keys of documents with observations."""
        self._report = SalvageReport("")

    def run(self, source: Path) -> SalvageReport:
        self._report.source = str(source)
        self._report.damaged_pages = self._cells.damaged_pages
        self._read_documents()
        self._read_messages()
        self._add_lost_documents()
        self._write()
        self._describe()
        return self._report

    # -- reading ---

    def _read_documents(self) -> None:
        for number, (kind, _, _) in self._expected.kinds.items():
            if kind == OBSERVATION:
                self._observations.add(number)
        keys = {id_: key for key, id_ in self._expected.ids.items()}
        for cell in sorted(self._cells.documents):
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
                self._report.altered_documents.append(row["id"])

    def _read_messages(self) -> None:
        total = len(self._cells.passages)
        for count, cell in enumerate(sorted(self._cells.passages), 1):
            message = self._reader.read(cell)
            if count % _MESSAGES_PER_REPORT == 0:
                self._progress("Reading", count, total)
            if message is None:
                continue
            document, id_ = self._identity(message)
            if document in self._observations:
                continue
            other = self._messages.get((document, id_))
            if other is None or other.is_altered:
                self._messages[document, id_] = _Entry(
                    cell, document, id_, message.position, message.canonical, message.is_altered
                )

    def _identity(self, message: Message) -> tuple[int, str]:
        """The document and the id of a message. If they are damaged, the index may have them."""
        identity = (message.document, message.id)
        expected = self._expected.messages.get(message.key, identity)
        if message.document not in self._documents:
            identity = (expected[0], identity[1])
        if message.is_altered and expected[0] == identity[0]:
            identity = expected
        return identity

    def _add_lost_documents(self) -> None:
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

    def _write(self) -> None:
        """Write everything with new keys, because the old ones may be damaged."""
        entries = sorted(self._messages.values(), key=lambda entry: entry.cell.rowid)
        by_document: dict[int, list[tuple[int, _Entry]]] = defaultdict(list)
        for key, entry in enumerate(entries, 1):
            by_document[entry.document].append((key, entry))
        positions: dict[int, int] = {}
        for members in by_document.values():
            members.sort(key=lambda member: (member[1].position, member[0]))
            positions |= {key: position for position, (key, _) in enumerate(members)}
        names = _UniqueNames()
        new_keys: dict[int, int] = {}
        documents = []
        for new_key, key in enumerate(sorted(self._documents), 1):
            new_keys[key] = new_key
            documents.append(self._document_row(new_key, key, by_document.get(key, []), names))
        self._target.import_batch(Batch("receipt", (0,), [], True))
        self._write_rows("document", iter(documents))
        self._write_rows("passage", self._message_rows(entries, new_keys, positions))
        self._report.documents = len(documents)
        self._report.messages = len(entries)

    def _document_row(
        self, new_key: int, key: int, members: list[tuple[int, _Entry]], names: _UniqueNames
    ) -> tuple[Any, ...]:
        row = self._documents[key]
        row["id"] = names.unique("id", row["id"])
        row["source_id"] = names.unique(f"source {row['source']}", row["source_id"])
        row["partial"] = bool(row["partial"])
        row["shared_ids"] = bool(row["shared_ids"])
        if row["head"] not in {entry.id for _, entry in members}:
            row["head"] = _last_id([entry for _, entry in members])
        opening = None
        if members:
            opening = members[0][0]
        columns = [row[name] for name in DOCUMENT_COLUMNS]
        return (new_key, *columns, opening, len(members), 0)

    def _message_rows(
        self, entries: Sequence[_Entry], new_keys: Mapping[int, int], positions: Mapping[int, int]
    ) -> Iterator[tuple[Any, ...]]:
        for key, entry in enumerate(entries, 1):
            message = self._reader.read(entry.cell)
            assert message is not None
            columns = list(message.columns)
            columns[_POSITION] = positions[key]
            columns[_CANONICAL] = message.canonical
            if message.id != entry.id:
                columns = list(with_id(columns, entry.id))
            if key % _MESSAGES_PER_REPORT == 0:
                self._progress("Writing", key, len(entries))
            yield (key, new_keys[entry.document], None, message.shared, *columns)

    def _write_rows(self, table: str, rows: Iterator[tuple[Any, ...]]) -> None:
        """Write rows in batches. The last batch may be empty."""
        after = 0
        batch: list[tuple[Any, ...]] = []
        characters = 0
        for row in rows:
            if len(batch) >= MAX_BATCH_ROWS or characters >= _MAX_BATCH_CHARACTERS:
                after = self._write_batch(table, after, batch, is_last=False)
                batch, characters = [], 0
            batch.append(row)
            if table == "passage":
                characters += len(row[-1])
        self._write_batch(table, after, batch, is_last=True)

    def _write_batch(
        self, table: str, after: int, rows: Sequence[tuple[Any, ...]], *, is_last: bool
    ) -> int:
        last_key = after
        if rows:
            last_key = rows[-1][0]
        highest_key = 0
        if table == "passage":
            highest_key = last_key
        self._target.import_batch(Batch(table, (after,), rows, is_last, highest_key))
        return last_key

    # -- the report ---

    def _describe(self) -> None:
        report = self._report
        known_documents = self._documents.keys() | self._expected.ids.keys()
        known_documents -= self._observations
        missing_ids: dict[int, list[str]] = defaultdict(list)
        missing_keys = []
        for key, (document, id_) in sorted(self._expected.messages.items()):
            if (document, id_) not in self._messages and document in known_documents:
                missing_ids[document].append(id_)
                missing_keys.append(key)
        report.missing_rows = _ranges(missing_keys)
        rescued = Counter(document for document, _ in self._messages)
        for key, row in sorted(self._documents.items()):
            self._describe_document(key, row, rescued[key], missing_ids.get(key, []))
        for key, id_ in sorted(self._expected.ids.items()):
            if key not in self._documents and key not in self._observations:
                report.lost_documents.append(id_)
                report.missing_messages += len(missing_ids.get(key, []))
        report.missing_messages += sum(loss.missing for loss in report.losses)
        report.altered = [
            (self._documents[entry.document]["id"], entry.id)
            for entry in self._messages.values()
            if entry.is_altered
        ]

    def _describe_document(self, key: int, row: Row, rescued: int, missing_ids: list[str]) -> None:
        expected = row["passages"]
        if expected is None:
            expected = self._expected.kinds.get(key, ("", "", 0))[2]
        missing = max(expected - rescued, len(missing_ids))
        is_header_lost = row["passages"] is None
        if missing > 0 or is_header_lost:
            self._report.losses.append(
                Loss(row["id"], row["title"], rescued, missing, missing_ids, is_header_lost)
            )


class _UniqueNames:
    """Names that damage may have made equal."""

    def __init__(self) -> None:
        self._names: dict[str, set[str]] = defaultdict(set)

    def unique(self, group: str, name: str) -> str:
        number = 2
        result = name
        while result in self._names[group]:
            result = f"{name}-{number}"
            number += 1
        self._names[group].add(result)
        return result


def _last_id(entries: Sequence[_Entry]) -> str | None:
    """The last message of the canonical path."""
    canonical = [entry.id for entry in entries if entry.canonical]
    if canonical:
        return canonical[-1]
    return None


def _read_expected(pages: Pages) -> _Expected:
    expected = _Expected()
    messages = _entries(pages, "sqlite_autoindex_passage_1", (int, (str, bytes), int))
    for document, id_, key in messages:
        if isinstance(id_, bytes):
            id_ = unpack_id(id_)
        expected.messages[key] = (document, id_)
    for id_, key in _entries(pages, "sqlite_autoindex_document_1", (str, int)):
        expected.ids[key] = id_
    for source, source_id, key in _entries(pages, "sqlite_autoindex_document_2", (str, str, int)):
        expected.sources[key] = (source, source_id)
    for kind, _, project, count, key in _entries(
        pages, "document_counts", (str, str, str, int, int)
    ):
        expected.kinds[key] = (kind, project, count)
    return expected


def _entries(
    pages: Pages, index: str, types: tuple[type | tuple[type, ...], ...]
) -> Iterator[list[Any]]:
    """The entries of an index that have the right types."""
    for values in read_index(pages, index):
        if len(values) == len(types) and all(map(isinstance, values, types)):
            yield values


def _ranges(keys: Sequence[int]) -> list[tuple[int, int]]:
    ranges: list[tuple[int, int]] = []
    for key in keys:
        if ranges and ranges[-1][1] == key - 1:
            ranges[-1] = (ranges[-1][0], key)
        else:
            ranges.append((key, key))
    return ranges
