"""The pages of a damaged SQLite file, and the records in them.

SQLite gives up where a b-tree is broken. This module does not use SQLite: it reads every page by
itself, with those that are still in the write-ahead log, and recognises records by their shape. The
format is described at https://www.sqlite.org/fileformat2.html.

The file is opened directly, so no connection of this process may have it open: closing the file
would drop the locks of SQLite.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from recollect.errors import DamagedLibrary
from recollect.store.sqlite.encryption import data_key

TABLE_LEAF, TABLE_INTERIOR = 0x0D, 0x05
INDEX_LEAF, INDEX_INTERIOR = 0x0A, 0x02
_MAGIC = b"SQLite format 3\0"
_FILE_HEADER_BYTES = 100
_PAGE_SIZE = 8192
"""The size of the pages of every library, in case that the file's header is damaged."""
_PAGE_SIZES = (512, 1024, 2048, 4096, 8192, 16384, 32768, 65536)
_LOG_MAGIC = (0x377F0682, 0x377F0683)
_LOG_HEADER_BYTES, _FRAME_HEADER_BYTES = 32, 24
_MAX_PAYLOAD = 1_000_000_000
_MAX_COLUMNS = 100
_NUMBER_BYTES = (0, 1, 2, 3, 4, 6, 8, 8, 0, 0)
"""The bytes of a number by its serial type."""
_RECORD = re.compile(rb"(?=[\x11-\x7f]\0)")
"""Where a record may begin: with the size of its header, and a first column that is null."""
_MAX_PREFIX_BYTES = 14
"""The bytes of the two numbers before a record."""

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
    pointers: Sequence[int]
    """The offsets of its cells."""
    children: list[int]

    @property
    def max_local(self) -> int:
        """How many bytes of a payload fit on the page."""
        usable = len(self.data)
        if self.type == TABLE_LEAF:
            return usable - 35
        return (usable - 12) * 64 // 255 - 23


class Pages:
    """Reads pages by number. The first page has number 1."""

    def __init__(self, path: Path) -> None:
        key = data_key(path)
        self._key = None if key is None else key.for_databases
        self._frames: dict[int, int] = {}
        """Where the log has the content of a page."""
        self._log: BinaryIO | None = None
        self._files = ExitStack()
        try:
            self._file = self._files.enter_context(path.open("rb"))
            size = path.stat().st_size
            if size == 0:
                raise DamagedLibrary(f"{path} is empty: there is nothing to rescue.")
            header = self._file.read(_FILE_HEADER_BYTES)
            self.page_size, reserved = _PAGE_SIZE, 32 if self._key else 0
            if header.startswith(_MAGIC) or self._key:
                stored_size = int.from_bytes(header[16:18], "big")
                stored_size = 65536 if stored_size == 1 else stored_size
                if stored_size in _PAGE_SIZES:
                    self.page_size = stored_size
                reserved = header[20] if header[20] <= 64 else reserved
            self.usable = self.page_size - reserved
            self.count = -(-size // self.page_size)
            self._read_log(path.with_name(f"{path.name}-wal"))
        except BaseException:  # nobody else would close the files
            self.close()
            raise

    def __enter__(self) -> Pages:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._files.close()

    def read(self, number: int) -> bytes:
        """The usable part of a page; zeros where the file is too short."""
        if number in self._frames and self._log is not None:
            self._log.seek(self._frames[number])
            page = self._log.read(self.page_size)
        else:
            self._file.seek((number - 1) * self.page_size)
            page = self._file.read(self.page_size).ljust(self.page_size, b"\0")
        if self._key is not None:
            page = decrypt(self._key, number, page)
        return page[: self.usable]

    def free_pages(self) -> set[int]:
        """The pages that the file does not use."""
        first_page = self.read(1)
        free: set[int] = set()
        trunk = 0
        if first_page.startswith(_MAGIC):
            trunk = int.from_bytes(first_page[32:36], "big")
        while 1 < trunk <= self.count and trunk not in free:
            free.add(trunk)
            page = self.read(trunk)
            trunk, leaves = struct.unpack_from(">II", page)
            free.update(struct.unpack_from(f">{min(leaves, (len(page) - 8) // 4)}I", page, 8))
        return free

    def _read_log(self, path: Path) -> None:
        """Find the pages of complete transactions in the write-ahead log.

        The checksum of a frame continues that of the frame before. A damaged frame is skipped, and
        so is the next one if it was the checksum that was damaged.
        """
        if not path.exists() or path.stat().st_size < _LOG_HEADER_BYTES:
            return
        self._log = log = self._files.enter_context(path.open("rb"))
        header = log.read(_LOG_HEADER_BYTES)
        magic, _, page_size = struct.unpack_from(">III", header)
        order = ">" if magic == _LOG_MAGIC[1] else "<"
        if magic in _LOG_MAGIC and page_size != self.page_size:
            return
        checksum = struct.unpack_from(">II", header, 24)
        transaction: dict[int, int] = {}
        while True:
            offset = log.tell()
            frame = log.read(_FRAME_HEADER_BYTES + self.page_size)
            if len(frame) < _FRAME_HEADER_BYTES + self.page_size:
                return
            if frame[8:16] != header[16:24]:
                continue
            number, size_after_commit, *_, first, second = struct.unpack_from(">6I", frame)
            data = frame[:8] + frame[_FRAME_HEADER_BYTES:]
            if _checksum(data, order, checksum) == (first, second):
                transaction[number] = offset + _FRAME_HEADER_BYTES
                if size_after_commit:
                    self._frames |= transaction
                    self.count = size_after_commit
                    transaction.clear()
            checksum = (first, second)


def _checksum(data: bytes, order: str, start: tuple[int, ...]) -> tuple[int, int]:
    first, second = start
    words = struct.unpack(f"{order}{len(data) // 4}I", data)
    for n in range(0, len(words), 2):
        first = (first + words[n] + second) & 0xFFFFFFFF
        second = (second + words[n + 1] + first) & 0xFFFFFFFF
    return first, second


def decrypt(key: bytes, number: int, page: bytes) -> bytes:
    """A page that was encrypted by the scheme "chacha20" of SQLite3 Multiple Ciphers.

    It ends with a nonce, a counter and a tag. ChaCha20 with the key of the database makes a key for
    the page. The first 24 bytes of a file are not encrypted. A changed byte changes one byte of the
    text, so the tag is not checked: every message has a digest of its own.
    """
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms

    end = len(page) - 32
    start = 24 if number == 1 else 0
    nonce, counter = struct.unpack_from("<12sI", page, end)
    counter ^= number

    def chacha20(key: bytes, counter: int, data: bytes) -> bytes:
        block = struct.pack("<I", counter & 0xFFFFFFFF) + nonce
        return Cipher(algorithms.ChaCha20(key, block), mode=None).encryptor().update(data)

    page_key = chacha20(key, counter, bytes(64))[32:]
    header = _MAGIC + page[len(_MAGIC) : start] if start else b""
    return header + chacha20(page_key, counter + 1, page[start:end]) + page[end:]


# -- pages of b-trees --------------------------------------------------------


def parse_page(pages: Pages, number: int) -> TreePage | None:
    """A page as a page of a b-tree; None if it does not begin like one."""
    data = pages.read(number)
    start = _FILE_HEADER_BYTES if number == 1 else 0
    type_ = data[start]
    if type_ not in (TABLE_LEAF, TABLE_INTERIOR, INDEX_LEAF, INDEX_INTERIOR):
        return None
    is_leaf = type_ in (TABLE_LEAF, INDEX_LEAF)
    first = start + (8 if is_leaf else 12)
    count = int.from_bytes(data[start + 3 : start + 5], "big")
    count = min(count, (len(data) - first) // 2)
    pointers = struct.unpack_from(f">{count}H", data, first)
    page = TreePage(number, data, type_, pointers, [])
    if not is_leaf:
        inside = [p for p in pointers if p < len(data) - 3]
        page.children = [int.from_bytes(data[p : p + 4], "big") for p in inside]
        page.children.append(int.from_bytes(data[start + 8 : start + 12], "big"))
    return page


def find_rows(pages: Pages, table_of: Callable[[Sequence[int]], str]) -> Iterator[tuple[str, Cell]]:
    """Where the rows of tables are in the file, by the serial types of their columns.

    `table_of` says to which table such a row belongs. In a page whose list of cells is damaged,
    every offset is looked at.
    """
    free = pages.free_pages()
    for number in range(1, pages.count + 1):
        if number in free:
            continue
        page = parse_page(pages, number)
        if page is not None and page.type != TABLE_LEAF:
            continue
        rows: set[tuple[str, Cell]] = set()
        try:
            if page is None or not page.pointers:
                raise Malformed("no list of cells")
            for offset in page.pointers:
                types, rowid = cell_types(page.data, offset)
                rows.add((table_of(types), Cell(number, offset, rowid)))
        except Malformed:
            rows |= set(search_page(number, pages.read(number), table_of))
        yield from ((table, cell) for table, cell in rows if table)


def cell_types(data: bytes, offset: int) -> tuple[list[int], int]:
    """The serial types of the columns of a row, and its rowid."""
    size, rowid, position = cell_head(data, offset)
    types, end = serial_types(data, position)
    if size != end - position + sum(map(content_bytes, types)):
        raise Malformed("a record has another size")
    return types, rowid


def search_page(
    number: int, data: bytes, table_of: Callable[[Sequence[int]], str]
) -> Iterator[tuple[str, Cell]]:
    for match in _RECORD.finditer(data):
        position = match.start()
        try:
            table = table_of(serial_types(data, position)[0])
        except Malformed:
            continue
        if not table:
            continue
        for offset in range(max(position - _MAX_PREFIX_BYTES, 0), position - 1):
            try:
                if cell_head(data, offset)[2] == position:
                    _, rowid = cell_types(data, offset)
                    yield table, Cell(number, offset, rowid)
            except Malformed:
                continue


def read_index(pages: Pages, name: str) -> Iterator[list[Value]]:
    """The entries of an index, as far as its pages can be reached and read."""
    roots: dict[Value, Value] = {}
    for page in tree(pages, 1, (TABLE_LEAF, TABLE_INTERIOR)):
        for record in records(pages, page) if page.type == TABLE_LEAF else ():
            if len(record) > 3:  # a row of the schema: type, name, table, first page
                roots[record[1]] = record[3]
    root = roots.get(name)
    if isinstance(root, int):
        for page in tree(pages, root, (INDEX_LEAF, INDEX_INTERIOR)):
            yield from records(pages, page)


def tree(pages: Pages, root: int, types: tuple[int, int]) -> Iterator[TreePage]:
    """The pages of a b-tree, as far as they can be reached."""
    pending = [root]
    visited: set[int] = set()
    while pending:
        number = pending.pop()
        if number in visited or not 1 <= number <= pages.count:
            continue
        visited.add(number)
        page = parse_page(pages, number)
        if page is not None and page.type in types:
            yield page
            pending += page.children


def records(pages: Pages, page: TreePage) -> Iterator[list[Value]]:
    for pointer in page.pointers:
        try:
            yield read_record(pages, page, pointer)
        except (Malformed, ValueError):
            continue


# -- records -----------------------------------------------------------------


def read_row(pages: Pages, cell: Cell) -> list[Value]:
    """The columns of a row. Raises Malformed."""
    return read_record(
        pages, TreePage(cell.page, pages.read(cell.page), TABLE_LEAF, (), []), cell[1]
    )


def cell_head(data: bytes, offset: int) -> tuple[int, int, int]:
    """The size of the payload of a cell of a table, its rowid, and the offset of the payload."""
    size, position = varint(data, offset)
    rowid, position = varint(data, position)
    return size, rowid - (1 << 64) if rowid >= 1 << 63 else rowid, position


def local_bytes(usable: int, size: int, max_local: int) -> int:
    """How many bytes of a payload are on the page itself; the others are on overflow pages."""
    if size <= max_local:
        return size
    min_local = (usable - 12) * 32 // 255 - 23
    local = min_local + (size - min_local) % (usable - 4)
    return local if local <= max_local else min_local


def read_record(pages: Pages, page: TreePage, offset: int) -> list[Value]:
    """The values of a cell. Raises Malformed."""
    data = page.data
    if page.type == INDEX_INTERIOR:
        offset += 4
    size, offset = varint(data, offset)
    if page.type == TABLE_LEAF:
        _, offset = varint(data, offset)
    if size > min(_MAX_PAYLOAD, pages.count * pages.usable):
        raise Malformed("a payload is larger than the file")
    local = local_bytes(pages.usable, size, page.max_local)
    parts = [data[offset : offset + local]]
    if len(parts[0]) < local:
        raise Malformed("a payload does not fit on its page")
    remaining = size - local
    next_page = data[offset + local : offset + local + 4]
    while remaining > 0:
        number = int.from_bytes(next_page, "big")
        if not 1 < number <= pages.count:
            raise Malformed("an overflow page does not exist")
        overflow = pages.read(number)
        parts.append(overflow[4 : 4 + remaining])
        remaining -= len(parts[-1])
        next_page = overflow[:4]
    return decode_record(b"".join(parts))


def decode_record(payload: bytes) -> list[Value]:
    types, position = serial_types(payload, 0)
    values: list[Value] = []
    for type_ in types:
        end = position + content_bytes(type_)
        data = payload[position:end]
        value: Any = data
        if type_ == 0:
            value = None
        elif type_ in (8, 9):
            value = type_ - 8
        elif type_ < 7:
            value = int.from_bytes(data, "big", signed=True)
        elif end > len(payload):
            raise Malformed("a record is cut off")
        elif type_ == 7:
            (value,) = struct.unpack(">d", data)
        elif type_ % 2:
            value = data.decode("utf-8", "surrogateescape")
        values.append(value)
        position = end
    if position != len(payload):
        raise Malformed("a record has another size")
    return values


def serial_types(data: bytes, offset: int) -> tuple[list[int], int]:
    """The types of the columns of a record, and the offset of the first value."""
    size, position = varint(data, offset)
    end = offset + size
    types: list[int] = []
    while position < end and len(types) <= _MAX_COLUMNS:
        type_, position = varint(data, position)
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


def varint(data: bytes, offset: int) -> tuple[int, int]:
    """A number of variable length, and the offset after it."""
    value = 0
    for n in range(9):
        if offset + n >= len(data):
            raise Malformed("a number is cut off")
        byte = data[offset + n]
        if n == 8:
            return value << 8 | byte, offset + 9
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, offset + n + 1
    raise AssertionError
