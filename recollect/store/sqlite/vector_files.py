"""The files of a space: the integers of its vectors, the attributes of the rows, and checksums.

The files only grow, and are mapped into memory. Vectors up to the row `space.copied` are only in
the files. If files are lost, the passages of their rows are queued for embedding. Files that differ
from their checksums are dropped, like lost ones.

Integers are written before the attributes. If the process is killed in between, the additional
integers are ignored and overwritten later.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recollect.store.durability import sync_folder
from recollect.store.sqlite.checksums import is_check_due, log_damage, mark_checked
from recollect.store.sqlite.private_files import file_lock
from recollect.store.sqlite.vector_rows import ROW, Key, VectorRows, no_rows
from recollect.store.values import Space

ROWS_PER_BLOCK = 4_096
_UNKNOWN = -1
"""The checksum of a block that is being changed."""


class VectorFiles:
    """The files of a space. Only a process that holds the lock of the folder changes them."""

    def __init__(self, folder: Path, space: Space) -> None:
        self._folder = folder
        self._space = space
        self._attributes_file = folder / f"space-{space.id}.attributes"
        self._integers_file = folder / f"space-{space.id}.vectors"
        self._checksums_file = folder / f"space-{space.id}.checksums"
        self.name = self._integers_file.name
        try:
            self.rows = self._map_files()
        except (FileNotFoundError, ValueError):
            # Another process removed or truncated them between looking and mapping.
            self.rows = self._map_files()

    def _map_files(self) -> VectorRows:
        size = self.complete_rows()
        if not size:
            return no_rows(self._space)
        return VectorRows(
            np.asarray(np.memmap(self._attributes_file, ROW, "r", shape=(size,))),
            np.asarray(self._map_integers("r", size)),
        )

    def _map_integers(self, mode: Any, size: int) -> np.memmap[Any, Any]:
        return np.memmap(self._integers_file, np.int8, mode, shape=(size, self._space.dimensions))

    def complete_rows(self) -> int:
        """The number of rows that are complete in both files."""
        return min(
            file_size(self._attributes_file) // ROW.itemsize,
            file_size(self._integers_file) // self._space.dimensions,
        )

    # -- checksums ---

    def _checksums(self) -> RowChecksums:
        checksums = RowChecksums.load(self._checksums_file)
        checksums.truncate(len(self.rows))  # the files may have been truncated by something else
        return checksums

    def is_check_due(self) -> bool:
        files = (self._integers_file, self._attributes_file)
        return len(self.rows) > 0 and is_check_due(self._checksums_file, files)

    def mark_checked(self) -> None:
        mark_checked(self._checksums_file)

    def damage(self) -> str:
        """What differs from the checksums; empty if nothing does."""
        checksums = self._checksums()
        damaged = self._damaged_blocks(checksums, range(len(checksums.integers)))
        if not damaged:
            return ""
        share = f"{len(damaged)} of {len(checksums.integers)} blocks"
        return f"{self.name} differs from its checksum in {share}"

    def _damaged_blocks(self, checksums: RowChecksums, blocks: Iterable[int]) -> set[int]:
        """Those of the blocks of rows that differ from their checksums."""
        return {
            block
            for block in blocks
            if checksums.of_block(block) not in (self._sums(checksums, block), None)
        }

    def _sums(self, checksums: RowChecksums, block: int) -> tuple[int, int]:
        start = block * ROWS_PER_BLOCK
        integers, attributes = self._row_bytes(start, min(start + ROWS_PER_BLOCK, checksums.rows))
        return zlib.crc32(integers), zlib.crc32(attributes)

    def _row_bytes(self, start: int, end: int) -> tuple[bytes, bytes]:
        return (
            self.rows.integers[start:end].tobytes(),
            self.rows.attributes[start:end].tobytes(),
        )

    def add_checksums(self) -> None:
        """Add the checksums of rows that have none."""
        checksums = self._checksums()
        if checksums.rows == len(self.rows):
            return
        while checksums.rows < len(self.rows):
            start = checksums.rows
            end = min(start + ROWS_PER_BLOCK, len(self.rows))
            checksums.extend(*self._row_bytes(start, end), end - start)
        checksums.save(self._checksums_file)

    # -- changing ---

    def drop(self) -> None:
        """Remove damaged files. Their vectors are then computed again."""
        event = f"{self._integers_file} differed from its checksum and is computed again"
        log_damage(self._folder.parent, event)
        with suppress(OSError):  # on read-only media, they are ignored
            for file in (self._attributes_file, self._integers_file, self._checksums_file):
                file.unlink(missing_ok=True)
        self.rows = no_rows(self._space)

    def drop_after(self, row: int) -> None:
        """Drop all rows after this one."""
        size = int(np.searchsorted(self.rows.attributes["row"], row, "right"))
        checksums = self._checksums()
        checksums.truncate(size)
        checksums.save(self._checksums_file)
        write_at(self._attributes_file, size * ROW.itemsize, b"")
        write_at(self._integers_file, size * self._space.dimensions, b"")

    def append(self, rows: VectorRows) -> None:
        size = len(self.rows)
        checksums = self._checksums()
        integers, attributes = rows.integers.tobytes(), rows.attributes.tobytes()
        write_at(self._integers_file, size * self._space.dimensions, integers)
        write_at(self._attributes_file, size * ROW.itemsize, attributes)
        # If the process is killed before this, the next refresh adds the checksums.
        if checksums.rows == size:
            checksums.extend(integers, attributes, len(rows))
            checksums.save(self._checksums_file)

    def wipe(self, numbers: NDArray[Key]) -> None:
        """Overwrite the vectors of these rows of the table."""
        column = self.rows.attributes["row"]
        indexes = np.searchsorted(column, numbers)
        indexes = indexes[indexes < len(column)]
        indexes = indexes[np.isin(column[indexes], numbers)]
        if not len(indexes):
            return
        checksums = self._checksums()
        blocks = {int(n) // ROWS_PER_BLOCK for n in indexes if n < checksums.rows}
        # The checksums of damaged blocks stay as they are, so that the damage is noticed.
        blocks -= self._damaged_blocks(checksums, blocks)
        for block in blocks:
            checksums.integers[block] = checksums.attributes[block] = _UNKNOWN
        checksums.save(self._checksums_file)
        integers = self._map_integers("r+", len(self.rows))
        integers[indexes] = 0
        integers.flush()
        attributes = np.memmap(self._attributes_file, ROW, "r+", shape=(len(self.rows),))
        attributes["passage"][indexes] = 0
        attributes.flush()
        for block in blocks:
            checksums.integers[block], checksums.attributes[block] = self._sums(checksums, block)
        checksums.save(self._checksums_file)


def open_verified(folder: Path, space: Space) -> VectorFiles:
    """The files of a space. If they differ from their checksums, they are dropped."""
    files = VectorFiles(folder, space)
    if not files.is_check_due():
        return files
    if files.damage():
        # Another process may have been changing the files.
        with file_lock(lock_path(folder), wait=True):
            files = VectorFiles(folder, space)
            if files.damage():
                files.drop()
                return files
    files.mark_checked()
    return files


def lock_path(folder: Path) -> Path:
    """The file to lock while changing files in this folder."""
    return folder / "lock"


@dataclass(slots=True)
class RowChecksums:
    """The checksums of both files, for each block of rows. Rows after `rows` have none yet."""

    rows: int = 0
    integers: list[int] = field(default_factory=list)
    attributes: list[int] = field(default_factory=list)

    @classmethod
    def load(cls, path: Path) -> RowChecksums:
        try:
            return cls(**json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return cls()

    def save(self, path: Path) -> None:
        """Replace the file, so that it has its old or its new content."""
        unfinished = path.with_name(f".{path.name}.part")
        file = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            os.write(file, json.dumps(asdict(self)).encode())
            os.fsync(file)
        finally:
            os.close(file)
        unfinished.replace(path)

    def of_block(self, block: int) -> tuple[int, int] | None:
        """None if the block is being changed."""
        sums = self.integers[block], self.attributes[block]
        return None if _UNKNOWN in sums else sums

    def extend(self, integers: bytes, attributes: bytes, rows: int) -> None:
        """Add the checksums of rows that were appended."""
        for checksums, data in ((self.integers, integers), (self.attributes, attributes)):
            row_bytes = len(data) // rows
            row = 0
            while row < rows:
                block, offset = divmod(self.rows + row, ROWS_PER_BLOCK)
                count = min(ROWS_PER_BLOCK - offset, rows - row)
                part = data[row * row_bytes : (row + count) * row_bytes]
                if offset == 0:
                    checksums.append(zlib.crc32(part))
                elif checksums[block] != _UNKNOWN:
                    checksums[block] = zlib.crc32(part, checksums[block])
                row += count
        self.rows += rows

    def truncate(self, rows: int) -> None:
        """Forget the rows from this one on, up to the beginning of their block."""
        if rows < self.rows:
            blocks = rows // ROWS_PER_BLOCK
            self.rows = blocks * ROWS_PER_BLOCK
            del self.integers[blocks:], self.attributes[blocks:]


def file_size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def write_at(path: Path, offset: int, data: bytes) -> None:
    is_new = not path.exists()
    file = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o600)
    try:
        os.ftruncate(file, offset)  # an interrupted write may have left more
        os.lseek(file, offset, os.SEEK_SET)
        view = memoryview(data)
        while view:
            view = view[os.write(file, view) :]
        os.fsync(file)
    finally:
        os.close(file)
    if is_new:
        sync_folder(path.parent)
