"""Benchmark search by meaning on long assistant messages.

    python -m bench.long_messages [FILE] [--without FEATURE …]

FILE has questions and conversations as for `bench.quality`; the default is LongMemEval. The
questions here are those that users asked in these conversations, the right answer is the
assistant's reply. The message that contains the question is not counted. In the second library,
all replies of a conversation are one message.

Recollect is compared with plain cosines of vectors made by the same model. `--without` leaves
features out of the ranking.
"""

from __future__ import annotations

import argparse
import random
import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import recollect
from bench.quality import FOLDER, libraries, temporary_library, without_features
from recollect.index.chunks import split_text
from recollect.model.search import SearchOptions
from recollect.models.static import Counts, StaticModel

_QUESTIONS = 300
# So many were read to write the patterns in `language.queries.addressee`. Others are asked.
_READ = 600
_SENTENCE = re.compile(r"[^.!?\n]+[.!?]*")
_WORDS = range(7, 31)  # of a question; shorter ones make no sense without their context
_NOW = "2023-06-01T00:00:00+00:00"  # after the last conversation
_DEPTH = 5


class Request(NamedTuple):
    text: str
    message: str
    """The message that contains the question."""
    reply: str


Ranking = Callable[[str], Sequence[str]]
"""Maps a question to ids of messages, best first."""


def requests(conversations: Sequence[dict[str, Any]]) -> list[Request]:
    """A sample of the last questions in users' messages, with the replies to them."""
    every = []
    for conversation in conversations:
        messages = conversation["messages"]
        for message, reply in pairwise(messages):
            if (message["role"], reply["role"]) != ("user", "assistant"):
                continue
            sentences = map(str.strip, _SENTENCE.findall(message["content"]))
            questions = [s for s in sentences if s.endswith("?") and len(s.split()) in _WORDS]
            if questions:
                every.append(Request(questions[-1], message["id"], reply["id"]))
    random.Random(7).shuffle(every)
    return every[_READ : _READ + _QUESTIONS]


def join_replies(
    conversations: Sequence[dict[str, Any]], questions: Sequence[Request]
) -> tuple[list[dict[str, Any]], list[Request]]:
    """The same conversations with all replies in the last one, and the questions for them."""
    joined = []
    last_replies: dict[str, str] = {}
    for conversation in conversations:
        replies = [m for m in conversation["messages"] if m["role"] == "assistant"]
        others = [m for m in conversation["messages"] if m["role"] != "assistant"]
        if replies:
            text = "\n\n".join(message["content"] for message in replies)
            others.append({**replies[-1], "content": text})
            last_replies.update((message["id"], replies[-1]["id"]) for message in replies)
        joined.append({**conversation, "messages": others})
    return joined, [each._replace(reply=last_replies[each.reply]) for each in questions]


# -- rankings ------------------------------------------------------------------


def plain_cosines(conversations: Sequence[dict[str, Any]]) -> dict[str, Ranking]:
    messages = [message for conversation in conversations for message in conversation["messages"]]
    ids = [message["id"] for message in messages]
    texts = [message["content"] for message in messages]
    model = StaticModel(Counts.of(texts))
    whole = model.embed(texts)
    parts = [split_text(text) for text in texts]
    counts = np.array([len(each) for each in parts])
    firsts = np.cumsum(counts) - counts
    part_vectors = model.embed([part for each in parts for part in each])
    means = np.add.reduceat(part_vectors, firsts)
    means /= np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1e-9)

    def best_part(query: Any) -> Any:
        return np.maximum.reduceat(part_vectors @ query, firsts)

    def ranking(score: Callable[[Any], Any]) -> Ranking:
        def rank_messages(text: str) -> list[str]:
            order = np.argsort(-score(model.embed_query(text)), kind="stable")
            return [ids[number] for number in order[: _DEPTH + 1]]

        return rank_messages

    return {
        "cosine of the whole message": ranking(lambda query: whole @ query),
        "mean of its parts": ranking(lambda query: means @ query),
        "best part": ranking(best_part),
        "best part and mean": ranking(lambda query: (best_part(query) + means @ query) / 2),
        "best part, less the expected maximum": ranking(
            lambda query: best_part(query) - 0.02 * np.sqrt(2 * np.log(counts))
        ),
    }


def ours(library: recollect.Library, mode: str) -> Ranking:
    def rank_messages(text: str) -> list[str]:
        options = SearchOptions(mode=mode, limit=_DEPTH + 1, now=_NOW, rerank=False)
        return [hit.message_id for hit in library.search(text, options=options).hits]

    return rank_messages


# -- the run -------------------------------------------------------------------


def measure(conversations: Sequence[dict[str, Any]], questions: Sequence[Request]) -> None:
    with temporary_library(conversations) as library:
        systems = plain_cosines(conversations)
        systems |= {f"Recollect, {mode}": ours(library, mode) for mode in ("vector", "both")}
        for name, ranking in systems.items():
            print(f"| {name} | {_scores(ranking, questions)} |", flush=True)


def _scores(ranking: Ranking, questions: Sequence[Request]) -> str:
    """hit@1 and any@5."""
    first = in_five = 0
    for question in questions:
        ids = [each for each in ranking(question.text) if each != question.message]
        first += question.reply in ids[:1]
        in_five += question.reply in ids[:_DEPTH]
    return f"{first / len(questions):.3f} | {in_five / len(questions):.3f}"


def main(file: Path) -> None:
    conversations, _ = next(libraries(file))
    questions = requests(conversations)
    for title, (library, library_questions) in {
        "Replies as they are": (conversations, questions),
        "All replies of a conversation in one message": join_replies(conversations, questions),
    }.items():
        print(f"\n### {title}, {len(questions)} questions\n")
        print("| ranking | hit@1 | any@5 |\n|---|---|---|")
        measure(library, library_questions)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Benchmark search on long messages.")
    parser.add_argument("file", nargs="?", type=Path, default=FOLDER / "longmemeval.json.gz")
    parser.add_argument("--without", action="append", default=[], metavar="FEATURE")
    arguments = parser.parse_args()
    without_features(arguments.without)
    main(arguments.file)
