"""Find the best candidates for a query; the ranker then scores them.

The rarest words of a query select the candidates. Common words select passages only in pairs: a
word that very many passages contain costs more than all the others, and says little alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from typing import Any, NamedTuple

from recollect.language.query import Node, Or, words
from recollect.model.search import Filter
from recollect.store.postgres.connection import Connection
from recollect.store.postgres.filters import OWNER
from recollect.store.postgres.text.counts import Counts, frequencies
from recollect.store.postgres.text.lexemes import TextQuery, text_query
from recollect.store.postgres.text.matches import (
    FILTER_PARAMETERS,
    filter_arguments,
    keys_of_few,
    matches_among,
    matches_outside_index,
)

# The rarest words of a query may have this many matches together. The other words are common.
_COMMON_FROM = 4_000
# For a larger number of results, all words select candidates.
_RARE_WORDS_LIMIT = 200
# The number of candidates that rare words and pairs of common words select.
_RARE_WORDS_CANDIDATES = 300
# Candidates are sorted by score in groups of this size (see `_sort`).
_GROUP = 600

_CANDIDATES = f"""select * from candidates({OWNER}, ?::tsquery[], ?::float8[], ?::boolean,
  ?::integer, {FILTER_PARAMETERS})"""


class _Part(NamedTuple):
    """An alternative of the query. A match has at least one of them."""

    node: Node
    query: TextQuery
    frequency: int
    weight: float

    @property
    def is_plain(self) -> bool:
        """Whether it is neither a phrase nor a prefix, and the index can decide it."""
        return (
            self.query.is_exact
            and not self.query.has_phrases
            and not any(word.prefix for word in words(self.node))
        )


class _Match(NamedTuple):
    weight: float
    """The sum of the weights of all parts that the passage has."""
    length: int

    @property
    def score(self) -> float:
        return 2.2 * self.weight / (1.3 + 0.015 * self.length)


_Matches = dict[int, _Match]


def best(db: Connection, node: Node, filter: Filter, limit: int, counts: Counts) -> list[int]:
    """The keys of matching passages, best first: rare words and short passages count most."""
    parts, size = _parts(db, node, counts)
    keys = keys_of_few(db, filter)
    if keys is not None:
        return _sort(_matches_among(db, parts, keys))[:limit]
    arguments = filter_arguments(db, filter)
    if limit <= _RARE_WORDS_LIMIT:
        rare = _rarest(parts)
        if len(rare) < len(parts):
            common = parts[len(rare) :]
            matches = _matches_of_rare_words(db, rare, common, size, arguments)
            if len(matches) >= limit:
                return _sort(matches)[:limit]
    return _sort(_matches_of_any_word(db, parts, limit, arguments))[:limit]


def _parts(db: Connection, node: Node, counts: Counts) -> tuple[list[_Part], int]:
    """The parts of a query, rarest first, and the number of all passages."""
    nodes = node.parts if isinstance(node, Or) else (node,)
    totals, size = frequencies(db, nodes, counts)
    parts = []
    for part, total in zip(nodes, totals, strict=True):
        weight = math.log(1 + (size - total + 0.5) / (total + 0.5))
        parts.append(_Part(part, text_query(part), total, weight))
    return sorted(parts, key=lambda part: part.frequency), size


def _rarest(parts: list[_Part]) -> list[_Part]:
    """The rarest part, and the next ones until they have too many matches together.

    All parts if the selection would not be correct, because some of them are not plain.
    """
    total = 0
    for number, part in enumerate(parts):
        total += part.frequency
        if number > 0 and total > _COMMON_FROM:
            if all(part.is_plain for part in parts):
                return parts[:number]
            return parts
    return parts


def _sort(matches: _Matches) -> list[int]:
    """Best first, and newest first among equals.

    The score only sorts within groups of a fixed size, so that a longer list starts with the
    shorter one.
    """
    by_weight = sorted(matches, key=lambda key: (-round(matches[key].weight, 9), -key))
    keys: list[int] = []
    for start in range(0, len(by_weight), _GROUP):
        group = by_weight[start : start + _GROUP]
        keys += sorted(group, key=lambda key: (-round(matches[key].score, 9), -key))
    return keys


def _add_match(matches: _Matches, key: int, weight: float, length: int) -> None:
    if key in matches:
        weight += matches[key].weight
    matches[key] = _Match(weight, length)


def _matches_among(db: Connection, parts: Sequence[_Part], keys: Sequence[int]) -> _Matches:
    """The passages with these keys that have at least one of the parts."""
    matches: _Matches = {}
    for part in parts:
        for key, length in matches_among(db, part.node, part.query, keys).items():
            _add_match(matches, key, part.weight, length)
    return matches


def _matches_of_any_word(
    db: Connection, parts: Sequence[_Part], limit: int, arguments: tuple[Any, ...]
) -> _Matches:
    """The passages with the largest weights."""
    any_phrases = any(part.query.has_phrases for part in parts)
    exact = [part for part in parts if part.query.is_exact]
    rows = db.rows(
        _CANDIDATES,
        (
            [part.query.tsquery for part in exact],
            [part.weight for part in exact],
            any_phrases or None,
            max(limit, _GROUP),
            *arguments,
        ),
    )
    matches = {key: _Match(weight, length) for key, weight, length in rows}
    for part in parts:
        others = matches_outside_index(db, part.node, part.query, arguments, any_phrases)
        for key, length in others.items():
            _add_match(matches, key, part.weight, length)
    return matches


def _matches_of_rare_words(
    db: Connection,
    rare: Sequence[_Part],
    common: Sequence[_Part],
    size: int,
    arguments: tuple[Any, ...],
) -> _Matches:
    """The passages that have a rare word or two common ones, weighted by all their words."""
    queries = {part.query.tsquery: part.weight for part in rare}
    pairs = sorted(combinations(common, 2), key=lambda pair: pair[0].frequency * pair[1].frequency)
    expected_matches = 0.0
    for first, second in pairs:
        expected_matches += first.frequency * second.frequency / max(size, 1)
        if expected_matches > _COMMON_FROM:
            break
        both = f"({first.query.tsquery}) & ({second.query.tsquery})"
        queries[both] = first.weight + second.weight
    rows = db.rows(
        _CANDIDATES,
        (list(queries), list(queries.values()), None, _RARE_WORDS_CANDIDATES, *arguments),
    )
    lengths = {key: length for key, _, length in rows}
    weights = _weights(db, [*rare, *common], list(lengths))
    return {key: _Match(weights.get(key, 0.0), length) for key, length in lengths.items()}


def _weights(db: Connection, parts: Sequence[_Part], keys: list[int]) -> dict[int, float]:
    """The sum of the weights of the parts that each passage has."""
    rows = db.rows(
        """select t.key, sum(u.weight)
        from passage_text t, unnest(?::tsquery[], ?::float8[]) u(query, weight)
        where t.owner = ?::integer and t.key = any(?::bigint[]) and t.words @@ u.query
        group by t.key""",
        ([part.query.tsquery for part in parts], [part.weight for part in parts], db.owner, keys),
    )
    return dict(rows)
