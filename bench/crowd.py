"""Benchmark search quality in a crowd: a library with many other conversations.

    python -m bench.crowd DIALOGUES [FILE] [--conversations N] [--keep FOLDER]

DIALOGUES is a checkout of google-research-datasets/dstc8-schema-guided-dialogue (CC BY-SA 4.0), in
which people ask an assistant for restaurants, flights, films and so on. FILE has questions with
known answers, as `bench.quality` describes them; the default is LongMemEval's. N dialogues (12,000)
join the conversations of all its libraries in one. Their dates are those of the conversations.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import recollect
from bench.quality import FOLDER, Question, Scores, fill_library, libraries, ours

SEED = 3
ROLES = {"USER": "user", "SYSTEM": "assistant"}


def dialogues(folder: Path, dates: list[str]) -> Iterator[dict[str, Any]]:
    """The dialogues of a checkout, in random order of their files."""
    generator = random.Random(SEED)
    files = sorted(folder.glob("*/dialogues_*.json"))
    generator.shuffle(files)
    for file in files:
        for dialogue in json.loads(file.read_text(encoding="utf-8")):
            id_ = f"{file.parent.name} {dialogue['dialogue_id']}"
            date = generator.choice(dates)
            messages = [
                {
                    "id": f"{id_} {number}",
                    "role": ROLES[turn["speaker"]],
                    "content": turn["utterance"],
                    "created_at": date,
                }
                for number, turn in enumerate(dialogue["turns"])
            ]
            yield {"id": id_, "title": "", "created_at": date, "messages": messages}


@contextmanager
def folder_for(keep: Path | None) -> Iterator[Path]:
    if keep is not None:
        yield keep
        return
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def merged_libraries(file: Path) -> tuple[list[dict[str, Any]], list[Question]]:
    """The conversations and questions of all libraries of a file, whose ids may be the same."""
    conversations: list[dict[str, Any]] = []
    questions: list[Question] = []
    for number, (library, own_questions) in enumerate(libraries(file)):
        prefix = f"{number} "
        for conversation in library:
            messages = [{**m, "id": prefix + m["id"]} for m in conversation["messages"]]
            id_ = prefix + conversation["id"]
            conversations.append({**conversation, "id": id_, "messages": messages})
        for question in own_questions:
            answers = frozenset(prefix + id_ for id_ in question.messages)
            sources = frozenset(prefix + id_ for id_ in question.conversations)
            questions.append(question._replace(messages=answers, conversations=sources))
    return conversations, questions


def main(checkout: Path, file: Path, count: int, keep: Path | None) -> None:
    conversations, questions = merged_libraries(file)
    dates = [conversation["messages"][0]["created_at"] for conversation in conversations]
    with (
        folder_for(keep) as folder,
        recollect.open(folder / "library", background=False) as library,
    ):
        if not library.size():
            fill_library(library, [*conversations, *islice(dialogues(checkout, dates), count)])
        stats = library.stats()
        print(f"{stats['conversations']:,} conversations, {stats['messages']:,} messages\n")
        print(f"| by | {' | '.join(Scores.names)} | CPU ms |\n|---|{'---|' * 7}")
        for unit, ranking in zip(("messages", "conversations"), ours(library, "both"), strict=True):
            scores = Scores()
            start = time.process_time()
            for question in questions:
                scores.add(ranking(question), getattr(question, unit))
            mean = (time.process_time() - start) * 1000 / len(questions)
            print(f"| {unit} | {scores.row()} | {mean:.1f} |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Benchmark search quality in a crowd.")
    parser.add_argument("dialogues", type=Path, help="checkout of the dialogues")
    parser.add_argument("file", nargs="?", type=Path, default=FOLDER / "longmemeval.json.gz")
    parser.add_argument("--conversations", type=int, default=12_000, metavar="N")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep the library there")
    arguments = parser.parse_args()
    main(arguments.dialogues, arguments.file, arguments.conversations, arguments.keep)
