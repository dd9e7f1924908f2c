"""BM25, the usual measure of how well texts match words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recollect.search.queries.terms import Term


class BM25:
    """Scores texts by how often they have each term.

    `k1` says how much repetitions count, `b` how much long texts lose.
    """

    def __init__(self, terms: Sequence[Term], k1: float, b: float) -> None:
        self._weights = np.array([term.weight * (k1 + 1) for term in terms])
        self._k1 = k1
        self._b = b

    def scores(self, counts: NDArray[Any], lengths: NDArray[Any]) -> NDArray[Any]:
        """Scores by the counts of each term (the last axis) and the share of the average length."""
        norms = self._k1 * (1 - self._b) + self._k1 * self._b * lengths
        shares = counts / (counts + norms)
        scores: NDArray[Any] = (shares * self._weights).sum(axis=-1)
        return scores
