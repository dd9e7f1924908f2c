"""Scores of whole conversations, from everything in the pool that belongs to them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from recollect.search.queries.terms import Term
from recollect.search.ranking.bm25 import BM25
from recollect.search.ranking.text_columns import Column, TextColumns
from recollect.store.values import Candidate

_K1, _B = 1.2, 0.75


class Conversations:
    """The conversations of a pool. Methods return the value of each candidate's conversation."""

    def __init__(self, candidates: Sequence[Candidate]) -> None:
        documents = [candidate.document for candidate in candidates]
        numbers = {name: number for number, name in enumerate(dict.fromkeys(documents))}
        self.numbers: Column = np.array([numbers[name] for name in documents], np.intp)
        """The number of each candidate's conversation."""
        self._order = np.argsort(self.numbers, kind="stable")
        self._starts = np.searchsorted(self.numbers[self._order], np.arange(len(numbers)))
        first_rows = self._order[self._starts].tolist()
        self._sizes = np.array([candidates[row].passages for row in first_rows])

    def best(self, column: Column) -> Column:
        """The highest value of a candidate."""
        return np.maximum.reduceat(column[self._order], self._starts)[self.numbers]

    def text_scores(self, terms: Sequence[Term], texts: TextColumns, is_part: Column) -> Column:
        """BM25 of some candidates together, as a share of the best conversation's.

        `is_part` has a column for each selection of candidates, the result a row.
        """
        is_part = is_part[self._order, :, np.newaxis]
        counts = texts.counts[self._order, np.newaxis] * is_part
        counts = np.add.reduceat(counts, self._starts)
        is_in_label = texts.is_in_title | texts.is_in_metadata
        if is_in_label.any():  # these terms count once per conversation
            is_there = is_in_label[self._order, np.newaxis] & is_part
            counts = np.maximum(counts, np.maximum.reduceat(is_there, self._starts))
        lengths = (self._sizes / self._sizes.mean())[:, np.newaxis, np.newaxis]
        scores = BM25(terms, _K1, _B).scores(counts, lengths)
        best = scores.max(axis=0)
        return (scores / np.where(best > 0, best, 1.0))[self.numbers].T
