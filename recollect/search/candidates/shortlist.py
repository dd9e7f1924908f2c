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
# The keys of a conversation mostly follow one another, so no document has to be looked up.
# (distance, share): a match also gets this share of the scores of others that are at most so far
# away. In a large library, where more matches are there by chance, the others say more.
_NEARBY = ((10, 0.1),)
_NEARBY_IN_LARGE_LIBRARY = ((5, 0.3), (20, 0.15))


def shortlist(
    arms: Sequence[Sequence[int]], size: int, first: int, *, is_large_library: bool
) -> frozenset[int]:
    """Which of the keys that the arms found, best first, are ranked.

    The first keys of each arm always are.
    """
    matches = np.array([key for arm in arms for key in arm], np.int64)
    places = np.array([place for arm in arms for place in range(len(arm))])
    keys, rows = np.unique(matches, return_inverse=True)
    if len(keys) <= size:
        return frozenset(keys.tolist())
    scores = np.bincount(rows, 1 / (_OFFSET + places))
    sums = np.concatenate([[0.0], np.cumsum(scores)])
    totals = scores.copy()
    nearby = _NEARBY_IN_LARGE_LIBRARY if is_large_library else _NEARBY
    for distance, share in nearby:
        starts = np.searchsorted(keys, keys - distance)
        ends = np.searchsorted(keys, keys + distance, "right")
        totals += share * (sums[ends] - sums[starts] - scores)
    order = np.argsort(-totals, kind="stable")
    first_keys = [key for arm in arms for key in arm[:first]]
    best_keys = dict.fromkeys([*first_keys, *keys[order].tolist()])
    return frozenset(list(best_keys)[:size])
