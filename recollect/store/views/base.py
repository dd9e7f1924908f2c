"""The base class of store views: a store that passes every call on to another store.

Each method is written out, so that a method added to the contract must be added here, and the tests
then ask for it in every view that has to handle it.
"""

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
from recollect.store.base import Store
from recollect.store.values import (
    Activity,
    Appended,
    Batch,
    Candidate,
    Closure,
    Contents,
    Findings,
    Fingerprints,
    Forgotten,
    ListPosition,
    MatchGroups,
    OnDamage,
    Progress,
    Purge,
    Removal,
    SaveResult,
    SearchPlan,
    Space,
    SubstringMatches,
    TimedMatches,
    Unembedded,
)


class StoreView(Store):
    def __init__(self, store: Store) -> None:
        self._store = store

    # -- documents ---

    def save(
        self,
        documents: Sequence[Document],
        receipt: int | None = None,
        index_ids: bool = False,
        skip_forgotten: bool = False,
        only_new: bool = False,
    ) -> list[SaveResult]:
        return self._store.save(documents, receipt, index_ids, skip_forgotten, only_new)

    def rewrite(
        self, document: str, replacement: Document, version: int | None = None
    ) -> SaveResult:
        return self._store.rewrite(document, replacement, version)

    def append(
        self, document: str, passage: Passage, expected_passages: int | None = None
    ) -> Appended:
        return self._store.append(document, passage, expected_passages)

    def extend(self, document: str, passages: Sequence[Passage], require_same: bool = False) -> int:
        return self._store.extend(document, passages, require_same)

    def update(
        self,
        document: str,
        title: str | None = None,
        project: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        self._store.update(document, title, project, metadata)

    def revise(self, document: str, change: Callable[[Document], Document]) -> int:
        return self._store.revise(document, change)

    def count_undo_states(self, is_unwanted: Callable[[str], bool]) -> int:
        return self._store.count_undo_states(is_unwanted)

    def delete_undo_states(self, is_unwanted: Callable[[str], bool]) -> int:
        return self._store.delete_undo_states(is_unwanted)

    def delete_passage(self, document: str, passage: str) -> Passage:
        return self._store.delete_passage(document, passage)

    def delete(self, document: str) -> None:
        self._store.delete(document)

    def pop(self, document: str) -> Document:
        return self._store.pop(document)

    def edit(self, document: str, edit: Edit, until: datetime | None = None) -> Change | None:
        return self._store.edit(document, edit, until)

    def trash(self, document: str, until: datetime) -> Change:
        return self._store.trash(document, until)

    def undo_log(self) -> list[Change]:
        return self._store.undo_log()

    def undo_state(self, number: int) -> dict[str, Any]:
        return self._store.undo_state(number)

    def revert(self, number: int) -> Change:
        return self._store.revert(number)

    def clear_undo_log(self, *, expired: bool = False) -> int:
        return self._store.clear_undo_log(expired=expired)

    def forget(self, removals: Sequence[Removal]) -> Forgotten:
        return self._store.forget(removals)

    def document(self, id: str) -> Document:
        return self._store.document(id)

    def documents(self, ids: Sequence[str]) -> dict[str, Document]:
        return self._store.documents(ids)

    def header(self, id: str) -> Document:
        return self._store.header(id)

    def summary(self, id: str) -> Summary:
        return self._store.summary(id)

    def summaries(
        self, filter: Filter, search: str, limit: int, offset: int
    ) -> tuple[list[Summary], int]:
        return self._store.summaries(filter, search, limit, offset)

    def list_position(self, id: str, filter: Filter, search: str) -> int | None:
        return self._store.list_position(id, filter, search)

    def last_move(self) -> int:
        return self._store.last_move()

    def summaries_after(
        self, filter: Filter, search: str, limit: int, order: str, after: ListPosition
    ) -> tuple[list[Summary], ListPosition | None]:
        return self._store.summaries_after(filter, search, limit, order, after)

    def ids_with_prefix(self, prefix: str, limit: int) -> list[str]:
        return self._store.ids_with_prefix(prefix, limit)

    def passage_ids_with_prefix(self, document: str, prefix: str, limit: int) -> list[str]:
        return self._store.passage_ids_with_prefix(document, prefix, limit)

    def find_id(self, source: str, source_id: str) -> str | None:
        return self._store.find_id(source, source_id)

    def documents_containing(self, source: str, passages: Sequence[str]) -> list[tuple[str, str]]:
        return self._store.documents_containing(source, passages)

    def iter_documents(
        self, filter: Filter, on_damage: OnDamage | None = None
    ) -> Iterator[Document]:
        return self._store.iter_documents(filter, on_damage)

    def is_linear(self, id: str) -> bool:
        return self._store.is_linear(id)

    def positions(self, id: str) -> list[Position]:
        return self._store.positions(id)

    def passage_page(self, id: str, position: int, limit: int) -> tuple[list[Passage], int]:
        return self._store.passage_page(id, position, limit)

    def passage_key(self, document: str, passage: str) -> int:
        return self._store.passage_key(document, passage)

    def passages_by_id(self, document: str, ids: Sequence[str]) -> list[Passage]:
        return self._store.passages_by_id(document, ids)

    def passages_by_key(self, keys: Sequence[int]) -> dict[int, tuple[str, Passage]]:
        return self._store.passages_by_key(keys)

    def passages_with_summaries(self, keys: Sequence[int]) -> dict[int, tuple[Summary, Passage]]:
        return self._store.passages_with_summaries(keys)

    def human_only(self, keys: Sequence[int] | None = None) -> dict[int, str]:
        return self._store.human_only(keys)

    def change_times(self, keys: Sequence[int]) -> list[tuple[int, str, datetime | None]]:
        return self._store.change_times(keys)

    def size(self) -> int:
        return self._store.size()

    def unobserved(self, limit: int) -> tuple[list[tuple[str, int]], int]:
        return self._store.unobserved(limit)

    def save_observations(
        self,
        conversation: str,
        version: int,
        observations: Document | None,
        complete: bool = True,
    ) -> None:
        self._store.save_observations(conversation, version, observations, complete)

    def reset_observations(self, incomplete_only: bool = False) -> None:
        self._store.reset_observations(incomplete_only)

    # -- text search ---

    def match(self, node: Node, filter: Filter, limit: int) -> list[int]:
        return self._store.match(node, filter, limit)

    def match_groups(self, node: Node | None, filter: Filter) -> MatchGroups:
        return self._store.match_groups(node, filter)

    def match_times(self, node: Node | None, filter: Filter) -> TimedMatches:
        return self._store.match_times(node, filter)

    def group_passages(self, keys: Sequence[int]) -> MatchGroups:
        return self._store.group_passages(keys)

    def title_matches(self, words: Sequence[Word]) -> list[int]:
        return self._store.title_matches(words)

    def authors(self, limit: int) -> list[str]:
        return self._store.authors(limit)

    def count(self, node: Node, filter: Filter) -> tuple[int, bool]:
        return self._store.count(node, filter)

    def frequencies(self, nodes: Sequence[Node]) -> tuple[list[int], int]:
        return self._store.frequencies(nodes)

    def variants(self, words: Sequence[str], language: Language = ENGLISH) -> list[tuple[str, ...]]:
        return self._store.variants(words, language)

    def words_containing(self, parts: Sequence[str]) -> dict[str, list[str]]:
        return self._store.words_containing(parts)

    def known_words(self, words: Sequence[str]) -> set[str]:
        return self._store.known_words(words)

    def similar_words(self, words: Sequence[str]) -> dict[str, set[str]]:
        return self._store.similar_words(words)

    def has_match(self, node: Node, filter: Filter) -> bool:
        return self._store.has_match(node, filter)

    def candidates(self, keys: Sequence[int], filter: Filter) -> list[Candidate]:
        return self._store.candidates(keys, filter)

    def candidates_by_id(self, ids: Sequence[tuple[str, str]], filter: Filter) -> list[Candidate]:
        return self._store.candidates_by_id(ids, filter)

    def observed_messages(self, keys: Sequence[int]) -> dict[int, list[tuple[str, str]]]:
        return self._store.observed_messages(keys)

    def previous_passages(self, keys: Sequence[int]) -> list[Candidate]:
        return self._store.previous_passages(keys)

    def text_scores(self, node: Node, keys: Sequence[int]) -> dict[int, float]:
        return self._store.text_scores(node, keys)

    def find_substring(
        self, text: str, filter: Filter, limit: int, offset: int, by_document: bool = False
    ) -> SubstringMatches:
        return self._store.find_substring(text, filter, limit, offset, by_document)

    def newest(
        self, filter: Filter, limit: int, offset: int, by_document: bool = False
    ) -> tuple[list[Candidate], int]:
        return self._store.newest(filter, limit, offset, by_document)

    def recent(
        self, text: str | None, filter: Filter, limit: int, by_words: bool = False
    ) -> list[Candidate]:
        return self._store.recent(text, filter, limit, by_words)

    # -- vectors ---

    def spaces(self) -> list[Space]:
        return self._store.spaces()

    def add_space(
        self, name: str, version: str, dimensions: int, model_state: bytes | None
    ) -> Space:
        return self._store.add_space(name, version, dimensions, model_state)

    def drop_space(self, space: Space) -> None:
        self._store.drop_space(space)

    def unembedded(self, space: Space, limit: int) -> tuple[list[Unembedded], int]:
        return self._store.unembedded(space, limit)

    def vectorless(self, space: Space, after: int, limit: int) -> list[Unembedded]:
        return self._store.vectorless(space, after, limit)

    def queue(self, space: Space, passages: Sequence[int]) -> None:
        self._store.queue(space, passages)

    def add_vectors(self, space: Space, vectors: Mapping[Unembedded, Sequence[Any]]) -> None:
        self._store.add_vectors(space, vectors)

    def mark_space_ready(self, space: Space) -> None:
        self._store.mark_space_ready(space)

    def calibrate_space(self, space: Space, noise_floor: float, size: int) -> None:
        self._store.calibrate_space(space, noise_floor, size)

    def nearest(
        self, space: Space, vector: Any, filter: Filter, limit: int
    ) -> list[tuple[int, float]]:
        return self._store.nearest(space, vector, filter, limit)

    def highest_cosines(self, space: Space, vectors: Sequence[Any]) -> list[float]:
        return self._store.highest_cosines(space, vectors)

    def cosines(self, space: Space, vector: Any, keys: Sequence[int]) -> dict[int, float]:
        return self._store.cosines(space, vector, keys)

    def vectors(self, space: Space, key: int) -> list[Any]:
        return self._store.vectors(space, key)

    def sample(self, limit: int) -> Iterator[str]:
        return self._store.sample(limit)

    # -- receipts ---

    def start_import(self, path: str, job: str = "") -> Receipt:
        return self._store.start_import(path, job)

    def update_receipt(self, receipt: Receipt) -> None:
        self._store.update_receipt(receipt)

    def finish_import(self, receipt: Receipt) -> None:
        self._store.finish_import(receipt)

    def receipts(self) -> list[Receipt]:
        return self._store.receipts()

    def undo_import(self, receipt: int) -> Receipt:
        return self._store.undo_import(receipt)

    # -- transfer ---

    def export_batches(self, receive: Callable[[Batch], None] | None = None) -> Contents:
        return self._store.export_batches(receive)

    def import_batch(self, batch: Batch) -> str | None:
        return self._store.import_batch(batch)

    def fingerprints(self) -> Fingerprints:
        return self._store.fingerprints()

    def export_changes(self, copy: Fingerprints, receive: Callable[[Batch], None]) -> int:
        return self._store.export_changes(copy, receive)

    def hand_over(
        self,
        copy: Fingerprints,
        receive: Callable[[Batch], None],
        seconds: float,
        close: Callable[[str], Closure | None],
    ) -> None:
        self._store.hand_over(copy, receive, seconds, close)

    def rows_in_range(self, batch: Batch) -> list[tuple[Any, ...]]:
        return self._store.rows_in_range(batch)

    def join_move(self) -> None:
        self._store.join_move()

    def closure(self) -> Closure | None:
        return self._store.closure()

    def complete_move(self) -> None:
        self._store.complete_move()

    def get_marker(self, name: str) -> int | None:
        return self._store.get_marker(name)

    def set_marker(self, name: str, number: int | None) -> None:
        self._store.set_marker(name, number)

    def remove_library(self, expected: Contents | str | None = None) -> None:
        self._store.remove_library(expected)

    # -- care ---

    @property
    def path(self) -> Path | str:
        return self._store.path

    @property
    def read_only(self) -> str:
        return self._store.read_only

    @property
    def engine(self) -> str:
        return self._store.engine

    @property
    def missing_features(self) -> tuple[str, ...]:
        return self._store.missing_features

    def stats(self) -> dict[str, object]:
        return self._store.stats()

    def facets(self, kind: str = CONVERSATION) -> dict[str, list[tuple[str, int]]]:
        return self._store.facets(kind)

    def facet_names(
        self, facet: str, text: str = "", kinds: Sequence[str] = (CONVERSATION,)
    ) -> list[tuple[str, int]]:
        return self._store.facet_names(facet, text, kinds)

    def media_types(self) -> list[tuple[str, int]]:
        return self._store.media_types()

    def activity(self) -> Activity:
        return self._store.activity()

    def version(self) -> object:
        return self._store.version()

    def snapshot(self) -> AbstractContextManager[None]:
        return self._store.snapshot()

    def release_snapshot(self) -> None:
        self._store.release_snapshot()

    def expect(self, *plans: SearchPlan) -> None:
        self._store.expect(*plans)

    def needs_refresh(self) -> bool:
        return self._store.needs_refresh()

    def refresh(
        self, progress: Progress | None = None, stop: Callable[[], bool] | None = None
    ) -> None:
        self._store.refresh(progress, stop)

    def indexing_lock(self) -> AbstractContextManager[bool]:
        return self._store.indexing_lock()

    def purge(self, patience: float = 0.0) -> Purge:
        return self._store.purge(patience)

    def purge_status(self) -> Purge:
        return self._store.purge_status()

    def verify(self) -> Findings:
        return self._store.verify()

    def repair(self, progress: Progress | None = None) -> None:
        self._store.repair(progress)

    def close(self) -> None:
        self._store.close()
