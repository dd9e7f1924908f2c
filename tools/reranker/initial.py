"""The weights of gte-small, from which training starts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

LAYERS = 12
Arrays = dict[str, NDArray[np.float32]]


def read_weights(path: Path) -> Arrays:
    """The arrays of the ONNX file, by the names that `network.Network` uses."""
    import onnx
    from onnx import numpy_helper

    graph = onnx.load(path).graph
    arrays = {each.name: numpy_helper.to_array(each) for each in graph.initializer}
    products = {
        n.name: arrays[n.input[1]] for n in graph.node if n.input[1:2] and n.input[1] in arrays
    }

    def norm(prefix: str) -> NDArray[np.float32]:
        return np.stack([arrays[f"{prefix}.weight"], arrays[f"{prefix}.bias"]])

    weights = {
        "word": arrays["embeddings.word_embeddings.weight"],
        "position": arrays["embeddings.position_embeddings.weight"][:128],
        "kind": arrays["embeddings.token_type_embeddings.weight"],
        "norm": norm("embeddings.LayerNorm"),
    }
    for number in range(LAYERS):
        source = f"encoder.layer.{number}"
        node = f"/encoder/layer.{number}"
        parts = ("query", "key", "value")
        layer = {
            "mix.weight": np.concatenate(
                [products[f"{node}/attention/self/{part}/MatMul"].T for part in parts]
            ),
            "mix.bias": np.concatenate(
                [arrays[f"{source}.attention.self.{part}.bias"] for part in parts]
            ),
            "out.weight": products[f"{node}/attention/output/dense/MatMul"].T,
            "out.bias": arrays[f"{source}.attention.output.dense.bias"],
            "out_norm": norm(f"{source}.attention.output.LayerNorm"),
            "up.weight": products[f"{node}/intermediate/dense/MatMul"].T,
            "up.bias": arrays[f"{source}.intermediate.dense.bias"],
            "down.weight": products[f"{node}/output/dense/MatMul"].T,
            "down.bias": arrays[f"{source}.output.dense.bias"],
            "down_norm": norm(f"{source}.output.LayerNorm"),
        }
        weights |= {f"layers.{number}.{name}": array for name, array in layer.items()}
    return weights
