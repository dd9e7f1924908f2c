"""Cells of b-tree pages, and the records in them."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, NamedTuple

from recollect.transfer.salvage.pages import Pages

TABLE_LEAF = 0x0D
TABLE_INTERIOR = 0x05
INDEX_LEAF = 0x0A
INDEX_INTERIOR = 0x02
_LEAF_HEADER_BYTES = 8
_INTERIOR_HEADER_BYTES = 12
_FILE_HEADER_BYTES = 100
_MAX_PAYLOAD = 1_000_000_000
_MAX_COLUMNS = 100
# The bytes of a number by its serial type.
_NUMBER_BYTES = (0, 1, 2, 3, 4, 6, 8, 8, 0, 0)

Value = int | float | str | bytes | None


class Malformed(Exception):
    """The bytes are not what they should be."""


class Cell(NamedTuple):
    """Where a row of a table is, and its rowid."""

    page: int
    offset: int
    rowid: int


@dataclass(slots=True)
class TreePage:
    """A page of a b-tree."""

    number: int
    data: bytes
    type: int
    pointers: list[int]
    """The offsets of the cells that lie inside the page."""
    is_intact: bool
    """Whether all pointers do, and the page has no bytes that nothing refers to."""
    children: list[int]


def varint(data: bytes, offset: int) -> tuple[int, int]:
    """A number of variable length, and the offset after it."""
    value = 0
    for n in range(9):
        try:
            byte = data[offset + n]
        except IndexError:
            raise Malformed("a number is cut off") from None
        if n == 8:
            return value << 8 | byte, offset + 9
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, offset + n + 1
    raise AssertionError


# -- pages ---


def parse_page(pages: Pages, number: int, data: bytes) -> TreePage | None:
    """A page as a page of a b-tree; None if it does not begin like one."""
    start = 0
    if number == 1:
        start = _FILE_HEADER_BYTES
    type_ = data[start]
    if type_ not in (TABLE_LEAF, TABLE_INTERIOR, INDEX_LEAF, INDEX_INTERIOR):
        return None
    is_leaf = type_ in (TABLE_LEAF, INDEX_LEAF)
    header_bytes = _INTERIOR_HEADER_BYTES
    if is_leaf:
        header_bytes = _LEAF_HEADER_BYTES
    count = int.from_bytes(data[start + 3 : start + 5], "big")
    first = start + header_bytes
    available = (pages.usable - first) // 2
    pointers = struct.unpack_from(f">{min(count, available)}H", data, first)
    lowest = first + 2 * count
    inside = [pointer for pointer in pointers if lowest <= pointer < pages.usable - 3]
    page = TreePage(number, data, type_, inside, len(inside) == count, [])
    if not is_leaf:
        page.children = [int.from_bytes(data[p : p + 4], "big") for p in inside]
        page.children.append(int.from_bytes(data[start + 8 : start + 12], "big"))
    if type_ == TABLE_LEAF and page.is_intact:
        page.is_intact = _is_covered(pages, page, start, lowest)
    return page


def _is_covered(pages: Pages, page: TreePage, start: int, lowest: int) -> bool:
    """Whether cells, free blocks and the gap between pointers and cells fill a leaf exactly."""
    data = page.data
    content_start = int.from_bytes(data[start + 5 : start + 7], "big") or 65536
    total = content_start + data[start + 7]
    if content_start < lowest or content_start > pages.usable:
        return False
    try:
        total += sum(_cell_bytes(pages, data, pointer) for pointer in page.pointers)
    except Malformed:
        return False
    block = int.from_bytes(data[start + 1 : start + 3], "big")
    while block and total <= pages.usable:
        block, size = struct.unpack_from(">HH", data, min(block, pages.usable - 4))
        total += max(size, 4)
    return total == pages.usable


def cell_head(data: bytes, offset: int) -> tuple[int, int, int]:
    """The size of the payload of a cell of a table, its rowid, and the offset of the payload."""
    size, position = varint(data, offset)
    rowid, position = varint(data, position)
    if rowid >= 1 << 63:
        rowid -= 1 << 64
    return size, rowid, position


def _cell_bytes(pages: Pages, data: bytes, offset: int) -> int:
    """The bytes of a cell of a table that are on its page."""
    size, _, position = cell_head(data, offset)
    local = local_bytes(pages.usable, size, pages.usable - 35)
    if local < size:
        local += 4
    return max(position - offset + local, 4)


def local_bytes(usable: int, size: int, max_local: int) -> int:
    """How many bytes of a payload are on the page itself; the others are on overflow pages."""
    if size <= max_local:
        return size
    min_local = (usable - 12) * 32 // 255 - 23
    local = min_local + (size - min_local) % (usable - 4)
    if local <= max_local:
        return local
    return min_local


def overflow_pages(pages: Pages, page: TreePage) -> set[int]:
    """The overflow pages of all cells of a page."""
    numbers: set[int] = set()
    if page.type == TABLE_INTERIOR:
        return numbers
    max_local = pages.usable - 35
    if page.type != TABLE_LEAF:
        max_local = (pages.usable - 12) * 64 // 255 - 23
    for pointer in page.pointers:
        try:
            numbers |= _overflow_chain(pages, page, pointer, max_local)
        except Malformed:
            continue
    return numbers


def _overflow_chain(pages: Pages, page: TreePage, offset: int, max_local: int) -> set[int]:
    if page.type == INDEX_INTERIOR:
        offset += 4
    size, offset = varint(page.data, offset)
    numbers: set[int] = set()
    if size <= max_local or size > _MAX_PAYLOAD:
        return numbers
    if page.type == TABLE_LEAF:
        _, offset = varint(page.data, offset)
    local = local_bytes(pages.usable, size, max_local)
    number = int.from_bytes(page.data[offset + local : offset + local + 4], "big")
    remaining = size - local
    while remaining > 0 and 1 < number <= pages.count and number not in numbers:
        numbers.add(number)
        remaining -= pages.usable - 4
        number = int.from_bytes(pages.read(number)[:4], "big")
    return numbers


# -- payloads and records ---


def table_payload(pages: Pages, data: bytes, offset: int) -> tuple[int, bytes]:
    """The rowid and the payload of a cell of a table."""
    size, rowid, position = cell_head(data, offset)
    return rowid, _payload(pages, data, position, size, pages.usable - 35)


def index_payload(pages: Pages, page: TreePage, offset: int) -> bytes:
    if page.type == INDEX_INTERIOR:
        offset += 4
    size, position = varint(page.data, offset)
    return _payload(pages, page.data, position, size, (pages.usable - 12) * 64 // 255 - 23)


def _payload(pages: Pages, data: bytes, offset: int, size: int, max_local: int) -> bytes:
    if size > min(_MAX_PAYLOAD, pages.count * pages.usable):
        raise Malformed("a payload is larger than the file")
    local = local_bytes(pages.usable, size, max_local)
    parts = [data[offset : min(offset + local, pages.usable)]]
    if len(parts[0]) < local:
        raise Malformed("a payload does not fit on its page")
    remaining = size - local
    next_page = b""
    if remaining:
        next_page = data[offset + local : offset + local + 4]
    while remaining > 0:
        number = int.from_bytes(next_page, "big")
        if not 1 < number <= pages.count:
            raise Malformed("an overflow page does not exist")
        page = pages.read(number)
        parts.append(page[4 : 4 + min(remaining, pages.usable - 4)])
        remaining -= len(parts[-1])
        next_page = page[:4]
    return b"".join(parts)


def serial_types(payload: bytes, offset: int = 0) -> tuple[list[int], int]:
    """The types of the columns of a record, and the offset of the first value."""
    size, position = varint(payload, offset)
    end = offset + size
    types: list[int] = []
    while position < end and len(types) <= _MAX_COLUMNS:
        type_, position = varint(payload, position)
        types.append(type_)
    if position != end:
        raise Malformed("the header of a record has another size")
    return types, end


def content_bytes(type_: int) -> int:
    """The size of a value."""
    if type_ >= 12:
        return (type_ - 12) // 2
    if type_ >= 10:
        raise Malformed("a type that does not exist")
    return _NUMBER_BYTES[type_]


def decode_record(payload: bytes) -> list[Value]:
    types, position = serial_types(payload)
    values: list[Value] = []
    for type_ in types:
        size = content_bytes(type_)
        data = payload[position : position + size]
        if len(data) < size:
            raise Malformed("a record is cut off")
        values.append(_decode(type_, data))
        position += size
    if position != len(payload):
        raise Malformed("a record has another size")
    return values


def _decode(type_: int, data: bytes) -> Any:
    match type_:
        case 0:
            return None
        case 7:
            return struct.unpack(">d", data)[0]
        case 8 | 9:
            return type_ - 8
        case _ if type_ < 7:
            return int.from_bytes(data, "big", signed=True)
        case _ if type_ % 2:
            return data.decode("utf-8", "surrogateescape")
        case _:
            return data
