"""The part of a store that is the same on SQLite and PostgreSQL.

An engine provides three kinds of transactions (`_read`, `_write`, `_write_text`), its text queries,
and whatever differs: its own index, its vectors, and its care.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from functools import partial
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from recollect.errors import DamagedLibrary, NotFound
from recollect.language.languages.base import Language
from recollect.language.languages.english import ENGLISH
from recollect.language.query_tree import Node, Word
from recollect.model.documents import Document, Passage, Position, Summary
from recollect.model.kinds import CONVERSATION
from recollect.model.receipts import Receipt
from recollect.model.search import Filter
from recollect.model.undo import Change, Edit
from recollect.settings import LIMITS
from recollect.store.base import Store
from recollect.store.errors import damaged_document, reason_of
from recollect.store.sql import (
    changes,
    closing,
    forgetting,
    handover,
    headings,
    listing,
    lookup,
    markers,
    match_groups,
    moves,
    rewriting,
    saving,
    statistics,
    tags,
    transfer,
)
from recollect.store.sql import observations as observation_sql
from recollect.store.sql import receipts as receipt_sql
from recollect.store.sql import spaces as space_sql
from recollect.store.sql import undo as undo_sql
from recollect.store.sql.database import Database, TextIndex
from recollect.store.sql.selection import resolve_filter
from recollect.store.turns import Turn, turns
from recollect.store.values import (
    Activity,
    Appended,
    Batch,
    Candidate,
    Closure,
    Contents,
    Fingerprints,
    Forgotten,
    ListPosition,
    MatchGroups,
    OnDamage,
    Purge,
    Removal,
    SaveResult,
    SearchPlan,
    Space,
    SubstringMatches,
    Unembedded,
)

T = TypeVar("T")
Connection = TypeVar("Connection", bound=Database)

# Changed observations in the first transaction of a save. The next ones adapt.
_OBSERVATIONS_PER_TURN = 8

# Longer than a search: people see the hits while all matches are counted.
_COUNTING_SECONDS = 3 * LIMITS.search_seconds


class TextQueries(Protocol):
    """The queries that each engine's module `text` provides, under the same names."""

    def variants(
        self, db: Any, words: Sequence[str], language: Language
    ) -> list[tuple[str, ...]]: ...

    def known_words(self, db: Any, words: Sequence[str]) -> set[str]: ...

    def candidates(self, db: Any, keys: Sequence[int], filter: Filter) -> list[Candidate]: ...

    def previous_passages(self, db: Any, keys: Sequence[int]) -> list[Candidate]: ...

    def find_substring(
        self, db: Any, text: str, filter: Filter, limit: int, offset: int
    ) -> SubstringMatches: ...

    def newest(
        self, db: Any, filter: Filter, limit: int, offset: int, by_document: bool
    ) -> tuple[list[Candidate], int]: ...

    def recent(self, db: Any, text: str | None, filter: Filter, limit: int) -> list[Candidate]: ...

    def match_rows(self, db: Any, node: Node | None, filter: Filter) -> list[tuple[Any, ...]]: ...


class SqlStore(Store, Generic[Connection]):
    _text: ClassVar[TextQueries]

    # -- what an engine provides ---

    @abstractmethod
    def _read(self, work: Callable[[Connection], T], seconds: float | None = None) -> T:
        """Run `work` on a snapshot. Raises SearchTimeout after `seconds`."""

    @abstractmethod
    def _write(self, work: Callable[[Connection], T]) -> T:
        """Run `work` in a transaction that does not change the text index."""

    @abstractmethod
    def _write_text(self, work: Callable[[Connection, TextIndex], T]) -> T:
        """Run `work` in a transaction that also changes the text index."""

    def _search(self, work: Callable[[Connection], T]) -> T:
        return self._read(work, LIMITS.search_seconds)

    def _complete_vocabulary(self) -> None:
        """Called after text was added, for engines that add words to the vocabulary later."""

    def _complete_counts(self) -> None:
        """Count the passages of a library that an earlier version has written."""
        if self.get_marker(statistics.COUNTS) != statistics.VERSION:
            self._write(statistics.recount)

    def _complete_tags(self) -> None:
        """Fill in a column of documents that an earlier version has written."""
        if not self._read(tags.is_complete):
            self._write(tags.complete)

    def _request_purge(self, db: Connection) -> None:
        """Called in a transaction that deletes text, for engines that keep copies of it elsewhere.

        `purge` is called after the commit, and again later if the process is killed in between.
        """

    def _purge_if(self, was_deleted: bool) -> None:
        if was_deleted:
            self.purge()

    def purge(self, patience: float = 0.0) -> Purge:
        return Purge()

    def purge_status(self) -> Purge:
        return Purge()

    def _drop_document_copies(self, db: Connection, document: int) -> None:
        """Called in a transaction that replaces the text of a document, given by its key.

        For engines that keep copies of the text elsewhere.
        """

    def _drop_outdated_copies(self, db: Connection) -> None:
        """The same for a transaction that may have replaced the text of any document."""

    # -- documents ---

    def save(
        self,
        documents: Sequence[Document],
        receipt: int | None = None,
        index_ids: bool = False,
        skip_forgotten: bool = False,
    ) -> list[SaveResult]:
        def work(db: Connection, index: TextIndex) -> list[SaveResult]:
            if skip_forgotten:
                results = forgetting.save_remembered(db, index, documents, receipt, index_ids)
            else:
                results = saving.save(db, index, documents, receipt, index_ids)
            if _has_removed_text(results):
                self._request_purge(db)
            return results

        results = self._write_text(work)
        # During an import, this is done once at its end.
        if receipt is None:
            self._complete_vocabulary()
        self._purge_if(_has_removed_text(results))
        return results

    def rewrite(
        self, document: str, replacement: Document, version: int | None = None
    ) -> SaveResult:
        def work(db: Connection, index: TextIndex) -> SaveResult:
            result = saving.rewrite(db, index, document, replacement, version)
            self._drop_document_copies(db, lookup.key_of(db, result.id))
            self._request_purge(db)
            return result

        result = self._write_text(work)
        self._complete_vocabulary()
        self.purge()
        return result

    def revise(self, document: str, change: Callable[[Document], Document]) -> int:
        def work(db: Connection, index: TextIndex) -> int:
            count = changes.revise(db, document, change, index)
            self._drop_document_copies(db, lookup.key_of(db, document))
            self._request_purge(db)
            return count

        count = self._write_text(work)
        self._complete_vocabulary()
        self.purge()
        return count

    def append(
        self, document: str, passage: Passage, expected_passages: int | None = None
    ) -> Appended:
        def work(db: Connection, index: TextIndex) -> Appended:
            return changes.append(db, document, passage, index, expected_passages)

        return self._write_text(work)

    def extend(self, document: str, passages: Sequence[Passage]) -> int:
        return self._write_text(lambda db, index: changes.extend(db, document, passages, index))

    def update(
        self,
        document: str,
        title: str | None = None,
        project: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        def work(db: Connection, index: TextIndex) -> bool:
            if not changes.update(db, document, index, title, project, metadata):
                return False
            self._drop_document_copies(db, lookup.key_of(db, document))
            self._request_purge(db)
            return True

        self._purge_if(self._write_text(work))

    def delete_undo_states(self, is_unwanted: Callable[[str], bool]) -> int:
        def work(db: Connection) -> int:
            self._request_purge(db)
            return rewriting.delete_undo_states(db, is_unwanted)

        count = self._write(work)
        self.purge()
        return count

    def _delete_text(self, work: Callable[[Connection, TextIndex], T]) -> T:
        """Run `work`, which deletes text, and remove the text from all files."""

        def delete(db: Connection, index: TextIndex) -> T:
            self._request_purge(db)
            return work(db, index)

        value = self._write_text(delete)
        self.purge()
        return value

    def delete_passage(self, document: str, passage: str) -> Passage:
        return self._delete_text(
            lambda db, index: changes.delete_passage(db, document, passage, index)
        )

    def delete(self, document: str) -> None:
        self._delete_text(lambda db, index: changes.delete(db, lookup.key_of(db, document), index))

    def pop(self, document: str) -> Document:
        return self._delete_text(lambda db, index: changes.pop(db, document, index))

    def edit(self, document: str, edit: Edit, until: datetime | None = None) -> Change | None:
        def work(db: Connection, index: TextIndex) -> Change | None:
            change = undo_sql.edit(db, document, edit, until, index)
            if edit.title is not None or edit.remove_tags:
                self._drop_document_copies(db, lookup.key_of(db, document))
                self._request_purge(db)
            return change

        change = self._write_text(work)
        self._purge_if(edit.title is not None or bool(edit.remove_tags))
        return change

    def trash(self, document: str, until: datetime) -> Change:
        return self._delete_text(lambda db, index: undo_sql.trash(db, document, until, index))

    def undo_log(self) -> list[Change]:
        return self._read(lambda db: undo_sql.undo_log(db, datetime.now(UTC)))

    def undo_state(self, number: int) -> dict[str, Any]:
        return self._read(lambda db: undo_sql.undo_state(db, number))

    def revert(self, number: int) -> Change:
        return self._delete_text(lambda db, index: undo_sql.revert(db, number, index))

    def clear_undo_log(self, *, expired: bool = False) -> int:
        until = None
        if expired:
            until = datetime.now(UTC)
        if not self._read(lambda db: undo_sql.has_entries(db, until)):
            return 0

        def work(db: Connection) -> int:
            self._request_purge(db)
            return undo_sql.clear(db, until)

        count = self._write(work)
        self.purge()
        return count

    def forget(self, removals: Sequence[Removal]) -> Forgotten:
        def work(db: Connection, index: TextIndex) -> Forgotten:
            result = Forgotten()
            for removal in removals:
                key = forgetting.forget(db, index, removal, result)
                if key is not None:
                    self._drop_document_copies(db, key)
            return result

        return self._delete_text(work)

    def document(self, id: str) -> Document:
        return self._read(lambda db: lookup.read(db, lookup.key_of(db, id)))

    def header(self, id: str) -> Document:
        return self._read(lambda db: lookup.read_header(db, lookup.key_of(db, id)))

    def summary(self, id: str) -> Summary:
        return self._read(lambda db: lookup.summary(db, id))

    def summaries(
        self, filter: Filter, search: str, limit: int, offset: int
    ) -> tuple[list[Summary], int]:
        return self._search(lambda db: lookup.summaries(db, filter, search, limit, offset))

    def list_position(self, id: str, filter: Filter, search: str) -> int | None:
        return self._read(lambda db: lookup.list_position(db, id, filter, search))

    def last_move(self) -> int:
        return self._read(moves.last_move)

    def summaries_after(
        self, filter: Filter, search: str, limit: int, order: str, after: ListPosition
    ) -> tuple[list[Summary], ListPosition | None]:
        return self._search(
            lambda db: listing.summaries_after(db, filter, search, limit, order, after)
        )

    def ids_with_prefix(self, prefix: str, limit: int) -> list[str]:
        return self._read(lambda db: lookup.ids_with_prefix(db, prefix, limit))

    def passage_ids_with_prefix(self, document: str, prefix: str, limit: int) -> list[str]:
        return self._read(lambda db: lookup.passage_ids_with_prefix(db, document, prefix, limit))

    def find_id(self, source: str, source_id: str) -> str | None:
        return self._read(lambda db: lookup.find_id(db, source, source_id))

    def documents_containing(self, source: str, passages: Sequence[str]) -> list[tuple[str, str]]:
        return self._read(lambda db: lookup.documents_containing(db, source, passages))

    def iter_documents(
        self, filter: Filter, on_damage: OnDamage | None = None
    ) -> Iterator[Document]:
        for key in self._read(lambda db: lookup.keys(db, filter)):
            try:
                document = self._read(partial(lookup.read, key=key))
            except NotFound:  # deleted in the meantime
                continue
            except DamagedLibrary as error:
                id_ = self._id_of_damaged(key)
                if on_damage is None:
                    raise damaged_document(id_, error) from error
                on_damage(id_, reason_of(error))
                continue
            yield document

    def _id_of_damaged(self, key: int) -> str:
        try:
            return str(self._read(partial(lookup.id_of, key=key)))
        except DamagedLibrary:
            return f"row {key}"

    def is_linear(self, id: str) -> bool:
        return self._read(lambda db: lookup.is_linear(db, id))

    def positions(self, id: str) -> list[Position]:
        return self._read(lambda db: lookup.positions(db, id))

    def passage_page(self, id: str, position: int, limit: int) -> tuple[list[Passage], int]:
        return self._read(lambda db: lookup.passage_page(db, id, position, limit))

    def passage_key(self, document: str, passage: str) -> int:
        return self._search(lambda db: lookup.passage_key(db, document, passage))

    def passages_by_key(self, keys: Sequence[int]) -> dict[int, tuple[str, Passage]]:
        return self._read(lambda db: lookup.passages_by_key(db, keys))

    def human_only(self, keys: Sequence[int] | None = None) -> dict[int, str]:
        return self._search(lambda db: db.human_only(keys))

    def change_times(self, keys: Sequence[int]) -> list[tuple[int, str, datetime | None]]:
        return self._read(lambda db: lookup.change_times(db, keys))

    def unobserved(self, limit: int) -> tuple[list[tuple[str, int]], int]:
        return self._read(lambda db: observation_sql.unobserved(db, limit))

    def save_observations(
        self,
        conversation: str,
        version: int,
        observations: Document | None,
        complete: bool = True,
    ) -> None:
        draft = None
        if observations is not None:
            draft = observation_sql.draft(observations)

        def save(turn: Turn, db: Connection, index: TextIndex) -> observation_sql.Step:
            step = turn.run(
                lambda limit: observation_sql.save(
                    db, index, conversation, version, draft, complete, limit
                )
            )
            if step.has_removed:
                self._request_purge(db)
            return step

        has_removed = False
        for turn in turns(_OBSERVATIONS_PER_TURN):
            step = self._write_text(partial(save, turn))
            has_removed = has_removed or step.has_removed
            if step.is_complete:
                break
        self._purge_if(has_removed)

    def reset_observations(self, incomplete_only: bool = False) -> None:
        self._write(lambda db: observation_sql.reset(db, incomplete_only))

    # -- text search ---

    def title_matches(self, words: Sequence[Word]) -> list[int]:
        return self._search(lambda db: lookup.title_matches(db, words))

    def variants(self, words: Sequence[str], language: Language = ENGLISH) -> list[tuple[str, ...]]:
        return self._search(lambda db: self._text.variants(db, words, language))

    def known_words(self, words: Sequence[str]) -> set[str]:
        return self._search(lambda db: self._text.known_words(db, words))

    def candidates(self, keys: Sequence[int], filter: Filter) -> list[Candidate]:
        return self._search(lambda db: self._text.candidates(db, keys, resolve_filter(db, filter)))

    def previous_passages(self, keys: Sequence[int]) -> list[Candidate]:
        return self._search(lambda db: self._text.previous_passages(db, keys))

    def find_substring(
        self, text: str, filter: Filter, limit: int, offset: int
    ) -> SubstringMatches:
        def work(db: Connection) -> SubstringMatches:
            resolved_filter = resolve_filter(db, filter)
            return self._text.find_substring(db, text, resolved_filter, limit, offset)

        return self._search(work)

    def newest(
        self, filter: Filter, limit: int, offset: int, by_document: bool = False
    ) -> tuple[list[Candidate], int]:
        return self._search(
            lambda db: self._text.newest(db, resolve_filter(db, filter), limit, offset, by_document)
        )

    def recent(self, text: str | None, filter: Filter, limit: int) -> list[Candidate]:
        return self._search(
            lambda db: self._text.recent(db, text, resolve_filter(db, filter), limit)
        )

    def match_groups(self, node: Node | None, filter: Filter) -> MatchGroups:
        def work(db: Connection) -> MatchGroups:
            rows = self._text.match_rows(db, node, resolve_filter(db, filter))
            return match_groups.group_matches(db, rows)

        return self._read(work, _COUNTING_SECONDS)

    def group_passages(self, keys: Sequence[int]) -> MatchGroups:
        return self._read(lambda db: match_groups.group_passages(db, keys), _COUNTING_SECONDS)

    # -- vectors ---

    def spaces(self) -> list[Space]:
        return self._read(space_sql.all_spaces)

    def add_space(
        self, name: str, version: str, dimensions: int, model_state: bytes | None
    ) -> Space:
        return self._write(lambda db: space_sql.add(db, name, version, dimensions, model_state))

    def drop_space(self, space: Space) -> None:
        self._write(lambda db: space_sql.drop(db, space))
        self._clear_dropped_spaces()

    def _clear_dropped_spaces(self) -> None:
        """Delete the vectors of dropped spaces, a batch per transaction."""
        more = True
        while more:
            more = self._write(space_sql.clear_dropped)

    def _index_keywords(self, stop: Callable[[], bool] | None) -> None:
        """Index the keywords of older items, a batch per transaction."""
        if self._read(headings.is_complete):
            return
        while stop is None or not stop():
            if not self._write_text(headings.index_batch):
                return

    def unembedded(self, space: Space, limit: int) -> tuple[list[Unembedded], int]:
        return self._read(lambda db: space_sql.unembedded(db, space, limit))

    def vectorless(self, space: Space, after: int, limit: int) -> list[Unembedded]:
        return self._read(lambda db: space_sql.vectorless(db, space, after, limit))

    def queue(self, space: Space, passages: Sequence[int]) -> None:
        self._write(lambda db: space_sql.queue(db, space, passages))

    def mark_space_ready(self, space: Space) -> None:
        self._write(lambda db: space_sql.mark_ready(db, space))

    def calibrate_space(self, space: Space, noise_floor: float, size: int) -> None:
        self._write(lambda db: space_sql.calibrate(db, space, noise_floor, size))

    # -- receipts ---

    def start_import(self, path: str, job: str = "") -> Receipt:
        return self._write(lambda db: receipt_sql.start_import(db, path, job))

    def update_receipt(self, receipt: Receipt) -> None:
        self._write(lambda db: receipt_sql.update_receipt(db, receipt))

    def finish_import(self, receipt: Receipt) -> None:
        self.update_receipt(receipt)
        self._complete_vocabulary()

    def receipts(self) -> list[Receipt]:
        return self._read(receipt_sql.all_receipts)

    def undo_import(self, receipt: int) -> Receipt:
        def work(db: Connection, index: TextIndex) -> Receipt:
            undone_receipt = receipt_sql.undo_import(db, receipt, index)
            self._drop_outdated_copies(db)
            return undone_receipt

        return self._delete_text(work)

    # -- transfer ---

    def export_batches(self, receive: Callable[[Batch], None] | None = None) -> Contents:
        return self._read(lambda db: transfer.export_batches(db, receive))

    def import_batch(self, batch: Batch) -> str | None:
        self.join_move()

        def work(db: Connection, index: TextIndex) -> transfer.Import:
            result = transfer.import_batch(db, batch, index)
            if result.has_removed:
                self._request_purge(db)
            return result

        result = self._write_text(work)
        if batch.is_last:
            self._complete_vocabulary()
        return result.correction

    def fingerprints(self) -> Fingerprints:
        return self._read(handover.fingerprints)

    def export_changes(self, copy: Fingerprints, receive: Callable[[Batch], None]) -> int:
        return self._read(lambda db: handover.export_changes(db, copy, receive)[0])

    def hand_over(
        self,
        copy: Fingerprints,
        receive: Callable[[Batch], None],
        seconds: float,
        close: Callable[[str], Closure | None],
    ) -> None:
        def work(db: Connection) -> None:
            deadline = time.monotonic() + seconds
            _, state = handover.export_changes(db, copy, receive, deadline)
            handover.require_time(deadline)
            reason = close(state)
            if reason is not None:
                closing.close(db, reason)

        self._write(work)

    def rows_in_range(self, batch: Batch) -> list[tuple[Any, ...]]:
        return self._read(lambda db: handover.rows_in_range(db, batch))

    def closure(self) -> Closure | None:
        return self._read(closing.closure)

    def complete_move(self) -> None:
        def work(db: Connection) -> None:
            markers.set_marker(db, transfer.MOVING, None)
            closing.close(db, None)

        self.join_move()
        self._write(work)
        self.purge()

    def get_marker(self, name: str) -> int | None:
        return self._read(lambda db: markers.get_marker(db, name))

    def set_marker(self, name: str, number: int | None) -> None:
        self._write(lambda db: markers.set_marker(db, name, number))

    # -- care ---

    def snapshot(self) -> AbstractContextManager[None]:
        return nullcontext()

    def release_snapshot(self) -> None:
        pass

    def expect(self, plan: SearchPlan) -> None:
        pass

    def facets(self, kind: str = CONVERSATION) -> dict[str, list[tuple[str, int]]]:
        return self._read(lambda db: statistics.facets(db, kind))

    def media_types(self) -> list[tuple[str, int]]:
        return self._read(statistics.media_types)

    def activity(self) -> Activity:
        return self._read(statistics.activity)


def _has_removed_text(results: Sequence[SaveResult]) -> bool:
    return any(result.removed for result in results)
