"""Pairs of adjacent terms of a query, and how close they are in a text."""

from __future__ import annotations

import math
from collections.abc import Sequence

from recollect.search.queries.terms import Term

_CLOSE_WORDS = 5  # two terms further apart than this are not close

Match = tuple[int, int]
"""The position of a word in its text, and the number of the term."""


class TermPairs:
    """The pairs of a query. Their weights add up to 1."""

    def __init__(self, terms: Sequence[Term]) -> None:
        weights = _weights(terms)
        total = sum(weights.values())
        self._weights = {first: weight / total for first, weight in weights.items() if total}
        """By the number of the first term of a pair."""
        self._partners: dict[int, list[tuple[int, int]]] = {}
        """For each term, the other terms of its pairs, as (first term of the pair, other term)."""
        for first in self._weights:
            self._partners.setdefault(first, []).append((first, first + 1))
            self._partners.setdefault(first + 1, []).append((first, first))

    def proximity(self, matches: Sequence[Match]) -> float:
        """How many pairs are close together; closer pairs count more."""
        if len(matches) < 2 or not self._weights:
            return 0.0
        distances: dict[int, int] = {}
        last_position: dict[int, int] = {}
        for position, number in matches:
            for pair, partner in self._partners.get(number, ()):
                distance = position - last_position.get(partner, position)
                if 0 < distance <= _CLOSE_WORDS:
                    distances[pair] = min(distance, distances.get(pair, _CLOSE_WORDS))
            last_position[number] = position
        return math.fsum(
            self._weights[pair] / math.sqrt(distance) for pair, distance in distances.items()
        )

    def adjacency(self, matches: Sequence[Match]) -> float:
        """The pairs that are next to each other, in the order of the query, or in one word."""
        if len(matches) < 2 or not self._weights:
            return 0.0
        positions: dict[int, set[int]] = {}
        for position, number in matches:
            positions.setdefault(number, set()).add(position)
        return math.fsum(
            weight
            for first, weight in self._weights.items()
            if _are_adjacent(positions.get(first, set()), positions.get(first + 1, set()))
        )


def _are_adjacent(first: set[int], second: set[int]) -> bool:
    """Whether one of the first positions is that of the second term, or just before it."""
    return any(position in second or position + 1 in second for position in first)


def _weights(terms: Sequence[Term]) -> dict[int, float]:
    """The weight of each pair, by the number of its first term."""
    weights = {}
    for number in range(len(terms) - 1):
        if terms[number + 1].weak:
            break  # synonyms follow the words of the query
        if terms[number].is_phrase or terms[number + 1].is_phrase:
            continue  # the words of an identifier are adjacent to themselves
        weights[number] = min(terms[number].weight, terms[number + 1].weight)
    return weights
