"""Train `recollect/models/reranker.npz`, the model that reorders the best hits of a search.

    python -m tools.train_reranker [prepare|train|export] [--folder FOLDER]

Without a step, all three run:

1. prepare: download the pinned sources (`tools/reranker/sources.py`) and gte-small, make training
   groups of a query, its right passage and seven wrong ones, and store them with the initial
   weights. Needs git, npm and `pip install onnx`; takes about five minutes on one core.
2. train: train two teachers with twelve layers, then a student with six that imitates them. Needs
   `pip install torch` and an NVIDIA GPU; takes about eight minutes on an H200. This step needs only
   the files `groups.npz` and `initial.npz` in FOLDER, so it can run on another machine.
3. export: round the weights (four bits for words, eight for the rest) and write the model.

The groups are the same on every machine and have a checksum. Training on a GPU is not exactly
repeatable: expect a model of the same quality, not the same bytes.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

VERSION = "1"
SEED = 7
FOLDER = Path(__file__).parents[1] / "build" / "reranker"
GROUPS_SHA256 = "34077abcdf1c1950c99088f2d9c3108515744f558f6308996d29f73ebf2b627e"
STEPS = ("prepare", "train", "export")


def prepare(folder: Path) -> None:
    from tools import distill
    from tools.reranker.corpora import parse
    from tools.reranker.groups import GroupWriter, wrong_passages
    from tools.reranker.initial import read_weights
    from tools.reranker.sources import SOURCES, read_source

    writer = GroupWriter(SEED)
    for source in SOURCES:
        corpus = parse(source.name, read_source(source, folder / "sources"), SEED)
        writer.add(corpus, wrong_passages(corpus, SEED))
        log(f"{source.name}: {len(corpus.examples):,} queries, {len(corpus.texts):,} passages")
    arrays = writer.arrays()
    if digest(arrays) != GROUPS_SHA256:
        sys.exit(f"The training groups have the checksum {digest(arrays)}, not {GROUPS_SHA256}.")
    np.savez_compressed(folder / "groups.npz", **arrays)
    weights = read_weights(distill.fetch(distill.FOLDER)[distill.MODEL])
    save_weights(folder / "initial.npz", weights)


def train(folder: Path) -> None:
    from tools.reranker.training import train_student

    with np.load(folder / "groups.npz") as arrays:
        weights = train_student(load_weights(folder / "initial.npz"), arrays)
    del weights["word"]  # not trained
    save_weights(folder / "trained.npz", weights)


def export(folder: Path) -> None:
    from recollect.models.reranker import MODEL
    from tools.reranker.export import model_arrays, write_model

    weights = load_weights(folder / "trained.npz")
    weights["word"] = load_weights(folder / "initial.npz")["word"]
    layers = len({name.split(".")[1] for name in weights if name.startswith("layers.")})
    write_model(MODEL, model_arrays(weights, layers, VERSION))
    data = MODEL.read_bytes()
    log(f"sha256 {hashlib.sha256(data).hexdigest()}, {len(data):,} bytes")


def digest(arrays: Mapping[str, Any]) -> str:
    total = hashlib.sha256()
    for name in sorted(arrays):
        total.update(name.encode() + b"\0" + np.ascontiguousarray(arrays[name]).tobytes())
    return total.hexdigest()


def save_weights(path: Path, weights: Mapping[str, Any]) -> None:
    """Store large matrices with eight bits per number, which is also how they are shipped."""
    arrays = {}
    for name, array in weights.items():
        if array.ndim == 2 and len(array) > 128:
            scales = np.abs(array).max(axis=1, keepdims=True) / 127
            arrays[f"{name}|codes"] = np.rint(array / scales).astype(np.int8)
            arrays[f"{name}|scales"] = scales.astype(np.float32)
        else:
            arrays[name] = array.astype(np.float32)
    np.savez_compressed(path, **arrays)


def load_weights(path: Path) -> dict[str, Any]:
    weights = {}
    with np.load(path) as arrays:
        for name in arrays:
            base, _, part = name.partition("|")
            if part == "codes":
                weights[base] = arrays[name] * arrays[f"{base}|scales"]
            elif not part:
                weights[base] = arrays[name]
    return weights


def log(text: str) -> None:
    sys.stderr.write(text + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description="Train the reranker.")
    parser.add_argument("step", nargs="?", choices=STEPS, help="one step (default: all)")
    parser.add_argument(
        "--folder",
        type=Path,
        default=FOLDER,
        help="for downloads and results (default: %(default)s)",
    )
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for name, step in zip(STEPS, (prepare, train, export), strict=True):
        if arguments.step in (None, name):
            step(arguments.folder)


if __name__ == "__main__":
    main()
