"""Import, index or search with one version of Recollect, for `bench.versions`.

    python bench/one_version.py HOME import EXPORT
    python bench/one_version.py HOME index
    python bench/one_version.py HOME search QUERIES

It runs in the environment of any version since 0.1, so it uses only what all of them have. It
prints the CPU times as JSON.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import recollect


def cpu_seconds(action: Callable[[], object]) -> float:
    start = time.process_time()
    action()
    return time.process_time() - start


def search(library: Any, queries: str) -> dict[str, float]:
    texts: dict[str, list[str]] = json.loads(Path(queries).read_text(encoding="utf-8"))
    find = _search_function(library)
    for text in texts["warmup"]:
        find(text, "both")
    kinds = {"a question, both": "both", "a question, text": "text", "a rare word, text": "rare"}
    times = {}
    for name, part in kinds.items():
        mode = "both" if part == "both" else "text"
        seconds = [cpu_seconds(lambda t=text, m=mode: find(t, m)) for text in texts[part]]
        times[name] = 1000 * statistics.median(seconds)
    times["statistics"] = 1000 * cpu_seconds(library.stats)
    return times


def _search_function(library: Any) -> Callable[[str, str], object]:
    try:
        from recollect.model.search import SearchOptions
    except ImportError:  # version 0.1
        return lambda text, mode: library.search(text, mode=mode, limit=10)
    return lambda text, mode: library.search(text, options=SearchOptions(mode=mode, limit=10))


def main() -> None:
    home, step, *paths = sys.argv[1:]
    with recollect.open(home, background=False) as library:
        if step == "import":
            times = {"importing": cpu_seconds(lambda: library.import_path(paths[0]))}
        elif step == "index":
            times = {"sealing and embedding": cpu_seconds(library.index)}
        else:
            times = search(library, paths[0])
    print(json.dumps(times))


if __name__ == "__main__":
    main()
