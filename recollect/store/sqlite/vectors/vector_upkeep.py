"""Bring the files with vectors up to date with the tables, and drop files that are damaged."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from recollect.store.sql.vectors.spaces import all_spaces
from recollect.store.sqlite.connections.connection import Connection
from recollect.store.sqlite.connections.transactions import Connections
from recollect.store.sqlite.files.file_lock import file_lock
from recollect.store.sqlite.vectors.row_filter import Key
from recollect.store.sqlite.vectors.vector_table import decode_rows, rows_after
from recollect.store.sqlite.vectors.writable_space_files import (
    WritableSpaceFiles,
    lock_path,
)
from recollect.store.values import Space

_ROWS_PER_COPY = 20_000
# Fewer rows are not worth a copy. Until then they are read from the table.
_MIN_ROWS_TO_COPY = 200


class VectorUpkeep:
    """Keeps the files of a library up to date.

    Only one process changes the files at a time: it holds the lock of the folder.
    """

    def __init__(self, folder: Path, connections: Connections) -> None:
        self._folder = folder
        self._connections = connections

    # -- refreshing ---

    def refresh(self) -> None:
        """Copy new vectors to the files, wipe deleted ones, and remove files of dropped spaces."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with file_lock(lock_path(self._folder), wait=True) as is_locked:
            if not is_locked:
                return
            with self._connections.read() as db:
                spaces = all_spaces(db)
            self._remove_other_files({space.id for space in spaces})
            self._wipe_deleted(spaces)
            for space in spaces:
                self._check(space)
                self._drop_unknown(space)
                self._queue_lost(space)
                self._copy_new(space)
                self._clear_copied(space)

    def wipe(self) -> bool:
        """Wipe the vectors of deleted passages. False if another process writes the files."""
        with file_lock(lock_path(self._folder)) as is_locked:
            if not is_locked:
                return False
            with self._connections.read() as db:
                spaces = all_spaces(db)
            self._wipe_deleted(spaces)
            return True

    def _check(self, space: Space) -> None:
        """Verify the files if that is due, and add checksums to rows that have none."""
        files = WritableSpaceFiles(self._folder, space)
        if not len(files):
            return
        if files.is_check_due():
            if files.damaged_blocks():
                files.drop()
                return
            files.mark_checked()
        files.add_checksums()

    def _drop_unknown(self, space: Space) -> None:
        """Drop rows that the table never had: the database is an older copy than the files."""
        with self._connections.read() as db:
            newest = db.get("select seq from sqlite_sequence where name = 'vector'") or 0
        files = WritableSpaceFiles(self._folder, space)
        if files.last_row > newest:
            files.drop_after(newest)

    def _queue_lost(self, space: Space) -> None:
        """Queue passages for embedding whose vectors were in files that are lost."""
        last_row = WritableSpaceFiles(self._folder, space).last_row
        last_copied_row = self._last_copied_row(space)
        if last_copied_row <= last_row:
            return

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

        while self._connections.write(work):
            pass

    def _clear_copied(self, space: Space) -> None:
        """Remove vectors from the table that are in the files, a batch per transaction."""
        last_row = WritableSpaceFiles(self._folder, space).last_row
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

    def _copy_new(self, space: Space) -> None:
        while True:
            files = WritableSpaceFiles(self._folder, space)
            with self._connections.read() as db:
                rows = rows_after(db, space, files.last_row, _ROWS_PER_COPY)
            if not rows or (len(files) and len(rows) < _MIN_ROWS_TO_COPY):
                return
            files.append(*decode_rows(rows, space))

    def _wipe_deleted(self, spaces: list[Space]) -> None:
        with self._connections.read() as db:
            deleted_rows = [row for (row,) in db.rows("select row from wiped order by row")]
        if not deleted_rows:
            return
        for space in spaces:
            WritableSpaceFiles(self._folder, space).wipe(np.array(deleted_rows, Key))
        self._connections.write(
            lambda db: db.run_many(
                "delete from wiped where row = ?", [(row,) for row in deleted_rows]
            )
        )

    def _remove_other_files(self, ids: set[int]) -> None:
        for path in self._folder.glob("space-*.*"):
            if int(path.stem.removeprefix("space-")) not in ids:
                path.unlink(missing_ok=True)

    # -- checksums ---

    def drop_damaged(self) -> None:
        """Verify all files, and drop those that are damaged. `refresh` queues their passages."""
        with file_lock(lock_path(self._folder), wait=True):
            for files in self._all_files():
                if files.damaged_blocks():
                    files.drop()

    def damaged_files(self) -> list[str]:
        """Verify all files, and describe those that are damaged."""
        lines = []
        for files in self._all_files():
            blocks = files.damaged_blocks()
            if blocks:
                share = f"{len(blocks)} of {files.blocks} blocks"
                lines.append(f"{files.name} differs from its checksum in {share}")
        return lines

    def needs_check(self) -> bool:
        return any(len(files) and files.is_check_due() for files in self._all_files())

    def _all_files(self) -> list[WritableSpaceFiles]:
        with self._connections.read() as db:
            spaces = all_spaces(db)
        return [WritableSpaceFiles(self._folder, space) for space in spaces]
