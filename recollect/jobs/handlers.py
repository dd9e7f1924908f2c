"""What jobs do: import, index, look for secrets, make a backup."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from recollect.errors import RecollectError
from recollect.jobs.runner import Borrow, Handler, PutBack, Run
from recollect.library import Library
from recollect.model.receipts import Problem, Receipt
from recollect.store.shared.jobs import FAILED, Job, Jobs
from recollect.store.shared.uploads import UploadFolder
from recollect.transfer.risks import SECRET, RiskReport

# -- imports ---

IMPORT = "import"


class ImportHandler(Handler):
    """Imports with a receipt that is tied to the job.

    An attempt that continues after a crash uses the receipt of the first one. If the crash came
    after the import's end, nothing is imported again.
    """

    kind = IMPORT
    # Files are parsed in a process of their own, so they hardly ever bring down the one that runs
    # the job. It may be killed for other reasons, and several of its jobs with it.
    max_attempts = 5

    def __init__(self, borrow: Borrow, jobs: Jobs, uploads: UploadFolder) -> None:
        self._borrow = borrow
        self._jobs = jobs
        self._uploads = uploads

    def run(self, run: Run) -> Any:
        job = run.job
        with self._borrow(job.user) as library:
            if job.payload.get("paths"):
                receipt = self._import(run, library, job.payload["paths"])
            else:
                name = job.payload["name"]
                with self._uploads.open(job.id, name) as folder:
                    options = {"kind": job.payload.get("kind"), "within": folder}
                    receipt = self._import(run, library, [folder / name], **options)
        return end(run, receipt)

    def _import(
        self, run: Run, library: Library, paths: Sequence[Path | str], **options: Any
    ) -> Receipt:
        def report(file: str, count: int, total: int) -> None:
            run.progress = {"file": file, "done": count, "total": total}

        return library.import_path(
            *paths, progress=report, stop=run.stop, job=run.job.id, **options
        )

    def give_up(self, run: Run) -> Any:
        name = run.job.payload["name"]
        reason = (
            f"{name} was not imported: the server stopped unexpectedly during each of "
            f"{run.job.attempts - 1} attempts"
        )
        problem = Problem(reason, name, failed=True, unit="files")
        with self._borrow(run.job.user) as library:
            return end(run, library.import_items([problem], label=name, job=run.job.id))

    def describe_error(self, job: Job, error: Exception) -> str:
        """The message, without the folders of the server."""
        if isinstance(error, OSError):
            return f"Cannot read the file: {error.strerror or type(error).__name__}."
        return self._uploads.hide_folder(str(error), job.payload["name"])

    def clean_up(self, job: Job) -> None:
        self._uploads.remove(job.id)

    def sweep(self) -> None:
        self._uploads.remove_stale(self._jobs.unfinished_ids(IMPORT))


def end(run: Run, receipt: Receipt) -> int:
    """The result of the job. What was imported is in the library only, where it can be deleted."""
    run.progress = {**run.progress, "file": ""}
    return receipt.id


# -- indexing: a write is stored with what must be indexed, the job only asks to do it soon ---

log = logging.getLogger(__name__)

INDEX = "index"
_PAUSE_SECONDS = 0.5
_RETRY_SECONDS = 5.0
_CHECK_SECONDS = 60.0


class IndexHandler(Handler):
    kind = INDEX
    max_attempts = 5
    is_remembered = False

    def __init__(self, borrow: Borrow) -> None:
        self._borrow = borrow

    def run(self, run: Run) -> Any:
        with self._borrow(run.job.user) as library:
            delay = library.run_background_jobs(run.stop.is_set)
        if delay is not None:
            raise PutBack(delay)
        if run.stop.is_set():
            raise PutBack


class IndexRequests:
    """Queues a job for every library that has changed, from a thread of its own."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs
        self._users: set[str] = set()
        self._lock = threading.Lock()
        self._flushing = threading.Lock()
        self._woken = threading.Event()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    def indexer(self, user: str) -> LibraryIndexer:
        """The indexer of a library that is being opened."""
        with self._lock:
            if self._thread is None and not self._closing.is_set():
                self._thread = threading.Thread(
                    target=self._work, name="recollect-index-requests", daemon=True
                )
                self._thread.start()
        return LibraryIndexer(self, user)

    def add(self, user: str) -> None:
        """Ask for the library of a user to be indexed. Returns at once."""
        with self._lock:
            self._users.add(user)
        self._woken.set()

    def flush_or_warn(self) -> None:
        """Queue what is left, when a library or the process is closed."""
        try:
            self.flush()
        except RecollectError as error:
            # Whoever uses the library next asks again.
            log.warning("The last changes will be indexed later: %s", error)

    def problem(self, user: str) -> str:
        jobs = self._jobs.list_for(INDEX, user, 1)
        return jobs[0].error if jobs and jobs[0].state == FAILED else ""

    def close(self) -> None:
        self._closing.set()
        self._woken.set()
        if self._thread is not None:
            self._thread.join()
            self.flush_or_warn()

    def _work(self) -> None:
        while not self._closing.is_set():
            self._woken.wait()
            self._woken.clear()
            pause = _PAUSE_SECONDS
            try:
                self.flush()
            except RecollectError as error:
                log.warning("Indexing waits for the database: %s", error)
                self._woken.set()
                pause = _RETRY_SECONDS
            self._closing.wait(pause)

    def flush(self) -> None:
        """Queue a job for every library that has changed. Waits for a flush in progress."""
        with self._flushing:
            while True:
                with self._lock:
                    if not self._users:
                        return
                    user = self._users.pop()
                try:
                    self._jobs.add_once(INDEX, user, even_if_running=True)
                except RecollectError:
                    self._users.add(user)
                    raise


class LibraryIndexer:
    """What the library of one user wakes."""

    def __init__(self, requests: IndexRequests, user: str) -> None:
        self._requests = requests
        self._user = user
        self._checked_at = float("-inf")

    def wake(self) -> None:
        self._requests.add(self._user)

    def check(self) -> None:
        """Programs may die before they have asked, so ask once in a while."""
        if time.monotonic() - self._checked_at > _CHECK_SECONDS:
            self._checked_at = time.monotonic()
            self.wake()

    def close(self) -> None:
        self._requests.flush_or_warn()

    @property
    def problem(self) -> str:
        """Why the library could not be indexed; empty if it could."""
        return self._requests.problem(self._user)


# -- secrets: the result has only ids, so what is renamed later is shown as it is then ---

SECRETS = "secrets"


@dataclass(slots=True)
class SecretKind:
    """The secrets of one kind."""

    kind: str
    count: int = 0
    places: dict[str, str | None] = field(default_factory=dict)
    """The conversations and items that have one, each with its first message."""


@dataclass(slots=True)
class SecretScan:
    messages: int
    kinds: list[SecretKind]

    @property
    def count(self) -> int:
        return sum(kind.count for kind in self.kinds)


class SecretScanHandler(Handler):
    kind = SECRETS

    def __init__(self, borrow: Borrow) -> None:
        self._borrow = borrow

    def run(self, run: Run) -> Any:
        with self._borrow(run.job.user) as library:
            return asdict(summarize(library.audit([SECRET], run.report)))


def decode_scan(value: Mapping[str, Any]) -> SecretScan:
    return SecretScan(value["messages"], [SecretKind(**kind) for kind in value["kinds"]])


def summarize(report: RiskReport) -> SecretScan:
    """The secrets of a report by kind, most frequent first."""
    kinds: dict[str, SecretKind] = {}
    prefix = f"{SECRET}: "
    for name, count in report.counts.items():
        kind = name.removeprefix(prefix)
        kinds[kind] = SecretKind(kind, count)
    for finding in report.findings:
        kinds[finding.kind].places.setdefault(finding.conversation_id, finding.message_id)
    ordered = sorted(kinds.values(), key=lambda kind: (-kind.count, kind.kind))
    return SecretScan(report.messages, ordered)


# -- backups, in the backup folder of the machine that runs the job ---

BACKUP = "backup"
SERVER = ""
"""The user of jobs that belong to the whole server."""


class BackupHandler(Handler):
    kind = BACKUP

    def __init__(self, place: Path | str) -> None:
        self._place = place

    def run(self, run: Run) -> Any:
        from recollect.backup.schedule import back_up_now

        return back_up_now(self._place, run.report).id
