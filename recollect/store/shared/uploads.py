"""Uploaded files that wait to be imported.

In a SQLite home they are files in the folder `uploads`. On PostgreSQL they are in the database, so
that any server or worker can import them; in a folder they are only while they are imported.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from recollect.errors import NotFound, StorageFull
from recollect.store.shared.database import SharedDatabase, Tables
from recollect.store.sqlite.private_files import create_private_folder

CHUNK_BYTES = 1 << 20
NOTE = "upload.json"
_STALE_SECONDS = 86_400
_RESERVED_BYTES = 200_000_000  # disk space that the import itself may need
_MICROS = 1_000_000

TABLES = Tables(
    "upload",
    (
        """create table upload_chunk (
          job text not null,
          number bigint not null,
          data {bytes} not null,
          created_at bigint not null,
          primary key (job, number)
        )""",
        "create index upload_chunk_age on upload_chunk (created_at)",
    ),
)


class UploadFolder:
    """The uploaded files of an installation, by the id of their job. Thread-safe.

    Only the server's account can read the folder.
    """

    def __init__(self, folder: Path, refusal: str = "") -> None:
        self.folder = folder
        self.refusal = refusal
        """Why uploads are not accepted; empty if they are."""

    def create(self, job: str, name: str) -> UploadWriter:
        create_private_folder(self.folder)
        return UploadWriter(self, job, name)

    @contextmanager
    def open(self, job: str, name: str) -> Iterator[Path]:
        """The folder with the file, for as long as it is imported. Raises NotFound."""
        folder = self.folder / job
        if not (folder / name).is_file():
            raise missing_upload(name)
        yield folder

    def describe(self, job: str, note: Mapping[str, Any]) -> None:
        """Write beside a file what is needed to queue its job again.

        Backups have the uploads, but not the queue.
        """
        folder = self.folder / job
        temporary = folder / (NOTE + ".new")
        with temporary.open("w", encoding="utf-8") as file:
            temporary.chmod(0o600)
            json.dump(note, file)
            file.flush()
            os.fsync(file.fileno())
        temporary.rename(folder / NOTE)

    def notes(self) -> dict[str, dict[str, Any]]:
        """What was stored with `describe`, by the id of the job."""
        notes = {}
        for file in sorted(self.folder.glob(f"*/{NOTE}")):
            with suppress(OSError, ValueError):
                note = json.loads(file.read_text(encoding="utf-8"))
                if isinstance(note, dict):
                    notes[file.parent.name] = note
        return notes

    def remove(self, job: str) -> None:
        shutil.rmtree(self.folder / job, ignore_errors=True)

    def remove_stale(self, unfinished_jobs: Collection[str]) -> None:
        """Remove uploads that were interrupted more than a day ago, or whose job has ended."""
        with suppress(OSError):
            for folder in self.folder.iterdir():
                age = time.time() - folder.stat(follow_symlinks=False).st_mtime
                if folder.name not in unfinished_jobs and age > _STALE_SECONDS:
                    shutil.rmtree(folder, ignore_errors=True)

    def require_space(self, size: int) -> None:
        """Raise StorageFull if a file of this size does not fit."""
        folder = self.folder
        while not folder.exists():
            folder = folder.parent
        if shutil.disk_usage(folder).free < size + _RESERVED_BYTES:
            raise StorageFull("The server's disk does not have enough space for this file.")

    def hide_folder(self, message: str, name: str) -> str:
        """A message without the folder of the file."""
        folder = rf"{re.escape(str(self.folder))}/[^/\s]+(/?)"
        return re.sub(folder, lambda match: "" if match[1] else name, message)


class UploadWriter:
    """A file that is being uploaded."""

    def __init__(self, uploads: UploadFolder, job: str, name: str) -> None:
        self._uploads = uploads
        self._job = job
        self._path = uploads.folder / job / name
        self._path.parent.mkdir(mode=0o700)
        self._file: IO[bytes] = self._path.open("xb")
        self._path.chmod(0o600)
        self._is_complete = False

    def write(self, data: bytes) -> None:
        self._file.write(data)

    def finish(self) -> None:
        """The file is complete. It is stored safely when this returns."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        self._is_complete = True

    def close(self) -> None:
        """Release the file. It stays only if it was finished."""
        self._file.close()
        if not self._is_complete:
            self._uploads.remove(self._job)


class UploadTable(UploadFolder):
    """Uploads in the database that the servers share."""

    def __init__(self, database: SharedDatabase, folder: Path) -> None:
        super().__init__(folder)
        self._database = database

    def create(self, job: str, name: str) -> UploadWriter:
        return ChunkWriter(self, job)

    def add_chunk(self, job: str, number: int, data: bytes) -> None:
        self._database.execute(
            TABLES,
            "insert into upload_chunk (job, number, data, created_at) "
            f"values (?, ?, ?, {self._database.now})",
            (job, number, data),
        )

    @contextmanager
    def open(self, job: str, name: str) -> Iterator[Path]:
        """Copy the file into a temporary folder: importers read zip files in any order."""
        create_private_folder(self.folder)
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            path = Path(folder) / name
            number = 0
            statement = "select data from upload_chunk where job = ? and number = ?"
            with path.open("xb") as file:
                while rows := self._database.execute(TABLES, statement, (job, number)):
                    file.write(rows[0][0])
                    number += 1
            if not number:
                raise missing_upload(name)
            yield Path(folder)

    def describe(self, job: str, note: Mapping[str, Any]) -> None:
        pass  # a backup of the database has the queue as well

    def notes(self) -> dict[str, dict[str, Any]]:
        return {}

    def require_space(self, size: int) -> None:
        pass  # only the database server knows its disk

    def remove(self, job: str) -> None:
        self._database.execute(TABLES, "delete from upload_chunk where job = ?", (job,))

    def remove_stale(self, unfinished_jobs: Collection[str]) -> None:
        rows = self._database.execute(
            TABLES,
            f"select distinct job from upload_chunk where created_at < {self._database.now} - ?",
            (_STALE_SECONDS * _MICROS,),
        )
        for (job,) in rows:
            if job not in unfinished_jobs:
                self.remove(job)
        super().remove_stale(())  # left by a process that was killed


class ChunkWriter(UploadWriter):
    def __init__(self, uploads: UploadTable, job: str) -> None:
        self._table = uploads
        self._job = job
        self._buffer = bytearray()
        self._number = 0
        self._is_complete = False

    def write(self, data: bytes) -> None:
        self._buffer += data
        while len(self._buffer) >= CHUNK_BYTES:
            self._store_chunk()

    def finish(self) -> None:
        if self._buffer:
            self._store_chunk()
        self._is_complete = True

    def _store_chunk(self) -> None:
        self._table.add_chunk(self._job, self._number, bytes(self._buffer[:CHUNK_BYTES]))
        del self._buffer[:CHUNK_BYTES]
        self._number += 1

    def close(self) -> None:
        if not self._is_complete and self._number:
            self._table.remove(self._job)


def missing_upload(name: str) -> NotFound:
    return NotFound(f"The uploaded file {name} is gone. Upload it again.")
