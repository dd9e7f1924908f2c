"""Search a volume."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from operator import itemgetter
from pathlib import Path
from typing import cast

import tantivy
from tantivy import FieldType, Occur, Query

from recollect.language.queries.query_tree import And, Node, Not, Or, Word
from recollect.language.text import indexable
from recollect.store.sqlite.passages.key_ranges import KeyRange
from recollect.store.sqlite.text.fts_match import inverse_document_frequency
from recollect.store.sqlite.volumes.format import (
    HIDDEN,
    VISIBLE,
    UnreadableVolume,
    read_manifest,
)
from recollect.store.sqlite.volumes.scope import Selection
from recollect.store.sqlite.volumes.tokenizer import split_words, truncate_word

# Up to this many words with a prefix are all scored. Otherwise only the most frequent ones are.
_MAX_SCORED_PREFIX_WORDS = 64
_MOST_FREQUENT_PREFIX_WORDS = 16
# Each word that completes the phrase needs its own query.
_MAX_PREFIX_PHRASES = 256
# Tantivy's patterns have at most 1,000 states.
_MAX_PATTERN_BYTES = 256
# Up to this many values, or keys of passages, single terms are faster than a set.
_MAX_SINGLE_TERMS = 64
_MAX_SINGLE_KEYS = 1_000
# The cheapest aggregation. It counts without scoring, which a search always does.
_COUNT = {"n": {"filter": "*"}}


class UnsupportedQuery(Exception):
    """A volume cannot answer this query exactly as FTS5 does, so FTS5 must answer it."""


def supports(node: Node) -> bool:
    """Whether volumes answer this query exactly as FTS5 does.

    Searching may still raise UnsupportedQuery for a prefix, because it depends on the volume how
    many words have the prefix.
    """
    match node:
        case Word():
            return True
        case Not(part):
            return supports(part)
        case Or(parts):
            return all(supports(part) for part in parts)
        case And(parts):
            # Near is a subclass of And, and not supported.
            return type(node) is And and all(supports(part) for part in parts)
    return False


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
        self._index_names: list[str] = manifest["indexes"]
        self._visible = self._open(VISIBLE)

    @cached_property
    def _hidden(self) -> _Index | None:
        # Opened on first use: it is rarely needed, and every open index costs a thread that checks
        # a file twice a second.
        return self._open(HIDDEN)

    def _open(self, name: str) -> _Index | None:
        if name not in self._index_names:
            return None
        return _Index(self.folder / name)

    def best_matches(self, node: Node, selection: Selection, limit: int) -> list[tuple[int, float]]:
        """The keys of the passages that match, with their BM25 scores, best first.

        Passages with the same score come in the order in which they were written.
        """
        excluded_keys = frozenset(selection.not_keys_in(self.key_range))
        hits: list[tuple[int, float]] = []
        for index in self._indexes(selection.hidden):
            query = index.query(node, selection, self._document_range)
            if query is not None:
                hits += index.search(query, limit + len(excluded_keys))
        if excluded_keys:
            hits = [hit for hit in hits if hit[0] not in excluded_keys]
        if selection.hidden:
            hits.sort(key=itemgetter(1), reverse=True)
        return hits[: max(limit, 0)]

    def count_matches(self, node: Node, selection: Selection) -> int:
        excluded_keys = selection.not_keys_in(self.key_range)
        total = 0
        for index in self._indexes(selection.hidden):
            query = index.query(node, selection, self._document_range, scored=False)
            if query is None:
                continue
            total += index.count(query)
            if excluded_keys:
                among_keys = index.any_value("key", excluded_keys, _MAX_SINGLE_KEYS)
                total -= index.count(_all_of([query, among_keys]))
        return total

    def frequencies(self, words: Sequence[str], hidden: bool) -> list[int]:
        """The number of passages that have each word, including passages that have changed."""
        indexes = list(self._indexes(hidden))
        return [sum(index.frequency(word) for index in indexes) for word in words]

    def _indexes(self, hidden: bool) -> Iterator[_Index]:
        if self._visible is not None:
            yield self._visible
        if hidden and self._hidden is not None:
            yield self._hidden


class _Index:
    """One Tantivy index of a volume."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with self._translated_errors():
            index = tantivy.Index.open(str(folder))
            index.config_reader("manual")  # the index never changes
            self._schema = index.schema
            self._searcher = index.searcher()
        self._size = self._searcher.num_docs

    @contextmanager
    def _translated_errors(self) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError) as error:
            raise self._damaged(error) from error
        except BaseException as error:  # a panic in Rust, whose class Tantivy does not export
            if type(error).__name__ != "PanicException":
                raise
            raise self._damaged(error) from error

    def _damaged(self, error: BaseException) -> UnreadableVolume:
        return UnreadableVolume(f"The volume {self._folder} is damaged ({error}).")

    # -- searching ---

    def search(self, query: Query, limit: int) -> list[tuple[int, float]]:
        limit = min(limit, self._size)  # Tantivy allocates memory for as many results
        if limit <= 0:
            return []
        with self._translated_errors():
            hits = self._searcher.search(query, limit, count=False).hits
            keys = self._searcher.fast_field_values("key", [address for _, address in hits])
        return list(zip(cast("list[int]", keys), map(itemgetter(0), hits), strict=True))

    def count(self, query: Query) -> int:
        with self._translated_errors():
            return int(self._searcher.aggregate(query, _COUNT)["n"]["doc_count"])

    def frequency(self, word: str) -> int:
        with self._translated_errors():
            return self._searcher.doc_freq("text", truncate_word(word))

    # -- building queries ---

    def query(
        self, node: Node, selection: Selection, document_range: KeyRange, scored: bool = True
    ) -> Query | None:
        """A query for a tree and a selection; None if nothing can match."""
        if selection.documents is not None and not selection.documents_in(document_range):
            return None
        if selection.has_no_dates:
            return None
        filters = [
            Query.const_score_query(query, 0.0)
            for query in self._filters(selection, document_range)
        ]
        exclusions = self._exclusions(selection, document_range)
        return _all_of([self._node(node, scored), *filters], exclusions)

    def _filters(self, selection: Selection, document_range: KeyRange) -> list[Query]:
        """Queries that must all match."""
        filters = []
        if selection.roles:
            filters.append(self._any_name("role", selection.roles))
        if selection.authors:
            filters.append(self._any_name("author", selection.authors))
        if selection.senders:
            by_role = self._any_name("role", selection.senders)
            by_author = self._any_name("author", selection.senders)
            filters.append(_any_of([by_role, by_author]))
        if selection.after is not None or selection.before is not None:
            filters.append(
                Query.range_query(
                    self._schema, "created_at", FieldType.Integer, selection.after, selection.before
                )
            )
        if selection.documents is not None:
            filters.append(self.any_value("document", selection.documents_in(document_range)))
        return filters

    def _exclusions(self, selection: Selection, document_range: KeyRange) -> list[Query]:
        """Queries of which none may match."""
        exclusions = []
        if selection.not_roles:
            exclusions.append(self._any_name("role", selection.not_roles))
        if selection.not_authors:
            exclusions.append(self._any_name("author", selection.not_authors))
        documents = selection.not_documents_in(document_range)
        if documents:
            exclusions.append(self.any_value("document", documents))
        return exclusions

    def _any_name(self, field: str, names: Sequence[str]) -> Query:
        return self.any_value(field, [truncate_word(name) for name in names])

    def any_value(
        self, field: str, values: Sequence[str | int], max_single: int = _MAX_SINGLE_TERMS
    ) -> Query:
        """A query for entries whose field has one of these values."""
        if len(values) > max_single:
            return Query.term_set_query(self._schema, field, values)
        return _any_of([Query.term_query(self._schema, field, value, "basic") for value in values])

    def _node(self, node: Node, scored: bool) -> Query:
        """A query tree as a Tantivy query. It means the same as `fts_query` of the tree."""
        match node:
            case Word(text, prefix):
                words = split_words(indexable(text)).split()
                if prefix and words:
                    return self._prefix(words, scored)
                return self._phrase(words)
            case Not(part):
                return self._node(part, scored)
            case Or(parts):
                return _any_of([self._node(part, scored) for part in parts])
            case And(parts) if type(node) is And:
                required = [self._node(part, scored) for part in parts if not isinstance(part, Not)]
                excluded = [self._node(part, False) for part in parts if isinstance(part, Not)]
                return _all_of(required, excluded)
        raise UnsupportedQuery(type(node).__name__)

    def _phrase(self, words: list[str]) -> Query:
        if not words:
            return Query.empty_query()
        if len(words) == 1:
            return Query.term_query(self._schema, "text", words[0], "freq")
        return Query.phrase_query(self._schema, "text", list(words))

    def _prefix(self, words: list[str], scored: bool) -> Query:
        """A query for a phrase whose last word is a prefix."""
        *complete_words, prefix = words
        with self._translated_errors():
            terms = self._searcher.terms_with_prefix("text", prefix, limit=_MAX_PREFIX_PHRASES + 1)
        if complete_words:
            if len(terms) > _MAX_PREFIX_PHRASES:
                raise UnsupportedQuery("a phrase that ends in the prefix of many words")
            return _any_of([self._phrase([*complete_words, word]) for word, _ in terms])
        if len(terms) <= _MAX_SCORED_PREFIX_WORDS:
            return _any_of(self._equally_weighted(terms))
        if len(prefix.encode()) > _MAX_PATTERN_BYTES:
            raise UnsupportedQuery("a long prefix of many words")
        pattern = Query.regex_query(self._schema, "text", prefix + ".*")
        unscored = Query.const_score_query(pattern, 0.0)
        if not scored:
            return unscored
        scored_terms = self._equally_weighted(terms[:_MOST_FREQUENT_PREFIX_WORDS])
        return _any_of([*scored_terms, unscored])

    def _equally_weighted(self, terms: list[tuple[str, int]]) -> list[Query]:
        """Queries for words that score alike, whatever their frequencies.

        They all stand for the same prefix.
        """
        weights = [inverse_document_frequency(frequency, self._size) for _, frequency in terms]
        return [
            Query.boost_query(self._phrase([word]), min(weights) / weight)
            for (word, _), weight in zip(terms, weights, strict=True)
        ]


def _any_of(queries: list[Query]) -> Query:
    if not queries:
        return Query.empty_query()
    if len(queries) == 1:
        return queries[0]
    return Query.boolean_query([(Occur.Should, query) for query in queries])


def _all_of(queries: list[Query], excluded: Sequence[Query] = ()) -> Query:
    if not queries:
        return Query.empty_query()
    if len(queries) == 1 and not excluded:
        return queries[0]
    required = [(Occur.Must, query) for query in queries]
    return Query.boolean_query([*required, *((Occur.MustNot, query) for query in excluded)])
