"""Fit the weights of questions, and print them beside those in use.

    python -m bench.fit [FOLDER] [--without]

The question files are those of `bench.quality`. For each question, the parts of the scores of the
best hits say how much of each feature they have. The weights are fitted so that right messages
score higher than the others of the same question (logistic loss of all pairs, kept near the weights
in use). Files whose hits are from dialogues between people have weights of their own.

`--without` also shows any@5 with each feature left out and the other weights as they are.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from bench.quality import FOLDER, Question, libraries, temporary_library
from recollect.model.search import Hit, SearchOptions
from recollect.search.ranking import WEIGHTS

DEPTH = 50
STEPS, RATE, KEEP = 400, 0.05, 0.02
ONLY_IN_DIALOGUES = "length"

Results = list[tuple[Question, tuple[Hit, ...]]]


def results(path: Path) -> Results:
    """The best hits of each question."""
    found: Results = []
    for conversations, questions in libraries(path):
        with temporary_library(conversations) as library:
            for question in questions:
                options = SearchOptions(limit=DEPTH, now=question.asked_at, rerank=False)
                found.append((question, library.search(question.text, options=options).hits))
    return found


def pairs(found: Results, weights: dict[str, float]) -> Iterator[Any]:
    """How much more of each feature a right hit has than another one, for each question."""
    for question, hits in found:
        rows = np.array([[hit.parts.get(n, 0.0) / w for n, w in weights.items()] for hit in hits])
        is_right = np.array([hit.message_id in question.messages for hit in hits], bool)
        if is_right.any() and not is_right.all():
            differences = rows[is_right][:, np.newaxis] - rows[~is_right][np.newaxis]
            yield differences.reshape(-1, len(weights)) / max(hits[0].score, 0.01)


def fit(found: Results, weights: dict[str, float]) -> dict[str, float]:
    """Gradient descent. A weight that hardly any question needs stays near the one in use."""
    differences = list(pairs(found, weights))
    start = np.array(list(weights.values()))
    current = start.copy()
    for _ in range(STEPS):
        gradient = KEEP * (current - start)
        for rows in differences:
            wrong = 1 / (1 + np.exp(np.clip(rows @ current, -30, 30)))
            gradient -= (wrong @ rows) / len(rows) / len(differences)
        current -= RATE * gradient * np.maximum(np.abs(start), 0.5)
    return dict(zip(weights, current.tolist(), strict=True))


def any_at_5(found: Results, without: str = "") -> float:
    right = 0
    for question, hits in found:
        order = sorted(hits, key=lambda hit: hit.parts.get(without, 0.0) - hit.score)
        right += any(hit.message_id in question.messages for hit in order[:5])
    return right / len(found)


def main() -> None:
    parser = argparse.ArgumentParser(description="Fit the weights of questions.")
    parser.add_argument("folder", nargs="?", type=Path, default=FOLDER)
    parser.add_argument("--without", action="store_true", help="leave each feature out")
    arguments = parser.parse_args()
    for path in sorted(arguments.folder.glob("*.json.gz")):
        found = results(path)
        parts = {name for _, hits in found for hit in hits for name in hit.parts}
        weights = WEIGHTS["dialogue" if ONLY_IN_DIALOGUES in parts else "question"]
        weights = {name: weight for name, weight in weights.items() if name in parts}
        fitted = fit(found, weights)
        print(f"\n### {path.name.split('.')[0]}, any@5 {any_at_5(found):.3f}\n")
        print("| feature | weight | fitted | without |\n|---|---|---|---|")
        for name, weight in weights.items():
            without = f"{any_at_5(found, name):.3f}" if arguments.without else ""
            print(f"| `{name}` | {weight:g} | {fitted[name]:.2f} | {without} |")


if __name__ == "__main__":
    main()
