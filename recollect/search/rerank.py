"""Reordering the best candidates with the reranker.

The reranker reads the query and a message together, so it recognizes an answer in other words. It
takes about 18 ms per message on a slow core, so it judges only candidates that can reach the first
five: on average, twelve of the first sixteen. By default it is off; with `rerank = auto`, it is
used where it pays: for an English question whose best candidates have similar scores.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from recollect.language.detection import language_of
from recollect.language.languages import ENGLISH
from recollect.language.queries.intent import QUESTION
from recollect.language.symbols import without_terminal_codes
from recollect.model.search import SearchOptions
from recollect.search.passages import ScoredCandidate
from recollect.search.queries.terms import RankingQuery
from recollect.settings import RERANK
from recollect.store.base import Store

_FIRST = 5
"""The reranker decides which candidates are among this many first hits."""
_REACH = 2.0
"""A judgement of more than this many standard deviations is rare."""
_WEIGHT = 0.8
"""What a judgement counts that is one standard deviation above the mean."""
_CLOSE = 0.9  # the second score is at least this share of the first


def may_rerank(
    options: SearchOptions, query: RankingQuery, ranking: Sequence[ScoredCandidate]
) -> bool:
    """Whether the reranker judges the first candidates of a search."""
    if options.score != "rank" or len(ranking) < 2:
        return False
    choice = RERANK.get()
    if options.rerank is not None:
        return options.rerank
    if choice != "auto":
        return choice == "always"
    if options.mode != "both" or options.typing or query.intent != QUESTION:
        return False
    if language_of(query.text) is not ENGLISH:  # the model was trained on English
        return False
    return ranking[1].score >= _CLOSE * ranking[0].score


def rerank_if_useful(
    options: SearchOptions, query: RankingQuery, ranking: Sequence[ScoredCandidate], store: Store
) -> Sequence[ScoredCandidate]:
    """The ranking, with the first candidates judged by the reranker if options allow it."""
    if not may_rerank(options, query, ranking):
        return ranking
    return rerank(query, ranking)


def rerank(query: RankingQuery, ranking: Sequence[ScoredCandidate]) -> list[ScoredCandidate]:
    """The ranking with the first candidates judged by the reranker, best first."""
    from recollect.models.reranker import (
        CANDIDATES,
        DIALOGUE_LENGTH,
        LENGTH,
        Passage,
        Reranker,
    )

    head = within_reach(ranking[:CANDIDATES])
    length = LENGTH
    if all(scored.is_between_people for scored in head):
        length = DIALOGUE_LENGTH
    passages = []
    for scored in head:
        author = scored.candidate.author or scored.candidate.role or ""
        passages.append(Passage(author, without_terminal_codes(scored.candidate.content)))
    judgements = Reranker.load().scores(query.text, passages, length)
    for scored, value in zip(head, standard_scores(judgements), strict=True):
        part = _WEIGHT * value
        scored.part_names += ("rerank",)
        scored.part_values = (*scored.part_values, part)
        scored.score += part
    return sorted(ranking, key=lambda scored: (-scored.score, -scored.candidate.key))


def within_reach(ranking: Sequence[ScoredCandidate]) -> Sequence[ScoredCandidate]:
    """The first hits, the next candidate, and those that a judgement may lift to the first hits."""
    if len(ranking) <= _FIRST:
        return ranking
    lowest = ranking[_FIRST - 1].score
    return [
        scored
        for number, scored in enumerate(ranking)
        if number <= _FIRST or scored.score >= lowest - _REACH * _WEIGHT
    ]


def standard_scores(values: Sequence[float]) -> list[float]:
    """How many standard deviations each value is above the mean."""
    if not values:
        return []
    mean = math.fsum(values) / len(values)
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / len(values))
    if not deviation:
        return [0.0] * len(values)
    return [(value - mean) / deviation for value in values]
