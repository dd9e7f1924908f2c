"""Recognise the rows of documents and messages, wherever they are in a file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from recollect.transfer.salvage.cells import (
    INDEX_INTERIOR,
    INDEX_LEAF,
    TABLE_INTERIOR,
    TABLE_LEAF,
    Cell,
    Malformed,
    TreePage,
    Value,
    cell_head,
    content_bytes,
    decode_record,
    index_payload,
    overflow_pages,
    parse_page,
    serial_types,
    table_payload,
)
from recollect.transfer.salvage.pages import Pages

# The columns of each table with their types: Integer, Text, Blob, Null. The order is that of the
# file.
PASSAGE = (
    ("key", "N"),
    ("document", "I"),
    ("position", "I"),
    ("canonical", "I"),
    ("created_at", "IN"),
    ("role", "TN"),
    ("type", "T"),
    ("visibility", "T"),
    ("author", "TN"),
    ("receipt", "IN"),
    ("shared", "I"),
    ("packed_id", "TB"),
    ("parent_id", "TBN"),
    ("model", "TN"),
    ("tool", "TN"),
    ("updated_at", "IN"),
    ("digest", "B"),
    ("attachments", "TN"),
    ("citations", "TN"),
    ("details", "TN"),
    ("original", "TN"),
    ("body", "TB"),
)
DOCUMENT = (
    ("key", "N"),
    ("id", "T"),
    ("source", "T"),
    ("source_id", "T"),
    ("kind", "T"),
    ("title", "T"),
    ("project", "T"),
    ("created_at", "IN"),
    ("updated_at", "IN"),
    ("head", "TN"),
    ("opening", "IN"),
    ("passages", "I"),
    ("metadata", "TN"),
    ("original", "TN"),
    ("partial", "I"),
    ("shared_ids", "I"),
    ("version", "I"),
    ("media_type", "TN"),
    ("character_id", "TN"),
    ("observed", "I"),
    ("heading", "TN"),
    ("pinned", "IN"),
    ("folded_title", "T"),
    ("folded_id", "TN"),
    ("tags", "T"),
    ("tag_names", "TN"),
)
_MIN_DOCUMENT_COLUMNS = 16
# The header of a record of either table is at least this many bytes long, and rarely longer.
_HEADER_BYTES = range(_MIN_DOCUMENT_COLUMNS + 1, 128)
# The bytes of the two numbers before a record.
_MAX_PREFIX_BYTES = 14

Row = dict[str, Any]


@dataclass(slots=True)
class Cells:
    """Where the rows of documents and messages are."""

    documents: set[Cell] = field(default_factory=set)
    passages: set[Cell] = field(default_factory=set)
    damaged_pages: list[int] = field(default_factory=list)

    def add(self, types: Sequence[int], cell: Cell) -> None:
        """Add a row if it has the shape of a document or a message."""
        if _is_passage(types):
            self.passages.add(cell)
        elif _is_document(types):
            self.documents.add(cell)


def _is_row(types: Sequence[int]) -> bool:
    return _is_passage(types) or _is_document(types)


def _is_passage(types: Sequence[int]) -> bool:
    return _fits(types, PASSAGE, len(PASSAGE))


def _is_document(types: Sequence[int]) -> bool:
    return _fits(types, DOCUMENT, _MIN_DOCUMENT_COLUMNS)


def _fits(types: Sequence[int], columns: Sequence[tuple[str, str]], least: int) -> bool:
    if not least <= len(types) <= len(columns):
        return False
    return all(_kind(type_) in kinds for type_, (_, kinds) in zip(types, columns, strict=False))


def _kind(type_: int) -> str:
    if type_ == 0:
        return "N"
    if type_ in (1, 2, 3, 4, 5, 6, 8, 9):
        return "I"
    if type_ < 12:
        return "?"
    return "BT"[type_ % 2]


# -- looking at every page ---


def find_cells(pages: Pages) -> Cells:
    cells = Cells()
    free = pages.free_pages()
    overflow: set[int] = set()
    unknown: list[int] = []
    for number in range(1, pages.count + 1):
        if number in free:
            continue
        data = pages.read(number)
        page = parse_page(pages, number, data)
        if page is None:
            if any(data):
                unknown.append(number)
            continue
        overflow |= overflow_pages(pages, page)
        if page.type == TABLE_LEAF:
            _add_cells(pages, page, cells)
        if not page.is_intact:
            cells.damaged_pages.append(number)
            _search_page(pages, number, data, cells)
    for number in unknown:
        if number not in overflow:
            cells.damaged_pages.append(number)
            _search_page(pages, number, pages.read(number), cells)
    cells.damaged_pages.sort()
    return cells


def _add_cells(pages: Pages, page: TreePage, cells: Cells) -> None:
    for pointer in page.pointers:
        try:
            _, rowid, position = cell_head(page.data, pointer)
            types, _ = serial_types(page.data, position)
        except Malformed:
            continue
        cells.add(types, Cell(page.number, pointer, rowid))


def _search_page(pages: Pages, number: int, data: bytes, cells: Cells) -> None:
    """Look for rows at every offset of a page whose list of cells is damaged."""
    for position in range(2, pages.usable - _MIN_DOCUMENT_COLUMNS):
        # A record begins with the size of its header, and the first column is null.
        if data[position + 1] or data[position] not in _HEADER_BYTES:
            continue
        try:
            types, end = serial_types(data, position)
            size = end - position + sum(map(content_bytes, types))
        except Malformed:
            continue
        if not _is_row(types):
            continue
        for offset in range(max(position - _MAX_PREFIX_BYTES, 0), position - 1):
            payload_size, rowid, start = cell_head(data, offset)
            if (payload_size, start) == (size, position):
                cells.add(types, Cell(number, offset, rowid))


# -- reading rows ---


def read_row(pages: Pages, cell: Cell, columns: Sequence[tuple[str, str]]) -> Row:
    """The columns of a row by name. Raises Malformed."""
    _, payload = table_payload(pages, pages.read(cell.page), cell.offset)
    names = [name for name, _ in columns]
    row = dict.fromkeys(names) | dict(zip(names, decode_record(payload), strict=False))
    return row | {"key": cell.rowid}


# -- indexes ---


def read_index(pages: Pages, name: str) -> Iterator[list[Value]]:
    """The entries of an index, as far as its pages can be read."""
    root = _roots(pages).get(name)
    if root is not None:
        yield from _index_entries(pages, root)


def _roots(pages: Pages) -> dict[str, int]:
    """The first page of each table and index, from the schema."""
    roots: dict[str, int] = {}
    for page in _tree(pages, 1, (TABLE_LEAF, TABLE_INTERIOR)):
        if page.type != TABLE_LEAF:
            continue
        for pointer in page.pointers:
            try:
                _, payload = table_payload(pages, page.data, pointer)
                _, name, _, root, *_ = decode_record(payload)
            except (Malformed, ValueError):
                continue
            if isinstance(name, str) and isinstance(root, int):
                roots[name] = root
    return roots


def _index_entries(pages: Pages, root: int) -> Iterator[list[Value]]:
    for page in _tree(pages, root, (INDEX_LEAF, INDEX_INTERIOR)):
        for pointer in page.pointers:
            try:
                yield decode_record(index_payload(pages, page, pointer))
            except Malformed:
                continue


def _tree(pages: Pages, root: int, types: tuple[int, int]) -> Iterator[TreePage]:
    """The pages of a b-tree, as far as they can be reached."""
    pending = [root]
    visited: set[int] = set()
    while pending:
        number = pending.pop()
        if number in visited or not 1 <= number <= pages.count:
            continue
        visited.add(number)
        page = parse_page(pages, number, pages.read(number))
        if page is not None and page.type in types:
            yield page
            pending += page.children
