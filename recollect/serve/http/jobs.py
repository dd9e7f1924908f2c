"""Import jobs: files are imported in the background, one at a time per user.

Most files are uploaded. A person in front of the server's own computer can also import files that
are there already; then the note names them, and nothing is copied.

An upload is accepted once the file and a note about its owner are on disk, in a folder only the
server can read. From then on it survives a crash: the next start imports what is left in the
folder, and importing a file twice changes nothing. The note counts attempts, so a file whose import
brings the server down is given up. Shutting down stops an import at once; that does not count as an
attempt. Incomplete uploads are removed after a day.
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
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from recollect.errors import ImportStopped, InvalidInput, NotFound, RecollectError
from recollect.library import Library
from recollect.model.receipts import Problem, Receipt
from recollect.serve.http.libraries import Libraries
from recollect.settings import LIMITS
from recollect.store.sqlite.private_files import create_private_folder

log = logging.getLogger(__name__)

QUEUED, RUNNING, DONE, FAILED = "queued", "running", "done", "failed"
_MAX_FINISHED = 100  # finished jobs that are remembered
_WORKERS = 4  # a user has one at a time, so that a slow file delays only its owner
_MAX_ATTEMPTS = 2  # that ended with the server
_NOTE = "upload.json"
_STALE_SECONDS = 86_400
_UNSAFE = re.compile(r'[\x00-\x1f\x7f<>:"/\\|?*\ud800-\udfff]+')
_MAX_STEM_BYTES = 120
_MAX_NAME_BYTES = 140
_MAX_SUFFIX_LENGTH = 12


class TooManyImports(RecollectError):
    """The user's limit on waiting imports is reached."""


@dataclass(slots=True)
class Job:
    """A file or some local files, and the state of their import. The id cannot be guessed."""

    id: str
    user: str
    name: str
    size: int
    state: str = QUEUED
    done: int = 0
    total: int = 0
    file: str = ""
    """The file being read. For archives, a file inside the archive."""
    kind: str | None = None
    """What the file contains, if the user said so."""
    paths: tuple[str, ...] = ()
    """The files and folders on this computer to import; empty for an upload."""
    attempts: int = 0
    """How many imports of this file began and did not end."""
    receipt: Receipt | None = None
    error: str = ""
    created_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    finished_at: datetime | None = None

    @property
    def is_finished(self) -> bool:
        return self.state in (DONE, FAILED)


class Jobs:
    """The import jobs of one server. Thread-safe."""

    def __init__(self, libraries: Libraries, folder: Path, refusal: str = "") -> None:
        self.folder = folder
        self._refusal = refusal
        """Why uploads are not accepted; empty if they are."""
        self._libraries = libraries
        self._jobs: OrderedDict[str, Job] = OrderedDict()
        self._queues: dict[str, deque[Job]] = {}
        """Per user: the running job first, then the waiting ones."""
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._pool = ThreadPoolExecutor(_WORKERS, thread_name_prefix="recollect-import")

    # -- uploads ---

    @contextmanager
    def upload(self, user: str, name: str, kind: str | None = None) -> Iterator[Upload]:
        """A file to write to. It is removed again unless it is accepted within the block."""
        if self._refusal:
            raise InvalidInput(self._refusal)
        self._require_room(user)
        create_private_folder(self.folder)
        upload = Upload(self, user, safe_name(name), kind)
        try:
            yield upload
        finally:
            upload.close()

    def import_local(self, user: str, name: str, paths: Sequence[str]) -> Job:
        """Queue the import of files and folders on this computer."""
        self._require_room(user)
        job = Job(secrets.token_urlsafe(18), user, safe_name(name), 0, paths=tuple(paths))
        folder = self.folder / job.id
        create_private_folder(folder)
        _write_note(folder, job)
        self.accept(job)
        return job

    def _require_room(self, user: str) -> None:
        waiting = sum(1 for job in self.list_for(user) if not job.is_finished)
        if waiting >= LIMITS.waiting_imports:
            raise TooManyImports(
                f"{waiting} imports are waiting. Upload more when some of them have finished."
            )

    def accept(self, job: Job) -> None:
        """Queue a job."""
        with self._lock:
            self._jobs[job.id] = job
            self._forget_old_jobs()
            queue = self._queues.setdefault(job.user, deque())
            queue.append(job)
            if len(queue) == 1:
                self._submit(job.user)

    def resume(self) -> None:
        """Queue the uploads that an earlier run of the server accepted and did not import."""
        if not self.folder.is_dir():
            return
        for folder in sorted(self.folder.iterdir()):
            try:
                job = _read_note(folder)
            except (OSError, ValueError, KeyError, TypeError):
                _remove_if_stale(folder)
            else:
                has_file = safe_name(job.name) == job.name and (folder / job.name).is_file()
                if job.paths or has_file:
                    self.accept(job)
                else:
                    _remove_if_stale(folder)

    # -- lookup ---

    def get(self, user: str, id: str) -> Job:
        """A job of this user. Raises NotFound, also for the jobs of other users."""
        job = self._jobs.get(id)
        if job is None or job.user != user:
            raise NotFound(
                "There is no such import. The server forgets old imports; see GET /api/receipts."
            )
        return job

    def list_for(self, user: str) -> list[Job]:
        """The user's jobs, newest first."""
        with self._lock:
            return [job for job in reversed(self._jobs.values()) if job.user == user]

    # -- shutdown ---

    def drain(self) -> None:
        """Stop the running imports. They and the waiting ones continue after the next start."""
        self._stop.set()
        self._pool.shutdown(wait=True, cancel_futures=True)

    # -- work ---

    def _submit(self, user: str) -> None:
        with suppress(RuntimeError):  # shutting down: the next start resumes the job
            self._pool.submit(self._work, user)

    def _work(self, user: str) -> None:
        """Import one file of a user.

        Two imports of one user at once would only wait for each other's writes. The user's next
        file goes to the end of the pool's queue, so nobody blocks others with many files.
        """
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
        final_state = FAILED
        try:
            job.receipt = self._attempt(job)
            final_state = DONE
        except ImportStopped:
            job.state = QUEUED
            return
        except RecollectError as error:
            job.error = self._without_paths(str(error), job)
        except OSError as error:
            job.error = f"Cannot read the file: {error.strerror or type(error).__name__}."
        except Exception:  # a bug must not stop the imports of others
            log.exception("An import failed")
            job.error = "The import failed. The server log has the details."
        shutil.rmtree(self.folder / job.id, ignore_errors=True)
        job.finished_at = datetime.now(UTC)
        job.state = final_state

    def _attempt(self, job: Job) -> Receipt:
        """Import the file, unless that has brought the server down before."""
        folder = self.folder / job.id
        if self._stop.is_set():
            raise ImportStopped("The server is shutting down.")
        with self._libraries.borrow(job.user) as library:
            if job.attempts >= _MAX_ATTEMPTS:
                return self._give_up(job, library)
            job.attempts += 1
            _write_note(folder, job)
            try:
                return self._import(job, folder, library)
            except ImportStopped:  # not because of the file
                job.attempts -= 1
                _write_note(folder, job)
                raise

    def _import(self, job: Job, folder: Path, library: Library) -> Receipt:
        def report(file: str, done: int, total: int) -> None:
            job.file, job.done, job.total = file, done, total

        if job.paths:
            return library.import_path(*job.paths, progress=report, stop=self._stop)
        return library.import_path(
            folder / job.name, kind=job.kind, within=folder, progress=report, stop=self._stop
        )

    def _give_up(self, job: Job, library: Library) -> Receipt:
        reason = (
            f"{job.name} was not imported: the server stopped unexpectedly during each of "
            f"{job.attempts} attempts"
        )
        log.error("Gave up an import after %d attempts: %s", job.attempts, job.id)
        return library.record_failed_import(
            job.name, Problem(reason, job.name, failed=True, unit="files")
        )

    def _without_paths(self, message: str, job: Job) -> str:
        folder = str(self.folder / job.id)
        return message.replace(f"{folder}/", "").replace(folder, job.name)

    def _forget_old_jobs(self) -> None:
        finished = [job.id for job in self._jobs.values() if job.is_finished]
        excess = max(0, len(finished) - _MAX_FINISHED)
        for id in finished[:excess]:
            del self._jobs[id]


class Upload:
    """A file being uploaded."""

    def __init__(self, jobs: Jobs, user: str, name: str, kind: str | None) -> None:
        self._jobs = jobs
        self.job = Job(secrets.token_urlsafe(18), user, name, 0, kind=kind)
        self._folder = jobs.folder / self.job.id
        self._folder.mkdir(mode=0o700)
        self._file: IO[bytes] = (self._folder / name).open("xb")
        (self._folder / name).chmod(0o600)
        self._is_accepted = False

    def write(self, data: bytes) -> None:
        self._file.write(data)
        self.job.size += len(data)

    def accept(self) -> Job:
        """The file is complete: from here on it will be imported, even if the server crashes."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        _write_note(self._folder, self.job)
        self._is_accepted = True
        self._jobs.accept(self.job)
        return self.job

    def close(self) -> None:
        self._file.close()
        if not self._is_accepted:
            shutil.rmtree(self._folder, ignore_errors=True)


def _write_note(folder: Path, job: Job) -> None:
    """Write the note atomically: an upload with a note is complete."""
    note = {
        "user": job.user,
        "name": job.name,
        "size": job.size,
        "kind": job.kind,
        "paths": job.paths,
        "attempts": job.attempts,
    }
    temporary = folder / (_NOTE + ".new")
    with temporary.open("w", encoding="utf-8") as file:
        temporary.chmod(0o600)
        json.dump(note, file)
        file.flush()
        os.fsync(file.fileno())
    temporary.rename(folder / _NOTE)


def _read_note(folder: Path) -> Job:
    note = json.loads((folder / _NOTE).read_text(encoding="utf-8"))
    return Job(
        folder.name,
        str(note["user"]),
        str(note["name"]),
        int(note["size"]),
        kind=note.get("kind"),
        paths=tuple(map(str, note.get("paths", ()))),
        attempts=int(note.get("attempts", 0)),
    )


def _remove_if_stale(folder: Path) -> None:
    with suppress(OSError):
        if time.time() - folder.stat().st_mtime > _STALE_SECONDS:
            shutil.rmtree(folder, ignore_errors=True)


def safe_name(name: str) -> str:
    """A plain file name: no folders, not hidden, not too long.

    The suffix is kept because importers recognize formats by it.
    """
    last = name.replace("\\", "/").rstrip("/").rsplit("/", 1)[-1]
    clean = _UNSAFE.sub("_", last).strip(" .") or "upload"
    stem, dot, suffix = clean.rpartition(".")
    if dot and len(suffix) <= _MAX_SUFFIX_LENGTH:
        clean = f"{_shorten(stem or 'upload', _MAX_STEM_BYTES)}.{suffix}"
    clean = _shorten(clean, _MAX_NAME_BYTES)
    if clean.startswith(_NOTE):
        return f"_{clean}"
    return clean


def _shorten(text: str, max_bytes: int) -> str:
    return text.encode()[:max_bytes].decode(errors="ignore") or "upload"
