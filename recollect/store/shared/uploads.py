"""Uploaded files that wait to be imported.

On PostgreSQL they are in the database, so that any server or worker can import them. A SQLite home
is on one machine, so there they are files in the folder `uploads` of the home: a database of
gigabytes beside it would help nobody.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from recollect.errors import NotFound, StorageFull
from recollect.store.shared.database import SharedDatabase, Tables
from recollect.store.sqlite.private_files import create_private_folder

CHUNK_BYTES = 1 << 20
NOTE = "upload.json"
_STALE_SECONDS = 86_400
_RESERVED_BYTES = 200_000_000  # disk space that the import itself may need
_TEMPORARY = "recollect-import-"
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


class UploadWriter(ABC):
    """A file that is being uploaded."""

    @abstractmethod
    def write(self, data: bytes) -> None: ...

    @abstractmethod
    def finish(self) -> None:
        """The file is complete. It is stored safely when this returns."""

    @abstractmethod
    def close(self) -> None:
        """Release the file. It stays only if it was finished."""


class Uploads(ABC):
    """The uploaded files of an installation, by the id of their job. Thread-safe."""

    refusal = ""
    """Why uploads are not accepted; empty if they are."""

    @abstractmethod
    def create(self, job: str, name: str) -> UploadWriter: ...

    @abstractmethod
    def open(self, job: str, name: str) -> AbstractContextManager[Path]:
        """The folder with the file, for as long as it is imported. Raises NotFound."""

    @abstractmethod
    def describe(self, job: str, note: Mapping[str, Any]) -> None:
        """Store what is needed to queue the job again, if the queue is lost."""

    @abstractmethod
    def notes(self) -> dict[str, dict[str, Any]]:
        """What was stored with `describe`, by the id of the job."""

    @abstractmethod
    def remove(self, job: str) -> None: ...

    @abstractmethod
    def remove_stale(self, unfinished_jobs: Collection[str]) -> None:
        """Remove uploads that were interrupted more than a day ago, or whose job has ended."""

    @abstractmethod
    def require_space(self, size: int) -> None:
        """Raise StorageFull if a file of this size does not fit."""

    @abstractmethod
    def hide_folder(self, message: str, job: str, name: str) -> str:
        """A message without the folder of the file."""


class UploadFolder(Uploads):
    """Uploads in a folder that only the server's account can read."""

    def __init__(self, folder: Path, refusal: str = "") -> None:
        self.folder = folder
        self.refusal = refusal

    def create(self, job: str, name: str) -> UploadWriter:
        create_private_folder(self.folder)
        return _FileWriter(self.folder / job, name)

    @contextmanager
    def open(self, job: str, name: str) -> Iterator[Path]:
        folder = self.folder / job
        if not (folder / name).is_file():
            raise NotFound(f"The uploaded file {name} is gone. Upload it again.")
        yield folder

    def describe(self, job: str, note: Mapping[str, Any]) -> None:
        """Write a note beside the file. Backups have the uploads, but not the queue."""
        folder = self.folder / job
        temporary = folder / (NOTE + ".new")
        with temporary.open("w", encoding="utf-8") as file:
            temporary.chmod(0o600)
            json.dump(note, file)
            file.flush()
            os.fsync(file.fileno())
        temporary.rename(folder / NOTE)

    def notes(self) -> dict[str, dict[str, Any]]:
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
        if not self.folder.is_dir():
            return
        for folder in self.folder.iterdir():
            if folder.name not in unfinished_jobs:
                remove_if_stale(folder)

    def require_space(self, size: int) -> None:
        folder = self.folder
        while not folder.exists():
            folder = folder.parent
        if shutil.disk_usage(folder).free < size + _RESERVED_BYTES:
            raise StorageFull("The server's disk does not have enough space for this file.")

    def hide_folder(self, message: str, job: str, name: str) -> str:
        folder = str(self.folder / job)
        return message.replace(f"{folder}/", "").replace(folder, name)


class _FileWriter(UploadWriter):
    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._folder.mkdir(mode=0o700)
        self._file: IO[bytes] = (folder / name).open("xb")
        (folder / name).chmod(0o600)
        self._is_complete = False

    def write(self, data: bytes) -> None:
        self._file.write(data)

    def finish(self) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        self._is_complete = True

    def close(self) -> None:
        self._file.close()
        if not self._is_complete:
            shutil.rmtree(self._folder, ignore_errors=True)


class UploadTable(Uploads):
    """Uploads in the database that the servers share."""

    def __init__(self, database: SharedDatabase) -> None:
        self._database = database

    def create(self, job: str, name: str) -> UploadWriter:
        return _TableWriter(self, job)

    @contextmanager
    def open(self, job: str, name: str) -> Iterator[Path]:
        """Copy the file into a temporary folder: importers read zip files in any order."""
        with tempfile.TemporaryDirectory(prefix=_TEMPORARY) as folder:
            path = Path(folder) / name
            with path.open("xb") as file:
                for chunk in self._chunks(job):
                    file.write(chunk)
            if not path.stat().st_size:
                raise NotFound(f"The uploaded file {name} is gone. Upload it again.")
            yield Path(folder)

    def _chunks(self, job: str) -> Iterator[bytes]:
        number = 0
        statement = "select data from upload_chunk where job = ? and number = ?"
        while True:
            rows = self._database.execute(TABLES, statement, (job, number))
            if not rows:
                return
            yield bytes(rows[0][0])
            number += 1

    def add_chunk(self, job: str, number: int, data: bytes) -> None:
        self._database.execute(
            TABLES,
            "insert into upload_chunk (job, number, data, created_at) "
            f"values (?, ?, ?, {self._database.now})",
            (job, number, data),
        )

    def describe(self, job: str, note: Mapping[str, Any]) -> None:
        pass  # a backup of the database has the queue as well

    def notes(self) -> dict[str, dict[str, Any]]:
        return {}

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
        for folder in Path(tempfile.gettempdir()).glob(f"{_TEMPORARY}*"):
            remove_if_stale(folder)  # left by a process that was killed

    def require_space(self, size: int) -> None:
        pass  # only the database server knows its disk

    def hide_folder(self, message: str, job: str, name: str) -> str:
        return re.sub(rf"(?<!\S)\S*/{_TEMPORARY}[^/\s]*/?", "", message)


class _TableWriter(UploadWriter):
    def __init__(self, uploads: UploadTable, job: str) -> None:
        self._uploads = uploads
        self._job = job
        self._buffer = bytearray()
        self._number = 0
        self._is_complete = False

    def write(self, data: bytes) -> None:
        self._buffer += data
        while len(self._buffer) >= CHUNK_BYTES:
            self._store_chunk(bytes(self._buffer[:CHUNK_BYTES]))
            del self._buffer[:CHUNK_BYTES]

    def finish(self) -> None:
        if self._buffer:
            self._store_chunk(bytes(self._buffer))
            self._buffer.clear()
        self._is_complete = True

    def _store_chunk(self, data: bytes) -> None:
        self._uploads.add_chunk(self._job, self._number, data)
        self._number += 1

    def close(self) -> None:
        if not self._is_complete and self._number:
            self._uploads.remove(self._job)


def remove_if_stale(folder: Path) -> None:
    with suppress(OSError):
        about = folder.stat(follow_symlinks=False)
        if about.st_uid == os.getuid() and time.time() - about.st_mtime > _STALE_SECONDS:
            shutil.rmtree(folder, ignore_errors=True)
