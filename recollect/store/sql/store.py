"""The part of a store that is the same on SQLite and PostgreSQL.

An engine provides three kinds of transactions (`_read`, `_write`, `_write_text`), its text queries,
and whatever differs: its own index, its vectors, and its care.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial, wraps
from types import ModuleType
from typing import Any, ClassVar, Concatenate, Generic, ParamSpec, TypeVar

from recollect.errors import DamagedLibrary, NotFound
from recollect.language.queries.query_tree import Node
from recollect.model.documents import Document, Passage
from recollect.model.receipts import Receipt
from recollect.model.search import Filter
from recollect.model.undo import Change, Edit
from recollect.settings import LIMITS
from recollect.store.base import Passages, Store
from recollect.store.errors import damaged_document, reason_of
from recollect.store.sql import (
    changes,
    database,
    forgetting,
    lookup,
    matches,
    saving,
    selection,
    statistics,
    transfer,
)
from recollect.store.sql import observations as observation_sql
from recollect.store.sql import receipts as receipt_sql
from recollect.store.sql import spaces as space_sql
from recollect.store.sql import undo as undo_sql
from recollect.store.sql.database import Database, TextIndex
from recollect.store.sql.selection import resolve_filter
from recollect.store.values import (
    Appended,
    Batch,
    Candidate,
    CandidatePage,
    Closure,
    Forgotten,
    MatchGroups,
    OnDamage,
    Purge,
    Removal,
    SaveResult,
    Space,
    TimedMatches,
)

P = ParamSpec("P")
T = TypeVar("T")
Connection = TypeVar("Connection", bound=Database)

# Longer than a search: people see the hits while all matches are counted.
_COUNTING_SECONDS = 3 * LIMITS.search_seconds


def reading(
    function: Callable[Concatenate[Any, P], T], run: str = "_read"
) -> Callable[Concatenate[Any, P], T]:
    """A method that calls a function with a connection in a transaction that reads."""

    @wraps(function)
    def method(store: Any, /, *arguments: P.args, **options: P.kwargs) -> T:
        result: T = getattr(store, run)(lambda db: function(db, *arguments, **options))
        return result

    return method


def searching(function: Callable[Concatenate[Any, P], T]) -> Callable[Concatenate[Any, P], T]:
    """The same for a method with the time limit of a search."""
    return reading(function, "_search")


def writing(function: Callable[Concatenate[Any, P], T]) -> Callable[Concatenate[Any, P], T]:
    """The same for a transaction that writes, but does not change the text index."""
    return reading(function, "_write")


TEXT_QUERIES = ("variants", "words_containing", "known_words")
"""The methods that each engine has as functions of its module `text`, under the same names."""


class SqlStore(Store, Generic[Connection]):
    _text: ClassVar[Any]
    """The module with the queries of an engine."""

    def __init_subclass__(cls, text: ModuleType) -> None:
        cls._text = text
        for name in TEXT_QUERIES:
            setattr(cls, name, searching(getattr(text, name)))

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

    # -- searching and deleting ---

    def _search(self, work: Callable[[Connection], T]) -> T:
        return self._read(work, LIMITS.search_seconds)

    def _delete_text(self, work: Callable[[Connection, TextIndex], T]) -> T:
        """Run `work`, which deletes text, and remove the text from all files."""

        def delete(db: Connection, index: TextIndex) -> T:
            self._request_purge(db)
            return work(db, index)

        value = self._write_text(delete)
        self.purge()
        return value

    # -- what an engine may add ---

    def _request_purge(self, db: Connection) -> None:
        """Called in a transaction that deletes text, for engines that keep copies of it elsewhere.

        `purge` is called after the commit, and again later if the process is killed in between.
        """

    def purge(self, patience: float | None = 0.0) -> Purge:
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
        only_new: bool = False,
    ) -> list[SaveResult]:
        def work(db: Connection, index: TextIndex) -> list[SaveResult]:
            if skip_forgotten:
                results = forgetting.save_remembered(db, index, documents, receipt, index_ids)
            else:
                results = saving.save(db, index, documents, receipt, index_ids, only_new)
            if has_removed_text(results):
                self._request_purge(db)
            return results

        results = self._write_text(work)
        if has_removed_text(results):
            self.purge()
        return results

    def rewrite(
        self, document: str, replacement: Document, version: int | None = None
    ) -> SaveResult:
        def work(db: Connection, index: TextIndex) -> SaveResult:
            result = saving.rewrite(db, index, document, replacement, version)
            self._drop_document_copies(db, lookup.key_of(db, result.id))
            return result

        return self._delete_text(work)

    def revise(self, document: str, change: Callable[[Document], Document]) -> int:
        def work(db: Connection, index: TextIndex) -> int:
            count = changes.revise(db, document, change, index)
            self._drop_document_copies(db, lookup.key_of(db, document))
            return count

        return self._delete_text(work)

    def append(
        self, document: str, passage: Passage, expected_passages: int | None = None
    ) -> Appended:
        def work(db: Connection, index: TextIndex) -> Appended:
            return changes.append(db, document, passage, index, expected_passages)

        return self._write_text(work)

    def extend(self, document: str, passages: Sequence[Passage], require_same: bool = False) -> int:
        return self._write_text(
            lambda db, index: changes.extend(db, document, passages, index, require_same)
        )

    def delete_undo_states(self, is_unwanted: Callable[[str], bool], dry_run: bool = False) -> int:
        if dry_run:
            return self._read(lambda db: receipt_sql.delete_undo_states(db, is_unwanted, True))
        return self._delete_text(lambda db, index: receipt_sql.delete_undo_states(db, is_unwanted))

    def delete(self, document: str, passage: str | None = None) -> Document:
        def work(db: Connection, index: TextIndex) -> Document:
            if passage is None:
                return changes.pop(db, document, index)
            header = lookup.read_document(db, document, with_passages=False)
            deleted = changes.delete_passage(db, document, passage, index)
            return replace(header, passages=(deleted,))

        return self._delete_text(work)

    def forget(self, removals: Sequence[Removal]) -> Forgotten:
        def work(db: Connection, index: TextIndex) -> Forgotten:
            result = Forgotten()
            for removal in removals:
                key = forgetting.forget(db, index, removal, result)
                if key is not None:
                    self._drop_document_copies(db, key)
            return result

        return self._delete_text(work)

    document = reading(lookup.read_document)
    documents = reading(lookup.read_all)
    summary = reading(lookup.summary)
    summaries = searching(lookup.summaries)
    summaries_after = searching(lookup.summaries_after)
    list_position = reading(lookup.list_position)
    ids_with_prefix = reading(lookup.ids_with_prefix)
    find_id = reading(lookup.find_id)
    documents_containing = reading(lookup.documents_containing)
    is_linear = reading(lookup.is_linear)
    positions = reading(lookup.positions)
    passage_page = reading(lookup.passage_page)
    passage_key = searching(lookup.passage_key)
    passages_by_key = reading(lookup.passages_by_key)
    change_times = reading(matches.change_times)

    def human_only(self, keys: Sequence[int] | None = None) -> dict[int, str]:
        return self._search(lambda db: db.human_only(keys))

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

    # -- changes that can be undone ---

    def edit(self, document: str, edit: Edit, until: datetime | None = None) -> Change | None:
        def work(db: Connection, index: TextIndex) -> tuple[Change | None, bool]:
            change, has_removed = undo_sql.edit(db, document, edit, until, index)
            if has_removed:
                self._drop_document_copies(db, lookup.key_of(db, document))
                self._request_purge(db)
            return change, has_removed

        change, has_removed = self._write_text(work)
        if has_removed:
            self.purge()
        return change

    def trash(self, document: str, until: datetime) -> Change:
        return self._delete_text(lambda db, index: undo_sql.trash(db, document, until, index))

    undo_log = reading(undo_sql.undo_log)

    def revert(self, number: int) -> Change:
        return self._delete_text(lambda db, index: undo_sql.revert(db, number, index))

    def clear_undo_log(self, *, expired: bool = False) -> int:
        until = datetime.now(UTC) if expired else None
        if not self._read(lambda db: undo_sql.has_entries(db, until)):
            return 0
        return self._delete_text(lambda db, index: undo_sql.clear(db, until))

    # -- observations ---

    unobserved = reading(observation_sql.unobserved)
    reset_observations = writing(observation_sql.reset)

    def save_observations(
        self,
        conversation: str,
        version: int,
        observations: Document | None,
        complete: bool = True,
    ) -> None:
        def work(db: Connection, index: TextIndex) -> bool:
            has_removed = observation_sql.save(
                db, index, conversation, version, observations, complete
            )
            if has_removed:
                self._request_purge(db)
            return has_removed

        if self._write_text(work):
            self.purge()

    # -- search by words, substrings and filters ---

    title_matches = searching(lookup.title_matches)
    authors = searching(selection.authors)

    def has_match(self, node: Node, filter: Filter) -> bool:
        return bool(self.match(node, filter, 1))

    def candidates(
        self, passages: Passages, filter: Filter, previous: bool = False
    ) -> list[Candidate]:
        def work(db: Connection) -> list[Candidate]:
            keys: Sequence[Any] = passages
            if passages and not isinstance(passages[0], int):
                keys = self._text.passage_keys(db, passages)
            read = self._text.previous_passages if previous else self._text.candidates
            found: list[Candidate] = read(db, keys, filter) if keys else []
            return found

        return self._search(work)

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
        def work(db: Connection) -> CandidatePage:
            page: CandidatePage
            if text and where == "content":
                page = self._text.find_substring(db, text, filter, limit, offset, by_document)
            elif not text and (counted or by_document):
                page = self._text.newest(db, filter, limit, offset, by_document)
            else:
                by_words = where == "words"
                found = self._text.recent(db, text or None, filter, offset + limit, by_words)
                page = CandidatePage(found[offset:], len(found[offset:]))
            return page

        return self._search(work)

    def match_groups(
        self, node: Node | None, filter: Filter, keys: Sequence[int] | None = None
    ) -> MatchGroups:
        def work(db: Connection) -> MatchGroups:
            if keys is None:
                return self._match_groups(db, node, filter)
            return matches.group_passages(db, keys)

        return self._read(work, _COUNTING_SECONDS)

    def _match_groups(self, db: Connection, node: Node | None, filter: Filter) -> MatchGroups:
        source, values = self._match_source(db, node, resolve_filter(db, filter))
        return matches.group_matches(db, source, values)

    def match_times(self, node: Node | None, filter: Filter) -> TimedMatches:
        def work(db: Connection) -> TimedMatches:
            source, values = self._match_source(db, node, resolve_filter(db, filter))
            return matches.timed_matches(db, source, values)

        return self._search(work)

    @abstractmethod
    def _match_source(
        self, db: Connection, node: Node | None, filter: Filter
    ) -> tuple[str, Sequence[Any]]:
        """The end of a statement that selects each passage `p` that matches, with its values."""

    # -- search by meaning ---

    spaces = reading(space_sql.all_spaces)
    add_space = writing(space_sql.add)

    def drop_space(self, space: Space) -> None:
        self._write(lambda db: space_sql.drop(db, space))
        self._clear_dropped_spaces()

    def _clear_dropped_spaces(self) -> None:
        """Delete the vectors of dropped spaces, a batch per transaction."""
        more = True
        while more:
            more = self._write(space_sql.clear_dropped)

    unembedded = reading(space_sql.unembedded)

    def update_space(
        self,
        space: Space,
        ready: bool = False,
        noise_floor: float | None = None,
        size: int = 0,
        queue: Sequence[int] = (),
    ) -> None:
        def work(db: Connection) -> None:
            if ready:
                space_sql.mark_ready(db, space)
            if noise_floor is not None:
                space_sql.calibrate(db, space, noise_floor, size)
            if queue:
                space_sql.queue(db, space, queue)

        self._write(work)

    # -- imports ---

    start_import = writing(receipt_sql.start_import)
    update_receipt = writing(receipt_sql.update_receipt)
    receipts = reading(receipt_sql.all_receipts)

    def undo_import(self, receipt: int) -> Receipt:
        def work(db: Connection, index: TextIndex) -> Receipt:
            undone_receipt = undo_sql.undo_import(db, receipt, index)
            self._drop_outdated_copies(db)
            return undone_receipt

        return self._delete_text(work)

    # -- moving a library ---

    export_batches = reading(transfer.export_batches)

    def import_batch(self, batch: Batch) -> None:
        self.join_move()

        def work(db: Connection, index: TextIndex) -> None:
            if transfer.import_batch(db, batch, index):
                self._request_purge(db)

        self._write_text(work)

    closure = reading(transfer.closure)

    def set_closure(self, reason: Closure | None) -> None:
        def work(db: Connection) -> None:
            if reason is None:
                database.set_marker(db, transfer.MOVING, None)
            transfer.set_closure(db, reason)

        self.join_move()
        self._write(work)
        self.purge()

    get_marker = reading(database.get_marker)
    set_marker = writing(database.set_marker)

    # -- the library as a whole ---

    def snapshot(self) -> AbstractContextManager[None]:
        return nullcontext()

    facet_names = reading(statistics.facet_names)
    activity = reading(statistics.activity)


def has_removed_text(results: Sequence[SaveResult]) -> bool:
    return any(result.removed for result in results)
