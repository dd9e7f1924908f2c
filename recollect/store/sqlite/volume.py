"""A volume: a range of passages in Tantivy indexes, for fast ranking.

A volume is a folder that never changes: a manifest, and an index for the passages of each kind.
Hidden passages, such as system prompts, have an index of their own, so a search needs no filter
for what it may show. Volumes are a cache: the data is in SQLite, and any volume can be deleted.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple, cast

import tantivy
from tantivy import Query

from recollect.errors import RecollectError
from recollect.language.queries.query_tree import Node
from recollect.model.kinds import CONVERSATION
from recollect.store.sqlite.checksums import file_checksum, is_check_due, mark_checked
from recollect.store.sqlite.scans import KeyRange, keys_in
from recollect.store.sqlite.volume_queries import (
    VolumeFilter,
    all_of,
    any_value,
    filtered_query,
    tree_query,
    truncate_word,
)

FORMAT = 5
MANIFEST = "volume.json"
Match = tuple[int, float]
"""The key of a passage, and its BM25 score."""

# Up to this many keys of passages, single terms are faster than a set.
_MAX_SINGLE_KEYS = 1_000
# The cheapest aggregation. It counts without scoring, which a search always does.
_COUNT = {"n": {"filter": "*"}}


class IndexContents(NamedTuple):
    """Which passages an index contains."""

    kind: str
    """The kind of their documents."""
    hidden: bool


class UnreadableVolume(RecollectError):
    """The folder is not a volume of this version, or it is damaged. It must be written again."""


class DamagedVolume(UnreadableVolume):
    """A file of the volume has another size or checksum."""


def read_manifest(folder: Path, verify: bool = False) -> dict[str, Any]:
    """Read the manifest, and check that all files are complete.

    Reading past the end of a file that is mapped into memory would kill the process. Checksums are
    compared if that is due, or to `verify`.
    """
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        if manifest["format"] != FORMAT:
            raise UnreadableVolume(f"{folder} is a volume of another version of Recollect.")
        files = [folder / name for name in manifest["files"]]
        for file, size in zip(files, manifest["files"].values(), strict=True):
            if file.stat().st_size != size:
                raise DamagedVolume(
                    f"The volume {folder} is damaged: {file.name} has another size."
                )
        if verify or is_check_due(folder / MANIFEST, files):
            for name, checksum in manifest["checksums"].items():
                if file_checksum(folder / name) != checksum:
                    raise DamagedVolume(
                        f"The volume {folder} is damaged: {name} differs from its checksum."
                    )
            mark_checked(folder / MANIFEST)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UnreadableVolume(f"{folder} is not a volume ({error}).") from error
    assert isinstance(manifest, dict)
    return manifest


class Volume:
    """An open volume, for any number of threads. It stays usable when its folder is removed.

    Opening and searching raise UnreadableVolume if a file cannot be read. Searching raises
    UnsupportedQuery.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        manifest = read_manifest(folder)
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
        excluded_keys = frozenset(keys_in(self.key_range, volume_filter.not_keys))
        queries = list(self._queries(node, volume_filter))
        hits = [
            hit
            for index, query in queries
            for hit in index.search(query, limit + len(excluded_keys))
        ]
        if excluded_keys:
            hits = [hit for hit in hits if hit[0] not in excluded_keys]
        if len(queries) > 1:
            hits.sort(key=itemgetter(1, 0), reverse=True)
        return hits[: max(limit, 0)]

    def matching_keys(self, node: Node, volume_filter: VolumeFilter) -> list[int]:
        """The keys of all passages that match, in any order. This scores nothing."""
        excluded_keys = frozenset(keys_in(self.key_range, volume_filter.not_keys))
        return [
            key
            for index, query in self._queries(node, volume_filter, scored=False)
            for key in index.matching_keys(query)
            if key not in excluded_keys
        ]

    def count_matches(self, node: Node, volume_filter: VolumeFilter) -> int:
        excluded_keys = keys_in(self.key_range, volume_filter.not_keys)
        total = 0
        for index, query in self._queries(node, volume_filter, scored=False):
            total += index.count(query)
            if excluded_keys:
                among_keys = any_value("key", excluded_keys, _MAX_SINGLE_KEYS)
                total -= index.count(all_of([query, among_keys]))
        return total

    def frequencies(
        self, words: Sequence[str], hidden: bool, kinds: Sequence[str] = ()
    ) -> list[int]:
        """The number of passages that have each word, including passages that have changed."""
        indexes = list(self._indexes(hidden, kinds))
        return [sum(index.frequency(word) for index in indexes) for word in words]

    def _queries(
        self, node: Node, volume_filter: VolumeFilter, scored: bool = True
    ) -> Iterator[tuple[_Index, Query]]:
        """The indexes in which something may match, each with its query."""
        filter = volume_filter.filter
        for index in self._indexes(filter.hidden, filter.kinds):
            matches = tree_query(node, index.words_with_prefix, index.size, scored)
            query = filtered_query(matches, volume_filter, self._document_range)
            if query is not None:
                yield index, query

    def _indexes(self, hidden: bool, kinds: Sequence[str] = ()) -> Iterable[_Index]:
        """The indexes of some kinds, or of all kinds; with `hidden`, also of hidden passages."""
        for number, contents in enumerate(self._contents):
            if (hidden or not contents.hidden) and (not kinds or contents.kind in kinds):
                yield self._open(number)

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
        except BaseException as error:
            # Tantivy does not export the class of a panic in Rust.
            is_panic = type(error).__name__ == "PanicException"
            if not is_panic and not isinstance(error, (OSError, ValueError)):
                raise
            raise UnreadableVolume(f"The volume {self._folder} is damaged ({error}).") from error

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

    def words_with_prefix(self, prefix: str, limit: int) -> list[tuple[str, int]]:
        with self._translated_errors():
            return self._searcher.terms_with_prefix("text", prefix, limit=limit)
