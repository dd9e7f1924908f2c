"""Find matches with an index that may have no positions.

Without positions, the index knows which passages have a word, but not where. So a phrase is
searched as its words, and what they find is verified against the text. The same applies to NEAR.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from recollect.language.queries.query_tree import And, Near, Node, Not, Or, Word
from recollect.language.text import tokens
from recollect.model.search import Filter
from recollect.store.sql.encoding import HEADING, INDEXED_TITLE
from recollect.store.sqlite.connections.connection import Connection
from recollect.store.sqlite.passages.filters import conditions
from recollect.store.sqlite.passages.key_ranges import KeyRange
from recollect.store.sqlite.text.fts_query import fts_query
from recollect.store.sqlite.text.index_layout import has_positions
from recollect.store.sqlite.text.word_text import matcher, word_text

# Verifying takes 15 to 25 µs per passage. So only this many of the newest passages that may match
# are verified. If none of them matches, older ones are verified as well.
_MAX_VERIFIED = 10_000
# It also ends once this many match.
_MAX_VERIFIED_MATCHES = 2_000
_NO_LIMIT = -1  # of rows, for SQLite
# The words of texts that were verified. The next search verifies many of them again. 4 MB at most.
_cached_words: dict[tuple[str, str | bytes], str] = {}
_MAX_CACHED_TEXTS = 1_000
_MAX_CACHED_LENGTH = 4_000


class IndexQuery(NamedTuple):
    """A query for the index, which finds all matches of a query tree."""

    text: str
    """In FTS5 syntax."""
    is_exact: bool
    """Whether all that the index finds matches. Otherwise, it must be verified."""


def index_query(db: Connection, node: Node) -> IndexQuery:
    """The query for the index, which depends on whether the index has positions."""
    if has_positions(db):
        return IndexQuery(fts_query(node), True)
    words_node, is_exact = _without_positions(node)
    return IndexQuery(fts_query(words_node), is_exact)


class Matches(NamedTuple):
    """The newest matches, or all of them."""

    keys: list[int]
    """The keys of the newest passages that match, newest first."""
    is_complete: bool
    """Whether these are all."""


def newest_matches(
    db: Connection, node: Node, filter: Filter | None, key_range: KeyRange, limit: int
) -> Matches:
    """The newest passages in a range that match. Without a filter, hidden passages are found too.

    If they have to be verified, they may be fewer than `limit`, so that a search for a phrase of
    very common words takes bounded time.
    """
    query = index_query(db, node)
    if query.is_exact:
        join, values = _join_filter(filter)
        rows = db.execute(
            f"""select t.rowid from passage_text t {join}
            where passage_text match ? and t.rowid between ? and ?
            order by t.rowid desc limit ?""",
            (*values, query.text, *key_range, limit),
        )
        keys = [key for (key,) in rows]
        return Matches(keys, len(keys) < limit)
    # A search asks for the matches of a phrase, and for their number.
    return db.memoize(
        ("verified matches", node, filter, key_range, limit),
        lambda: _newest_verified(_verify(db, node, filter, key_range), limit),
    )


def all_matches(db: Connection, node: Node, filter: Filter, key_range: KeyRange) -> list[int]:
    """The keys of all passages in a range that match."""
    if index_query(db, node).is_exact:
        return newest_matches(db, node, filter, key_range, _NO_LIMIT).keys
    return [key for key, is_match in _verify(db, node, filter, key_range) if is_match]


def count_matches(
    db: Connection, node: Node, filter: Filter | None, key_range: KeyRange, limit: int
) -> tuple[int, bool]:
    """The number of passages in a range that match, counted up to a limit, and whether it is exact.

    The limit is lower for matches that have to be verified.
    """
    query = index_query(db, node)
    if not query.is_exact:
        matches = newest_matches(db, node, filter, key_range, limit)
        return len(matches.keys), matches.is_complete
    join, values = _join_filter(filter)
    count: int = db.get(
        f"""select count(*) from (select 1 from passage_text t {join}
        where passage_text match ? and t.rowid between ? and ? limit ?)""",
        (*values, query.text, *key_range, limit),
    )
    return count, count < limit


def false_matches(db: Connection, node: Node, keys: Sequence[int]) -> set[int]:
    """The passages among these that have a title and do not match a query."""
    rows = db.execute(
        f"""select p.key, {HEADING}, p.body from json_each(?) k
        cross join passage p on p.key = k.value
        cross join document d on d.key = p.document and d.opening = p.key
        where {HEADING} <> ''""",
        (json.dumps(keys),),
    )
    is_match = matcher(node)
    return {key for key, title, body in rows if not is_match(_words(db, title, body))}


def _without_positions(node: Node) -> tuple[Node, bool]:
    """A query of single words that finds all that a query finds; and whether it finds no more."""
    match node:
        case Word():
            return _words_of(node)
        case Or(parts):
            nodes, exact = zip(*map(_without_positions, parts), strict=True)
            return Or(nodes), all(exact)
        case And(parts):
            return _parts_without_positions(parts, not isinstance(node, Near))
    return node, True


def _words_of(word: Word) -> tuple[Node, bool]:
    words = tokens(word.text)
    if len(words) < 2:
        return word, True
    *complete_words, last = words
    return And((*map(Word, complete_words), Word(last, word.prefix))), False


def _parts_without_positions(parts: Sequence[Node], is_exact: bool) -> tuple[Node, bool]:
    nodes: list[Node] = []
    for part in parts:
        if isinstance(part, Not):
            node, is_part_exact = _without_positions(part.part)
            # To exclude the words of a phrase would exclude too much.
            if is_part_exact:
                nodes.append(Not(node))
        else:
            node, is_part_exact = _without_positions(part)
            nodes.append(node)
        is_exact = is_exact and is_part_exact
    return And(tuple(nodes)), is_exact


def _newest_verified(candidates: Iterator[tuple[int, bool]], limit: int) -> Matches:
    keys: list[int] = []
    for number, (key, is_match) in enumerate(candidates):
        # Without a match so far, only the deadline of the search ends this, which is an error.
        if (number >= _MAX_VERIFIED and keys) or len(keys) == min(limit, _MAX_VERIFIED_MATCHES):
            return Matches(keys, False)
        if is_match:
            keys.append(key)
    return Matches(keys, True)


def _verify(
    db: Connection, node: Node, filter: Filter | None, key_range: KeyRange
) -> Iterator[tuple[int, bool]]:
    """The keys of the passages that may match, newest first, and whether they do."""
    join, values = _join_filter(filter or Filter(hidden=True))
    rows = db.execute(
        f"""select t.rowid, {INDEXED_TITLE}, p.body from passage_text t {join}
        where passage_text match ? and t.rowid between ? and ? order by t.rowid desc""",
        (*values, index_query(db, node).text, *key_range),
    )
    is_match = matcher(node)
    for key, title, body in rows:
        yield key, is_match(_words(db, title, body))


def _words(db: Connection, title: str, body: str | bytes) -> str:
    """The words of a passage, given its title and its text as it is stored."""
    words = _cached_words.get((title, body))
    if words is None:
        (content,) = db.codec.contents([body])
        words = word_text(title, content)
        if len(words) <= _MAX_CACHED_LENGTH:
            if len(_cached_words) >= _MAX_CACHED_TEXTS:
                _cached_words.clear()
            _cached_words[title, body] = words
    return words


def _join_filter(filter: Filter | None) -> tuple[str, list[Any]]:
    """The join of the index with the passages and documents that pass the filter."""
    if filter is None:
        return "", []
    where, values = conditions(filter, many=True)
    join = (
        "cross join passage p on p.key = t.rowid "
        f"cross join document d on d.key = p.document and {where}"
    )
    return join, values
