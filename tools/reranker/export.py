"""Round the trained weights and write them as the file that Recollect ships."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

PRODUCTS = ("mix", "out", "up", "down")


def quantize_rows(matrix: np.ndarray, bits: int) -> tuple[np.ndarray, np.ndarray]:
    """Integers and one scale per row: the scale with the smallest squared error."""
    top = 2 ** (bits - 1) - 1
    peaks = np.abs(matrix).max(axis=1, keepdims=True).clip(1e-9)
    scales = peaks / top
    best = np.full((len(matrix), 1), np.inf)
    for share in (1.0, 0.9, 0.8, 0.7, 0.6, 0.5):
        scale = peaks * share / top
        rounded = np.rint(matrix / scale).clip(-top, top) * scale
        error = ((rounded - matrix) ** 2).sum(axis=1, keepdims=True)
        scales = np.where(error < best, scale, scales)
        best = np.minimum(best, error)
    scales = scales.astype(np.float16).astype(np.float32)
    codes = np.rint(matrix / scales).clip(-top, top).astype(np.int8)
    return codes, scales[:, 0]


def model_arrays(weights: Mapping[str, Any], layers: int, version: str) -> dict[str, np.ndarray]:
    """The arrays of the model file: four bits per word weight, eight per other weight."""
    codes, scales = quantize_rows(weights["word"], 4)
    nibbles = (codes + 8).astype(np.uint8)
    result = {
        "version": np.array(version),
        "layers": np.array(layers),
        "word.codes": nibbles[:, 0::2] | nibbles[:, 1::2] << 4,
        "word.scales": scales.astype(np.float16),
        "position": weights["position"].astype(np.float16),
        "kind": weights["kind"].astype(np.float32),
        "norm": weights["norm"].astype(np.float32),
        "head": weights["head.weight"].ravel().astype(np.float32),
    }
    for number in range(layers):
        prefix = f"layers.{number}."
        for name in PRODUCTS:
            codes, scales = quantize_rows(weights[f"{prefix}{name}.weight"], 8)
            result[f"{prefix}{name}.codes"] = codes
            result[f"{prefix}{name}.scales"] = scales
            result[f"{prefix}{name}.bias"] = weights[f"{prefix}{name}.bias"].astype(np.float32)
        for name in ("out_norm", "down_norm"):
            result[prefix + name] = weights[prefix + name].astype(np.float32)
    return result


def write_model(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write the arrays uncompressed. The same arrays always give the same bytes."""
    np.savez(path, **{name: arrays[name] for name in sorted(arrays)})
