"""Importing files and documents, and what was imported."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import chain
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

from recollect.configuration import expand_path
from recollect.home_folder import IMPORTING
from recollect.library.core import LibraryCore
from recollect.model.documents import Document, Json
from recollect.model.receipts import FileReceipt, Problem, Receipt
from recollect.progress import Progress

if TYPE_CHECKING:
    from recollect.transfer.exclusion import Exclusion
    from recollect.transfer.importing import Admission


class Importing(LibraryCore):
    def import_path(
        self,
        *paths: str | Path,
        kind: str | None = None,
        within: Path | None = None,
        progress: Progress | None = None,
        stop: Event | None = None,
        job: str = "",
    ) -> Receipt:
        """Import files and folders of any known format.

        The format is detected. `kind` restricts it to conversations, notes, media, characters or
        prompts. Notes and media are identified by their path, or by their path below the folder
        `within`. Messages that the library has are skipped, and a broken record does not stop the
        import. Files are parsed in a process of their own, with limited time and memory.

        If another thread sets `stop`, the import ends at once and keeps what it has saved.
        Imports with the same `job` share one receipt: once it is finished, they return it.
        Raises UnknownFormat if nothing at a path can be read, ImportStopped, and ImportUndone.
        """
        from recollect.importers.sandbox.files import Request, open_files
        from recollect.transfer.importing import finished_import, import_files, mark_running

        receipt = finished_import(self._store, job)
        if receipt is not None:
            return receipt
        request = Request(tuple(expand_path(path) for path in paths), kind, within)
        label = ", ".join(map(str, paths))
        with open_files(request, stop=stop) as files, mark_running(self._running_folder):
            receipt = import_files(self._store, label, files, progress, self.exclusion(), job)
        self.wake_indexer()
        return receipt

    def import_items(
        self, items: Iterable[Document | Mapping[str, Json]], *, label: str = "items"
    ) -> Receipt:
        """Import conversations and items that a program has, as `import_path` imports files.

        An item is a Document, or a mapping as `export` writes it: at least an `id` and `messages`,
        each with `role` and `content`, or as OpenAI's and Anthropic's SDKs have them. Items are
        read one by one, so a generator may yield more than fits into memory. Unusable items are
        counted in the receipt, and the import continues. `label` names the import in its receipt.
        """
        from recollect.transfer.importing import import_documents
        from recollect.transfer.restoring import parse_item

        documents = chain.from_iterable(map(parse_item, items))
        receipt = import_documents(self._store, label, documents, self.exclusion())
        self.wake_indexer()
        return receipt

    def import_file(
        self, path: Path, sources: Sequence[str], admission: Admission, folders: Sequence[Path]
    ) -> FileReceipt | None:
        """Import one transcript without a receipt. For files that are imported again as they grow.

        The process that parses it may read `folders`, and is reused for other files in them.
        Returns None if the file has no format of these sources.
        """
        from recollect.importers.sandbox.files import Request, open_files
        from recollect.transfer.importing import import_file

        request = Request((path,), sources=tuple(sources))
        with open_files(request, folders) as files:
            receipt = import_file(self._store, files, admission)
        self.wake_indexer()
        return receipt

    def prepare_imports(self, folders: Sequence[Path]) -> None:
        """Start the process that parses files in these folders, unless one is waiting already."""
        from recollect.importers.sandbox.process import POOL

        POOL.prepare(folders, wait=True)

    def record_failed_import(self, path: str, problem: Problem, job: str = "") -> Receipt:
        """Store the receipt of an import that was given up."""
        from recollect.transfer.importing import record_failed_import

        return record_failed_import(self._store, path, problem, job)

    def undo_import(self, receipt: int) -> Receipt:
        """Remove what an import added, and restore what it changed."""
        undone = self._store.undo_import(receipt)
        self.wake_indexer()
        return undone

    def receipts(self) -> list[Receipt]:
        """The receipts of all imports, newest first."""
        return self._store.receipts()

    def running_imports(self) -> datetime | None:
        """When the oldest import that runs on this computer was started; None if none runs."""
        from recollect.transfer.importing import running_since

        return running_since(self._running_folder)

    @property
    def _running_folder(self) -> Path:
        return self._archive_folder.parent.parent / IMPORTING / self._archive_folder.name

    def exclusion(self) -> Exclusion:
        """The projects that must not be imported, as configured now."""
        from recollect.store.shared.exclusions import shared_patterns
        from recollect.transfer.exclusion import configured_exclusion

        home_folder = self._archive_folder.parent.parent
        return configured_exclusion(home_folder, shared_patterns(self._open_shared))

    def admission(self, exclusion: Exclusion) -> Admission:
        """The function that decides whether a document may be imported."""
        from recollect.transfer.importing import admission

        return admission(self._store, exclusion)
