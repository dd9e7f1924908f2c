"""What all methods of a library share: the store, the background indexer, and models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from recollect.errors import StorageFull
from recollect.home_folder import ARCHIVE
from recollect.model.audience import Audience
from recollect.model.search import Filter, require_filter
from recollect.settings import home
from recollect.store.abbreviations import AbbreviatedStore, expand_filter
from recollect.store.base import Store

if TYPE_CHECKING:
    from recollect.index.background import Indexer
    from recollect.index.meaning import Meaning
    from recollect.memory.observe.model import Budget
    from recollect.store.shared.database import SharedDatabase
    from recollect.transfer.archive import Archive


class LibraryCore:
    """A library that can be opened and closed. The other modules of this package add methods."""

    def __init__(
        self,
        store: Store,
        background: bool = False,
        archive: Path | None = None,
        indexer: Indexer | None = None,
        open_shared: Callable[[], SharedDatabase] | None = None,
    ) -> None:
        """`open_shared` opens the database that servers share, if exclusions and budgets are in it
        and not in files."""
        self._store: Store = AbbreviatedStore(store)
        self._archive_folder = archive or home() / ARCHIVE / "default"
        self._background: Indexer | None = indexer
        self._open_shared = open_shared
        if not store.read_only:
            with suppress(StorageFull):  # a library on a full disk can be read
                store.clear_undo_log(expired=True)
        if background and indexer is None:
            self._start_background(store)

    def _start_background(self, store: Store) -> None:
        from recollect.index.background import BackgroundThread
        from recollect.memory.background_jobs import background_jobs

        self._background = BackgroundThread(background_jobs(store, self._budget))
        if store.purge_status().reason:
            self.wake_indexer()  # an earlier process could not purge deleted text

    def __repr__(self) -> str:
        return f"<Library {self._store.path}>"

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        if self._background is not None:
            self._background.close()
        if "archive" in self.__dict__:
            self.archive.close()
        self._store.close()

    def wake_indexer(self) -> None:
        """Wake the background indexer, if there is one. Every method that writes calls this."""
        if self._background is not None:
            self._background.wake()

    @cached_property
    def archive(self) -> Archive:
        """Copies of the transcripts that were imported."""
        from recollect.transfer.archive import Archive

        return Archive(self._archive_folder)

    @cached_property
    def _meaning(self) -> Meaning:
        from recollect.index.meaning import Meaning

        return Meaning(self._store)

    def _budget(self) -> Budget:
        """What may be sent to a model for observations."""
        from recollect.memory.background_jobs import observation_budget

        return observation_budget(self._open_shared)

    def _visible_store(self, audience: Audience) -> Store:
        from recollect.store.audience import visible_store

        return visible_store(self._store, audience)

    def _complete_filter(self, filter: Filter | None, kinds: Sequence[str]) -> Filter:
        """The filter with whole ids, and with these kinds if it names none."""
        return expand_filter(self._store, require_filter(filter).with_default_kinds(kinds))
