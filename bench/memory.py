"""Questions about a synthetic set of coding sessions: are they answered, at which cost, honestly?

    python -m bench.memory [--only answers] [--misses]

See `bench.memory_set` for the sessions. Questions are asked without filters, with vectors, at one
moment after the last session. An answer is in context when its key occurs in what the agent has
read, whatever the format of that is.

An interface is a list of results, best first, and for each what an agent can read about it, step
by step. The agent reads the list. If the key is not in it, it goes down the list and reads all
steps of a result before the next result.

- recall@3: the key is in the list of the first three results or in their steps.
- nothing found: of the questions without an answer, the share for which there are no results.
- or says what is missing: the same, or the answer names words that occur nowhere.
- tokens: read until the key is in context. If it never is, the whole right conversation is added
  to what was read.
"""

from __future__ import annotations

import argparse
import re
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import recollect
from bench import memory_set
from recollect.language.text import fold
from recollect.library import Library
from recollect.memory.reading import DEFAULT_READ_TOKENS
from recollect.memory.rendering import details_text, search_compact, search_text
from recollect.memory.results import MemoryHit, ObservationHit
from recollect.model.search import Hit, SearchOptions
from recollect.serve.mcp.catalog import Catalog
from recollect.serve.mcp.context import Context

CHARACTERS = 4
LIMIT = 10
RECALL = 3
FOLLOWING = 6
"""How many messages an agent reads around a message that was found."""
Steps = Callable[[], Iterator[str]]
_MISSING = re.compile(r"^No message mentions |^Nothing mentions ", re.MULTILINE)
_RECALL_ENTRY = re.compile(r"\n(?=\[[0-9A-Za-z-]+\] )")
_RECALL_MESSAGE = re.compile(r"^~?#(\d+)", re.MULTILINE)


class Reading(NamedTuple):
    """What an interface returned for a question."""

    listing: str
    results: tuple[str, ...]
    """The entry of each result in the listing."""
    steps: tuple[Steps, ...]
    """For each result, what can be read about it."""


class Outcome(NamedTuple):
    tokens: int
    rank: int
    """The first result with the key, from 1; 0 if there is none."""
    is_listed: bool
    """Whether the listing itself contains the key."""


def tokens(text: str) -> int:
    return -(-len(text) // CHARACTERS)


def contains(text: str, key: str) -> bool:
    return _normalize(key) in _normalize(text)


def _normalize(text: str) -> str:
    return " ".join(fold(text).split())


# -- interfaces ----------------------------------------------------------------------


def recall(library: Library, text: str) -> Reading:
    """The tools that agents get by default: `recall_search`, then `recall_read`."""
    catalog = Catalog()
    context = OpenLibrary(library)
    listing = str(catalog.call("recall_search", context, {"query": text}))
    if listing.startswith("Nothing found"):
        return Reading(listing, (), ())
    entries = recall_entries(listing)
    references = map(_recall_reference, entries)
    steps = tuple(partial(_recall_steps, catalog, context, each) for each in references)
    return Reading(listing, entries, steps)


def recall_entries(listing: str) -> tuple[str, ...]:
    """The part of the answer of `recall_search` about each conversation."""
    return tuple(entry for entry in _RECALL_ENTRY.split(listing) if entry.startswith("["))


def _recall_reference(entry: str) -> str:
    """The id of the conversation and the number of its best message, as in `3f2a9b#14`."""
    id_ = entry[1:].partition("]")[0]
    match = _RECALL_MESSAGE.search(entry)
    if match is None:
        return id_
    return f"{id_}#{match[1]}"


def _recall_steps(catalog: Catalog, context: Context, reference: str) -> Iterator[str]:
    yield str(catalog.call("recall_read", context, {"id": reference}))


class OpenLibrary(Context):
    """The context of an agent's calls, with a library that stays open."""

    def __init__(self, library: Library) -> None:
        super().__init__()
        self._library = library

    @contextmanager
    def library(self, create: bool = False) -> Iterator[Library]:
        yield self._library


def search_memory(library: Library, text: str) -> Reading:
    """`search`, `get_observations` and `read` of the Memory API."""
    results = library.memory.search(text, limit=LIMIT, now=memory_set.NOW)
    entries = tuple(search_text(replace(results, hits=(hit,)), text) for hit in results.hits)
    steps = tuple(partial(_memory_steps, library, hit) for hit in results.hits)
    return Reading(search_text(results, text), entries, steps)


def _memory_steps(library: Library, hit: MemoryHit) -> Iterator[str]:
    if isinstance(hit, ObservationHit):
        details = library.memory.get([hit.observation.id])
        yield details_text(details)
        yield library.memory.read(hit.observation.id, max_tokens=DEFAULT_READ_TOKENS)
    elif hit.lines is not None:
        yield library.memory.read(hit.path, *hit.lines, max_tokens=DEFAULT_READ_TOKENS)


def search_memory_compactly(library: Library, text: str) -> Reading:
    """`search` with one line per result, and `read`."""
    results = library.memory.search(text, limit=LIMIT, now=memory_set.NOW)
    entries = tuple(search_compact(replace(results, hits=(hit,)), text) for hit in results.hits)
    steps = tuple(partial(_read_step, library, entry.split(" ")[0]) for entry in entries)
    return Reading(search_compact(results, text), entries, steps)


def _read_step(library: Library, path: str) -> Iterator[str]:
    yield library.memory.read(path, max_tokens=DEFAULT_READ_TOKENS)


def search_messages(library: Library, text: str) -> Reading:
    """`Library.search`: the messages, then those that follow each of them."""
    hits = library.search(text, options=SearchOptions(limit=LIMIT, now=memory_set.NOW)).hits
    messages = tuple(_content(library, hit) for hit in hits)
    return Reading("\n\n".join(messages), messages, _following_steps(library, hits))


def search_snippets(library: Library, text: str) -> Reading:
    """`Library.search`: a list of snippets, then the messages and those that follow them."""
    page = library.search(text, options=SearchOptions(limit=LIMIT, now=memory_set.NOW))
    hits = page.hits
    entries = tuple(f"{each.conversation_id} {each.title}\n{each.snippet}" for each in hits)
    return Reading("\n\n".join((*entries, page.note)), entries, _following_steps(library, hits))


def _content(library: Library, hit: Hit) -> str:
    return library.message(hit.conversation_id, hit.message_id).content


def _following_steps(library: Library, hits: Iterable[Hit]) -> tuple[Steps, ...]:
    def steps(hit: Hit) -> Iterator[str]:
        passages = library.conversation(hit.conversation_id).passages
        ids = [passage.id for passage in passages]
        start = ids.index(hit.message_id)
        for passage in passages[start : start + FOLLOWING]:
            yield passage.content

    return tuple(partial(steps, hit) for hit in hits)


INTERFACES: dict[str, Callable[[Library, str], Reading]] = {
    "recall_search, recall_read": recall,
    "memory: search, get_observations, read": search_memory,
    "memory: search (compact), read": search_memory_compactly,
    "raw search, whole messages": search_messages,
    "raw search, snippets": search_snippets,
}

# -- measuring -------------------------------------------------------------------------


def read_until(reading: Reading, key: str) -> int:
    """The tokens that an agent reads until the key is in context."""
    count = tokens(reading.listing)
    if contains(reading.listing, key):
        return count
    for steps in reading.steps:
        for text in steps():
            count += tokens(text)
            if contains(text, key):
                return count
    return count


def rank_of(reading: Reading, key: str) -> int:
    """The first result with the key in its entry or its steps, from 1; 0 if there is none."""
    for number, (entry, steps) in enumerate(zip(reading.results, reading.steps, strict=True), 1):
        if contains(entry, key) or any(contains(text, key) for text in steps()):
            return number
    return 0


def measure(list_misses: bool = False) -> None:
    set_ = memory_set.build()
    with tempfile.TemporaryDirectory() as folder:
        memory_set.write(set_.sessions, Path(folder) / "transcripts")
        with recollect.open(Path(folder) / "library", background=False) as library:
            library.import_path(Path(folder) / "transcripts")
            start = time.process_time()
            library.index()
            seconds = time.process_time() - start
            print(f"{len(set_.sessions)} sessions, indexed in {seconds:.1f} CPU s\n")
            whole = [_whole_conversation(library, each.session) for each in set_.questions]
            outcomes: dict[str, list[Outcome]] = {}
            nothing: dict[str, list[bool]] = {}
            remarks: dict[str, list[bool]] = {}
            for name, search in INTERFACES.items():
                outcomes[name] = [_outcome(search, library, each) for each in set_.questions]
                readings = [search(library, text) for text in memory_set.WITHOUT_ANSWER["first"]]
                nothing[name] = [not reading.results for reading in readings]
                remarks[name] = [
                    not reading.results or _MISSING.search(reading.listing) is not None
                    for reading in readings
                ]
            later_outcomes = {
                f"{name} questions": [
                    _outcome(recall, library, each)
                    for each in memory_set.asked_later(name, set_.sessions)
                ]
                for name in ("later", "last")
            }
            later = {
                name: _share(not recall(library, text).results for text in texts)
                for name, texts in memory_set.WITHOUT_ANSWER.items()
            }
    for name, share in later.items():
        print(f"recall_search, questions without an answer, {name}: nothing found {share:.3f}")
    print()
    _report_later(later_outcomes)
    honesty = {name: (_share(nothing[name]), _share(remarks[name])) for name in INTERFACES}
    _report(set_.questions, outcomes, honesty, whole)
    if list_misses:
        for name, results in outcomes.items():
            flags = zip(memory_set.WITHOUT_ANSWER["first"], nothing[name], strict=True)
            unrelated = [text for text, is_honest in flags if not is_honest]
            _report_misses(name, set_.questions, results, unrelated)


def _whole_conversation(library: Library, session: str) -> int:
    conversation = library.find_id("claude-code", session)
    return tokens(library.memory.read(f"/-/{conversation}.jsonl", tool_results=True))


def _outcome(
    search: Callable[[Library, str], Reading], library: Library, question: memory_set.Question
) -> Outcome:
    reading = search(library, question.text)
    return Outcome(
        read_until(reading, question.key),
        rank_of(reading, question.key),
        contains(reading.listing, question.key),
    )


def _with_whole(outcome: Outcome, size: int) -> Outcome:
    """The outcome with the cost of the whole conversation if the key was never in context."""
    if outcome.rank:
        return outcome
    return outcome._replace(tokens=outcome.tokens + size)


def _is_recalled(outcome: Outcome, most: int) -> bool:
    return 1 <= outcome.rank <= most


def _report(
    questions: tuple[memory_set.Question, ...],
    outcomes: dict[str, list[Outcome]],
    honesty: dict[str, tuple[float, float]],
    whole: list[int],
) -> None:
    print(f"### {len(questions)} questions about coding sessions\n")
    print(
        "| interface | recall@1 | recall@3 | in the list "
        "| nothing found | or says what is missing | tokens: median | mean | 90th percentile "
        "| share of the conversation |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    for name, raw_outcomes in outcomes.items():
        results = [_with_whole(each, size) for each, size in zip(raw_outcomes, whole, strict=True)]
        costs = sorted(each.tokens for each in results)
        ratios = [each.tokens / size for each, size in zip(results, whole, strict=True)]
        cells = [
            f"{_share(_is_recalled(each, 1) for each in results):.3f}",
            f"{_share(_is_recalled(each, RECALL) for each in results):.3f}",
            f"{_share(each.is_listed for each in results):.3f}",
            *(f"{share:.3f}" for share in honesty[name]),
            f"{statistics.median(costs):,.0f}",
            f"{statistics.mean(costs):,.0f}",
            f"{costs[int(0.9 * (len(costs) - 1))]:,}",
            f"{statistics.median(ratios):.2f}",
        ]
        print(f"| {name} | {' | '.join(cells)} |")
    size = f"{statistics.median(whole):,.0f} | {statistics.mean(whole):,.0f}"
    largest = sorted(whole)[int(0.9 * (len(whole) - 1))]
    print(f"| the whole right conversation | | | | | | {size} | {largest:,} | 1.00 |\n")
    _report_kinds(questions, outcomes)


def _report_later(outcomes: dict[str, list[Outcome]]) -> None:
    print("| recall_search | questions | recall@1 | recall@3 | tokens: median |")
    print("|---|---|---|---|---|")
    for name, results in outcomes.items():
        first, three = (
            _share(_is_recalled(each, most) for each in results) for most in (1, RECALL)
        )
        cost = statistics.median(each.tokens for each in results)
        print(f"| {name} | {len(results)} | {first:.3f} | {three:.3f} | {cost:,.0f} |")
    print()


def _report_kinds(
    questions: tuple[memory_set.Question, ...], outcomes: dict[str, list[Outcome]]
) -> None:
    kinds = list(dict.fromkeys(question.kind for question in questions))
    print(f"| recall@{RECALL} | {' | '.join(kinds)} |\n|---|{'---|' * len(kinds)}")
    for name, results in outcomes.items():
        cells = []
        for kind in kinds:
            pairs = zip(results, questions, strict=True)
            cells.append(_share(_is_recalled(each, RECALL) for each, q in pairs if q.kind == kind))
        print(f"| {name} | {' | '.join(f'{cell:.2f}' for cell in cells)} |")


def _report_misses(
    name: str,
    questions: tuple[memory_set.Question, ...],
    outcomes: list[Outcome],
    unrelated: Iterable[str],
) -> None:
    print(f"\n{name}:")
    for question, outcome in zip(questions, outcomes, strict=True):
        if not _is_recalled(outcome, RECALL):
            print(f"  rank {outcome.rank}: {question.text} ({question.key})")
    for text in unrelated:
        print(f"  not nothing: {text}")


def _share(flags: Iterable[bool]) -> float:
    values = list(flags)
    return sum(values) / len(values)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", choices=("answers",), help="there is nothing else")
    parser.add_argument("--misses", action="store_true", help="list what is not answered")
    measure(parser.parse_args().misses)
