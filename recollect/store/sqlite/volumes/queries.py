"""Tantivy queries for query trees and filters.

All volumes have the same schema, so a query without a prefix is built once and searches them all.
Which words have a prefix depends on the volume.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Protocol

from tantivy import FieldType, Occur, Query

from recollect.language.queries.query_tree import And, Near, Node, Not, Or, Word
from recollect.language.text import indexable
from recollect.store.sqlite.passages.key_ranges import KeyRange
from recollect.store.sqlite.text.fts_match import inverse_document_frequency
from recollect.store.sqlite.volumes.format import schema
from recollect.store.sqlite.volumes.tokenizer import split_words, truncate_word
from recollect.store.sqlite.volumes.volume_filter import VolumeFilter

# Up to this many words with a prefix are all scored. Otherwise only the most frequent ones are.
_MAX_SCORED_PREFIX_WORDS = 64
_MOST_FREQUENT_PREFIX_WORDS = 16
# Each word that completes the phrase needs its own query.
_MAX_PREFIX_PHRASES = 256
# Tantivy's patterns have at most 1,000 states.
_MAX_PATTERN_BYTES = 256
# Up to this many values, single terms are faster than a set.
_MAX_SINGLE_TERMS = 64
_REMEMBERED_QUERIES = 64
_SCHEMA = schema()


class Vocabulary(Protocol):
    """The words of a volume."""

    size: int
    """The number of passages."""

    def words_with_prefix(self, prefix: str, limit: int) -> list[tuple[str, int]]:
        """Words with a prefix, the most frequent first, and how many passages have them."""


class UnsupportedQuery(Exception):
    """A volume cannot answer this query exactly as FTS5 does, so FTS5 must answer it."""


def supports(node: Node) -> bool:
    """Whether volumes answer this query.

    They answer as FTS5 does, but NEAR may also match words around the end of a title (`has_near`).
    `tree_query` may still raise UnsupportedQuery for a prefix, because it depends on the volume how
    many words have the prefix.
    """
    match node:
        case Word():
            return True
        case Near():
            return _two_words(node) is not None
        case Not(part):
            return supports(part) and not has_near(part)  # it would exclude too much
        case Or(parts) | And(parts):
            return all(supports(part) for part in parts)
    return False


def has_near(node: Node) -> bool:
    """Whether matches have to be verified if they have a title.

    A volume stores the title and the content of a passage one after the other.
    """
    match node:
        case Near():
            return True
        case Or(parts) | And(parts):
            return any(map(has_near, parts))
    return False


def _two_words(near: Near) -> tuple[str, str] | None:
    """The words of a NEAR of two different single words."""
    texts = [split_words(indexable(part.text)).split() for part in near.parts]
    if len(texts) != 2 or any(part.prefix for part in near.parts):
        return None
    if [len(words) for words in texts] != [1, 1] or texts[0] == texts[1]:
        return None
    return texts[0][0], texts[1][0]


# -- filters ---


def filtered_query(
    matches: Query, volume_filter: VolumeFilter, document_range: KeyRange
) -> Query | None:
    """A query for those of the matches that pass a filter; None if nothing can match.

    `document_range`: the first and the last document of the volume.
    """
    if volume_filter.documents is not None and not volume_filter.documents_in(document_range):
        return None
    if volume_filter.has_no_dates:
        return None
    filters = [
        Query.const_score_query(query, 0.0) for query in _filters(volume_filter, document_range)
    ]
    return all_of([matches, *filters], _exclusions(volume_filter, document_range))


def _filters(volume_filter: VolumeFilter, document_range: KeyRange) -> list[Query]:
    """Queries that must all match."""
    filters = []
    if volume_filter.roles:
        filters.append(_any_name("role", volume_filter.roles))
    if volume_filter.authors:
        filters.append(_any_name("author", volume_filter.authors))
    if volume_filter.senders:
        by_role = _any_name("role", volume_filter.senders)
        by_author = _any_name("author", volume_filter.senders)
        filters.append(_any_of([by_role, by_author]))
    if volume_filter.after is not None or volume_filter.before is not None:
        filters.append(
            Query.range_query(
                _SCHEMA, "created_at", FieldType.Integer, volume_filter.after, volume_filter.before
            )
        )
    if volume_filter.documents is not None:
        filters.append(any_value("document", volume_filter.documents_in(document_range)))
    return filters


def _exclusions(volume_filter: VolumeFilter, document_range: KeyRange) -> list[Query]:
    """Queries of which none may match."""
    exclusions = []
    if volume_filter.not_roles:
        exclusions.append(_any_name("role", volume_filter.not_roles))
    if volume_filter.not_authors:
        exclusions.append(_any_name("author", volume_filter.not_authors))
    documents = volume_filter.not_documents_in(document_range)
    if documents:
        exclusions.append(any_value("document", documents))
    return exclusions


def _any_name(field: str, names: Sequence[str]) -> Query:
    return any_value(field, [truncate_word(name) for name in names])


def any_value(
    field: str, values: Sequence[str | int], max_single: int = _MAX_SINGLE_TERMS
) -> Query:
    """A query for entries whose field has one of these values."""
    if len(values) > max_single:
        return Query.term_set_query(_SCHEMA, field, values)
    return _any_of([Query.term_query(_SCHEMA, field, value, "basic") for value in values])


# -- trees ---


def tree_query(node: Node, vocabulary: Vocabulary, scored: bool) -> Query:
    """A query tree as a Tantivy query. It means the same as `fts_query` of the tree.

    If it is not `scored`, only its matches count, and their scores mean nothing.
    """
    query = _query_without_prefix(node)
    if query is None:
        query = _tree_query(node, vocabulary, scored)
    return query


@lru_cache(_REMEMBERED_QUERIES)
def _query_without_prefix(node: Node) -> Query | None:
    """The query of a tree in any volume; None if it depends on the volume."""
    if _has_prefix(node):
        return None
    return _tree_query(node, None, True)


def _has_prefix(node: Node) -> bool:
    match node:
        case Word(_, prefix):
            return prefix
        case Not(part):
            return _has_prefix(part)
        case Or(parts) | And(parts):
            return any(map(_has_prefix, parts))
    return False


def _tree_query(node: Node, vocabulary: Vocabulary | None, scored: bool) -> Query:
    """A query tree as a Tantivy query. Only a tree with a prefix needs a vocabulary."""
    match node:
        case Word(text, prefix):
            words = split_words(indexable(text)).split()
            if prefix and words and vocabulary is not None:
                return _prefix_query(words, vocabulary, scored)
            return _phrase(words)
        case Near():
            return _near(node)
        case Not(part):
            return _tree_query(part, vocabulary, scored)
        case Or(parts):
            return _any_of([_tree_query(part, vocabulary, scored) for part in parts])
        case And(parts):
            required = [p for p in parts if not isinstance(p, Not)]
            excluded = [p for p in parts if isinstance(p, Not)]
            return all_of(
                [_tree_query(part, vocabulary, scored) for part in required],
                [_tree_query(part, vocabulary, False) for part in excluded],
            )
    raise UnsupportedQuery(type(node).__name__)


def _near(node: Near) -> Query:
    """Two words in either order. With slop, Tantivy allows as many words between them."""
    pair = _two_words(node)
    if pair is None:
        raise UnsupportedQuery("NEAR of other than two words")
    return _any_of(
        [
            Query.phrase_query(_SCHEMA, "text", list(words), slop=node.distance)
            for words in (pair, pair[::-1])
        ]
    )


def _phrase(words: Sequence[str]) -> Query:
    if not words:
        return Query.empty_query()
    if len(words) == 1:
        return Query.term_query(_SCHEMA, "text", words[0], "freq")
    return Query.phrase_query(_SCHEMA, "text", list(words))


def _prefix_query(words: Sequence[str], vocabulary: Vocabulary, scored: bool) -> Query:
    """A query for a phrase whose last word is a prefix."""
    *complete_words, prefix = words
    terms = vocabulary.words_with_prefix(prefix, _MAX_PREFIX_PHRASES + 1)
    if complete_words:
        if len(terms) > _MAX_PREFIX_PHRASES:
            raise UnsupportedQuery("a phrase that ends in the prefix of many words")
        return _any_of([_phrase([*complete_words, word]) for word, _ in terms])
    if len(terms) <= _MAX_SCORED_PREFIX_WORDS:
        return _any_of(_equally_weighted(terms, vocabulary))
    if len(prefix.encode()) > _MAX_PATTERN_BYTES:
        raise UnsupportedQuery("a long prefix of many words")
    pattern = Query.regex_query(_SCHEMA, "text", prefix + ".*")
    unscored = Query.const_score_query(pattern, 0.0)
    if not scored:
        return unscored
    scored_terms = _equally_weighted(terms[:_MOST_FREQUENT_PREFIX_WORDS], vocabulary)
    return _any_of([*scored_terms, unscored])


def _equally_weighted(terms: Sequence[tuple[str, int]], vocabulary: Vocabulary) -> list[Query]:
    """Queries for words that score alike, whatever their frequencies.

    They all stand for the same prefix.
    """
    weights = [inverse_document_frequency(frequency, vocabulary.size) for _, frequency in terms]
    return [
        Query.boost_query(_phrase([word]), min(weights) / weight)
        for (word, _), weight in zip(terms, weights, strict=True)
    ]


# -- combinations ---


def _any_of(queries: Sequence[Query]) -> Query:
    if not queries:
        return Query.empty_query()
    if len(queries) == 1:
        return queries[0]
    return Query.boolean_query([(Occur.Should, query) for query in queries])


def all_of(queries: Sequence[Query], excluded: Sequence[Query] = ()) -> Query:
    """A query for what all of the queries match, and none of the excluded ones."""
    if not queries:
        return Query.empty_query()
    if len(queries) == 1 and not excluded:
        return queries[0]
    required = [(Occur.Must, query) for query in queries]
    return Query.boolean_query([*required, *((Occur.MustNot, query) for query in excluded)])
