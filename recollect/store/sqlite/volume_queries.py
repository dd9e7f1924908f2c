"""Tantivy queries for query trees and filters: what a volume is asked.

A volume finds exactly the passages that FTS5 finds, because its words come from FTS5's tokenizer.
It refuses queries that it cannot answer like FTS5.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import NamedTuple, cast

import apsw
import tantivy
from tantivy import FieldType, Occur, Query

from recollect.language.queries.query_tree import And, Near, Node, Not, Or, Word
from recollect.language.text import indexable, micros
from recollect.model.search import Filter
from recollect.store.sqlite.fts import inverse_document_frequency
from recollect.store.sqlite.scans import KeyRange, keys_in

WordsWithPrefix = Callable[[str, int], list[tuple[str, int]]]
"""The words of an index with a prefix, up to a limit, the most frequent first: each with the number
of passages that have it."""

# Up to this many words with a prefix are all scored. Otherwise only the most frequent ones are.
_MAX_SCORED_PREFIX_WORDS = 64
_MOST_FREQUENT_PREFIX_WORDS = 16
# Each word that completes the phrase needs its own query.
_MAX_PREFIX_PHRASES = 256
# Tantivy's patterns have at most 1,000 states.
_MAX_PATTERN_BYTES = 256
# Up to this many values, single terms are faster than a set.
_MAX_SINGLE_TERMS = 64
# FTS5 truncates longer words.
_MAX_WORD_BYTES = 32_768
_MAX_BYTES_PER_CHARACTER = 4
_ASCII_SEPARATORS_TO_SPACE = bytes(n if n < 128 and chr(n).isalnum() else 0x20 for n in range(256))


def schema() -> tantivy.Schema:
    """The fields of a passage in an index."""
    builder = tantivy.SchemaBuilder()
    builder.add_text_field("text", tokenizer_name="whitespace")
    builder.add_unsigned_field("key", fast=True, indexed=True)
    builder.add_unsigned_field("document", indexed=True)
    builder.add_text_field("role", tokenizer_name="raw", index_option="basic")
    builder.add_text_field("author", tokenizer_name="raw", index_option="basic")
    builder.add_integer_field("created_at", fast=True)
    return builder.build()


_SCHEMA = schema()


# -- words ---


def split_words(text: str) -> str:
    """The words of a text that is `indexable`, separated by spaces, exactly as FTS5 splits it."""
    if text.isascii():
        words = text.encode().translate(_ASCII_SEPARATORS_TO_SPACE).decode()
    else:
        tokens = tokenizer()(
            text.encode(),
            apsw.FTS5_TOKENIZE_DOCUMENT,
            None,
            include_offsets=False,
            include_colocated=False,
        )
        words = " ".join(cast("list[str]", tokens))
    if len(words) > _MAX_WORD_BYTES // _MAX_BYTES_PER_CHARACTER:
        return " ".join(truncate_word(word) for word in words.split())
    return words


def truncate_word(word: str) -> str:
    """A word as FTS5 indexes it: at most 32,768 bytes."""
    if len(word) > _MAX_WORD_BYTES // _MAX_BYTES_PER_CHARACTER:
        return word.encode()[:_MAX_WORD_BYTES].decode(errors="ignore")
    return word


@cache
def tokenizer() -> apsw.FTS5Tokenizer:
    """The tokenizer of the table passage_text."""
    return apsw.Connection(":memory:").fts5_tokenizer("unicode61", ["remove_diacritics", "0"])


# -- query trees ---


class UnsupportedQuery(Exception):
    """A volume cannot answer this query exactly as FTS5 does, so FTS5 must answer it."""


def supports(node: Node) -> bool:
    """Whether volumes answer this query: all but NEAR, which stops at the end of a title.

    `tree_query` may still raise UnsupportedQuery for a prefix, because it depends on the volume how
    many words have the prefix.
    """
    match node:
        case Word():
            return True
        case Near():
            return False
        case Not(part):
            return supports(part)
        case Or(parts) | And(parts):
            return all(map(supports, parts))
    return False


def tree_query(
    node: Node, words_with_prefix: WordsWithPrefix, size: int, scored: bool = True
) -> Query:
    """A query tree for an index of `size` passages. It means the same as `fts_query` of the tree.

    If it is not `scored`, only its matches count, and their scores mean nothing.
    """

    def query(node: Node, scored: bool) -> Query:
        match node:
            case Word(text, prefix):
                words = split_words(indexable(text)).split()
                if prefix and words:
                    return prefix_query(words, words_with_prefix, size, scored)
                return phrase(words)
            case Not(part):
                return query(part, scored)
            case Or(parts):
                return any_of(query(part, scored) for part in parts)
            case And(parts):
                return all_of(
                    [query(part, scored) for part in parts if not isinstance(part, Not)],
                    [query(part, False) for part in parts if isinstance(part, Not)],
                )

    return query(node, scored)


def phrase(words: Sequence[str]) -> Query:
    if not words:
        return Query.empty_query()
    if len(words) == 1:
        return Query.term_query(_SCHEMA, "text", words[0], "freq")
    return Query.phrase_query(_SCHEMA, "text", list(words))


def prefix_query(
    words: Sequence[str], words_with_prefix: WordsWithPrefix, size: int, scored: bool
) -> Query:
    """A query for a phrase whose last word is a prefix."""
    *complete_words, prefix = words
    terms = words_with_prefix(prefix, _MAX_PREFIX_PHRASES + 1)
    if complete_words:
        if len(terms) > _MAX_PREFIX_PHRASES:
            raise UnsupportedQuery("a phrase that ends in the prefix of many words")
        return any_of(phrase([*complete_words, word]) for word, _ in terms)

    def equally_weighted(terms: Sequence[tuple[str, int]]) -> list[Query]:
        # They all stand for the same prefix, so they score alike, whatever their frequencies.
        weights = [inverse_document_frequency(frequency, size) for _, frequency in terms]
        return [
            Query.boost_query(phrase([word]), min(weights) / weight)
            for (word, _), weight in zip(terms, weights, strict=True)
        ]

    if len(terms) <= _MAX_SCORED_PREFIX_WORDS:
        return any_of(equally_weighted(terms))
    if len(prefix.encode()) > _MAX_PATTERN_BYTES:
        raise UnsupportedQuery("a long prefix of many words")
    unscored = Query.const_score_query(Query.regex_query(_SCHEMA, "text", prefix + ".*"), 0.0)
    if not scored:
        return unscored
    return any_of([*equally_weighted(terms[:_MOST_FREQUENT_PREFIX_WORDS]), unscored])


# -- filters ---


class VolumeFilter(NamedTuple):
    """A filter as volumes need it, with the documents that pass it."""

    filter: Filter
    only: Sequence[int] | None = None
    """The keys of the documents that pass, in ascending order; None means all."""
    without: Sequence[int] = ()
    """Keys of documents that do not pass, in ascending order."""
    not_keys: Sequence[int] = ()
    """Keys of passages that changed since the volume was written, in ascending order."""


def filtered_query(
    matches: Query, volume_filter: VolumeFilter, document_range: KeyRange
) -> Query | None:
    """A query for those of the matches that pass a filter; None if nothing can match.

    `document_range`: the first and the last document of the volume. Kinds and hidden passages are
    not checked: a volume has an index for each.
    """
    filter, only, without, _ = volume_filter
    after, before = micros(filter.after), micros(filter.before)
    if only is not None and not keys_in(document_range, only):
        return None
    if after is not None and before is not None and after > before:
        return None

    def required() -> Iterator[Query]:
        for field, names in (("role", filter.roles), ("author", filter.authors)):
            if names:
                yield any_name(field, names)
        if filter.senders:
            yield any_of(any_name(field, filter.senders) for field in ("role", "author"))
        if after is not None or before is not None:
            yield Query.range_query(_SCHEMA, "created_at", FieldType.Integer, after, before)
        if only is not None:
            yield any_value("document", keys_in(document_range, only))

    excluded = [
        any_name(field, names)
        for field, names in (("role", filter.not_roles), ("author", filter.not_authors))
        if names
    ]
    if keys_in(document_range, without):
        excluded.append(any_value("document", keys_in(document_range, without)))
    return all_of(
        [matches, *(Query.const_score_query(query, 0.0) for query in required())], excluded
    )


def any_name(field: str, names: Sequence[str]) -> Query:
    return any_value(field, [truncate_word(name) for name in names])


def any_value(
    field: str, values: Sequence[str | int], max_single: int = _MAX_SINGLE_TERMS
) -> Query:
    """A query for entries whose field has one of these values."""
    if len(values) > max_single:
        return Query.term_set_query(_SCHEMA, field, values)
    return any_of(Query.term_query(_SCHEMA, field, value, "basic") for value in values)


def any_of(queries: Iterator[Query] | Sequence[Query]) -> Query:
    queries = list(queries)
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
