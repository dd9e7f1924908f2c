"""The job that imports an uploaded file, or files of this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from recollect.jobs.runner import Borrow, Handler, Run
from recollect.library import Library
from recollect.model.receipts import Problem, Receipt
from recollect.store.shared.jobs import Job, Jobs
from recollect.store.shared.uploads import Uploads

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

    def __init__(self, borrow: Borrow, jobs: Jobs, uploads: Uploads) -> None:
        self._borrow = borrow
        self._jobs = jobs
        self._uploads = uploads

    def run(self, run: Run) -> Any:
        job = run.job
        with self._borrow(job.user) as library:
            if job.payload.get("paths"):
                receipt = self._import_paths(run, library)
            else:
                with self._uploads.open(job.id, job.payload["name"]) as folder:
                    receipt = self._import_upload(run, library, folder)
        return _end(run, receipt)

    def _import_paths(self, run: Run, library: Library) -> Receipt:
        return library.import_path(
            *run.job.payload["paths"],
            progress=lambda *progress: _report(run, *progress),
            stop=run.stop,
            job=run.job.id,
        )

    def _import_upload(self, run: Run, library: Library, folder: Path) -> Receipt:
        return library.import_path(
            folder / run.job.payload["name"],
            kind=run.job.payload.get("kind"),
            within=folder,
            progress=lambda *progress: _report(run, *progress),
            stop=run.stop,
            job=run.job.id,
        )

    def give_up(self, run: Run) -> Any:
        name = run.job.payload["name"]
        reason = (
            f"{name} was not imported: the server stopped unexpectedly during each of "
            f"{run.job.attempts - 1} attempts"
        )
        problem = Problem(reason, name, failed=True, unit="files")
        with self._borrow(run.job.user) as library:
            return _end(run, library.record_failed_import(name, problem, run.job.id))

    def describe_error(self, job: Job, error: Exception) -> str:
        """The message, without the folders of the server."""
        if isinstance(error, OSError):
            return f"Cannot read the file: {error.strerror or type(error).__name__}."
        return self._uploads.hide_folder(str(error), job.id, job.payload["name"])

    def clean_up(self, job: Job) -> None:
        self._uploads.remove(job.id)

    def sweep(self) -> None:
        self._uploads.remove_stale(self._jobs.unfinished_ids(IMPORT))


def _end(run: Run, receipt: Receipt) -> int:
    """The result of the job. What was imported is in the library only, where it can be deleted."""
    run.progress = {**run.progress, "file": ""}
    return receipt.id


def _report(run: Run, file: str, count: int, total: int) -> None:
    run.progress = {"file": file, "done": count, "total": total}
