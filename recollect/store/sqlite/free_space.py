"""Clear the free space of the pages of a database file.

SQLite overwrites rows that are deleted. But when it moves rows to other pages, which happens with
every kind of write, copies of them stay in the unused space of the old page, in no table. They
would stay there after the rows are deleted.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import apsw

_PAGES_PER_READ = 128
# By the first byte of pages that have rows. That of all others is zero, in files up to 64 GiB.
_HEADER_BYTES = {2: 12, 5: 12, 10: 8, 13: 8}
_MAX_BYTES = 1 << 36
_FILE_HEADER = 100


def clear_free_space(path: Path) -> None:
    """Overwrite the unused space of all pages with zeros.

    Nobody may write to the file meanwhile, and its log may have nothing that is not in it. Others
    may read, because nobody reads this space. SQLite opens the file: closing it otherwise would
    drop the locks of this process.
    """
    flags = apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READWRITE
    file = apsw.VFSFile("", str(path.absolute()), [flags, 0])
    try:
        size = file.xFileSize()
        if size > _MAX_BYTES:
            raise apsw.TooBigError("the file is too large to clear its free space")
        for start, end in leftovers(file, size):
            file.xWrite(bytes(end - start), start)
        file.xSync(apsw.SQLITE_SYNC_FULL)
    finally:
        file.xClose()


def leftovers(file: apsw.VFSFile, size: int) -> Iterator[tuple[int, int]]:
    """Unused parts of the file that are not empty."""
    page_size = int.from_bytes(file.xRead(_FILE_HEADER, 0)[16:18], "big")
    if page_size == 1:
        page_size = 1 << 16
    zeros = bytes(page_size)
    for block in range(0, size, page_size * _PAGES_PER_READ):
        data = file.xRead(min(page_size * _PAGES_PER_READ, size - block), block)
        for page in range(0, len(data), page_size):
            header = page
            if block + page == 0:
                header = _FILE_HEADER
            kind, _, count, rows = struct.unpack_from(">BHHH", data, header)
            if kind not in _HEADER_BYTES:
                continue
            # The pointers to rows grow upwards, and the rows downwards.
            pointers = header + _HEADER_BYTES[kind]
            start, end = pointers + 2 * count, page + (rows or 1 << 16)
            if start >= end or data.startswith(zeros[: end - start], start):
                continue
            lowest = min(struct.unpack_from(f">{count}H", data, pointers), default=rows)
            if end <= page + page_size and page + lowest >= end:  # the page is not damaged
                yield block + start, block + end
