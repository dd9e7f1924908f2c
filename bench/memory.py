"""Benchmark the Memory API: answers, the tokens an agent reads for them, and latency per layer.

    python -m bench.memory [FOLDER] [--only answers|tokens|latency] [--questions N]
                           [--observations 100000] [--keep FOLDER] [--misses]

FOLDER contains `longmemeval.json.gz` (see bench.quality); the default is `shared/bench` next to the
project. Tokens are the characters of the tools' output divided by four.

`answers` asks questions about a synthetic set of coding sessions (see `bench.memory_answers`). The
rest of this text is about `tokens`.

The agent does not know which messages are the right ones. It stops when it has read all of them.
The strategies are:

- layers: search with the question and read ten results (layer 1). Get the details of the first two,
  or five, as far as they are observations (layer 2), and read the lines they refer to (layer 3):
  first every question, then the rest of each span, then exchanges; then go on with the next
  results. If that is not enough, search once more for fifty results and go down that list. No span
  is read twice, but the second search repeats the results of the first.
- compact: search for ten results in one line each, and read them one after the other.
- raw search: read the results of `Library.search`, best first, each message in full, up to two
  hundred. Stop after the last right message, or after the page of ten that contains it, as a tool
  would return it.
- recall_search, which has a table of its own: the tokens of its answer, and whether the right
  conversations are in it. The agent reads nothing else.
- whole conversations: read exactly the conversations that contain the right messages. No agent can
  know these; it is the minimum cost of reading whole transcripts.

A message counts once its full text has been read. If a strategy never reads them all, everything it
read counts.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, cast

import recollect
from bench import corpus, memory_answers
from bench.quality import FOLDER, Question, libraries
from recollect.library import Library
from recollect.memory.api import Memory
from recollect.memory.reading import DEFAULT_READ_TOKENS
from recollect.memory.rendering import details_text, search_compact, search_text
from recollect.memory.results import ConversationHit, MemoryFilter, MemoryHit, ObservationHit
from recollect.model.kinds import OBSERVATION
from recollect.model.search import Filter, SearchOptions
from recollect.serve.mcp.catalog import Catalog

FILE = "longmemeval.json.gz"
FIRST, SECOND, AT_ONCE = 10, 50, (2, 5)
MOST_MESSAGES = 200
DETAIL_COUNT = 5
READ_COUNT = 3  # spans an agent reads before it tries something else
CHARACTERS = 4
QUERIES, ROUNDS = 40, 3
BATCH = 20_000
Span = tuple[str, tuple[int, int]]
"""A path and lines of the conversation."""


def tokens(text: str) -> int:
    return -(-len(text) // CHARACTERS)


def normalize_spaces(text: str) -> str:
    return " ".join(text.split())


class Cost(NamedTuple):
    """What an agent read until it had every message, or until nothing was left to read."""

    tokens: int
    complete: bool
    parts: tuple[int, ...] = ()
    """Tokens per layer."""


# -- strategies --------------------------------------------------------------------


class Context:
    """Counts what an agent has read, and which of the right messages are still missing."""

    def __init__(self, targets: dict[str, str]) -> None:
        self.missing = {id_: normalize_spaces(text) for id_, text in targets.items()}
        self.parts = [0, 0, 0]

    def add(self, text: str, layer: int) -> bool:
        """Add a text. True if no message is missing any more."""
        self.parts[layer] += tokens(text)
        text = normalize_spaces(text)
        self.missing = {id_: words for id_, words in self.missing.items() if words not in text}
        return not self.missing

    def cost(self) -> Cost:
        return Cost(sum(self.parts), not self.missing, tuple(self.parts))


def by_layers(library: Library, question: Question, targets: dict[str, str], at_once: int) -> Cost:
    context = Context(targets)
    hits_read: set[Span | str] = set()
    spans_read: set[Span] = set()
    for limit in (FIRST, SECOND):
        answer = library.memory.search(question.text, limit=limit, now=asked_time(question))
        if context.add(search_text(answer, question.text), 0):
            break
        new = [hit for hit in answer.hits if hit_identity(hit) not in hits_read]
        if read_hits(library, new, context, spans_read, at_once):
            break
        hits_read.update(map(hit_identity, new))
    return context.cost()


def hit_identity(hit: MemoryHit) -> Span | str:
    if isinstance(hit, ObservationHit):
        return hit.observation.id
    return hit.path, hit.lines or (0, 0)


def by_compact_results(library: Library, question: Question, targets: dict[str, str]) -> Cost:
    context = Context(targets)
    results = library.memory.search(question.text, limit=FIRST, now=asked_time(question))
    if context.add(search_compact(results, question.text), 0):
        return context.cost()
    for hit in results.hits:
        path = search_compact(replace(results, hits=(hit,)), question.text).split(" ")[0]
        if context.add(library.memory.read(path, max_tokens=DEFAULT_READ_TOKENS), 2):
            break
    return context.cost()


def read_hits(
    library: Library,
    hits: list[MemoryHit],
    context: Context,
    spans_read: set[Span],
    at_once: int,
) -> bool:
    """Read a list of results, some at a time. True if no message is missing any more."""
    for start in range(0, len(hits), at_once):
        page = hits[start : start + at_once]
        ids = [hit.observation.id for hit in page if isinstance(hit, ObservationHit)]
        details: list[ObservationHit] = []
        if ids:
            details = library.memory.get(ids)
            if context.add(details_text(details), 1):
                return True
        exchanges = [exchange_span(hit) for hit in page if isinstance(hit, ConversationHit)]
        for span in (*map(question_span, details), *map(answer_span, details), *exchanges):
            if span is not None and span not in spans_read:
                spans_read.add(span)
                path, lines = span
                if context.add(library.memory.read(path, *lines), 2):
                    return True
    return False


def question_span(hit: ObservationHit) -> Span | None:
    if hit.observation.question_lines is None:
        return None
    return hit.path, hit.observation.question_lines


def exchange_span(hit: ConversationHit) -> Span | None:
    if hit.lines is None:
        return None
    return hit.path, hit.lines


def answer_span(hit: ObservationHit) -> Span | None:
    first, last = hit.observation.lines
    if hit.observation.question_lines is not None:
        first = hit.observation.question_lines[1] + 1
    if first > last:
        return None
    return hit.path, (first, last)


def by_raw_search(
    library: Library, question: Question, texts: dict[str, str], at_once: int
) -> Cost:
    missing, token_count = set(question.messages), 0
    options = SearchOptions(limit=MOST_MESSAGES, now=asked_time(question))
    hits = library.search(question.text, options=options).hits
    for start in range(0, len(hits), at_once):
        page = [hit.message_id for hit in hits[start : start + at_once]]
        token_count += sum(tokens(texts[id_]) for id_ in page)
        missing -= {*page}
        if not missing:
            break
    return Cost(token_count, not missing)


def by_whole_conversations(library: Library, question: Question) -> Cost:
    transcripts = [library.memory.read(f"/-/{id_}.jsonl") for id_ in question.conversations]
    return Cost(sum(map(tokens, transcripts)), True)


def asked_time(question: Question) -> Any:
    from recollect.language.text import bound

    return bound(question.asked_at, end=True)


# -- recall_search ---------------------------------------------------------------------


class RecallAnswer(NamedTuple):
    tokens: int
    ranks: tuple[int, ...]
    """The places of the right conversations, from 1."""
    is_complete: bool
    """Whether all right conversations are in the answer."""


class AskedLibrary:
    """A library that is searched as if it were another time."""

    def __init__(self, library: Library, now: Any) -> None:
        self._library = library
        self._now = now

    def __getattr__(self, name: str) -> Any:
        return getattr(self._library, name)

    def search(self, text: str, filter: Filter, options: SearchOptions, **more: Any) -> Any:
        return self._library.search(text, filter, replace(options, now=self._now), **more)


def by_recall_search(library: Library, question: Question) -> RecallAnswer:
    asked_library = cast(Library, AskedLibrary(library, asked_time(question)))
    context = memory_answers.OpenLibrary(asked_library)
    listing = str(Catalog().call("recall_search", context, {"query": question.text}))
    entries = memory_answers.recall_entries(listing)
    if listing.startswith("Nothing found"):
        entries = ()
    right_ids = {library.short_id(id_) for id_ in question.conversations}
    ranks = [n for n, each in enumerate(entries, 1) if each[1:].partition("]")[0] in right_ids]
    return RecallAnswer(tokens(listing), tuple(ranks), len(ranks) == len(right_ids))


def report_recall_search(answers: dict[str, list[RecallAnswer]]) -> None:
    print("\n### recall_search\n")
    print("| questions | tokens: median | mean | first | in the first 3 | any | all |")
    print("|---|---|---|---|---|---|---|")
    for name, group in answers.items():
        count = max(len(group), 1)
        cells = [
            f"{statistics.median(each.tokens for each in group):,.0f}",
            f"{statistics.mean(each.tokens for each in group):,.0f}",
            *(
                f"{sum(min(each.ranks, default=most + 1) <= most for each in group) / count:.3f}"
                for most in (1, 3, FIRST)
            ),
            f"{sum(each.is_complete for each in group) / count:.3f}",
        ]
        print(f"| {name}: {len(group)} | {' | '.join(cells)} |")


# -- recall per layer -----------------------------------------------------------------


def reach(
    library: Library, question: Question, targets: dict[str, str]
) -> tuple[list[bool], list[bool]]:
    """Whether any, and whether all, of the right conversations are reached.

    Four values each: on the first page, in the first details, in the first lines read; and last,
    whether those lines contain the right messages.
    """
    hits = library.memory.search(question.text, limit=FIRST, now=asked_time(question)).observations
    any_, all_ = [], []
    for some in (hits, hits[:DETAIL_COUNT], hits[:READ_COUNT]):
        conversations = {each.observation.conversation for each in some}
        any_.append(bool(conversations & question.conversations))
        all_.append(question.conversations <= conversations)
    context = Context(targets)
    for each in read_first(library, hits):
        context.add(each, 2)
    any_.append(len(context.missing) < len(targets))
    all_.append(not context.missing)
    return any_, all_


def read_first(library: Library, hits: tuple[ObservationHit, ...]) -> Iterator[str]:
    ids = [each.observation.id for each in hits[:READ_COUNT]]
    if not ids:
        return
    for each in library.memory.get(ids):
        yield library.memory.read(each.path, *each.observation.lines)


def every_way(
    library: Library, question: Question, targets: dict[str, str], texts: dict[str, str]
) -> Iterator[tuple[str, Cost]]:
    for many in AT_ONCE:
        yield f"layers, {many} at once", by_layers(library, question, targets, many)
    yield "compact", by_compact_results(library, question, targets)
    yield "raw search", by_raw_search(library, question, texts, 1)
    yield "raw search, by pages", by_raw_search(library, question, texts, FIRST)
    yield "whole conversations", by_whole_conversations(library, question)


def measure(path: Path, most: int | None) -> None:
    ways: dict[str, list[Cost]] = {}
    layers: list[tuple[list[bool], list[bool]]] = []
    recall_answers: dict[str, list[RecallAnswer]] = {"all": [], "half A": [], "half B": []}
    for conversations, questions in libraries(path):
        texts = {m["id"]: m["content"] for c in conversations for m in c["messages"]}
        with tempfile.TemporaryDirectory() as folder:
            export = Path(folder) / "conversations.json"
            export.write_text(json.dumps({"conversations": conversations}), encoding="utf-8")
            with recollect.open(Path(folder) / "library", background=False) as library:
                library.import_path(export)
                start = time.process_time()
                library.index()
                cpu_seconds = time.process_time() - start
                observations = count(library)
                print(
                    f"{len(texts):,} messages, {observations:,} observations; "
                    f"indexed in {cpu_seconds:.0f} CPU s\n"
                )
                for question in islice(questions, most):
                    targets = {id_: texts[id_] for id_ in question.messages}
                    for way, cost in every_way(library, question, targets, texts):
                        ways.setdefault(way, []).append(cost)
                    layers.append(reach(library, question, targets))
                    recall_answers["all"].append(by_recall_search(library, question))
    report_tokens(ways, len(layers))
    report_recall(layers)
    report_recall_search(recall_answers)


def report_tokens(ways: dict[str, list[Cost]], questions: int) -> None:
    print(f"### Tokens until every right message has been read, {questions} questions\n")
    print(
        "| strategy | reads them all | median | mean | 90th percentile "
        "| comparable: median | comparable: mean |"
    )
    print("|---|---|---|---|---|---|---|")
    comparable = [all(ways[way][n].complete for way in ways) for n in range(questions)]
    for way, costs in ways.items():
        all_tokens = sorted(cost.tokens for cost in costs)
        pairs = zip(costs, comparable, strict=True)
        comparable_tokens = [cost.tokens for cost, counts in pairs if counts] or [0]
        share = sum(cost.complete for cost in costs) / questions
        numbers = (
            statistics.median(all_tokens),
            statistics.mean(all_tokens),
            all_tokens[int(0.9 * (questions - 1))],
            statistics.median(comparable_tokens),
            statistics.mean(comparable_tokens),
        )
        cells = " | ".join(f"{number:,.0f}" for number in numbers)
        print(f"| {way} | {share:.1%} | {cells} |")
    print(
        f"\nThe last two columns count only the {sum(comparable)} questions "
        "for which every strategy reads all right messages."
    )
    for way, costs in ways.items():
        if costs[0].parts:
            pairs = zip(costs, comparable, strict=True)
            fair = [cost for cost, counts in pairs if counts] or costs
            parts = [statistics.mean(cost.parts[n] for cost in fair) for n in range(3)]
            print(
                f"{way}: of that mean, search {parts[0]:,.0f}, "
                f"get_observations {parts[1]:,.0f}, read {parts[2]:,.0f}."
            )


def report_recall(layers: list[tuple[list[bool], list[bool]]]) -> None:
    questions = len(layers)
    print("\n### Recall per layer\n")
    print("| layer | any right conversation | all of them |\n|---|---|---|")
    names = (
        f"1, search: the first {FIRST} observations",
        f"2, get_observations: the first {DETAIL_COUNT}",
        f"3, read: the lines of the first {READ_COUNT}",
        f"right messages in those {READ_COUNT}",
    )
    for number, name in enumerate(names):
        shares = (sum(each[way][number] for each in layers) / questions for way in (0, 1))
        print(f"| {name} | {' | '.join(f'{share:.1%}' for share in shares)} |")


# -- latency ------------------------------------------------------------------------------


def count(library: Library) -> int:
    return library._store.newest(Filter(hidden=True, kinds=(OBSERVATION,)), 1).total


def build(observations: int, folder: Path) -> Library:
    """A library of synthetic conversations with at least `observations` observations."""
    library = recollect.open(folder, background=False)
    seed = 0
    while count(library) < observations:
        library._store.save(list(corpus.documents(BATCH, seed=seed)))
        library.index()
        seed += 1
        print(f"{count(library):,} observations", file=sys.stderr, flush=True)
    return library


def measure_call(work: Callable[[], Any]) -> tuple[float, float]:
    """Wall and CPU milliseconds."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return (time.perf_counter() - wall) * 1_000, (time.process_time() - cpu) * 1_000


def latency(observations: int, keep: Path | None) -> None:
    folder = keep or Path(tempfile.mkdtemp(prefix="recollect-bench-"))
    library = build(observations, folder)
    print(
        f"\n### Latency with {count(library):,} observations "
        f"({library._store.size():,} passages in total)\n"
    )
    print("| layer | median ms | 95 % | CPU, median ms | 95 % |\n|---|---|---|---|---|")
    for name, works in calls(library.memory).items():
        works[0]()  # loads what is cached
        times = [min(measure_call(work) for _ in range(ROUNDS)) for work in works]
        cells = []
        for column in zip(*times, strict=True):
            sorted_times = sorted(column)
            cells += [
                f"{statistics.median(sorted_times):.1f}",
                f"{sorted_times[int(0.95 * (len(sorted_times) - 1))]:.1f}",
            ]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)
    library.close()
    if keep is None:
        shutil.rmtree(folder)


def calls(memory: Memory) -> dict[str, list[Callable[[], Any]]]:
    """The calls to time, by layer. Each returns the text that the tool returns."""
    kinds = corpus.many_queries(QUERIES)
    questions = [
        " ".join(each.words)
        for kind in ("question", "common word", "rare word")
        for each in kinds[kind]
    ]
    hits = [each for text in questions[:QUERIES] for each in memory.search(text).observations]
    if not hits:
        sys.exit("The synthetic conversations have no observations.")
    ids = [each.observation.id for each in hits]
    month = MemoryFilter("2024-03-01", "2024-03-31", types=[hits[0].observation.type])

    def search(**how: Any) -> list[Callable[[], Any]]:
        return [partial(_search, memory, text, how) for text in questions]

    return {
        "search": search(),
        "search, text": search(mode="text"),
        "search, vector": search(mode="vector"),
        "search, one type and one month": search(filters=month),
        "get_observations, 5": _get_calls(memory, ids[:200], 5),
        "get_observations, 20": _get_calls(memory, ids[:200], 20),
        "read, the lines of one observation": [
            partial(memory.read, r.path, *r.observation.lines) for r in memory.get(ids[:20])
        ],
        "timeline": [partial(memory.timeline, id_) for id_ in ids[:QUERIES]],
    }


def _search(memory: Memory, text: str, how: dict[str, Any]) -> str:
    return search_text(memory.search(text, **how), text)


def _get_calls(memory: Memory, ids: list[str], size: int) -> list[Callable[[], Any]]:
    return [partial(_get, memory, ids[n : n + size]) for n in range(0, len(ids), size)]


def _get(memory: Memory, ids: list[str]) -> str:
    return details_text(memory.get(ids))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "folder", nargs="?", type=Path, default=FOLDER, help="folder of the question files"
    )
    parser.add_argument("--only", choices=("answers", "tokens", "latency"))
    parser.add_argument("--questions", type=int, help="use at most this many questions")
    parser.add_argument("--observations", type=int, default=100_000)
    parser.add_argument(
        "--keep",
        type=Path,
        metavar="FOLDER",
        help="build the synthetic library here, or reuse it",
    )
    parser.add_argument(
        "--misses", action="store_true", help="list the questions that memory does not answer"
    )
    arguments = parser.parse_args()
    if arguments.only in (None, "answers"):
        memory_answers.measure(arguments.misses)
    if arguments.only in (None, "tokens"):
        if (arguments.folder / FILE).exists():
            measure(arguments.folder / FILE, arguments.questions)
        else:
            print(f"There is no {FILE} in {arguments.folder}. Skipping the token measurement.")
    if arguments.only in (None, "latency"):
        latency(arguments.observations, arguments.keep)


if __name__ == "__main__":
    main()
