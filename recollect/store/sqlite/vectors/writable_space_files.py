"""Files of a space that can be changed, with the checksums of both (see `checksums.py`)."""

from __future__ import annotations

import os
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recollect.store.durability import sync_folder
from recollect.store.sql.vectors.quantisation import Integers
from recollect.store.sqlite.files.checksums import (
    ROWS_PER_BLOCK,
    UNKNOWN,
    RowChecksums,
    is_check_due,
    log_damage,
    mark_checked,
)
from recollect.store.sqlite.files.file_lock import file_lock
from recollect.store.sqlite.vectors.row_filter import ROW, Key
from recollect.store.sqlite.vectors.space_files import SpaceFiles
from recollect.store.values import Space


class WritableSpaceFiles(SpaceFiles):
    """The two files of a space, for a process that holds the lock of the folder."""

    # -- checksums ---

    @property
    def name(self) -> str:
        return self._integers_file.name

    @property
    def _checksums_file(self) -> Path:
        return self._folder / f"space-{self._space.id}.checksums"

    def _checksums(self) -> RowChecksums:
        checksums = RowChecksums.load(self._checksums_file) or RowChecksums()
        # The files may have been truncated by something else.
        checksums.truncate(self._size)
        return checksums

    @property
    def blocks(self) -> int:
        return len(self._checksums().integers)

    def is_check_due(self) -> bool:
        files = (self._integers_file, self._attributes_file)
        return self._size > 0 and is_check_due(self._checksums_file, files)

    def mark_checked(self) -> None:
        mark_checked(self._checksums_file)

    def damaged_blocks(self) -> list[int]:
        """The blocks of rows that differ from their checksums."""
        return self._checksums().damaged_blocks(self._row_bytes)

    def _row_bytes(self, start: int, end: int) -> tuple[bytes, bytes]:
        return self._integers[start:end].tobytes(), self._attributes[start:end].tobytes()

    def add_checksums(self) -> None:
        """Add the checksums of rows that have none."""
        checksums = self._checksums()
        if checksums.rows == self._size:
            return
        while checksums.rows < self._size:
            start = checksums.rows
            end = min(start + ROWS_PER_BLOCK, self._size)
            checksums.extend(*self._row_bytes(start, end), end - start)
        checksums.save(self._checksums_file)

    def drop(self) -> None:
        """Remove damaged files. Their vectors are then computed again."""
        event = f"{self._integers_file} differed from its checksum and is computed again"
        log_damage(self._folder.parent, event)
        with suppress(OSError):  # on read-only media, they are ignored
            for file in (self._attributes_file, self._integers_file, self._checksums_file):
                file.unlink(missing_ok=True)
        self._size = 0
        self._columns = {}
        self._attributes = np.empty(0, ROW)
        self._integers = np.empty((0, self._dimensions), np.int8)

    # -- changing ---

    def drop_after(self, row: int) -> None:
        """Drop all rows after this one."""
        size = int(np.searchsorted(self._attributes["row"], row, "right"))
        checksums = self._checksums()
        checksums.truncate(size)
        checksums.save(self._checksums_file)
        _write_at(self._attributes_file, size * ROW.itemsize, b"")
        _write_at(self._integers_file, size * self._dimensions, b"")

    def append(self, attributes: NDArray[Any], integers: Integers) -> None:
        checksums = self._checksums()
        _write_at(self._integers_file, self._size * self._dimensions, integers.tobytes())
        _write_at(self._attributes_file, self._size * ROW.itemsize, attributes.tobytes())
        # If the process is killed before this, the next refresh adds the checksums.
        if checksums.rows == self._size:
            checksums.extend(integers.tobytes(), attributes.tobytes(), len(attributes))
            checksums.save(self._checksums_file)

    def wipe(self, rows: NDArray[Key]) -> None:
        """Overwrite the vectors of these rows of the table."""
        indexes = np.searchsorted(self._attributes["row"], rows)
        indexes = indexes[indexes < self._size]
        indexes = indexes[np.isin(self._attributes["row"][indexes], rows)]
        if not len(indexes):
            return
        checksums = self._checksums()
        blocks = sorted({int(n) // ROWS_PER_BLOCK for n in indexes if n < checksums.rows})
        # The checksums of damaged blocks stay as they are, so that the damage is noticed.
        damaged_blocks = set(checksums.damaged_blocks(self._row_bytes, blocks))
        blocks = [block for block in blocks if block not in damaged_blocks]
        for block in blocks:
            checksums.integers[block] = checksums.attributes[block] = UNKNOWN
        checksums.save(self._checksums_file)
        self._zero(indexes)
        for block in blocks:
            data = self._row_bytes(*checksums.block_range(block))
            checksums.integers[block], checksums.attributes[block] = map(zlib.crc32, data)
        checksums.save(self._checksums_file)

    def _zero(self, indexes: NDArray[Any]) -> None:
        integers = self._map_integers("r+")
        integers[indexes] = 0
        integers.flush()
        attributes = self._map_attributes("r+")
        attributes["passage"][indexes] = 0
        attributes.flush()


def lock_path(folder: Path) -> Path:
    """The file to lock while changing files in this folder."""
    return folder / "lock"


def open_verified(folder: Path, space: Space) -> SpaceFiles:
    """The files of a space. If they differ from their checksums, they are dropped."""
    files = WritableSpaceFiles(folder, space)
    if not files.is_check_due():
        return files
    if files.damaged_blocks():
        # Another process may have been changing the files.
        with file_lock(lock_path(folder), wait=True):
            files = WritableSpaceFiles(folder, space)
            if files.damaged_blocks():
                files.drop()
                return files
    files.mark_checked()
    return files


def _write_at(path: Path, offset: int, data: bytes) -> None:
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
