"""What people do with a search, and the most expensive queries. See `bench.speed`."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import recollect
from bench import corpus
from recollect.model.search import Page, SearchOptions

LIMIT = 10
TYPED = 12  # queries that are typed, letter by letter
SEARCHES = 40
LONG_MESSAGES = 100
LONG_MESSAGE_CHARACTERS = 1_000_000

Row = tuple[str, list[float], str]
"""What was done, the CPU milliseconds of each time, and a remark."""


def everyday_use(home: Path) -> Iterator[Row]:
    """Asking, typing, turning to the next page, searching for the same again, in mode `both`.

    Other questions and rare words are searched for in mode `text`.
    """
    queries = corpus.many_queries(2 * SEARCHES + 6)
    questions = [" ".join(query.words) for query in queries["question"]]
    both = SearchOptions(mode="both", limit=LIMIT)
    # The background thread would observe messages meanwhile, and its CPU time would count.
    with recollect.open(home, background=False) as library:

        def milliseconds(text: str, options: SearchOptions) -> float:
            cost, _ = cpu_milliseconds(lambda: library.search(text, options=options))
            return cost

        for text in questions[:6]:  # warm up
            milliseconds(text, both)
        typing = replace(both, typing=True)
        keys = []
        for text in questions[SEARCHES + 6 - TYPED : SEARCHES + 6]:
            keys += [milliseconds(text[:end], typing) for end in range(3, len(text) + 1)]
        yield "a key while typing", keys, f"{len(keys)} keys of {TYPED} questions"
        first_pages = []
        second_pages = []
        repeated = []
        for text in questions[6 : SEARCHES + 6]:
            first_pages.append(milliseconds(text, both))
            second_pages.append(milliseconds(text, replace(both, offset=LIMIT)))
            repeated.append(milliseconds(text, both))
        yield "a question", first_pages, ""
        yield "page 2", second_pages, ""
        yield "the same again", repeated, ""
        by_text = replace(both, mode="text")
        other_questions = [milliseconds(text, by_text) for text in questions[SEARCHES + 6 :]]
        yield "a question, mode text", other_questions, ""
        rare = [milliseconds(" ".join(query.words), by_text) for query in queries["rare word"]]
        yield "a rare word, mode text", rare, ""


def cpu_milliseconds(action: Callable[[], Page]) -> tuple[float, Page]:
    start = time.process_time()
    page = action()
    return (time.process_time() - start) * 1000, page


def worst_queries(home: Path) -> Iterator[Row]:
    """The most expensive queries in a library of very long messages."""
    with recollect.open(home) as library:
        if not library.size():
            conversation = library.add_conversation(title="Long")
            for text in _long_messages():
                library.add_message(conversation.id, "user", text)
            library.index()
        common = sorted(set(corpus.vocabulary()[:400]))
        queries = {
            "64 common words": " ".join(common[:64]),
            "64 common words, one of which is required": " ".join(common[:63]) + " AND the",
            "symbols only": "=>",
            "symbols that occur nowhere": "=>=>=>=>",
            "a prefix of many words": "s*",
        }
        for name, text in queries.items():
            for mode in ("text", "both"):
                options = SearchOptions(mode=mode, limit=LIMIT)
                cost, page = cpu_milliseconds(
                    lambda t=text, o=options: library.search(t, options=o)
                )
                remark = f"{len(page.hits)} hits, {'partial' if page.partial else 'complete'}"
                yield f"{name}, {mode}", [cost], remark


def _long_messages() -> Iterator[str]:
    rng = Random("long messages")
    texts = [turn.text for turn in corpus.messages(3_000)]
    for _ in range(LONG_MESSAGES):
        parts: list[str] = []
        characters = 0
        while characters < LONG_MESSAGE_CHARACTERS:
            part = rng.choice(texts)
            parts.append(part)
            characters += len(part) + 4
        yield "\n=> ".join(parts)


def median_and_95th_percentile(times: list[float]) -> tuple[float, float]:
    ordered = sorted(times)
    return statistics.median(ordered), ordered[int(len(ordered) * 0.95)]
