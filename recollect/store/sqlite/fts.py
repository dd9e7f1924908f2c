"""Search the full-text index (FTS5): match, count and score passages.

The index knows which passages have a word, but not where (`text_index.py`). So a phrase is searched
as its words, and what they find is verified against the text. The same applies to NEAR. Only the
index of an encrypted library knows the positions as well.

FTS5's own `bm25()` is not used, because it counts every word of the query in the whole table for
each search.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from recollect.language.queries.query_tree import (
    And,
    Near,
    Node,
    Not,
    Or,
    Word,
    alternatives,
    are_near,
)
from recollect.language.text import indexable, tokens
from recollect.model.search import Filter
from recollect.settings import LIMITS
from recollect.store.sql.encoding import INDEXED_TITLE
from recollect.store.sqlite.connection import Connection, title_pattern, title_words
from recollect.store.sqlite.filters import conditions
from recollect.store.sqlite.scans import KeyRange
from recollect.store.values import Candidate

MAX_TERM_CHARACTERS = 128
"""The vocabulary stores longer words up to here."""

# Of a word with more matches, only the newest are scored, so that a search with very common words
# takes bounded time.
_MAX_MATCHES_PER_WORD = 20_000
# Matches that are filtered and scored at once. The size is fixed, so that a longer list of results
# begins like a shorter one.
_BATCH = 600
# The length of a typical message, used in place of the mean length in BM25.
_TYPICAL_WORDS = 60
# Verifying takes 15 to 25 µs per passage. So only this many of the newest passages that may match
# are verified. If none of them matches, older ones are verified as well.
_MAX_VERIFIED = 10_000
# It also ends once this many match.
_MAX_VERIFIED_MATCHES = 2_000
_NO_LIMIT = -1  # of rows, for SQLite
_TITLE_END = "  "


# -- queries in FTS5 syntax ---


def fts_query(node: Node) -> str:
    """A query tree in FTS5 syntax. All text is quoted, so none of it is taken as syntax."""
    match node:
        case Word(text, prefix):
            return quote(text) + "*" * prefix
        case Not(part):
            return fts_query(part)
        case Or(parts):
            return "(" + " OR ".join(fts_query(part) for part in parts) + ")"
        case Near(parts, distance):
            return f"NEAR({' '.join(fts_query(part) for part in parts)}, {distance})"
        case And(parts):
            required = " AND ".join(fts_query(part) for part in parts if not isinstance(part, Not))
            excluded = " OR ".join(fts_query(part) for part in parts if isinstance(part, Not))
            if excluded:
                return f"(({required}) NOT ({excluded}))"
            return f"({required})"


def quote(text: str) -> str:
    """A text as a string in FTS5 syntax."""
    return '"' + indexable(text).replace('"', '""') + '"'


def quote_term(term: str) -> str:
    """A term of the vocabulary. One of the maximum length may be the beginning of a longer word."""
    return quote(term) + "*" * (len(term) == MAX_TERM_CHARACTERS)


class IndexQuery(NamedTuple):
    """A query for the index, which finds all matches of a query tree."""

    text: str
    """In FTS5 syntax."""
    is_exact: bool
    """Whether all that the index finds matches. Otherwise, it must be verified."""


def index_query(db: Connection, node: Node) -> IndexQuery:
    if has_positions(db):
        return IndexQuery(fts_query(node), True)
    words_node, is_exact = without_positions(node)
    return IndexQuery(fts_query(words_node), is_exact)


def has_positions(db: Connection) -> bool:
    """Whether the index knows where in a passage each word is."""
    sql = "select instr(sql, 'detail=none') = 0 from sqlite_schema where name = 'passage_text'"
    return bool(db.memoize("positions", lambda: db.get(sql)))


def without_positions(node: Node) -> tuple[Node, bool]:
    """A query of single words that finds all that a query finds; and whether it finds no more."""
    match node:
        case Word(text, prefix):
            words = tokens(text)
            if len(words) < 2:
                return node, True
            return And((*map(Word, words[:-1]), Word(words[-1], prefix))), False
        case Or(parts):
            nodes, exact = zip(*map(without_positions, parts), strict=True)
            return Or(nodes), all(exact)
        case And(parts):
            is_exact = not isinstance(node, Near)
            required: list[Node] = []
            for part in parts:
                inner = part.part if isinstance(part, Not) else part
                inner, is_part_exact = without_positions(inner)
                is_exact = is_exact and is_part_exact
                if not isinstance(part, Not):
                    required.append(inner)
                elif is_part_exact:  # to exclude the words of a phrase would exclude too much
                    required.append(Not(inner))
            return And(tuple(required)), is_exact
    return node, True


# -- matching the text itself ---


def word_text(title: str, content: str) -> str:
    """The words of a passage with spaces between and around them.

    Two spaces separate the title, so that no phrase runs from it into the content.
    """
    words = tokens(content[: LIMITS.indexed_characters])
    return f" {' '.join(tokens(title))}{_TITLE_END}{' '.join(words)} "


def matcher(node: Node) -> Callable[[str], bool]:
    """A function that says whether the words of a passage match a query."""
    match node:
        case Word():
            phrase = _phrase(node)
            return lambda text: bool(phrase) and phrase in text
        case Near():
            return partial(has_near, node)
        case Not(part):
            is_match = matcher(part)
            return lambda text: not is_match(text)
        case Or(parts):
            matchers = [matcher(part) for part in parts]
            return lambda text: any(is_match(text) for is_match in matchers)
        case And(parts):
            matchers = [matcher(part) for part in parts]
            return lambda text: all(is_match(text) for is_match in matchers)


def has_near(node: Near, text: str) -> bool:
    return any(
        are_near(column.split(), node.parts, node.distance) for column in text.split(_TITLE_END)
    )


def _phrase(word: Word) -> str:
    """What the words of a passage contain if they match a word or phrase; empty if none can."""
    words = tokens(word.text)
    if not words:
        return ""
    return f" {' '.join(words)}" + " " * (not word.prefix)


# -- matching ---


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
        join, values = join_filter(filter)
        rows = db.execute(
            f"""select t.rowid from passage_text t {join}
            where passage_text match ? and t.rowid between ? and ?
            order by t.rowid desc limit ?""",
            (*values, query.text, *key_range, limit),
        )
        keys = [key for (key,) in rows]
        return Matches(keys, len(keys) < limit)

    def newest_verified() -> Matches:
        keys: list[int] = []
        for number, (key, is_match) in enumerate(verify(db, node, filter, key_range)):
            # Without a match so far, only the deadline of the search ends this, which is an error.
            if (number >= _MAX_VERIFIED and keys) or len(keys) == min(limit, _MAX_VERIFIED_MATCHES):
                return Matches(keys, False)
            if is_match:
                keys.append(key)
        return Matches(keys, True)

    # A search asks for the matches of a phrase, and for their number.
    return db.memoize(("verified", node, filter, key_range, limit), newest_verified)


def all_matches(db: Connection, node: Node, filter: Filter, key_range: KeyRange) -> list[int]:
    """The keys of all passages in a range that match."""
    if index_query(db, node).is_exact:
        return newest_matches(db, node, filter, key_range, _NO_LIMIT).keys
    return [key for key, is_match in verify(db, node, filter, key_range) if is_match]


def count_matches(
    db: Connection, node: Node, filter: Filter | None, key_range: KeyRange, limit: int
) -> tuple[int, bool]:
    """The number of passages in a range that match, counted up to `limit`, and whether it is exact.

    The limit is lower for matches that have to be verified.
    """
    query = index_query(db, node)
    if not query.is_exact:
        found, is_complete = newest_matches(db, node, filter, key_range, limit)
        return len(found), is_complete
    join, values = join_filter(filter)
    total: int = db.get(
        f"""select count(*) from (select 1 from passage_text t {join}
        where passage_text match ? and t.rowid between ? and ? limit ?)""",
        (*values, query.text, *key_range, limit),
    )
    return total, total < limit


def verify(
    db: Connection, node: Node, filter: Filter | None, key_range: KeyRange
) -> Iterator[tuple[int, bool]]:
    """The keys of the passages that may match, newest first, and whether they do."""
    join, values = join_filter(filter or Filter(hidden=True))
    rows = db.execute(
        f"""select t.rowid, {INDEXED_TITLE}, p.body from passage_text t {join}
        where passage_text match ? and t.rowid between ? and ? order by t.rowid desc""",
        (*values, index_query(db, node).text, *key_range),
    )
    is_match = matcher(node)
    for key, title, body in rows:
        (content,) = db.codec.contents([body])
        yield key, is_match(word_text(title, content))


def join_filter(filter: Filter | None) -> tuple[str, list[Any]]:
    """The join of the index with the passages and documents that pass the filter."""
    if filter is None:
        return "", []
    where, values = conditions(filter, many=True)
    join = (
        "cross join passage p on p.key = t.rowid "
        f"cross join document d on d.key = p.document and {where}"
    )
    return join, values


# -- scoring ---


def best_matches(
    db: Connection, node: Node, filter: Filter, key_range: KeyRange, limit: int
) -> list[tuple[int, float]]:
    """The keys of the passages in a range that match, with their scores, best first.

    Passages with rare words come first, short ones before long ones.
    """
    weights = weigh_matches(db, node, filter, key_range)
    ordered = sorted(weights, key=lambda key: (-round(weights[key], 9), -key))
    where, values = conditions(filter)
    hits: list[tuple[int, float]] = []
    for start in range(0, len(ordered), _BATCH):
        # FTS5 stores the number of words of each column as a variable-length integer.
        rows = db.execute(
            f"""select p.key, s.sz from json_each(?) k cross join passage p on p.key = k.value
            cross join document d on d.key = p.document
            cross join passage_text_docsize s on s.id = p.key where {where}""",
            (json.dumps(sorted(ordered[start : start + _BATCH])), *values),
        )
        lowest = hits[-1][1] if hits else math.inf
        scores = [
            (key, min(bm25(weights[key], 1, sum(decode_varints(sizes))), lowest))
            for key, sizes in rows
        ]
        hits += sorted(scores, key=lambda hit: (-round(hit[1], 9), -hit[0]))
        if len(hits) >= limit:
            break
    return hits[:limit]


def weigh_matches(
    db: Connection, node: Node, filter: Filter, key_range: KeyRange
) -> dict[int, float]:
    """The passages that match any part of a query, with the sum of the weights of these parts.

    If a part has too many matches, they are the newest that pass the filter.
    """
    first, last = key_range
    weights: dict[int, float] = {}
    for part in alternatives(node):
        found = newest_matches(db, part, None, key_range, _MAX_MATCHES_PER_WORD)
        if not found.is_complete:
            found = newest_matches(db, part, filter, key_range, _MAX_MATCHES_PER_WORD)
        weight = inverse_document_frequency(len(found.keys), last - first + 1)
        for key in found.keys:
            weights[key] = weights.get(key, 0.0) + weight
    return weights


def inverse_document_frequency(frequency: int, size: int) -> float:
    """The weight of a word in BM25: the fewer of the `size` passages have it, the higher."""
    return math.log(1 + (size - min(frequency, size) + 0.5) / (frequency + 0.5))


def bm25(weight: float, occurrences: int, length: int) -> float:
    """The BM25 score of a word in a passage of `length` words, with k1 = 1.2 and b = 0.75."""
    relative_length = 0.25 + 0.75 * length / _TYPICAL_WORDS
    return weight * occurrences * 2.2 / (occurrences + 1.2 * relative_length)


def text_scores(
    frequencies: Mapping[Word, tuple[int, int]], candidates: Iterable[Candidate]
) -> dict[int, float]:
    """The BM25 scores of passages. Each word has its frequency and the number of all passages."""
    scores: dict[int, float] = {}
    for candidate in candidates:
        text = word_text(candidate.title if candidate.position == 0 else "", candidate.content)
        score = 0.0
        for word, (frequency, size) in frequencies.items():
            phrase = _phrase(word)
            weight = inverse_document_frequency(frequency, size)
            score += bm25(weight, text.count(phrase) if phrase else 0, text.count(" "))
        scores[candidate.key] = score
    return scores


def decode_varints(data: bytes) -> Iterator[int]:
    value = 0
    for byte in data:
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            yield value
            value = 0


# -- titles ---

# SQLite limits the depth of an expression.
_WORDS_PER_SCAN = 200
_MAY_CONTAIN = "instr(lower(d.title), ?) > 0"
# SQLite cannot compare other characters as the index has them.
_IS_NOT_ASCII = "length(cast(d.title as blob)) <> length(d.title)"


def title_matches(db: Connection, words: Sequence[Word]) -> list[int]:
    """See Store.title_matches.

    Whether a title contains a word needs Python. So one scan in SQL selects the titles that may
    contain one of the words, and these are checked.
    """
    openings: dict[int, None] = {}
    patterns = [title_pattern(word.text + "*" * word.prefix) for word in dict.fromkeys(words)]
    for start in range(0, len(patterns), _WORDS_PER_SCAN):
        some_patterns = patterns[start : start + _WORDS_PER_SCAN]
        values = [max(pattern.split(), key=len, default="") for pattern in some_patterns]
        condition = " or ".join([_IS_NOT_ASCII, *[_MAY_CONTAIN] * len(values)])
        if not "".join(values).isascii():
            condition, values = "true", []
        rows = db.rows(
            f"select d.opening, d.title from document d where d.opening is not null "
            f"and ({condition})",
            values,
        )
        titles = [(key, title_words(title)) for key, title in rows]
        for pattern in some_patterns:
            openings |= {key: None for key, title in titles if pattern in title}
    return list(openings)
