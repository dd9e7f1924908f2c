"""Search while the background thread indexes what was imported.

    python -m bench.background [--messages 60000] [--seconds 30]

Imports a ChatGPT export without indexing it, opens the library with its background thread, and asks
one question after another in mode `both` until all conversations are observed, or the time is
over. Then the same without work in the background. Times are wall time, because what
matters is how long a search waits for its turn.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path

import recollect
from bench import corpus
from bench.speed import format_ms, table_head, table_row
from bench.use import median_and_95th_percentile
from recollect.library import Library
from recollect.memory.backlog import has_backlog
from recollect.model.search import SearchOptions

_OPTIONS = SearchOptions(mode="both", limit=10)
_QUESTIONS = 1_500
_SECONDS_PER_ROW = 5.0
_SEARCHES_AT_REST = 100


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--messages", type=int, default=60_000)
    parser.add_argument("--seconds", type=float, default=30.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        _import(home, options.messages)
        queries = corpus.many_queries(_QUESTIONS)["question"]
        questions = cycle(" ".join(query.words) for query in queries)
        table_head("in the background", "searches", "wall ms p50", "p95", "max", "with vectors")
        with recollect.open(home) as library:
            _show_work(library, questions, options.seconds)
            library.pause_indexing()
        with recollect.open(home, background=False) as library:
            times = [_search(library, questions) for _ in range(_SEARCHES_AT_REST)]
            _show("nothing", times, library)


def _import(home: Path, messages: int) -> None:
    export = home.with_suffix(".json")
    corpus.write_chatgpt_export(export, messages)
    with recollect.open(home, background=False) as library:
        library.import_path(export)


def _show_work(library: Library, questions: Iterator[str], seconds: float) -> None:
    """Search while there is work, and show the times of every few seconds."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and has_backlog(library._store):
        row_end = time.monotonic() + _SECONDS_PER_ROW
        times = []
        while time.monotonic() < row_end:
            times.append(_search(library, questions))
        _show("indexing", times, library)


def _search(library: Library, questions: Iterator[str]) -> float:
    start = time.perf_counter()
    library.search(next(questions), options=_OPTIONS)
    return (time.perf_counter() - start) * 1000


def _show(work: str, times: list[float], library: Library) -> None:
    median, high = median_and_95th_percentile(times)
    longest = format_ms(max(times))
    share = f"{library.index_status().share:.0%}"
    table_row(work, len(times), format_ms(median), format_ms(high), longest, share)


if __name__ == "__main__":
    main()
