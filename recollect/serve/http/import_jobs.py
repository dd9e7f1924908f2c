"""Jobs as the interfaces see them: imports, and tasks that take minutes, such as a backup.

Most files are uploaded. A person in front of the server's own computer can also import files that
are there already; then the job names them, and nothing is copied.

An upload is accepted once the file and its job are stored. From then on it survives a crash, and
any server of the installation can answer for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from recollect.errors import InvalidInput, NotFound, RecollectError
from recollect.jobs.handlers import IMPORT
from recollect.jobs.runner import HOST, Borrow
from recollect.model.receipts import Receipt
from recollect.settings import LIMITS
from recollect.store.shared import jobs as shared
from recollect.store.shared.jobs import DONE, FAILED, QUEUED, RUNNING
from recollect.store.shared.uploads import NOTE, UploadFolder, UploadTable

__all__ = ["DONE", "FAILED", "QUEUED", "RUNNING", "ImportJob", "Imports", "Upload", "safe_name"]

_UNSAFE = re.compile(r'[\x00-\x1f\x7f<>:"/\\|?*\ud800-\udfff]+')
_MAX_STEM_BYTES = 120
_MAX_NAME_BYTES = 140
_MAX_SUFFIX_LENGTH = 12


class TooManyImports(RecollectError):
    """The user's limit on waiting imports is reached."""


@dataclass(frozen=True, slots=True)
class ImportJob:
    """The import of a file or of some local files, as it was when it was asked for."""

    id: str
    user: str
    name: str
    size: int
    state: str
    done: int
    total: int
    file: str
    """The file being read. For archives, a file inside the archive."""
    paths: tuple[str, ...]
    """The files and folders on the server's computer; empty for an upload."""
    receipt: Receipt | None
    error: str
    created_at: datetime | None
    finished_at: datetime | None

    @property
    def is_finished(self) -> bool:
        return self.state in (DONE, FAILED)


class Imports:
    """The imports of an installation. Thread-safe."""

    def __init__(self, jobs: shared.Jobs, uploads: UploadFolder, borrow: Borrow) -> None:
        self._jobs = jobs
        self.uploads = uploads
        self._borrow = borrow

    @contextmanager
    def upload(self, user: str, name: str, kind: str | None = None) -> Iterator[Upload]:
        """A file to write to. It is removed again unless it is accepted within the block."""
        if self.uploads.refusal:
            raise InvalidInput(self.uploads.refusal)
        self._require_room(user)
        upload = Upload(self, user, safe_name(name), kind)
        try:
            yield upload
        finally:
            upload.close()

    def import_local(self, user: str, name: str, paths: Sequence[str]) -> ImportJob:
        """Queue the import of files and folders on this computer."""
        self._require_room(user)
        # Every process of a home runs on this computer.
        host = HOST if isinstance(self.uploads, UploadTable) else ""
        return self.add("", user, {"name": safe_name(name), "size": 0, "paths": list(paths)}, host)

    def add(self, id: str, user: str, payload: dict[str, Any], host: str = "") -> ImportJob:
        (job,) = self._import_jobs(user, [self._jobs.add(IMPORT, user, payload, id=id, host=host)])
        return job

    def _require_room(self, user: str) -> None:
        waiting = self._jobs.unfinished(IMPORT, user)
        if waiting >= LIMITS.waiting_imports:
            raise TooManyImports(
                f"{waiting} imports are waiting. Upload more when some of them have finished."
            )

    def get(self, user: str, id: str) -> ImportJob:
        """An import of this user. Raises NotFound, also for the imports of other users."""
        job = self._jobs.get(id)
        if job is None or job.user != user or job.kind != IMPORT:
            raise NotFound(
                "There is no such import. The server forgets old imports; see GET /api/receipts."
            )
        (import_job,) = self._import_jobs(user, [job])
        return import_job

    def list_for(self, user: str) -> list[ImportJob]:
        """The user's imports of the last days, newest first."""
        return self._import_jobs(user, self._jobs.list_for(IMPORT, user))

    def _import_jobs(self, user: str, jobs: Sequence[shared.Job]) -> list[ImportJob]:
        receipts: dict[int, Receipt] = {}
        if any(job.result is not None for job in jobs):
            with self._borrow(user) as library:
                receipts = {receipt.id: receipt for receipt in library.receipts()}
        return [
            ImportJob(
                id=job.id,
                user=job.user,
                name=job.payload["name"],
                size=job.payload["size"],
                state=job.state,
                done=job.progress.get("done", 0),
                total=job.progress.get("total", 0),
                file=job.progress.get("file", ""),
                paths=tuple(job.payload.get("paths", ())),
                receipt=receipts.get(job.result),
                error=job.error,
                created_at=job.created_at,
                finished_at=job.finished_at,
            )
            for job in jobs
        ]

    def adopt_uploads(self) -> None:
        """Queue uploads without a job: those of a home that was restored."""
        for id, note in self.uploads.notes().items():
            with suppress(ValueError, KeyError, TypeError):
                payload = {
                    "name": safe_name(str(note["name"])),
                    "size": int(note["size"]),
                    "kind": note.get("kind"),
                    "paths": [str(path) for path in note.get("paths", ())],
                }
                self.add(id, str(note["user"]), payload)


class Upload:
    """A file being uploaded."""

    def __init__(self, imports: Imports, user: str, name: str, kind: str | None) -> None:
        self._imports = imports
        self._user = user
        self._payload: dict[str, Any] = {"name": name, "kind": kind}
        self._id = shared.new_id()
        self._writer = imports.uploads.create(self._id, name)
        self.close = self._writer.close
        self.size = 0

    def write(self, data: bytes) -> None:
        self._writer.write(data)
        self.size += len(data)

    def accept(self) -> ImportJob:
        """The file is complete: from here on it will be imported, even if the server crashes."""
        self._writer.finish()
        payload = self._payload | {"size": self.size}
        self._imports.uploads.describe(self._id, payload | {"user": self._user})
        return self._imports.add(self._id, self._user, payload)


def safe_name(name: str) -> str:
    """A plain file name: no folders, not hidden, not too long.

    The suffix is kept because importers recognize formats by it.
    """
    last = name.replace("\\", "/").rstrip("/").rsplit("/", 1)[-1]
    clean = _UNSAFE.sub("_", last).strip(" .") or "upload"
    stem, dot, suffix = clean.rpartition(".")
    if dot and len(suffix) <= _MAX_SUFFIX_LENGTH:
        clean = f"{shorten(stem or 'upload', _MAX_STEM_BYTES)}.{suffix}"
    clean = shorten(clean, _MAX_NAME_BYTES)
    return f"_{clean}" if clean.startswith(NOTE) else clean


def shorten(text: str, max_bytes: int) -> str:
    return text.encode()[:max_bytes].decode(errors="ignore") or "upload"


# -- tasks ---


@dataclass(frozen=True, slots=True)
class Task:
    """The state of one task."""

    state: str
    step: str
    count: int
    total: int
    result: Any
    error: str
    finished_at: datetime | None

    @property
    def is_running(self) -> bool:
        return self.state in (QUEUED, RUNNING)

    @property
    def percent(self) -> int:
        if not self.total:
            return 0
        return min(100, 100 * self.count // self.total)


class Tasks:
    """The tasks of an installation. Thread-safe."""

    def __init__(self, jobs: shared.Jobs) -> None:
        self._jobs = jobs

    def start(self, user: str, name: str, host: str = "") -> None:
        """Start a task, unless it is running. Only the `host` may run it, if there is one."""
        self._jobs.add_once(name, user, host=host)

    def get(self, user: str, name: str) -> Task | None:
        """The task that was started last under this name."""
        for job in self._jobs.list_for(name, user, 1):
            return Task(
                job.state,
                job.progress.get("step", ""),
                job.progress.get("count", 0),
                job.progress.get("total", 0),
                job.result,
                job.error,
                job.finished_at,
            )
        return None
