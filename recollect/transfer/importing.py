"""One import: files are read, documents saved in batches, and everything is counted.

What cannot be read is counted in the receipt and the rest goes on; what cannot
be written (a full disk, a lock held too long) ends the import with an error,
since going on would lose it. Reading does not overlap with writing: tried with
a thread, the two only take the interpreter's lock from each other.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime

from recollect.errors import InvalidInput, RecollectError
from recollect.importers.entries import Entry
from recollect.importers.registry import Format
from recollect.model.documents import Document
from recollect.model.receipts import FileReceipt, Problem, Receipt
from recollect.store.base import Store
from recollect.store.values import SaveResult
from recollect.transfer.exclusion import Exclusion, configured, is_agent

EARLIER = "it was taken in earlier and stays until it is deleted"
BATCH = 10_000  # messages a transaction: long enough to be cheap, short enough to let others write
_SAMPLES = 3

Progress = Callable[[str, int, int], None]
"""Called with (file, bytes read, bytes in all) while an import goes on."""
Admission = Callable[[Document], Document | Problem]
"""A document as it may be stored, or why it may not be."""


def import_files(
    store: Store,
    path: str,
    found: Iterable[tuple[Entry, Format] | Problem],
    progress: Progress | None = None,
    exclusion: Exclusion | None = None,
) -> Receipt:
    """Import what was found and return the receipt, which is kept even when the import is cut short."""
    run = _Run(
        store,
        store.start_import(path),
        admission(store, exclusion or configured()),
        progress or _silent,
    )
    try:
        with _rare_collections():
            run.read_all(list(found))
            run.save()
    finally:
        run.receipt.finished_at = datetime.now(UTC)
        store.finish_import(run.receipt)
    return run.receipt


def take_in(store: Store, entry: Entry, format: Format, admitted: Admission) -> FileReceipt:
    """Save what a file holds without a receipt: of files that are read again and again while they grow."""
    run = _Run(store, None, admitted, _silent)
    run.read_all([(entry, format)])
    run.save()
    return run.receipt.files[0]


def _silent(file: str, done: int, total: int) -> None:
    pass


def admission(store: Store, exclusion: Exclusion) -> Admission:
    """What is excluded is left out; where it was taken in earlier, that is said."""

    def admitted(document: Document) -> Document | Problem:
        given = exclusion.admitted(document)
        if (
            isinstance(given, Problem)
            and store.find_id(document.source, document.source_id) is not None
        ):
            return replace(given, reason=f"{given.reason}; {EARLIER}")
        return given

    return admitted


@contextmanager
def _rare_collections() -> Iterator[None]:
    """Millions of values come and go without circles; looking for circles would take a twentieth of the time."""
    thresholds = gc.get_threshold()
    gc.set_threshold(100_000, 20, 100)
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)


class _Run:
    def __init__(
        self, store: Store, receipt: Receipt | None, admitted: Admission, progress: Progress
    ) -> None:
        self.receipt = receipt or Receipt(0, "", datetime.now(UTC))
        self._number = receipt.id if receipt else None
        self._store = store
        self._admitted = admitted
        self._progress = progress
        self._pending: list[tuple[Document, FileReceipt]] = []
        self._size = 0

    # -- reading ---

    def read_all(self, found: list[tuple[Entry, Format] | Problem]) -> None:
        total = sum(item[0].size for item in found if not isinstance(item, Problem))
        done = 0
        for item in sorted(
            found, key=lambda item: not isinstance(item, Problem) and is_agent(item[0].place)
        ):
            if isinstance(item, Problem):
                self.receipt.left_out.note(item)
            else:
                entry, format_ = item
                file = FileReceipt(entry.name, format_.SOURCE.name)
                self.receipt.files.append(file)
                for document in self._documents(entry, format_, file, done, total):
                    self._add(document, file)
                done += entry.size
                self._progress(entry.name, done, total)

    def _documents(
        self, entry: Entry, format_: Format, file: FileReceipt, done: int, total: int
    ) -> Iterator[Document]:
        read = 0

        def report(count: int) -> None:
            nonlocal read
            read = min(read + count, entry.size)
            self._progress(entry.name, done + read, total)

        items = format_.read(entry.with_progress(report))
        while True:
            try:
                item = next(items, None)
            except (RecollectError, OSError) as error:
                item = Problem(str(error), entry.name, failed=True, unit="conversations")
            if item is None:
                return
            if isinstance(item, Problem):
                self._note(file, item)
            elif item.passages:
                given = self._admitted(item)
                if isinstance(given, Problem):
                    self._note(file, given)
                else:
                    yield given
            else:
                self._note(
                    file, Problem("conversation without messages", item.title, unit="conversations")
                )

    def _note(self, file: FileReceipt, problem: Problem) -> None:
        if problem.unit == "files":
            self.receipt.left_out.note(problem)
            return
        counts = file.messages if problem.unit == "messages" else file.conversations
        counts.note(problem)
        places = file.samples.setdefault(problem.reason, [])
        if problem.where and len(places) < _SAMPLES:
            places.append(problem.where)

    # -- writing ---

    def _add(self, document: Document, file: FileReceipt) -> None:
        self._pending.append((document, file))
        self._size += len(document.passages)
        if self._size >= BATCH:
            self.save()

    def save(self) -> None:
        """Write the batch in one transaction, and count it."""
        batch, self._pending, self._size = self._pending, [], 0
        try:
            for (_, file), saved in zip(batch, self._saved([d for d, _ in batch]), strict=True):
                _count(file, saved)
        except InvalidInput:  # find out which it was; the others are not held back by it
            for document, file in batch:
                self._save_alone(document, file)

    def _saved(self, documents: list[Document]) -> list[SaveResult]:
        return self._store.save(documents, self._number) if documents else []

    def _save_alone(self, document: Document, file: FileReceipt) -> None:
        try:
            _count(file, self._saved([document])[0])
        except InvalidInput as error:
            self._note(
                file,
                Problem(str(error), document.title or document.source_id, True, "conversations"),
            )


def _count(file: FileReceipt, saved: SaveResult) -> None:
    if saved.created:
        file.conversations.new += 1
    elif saved.new or saved.changed or saved.document_changed or saved.removed:
        file.conversations.changed += 1
    else:
        file.conversations.same += 1
    file.messages.new += saved.new
    file.messages.same += saved.same
    file.messages.changed += saved.changed
    for kind, count in saved.redacted.items():
        file.redacted[kind] = file.redacted.get(kind, 0) + count
    if saved.outdated:
        file.messages.note(
            Problem("the library has a newer or fuller version", count=saved.outdated)
        )
    if saved.copies:
        file.messages.note(Problem("copy of a message in another conversation", count=saved.copies))
