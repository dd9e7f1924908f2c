"""Run an import: read files, save documents in batches, and count everything.

Unreadable records are counted in the receipt, and the import continues. A failed write (a full
disk, a lock held too long) ends the import with an error, since continuing would lose messages.
Another process reads (`recollect.importers.sandbox`), so reading and writing overlap.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from recollect.errors import InvalidInput
from recollect.importers.sandbox.parsing import FileEnd, Files
from recollect.model.documents import Document
from recollect.model.kinds import CONVERSATION
from recollect.model.receipts import Counts, FileReceipt, Problem, Receipt
from recollect.model.sources import RECOLLECT
from recollect.progress import Progress, ignore_progress
from recollect.store.base import Store
from recollect.store.sqlite.private_files import file_lock
from recollect.store.values import SaveResult
from recollect.transfer.exclusion import Exclusion, configured_exclusion, is_agent

STILL_STORED = "it was imported earlier and stays until you delete it"
FORGOTTEN = "forgotten earlier with `recollect forget`"
BATCH = 10_000  # messages per transaction: enough to be cheap, few enough to let others write
_SAMPLES = 3
_STALE_SECONDS = 60
"""A younger lock may belong to a process that has not locked it yet."""

Admission = Callable[[Document], Document | Problem]
"""Returns the document as it may be stored, or the reason why it may not."""


def import_files(
    store: Store,
    path: str,
    files: Files,
    progress: Progress | None = None,
    exclusion: Exclusion | None = None,
    job: str = "",
) -> Receipt:
    """Import files and return the receipt, which is stored even if the import is interrupted.

    An interrupted `job` continues with the receipt that it has.
    """
    if exclusion is None:
        exclusion = configured_exclusion()
    receipt = store.start_import(path, job)
    run = _Run(store, receipt, admission(store, exclusion), progress or ignore_progress)
    if job:
        run.resume()
    try:
        run.read_all(files)
        run.save()
        files.raise_if_stopped()  # what was read last may be incomplete
        run.receipt.finished_at = datetime.now(UTC)
    finally:
        store.update_receipt(run.receipt)
    return run.receipt


def import_documents(
    store: Store,
    label: str,
    items: Iterable[Document | Problem],
    exclusion: Exclusion,
    job: str = "",
) -> Receipt:
    """Import documents from a program, and return the receipt."""
    run = _Run(store, store.start_import(label, job), admission(store, exclusion))
    file = FileReceipt(label, RECOLLECT.name)
    try:
        for item in items:
            is_of_file = isinstance(item, Document) or item.unit != "files"
            if is_of_file and not run.receipt.files:
                run.receipt.files.append(file)
            run.take(item, file)
        run.save()
        run.receipt.finished_at = datetime.now(UTC)
    finally:
        store.update_receipt(run.receipt)
    return run.receipt


def import_file(store: Store, files: Files, admit: Admission) -> FileReceipt | None:
    """Import one file without storing a receipt: for files that are read again while they grow.

    Returns None if there is no file to import.
    """
    run = _Run(store, None, admit)
    run.read_all(files)
    run.save()
    if run.receipt.files:
        return run.receipt.files[0]
    if run.receipt.left_out.failed:
        return FileReceipt("", "", conversations=run.receipt.left_out)
    return None


def admission(store: Store, exclusion: Exclusion) -> Admission:
    """Apply an exclusion. The reason says so if an excluded document is stored from earlier."""

    def admit(document: Document) -> Document | Problem:
        decision = exclusion.admit(document)
        if not isinstance(decision, Problem):
            return decision
        if store.find_id(document.source, document.source_id) is None:
            return decision
        return replace(decision, reason=f"{decision.reason}; {STILL_STORED}")

    return admit


class _Run:
    def __init__(
        self,
        store: Store,
        receipt: Receipt | None,
        admit: Admission,
        progress: Progress = ignore_progress,
    ) -> None:
        self.receipt = receipt or Receipt(0, "", datetime.now(UTC))
        self._receipt_id = receipt.id if receipt is not None else None
        self._store = store
        self._admit = admit
        self._progress = progress
        self._pending: list[tuple[Document, FileReceipt]] = []
        self._size = 0
        self._is_resumed = False
        self._counted_again: set[tuple[str, str]] = set()

    def resume(self) -> None:
        """Continue an import that was interrupted: count what it had saved as if it were new."""
        self._is_resumed = True
        self.receipt.files = []
        self.receipt.left_out = Counts()

    # -- reading ---

    def read_all(self, files: Files) -> None:
        for problem in files.problems:
            self.receipt.left_out.note(problem)
        # Sub-agents come after their sessions, with which they are excluded.
        ordered = sorted(files.files, key=lambda file: is_agent(file.place))
        total = sum(file.size for file in ordered)
        bytes_before = 0
        bytes_read = 0
        current: FileReceipt | None = None
        for file, item in files.read(ordered):
            if current is None:
                current = FileReceipt(file.name, file.source)
                self.receipt.files.append(current)
            if isinstance(item, FileEnd):
                bytes_before += file.size
                bytes_read = 0
                current = None
                self._progress(file.name, bytes_before, total)
            elif isinstance(item, int):
                bytes_read = min(bytes_read + item, file.size)
                self._progress(file.name, bytes_before + bytes_read, total)
            else:
                self.take(item, current)

    def take(self, item: Document | Problem, file: FileReceipt) -> None:
        """Save a document, if it may be stored, and count it."""
        if isinstance(item, Problem):
            self._note(file, item)
            return
        file.kinds[item.kind] = file.kinds.get(item.kind, 0) + 1
        if not item.passages:
            what = "messages" if item.kind == CONVERSATION else "text"
            reason = f"{item.kind} without {what}"
            self._note(file, Problem(reason, item.title, unit="conversations"))
            return
        decision = self._admit(item)
        if isinstance(decision, Problem):
            self._note(file, decision)
            return
        self._pending.append((decision, file))
        self._size += len(decision.passages)
        if self._size >= BATCH:
            self.save()
            if self._receipt_id is not None:  # if the process is killed, the receipt says so much
                self._store.update_receipt(self.receipt)

    def _note(self, file: FileReceipt, problem: Problem) -> None:
        if problem.unit == "files":
            self.receipt.left_out.note(problem)
            return
        counts = file.messages if problem.unit == "messages" else file.conversations
        counts.note(problem)
        samples = file.samples.setdefault(problem.reason, [])
        if problem.where not in ("", file.name) and len(samples) < _SAMPLES:
            samples.append(problem.where)

    # -- writing ---

    def save(self) -> None:
        """Write the batch in one transaction, and count it."""
        batch, self._pending, self._size = self._pending, [], 0
        try:
            results = self._save([document for document, _ in batch])
        except InvalidInput:  # save them one by one, so that one bad document stops no other
            for document, file in batch:
                try:
                    (result,) = self._save([document])
                except InvalidInput as error:
                    where = document.title or document.source_id
                    self._note(file, Problem(str(error), where, True, "conversations"))
                else:
                    self._count(document, file, result)
            return
        for (document, file), result in zip(batch, results, strict=True):
            self._count(document, file, result)

    def _count(self, document: Document, file: FileReceipt, result: SaveResult) -> None:
        name = (document.source, document.source_id)
        if self._is_resumed and name not in self._counted_again:
            self._counted_again.add(name)
            result.new += result.repeated
            result.same -= result.repeated
            result.created = result.created or result.created_earlier
        _count(file, result)

    def _save(self, documents: list[Document]) -> list[SaveResult]:
        if not documents:
            return []
        return self._store.save(documents, self._receipt_id, skip_forgotten=True)


def _count(file: FileReceipt, result: SaveResult) -> None:
    if result.forgotten:
        file.messages.note(Problem(FORGOTTEN, count=result.forgotten))
    if result.copies:
        problem = Problem("copy of a message in another conversation", count=result.copies)
        file.messages.note(problem)
    if not result.id:
        copied = "all its messages are in another conversation"
        file.conversations.note(Problem(copied if result.copies else FORGOTTEN))
        return
    if result.created:
        file.conversations.new += 1
    elif result.new or result.changed or result.document_changed or result.removed:
        file.conversations.changed += 1
    else:
        file.conversations.same += 1
    file.messages.new += result.new
    file.messages.same += result.same
    file.messages.changed += result.changed
    for kind, count in result.redacted.items():
        file.redacted[kind] = file.redacted.get(kind, 0) + count
    if result.outdated:
        reason = "the library has a newer or fuller version"
        file.messages.note(Problem(reason, count=result.outdated))


# -- receipts of jobs, which may need several attempts -------------------------


def finished_import(store: Store, job: str) -> Receipt | None:
    """The receipt of a job that an earlier attempt has finished, or that was undone."""
    if not job:
        return None
    for receipt in store.receipts():
        if receipt.job == job and (receipt.finished_at or receipt.undone_at):
            return receipt
    return None


# -- which imports run now ---------------------------------------------------
#
# Each holds the lock of a file, which ends with its process. A receipt that was never finished
# belongs to an import that runs, or to one that was stopped.


@contextmanager
def mark_running(folder: Path) -> Iterator[None]:
    """Count as a running import until the end of the block or of the process."""
    file = folder / f"{os.getpid()}-{uuid.uuid4().hex[:8]}.lock"
    with ExitStack() as stack:
        with suppress(OSError):  # where nothing can be written, the store says so
            stack.enter_context(file_lock(file))
        try:
            yield
        finally:
            with suppress(OSError):
                file.unlink()


def running_since(folder: Path) -> datetime | None:
    """When the oldest import that runs now was started; None if none runs."""
    starts = []
    for file in folder.glob("*.lock"):
        with suppress(OSError):
            start = file.stat().st_mtime
            with file_lock(file) as is_free:
                if not is_free:
                    starts.append(start)
                elif start < time.time() - _STALE_SECONDS:
                    file.unlink()
    return datetime.fromtimestamp(min(starts), UTC) if starts else None
