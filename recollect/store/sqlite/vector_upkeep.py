"""Bring the files with vectors up to date with the tables, and drop files that are damaged."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from recollect.store.sql.spaces import all_spaces
from recollect.store.sqlite.connection import Connection
from recollect.store.sqlite.private_files import file_lock
from recollect.store.sqlite.transactions import Connections
from recollect.store.sqlite.vector_files import VectorFiles, lock_path
from recollect.store.sqlite.vector_rows import Key, newest_row, rows_after
from recollect.store.values import Space

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
                self._queue_lost(space, self._files(space).rows.last_row)
                self._copy_new(space)
                self._files(space).add_checksums()
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

    def _files(self, space: Space) -> VectorFiles:
        return VectorFiles(self._folder, space)

    def _check(self, space: Space) -> None:
        """Verify the files if that is due."""
        files = self._files(space)
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
        files = self._files(space)
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
            files = self._files(space)
            with self._connections.read() as db:
                rows = rows_after(db, space, files.rows.last_row, _ROWS_PER_COPY)
            if not len(rows) or (len(files.rows) and len(rows) < _MIN_ROWS_TO_COPY):
                return
            files.append(rows)

    def _clear_copied(self, space: Space) -> None:
        """Remove vectors from the table that are in the files, a batch per transaction."""
        last_row = self._files(space).rows.last_row
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
            self._files(space).wipe(np.array(deleted_rows, Key)[:, 0])
        self._connections.write(
            lambda db: db.run_many("delete from wiped where row = ?", deleted_rows)
        )

    # -- checksums ---

    def drop_damaged(self) -> None:
        """Verify all files, and drop those that are damaged. `refresh` queues their passages."""
        with file_lock(lock_path(self._folder), wait=True):
            for space in self._spaces():
                files = self._files(space)
                if files.damage():
                    files.drop()

    def damaged_files(self) -> list[str]:
        """Verify all files, and describe those that are damaged."""
        return [damage for space in self._spaces() if (damage := self._files(space).damage())]

    def needs_check(self) -> bool:
        return any(self._files(space).is_check_due() for space in self._spaces())
