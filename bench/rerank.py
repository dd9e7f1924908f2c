"""Benchmark the reranker on the candidates of a search.

    python -m bench.rerank [FOLDER] [--candidates N] [--length N]

The question files are those of `bench.quality`. Each question is searched in mode `both` on SQLite;
the reranker reorders the first hits, all of them (a search leaves out those that are far behind the
fifth, see `search.rerank`). The tables show hit@1, any@5 and all@5 for several weights
(0 is the order of the search), and the median CPU time of the reranker per question.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from bench.quality import FOLDER, libraries, temporary_library
from recollect.model.search import Hit, SearchOptions
from recollect.models.reranker import CANDIDATES, LENGTH, Passage, Reranker

WEIGHTS = (0.0, 0.03, 0.04, 0.05, 0.06, 0.08, 0.1)
DEPTH = 30


class Case(NamedTuple):
    """A question: its hits with their scores, and the messages that answer it."""

    hits: Sequence[Hit]
    scores: Sequence[float]
    right: frozenset[str]


def cases(path: Path, candidates: int, length: int, times: list[float]) -> Iterator[Case]:
    model = Reranker.load()
    for conversations, questions in libraries(path):
        passages = {
            message["id"]: Passage(message["author"] or message["role"], message["content"])
            for conversation in conversations
            for message in conversation["messages"]
        }
        with temporary_library(conversations) as library:
            for question in questions:
                options = SearchOptions(limit=DEPTH, now=question.asked_at)
                hits = library.search(question.text, options=options).hits
                texts = [passages[hit.message_id] for hit in hits[:candidates]]
                start = time.process_time()
                scores = model.scores(question.text, texts, length)
                times.append(time.process_time() - start)
                yield Case(hits, scores, question.messages)


def reorder(case: Case, weight: float) -> list[str]:
    """The ids of the hits, the first ones sorted by their score plus the weighted z-score."""
    count = len(case.scores)
    ids = [hit.message_id for hit in case.hits]
    if count < 2:
        return ids
    mean = statistics.fmean(case.scores)
    spread = statistics.pstdev(case.scores) or 1.0
    totals = [
        hit.score + weight * (score - mean) / spread
        for hit, score in zip(case.hits, case.scores, strict=False)
    ]
    order = sorted(range(count), key=lambda n: -totals[n])
    return [ids[n] for n in order] + ids[count:]


def measure(path: Path, candidates: int, length: int) -> None:
    times: list[float] = []
    results = list(cases(path, candidates, length, times))
    print(f"\n### {path.name.split('.')[0]}, {len(results)} questions")
    print(f"\n{candidates} candidates, {length} pieces, {statistics.median(times) * 1000:.0f} ms\n")
    print("| weight | hit@1 | any@5 | all@5 |\n|---|---|---|---|")
    for weight in WEIGHTS:
        orders = [(reorder(case, weight), case.right) for case in results]
        hit = statistics.fmean(bool(ids) and ids[0] in right for ids, right in orders)
        any_ = statistics.fmean(bool(right & set(ids[:5])) for ids, right in orders)
        all_ = statistics.fmean(right <= set(ids[:5]) for ids, right in orders)
        print(f"| {weight} | {hit:.3f} | {any_:.3f} | {all_:.3f} |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Benchmark the reranker.")
    parser.add_argument("folder", nargs="?", type=Path, default=FOLDER)
    parser.add_argument("--candidates", type=int, default=CANDIDATES)
    parser.add_argument("--length", type=int, default=LENGTH)
    arguments = parser.parse_args()
    for file in sorted(arguments.folder.glob("*.json.gz")):
        measure(file, arguments.candidates, arguments.length)
