"""Vectors as 8-bit integers, each with the scale that turns it back into a unit vector."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float32]
Integers = NDArray[np.int8]


def quantise(vectors: Sequence[Vector]) -> tuple[Integers, Vector]:
    """The integers of each vector, and the scale of each vector."""
    matrix = np.concatenate(vectors, dtype=np.float32).reshape(len(vectors), -1)
    scales = np.abs(matrix).max(axis=1) / 127
    scales[scales == 0] = 1.0
    return np.round(matrix / scales[:, None]).astype(np.int8), scales.astype(np.float32)


def cosines(integers: Integers, scales: Vector, vector: Vector) -> list[float]:
    """The cosine between a unit vector and each row."""
    query, (query_scale,) = quantise([vector])
    scores = products(query, integers) * scales
    factor = float(query_scale)
    return [score * factor for score in scores.tolist()]


def products(query: Integers, integers: Integers) -> Vector:
    """The product of the only row of `query` and each row of `integers`."""
    import numkong

    table = numkong.cdist(query, integers, metric="dot", out_dtype="float32")
    row: Vector = np.asarray(table)[0]
    return row


def best_scores(passages: Iterable[int], scores: Iterable[float]) -> dict[int, float]:
    """The score of each passage: that of its best part."""
    best: dict[int, float] = {}
    for passage, score in zip(passages, scores, strict=True):
        if passage not in best or score > best[passage]:
            best[passage] = score
    return best
