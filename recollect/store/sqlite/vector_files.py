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
from recollect.store.sql.spaces import all_spaces
from recollect.store.sqlite.checksums import is_check_due, log_damage, mark_checked
from recollect.store.sqlite.connection import Connection
from recollect.store.sqlite.private_files import file_lock
from recollect.store.sqlite.transactions import Connections
from recollect.store.sqlite.vector_rows import ROW, Key, VectorRows, newest_row, no_rows, rows_after
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


# -- keeping them up to date ---

_ROWS_PER_COPY = 20_000
# Fewer rows are not worth a copy. Until then they are read from the table.
_MIN_ROWS_TO_COPY = 200


class VectorUpkeep:
    """Keeps the files of a library up to date.

    Only one process changes the files at a time: it holds the lock of the folder.
    """

    def __init__(self, folder: Path, connections: Connections, in_memory: bool) -> None:
        """`in_memory`: there are no files, because the library is encrypted."""
        self._folder = folder
        self._connections = connections
        self._in_memory = in_memory

    # -- refreshing ---

    def refresh(self) -> None:
        """Copy new vectors to the files, wipe deleted ones, and remove files of dropped spaces."""
        if self._in_memory:
            for space in self._spaces():  # there were files before the library was encrypted
                self._queue_lost(space, 0)
            self._connections.write(lambda db: db.run("delete from wiped"))
            return
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with file_lock(lock_path(self._folder), wait=True) as is_locked:
            if not is_locked:
                return
            ids = {space.id for space in self._spaces()}
            for path in self._folder.glob("space-*.*"):
                if int(path.stem.removeprefix("space-")) not in ids:
                    path.unlink(missing_ok=True)
            self._wipe_deleted()
            for space in self._spaces():
                self._check(space)
                self._drop_unknown(space)
                self._queue_lost(space, VectorFiles(self._folder, space).rows.last_row)
                self._copy_new(space)
                VectorFiles(self._folder, space).add_checksums()
                self._clear_copied(space)

    def wipe(self) -> bool:
        """Wipe the vectors of deleted passages. False if another process writes the files."""
        if self._in_memory:
            return True
        with file_lock(lock_path(self._folder)) as is_locked:
            if is_locked:
                self._wipe_deleted()
            return is_locked

    def _spaces(self) -> list[Space]:
        with self._connections.read() as db:
            return all_spaces(db)

    def _check(self, space: Space) -> None:
        """Verify the files if that is due."""
        files = VectorFiles(self._folder, space)
        if files.is_check_due():
            if files.damage():
                files.drop()
            else:
                files.add_checksums()
                files.mark_checked()

    def _drop_unknown(self, space: Space) -> None:
        """Drop rows that the table never had: the database is an older copy than the files."""
        with self._connections.read() as db:
            newest = newest_row(db)
        files = VectorFiles(self._folder, space)
        if files.rows.last_row > newest:
            files.drop_after(newest)

    def _queue_lost(self, space: Space, last_row: int) -> None:
        """Queue passages for embedding whose vectors were in files that are lost.

        `last_row` is the last one that the files have.
        """
        last_copied_row = self._last_copied_row(space)

        def work(db: Connection) -> bool:
            rows = db.rows(
                "select row, passage from vector where row > ? and row <= ? and space = ? limit ?",
                (last_row, last_copied_row, space.id, _ROWS_PER_COPY),
            )
            db.run_many(
                "insert or replace into unembedded (passage, space) values (?, ?)",
                [(passage, space.id) for _, passage in rows],
            )
            db.run_many("delete from vector where row = ?", [(row,) for row, _ in rows])
            if not rows:
                db.run("update space set copied = ? where id = ?", (last_row, space.id))
            return bool(rows)

        if last_copied_row > last_row:
            while self._connections.write(work):
                pass

    def _copy_new(self, space: Space) -> None:
        while True:
            files = VectorFiles(self._folder, space)
            with self._connections.read() as db:
                rows = rows_after(db, space, files.rows.last_row, _ROWS_PER_COPY)
            if not len(rows) or (len(files.rows) and len(rows) < _MIN_ROWS_TO_COPY):
                return
            files.append(rows)

    def _clear_copied(self, space: Space) -> None:
        """Remove vectors from the table that are in the files, a batch per transaction."""
        last_row = VectorFiles(self._folder, space).rows.last_row
        last_copied_row = self._last_copied_row(space)

        def work(db: Connection) -> int:
            end: int = last_row
            for (row,) in db.rows(
                "select row from vector where row > ? order by row limit 1 offset ?",
                (last_copied_row, _ROWS_PER_COPY),
            ):
                end = min(row, last_row)
            between = (last_copied_row, end, space.id)
            db.run("delete from new_vector where row > ? and row <= ? and space = ?", between)
            db.run("update space set copied = ? where id = ?", (end, space.id))
            return end

        while last_copied_row < last_row:
            last_copied_row = self._connections.write(work)

    def _last_copied_row(self, space: Space) -> int:
        """The row of the table up to which vectors are only in the files."""
        with self._connections.read() as db:
            row: int = db.get("select copied from space where id = ?", (space.id,)) or 0
        return row

    def _wipe_deleted(self) -> None:
        with self._connections.read() as db:
            deleted_rows = db.rows("select row from wiped order by row")
        if not deleted_rows:
            return
        for space in self._spaces():
            VectorFiles(self._folder, space).wipe(np.array(deleted_rows, Key)[:, 0])
        self._connections.write(
            lambda db: db.run_many("delete from wiped where row = ?", deleted_rows)
        )

    # -- checksums ---

    def drop_damaged(self) -> None:
        """Verify all files, and drop those that are damaged. `refresh` queues their passages."""
        with file_lock(lock_path(self._folder), wait=True):
            for space in self._spaces():
                files = VectorFiles(self._folder, space)
                if files.damage():
                    files.drop()

    def damaged_files(self) -> list[str]:
        """Verify all files, and describe those that are damaged."""
        return [
            damage
            for space in self._spaces()
            if (damage := VectorFiles(self._folder, space).damage())
        ]

    def needs_check(self) -> bool:
        return any(VectorFiles(self._folder, space).is_check_due() for space in self._spaces())


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
