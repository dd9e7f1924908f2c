"""Which matches of a question are read and ranked.

In a large library, many messages have words of a question by chance, so the answer may be far
behind in both arms. But what was said before and after the answer is mostly about the same subject
and matches as well. So matches that are stored near other matches come first.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

# Reciprocal rank fusion: a match at the place n of an arm scores 1 / (60 + n).
_OFFSET = 60
# The keys of a conversation mostly follow one another, so no document must be looked up.
_NEARBY_KEYS = 10
_SHARE_OF_NEARBY = 0.1


def shortlist(arms: Sequence[Sequence[int]], size: int, first: int) -> frozenset[int]:
    """The keys that are ranked, of the keys that the arms found, best first.

    The first ones of each arm are always among them.
    """
    scores: dict[int, float] = {}
    for arm in arms:
        for place, key in enumerate(arm):
            scores[key] = scores.get(key, 0.0) + 1 / (_OFFSET + place)
    if len(scores) <= size:
        return frozenset(scores)
    keys = np.array(sorted(scores))
    own_scores = np.array([scores[key] for key in keys.tolist()])
    sums = np.concatenate([[0.0], np.cumsum(own_scores)])
    starts = np.searchsorted(keys, keys - _NEARBY_KEYS)
    ends = np.searchsorted(keys, keys + _NEARBY_KEYS, "right")
    others = sums[ends] - sums[starts] - own_scores
    order = np.argsort(-(own_scores + _SHARE_OF_NEARBY * others), kind="stable")
    chosen = dict.fromkeys(key for arm in arms for key in arm[:first])
    chosen.update(dict.fromkeys(keys[order].tolist()))
    return frozenset(list(chosen)[:size])
