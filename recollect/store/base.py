"""The contract of a store.

One store object serves one user's library. Every method is atomic and can be called from any
thread, and several processes may use one library at once. A write returns only after it is durable.
`tests/store` holds the test suite that every store passes. `store/views.py` has stores that pass
only some of it on. What a method here lacks, every store has: tests/store/test_views.py checks it.
"""

# mypy: disable-error-code="empty-body"

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path
from typing import Any

from recollect.language.languages import ENGLISH, Language
from recollect.language.queries.query_tree import Node, Word
from recollect.model.documents import Document, Passage, Position, Summary
from recollect.model.kinds import CONVERSATION
from recollect.model.receipts import Receipt
from recollect.model.search import Filter
from recollect.model.undo import Change, Edit
from recollect.store.values import (
    Activity,
    Appended,
    Batch,
    Candidate,
    CandidatePage,
    Closure,
    Contents,
    Findings,
    Forgotten,
    ListPosition,
    MatchGroups,
    OnDamage,
    Progress,
    Purge,
    Removal,
    SaveResult,
    Space,
    TimedMatches,
    Unembedded,
)

Passages = Sequence[int] | Sequence[tuple[str, str]]
"""Passages by their keys, or by the id of their document and their own."""


class Store:
    """One user's library. See the module docstring for what every method guarantees."""

    # -- documents ---

    def save(
        self,
        documents: Sequence[Document],
        receipt: int | None = None,
        index_ids: bool = False,
        skip_forgotten: bool = False,
        only_new: bool = False,
    ) -> list[SaveResult]:
        """Store new documents and update stored ones, all in one transaction.

        A document is identified by (source, source_id). New passages are added, and different ones
        replaced, unless the stored document is newer or the document is `partial`. Passages of a
        conversation are never removed. Documents of other kinds have exactly the new passages.
        With `index_ids`, documents can be looked up by the ids of the passages that are added (see
        `documents_containing`). With `skip_forgotten`, what was forgotten is left out. With
        `only_new`, stored documents stay as they are. Raises ImportUndone if the import with this
        receipt was undone.
        """

    def rewrite(
        self, document: str, replacement: Document, version: int | None = None
    ) -> SaveResult:
        """Replace the text and metadata of a stored document that is not a conversation.

        It keeps its id, source and source id, and counts as changed now. Raises NotFound, or
        Conflict if `version` is given and the stored document has another version.
        """

    def append(
        self, document: str, passage: Passage, expected_passages: int | None = None
    ) -> Appended:
        """Add a passage after the head of a document, unless it is there already.

        Raises NotFound, or Conflict if another passage has the same id. If `expected_passages` is
        given and the document has another number of passages, OutdatedPosition is raised. This is
        checked in the transaction that writes, so of several processes exactly one succeeds.
        """

    def extend(self, document: str, passages: Sequence[Passage], require_same: bool = False) -> int:
        """Add the passages whose ids the document does not have, and return their number.

        Each is added after its parent, or after the head, all in one transaction. The document can
        then be looked up by their ids (see `documents_containing`). Passages that were forgotten
        are left out. Raises NotFound. With `require_same`, raises Conflict if the document has
        another passage with one of the ids; a missing parent or date counts as equal.
        """

    def revise(self, document: str, change: Callable[[Document], Document]) -> int:
        """Replace the text of a document with what `change` returns. No trace of the old remains.

        The passages stay where they are; only their content may change. Earlier states kept for
        undoing imports, and observations, are deleted. Returns the number of changed passages.
        `change` may be called more than once. Raises NotFound.
        """

    def delete_undo_states(self, is_unwanted: Callable[[str], bool], dry_run: bool = False) -> int:
        """Delete earlier states, kept for undoing imports, that `is_unwanted` selects.

        It gets each state as JSON. Undoing an import then leaves those documents and passages as
        they are. Returns their number. With `dry_run`, they are only counted.
        """

    def delete(self, document: str, passage: str | None = None) -> Document:
        """Delete a document, or one of its passages, and everything derived from it.

        Returns the document with what was deleted. Raises NotFound, or Conflict if other passages
        reply to the passage.
        """

    def forget(self, removals: Sequence[Removal]) -> Forgotten:
        """Delete documents or some of their passages, all in one transaction, and remember that.

        Replies to a forgotten passage become replies to the one before it. Earlier states kept for
        undoing imports, and observations, are deleted as well. Hashes of the ids remain, so that
        `save` can leave out what was forgotten. What the library does not have is skipped.
        """

    def document(self, id: str, with_passages: bool = True) -> Document:
        """A document with all its passages, or without them. Raises NotFound."""

    def documents(self, ids: Sequence[str]) -> dict[str, Document]:
        """Documents with all their passages, by their identifiers (`language.text.identifier`).

        Those that the library does not have are left out.
        """

    def summary(self, id: str) -> Summary:
        """A document as lists show it. Raises NotFound."""

    def summaries(
        self, filter: Filter, search: str, limit: int, offset: int
    ) -> tuple[list[Summary], int]:
        """A page of documents, last changed first, and the number of documents on all pages.

        If the filter names roles, authors or dates, one passage must match all of them. `search`
        is a substring of the title or id, ignoring case.
        """

    def list_position(self, id: str, filter: Filter, search: str) -> int | None:
        """How many documents come before this one in `summaries`; None if it is not among them.

        Raises NotFound.
        """

    def summaries_after(
        self, filter: Filter, search: str, limit: int, order: str, after: ListPosition
    ) -> tuple[list[Summary], ListPosition | None]:
        """The documents after a position, and the position of the last one.

        `order` is "updated" (last changed first) or "added" (newest in the library first).
        There is no position if no more documents follow. See `summaries` for the other arguments.
        """

    def ids_with_prefix(self, prefix: str, limit: int, document: str | None = None) -> list[str]:
        """The ids of conversations and items that begin with a prefix, in order.

        Those of the passages of a document, if one is given. Raises NotFound.
        """

    def find_id(self, source: str, source_id: str) -> str | None:
        """The id of the document that has this id at its source."""

    def documents_containing(self, source: str, passages: Sequence[str]) -> list[tuple[str, str]]:
        """Pairs of document and passage id for the passages that documents of a source have.

        The document that changed last comes first. Only passages stored with their ids indexed are
        found (see `save` and `extend`).
        """

    def iter_documents(
        self, filter: Filter, on_damage: OnDamage | None = None
    ) -> Iterator[Document]:
        """All documents with their passages, oldest first, one in memory at a time.

        Raises DamagedLibrary if one cannot be read. With `on_damage`, it is skipped.
        """

    def is_linear(self, id: str) -> bool:
        """Whether a document has no branches: its path is all its passages, in their order.

        Its pages can be read with `passage_page`. Raises NotFound.
        """

    def positions(self, id: str) -> list[Position]:
        """The positions of a document's passages, in reading order. Raises NotFound."""

    def passage_page(self, id: str, position: int, limit: int) -> tuple[list[Passage], int]:
        """Some passages of a document, starting at a position, and the number of all its passages.

        Raises NotFound.
        """

    def passage_key(self, document: str, passage: str) -> int:
        """The key of a passage. Raises NotFound."""

    def passages_by_key(self, keys: Sequence[int]) -> dict[int, tuple[str, Passage]]:
        """The passages with these keys, each with the id of its document."""

    def human_only(self, keys: Sequence[int] | None = None) -> dict[int, str]:
        """Which of the passages are human-only, each with the id of its document.

        Without keys, all of the library. No message is read for it.
        """

    def change_times(self, keys: Sequence[int]) -> list[tuple[int, str, datetime | None]]:
        """The key, document and date of each passage.

        The date of a message is its own. Passages of other kinds of documents, and messages without
        a date, have the date at which the document last changed.
        """

    def size(self) -> int:
        """The number of passages. It may be slightly too high after deletions."""

    # -- changes that can be undone ---

    def edit(self, document: str, edit: Edit, until: datetime | None = None) -> Change | None:
        """Change the title, project or metadata of a document. It counts as changed now.

        So importing an older export does not revert it. With `until`, it keeps its date, the change
        is logged, and `revert` can undo it until then; None if nothing changed. Raises NotFound.
        """

    def trash(self, document: str, until: datetime) -> Change:
        """Delete a document like `delete`, but keep a copy in the undo log. Raises NotFound."""

    def undo_log(self) -> list[Change]:
        """The changes that can be undone now, newest first."""

    def revert(self, number: int) -> Change:
        """Undo a change of a document and remove it from the log.

        A deleted document is put back, also into its imports. Raises NotFound, or Conflict if a
        later change conflicts.
        """

    def clear_undo_log(self, *, expired: bool = False) -> int:
        """Delete the entries of the undo log, or only expired ones. Returns their number."""

    # -- observations ---

    def unobserved(self, limit: int) -> tuple[list[tuple[str, int]], int]:
        """Some conversations that changed since they were observed, and the number of all of them.

        Each is a pair of id and version.
        """

    def save_observations(
        self,
        conversation: str,
        version: int,
        observations: Document | None,
        complete: bool = True,
    ) -> None:
        """Replace the observations made in a conversation, or remove them if there are none.

        They belong to this version of the conversation and are deleted with it. If they are not
        `complete`, `reset_observations` can ask for another attempt.
        """

    def reset_observations(self, incomplete_only: bool = False) -> None:
        """Mark all conversations as unobserved, or only those with incomplete observations."""

    # -- search by words, substrings and filters ---

    def match(self, node: Node, filter: Filter, limit: int) -> list[int]:
        """The keys of the passages that match a query tree, best first by the engine's score."""

    def title_matches(self, words: Sequence[Word]) -> list[int]:
        """The keys of opening passages whose document has one of these words in its title."""

    def authors(self, limit: int) -> list[str]:
        """The names of all authors of passages; none if there are more than `limit`."""

    def has_match(self, node: Node, filter: Filter) -> bool:
        """Whether a passage that passes the filter matches the query."""

    def count(self, node: Node, filter: Filter) -> tuple[int, bool]:
        """The number of matching passages, and whether it is exact or a lower bound."""

    def match_groups(
        self, node: Node | None, filter: Filter, keys: Sequence[int] | None = None
    ) -> MatchGroups:
        """All matching passages in groups, to count them; without a query tree, all passages.

        With `keys`, only the passages with these keys, whatever they match.

        Raises SearchTimeout if there are too many to count.
        """

    def match_times(self, node: Node | None, filter: Filter) -> TimedMatches:
        """All matching passages with their times, in any order; without a query tree, all passages.

        Raises SearchTimeout if there are too many.
        """

    def frequencies(self, nodes: Sequence[Node]) -> tuple[list[int], int]:
        """The number of passages that match each query tree, and the number of all passages."""

    def variants(self, words: Sequence[str], language: Language = ENGLISH) -> list[tuple[str, ...]]:
        """For each word: the word and the words in the library that have the same stem.

        The stems are those of a language.
        """

    def words_containing(self, parts: Sequence[str]) -> dict[str, list[str]]:
        """For each part: the words in the library that contain it, in alphabetical order.

        If there are very many, only the first of them.
        """

    def known_words(self, words: Sequence[str]) -> set[str]:
        """Which of the words the library contains."""

    def candidates(
        self, passages: Passages, filter: Filter, previous: bool = False
    ) -> list[Candidate]:
        """The passages that pass the filter, in any order.

        They are given by their keys, or by the ids of their documents and their own. With
        `previous`, those directly before these in their documents.
        """

    def text_scores(self, node: Node, keys: Sequence[int]) -> dict[int, float]:
        """How well these passages match, by the engine's score; higher is better.

        The score is `ts_rank` on PostgreSQL and BM25 on SQLite. Only scores of the same query can
        be compared.
        """

    def newest(
        self,
        filter: Filter,
        limit: int,
        offset: int = 0,
        *,
        text: str | None = None,
        where: str = "content",
        by_document: bool = False,
        counted: bool = True,
    ) -> CandidatePage:
        """A page of the passages that pass the filter, newest first.

        With `text`, those that contain it, ignoring case: in their "content"; "anywhere", that is
        in their content or title; or that contain all its "words" there. With `by_document`, only
        the newest of each document, and the number of documents. Without `counted`, and unless the
        content is searched, the number is that of the page.
        """

    # -- search by meaning ---

    def spaces(self) -> list[Space]:
        """All spaces, oldest first."""

    def add_space(
        self, name: str, version: str, dimensions: int, model_state: bytes | None
    ) -> Space:
        """The space of a model, created on first use."""

    def drop_space(self, space: Space) -> None:
        """Delete a space and its vectors."""

    def unembedded(
        self, space: Space, limit: int, after: int | None = None
    ) -> tuple[list[Unembedded], int]:
        """A batch of passages that have no vectors in this space yet, and the number of all.

        With a key, a batch of those after it that were embedded and have no vector, and their
        number. Most of them contain no word that the model knows.
        """

    def add_vectors(self, space: Space, vectors: Mapping[Unembedded, Sequence[Any]]) -> None:
        """Store the vectors of passages from `unembedded`: any number of vectors for each.

        The passages leave the queue. Vectors of passages that were deleted or changed in the
        meantime are not stored.
        """

    def update_space(
        self,
        space: Space,
        ready: bool = False,
        noise_floor: float | None = None,
        size: int = 0,
        queue: Sequence[int] = (),
    ) -> None:
        """Mark a space as ready: every passage has been embedded. Or store its noise floor.

        That was measured when the library had `size` passages. Or queue passages for embedding,
        given by their keys.
        """

    def nearest(
        self, space: Space, vector: Any, filter: Filter, limit: int
    ) -> list[tuple[int, float]]:
        """The keys of the passages nearest to a unit vector with their cosines, nearest first."""

    def highest_cosines(self, space: Space, vectors: Sequence[Any]) -> list[float]:
        """The cosine between each unit vector and the passage nearest to it, hidden ones apart.

        Nothing if the space has no such passage.
        """

    def cosines(self, space: Space, vector: Any, keys: Sequence[int]) -> dict[int, float]:
        """The cosines between a unit vector and these passages, if they have vectors."""

    def vectors(self, space: Space, key: int) -> list[Any]:
        """The vectors of a passage."""

    # -- imports ---

    def start_import(self, path: str, job: str = "") -> Receipt:
        """Create the receipt of an import.

        If an earlier attempt at the same job has created one, return that.
        """

    def update_receipt(self, receipt: Receipt) -> None:
        """Store what an import has done, so far or until it ended."""

    def receipts(self) -> list[Receipt]:
        """All receipts, newest first."""

    def undo_import(self, receipt: int) -> Receipt:
        """Undo an import: remove what only it added, and restore what it changed.

        Raises NotFound, InvalidInput if the import has been undone before, and Conflict if a later
        import contains documents of it as well: that has to be undone first.
        """

    # -- moving a library ---

    def export_batches(self, receive: Callable[[Batch], None] | None = None) -> Contents:
        """Pass everything except derived data to `receive`, from one snapshot.

        Returns a description of the snapshot.
        """

    def import_batch(self, batch: Batch) -> None:
        """Add a batch from another library. Batches must come in the order they were exported.

        From the first batch on, the library has the marker MOVING (see store/sql/transfer.py), and
        nobody else can write to it. If it has that marker already, it is emptied first.
        """

    def join_move(self) -> None:
        """Let this object write to the library even if it is closed."""

    def closure(self) -> Closure | None:
        """Why nobody may write to the library, or None."""

    def set_closure(self, reason: Closure | None) -> None:
        """Close the library to all others who write, or open it to everybody.

        A library that is opened is complete: the marker MOVING is removed.
        """

    def get_marker(self, name: str) -> int | None:
        """The number stored under a name."""

    def set_marker(self, name: str, number: int | None) -> None:
        """Store a number under a name, or remove it with None."""

    def remove_library(self, expected: Closure | None = None) -> None:
        """Delete the library and close the store; only if it is still closed as `expected`."""

    # -- the library as a whole ---

    @property
    def path(self) -> Path | str:
        """The location of the library, without credentials."""

    @property
    def read_only(self) -> str:
        """Why nothing can be written to the library; empty if it can.

        Then every writer raises ReadOnlyLibrary.
        """

    def stats(self) -> dict[str, object]:
        """Counts and sizes: conversations, messages, by source and role, first and last date."""

    def facet_names(
        self, facet: str, text: str = "", kinds: Sequence[str] = (CONVERSATION,)
    ) -> list[tuple[str, int]]:
        """The "projects", "sources", "tags" or "media_types" of documents of these kinds.

        Those that contain a text, whatever its case and accents, each with its number of documents,
        largest first.
        """

    def activity(self) -> Activity:
        """People's messages by time, source and project; replies by model; calls by tool."""

    def version(self) -> object:
        """A value that changes whenever any process writes to the library."""

    def snapshot(self) -> AbstractContextManager[None]:
        """Inside this block, the reads of this thread are parts of one search.

        They are made in one transaction. So the store holds a connection until the end of the
        block, or until this thread writes. Background work of other threads waits meanwhile
        (`recollect.priority`).
        """

    def needs_refresh(self) -> bool:
        """Whether `refresh` has work to do for text search."""

    def refresh(
        self, progress: Progress | None = None, stop: Callable[[], bool] | None = None
    ) -> None:
        """Bring the search index up to date. Results do not change; searches become faster."""

    def indexing_lock(self) -> AbstractContextManager[bool]:
        """Try to lock the library for indexing. False if another process or thread holds it."""

    def purge(self, patience: float | None = 0.0) -> Purge:
        """Try to remove deleted text from all files of the library. With None, only look.

        Every method that deletes text calls this. If other programs are reading for longer than
        `patience`, in seconds, the files still contain the text. Then the background thread calls
        it again.
        """

    def verify(self) -> Findings:
        """Compare derived data with the documents, without changing anything."""

    def repair(self, progress: Progress | None = None) -> None:
        """Rebuild derived data. Raises DamagedLibrary if the documents themselves are damaged."""

    def close(self) -> None:
        """Release all resources. Closing twice is allowed."""
