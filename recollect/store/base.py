"""The contract of a store: where documents and passages are the truth.

One object serves one user's library. Every method is atomic and safe to call
from any thread; several processes may use one library at once. A write is
acknowledged (the method returns) only after it is durable. `tests/store`
holds the one suite that every store passes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from recollect.language.query import Node, Word
from recollect.model.documents import Bone, Document, Passage, Summary
from recollect.model.kinds import CONVERSATION
from recollect.model.receipts import Receipt
from recollect.model.search import Filter
from recollect.store.sql.encoding import Progress


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
    """Passages that already live in another document of the source."""
    altered: bool = False
    """What the source says of the document itself (title, times, metadata) differs from before."""
    removed: int = 0
    """Passages that a rewritten document no longer has."""
    redacted: Mapping[str, int] = field(default_factory=dict)
    """Secrets that were taken out before it was stored, by kind (see manage.redacting)."""


class Placed(NamedTuple):
    """What appending a passage did; true where it was new."""

    position: int
    new: bool

    def __bool__(self) -> bool:
        return self.new


class Candidate(NamedTuple):
    """A passage that a search found, with what ranking and showing need."""

    key: int
    id: str
    document: str
    title: str
    role: str | None
    author: str | None
    type: str
    created_at: datetime | None
    source: str
    kind: str
    project: str
    position: int
    canonical: bool
    passages: int
    """How many passages its document has."""
    content: str
    visibility: str = "all"

    @property
    def conversation_id(self) -> str:
        return self.document


@dataclass(frozen=True, slots=True)
class Space:
    """The vectors of one model: only vectors of one space can be compared."""

    id: int
    name: str
    version: str
    dimensions: int
    state: bytes | None
    """What the model learned from this library, if it learns."""
    done: int
    """The last passage that was embedded."""
    ready: bool
    """Every passage was embedded once; from then on it is only kept up to date."""


@dataclass(frozen=True, slots=True, eq=False)
class Unembedded:
    """A passage that waits for its vectors."""

    key: int
    title: str
    author: str | None
    content: str
    mark: int
    """The store's sign that it has not changed since."""


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
    orphaned_in_queue: int = 0
    """Entries of the embedding queue whose message does not exist."""
    never_embedded: int = 0
    """Messages that have no vector and are not queued for one. Only Library.verify counts them, for
    it takes the model to tell them from messages that have no vector because they hold no words."""

    @property
    def healthy(self) -> bool:
        return not (
            self.damaged
            or self.damaged_index
            or self.unindexed
            or self.orphaned
            or self.outdated
            or self.orphaned_in_queue
            or self.never_embedded
        )


@dataclass(frozen=True, slots=True)
class Batch:
    """Some rows of a library on their way into another one (see store.transfer)."""

    part: str
    after: tuple[int, ...]
    """The key of the row before the first of these."""
    rows: Sequence[tuple[Any, ...]]
    last: bool
    """Nothing of this part follows."""
    reached: int = 0
    """Of passages: no key up to this one will be given to another passage."""


@dataclass(frozen=True, slots=True)
class Contents:
    """How much a library holds, and the hash of all of it but for what is derived."""

    conversations: int
    notes: int
    messages: int
    imports: int
    hash: str


@dataclass(frozen=True, slots=True)
class Activity:
    """Numbers of passages, each list the most first, but for the hours."""

    hours: list[tuple[int, int]]
    """Hours since 1970 in which there were any, and how many."""
    sources: list[tuple[str, int]]
    projects: list[tuple[str, int]]
    models: list[tuple[str, int]]
    tools: list[tuple[str, int]]


class Store(ABC):
    """One user's library. See the module for what holds of every method."""

    # -- writing ---

    @abstractmethod
    def save(
        self, documents: Sequence[Document], receipt: int | None = None, by_id: bool = False
    ) -> list[Saved]:
        """Store documents or bring stored ones up to date, all in one transaction.

        A document is known by (source, source_id). Passages that are new are
        added, equal ones left alone, different ones replaced unless the stored
        document is newer or the given one is `partial`. Of a conversation nothing
        is removed; anything else is rewritten, so that what replaces it is all it
        then has, in the order given. What is added `by_id` can be found by the ids of passages (see `holding`).
        """

    @abstractmethod
    def rewrite(self, document: str, given: Document, version: int | None = None) -> Saved:
        """Let a stored document that is no conversation say what the given one says and nothing else,
        as a change made now. It stays known by what it was known by. Raises NotFound, or Conflict
        when it is not the `version` that the change was made for."""

    @abstractmethod
    def append(self, document: str, passage: Passage) -> Placed:
        """Add one passage at the head of a document; false when its id is there already with
        the same content. Raises NotFound, or Conflict when the id holds something else."""

    @abstractmethod
    def extend(self, document: str, passages: Sequence[Passage]) -> int:
        """Add those passages whose ids the document does not have, each at its parent or at the head,
        all in one transaction; they can then be found by their ids (see `holding`). Returns how many
        were new. Raises NotFound."""

    def retitle(self, document: str, title: str) -> None:
        """Give a document a new title (see `amend`)."""
        self.amend(document, title=title)

    @abstractmethod
    def amend(
        self,
        document: str,
        title: str | None = None,
        project: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        """Change what is said of a document, as a change made now: an export of before does not take
        it back. Of metadata only the keys given change; a value of None removes one. Raises NotFound."""

    @abstractmethod
    def revise(self, document: str, change: Callable[[Document], Document]) -> int:
        """Let a document and its passages say what `change` makes of them; says how many passages changed. Which
        passages there are, and where, stays. What they said is then nowhere: not in what imports would put back,
        nor in what was observed. `change` may be called more than once. Raises NotFound."""

    @abstractmethod
    def forget_states(self, unwanted: Callable[[str], bool]) -> int:
        """Forget those earlier states that taking back an import would put back, of which, as JSON, `unwanted`
        says so; says how many. What they were of then stays as it is when the import is taken back."""

    @abstractmethod
    def cut(self, document: str, passage: str) -> Passage:
        """Remove a passage of a document that no other one answers, and everything derived from it; gives what it
        was. Raises NotFound, or Conflict where another passage answers it."""

    @abstractmethod
    def delete(self, document: str) -> None:
        """Remove a document, its passages and everything derived from them. Raises NotFound."""

    @abstractmethod
    def take(self, document: str) -> Document:
        """The same, and what was removed. Raises NotFound."""

    # -- reading ---

    @abstractmethod
    def document(self, id: str) -> Document:
        """A document with all its passages. Raises NotFound."""

    @abstractmethod
    def head(self, id: str) -> Document:
        """A document without its passages. Raises NotFound."""

    @abstractmethod
    def summary(self, id: str) -> Summary:
        """A document as lists show it. Raises NotFound."""

    @abstractmethod
    def find(self, source: str, source_id: str) -> str | None:
        """The id of the document that came from there."""

    @abstractmethod
    def bones(self, id: str) -> list[Bone]:
        """Where the passages of a document stand, in reading order. Raises NotFound."""

    @abstractmethod
    def contents(self, keys: Sequence[int]) -> dict[int, tuple[str, Passage]]:
        """The passages of these keys, each with the id of its document."""

    @abstractmethod
    def changed(self, keys: Sequence[int]) -> list[tuple[int, str, datetime | None]]:
        """For each of these passages its document, and when it was said; of what is no conversation, and of
        messages without a date, when the document last changed."""

    @abstractmethod
    def part(self, id: str, position: int, limit: int) -> tuple[list[Passage], int]:
        """The passages of a document from a position on, and how many it has in all. Raises NotFound."""

    @abstractmethod
    def holding(self, source: str, passages: Sequence[str]) -> list[tuple[str, str]]:
        """Documents of an source that hold some of these passages (see `extend`) and the passage, the
        document that changed last first."""

    @abstractmethod
    def documents(
        self, filter: Filter, search: str, limit: int, offset: int
    ) -> tuple[list[Summary], int]:
        """Summaries, newest change first, and how many there are in all. Of roles, authors and dates
        one passage must have them all.

        `search` is a text that the title or id must contain, without regard to case.
        """

    @abstractmethod
    def every(self, filter: Filter) -> Iterator[Document]:
        """Every document with its passages, oldest first, one in memory at a time."""

    # -- finding ---

    @abstractmethod
    def match(self, node: Node, filter: Filter, limit: int) -> list[int]:
        """The keys of passages that match the query tree, best first by the engine's own measure."""

    @abstractmethod
    def openings(self, words: Sequence[Word]) -> list[int]:
        """The keys of the passages that carry a title which has one of these words."""

    @abstractmethod
    def count(self, node: Node, filter: Filter) -> tuple[int, bool]:
        """How many passages match, and whether that is all of them or only at least so many."""

    @abstractmethod
    def frequencies(self, nodes: Sequence[Node]) -> tuple[list[int], int]:
        """How many passages match each tree, and how many there are."""

    @abstractmethod
    def variants(self, words: Sequence[str]) -> list[tuple[str, ...]]:
        """For each word, itself and the words of the library that share its stem; for one that
        the library does not know, the words that contain it."""

    @abstractmethod
    def passages(self, keys: Sequence[int], filter: Filter) -> list[Candidate]:
        """The passages of these keys that the filter lets through, in no order."""

    @abstractmethod
    def text_scores(self, node: Node, keys: Sequence[int]) -> dict[int, float]:
        """How well the words of these passages match, by the engine's own measure: `ts_rank` on
        PostgreSQL, BM25 on SQLite. More is better; only scores of one query can be compared."""

    @abstractmethod
    def preceding(self, keys: Sequence[int]) -> list[Candidate]:
        """The passages just before these in their documents."""

    @abstractmethod
    def key(self, document: str, passage: str) -> int:
        """The key of a passage. Raises NotFound."""

    @abstractmethod
    def find_literal(
        self, text: str, filter: Filter, limit: int, offset: int
    ) -> tuple[list[Candidate], int]:
        """Passages that contain `text` as it is, without regard to case, newest first."""

    @abstractmethod
    def newest(
        self, filter: Filter, limit: int, offset: int, by_document: bool = False
    ) -> tuple[list[Candidate], int]:
        """The passages that the filter lets through, newest first, and how many there are in all;
        or of each document the newest, and how many documents."""

    @abstractmethod
    def recent(self, text: str | None, filter: Filter, limit: int) -> list[Candidate]:
        """The newest passages that contain `text` literally or all its words, or whose
        document's title does."""

    # -- observations ---

    @abstractmethod
    def unobserved(self, limit: int) -> tuple[list[tuple[str, int]], int]:
        """Conversations that have changed since they were observed, with their versions, some of them; and how
        many there are in all."""

    @abstractmethod
    def observe(
        self, conversation: str, version: int, given: Document | None, complete: bool = True
    ) -> None:
        """Keep what was observed in a version of a conversation, in place of what was observed before; None
        where there is nothing. It goes when the conversation does. What is not `complete` can be tried again."""

    @abstractmethod
    def observe_again(self, incomplete: bool = False) -> None:
        """Let every conversation be observed anew, or those of which not all was observed."""

    # -- vectors ---

    @abstractmethod
    def spaces(self) -> list[Space]:
        """Every space, oldest first."""

    @abstractmethod
    def add_space(self, name: str, version: str, dimensions: int, state: bytes | None) -> Space:
        """The space of a model, made on first use."""

    @abstractmethod
    def drop_space(self, space: Space) -> None:
        """Remove a space and its vectors."""

    @abstractmethod
    def unembedded(self, space: Space, limit: int) -> tuple[list[Unembedded], int]:
        """Passages that wait for vectors of this space, a batch of them, and how many wait in all."""

    @abstractmethod
    def vectorless(self, space: Space, after: int, limit: int) -> list[Unembedded]:
        """Passages that count as embedded but have no vector, by key, those that follow key `after`.
        Most hold no word that the model knows."""

    @abstractmethod
    def queue(self, space: Space, passages: Sequence[int]) -> None:
        """Queue passages for embedding, given by their keys."""

    @abstractmethod
    def embed(self, space: Space, vectors: Mapping[Unembedded, Sequence[Any]]) -> None:
        """Store the vectors of passages from `unembedded`, one or more each or none; they wait no
        longer. Vectors of passages that were deleted or changed meanwhile are left out."""

    @abstractmethod
    def finish_space(self, space: Space) -> None:
        """Nothing waits any more: the space is ready."""

    @abstractmethod
    def nearest(
        self, space: Space, vector: Any, filter: Filter, limit: int
    ) -> list[tuple[int, float]]:
        """The keys of the passages nearest to a unit vector, with their cosines, nearest first."""

    @abstractmethod
    def cosines(self, space: Space, vector: Any, keys: Sequence[int]) -> dict[int, float]:
        """How near these passages are; without those that have no vector."""

    @abstractmethod
    def vectors(self, space: Space, key: int) -> list[Any]:
        """The vectors of a passage."""

    @abstractmethod
    def size(self) -> int:
        """How many passages there are, or a little more where some were deleted."""

    @abstractmethod
    def sample(self, limit: int) -> Iterator[str]:
        """Contents of passages, spread evenly over the library."""

    @abstractmethod
    def unsealed(self) -> bool:
        """Whether `refresh` has something to do for words."""

    @abstractmethod
    def alone(self) -> AbstractContextManager[bool]:
        """For the block: True when nobody else embeds this library, in any process."""

    @abstractmethod
    def refresh(
        self, progress: Progress | None = None, stop: Callable[[], bool] | None = None
    ) -> None:
        """Bring what makes searching fast up to date; what is found does not change by it."""

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

    # -- moving ---

    @abstractmethod
    def outgoing(self, receive: Callable[[Batch], None] | None = None) -> Contents:
        """Hand over everything but what is derived, as it is at one moment, and say what it was."""

    @abstractmethod
    def incoming(self, batch: Batch) -> str | None:
        """Take in what another library handed over, in the order in which it did.

        What is there already stays, and what differs is put right, so that this may be broken off
        and begun again; returns a name for what was put right, if anything was. From the first
        batch on MOVING is noted (see store.transfer). Raises InvalidInput where the library holds
        anything else.
        """

    @abstractmethod
    def noted(self, name: str) -> int | None:
        """The number that is kept under a name."""

    @abstractmethod
    def note(self, name: str, number: int | None) -> None:
        """Keep a number under a name, or no longer."""

    @abstractmethod
    def remove(self, known: Contents | None = None) -> None:
        """Remove the library for good, and close. With `known`, only if it is still exactly that."""

    # -- care ---

    @property
    @abstractmethod
    def path(self) -> Path | str:
        """Where the library is, as it may be shown."""

    @property
    @abstractmethod
    def engine(self) -> str:
        """The database and its version."""

    @property
    def lacks(self) -> tuple[str, ...]:
        """What the database could have and has not, and what that costs."""
        return ()

    @abstractmethod
    def stats(self) -> dict[str, object]:
        """Counts and sizes: conversations, messages, by source and role, first and last time."""

    @abstractmethod
    def facets(self, kind: str = CONVERSATION) -> dict[str, list[tuple[str, int]]]:
        """The projects, sources and tags of the documents of a source, with how many have each; most first."""

    @abstractmethod
    def media_types(self) -> list[tuple[str, int]]:
        """The types of media items, in lower case, with how many there are of each; most first."""

    @abstractmethod
    def activity(self) -> Activity:
        """How many passages there are by hour, source, project, model and tool."""

    @abstractmethod
    def version(self) -> object:
        """A value that differs from the last one whenever anything was written in between, by any process."""

    @abstractmethod
    def verify(self) -> Findings:
        """Compare what is derived with the truth, without changing anything."""

    @abstractmethod
    def repair(self, progress: Progress | None = None) -> None:
        """Rebuild what is derived. Raises DamagedLibrary when the truth itself is damaged."""

    @abstractmethod
    def close(self) -> None:
        """Release everything; calling it again does nothing."""
