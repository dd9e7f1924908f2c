"""The pages of a database file, with those that are still in its write-ahead log.

This opens the file directly, so no connection of this process may have it open: closing the file
would drop the locks of SQLite.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from recollect.errors import DamagedLibrary
from recollect.transfer.salvage.encrypted_pages import MAGIC, PAGE_SIZE, page_cipher

_HEADER_BYTES = 100
_WAL_MAGIC = (0x377F0682, 0x377F0683)
_WAL_HEADER_BYTES = 32
_FRAME_HEADER_BYTES = 24
_PAGE_SIZES = (512, 1024, 2048, 4096, 8192, 16384, 32768, 65536)
# The first byte of a page of a b-tree.
_TREE_PAGES = b"\x02\x05\x0a\x0d"
_SAMPLED_BYTES = 1 << 24
_ENOUGH_PAGES = 0.9


class Pages:
    """Reads pages by number. The first page has number 1."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._cipher = page_cipher(path)
        self._file: BinaryIO = path.open("rb")
        self._log: BinaryIO | None = None
        self._frames: dict[int, int] = {}
        """Where the log has the content of a page."""
        try:
            self._size = path.stat().st_size
            if self._size == 0:
                raise DamagedLibrary(f"{path} is empty: there is nothing to rescue.")
            header = self._file.read(_HEADER_BYTES)
            if self._cipher is not None:
                header = MAGIC + header[len(MAGIC) :]
            self.page_size = self._find_page_size(header)
            self.usable = self.page_size
            if header.startswith(MAGIC) and header[20] <= 64:
                self.usable -= header[20]
            self.count = -(-self._size // self.page_size)
            self._read_log(path.with_name(f"{path.name}-wal"))
        except BaseException:  # nobody else would close the files
            self.close()
            raise

    def __enter__(self) -> Pages:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self._file.close()
        if self._log is not None:
            self._log.close()

    def read(self, number: int) -> bytes:
        """The content of a page; zeros where the file is too short."""
        page = self._read(number)
        if self._cipher is None:
            return page
        return self._cipher.decrypt(number, page)

    def _read(self, number: int) -> bytes:
        if number in self._frames and self._log is not None:
            self._log.seek(self._frames[number])
            return self._log.read(self.page_size)
        self._file.seek((number - 1) * self.page_size)
        return self._file.read(self.page_size).ljust(self.page_size, b"\0")

    def free_pages(self) -> set[int]:
        """The pages that the file does not use. They may contain deleted rows."""
        first_page = self.read(1)
        free: set[int] = set()
        if not first_page.startswith(MAGIC):
            return free
        trunk = int.from_bytes(first_page[32:36], "big")
        while 1 < trunk <= self.count and trunk not in free:
            free.add(trunk)
            page = self.read(trunk)
            trunk, leaves = struct.unpack_from(">II", page)
            leaves = min(leaves, (self.page_size - 8) // 4)
            free.update(struct.unpack_from(f">{leaves}I", page, 8))
        return free

    # -- the size of a page ---

    def _find_page_size(self, header: bytes) -> int:
        if header.startswith(MAGIC):
            size = int.from_bytes(header[16:18], "big")
            if size == 1:
                size = 65536
            if size in _PAGE_SIZES:
                return size
        if self._cipher is not None:
            return PAGE_SIZE
        # With smaller pages there are as many, and with larger ones fewer.
        counts = {size: self._count_tree_pages(size) for size in _PAGE_SIZES}
        most = max(counts.values())
        return max(size for size, count in counts.items() if count >= _ENOUGH_PAGES * most)

    def _count_tree_pages(self, page_size: int) -> int:
        """How many pages begin like a page of a b-tree, if pages have this size."""
        hits = 0
        for offset in range(page_size, min(self._size, _SAMPLED_BYTES), page_size):
            self._file.seek(offset)
            first = self._file.read(8)
            content_start = int.from_bytes(first[5:7], "big")
            if first[:1] in _TREE_PAGES and first[0] and content_start <= page_size:
                hits += 1
        return hits

    # -- the write-ahead log ---

    def _read_log(self, path: Path) -> None:
        if not path.exists() or path.stat().st_size < _WAL_HEADER_BYTES:
            return
        self._log = path.open("rb")
        header = self._log.read(_WAL_HEADER_BYTES)
        magic, _, page_size = struct.unpack_from(">III", header)
        order = "<"
        if magic == _WAL_MAGIC[1]:
            order = ">"
        if magic in _WAL_MAGIC and page_size != self.page_size:
            return
        transaction: dict[int, int] = {}
        for number, commit_size, offset in self._frames_in_order(header, order):
            transaction[number] = offset
            if commit_size:
                self._frames |= transaction
                self.count = commit_size
                transaction.clear()

    def _frames_in_order(self, header: bytes, order: str) -> Iterator[tuple[int, int, int]]:
        """The page, the size of the database after a commit, and the offset of each intact frame.

        A checksum continues that of the frame before. A damaged frame is skipped, and so is the
        next one if it was the checksum that was damaged.
        """
        assert self._log is not None
        checksum = struct.unpack_from(">II", header, 24)
        salts = header[16:24]
        is_header_damaged = _checksum(header[:24], order, (0, 0)) != checksum
        offset = _WAL_HEADER_BYTES
        while True:
            self._log.seek(offset)
            frame = self._log.read(_FRAME_HEADER_BYTES + self.page_size)
            if len(frame) < _FRAME_HEADER_BYTES + self.page_size:
                return
            if is_header_damaged and offset == _WAL_HEADER_BYTES:
                salts = frame[8:16]
            if frame[8:16] == salts:
                number, commit_size = struct.unpack_from(">II", frame)
                data = frame[:8] + frame[_FRAME_HEADER_BYTES:]
                stored_checksum = struct.unpack_from(">II", frame, 16)
                if _checksum(data, order, checksum) == stored_checksum:
                    yield number, commit_size, offset + _FRAME_HEADER_BYTES
                checksum = stored_checksum
            offset += _FRAME_HEADER_BYTES + self.page_size


def _checksum(data: bytes, order: str, start: tuple[int, ...]) -> tuple[int, int]:
    first, second = start
    words = struct.unpack(f"{order}{len(data) // 4}I", data)
    for n in range(0, len(words), 2):
        first = (first + words[n] + second) & 0xFFFFFFFF
        second = (second + words[n + 1] + first) & 0xFFFFFFFF
    return first, second
