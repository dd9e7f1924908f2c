"""Benchmark search quality through the public API.

    python -m bench.quality [FOLDER] [--without FEATURE …] [--quick]

FOLDER contains `*.json.gz` files of questions with known answers (see `Question`); the default is
`shared/bench` next to the project. Each group of questions has its own library. The
baseline is plain FTS5 (porter stemmer, words joined by OR, ranked by bm25) over the same text, by
message and by whole conversation.

Queries with known answers follow, made from the same conversations (`bench.known_items`), and
whether the score of the first hit separates questions that the library can answer from questions
about another library (AUC: the probability that it is higher); then other languages
(`bench.languages`).

`--without` leaves features out of the ranking; `--quick` measures only the questions, in mode
`both`.

any@5: at least one right result in the first five; all@5: all of them are; frac@5: the share of
them that is; hit@1: the first result is right; MRR: mean reciprocal rank of the first right result.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import apsw

import recollect
from bench import known_items, languages
from recollect.model.search import Page, SearchOptions
from recollect.search.ranking import WEIGHTS

FOLDER = Path(__file__).parents[2] / "shared" / "bench"
DEPTH = 10
SAMPLE = 100  # questions of each kind to compare first scores
MODES = ("text", "vector", "both")


class Question(NamedTuple):
    text: str
    asked_at: str
    messages: frozenset[str]
    conversations: frozenset[str]


Ranking = Callable[[Question], list[str]]


class Scores:
    """Collects rankings and formats their mean scores as a table row."""

    names = ("any@5", "all@5", "frac@5", "any@10", "hit@1", "MRR")

    def __init__(self) -> None:
        self.rows: list[tuple[float, ...]] = []

    def add(self, results: list[str], right: frozenset[str]) -> None:
        ranks = [n for n, id_ in enumerate(results[:DEPTH], 1) if id_ in right]
        in_five = sum(n <= 5 for n in ranks)
        share = in_five / len(right)
        reciprocal_rank = 1 / ranks[0] if ranks else 0.0
        self.rows.append(
            (bool(in_five), share == 1, share, bool(ranks), 1 in ranks, reciprocal_rank)
        )

    def row(self) -> str:
        return " | ".join(
            f"{sum(column) / len(self.rows):.3f}" for column in zip(*self.rows, strict=True)
        )


def libraries(path: Path) -> Iterator[tuple[list[dict[str, Any]], list[Question]]]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        data = json.load(file)
    for library in data["libraries"]:
        questions = [
            Question(
                q["text"],
                q["asked_at"],
                frozenset(q["gold_messages"]),
                frozenset(q["gold_conversations"]),
            )
            for q in library["queries"]
        ]
        yield library["conversations"], questions


def fill_library(library: recollect.Library, conversations: Sequence[dict[str, Any]]) -> None:
    """Import conversations and index them."""
    with tempfile.TemporaryDirectory() as folder:
        export = Path(folder) / "conversations.json"
        export.write_text(json.dumps({"conversations": conversations}), encoding="utf-8")
        library.import_path(export)
    library.index()


@contextmanager
def temporary_library(conversations: Sequence[dict[str, Any]]) -> Iterator[recollect.Library]:
    """A library with these conversations and their vectors."""
    with (
        tempfile.TemporaryDirectory() as folder,
        recollect.open(folder, background=False) as library,
    ):
        fill_library(library, conversations)
        yield library


# -- rankings ------------------------------------------------------------------


def ours(library: recollect.Library, mode: str, rerank: bool = False) -> tuple[Ranking, Ranking]:
    def search(question: Question, group: str) -> Page:
        options = SearchOptions(
            mode, group=group, limit=DEPTH, now=question.asked_at, rerank=rerank
        )
        return library.search(question.text, options=options)

    def messages(question: Question) -> list[str]:
        return [hit.message_id for hit in search(question, "message").hits]

    def conversations(question: Question) -> list[str]:
        return [hit.conversation_id for hit in search(question, "conversation").hits]

    return messages, conversations


def plain_fts5(conversations: list[dict[str, Any]]) -> tuple[Ranking, Ranking]:
    db = apsw.Connection(":memory:")

    def ranking(table: str, rows: list[tuple[str, str]]) -> Ranking:
        db.execute(
            f"create virtual table {table} using "
            "fts5(id unindexed, content, tokenize='porter unicode61')"
        )
        db.executemany(f"insert into {table} values (?, ?)", rows)

        def rank(question: Question) -> list[str]:
            words = " OR ".join(f'"{w}"' for w in re.findall(r"\w+", question.text))
            rows = db.execute(
                f"select id from {table} where {table} match ? order by rank limit ?",
                (words, DEPTH),
            )
            return [str(id_) for (id_,) in rows]

        return rank

    messages = [(m["id"], m["content"]) for c in conversations for m in c["messages"]]
    wholes = [(c["id"], "\n".join(m["content"] for m in c["messages"])) for c in conversations]
    return ranking("message", messages), ranking("whole", wholes)


# -- the run ---------------------------------------------------------------------


def without_features(names: Sequence[str]) -> None:
    """Leave features out of the ranking."""
    for intent, weights in WEIGHTS.items():
        WEIGHTS[intent] = {name: w for name, w in weights.items() if name not in names}


class Report:
    """The scores of one file of questions."""

    def __init__(self, name: str, other_questions: Sequence[str]) -> None:
        self.name = name
        self._other_questions = other_questions
        self._scores: dict[tuple[str, str], Scores] = {}
        self._known: dict[str, list[float]] = {}
        self._separation: list[float] = []
        self._count = 0

    def add_questions(
        self, questions: Sequence[Question], systems: Mapping[str, tuple[Ranking, Ranking]]
    ) -> None:
        for question in questions:
            self._count += 1
            for name, (by_message, by_conversation) in systems.items():
                add = self._scores.setdefault(("messages", name), Scores()).add
                add(by_message(question), question.messages)
                add = self._scores.setdefault(("conversations", name), Scores()).add
                add(by_conversation(question), question.conversations)

    def add_known_items(
        self, library: recollect.Library, conversations: Sequence[dict[str, Any]]
    ) -> None:
        for part, items in known_items.Corpus(conversations).parts().items():
            if items:
                share = known_items.share_right(library, items)
                self._known.setdefault(part, []).append(share)

    def add_separation(self, library: recollect.Library, questions: Sequence[Question]) -> None:
        """How well the first score tells answerable questions from those about other libraries."""
        generator = random.Random(1)
        own = [q.text for q in questions]
        others = [text for text in self._other_questions if text not in own]
        if not others:  # the folder has only one library
            return
        now = max(q.asked_at for q in questions)
        own, others = (
            [
                _top_score(library, text, now)
                for text in generator.sample(each, min(SAMPLE, len(each)))
            ]
            for each in (own, others)
        )
        pairs = [(a > b) + (a == b) / 2 for a in own for b in others]
        self._separation.append(sum(pairs) / len(pairs))

    def print(self) -> None:
        print(f"\n### {self.name}, {self._count} questions\n")
        columns = " | ".join(Scores.names)
        print(f"| by | system | {columns} |\n|---|---|{'---|' * len(Scores.names)}")
        for (unit, name), score in sorted(self._scores.items()):
            print(f"| {unit} | {name} | {score.row()} |")
        if not self._known:
            return
        print("\n| known items | right, mean of the libraries | worst library |\n|---|---|---|")
        for part, shares in self._known.items():
            print(f"| {part} | {sum(shares) / len(shares):.3f} | {min(shares):.3f} |")
        if not self._separation:
            return
        mean = sum(self._separation) / len(self._separation)
        print(f"| AUC of the first score | {mean:.3f} | {min(self._separation):.3f} |", flush=True)


def _top_score(library: recollect.Library, text: str, now: str) -> float:
    hits = library.search(text, options=SearchOptions(limit=1, now=now)).hits
    return max((hit.score for hit in hits), default=0.0)


def measure(path: Path, quick: bool) -> None:
    report = Report(path.name.split(".")[0], _all_questions(path.parent))
    for conversations, questions in libraries(path):
        with temporary_library(conversations) as library:
            systems = {"both": ours(library, "both")}
            if not quick:
                systems |= {mode: ours(library, mode) for mode in MODES}
                systems["both, reranker"] = ours(library, "both", rerank=True)
                systems["plain FTS5"] = plain_fts5(conversations)
                report.add_known_items(library, conversations)
                report.add_separation(library, questions)
            report.add_questions(questions, systems)
    report.print()


def _all_questions(folder: Path) -> list[str]:
    return [
        question.text
        for path in sorted(folder.glob("*.json.gz"))
        for _, questions in libraries(path)
        for question in questions
    ]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Benchmark search quality.")
    parser.add_argument(
        "folder", nargs="?", type=Path, default=FOLDER, help="folder of the question files"
    )
    parser.add_argument(
        "--without", action="append", default=[], metavar="FEATURE", help="leave a feature out"
    )
    parser.add_argument("--quick", action="store_true", help="only questions, mode both")
    arguments = parser.parse_args()
    without_features(arguments.without)
    files = sorted(arguments.folder.glob("*.json.gz"))
    if not files:
        sys.exit(
            f"There are no question files (*.json.gz) in {arguments.folder}. Give a folder that "
            "has some."
        )
    for path in files:
        measure(path, arguments.quick)
    languages.print_table()
