"""Scores of whole conversations, from everything in the pool that belongs to them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from recollect.search.ranking.scored import Question, ScoredCandidate

_K1, _B = 1.2, 0.75  # BM25 of a conversation

_Counts = dict[str, dict[int, int]]
"""How often each term occurs in each conversation."""


class Conversations:
    def __init__(self, question: Question, pool: Sequence[ScoredCandidate]) -> None:
        self._terms = question.terms
        self._sizes = {scored.candidate.document: scored.candidate.passages for scored in pool}
        self._average_size = sum(self._sizes.values()) / max(len(self._sizes), 1)
        by_user = [scored for scored in pool if scored.candidate.role == "user"]
        self.whole_scores = self._scores(_count_terms(pool))
        """BM25 of all messages, as a share of the best conversation's. 0 is left out."""
        self.user_scores = self._scores(_count_terms(by_user))
        """BM25 of the user's messages, as a share of the best conversation's. 0 is left out."""
        self.best_cosines: dict[str, float] = {}
        for scored in pool:
            document = scored.candidate.document
            if scored.cosine and scored.cosine > self.best_cosines.get(document, 0.0):
                self.best_cosines[document] = scored.cosine

    def _scores(self, counts: _Counts) -> dict[str, float]:
        scores = {document: self._bm25(document, c) for document, c in counts.items()}
        best = max(scores.values(), default=0.0)
        if not best:
            return {}
        return {document: score / best for document, score in scores.items()}

    def _bm25(self, document: str, counts: Mapping[int, int]) -> float:
        length = self._sizes[document] / self._average_size
        norm = _K1 * (1 - _B + _B * length)
        return math.fsum(
            [
                self._terms[number].weight * count * (_K1 + 1) / (count + norm)
                for number, count in counts.items()
            ]
        )


def _count_terms(pool: Sequence[ScoredCandidate]) -> _Counts:
    counts: _Counts = {}
    for scored in pool:
        if scored.matches:
            own_counts = counts.setdefault(scored.candidate.document, {})
            for _, number in scored.matches:
                own_counts[number] = own_counts.get(number, 0) + 1
    # Terms in the metadata count once per conversation, whatever the order of the pool.
    for scored in pool:
        if scored.metadata_terms:
            own_counts = counts.setdefault(scored.candidate.document, {})
            for number in scored.metadata_terms:
                own_counts.setdefault(number, 1)
    return counts
