"""Benchmark search quality through the public API.

    python -m bench.quality [FOLDER] [--store both|sqlite|postgres]

FOLDER contains `*.json.gz` files of questions with known answers (see `Question`); the default is
`shared/bench` next to the project. Each group of questions has its own library: a folder on SQLite,
a user on PostgreSQL. PostgreSQL is included if a server can be started (`bench/server.py`). The
baseline is plain FTS5 (porter stemmer, words joined by OR, ranked by bm25) over the same text, by
message and by whole conversation.

any@5: at least one right result in the first five; all@5: all of them are; frac@5: the share of
them that is; hit@1: the first result is right; MRR: mean reciprocal rank of the first right result.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import apsw

import recollect
from bench.server import QUICK, Server
from recollect.model.search import SearchOptions

FOLDER = Path(__file__).parents[2] / "shared" / "bench"
DEPTH = 10
MODES = ("text", "vector", "both")
SQLITE, POSTGRES = "SQLite", "PostgreSQL"


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
        reciprocal_rank = 0.0
        if ranks:
            reciprocal_rank = 1 / ranks[0]
        self.rows.append(
            (
                bool(in_five),
                in_five == len(right),
                in_five / len(right),
                bool(ranks),
                1 in ranks,
                reciprocal_rank,
            )
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


# -- rankings ------------------------------------------------------------------


def ours(library: recollect.Library, mode: str) -> tuple[Ranking, Ranking]:
    def messages(question: Question) -> list[str]:
        page = library.search(
            question.text, options=SearchOptions(mode=mode, limit=DEPTH, now=question.asked_at)
        )
        return [h.message_id for h in page.hits]

    def conversations(question: Question) -> list[str]:
        page = library.search(
            question.text,
            options=SearchOptions(
                mode=mode, limit=DEPTH, now=question.asked_at, group="conversation"
            ),
        )
        return [h.conversation_id for h in page.hits]

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


Place = Callable[[Path, str], tuple[str | Path, str]]
"""Maps an empty folder and a name to the location and the user of a library."""


def on_sqlite(folder: Path, _name: str) -> tuple[str | Path, str]:
    return folder, "default"


def on_postgres(url: str) -> Place:
    return lambda _folder, name: (url, name)


def measure(path: Path, places: Mapping[str, Place]) -> None:
    scores: dict[tuple[str, str], Scores] = {}
    count = 0
    for number, (conversations, questions) in enumerate(libraries(path)):
        with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
            export = Path(folder) / "conversations.json"
            export.write_text(json.dumps({"conversations": conversations}), encoding="utf-8")
            systems = {"plain FTS5": plain_fts5(conversations)}
            for place, locate in places.items():
                where, user = locate(Path(folder) / "library", f"{path.name} {number}")
                library = stack.enter_context(recollect.open(where, user, background=False))
                library.import_path(export)
                library.index()
                systems |= {f"Recollect on {place}, {mode}": ours(library, mode) for mode in MODES}
            for question in questions:
                count += 1
                for name, (by_message, by_conversation) in systems.items():
                    add = scores.setdefault(("messages", name), Scores()).add
                    add(by_message(question), question.messages)
                    add = scores.setdefault(("conversations", name), Scores()).add
                    add(by_conversation(question), question.conversations)
    print(f"\n### {path.name.split('.')[0]}, {count} questions\n")
    print(f"| by | system | {' | '.join(Scores.names)} |\n|---|---|{'---|' * len(Scores.names)}")
    for (unit, name), score in sorted(scores.items()):
        print(f"| {unit} | {name} | {score.row()} |")


def main(folder: Path, store: str) -> None:
    files = sorted(folder.glob("*.json.gz"))
    if not files:
        sys.exit(
            f"There are no question files (*.json.gz) in {folder}. Give a folder that has some."
        )
    places: dict[str, Place] = {}
    if store != "postgres":
        places[SQLITE] = on_sqlite
    with ExitStack() as stack:
        if store != "sqlite":
            data = Path(
                stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
            )
            try:
                places[POSTGRES] = on_postgres(
                    stack.enter_context(Server(data, QUICK)).database("quality")
                )
            except Exception as error:  # depends on the machine
                if store == "postgres":
                    raise
                print(f"Skipping PostgreSQL: the server did not start: {error}")
        for path in files:
            measure(path, places)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Benchmark search quality.")
    parser.add_argument(
        "folder", nargs="?", type=Path, default=FOLDER, help="folder of the question files"
    )
    parser.add_argument("--store", choices=("both", "sqlite", "postgres"), default="both")
    arguments = parser.parse_args()
    main(arguments.folder, arguments.store)
