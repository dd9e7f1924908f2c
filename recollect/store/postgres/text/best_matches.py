"""Find the best candidates for a query; the ranker then scores them.

If its words have many matches, the candidates are selected by its rarest words and by pairs of
words, those with the largest weights first, until they are enough. A word that very many passages
contain costs more than all the others, and says little alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import Any, NamedTuple

from recollect.language.queries.query_tree import Node, Or, words
from recollect.model.search import Filter
from recollect.store.postgres.connection import Connection
from recollect.store.postgres.filters import OWNER
from recollect.store.postgres.text.counts import frequencies
from recollect.store.postgres.text.lexemes import TextQuery, text_query
from recollect.store.postgres.text.matches import (
    FILTER_PARAMETERS,
    filter_arguments,
    has_incomplete_positions,
    keys_of_few,
    matches_among,
    matches_outside_index,
)

# If all words of a query have more matches than this together, not all of them are read.
_MANY_MATCHES = 4_000
# For a larger number of results, all words select candidates.
_SELECTED_LIMIT = 200
# Rare words and pairs of words select this many candidates for each result.
_SELECTED_PER_RESULT = 1.5
_MAX_SELECTIONS = 8
# Candidates are sorted by score in groups of this size (see `_sort`).
_GROUP = 600

_MATCHES = f"""select * from matches({OWNER}, ?::tsquery[], ?::float8[], ?::integer[], ?::tsquery[],
  ?::float8[], ?::integer[], ?::integer[], ?::integer, ?::boolean, {FILTER_PARAMETERS})"""


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


_Matches = dict[int, _Match]


def _whole_groups(limit: int) -> int:
    """As many matches as needed for a limit. With part of a group, its order would be another."""
    return max(math.ceil(limit / _GROUP), 1) * _GROUP


class _Step(NamedTuple):
    """Queries that the index answers together."""

    queries: Iterable[tuple[str, float]]
    """Each tsquery with its weight."""
    limit: int
    parts: Sequence[_Part] = ()
    """The parts that give matches their weights, if they are not those of the queries.

    Such a step selects the best matches only. It is of no use if they are too few.
    """


def best(db: Connection, node: Node, filter: Filter, limit: int) -> list[int]:
    """The keys of matching passages, best first: rare words and short passages count most."""
    keys = keys_of_few(db, filter)
    parts, size = _parts(db, node)
    if keys is not None:
        matches = _matches_among(db, parts, keys)
    elif _can_index_decide(db, parts):
        steps = _steps(parts, size, limit)
        matches = _matches_of_steps(db, steps, limit, None, filter_arguments(db, filter))
    else:
        matches = _matches_of_any_word(db, parts, limit, filter_arguments(db, filter))
    return _sort(matches)[:limit]


def _parts(db: Connection, node: Node) -> tuple[list[_Part], int]:
    """The parts of a query, rarest first, and the number of all passages."""
    if not isinstance(node, Or):
        # All matches have the same weight, whatever it is.
        return [_Part(node, text_query(node), 0, 1.0)], 0
    totals, size = frequencies(db, node.parts)
    parts = []
    for part, total in zip(node.parts, totals, strict=True):
        weight = math.log(1 + (size - total + 0.5) / (total + 0.5))
        parts.append(_Part(part, text_query(part), total, weight))
    return sorted(parts, key=lambda part: part.frequency), size


def _can_index_decide(db: Connection, parts: Sequence[_Part]) -> bool:
    if not all(part.query.is_exact for part in parts):
        return False
    return not (any(part.query.has_phrases for part in parts) and has_incomplete_positions(db))


def _steps(parts: Sequence[_Part], size: int, limit: int) -> list[_Step]:
    """The steps that find the matches of a query, one after another until they are enough."""
    queries = {part.query.tsquery: part.weight for part in parts}
    steps = [_Step(queries.items(), _whole_groups(limit))]
    selections = _selections(parts, size, limit)
    if selections:
        selected_queries = {_conjunction(choice): _weight(choice) for choice in selections}
        steps.insert(0, _Step(selected_queries.items(), _selected_count(limit), parts))
    return steps


def _selected_count(limit: int) -> int:
    return round(_SELECTED_PER_RESULT * limit)


def _selections(parts: Sequence[_Part], size: int, limit: int) -> list[tuple[_Part, ...]]:
    """The single parts and pairs with the largest weights that select enough matches together.

    Empty if that is no help, or if some parts are not plain: then their weights are not known.
    """
    if limit > _SELECTED_LIMIT or sum(part.frequency for part in parts) <= _MANY_MATCHES:
        return []
    if len(parts) < 2 or not all(part.is_plain for part in parts):
        return []
    count = _selected_count(limit)
    choices: list[tuple[_Part, ...]] = [*((part,) for part in parts), *combinations(parts, 2)]
    choices.sort(key=lambda choice: -_weight(choice))
    selections: list[tuple[_Part, ...]] = []
    expected_matches = 0.0
    for choice in choices:
        if expected_matches > count:
            return selections
        # A single part selects its pairs as well.
        selections = [pair for pair in selections if choice[0] not in pair or len(choice) > 1]
        selections.append(choice)
        if len(selections) > _MAX_SELECTIONS:
            break
        expected_matches += math.prod(part.frequency for part in choice) / size ** (len(choice) - 1)
    return []


def _weight(parts: Iterable[_Part]) -> float:
    return sum(part.weight for part in parts)


def _conjunction(parts: Iterable[_Part]) -> str:
    return " & ".join(f"({part.query.tsquery})" for part in parts)


def _matches_of_steps(
    db: Connection,
    steps: Sequence[_Step],
    enough: int,
    has_all_positions: bool | None,
    filter_arguments: tuple[Any, ...],
) -> _Matches:
    queries = [
        (query, weight, number)
        for number, step in enumerate(steps, 1)
        for query, weight in step.queries
    ]
    order = [
        (part.query.tsquery, part.weight, number)
        for number, step in enumerate(steps, 1)
        for part in step.parts
    ]
    limits = [step.limit for step in steps]
    values = (*_columns(queries), *_columns(order), limits, enough, has_all_positions)
    rows = db.rows(_MATCHES, (*values, *filter_arguments), generic_plan=True)
    last_step = max((row[0] for row in rows), default=0)
    return {key: _Match(weight, length) for step, key, weight, length in rows if step == last_step}


def _columns(rows: Sequence[tuple[Any, ...]]) -> list[list[Any]]:
    return [[row[number] for row in rows] for number in range(3)]


def _matches_among(db: Connection, parts: Sequence[_Part], keys: Sequence[int]) -> _Matches:
    matches: _Matches = {}
    lengths_of_parts = matches_among(db, [(part.node, part.query) for part in parts], keys)
    for part, lengths in zip(parts, lengths_of_parts, strict=True):
        for key, length in lengths.items():
            _add_match(matches, key, part.weight, length)
    return matches


def _sort(matches: _Matches) -> list[int]:
    """Best first, and newest first among equals.

    The score only sorts within groups of a fixed size, so that a longer list starts with the
    shorter one.
    """
    by_weight = [
        (-round(weight, 9), -key, weight, length) for key, (weight, length) in matches.items()
    ]
    if len(by_weight) > _GROUP:
        by_weight.sort()
    keys: list[int] = []
    for start in range(0, len(by_weight), _GROUP):
        scores = sorted(
            (-round(2.2 * weight / (1.3 + 0.015 * length), 9), negative_key)
            for _, negative_key, weight, length in by_weight[start : start + _GROUP]
        )
        keys += [-negative_key for _, negative_key in scores]
    return keys


def _add_match(matches: _Matches, key: int, weight: float, length: int) -> None:
    if key in matches:
        weight += matches[key].weight
    matches[key] = _Match(weight, length)


def _matches_of_any_word(
    db: Connection, parts: Sequence[_Part], limit: int, arguments: tuple[Any, ...]
) -> _Matches:
    """The passages with the largest weights."""
    any_phrases = any(part.query.has_phrases for part in parts)
    exact = [part for part in parts if part.query.is_exact]
    step = _Step([(part.query.tsquery, part.weight) for part in exact], _whole_groups(limit))
    matches = _matches_of_steps(db, [step], limit, any_phrases or None, arguments)
    for part in parts:
        others = matches_outside_index(db, part.node, part.query, arguments, any_phrases)
        for key, length in others.items():
            _add_match(matches, key, part.weight, length)
    return matches
