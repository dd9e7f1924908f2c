"""Find the best candidates for a query; the ranker then scores them.

If its words have many matches, the candidates are selected by its rarest words and by pairs of
words, those with the largest weights first, until they are enough. A word that very many passages
contain costs more than all the others, and says little alone.

The index can answer most queries (`Step`).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import Any, NamedTuple

from recollect.language.queries.query_tree import Node, Or, words
from recollect.model.search import Filter
from recollect.store.postgres.connections.connection import Connection
from recollect.store.postgres.filters import OWNER
from recollect.store.postgres.text.counts import frequencies
from recollect.store.postgres.text.lexemes import TextQuery, text_query
from recollect.store.postgres.text.matches import (
    FILTER_PARAMETERS,
    among_query,
    decide_matches,
    filter_arguments,
    has_incomplete_positions,
    keys_of_few,
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

_CANDIDATES = f"""select * from candidates({OWNER}, ?::tsquery[], ?::float8[], ?::boolean,
  ?::integer, {FILTER_PARAMETERS})"""
_STEPS = """?::tsquery[], ?::float8[], ?::integer[], ?::tsquery[], ?::float8[],
  ?::integer[], ?::integer[], ?::integer, null"""
MATCHES = f"matches({OWNER}, {_STEPS}, {FILTER_PARAMETERS})"
"""The function that runs steps. See `step_arguments` for its arguments."""


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


class Step(NamedTuple):
    """Queries that the index answers together."""

    node: Node
    queries: dict[str, float]
    """The weight of each tsquery."""
    limit: int
    parts: Sequence[_Part] = ()
    """The parts that give matches their weights, if they are not those of the queries.

    Such a step selects the best matches only. It is of no use if they are too few.
    """


class StepMatches(NamedTuple):
    keys: list[int]
    total: int | None
    """The number of all matches, if it is known."""


def best(db: Connection, node: Node, filter: Filter, limit: int) -> list[int]:
    """The keys of matching passages, best first: rare words and short passages count most."""
    keys = keys_of_few(db, filter)
    if keys is not None:
        few = FewMatches(db, [node])
        statement, values = among_query(db, few.queries, "?::bigint[]")
        return few.matches(db.rows(statement, (*values, keys)), limit)[node].keys
    arguments = filter_arguments(db, filter)
    steps = steps_of(db, node, limit)
    if not steps:
        parts, _ = _parts(db, node)
        return _sort(_matches_of_any_word(db, parts, limit, arguments))[:limit]
    rows = db.rows(
        f"select * from {MATCHES}", step_arguments(steps, limit, arguments), generic_plan=True
    )
    return matches_of_steps(steps, rows, limit)[node].keys


class FewMatches:
    """The matches of queries among a few passages. They are read with one statement."""

    def __init__(self, db: Connection, nodes: Sequence[Node]) -> None:
        self._db = db
        self._parts = {node: _parts(db, node)[0] for node in nodes}
        parts = [part for node in nodes for part in self._parts[node]]
        self.queries = list({part.node: part.query for part in parts}.items())
        """See `among_query`."""

    def matches(self, rows: Iterable[Sequence[Any]], limit: int) -> dict[Node, StepMatches]:
        """The matches of each query, from the rows of `among_query`."""
        lengths = decide_matches(self._db, self.queries, rows)
        by_part = {node: each for (node, _), each in zip(self.queries, lengths, strict=True)}
        results: dict[Node, StepMatches] = {}
        for node, parts in self._parts.items():
            matches: _Matches = {}
            for part in parts:
                for key, length in by_part[part.node].items():
                    _add_match(matches, key, part.weight, length)
            results[node] = StepMatches(_sort(matches)[:limit], len(matches))
        return results


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


# -- steps ---------------------------------------------------------------------


def steps_of(db: Connection, node: Node, limit: int) -> list[Step]:
    """The steps that find the matches of a query; none if the index cannot decide them."""
    parts, size = _parts(db, node)
    if not all(part.query.is_exact for part in parts):
        return []
    if any(part.query.has_phrases for part in parts) and has_incomplete_positions(db):
        return []
    queries = {part.query.tsquery: part.weight for part in parts}
    steps = [Step(node, queries, _whole_groups(limit))]
    selections = _selections(parts, size, limit)
    if selections:
        selected_queries = {_conjunction(choice): _weight(choice) for choice in selections}
        steps.insert(0, Step(node, selected_queries, _selected_count(limit), parts))
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


def step_arguments(
    steps: Sequence[Step], enough: int, filter_arguments: tuple[Any, ...]
) -> tuple[Any, ...]:
    """The arguments of MATCHES."""
    queries = [
        (query, weight, number)
        for number, step in enumerate(steps, 1)
        for query, weight in step.queries.items()
    ]
    order = [
        (part.query.tsquery, part.weight, number)
        for number, step in enumerate(steps, 1)
        for part in step.parts
    ]
    limits = [step.limit for step in steps]
    return (*_columns(queries), *_columns(order), limits, enough, *filter_arguments)


def _columns(rows: Sequence[tuple[Any, ...]]) -> list[list[Any]]:
    return [[row[number] for row in rows] for number in range(3)]


def matches_of_steps(
    steps: Sequence[Step], rows: Iterable[Sequence[Any]], limit: int
) -> dict[Node, StepMatches]:
    """The matches of each query whose steps were run, from the rows of MATCHES."""
    rows_by_step: dict[int, list[Sequence[Any]]] = defaultdict(list)
    for row in rows:
        rows_by_step[row[0]].append(row)
    matches: dict[Node, StepMatches] = {}
    for number, step in enumerate(steps, 1):
        step_rows = rows_by_step[number]
        is_enough = len(step_rows) >= limit
        if is_enough or not step.parts:
            by_key = {key: _Match(weight, length) for _, key, weight, length, _ in step_rows}
            total = None
            if not step.parts:
                total = step_rows[0][4] if step_rows else 0
            matches[step.node] = StepMatches(_sort(by_key)[:limit], total)
        if is_enough:
            break
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
    rows = db.rows(
        _CANDIDATES,
        (
            [part.query.tsquery for part in exact],
            [part.weight for part in exact],
            any_phrases or None,
            _whole_groups(limit),
            *arguments,
        ),
    )
    matches = {key: _Match(weight, length) for key, weight, length in rows}
    for part in parts:
        others = matches_outside_index(db, part.node, part.query, arguments, any_phrases)
        for key, length in others.items():
            _add_match(matches, key, part.weight, length)
    return matches
