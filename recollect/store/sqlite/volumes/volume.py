"""Search a volume."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from operator import itemgetter
from pathlib import Path
from typing import cast

import tantivy
from tantivy import Query

from recollect.language.queries.query_tree import Node
from recollect.model.kinds import CONVERSATION
from recollect.store.sqlite.passages.key_ranges import KeyRange
from recollect.store.sqlite.volumes.format import (
    IndexContents,
    UnreadableVolume,
    read_manifest,
)
from recollect.store.sqlite.volumes.queries import (
    all_of,
    any_value,
    filtered_query,
    tree_query,
)
from recollect.store.sqlite.volumes.tokenizer import truncate_word
from recollect.store.sqlite.volumes.volume_filter import VolumeFilter

Match = tuple[int, float]
"""The key of a passage, and its BM25 score."""

# Up to this many keys of passages, single terms are faster than a set.
_MAX_SINGLE_KEYS = 1_000
# The cheapest aggregation. It counts without scoring, which a search always does.
_COUNT = {"n": {"filter": "*"}}


class Volume:
    """An open volume, for any number of threads. It stays usable when its folder is removed.

    Opening and searching raise UnreadableVolume if a file cannot be read. Searching raises
    UnsupportedQuery.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        manifest = read_manifest(folder)
        self.size: int = manifest["rows"]
        """The number of passages."""
        self.key_range: KeyRange = tuple(manifest["keys"])
        self._document_range: KeyRange = tuple(manifest["documents"])
        self._contents = [IndexContents(**contents) for contents in manifest["indexes"]]
        self._open_indexes: dict[int, _Index] = {}
        for number, contents in enumerate(self._contents):
            if contents == IndexContents(CONVERSATION, hidden=False):
                self._open(number)

    def best_matches(self, node: Node, volume_filter: VolumeFilter, limit: int) -> list[Match]:
        """The passages that match, best first.

        The newest passages with the same score come first.
        """
        excluded_keys = frozenset(volume_filter.not_keys_in(self.key_range))
        hits: list[Match] = []
        indexes = self._indexes(volume_filter.hidden, volume_filter.kinds)
        for index in indexes:
            query = index.query(node, volume_filter, self._document_range)
            if query is not None:
                hits += index.search(query, limit + len(excluded_keys))
        if excluded_keys:
            hits = [hit for hit in hits if hit[0] not in excluded_keys]
        if len(indexes) > 1:
            hits.sort(key=itemgetter(1, 0), reverse=True)
        return hits[: max(limit, 0)]

    def matching_keys(self, node: Node, volume_filter: VolumeFilter) -> list[int]:
        """The keys of all passages that match, in any order. This scores nothing."""
        excluded_keys = frozenset(volume_filter.not_keys_in(self.key_range))
        keys: list[int] = []
        for index in self._indexes(volume_filter.hidden, volume_filter.kinds):
            query = index.query(node, volume_filter, self._document_range, scored=False)
            if query is not None:
                keys += index.matching_keys(query)
        return [key for key in keys if key not in excluded_keys]

    def count_matches(self, node: Node, volume_filter: VolumeFilter) -> int:
        excluded_keys = volume_filter.not_keys_in(self.key_range)
        total = 0
        for index in self._indexes(volume_filter.hidden, volume_filter.kinds):
            query = index.query(node, volume_filter, self._document_range, scored=False)
            if query is None:
                continue
            total += index.count(query)
            if excluded_keys:
                among_keys = any_value("key", excluded_keys, _MAX_SINGLE_KEYS)
                total -= index.count(all_of([query, among_keys]))
        return total

    def keys_with_symbols(self, symbols: Sequence[str], limit: int) -> list[int] | None:
        """The keys of all passages with these symbols, changed ones included; None if too many.

        See `language.symbol_pairs`.
        """
        query = all_of([any_value("symbols", [symbol]) for symbol in symbols])
        indexes = self._indexes(True)
        if sum(index.count(query) for index in indexes) > limit:
            return None
        return [key for index in indexes for key in index.matching_keys(query)]

    def frequencies(
        self, words: Sequence[str], hidden: bool, kinds: Sequence[str] = ()
    ) -> list[int]:
        """The number of passages that have each word, including passages that have changed."""
        indexes = self._indexes(hidden, kinds)
        return [sum(index.frequency(word) for index in indexes) for word in words]

    def _indexes(self, hidden: bool, kinds: Sequence[str] = ()) -> list[_Index]:
        """The indexes of some kinds, or of all kinds; with `hidden`, also of hidden passages."""
        return [
            self._open(number)
            for number, contents in enumerate(self._contents)
            if (hidden or not contents.hidden) and (not kinds or contents.kind in kinds)
        ]

    def _open(self, number: int) -> _Index:
        # Opened on first use: some are rarely needed, and every open index costs a thread that
        # checks a file twice a second.
        if number not in self._open_indexes:
            self._open_indexes[number] = _Index(self.folder / str(number))
        return self._open_indexes[number]


class _Index:
    """One Tantivy index of a volume."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with self._translated_errors():
            index = tantivy.Index.open(str(folder))
            index.config_reader("manual")  # the index never changes
            self._searcher = index.searcher()
        self.size = self._searcher.num_docs

    @contextmanager
    def _translated_errors(self) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError) as error:
            raise self._damage_error(error) from error
        except BaseException as error:  # a panic in Rust, whose class Tantivy does not export
            if type(error).__name__ != "PanicException":
                raise
            raise self._damage_error(error) from error

    def _damage_error(self, error: BaseException) -> UnreadableVolume:
        return UnreadableVolume(f"The volume {self._folder} is damaged ({error}).")

    # -- searching ---

    def search(self, query: Query, limit: int) -> list[Match]:
        limit = min(limit, self.size)  # Tantivy allocates memory for as many results
        if limit <= 0:
            return []
        with self._translated_errors():
            hits = self._searcher.search(query, limit, count=False).hits
            keys = self._searcher.fast_field_values("key", [address for _, address in hits])
        return list(zip(cast("list[int]", keys), map(itemgetter(0), hits), strict=True))

    def matching_keys(self, query: Query) -> list[int]:
        if not self.size:
            return []
        with self._translated_errors():
            # Only matches in the order of their scores are scored.
            hits = self._searcher.search(query, self.size, count=False, order_by_field="key").hits
        return [cast("int", key) for key, _ in hits]

    def count(self, query: Query) -> int:
        with self._translated_errors():
            return int(self._searcher.aggregate(query, _COUNT)["n"]["doc_count"])

    def frequency(self, word: str) -> int:
        with self._translated_errors():
            return self._searcher.doc_freq("text", truncate_word(word))

    def query(
        self, node: Node, volume_filter: VolumeFilter, document_range: KeyRange, scored: bool = True
    ) -> Query | None:
        """A query for a tree and a filter; None if nothing can match."""
        return filtered_query(tree_query(node, self, scored), volume_filter, document_range)

    def words_with_prefix(self, prefix: str, limit: int) -> list[tuple[str, int]]:
        with self._translated_errors():
            return self._searcher.terms_with_prefix("text", prefix, limit=limit)
