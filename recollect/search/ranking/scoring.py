"""The scores of candidates: weighted sums of their features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from recollect.search.queries.ranking_query import RankingQuery
from recollect.search.ranking.dialogues import mark_dialogues
from recollect.search.ranking.features import Features, flags
from recollect.search.ranking.scored import ScoredCandidate, weights_for
from recollect.search.ranking.text_columns import Column


def rank_pool(query: RankingQuery, pool: Sequence[ScoredCandidate]) -> list[ScoredCandidate]:
    """See `search.rank.rank`. The pool is not empty."""
    mark_dialogues(pool)
    features = Features(query, pool)
    is_in_dialogue = flags([scored.is_between_people for scored in pool])
    scores = np.zeros(len(pool))
    for is_member in (features.is_ranked & ~is_in_dialogue, features.is_ranked & is_in_dialogue):
        rows = np.flatnonzero(is_member)
        group = [pool[row] for row in rows.tolist()]
        if group:
            weights = weights_for(query, group[0])
            scores[rows] = _set_scores(weights, features, rows, group)
    order = np.lexsort((features.keys, scores, features.is_ranked))[::-1]
    return [pool[row] for row in order[: features.is_ranked.sum()].tolist()]


def _set_scores(
    weights: Mapping[str, float],
    features: Features,
    rows: Column,
    group: Sequence[ScoredCandidate],
) -> Column:
    """Set the scores of candidates that have the same weights, and return them."""
    columns = {name: features.column(name) for name in features.names if name in weights}
    parts = np.array(list(columns.values()))[:, rows]
    parts *= np.array([weights[name] for name in columns])[:, np.newaxis]
    scores: Column = parts.sum(axis=0)
    names = tuple(columns)
    for scored, score, values in zip(group, scores.tolist(), parts.T, strict=True):
        scored.score = score
        scored.part_names, scored.part_values = names, values
    return scores
