"""Storing, changing, deleting and reading documents."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from recollect.model.documents import Document, Passage, Position, Summary
from recollect.model.search import Filter
from recollect.store.contract.marks import reader, writer
from recollect.store.values import (
    Appended,
    Forgotten,
    ListPosition,
    OnDamage,
    Removal,
    SaveResult,
)


class Documents(ABC):
    """Documents and their passages."""

    # -- writing ---

    @writer
    @abstractmethod
    def save(
        self,
        documents: Sequence[Document],
        receipt: int | None = None,
        index_ids: bool = False,
        skip_forgotten: bool = False,
        only_new: bool = False,
    ) -> list[SaveResult]:
        """Store new documents and update stored ones, all in one transaction.

        A document is identified by (source, source_id). New passages are added, equal ones stay,
        and different ones are replaced, unless the stored document is newer or the document is
        `partial`. Passages of a conversation are never removed. Documents of other kinds are
        rewritten: afterwards they have exactly the passages of the new version, in its order.
        With `index_ids`, documents can be looked up by the ids of the passages that are added (see
        `documents_containing`). With `skip_forgotten`, what was forgotten is left out. With
        `only_new`, stored documents stay as they are. Raises ImportUndone if the import with this
        receipt was undone.
        """

    @writer
    @abstractmethod
    def rewrite(
        self, document: str, replacement: Document, version: int | None = None
    ) -> SaveResult:
        """Replace the text and metadata of a stored document that is not a conversation.

        It keeps its id, source and source id, and counts as changed now. Raises NotFound, or
        Conflict if `version` is given and the stored document has another version.
        """

    @writer
    @abstractmethod
    def append(
        self, document: str, passage: Passage, expected_passages: int | None = None
    ) -> Appended:
        """Add a passage after the head of a document, unless it is there already.

        Raises NotFound, or Conflict if another passage has the same id. If `expected_passages` is
        given and the document has another number of passages, OutdatedPosition is raised. This is
        checked in the transaction that writes, so of several processes exactly one succeeds.
        """

    @writer
    @abstractmethod
    def extend(self, document: str, passages: Sequence[Passage], require_same: bool = False) -> int:
        """Add the passages whose ids the document does not have, and return their number.

        Each is added after its parent, or after the head, all in one transaction. The document can
        then be looked up by their ids (see `documents_containing`). Passages that were forgotten
        are left out. Raises NotFound. With `require_same`, raises Conflict if the document has
        another passage with one of the ids; a missing parent or date counts as equal.
        """

    @writer
    @abstractmethod
    def update(
        self,
        document: str,
        title: str | None = None,
        project: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        """Change the title, project or metadata of a document.

        It counts as changed now, so importing an older export does not revert it. Only the given
        keys of the metadata change; the value None removes a key. Raises NotFound.
        """

    @reader
    @writer
    @abstractmethod
    def revise(self, document: str, change: Callable[[Document], Document]) -> int:
        """Replace the text of a document with what `change` returns. No trace of the old remains.

        The passages stay where they are; only their content may change. Earlier states kept for
        undoing imports, and observations, are deleted. Returns the number of changed passages.
        `change` may be called more than once. Raises NotFound.
        """

    @reader
    @abstractmethod
    def count_undo_states(self, is_unwanted: Callable[[str], bool]) -> int:
        """How many earlier states `delete_undo_states` would delete."""

    @reader
    @writer
    @abstractmethod
    def delete_undo_states(self, is_unwanted: Callable[[str], bool]) -> int:
        """Delete earlier states, kept for undoing imports, that `is_unwanted` selects.

        It gets each state as JSON. Undoing an import then leaves those documents and passages as
        they are. Returns the number of deleted states.
        """

    @reader
    @writer
    @abstractmethod
    def delete_passage(self, document: str, passage: str) -> Passage:
        """Delete a passage and everything derived from it, and return it.

        Raises NotFound, or Conflict if other passages reply to it.
        """

    @writer
    @abstractmethod
    def delete(self, document: str) -> None:
        """Delete a document, its passages and everything derived from them. Raises NotFound."""

    @reader
    @writer
    @abstractmethod
    def pop(self, document: str) -> Document:
        """Delete a document like `delete`, and return it. Raises NotFound."""

    @writer
    @abstractmethod
    def forget(self, removals: Sequence[Removal]) -> Forgotten:
        """Delete documents or some of their passages, all in one transaction, and remember that.

        Replies to a forgotten passage become replies to the one before it. Earlier states kept for
        undoing imports, and observations, are deleted as well. Hashes of the ids remain, so that
        `save` can leave out what was forgotten. What the library does not have is skipped.
        """

    # -- reading ---

    @reader
    @abstractmethod
    def document(self, id: str) -> Document:
        """A document with all its passages. Raises NotFound."""

    @reader
    @abstractmethod
    def documents(self, ids: Sequence[str]) -> dict[str, Document]:
        """Documents with all their passages, by their identifiers (`language.text.identifier`).

        Those that the library does not have are left out.
        """

    @reader
    @abstractmethod
    def header(self, id: str) -> Document:
        """A document without its passages. Raises NotFound."""

    @reader
    @abstractmethod
    def summary(self, id: str) -> Summary:
        """A document as lists show it. Raises NotFound."""

    @reader
    @abstractmethod
    def summaries(
        self, filter: Filter, search: str, limit: int, offset: int
    ) -> tuple[list[Summary], int]:
        """A page of documents, last changed first, and the number of documents on all pages.

        If the filter names roles, authors or dates, one passage must match all of them. `search`
        is a substring of the title or id, ignoring case.
        """

    @reader
    @abstractmethod
    def list_position(self, id: str, filter: Filter, search: str) -> int | None:
        """How many documents come before this one in `summaries`; None if it is not among them.

        Raises NotFound.
        """

    @reader
    @abstractmethod
    def last_move(self) -> int:
        """The number of the last change that moved a document in lists. See `list_start`."""

    @reader
    @abstractmethod
    def summaries_after(
        self, filter: Filter, search: str, limit: int, order: str, after: ListPosition
    ) -> tuple[list[Summary], ListPosition | None]:
        """The documents after a position, and the position of the last one.

        `order` is "updated" (last changed first) or "added" (newest in the library first).
        Documents that changed since the list began keep their places, so each document that was in
        it is listed once. Whether it was pinned counts as of then, other conditions as of now.
        There is no position if no more documents follow. See `summaries` for the other arguments.
        Raises InvalidInput if too much has changed since the list began.
        """

    @reader
    @abstractmethod
    def ids_with_prefix(self, prefix: str, limit: int) -> list[str]:
        """The ids of conversations and items that begin with a prefix, in order."""

    @reader
    @abstractmethod
    def passage_ids_with_prefix(self, document: str, prefix: str, limit: int) -> list[str]:
        """The ids of passages of a document that begin with a prefix, in order. Raises NotFound."""

    @reader
    @abstractmethod
    def find_id(self, source: str, source_id: str) -> str | None:
        """The id of the document that has this id at its source."""

    @reader
    @abstractmethod
    def documents_containing(self, source: str, passages: Sequence[str]) -> list[tuple[str, str]]:
        """Pairs of document and passage id for the passages that documents of a source have.

        The document that changed last comes first. Only passages stored with their ids indexed are
        found (see `save` and `extend`).
        """

    @reader
    @abstractmethod
    def iter_documents(
        self, filter: Filter, on_damage: OnDamage | None = None
    ) -> Iterator[Document]:
        """All documents with their passages, oldest first, one in memory at a time.

        Raises DamagedLibrary if one cannot be read. With `on_damage`, it is skipped.
        """

    @reader
    @abstractmethod
    def is_linear(self, id: str) -> bool:
        """Whether a document has no branches: its path is all its passages, in their order.

        Its pages can be read with `passage_page`. Raises NotFound.
        """

    @reader
    @abstractmethod
    def positions(self, id: str) -> list[Position]:
        """The positions of a document's passages, in reading order. Raises NotFound."""

    @reader
    @abstractmethod
    def passage_page(self, id: str, position: int, limit: int) -> tuple[list[Passage], int]:
        """Some passages of a document, starting at a position, and the number of all its passages.

        Raises NotFound.
        """

    @reader
    @abstractmethod
    def passage_key(self, document: str, passage: str) -> int:
        """The key of a passage. Raises NotFound."""

    @reader
    @abstractmethod
    def passages_by_id(self, document: str, ids: Sequence[str]) -> list[Passage]:
        """The passages of a document that have these ids. Raises NotFound."""

    @reader
    @abstractmethod
    def passages_by_key(self, keys: Sequence[int]) -> dict[int, tuple[str, Passage]]:
        """The passages with these keys, each with the id of its document."""

    @reader
    @abstractmethod
    def passages_with_summaries(self, keys: Sequence[int]) -> dict[int, tuple[Summary, Passage]]:
        """The same, each with the summary of its document."""

    @reader
    @abstractmethod
    def human_only(self, keys: Sequence[int] | None = None) -> dict[int, str]:
        """Which of the passages are human-only, each with the id of its document.

        Without keys, all of the library. No message is read for it.
        """

    @reader
    @abstractmethod
    def change_times(self, keys: Sequence[int]) -> list[tuple[int, str, datetime | None]]:
        """The key, document and date of each passage.

        The date of a message is its own. Passages of other kinds of documents, and messages without
        a date, have the date at which the document last changed.
        """

    @reader
    @abstractmethod
    def size(self) -> int:
        """The number of passages. It may be slightly too high after deletions."""
