"""The files of a space: the integers of its vectors, the attributes of the rows, and checksums.

The files only grow, and are mapped into memory. Vectors up to the row `space.copied` are only in
the files. If files are lost, the passages of their rows are queued for embedding. Files that differ
from their checksums are dropped, like lost ones. Each part that was appended has a checksum.

Integers are written before the attributes. If the process is killed in between, the additional
integers are ignored and overwritten later.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from recollect.store.durability import sync_folder
from recollect.store.sqlite.checksums import is_check_due, log_damage, mark_checked
from recollect.store.sqlite.private_files import file_lock
from recollect.store.sqlite.vector_rows import ROW, Key, VectorRows, no_rows
from recollect.store.values import Space


class Part(NamedTuple):
    """Some rows, and their checksum; None while they are changed."""

    start: int
    end: int
    checksum: int | None


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

    def _parts(self) -> list[Part]:
        """The parts of the files. The last rows may have none yet, if the process was killed."""
        try:
            parts = [Part(*part) for part in json.loads(self._checksums_file.read_bytes())]
        except (OSError, ValueError, TypeError):
            parts = []
        # The files may have been truncated by something else.
        return [part for part in parts if part.end <= len(self.rows)]

    def _save(self, parts: list[Part]) -> None:
        """Replace the file, so that it has its old or its new content."""
        unfinished = self._checksums_file.with_name(f".{self._checksums_file.name}.part")
        write_at(unfinished, 0, json.dumps(parts).encode())
        unfinished.replace(self._checksums_file)

    def _checksum(self, start: int, end: int) -> int:
        integers = zlib.crc32(self.rows.integers[start:end].tobytes())
        return zlib.crc32(self.rows.attributes[start:end].tobytes(), integers)

    def _damaged(self, parts: list[Part]) -> Iterator[Part]:
        for part in parts:
            if part.checksum not in (None, self._checksum(part.start, part.end)):
                yield part

    def is_check_due(self) -> bool:
        files = (self._integers_file, self._attributes_file)
        return len(self.rows) > 0 and is_check_due(self._checksums_file, files)

    def mark_checked(self) -> None:
        mark_checked(self._checksums_file)

    def damage(self) -> str:
        """What differs from the checksums; empty if nothing does."""
        parts = self._parts()
        damaged = len(list(self._damaged(parts)))
        if not damaged:
            return ""
        return f"{self.name} differs from its checksum in {damaged} of {len(parts)} parts"

    def add_checksums(self) -> None:
        """Add the checksums of rows that have none."""
        parts = self._parts()
        end = parts[-1].end if parts else 0
        if end == len(self.rows) and None not in {part.checksum for part in parts}:
            return
        if end < len(self.rows):
            parts.append(Part(end, len(self.rows), None))
        self._save(self._completed(parts))

    def _completed(self, parts: list[Part]) -> list[Part]:
        return [
            part._replace(checksum=self._checksum(part.start, part.end))
            if part.checksum is None
            else part
            for part in parts
        ]

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
        self._save([part for part in self._parts() if part.end <= size])
        write_at(self._attributes_file, size * ROW.itemsize, b"")
        write_at(self._integers_file, size * self._space.dimensions, b"")

    def append(self, rows: VectorRows) -> None:
        """Append rows. Their checksum is added later, when they are read again."""
        size = len(self.rows)
        self._save(self._parts())  # without those of rows that were lost
        write_at(self._integers_file, size * self._space.dimensions, rows.integers.tobytes())
        write_at(self._attributes_file, size * ROW.itemsize, rows.attributes.tobytes())

    def wipe(self, numbers: NDArray[Key]) -> None:
        """Overwrite the vectors of these rows of the table."""
        column = self.rows.attributes["row"]
        indexes = np.searchsorted(column, numbers)
        indexes = indexes[indexes < len(column)]
        indexes = indexes[np.isin(column[indexes], numbers)]
        if not len(indexes):
            return
        parts = self._parts()
        starts = np.array([part.start for part in parts], np.int64)
        changed = {parts[n] for n in np.searchsorted(starts, indexes, "right") - 1 if n >= 0}
        # The checksums of damaged parts stay as they are, so that the damage is noticed.
        changed -= set(self._damaged(list(changed)))
        parts = [part._replace(checksum=None) if part in changed else part for part in parts]
        self._save(parts)
        integers = self._map_integers("r+", len(self.rows))
        integers[indexes] = 0
        integers.flush()
        attributes = np.memmap(self._attributes_file, ROW, "r+", shape=(len(self.rows),))
        attributes["passage"][indexes] = 0
        attributes.flush()
        self._save(self._completed(parts))


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
