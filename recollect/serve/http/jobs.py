"""Imports of uploaded files, one after the other for each user, while the page shows how far they are.

An upload is accepted once its file and a note of whose it is are on disk, in a
folder only the server may read. From then on it survives: a restart imports
what is left there, and importing twice changes nothing. Files that were never
finished are removed after a day.
"""

from __future__ import annotations

import json
import logging
import os
import re
import secrets
import shutil
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING

from recollect.errors import NotFound, RecollectError
from recollect.model.receipts import Receipt
from recollect.settings import LIMITS, home

if TYPE_CHECKING:
    from recollect.serve.http.service import Service

log = logging.getLogger(__name__)

QUEUED, RUNNING, DONE, FAILED = "queued", "running", "done", "failed"
_HISTORY = 100  # jobs that are remembered after they ended
_AT_ONCE = 2
_NOTE = "upload.json"
_STALE_SECONDS = 86_400
_UNFIT = re.compile(r'[\x00-\x1f\x7f<>:"/\\|?*\ud800-\udfff]+')


class TooManyImports(RecollectError):
    """A user has so many imports waiting that another one is not taken on."""


@dataclass(slots=True)
class Job:
    """One uploaded file and what became of it. `id` cannot be guessed."""

    id: str
    user: str
    name: str
    size: int
    state: str = QUEUED
    done: int = 0
    total: int = 0
    file: str = ""
    """What is read at the moment, of an archive one of its files."""
    kind: str | None = None
    """What the person says that it is."""
    receipt: Receipt | None = None
    error: str = ""
    created_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    finished_at: datetime | None = None


class Jobs:
    """The imports of one server. Safe to use from any thread."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self.folder = (service.place if isinstance(service.place, Path) else home()) / "uploads"
        self._jobs: OrderedDict[str, Job] = OrderedDict()
        self._queues: dict[str, deque[Job]] = {}
        """For each user who has any: what is imported now, and what waits behind it."""
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="recollect-import")
        self._take_up()

    # -- uploading ---

    @contextmanager
    def upload(self, user: str, name: str, kind: str | None = None) -> Iterator[Upload]:
        """A file to write to; it is removed again unless it was accepted."""
        with self._lock:
            waiting = sum(
                1
                for job in self._jobs.values()
                if job.user == user and job.state in (QUEUED, RUNNING)
            )
        if waiting >= LIMITS.waiting_imports:
            raise TooManyImports(
                f"{waiting} imports are waiting already; send more when some of them are done."
            )
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        upload = Upload(self, user, safe_name(name), kind)
        try:
            yield upload
        finally:
            upload.end()

    def accept(self, job: Job) -> None:
        """Import it as soon as there is time."""
        with self._lock:
            self._jobs[job.id] = job
            self._forget()
            queue = self._queues.setdefault(job.user, deque())
            queue.append(job)
            if len(queue) == 1:
                self._submit(job.user)

    # -- asking ---

    def get(self, user: str, id: str) -> Job:
        """A job of this user. Raises NotFound, also for a job of somebody else."""
        job = self._jobs.get(id)
        if job is None or job.user != user:
            raise NotFound("There is no such import; it may have been forgotten since it ended.")
        return job

    def of(self, user: str) -> list[Job]:
        """The jobs of this user, newest first."""
        with self._lock:
            return [job for job in reversed(self._jobs.values()) if job.user == user]

    # -- ending ---

    def drain(self) -> None:
        """Wait for what is being imported; what waits is imported after the next start."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    close = drain

    # -- working ---

    def _submit(self, user: str) -> None:
        with suppress(RuntimeError):  # shutting down: the next start takes it up
            self._pool.submit(self._work, user)

    def _work(self, user: str) -> None:
        """Import one file of a user. Two at once would only wait for each other's writes; the next one goes to the
        end of the pool's own queue, so that nobody keeps others waiting with many files."""
        queue = self._queues[user]
        try:
            self._run(queue[0])
        finally:
            with self._lock:
                queue.popleft()
                if queue:
                    self._submit(user)
                else:
                    del self._queues[user]

    def _run(self, job: Job) -> None:
        job.state = RUNNING
        state = FAILED
        try:
            job.receipt = self._import(job)
            state = DONE
        except RecollectError as error:
            job.error = self._without_paths(str(error), job)
        except OSError as error:
            job.error = f"The file could not be read: {error.strerror or type(error).__name__}."
        except Exception:
            log.exception("An import failed")
            job.error = "The import failed; the server's log says why."
        finally:
            shutil.rmtree(self.folder / job.id, ignore_errors=True)
            job.finished_at = datetime.now(UTC)
            job.state = state

    def _import(self, job: Job) -> Receipt:
        def report(file: str, done: int, total: int) -> None:
            job.file, job.done, job.total = file, done, total

        with self._service.libraries.borrow(job.user) as library:
            folder = self.folder / job.id
            return library.import_path(
                folder / job.name, kind=job.kind, within=folder, progress=report
            )

    def _without_paths(self, sentence: str, job: Job) -> str:
        return sentence.replace(str(self.folder / job.id) + "/", "").replace(
            str(self.folder / job.id), job.name
        )

    def _forget(self) -> None:
        ended = [job.id for job in self._jobs.values() if job.state in (DONE, FAILED)]
        for id in ended[: max(0, len(ended) - _HISTORY)]:
            del self._jobs[id]

    def _take_up(self) -> None:
        """Import what an earlier run of the server had accepted."""
        if not self.folder.is_dir():
            return
        for folder in sorted(self.folder.iterdir()):
            try:
                note = json.loads((folder / _NOTE).read_text(encoding="utf-8"))
                job = Job(
                    folder.name,
                    str(note["user"]),
                    str(note["name"]),
                    int(note["size"]),
                    kind=note.get("kind"),
                )
                if safe_name(job.name) == job.name and (folder / job.name).is_file():
                    self.accept(job)
            except (OSError, ValueError, KeyError, TypeError):
                with suppress(OSError):
                    if time.time() - folder.stat().st_mtime > _STALE_SECONDS:
                        shutil.rmtree(folder, ignore_errors=True)


class Upload:
    """A file while it comes in."""

    def __init__(self, jobs: Jobs, user: str, name: str, kind: str | None) -> None:
        self._jobs = jobs
        self.job = Job(secrets.token_urlsafe(18), user, name, 0, kind=kind)
        self._folder = jobs.folder / self.job.id
        self._folder.mkdir(mode=0o700)
        self._file: IO[bytes] = (self._folder / name).open("xb")
        (self._folder / name).chmod(0o600)
        self._accepted = False

    def write(self, data: bytes) -> None:
        self._file.write(data)
        self.job.size += len(data)

    def accept(self) -> Job:
        """The file is whole: from here on it will be imported, whatever happens to the server."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        note = self._folder / (_NOTE + ".new")
        about = {
            "user": self.job.user,
            "name": self.job.name,
            "size": self.job.size,
            "kind": self.job.kind,
        }
        note.write_text(json.dumps(about))
        note.chmod(0o600)
        note.rename(self._folder / _NOTE)
        self._accepted = True
        self._jobs.accept(self.job)
        return self.job

    def end(self) -> None:
        self._file.close()
        if not self._accepted:
            shutil.rmtree(self._folder, ignore_errors=True)


def safe_name(name: str) -> str:
    """A file name that is only a name: no folders, nothing hidden, not too long. The ending is kept: formats
    are known by it."""
    last = name.replace("\\", "/").rstrip("/").rsplit("/", 1)[-1]
    clean = _UNFIT.sub("_", last).strip(" .") or "upload"
    stem, dot, ending = clean.rpartition(".")
    if dot and len(ending) <= 12:
        clean = f"{_cut(stem or 'upload', 120)}.{ending}"
    clean = _cut(clean, 140)
    return f"_{clean}" if clean.startswith(_NOTE) else clean


def _cut(text: str, length: int) -> str:
    """A file system counts bytes."""
    return text.encode()[:length].decode(errors="ignore") or "upload"
