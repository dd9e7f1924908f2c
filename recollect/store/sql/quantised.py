"""Vectors as eight-bit numbers, each with the scale that makes them a unit vector again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float32]
Numbers = NDArray[np.int8]


def quantised(vectors: Sequence[Vector]) -> tuple[Numbers, Vector]:
    given = np.stack([np.asarray(v, np.float32) for v in vectors])
    scales = np.abs(given).max(axis=1) / 127
    scales[scales == 0] = 1.0
    return np.round(given / scales[:, None]).astype(np.int8), scales.astype(np.float32)


def cosines(numbers: Numbers, scales: Vector, vector: Vector) -> list[float]:
    """How near each row is to a unit vector."""
    query, query_scale = quantised([vector])
    scores = (numbers.astype(np.int32) @ query[0].astype(np.int32)).astype(np.float32) * scales
    return [score * float(query_scale[0]) for score in scores.tolist()]


def nearest_parts(passages: Iterable[int], scores: Iterable[float]) -> dict[int, float]:
    """A passage is as near as the nearest of its parts."""
    best: dict[int, float] = {}
    for passage, score in zip(passages, scores, strict=True):
        if score > best.get(passage, -np.inf):
            best[passage] = score
    return best
