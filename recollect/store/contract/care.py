"""Statistics, the search index, integrity checks and closing."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from recollect.model.kinds import CONVERSATION
from recollect.store.contract.marks import neutral, reader
from recollect.store.values import (
    Activity,
    Findings,
    Progress,
    Purge,
    SearchPlan,
)


class Care(ABC):
    """Statistics, the search index, integrity checks and closing."""

    @property
    @neutral
    @abstractmethod
    def path(self) -> Path | str:
        """The location of the library, without credentials."""

    @property
    @neutral
    @abstractmethod
    def read_only(self) -> str:
        """Why nothing can be written to the library; empty if it can.

        Then every writer raises ReadOnlyLibrary.
        """

    @property
    @neutral
    @abstractmethod
    def engine(self) -> str:
        """The database and its version."""

    @property
    @neutral
    def missing_features(self) -> tuple[str, ...]:
        """Optional features that the database lacks, each with the consequence."""
        return ()

    @reader
    @abstractmethod
    def stats(self) -> dict[str, object]:
        """Counts and sizes: conversations, messages, by source and role, first and last date."""

    @reader
    @abstractmethod
    def facets(self, kind: str = CONVERSATION) -> dict[str, list[tuple[str, int]]]:
        """The projects, sources and tags of a kind of document with their counts, largest first.

        At most MAX_FACET_NAMES of each; `facet_names` searches all of them.
        """

    @reader
    @abstractmethod
    def facet_names(
        self, facet: str, text: str = "", kinds: Sequence[str] = (CONVERSATION,)
    ) -> list[tuple[str, int]]:
        """All "projects", "sources" or "tags" that contain a text, whatever its case and accents.

        With their numbers of documents of these kinds, largest first.
        """

    @reader
    @abstractmethod
    def media_types(self) -> list[tuple[str, int]]:
        """The types of media items in lower case with their counts, largest first."""

    @reader
    @abstractmethod
    def activity(self) -> Activity:
        """People's messages by time, source and project; replies by model; calls by tool."""

    @neutral
    @abstractmethod
    def version(self) -> object:
        """A value that changes whenever any process writes to the library."""

    @neutral
    @abstractmethod
    def snapshot(self) -> AbstractContextManager[None]:
        """Inside this block, the reads of this thread are parts of one search.

        They are made in one transaction. So the store holds a connection until the end of the
        block, until this thread writes, or until `release_snapshot`. Background work of other
        threads waits meanwhile (`recollect.priority`).
        """

    @neutral
    @abstractmethod
    def release_snapshot(self) -> None:
        """Hold no connection for now. Called before something that takes long without reading."""

    @neutral
    @abstractmethod
    def expect(self, *plans: SearchPlan) -> None:
        """Announce the next steps of searches. The results of the steps are the same.

        A store in a file can then compare its vectors once for all of them.
        """

    @neutral
    @abstractmethod
    def needs_refresh(self) -> bool:
        """Whether `refresh` has work to do for text search."""

    @neutral
    @abstractmethod
    def refresh(
        self, progress: Progress | None = None, stop: Callable[[], bool] | None = None
    ) -> None:
        """Bring the search index up to date. Results do not change; searches become faster."""

    @neutral
    @abstractmethod
    def indexing_lock(self) -> AbstractContextManager[bool]:
        """Try to lock the library for indexing. False if another process or thread holds it."""

    @neutral
    @abstractmethod
    def purge(self, patience: float = 0.0) -> Purge:
        """Try to remove deleted text from all files of the library.

        Every method that deletes text calls this. If other programs are reading for longer than
        `patience`, in seconds, the files still contain the text. Then the background thread calls
        it again.
        """

    @neutral
    @abstractmethod
    def purge_status(self) -> Purge:
        """Whether files still contain deleted text, and why."""

    @neutral
    @abstractmethod
    def verify(self) -> Findings:
        """Compare derived data with the documents, without changing anything."""

    @neutral
    @abstractmethod
    def repair(self, progress: Progress | None = None) -> None:
        """Rebuild derived data. Raises DamagedLibrary if the documents themselves are damaged."""

    @neutral
    @abstractmethod
    def close(self) -> None:
        """Release all resources. Closing twice is allowed."""
