"""Reordering the best candidates with the reranker.

The reranker reads the query and a message together, so it recognizes an answer in other words. It
takes about 18 ms per message on a slow core, so only the first candidates are judged.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from recollect.search.rank import Question, ScoredCandidate


def rerank(question: Question, ranking: Sequence[ScoredCandidate]) -> list[ScoredCandidate]:
    """The ranking with the first candidates judged by the reranker, best first."""
    from recollect.models.reranker import CANDIDATES, Passage, Reranker

    head = ranking[:CANDIDATES]
    passages = [
        Passage(s.candidate.author or s.candidate.role or "", s.candidate.content) for s in head
    ]
    judgements = Reranker.load().scores(question.text, passages)
    for scored, value in zip(head, _standard_scores(judgements), strict=True):
        part = question.weights_for(scored)["rerank"] * value
        scored.parts = {**scored.parts, "rerank": part}
        scored.score += part
    return sorted(ranking, key=lambda scored: (-scored.score, -scored.candidate.key))


def _standard_scores(values: Sequence[float]) -> list[float]:
    """How many standard deviations each value is above the mean."""
    if not values:
        return []
    mean = math.fsum(values) / len(values)
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / len(values))
    if not deviation:
        return [0.0] * len(values)
    return [(value - mean) / deviation for value in values]
