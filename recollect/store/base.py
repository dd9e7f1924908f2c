"""The contract of a store: where documents and passages are the truth.

One object serves one user's library. Every method is atomic and safe to call
from any thread; several processes may use one library at once. A write is
acknowledged (the method returns) only after it is durable. `tests/store`
holds the one suite that every store passes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from recollect.model import Document, Filter, Passage, Receipt, Summary
from recollect.query import Node
from recollect.store.encoding import Progress


@dataclass(slots=True)
class Saved:
    """What saving one document did, passage by passage."""

    id: str
    created: bool
    new: int = 0
    same: int = 0
    changed: int = 0
    kept: int = 0
    """Passages that differ but were not replaced: what the library has is newer or fuller."""
    copies: int = 0
    """Passages that already live in another document of the origin."""
    altered: bool = False
    """What the origin says of the document itself (title, times, metadata) differs from before."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A passage that a search found, with what ranking and showing need."""

    key: int
    id: str
    document: str
    title: str
    role: str | None
    author: str | None
    kind: str
    created_at: datetime | None
    origin: str
    source: str
    namespace: str
    position: int
    canonical: bool
    content: str
    score: float = 0.0

    @property
    def conversation_id(self) -> str:
        return self.document


@dataclass(slots=True)
class Findings:
    """What `verify` found: empty lists mean that everything agrees.

    `damaged` speaks of the truth, which cannot be made again; the rest of the index, which can.
    """

    damaged: list[str] = field(default_factory=list)
    damaged_index: list[str] = field(default_factory=list)
    unindexed: int = 0
    orphaned: int = 0
    outdated: bool = False

    @property
    def healthy(self) -> bool:
        return not (self.damaged or self.damaged_index or self.unindexed or self.orphaned or self.outdated)


class Store(ABC):
    """One user's library. See the module for what holds of every method."""

    # -- writing ---

    @abstractmethod
    def save(self, documents: Sequence[Document], receipt: int | None = None) -> list[Saved]:
        """Store documents or bring stored ones up to date, all in one transaction.

        A document is known by (origin, origin_id). Passages that are new are
        added, equal ones left alone, different ones replaced unless the stored
        document is newer or the given one is `partial`. Nothing is removed.
        """

    @abstractmethod
    def append(self, document: str, passage: Passage) -> bool:
        """Add one passage at the head of a document; False when its id is there already with
        the same content. Raises NotFound, or InvalidInput when the id holds something else."""

    @abstractmethod
    def retitle(self, document: str, title: str) -> None:
        """Give a document a new title, as a change made now: an export of before does not take it
        back. Raises NotFound."""

    @abstractmethod
    def delete(self, document: str) -> None:
        """Remove a document, its passages and everything derived from them. Raises NotFound."""

    # -- reading ---

    @abstractmethod
    def document(self, id: str) -> Document:
        """A document with all its passages. Raises NotFound."""

    @abstractmethod
    def documents(self, filter: Filter, search: str, limit: int, offset: int) -> tuple[list[Summary], int]:
        """Summaries, newest change first, and how many there are in all.

        `search` is a text that the title or id must contain, without regard to case.
        """

    @abstractmethod
    def every(self, filter: Filter) -> Iterator[Document]:
        """Every document with its passages, oldest first, one in memory at a time."""

    # -- finding ---

    @abstractmethod
    def find(self, node: Node, filter: Filter, limit: int, offset: int) -> tuple[list[Candidate], int]:
        """Passages that match the query tree, best first, and how many match in all."""

    @abstractmethod
    def find_literal(self, text: str, filter: Filter, limit: int, offset: int) -> tuple[list[Candidate], int]:
        """Passages that contain `text` as it is, without regard to case, newest first."""

    @abstractmethod
    def recent(self, text: str | None, filter: Filter, limit: int) -> list[Candidate]:
        """The newest passages that contain `text` literally or all its words, or whose
        document's title does."""

    # -- receipts ---

    @abstractmethod
    def begin(self, path: str) -> Receipt:
        """Open the receipt of an import."""

    @abstractmethod
    def finish(self, receipt: Receipt) -> None:
        """Keep what an import did."""

    @abstractmethod
    def receipts(self) -> list[Receipt]:
        """Every receipt, newest first."""

    @abstractmethod
    def undo(self, receipt: int) -> Receipt:
        """Take an import back: what it alone brought is removed, what it changed is restored.

        What another import also contained stays. Raises NotFound, or InvalidInput when the
        import was taken back before.
        """

    # -- care ---

    @abstractmethod
    def stats(self) -> dict[str, object]:
        """Counts and sizes: conversations, messages, by origin and role, first and last time."""

    @abstractmethod
    def verify(self) -> Findings:
        """Compare what is derived with the truth, without changing anything."""

    @abstractmethod
    def repair(self, progress: Progress | None = None) -> None:
        """Rebuild what is derived. Raises DamagedLibrary when the truth itself is damaged."""

    @abstractmethod
    def close(self) -> None:
        """Release everything; calling it again does nothing."""
