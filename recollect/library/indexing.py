"""Indexing new messages, now or in the background."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from recollect.library.core import LibraryCore
from recollect.progress import Progress

if TYPE_CHECKING:
    from recollect.index.background import BackgroundPass
    from recollect.index.status import EmbeddingStatus, IndexStatus


class Indexing(LibraryCore):
    def index(
        self,
        progress: Progress | None = None,
        on_wait: Callable[[], None] | None = None,
        *,
        wait: bool = True,
    ) -> bool:
        """Observe, seal and embed everything that is new, and return when that is complete.

        If the background indexer or another process is indexing the library, waits until it has
        finished. `on_wait` is called before each wait. Without `wait`, leaves the work to the other
        process and returns False.
        """
        from recollect.index.refresh import refresh
        from recollect.memory.backlog import catch_up
        from recollect.models.embeddings import embedding_setting

        if not wait:
            on_wait = None
        elif on_wait is None:
            on_wait = _do_nothing
        catch_up(self._store, progress, on_wait=on_wait, budget=self._budget())
        return refresh(self._store, embedding_setting(), progress, on_wait=on_wait)

    def run_background_jobs(self, stop: Callable[[], bool]) -> float | None:
        """Do once what the background indexer would do.

        Returns the seconds after which there may be more to do; None if nothing remains. Raises
        RecollectError.
        """
        return self._background_pass.run(stop)

    @cached_property
    def _background_pass(self) -> BackgroundPass:
        from recollect.index.background import BackgroundPass
        from recollect.memory.background_jobs import background_jobs

        return BackgroundPass(background_jobs(self._store, self._budget))

    def pause_indexing(self) -> None:
        """Stop indexing in the background, in every process, until `resume_indexing`.

        New messages can be found by their words at once, but not by their meaning.
        """
        from recollect.index.pausing import pause

        pause(self._store)

    def resume_indexing(self) -> None:
        """Index in the background again. Other processes notice within seconds."""
        from recollect.index.pausing import resume

        resume(self._store)
        self.wake_indexer()

    def index_status(self) -> IndexStatus:
        """How much of the library is indexed, and whether indexing is paused."""
        from recollect.index.status import index_status

        if self._background is None:
            return index_status(self._store, is_background=False)
        return index_status(self._store, is_background=True, problem=self._background.problem)

    def embedding_status(self) -> list[EmbeddingStatus]:
        """For each embedding model that was used: the share of the messages that has vectors."""
        from recollect.index.status import embedding_status

        return embedding_status(self._store)


def _do_nothing() -> None:
    pass
