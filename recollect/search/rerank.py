"""Reordering the best candidates with the reranker.

The reranker reads the query and a message together, so it recognizes an answer in other words. It
takes about 18 ms per message on a slow core, so it judges only candidates that can reach the first
five: on average, twelve of the first sixteen. By default it is off; with `rerank = auto`, it is
used where it pays: for an English question whose best candidates have similar scores.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from recollect.language.detection import language_of
from recollect.language.languages import ENGLISH
from recollect.language.queries.intent import QUESTION
from recollect.language.symbols import without_terminal_codes
from recollect.model.search import SearchOptions
from recollect.search.passages import ScoredCandidate
from recollect.search.queries.terms import RankingQuery
from recollect.settings import RERANK

_FIRST = 5
"""The reranker decides which candidates are among this many first hits."""
_REACH = 2.0
"""A judgement of more than this many standard deviations is rare."""
_WEIGHT = 0.8
"""What a judgement counts that is one standard deviation above the mean."""
_CLOSE = 0.9  # the second score is at least this share of the first


def rerank_if_useful(
    options: SearchOptions, query: RankingQuery, ranking: Sequence[ScoredCandidate]
) -> Sequence[ScoredCandidate]:
    """The ranking, with the first candidates judged by the reranker if options allow it."""
    if options.score != "rank" or len(ranking) < 2:
        return ranking
    choice = RERANK.get()
    is_useful = options.rerank if options.rerank is not None else choice == "always"
    if options.rerank is None and choice == "auto":
        is_plain_question = (
            options.mode == "both" and not options.typing and query.intent == QUESTION
        )
        # The model was trained on English.
        is_useful = is_plain_question and language_of(query.text) is ENGLISH
        is_useful = is_useful and ranking[1].score >= _CLOSE * ranking[0].score
    if not is_useful:
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

    # The first hits, the next candidate, and those that a judgement may lift to the first hits.
    head = ranking[:CANDIDATES]
    if len(head) > _FIRST:
        least = head[_FIRST - 1].score - _REACH * _WEIGHT
        head = [s for n, s in enumerate(head) if n <= _FIRST or s.score >= least]
    length = LENGTH
    if all(scored.is_between_people for scored in head):
        length = DIALOGUE_LENGTH
    passages = []
    for scored in head:
        author = scored.candidate.author or scored.candidate.role or ""
        passages.append(Passage(author, without_terminal_codes(scored.candidate.content)))
    judgements = Reranker.load().scores(query.text, passages, length)
    mean = statistics.fmean(judgements)
    deviation = statistics.pstdev(judgements, mean) or 1.0
    for scored, judgement in zip(head, judgements, strict=True):
        part = _WEIGHT * (judgement - mean) / deviation
        scored.part_names += ("rerank",)
        scored.part_values = (*scored.part_values, part)
        scored.score += part
    return sorted(ranking, key=lambda scored: (-scored.score, -scored.candidate.key))
