"""The state of a library, and its repair."""

from __future__ import annotations

from recollect.library.core import LibraryCore
from recollect.store.values import Findings, Progress, Purge


class Maintenance(LibraryCore):
    def size(self) -> int:
        """The number of messages, or slightly more if some were deleted. Faster than `stats`."""
        return self._store.size()

    def stats(self) -> dict[str, object]:
        """Counts, sizes, and where the library is."""
        return self._store.stats()

    def version(self) -> object:
        """A value that changes whenever any process has written to the library."""
        return self._store.version()

    @property
    def read_only(self) -> str:
        """Why nothing can be written to this library; empty if it can."""
        return self._store.read_only

    def missing_features(self) -> tuple[str, ...]:
        """Features that the database could offer but does not, and what that costs."""
        return self._store.missing_features

    def purge_status(self) -> Purge:
        """Whether files still contain deleted text, and why.

        The background thread purges them as soon as no other program prevents it.
        """
        return self._store.purge_status()

    def verify(self) -> Findings:
        """Compare the indexes with the messages. Changes nothing."""
        from recollect.index.verification import verify

        return verify(self._store)

    def repair(self, progress: Progress | None = None) -> None:
        """Rebuild the text index, and queue every message for embedding that has no vector."""
        from recollect.index.verification import repair

        repair(self._store, progress)
        self.wake_indexer()
