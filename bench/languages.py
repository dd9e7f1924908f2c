"""Benchmark search in other languages than English.

    python -m bench.languages

`tests/data/languages` has a small library for each language: fourteen conversations, and questions
about them whose answer is one message. The sentences were written for this benchmark.

first: the share of questions whose answer is the first hit; in five: among the first five.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import NamedTuple

import recollect
from recollect.language.languages import ALL
from recollect.model.search import SearchOptions

FOLDER = Path(__file__).parents[1] / "tests" / "data" / "languages"
DEPTH = 5


class Rank(NamedTuple):
    """Where the answer to a question is among the hits; 0 if it is not in the first five."""

    question: str
    rank: int


class TestSet:
    """The questions of one language."""

    __test__ = False  # it is not a test

    def __init__(self, path: Path) -> None:
        self._data = json.loads(path.read_text(encoding="utf-8"))

    @property
    def questions(self) -> list[str]:
        return [question["text"] for question in self._data["questions"]]

    def fill(self, library: recollect.Library) -> None:
        """Add the conversations and build their vectors."""
        for conversation in self._data["conversations"]:
            library.add_conversation(
                conversation["id"], conversation["title"], messages=conversation["messages"]
            )
        library.index()

    def ranks(self, library: recollect.Library) -> list[Rank]:
        options = SearchOptions(limit=DEPTH, now=self._data["asked_at"])
        ranks = []
        for question in self._data["questions"]:
            page = library.search(question["text"], options=options)
            ids = [hit.message_id for hit in page.hits]
            rank = 0
            if question["message"] in ids:
                rank = ids.index(question["message"]) + 1
            ranks.append(Rank(question["text"], rank))
        return ranks


def share_first(ranks: list[Rank]) -> float:
    return sum(each.rank == 1 for each in ranks) / len(ranks)


def share_in_five(ranks: list[Rank]) -> float:
    return sum(each.rank > 0 for each in ranks) / len(ranks)


def print_table() -> None:
    names = {language.code: language.name for language in ALL}
    print("\n### languages\n\n| language | questions | first | in five |\n|---|---|---|---|")
    for path in sorted(FOLDER.glob("*.json")):
        questions = TestSet(path)
        with (
            tempfile.TemporaryDirectory() as folder,
            recollect.open(folder, background=False) as library,
        ):
            questions.fill(library)
            ranks = questions.ranks(library)
        cells = f"{share_first(ranks):.3f} | {share_in_five(ranks):.3f}"
        print(f"| {names[path.stem]} | {len(ranks)} | {cells} |", flush=True)


if __name__ == "__main__":
    print_table()
