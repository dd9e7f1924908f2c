"""What remembering costs: tokens that an agent takes in until it has what it looked for, and the time of each layer.

    python -m bench.memory [FOLDER] [--only tokens|latency] [--questions N] [--observations 100000] [--keep FOLDER]

FOLDER holds `longmemeval.json.gz` (see bench.quality); by default `shared/bench` beside the project. Tokens are
characters over four, of the very texts that the tools answer.

The agent does not know which messages are right; it only stops when it has them all, and so does everybody it is
compared with:

- layers: it searches with the question as it is and reads the ten observations that come (layer 1). It asks for the
  details of the first two, or five (layer 2), and reads the lines that each of them names (layer 3): first of each what
  the person asked, then of each the rest; then the same with the next ones. If that was not enough it searches once
  more, for fifty, and goes on down that list. What it has read it does not read again, but for the results that the
  second search repeats.
- raw search: the messages of `Library.search`, best first, each whole, up to two hundred. It stops right after the last
  one that it wants, or, as a tool would answer, after the page of ten that has it.
- whole conversations: those that hold the right messages, and no other. Nobody could know them: it is what reading the
  right transcripts would cost at least.

A message counts when its whole text is in what was read. Where a way does not come to an end, what it took in counts.
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
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import recollect
from bench import corpus
from bench.quality import FOLDER, Question, libraries
from recollect.library import Library
from recollect.memory.api import Memory
from recollect.memory.filters import MemoryFilter
from recollect.memory.render import details_text, search_text
from recollect.memory.results import ObservationHit
from recollect.model.kinds import OBSERVATION
from recollect.model.search import Filter, SearchOptions

FILE = "longmemeval.json.gz"
FIRST, SECOND, AT_ONCE = 10, 50, (2, 5)
MOST_MESSAGES = 200
DETAILED = 5
READ_SOON = 3  # spans that are read before anybody would look elsewhere
CHARACTERS = 4
QUERIES, ROUNDS = 40, 3
BATCH = 20_000


def tokens(text: str) -> int:
    return -(-len(text) // CHARACTERS)


def folded(text: str) -> str:
    return " ".join(text.split())


class Taken(NamedTuple):
    """What an agent took in until it had everything, or nothing was left to take."""

    tokens: int
    whole: bool
    parts: tuple[int, ...] = ()
    """Of it in each layer."""


# -- ways to the right messages ----------------------------------------------------


class Context:
    """What an agent has read, and which of the messages that it wants are not in it yet."""

    def __init__(self, wanted: dict[str, str]) -> None:
        self.missing = {id_: folded(text) for id_, text in wanted.items()}
        self.parts = [0, 0, 0]

    def take(self, text: str, layer: int) -> bool:
        """Read something; whether nothing is missing any more."""
        self.parts[layer] += tokens(text)
        read = folded(text)
        self.missing = {id_: words for id_, words in self.missing.items() if words not in read}
        return not self.missing

    def taken(self) -> Taken:
        return Taken(sum(self.parts), not self.missing, tuple(self.parts))


def by_layers(library: Library, question: Question, wanted: dict[str, str], at_once: int) -> Taken:
    context = Context(wanted)
    known: set[str] = set()
    read: set[tuple[str, tuple[int, int]]] = set()
    for limit in (FIRST, SECOND):
        answer = library.memory.search(question.text, limit=limit, now=moment(question))
        if context.take(search_text(answer, question.text), 0):
            break
        new = [
            each.observation.id for each in answer.observations if each.observation.id not in known
        ]
        if down(library, new, context, read, at_once):
            break
        known |= {*new}
    return context.taken()


def down(
    library: Library,
    ids: list[str],
    context: Context,
    read: set[tuple[str, tuple[int, int]]],
    at_once: int,
) -> bool:
    """Go down a list of observations, some at once; whether nothing is missing any more."""
    for start in range(0, len(ids), at_once):
        details = library.memory.get(ids[start : start + at_once])
        if context.take(details_text(details), 1):
            return True
        for place in (*map(asked_in, details), *map(rest_of, details)):
            if place is not None and place not in read:
                read.add(place)
                path, lines = place
                if context.take(library.memory.read(path, *lines), 2):
                    return True
    return False


Place = tuple[str, tuple[int, int]]


def asked_in(one: ObservationHit) -> Place | None:
    return (
        None
        if one.observation.question_lines is None
        else (one.path, one.observation.question_lines)
    )


def rest_of(one: ObservationHit) -> Place | None:
    first, last = one.observation.lines
    if one.observation.question_lines is not None:
        first = one.observation.question_lines[1] + 1
    return None if first > last else (one.path, (first, last))


def by_raw_search(
    library: Library, question: Question, texts: dict[str, str], at_once: int
) -> Taken:
    missing, took = set(question.messages), 0
    hits = library.search(
        question.text, options=SearchOptions(limit=MOST_MESSAGES, now=question.asked_at)
    ).hits
    for start in range(0, len(hits), at_once):
        page = [hit.message_id for hit in hits[start : start + at_once]]
        took += sum(tokens(texts[id_]) for id_ in page)
        missing -= {*page}
        if not missing:
            break
    return Taken(took, not missing)


def by_whole_conversations(library: Library, question: Question) -> Taken:
    paths = library.memory
    return Taken(sum(tokens(paths.read(f"/-/{id_}.jsonl")) for id_ in question.conversations), True)


def moment(question: Question) -> Any:
    from recollect.language.text import bound

    return bound(question.asked_at, end=True)


# -- what is reached ------------------------------------------------------------------


def reached(
    library: Library, question: Question, wanted: dict[str, str]
) -> tuple[list[bool], list[bool]]:
    """Whether any and all right conversations are among the first page, the details that are asked for first, and
    what is read first; and last, whether the right messages are in that."""
    found = library.memory.search(question.text, limit=FIRST, now=moment(question)).observations
    any_, all_ = [], []
    for some in (found, found[:DETAILED], found[:READ_SOON]):
        there = {each.observation.conversation for each in some}
        any_.append(bool(there & question.conversations))
        all_.append(question.conversations <= there)
    context = Context(wanted)
    for each in read_first(library, found):
        context.take(each, 2)
    any_.append(len(context.missing) < len(wanted))
    all_.append(not context.missing)
    return any_, all_


def read_first(library: Library, found: tuple[ObservationHit, ...]) -> Iterator[str]:
    if ids := [each.observation.id for each in found[:READ_SOON]]:
        for each in library.memory.get(ids):
            yield library.memory.read(each.path, *each.observation.lines)


def every_way(
    library: Library, question: Question, wanted: dict[str, str], texts: dict[str, str]
) -> Iterator[tuple[str, Taken]]:
    for many in AT_ONCE:
        yield f"layers, {many} at once", by_layers(library, question, wanted, many)
    yield "raw search", by_raw_search(library, question, texts, 1)
    yield "raw search, by pages", by_raw_search(library, question, texts, FIRST)
    yield "whole conversations", by_whole_conversations(library, question)


def measure(path: Path, most: int | None) -> None:
    ways: dict[str, list[Taken]] = {}
    layers: list[tuple[list[bool], list[bool]]] = []
    for conversations, questions in libraries(path):
        texts = {m["id"]: m["content"] for c in conversations for m in c["messages"]}
        with tempfile.TemporaryDirectory() as folder:
            export = Path(folder) / "conversations.json"
            export.write_text(json.dumps({"conversations": conversations}), encoding="utf-8")
            with recollect.open(Path(folder) / "library", background=False) as library:
                library.import_path(export)
                began = time.process_time()
                library.index()
                spent = time.process_time() - began
                observations = count(library)
                print(
                    f"{len(texts):,} messages, {observations:,} observations; indexed in {spent:.0f} s of CPU\n"
                )
                for question in islice(questions, most):
                    wanted = {id_: texts[id_] for id_ in question.messages}
                    for way, taken in every_way(library, question, wanted, texts):
                        ways.setdefault(way, []).append(taken)
                    layers.append(reached(library, question, wanted))
    tell(ways, layers)


def tell(ways: dict[str, list[Taken]], layers: list[tuple[list[bool], list[bool]]]) -> None:
    question_lines = len(layers)
    print(f"### Tokens until every right message is in the context, {question_lines} questions\n")
    print(
        "| way | it comes to that | median | mean | 90 % need at most | where it does: median | mean |"
    )
    print("|---|---|---|---|---|---|---|")
    both = [all(ways[way][n].whole for way in ways) for n in range(question_lines)]
    for way, taken in ways.items():
        every = sorted(each.tokens for each in taken)
        ended = [each.tokens for each, fair in zip(taken, both, strict=True) if fair] or [0]
        whole = sum(each.whole for each in taken) / question_lines
        print(
            f"| {way} | {whole:.1%} | {statistics.median(every):,.0f} | {statistics.mean(every):,.0f} | "
            f"{every[int(0.9 * (question_lines - 1))]:,} | {statistics.median(ended):,.0f} | {statistics.mean(ended):,.0f} |"
        )
    print(f"\nThe last two columns are of the {sum(both)} questions where every way comes to it.")
    for way, taken in ways.items():
        if taken[0].parts:
            fair = [each for each, counts in zip(taken, both, strict=True) if counts] or taken
            parts = [statistics.mean(each.parts[n] for each in fair) for n in range(3)]
            print(
                f"{way}: search {parts[0]:,.0f}, get_observations {parts[1]:,.0f}, read {parts[2]:,.0f} of that mean."
            )
    print()
    print("### What is reached in each layer\n")
    print("| layer | any right conversation | all of them |\n|---|---|---|")
    names = (
        f"1, search: the first {FIRST} observations",
        f"2, get_observations: the first {DETAILED}",
        f"3, read: the lines of the first {READ_SOON}",
        f"right messages in those {READ_SOON}",
    )
    for number, name in enumerate(names):
        shares = (sum(each[way][number] for each in layers) / question_lines for way in (0, 1))
        print(f"| {name} | {' | '.join(f'{share:.1%}' for share in shares)} |")


# -- latency ------------------------------------------------------------------------------


def count(library: Library) -> int:
    return library._store.newest(Filter(hidden=True, kinds=(OBSERVATION,)), 1, 0)[1]


def build(observations: int, folder: Path) -> Library:
    """A library of synthetic conversations with at least so many observations, made by the rules like any other."""
    library = recollect.open(folder, background=False)
    seed = 0
    while count(library) < observations:
        library._store.save(list(corpus.documents(BATCH, seed=seed)))
        library.index()
        seed += 1
        print(f"{count(library):,} observations", file=sys.stderr, flush=True)
    return library


def timed(work: Callable[[], Any]) -> tuple[float, float]:
    """Milliseconds, and milliseconds of CPU."""
    began, cpu = time.perf_counter(), time.process_time()
    work()
    return (time.perf_counter() - began) * 1_000, (time.process_time() - cpu) * 1_000


def latency(observations: int, keep: Path | None) -> None:
    folder = keep or Path(tempfile.mkdtemp(prefix="recollect-bench-"))
    library = build(observations, folder)
    print(
        f"\n### Latency at {count(library):,} observations, {library._store.size():,} passages in all\n"
    )
    print("| layer | median ms | 95 % | CPU, median ms | 95 % |\n|---|---|---|---|---|")
    for name, works in calls(library.memory).items():
        works[0]()  # what is loaded once is loaded
        times = [min(timed(work) for _ in range(ROUNDS)) for work in works]
        cells = []
        for column in zip(*times, strict=True):
            ordered = sorted(column)
            cells += [
                f"{statistics.median(ordered):.1f}",
                f"{ordered[int(0.95 * (len(ordered) - 1))]:.1f}",
            ]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)
    library.close()
    if keep is None:
        shutil.rmtree(folder)


def calls(memory: Memory) -> dict[str, list[Callable[[], Any]]]:
    """What is timed: the same texts that the tools answer."""
    kinds = corpus.many_queries(QUERIES)
    question_lines = [
        " ".join(each.words)
        for kind in ("question", "common word", "rare word")
        for each in kinds[kind]
    ]
    found = [each for text in question_lines[:QUERIES] for each in memory.search(text).observations]
    if not found:
        sys.exit("Nothing was observed in the synthetic conversations.")
    ids = [each.observation.id for each in found]
    month = MemoryFilter("2024-03-01", "2024-03-31", types=[found[0].observation.type])

    def search(**how: Any) -> list[Callable[[], Any]]:
        return [partial(_search, memory, text, how) for text in question_lines]

    return {
        "search": search(),
        "search, text": search(mode="text"),
        "search, vector": search(mode="vector"),
        "search, one type and one month": search(filters=month),
        "get_observations, 5": [partial(_get, memory, ids[n : n + 5]) for n in range(0, 200, 5)],
        "get_observations, 20": [partial(_get, memory, ids[n : n + 20]) for n in range(0, 200, 20)],
        "read, the lines of one": [
            partial(memory.read, r.path, *r.observation.lines) for r in memory.get(ids[:20])
        ],
        "timeline": [partial(memory.timeline, id_) for id_ in ids[:QUERIES]],
    }


def _search(memory: Memory, text: str, how: dict[str, Any]) -> str:
    return search_text(memory.search(text, **how), text)


def _get(memory: Memory, ids: list[str]) -> str:
    return details_text(memory.get(ids))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "folder", nargs="?", type=Path, default=FOLDER, help="where the questions are"
    )
    parser.add_argument("--only", choices=("tokens", "latency"))
    parser.add_argument("--questions", type=int, help="only so many")
    parser.add_argument("--observations", type=int, default=100_000)
    parser.add_argument(
        "--keep",
        type=Path,
        metavar="FOLDER",
        help="keep the synthetic library there, or use it again",
    )
    given = parser.parse_args()
    if given.only != "latency":
        if (given.folder / FILE).exists():
            measure(given.folder / FILE, given.questions)
        else:
            print(f"There is no {FILE} in {given.folder}: the tokens are not measured.")
    if given.only != "tokens":
        latency(given.observations, given.keep)


if __name__ == "__main__":
    main()
