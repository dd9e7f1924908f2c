"""On a busy computer, searches take longer and have the same answers, or say that they are partial.

The clocks are replaced, so that the tests do not depend on time.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from selection import few

import recollect
from recollect.errors import SearchTimeout
from recollect.search import deadline
from recollect.search.candidates import CANDIDATES
from recollect.settings import LIMITS
from recollect.store.sql import store as transactions

SQLITE = pytest.mark.parametrize("place", ["sqlite"], indirect=True)


def fill(library: recollect.Library, count: int = 300) -> None:
    messages = [
        {"role": "user", "content": f"boat {n} lies in the harbour near the crane"}
        for n in range(count)
    ]
    library.add_conversation("c1", "Boats", messages=messages)
    library.index()


@SQLITE
def test_time_in_which_others_run_does_not_count(
    library: recollect.Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two steps of SQLite, ten seconds pass, but this thread does not run."""
    fill(library)
    expected = library.search("boat harbour").hits
    library.add_message("c1", "user", "something else")  # so that the search is made again
    now = time.monotonic()

    def clock() -> float:
        nonlocal now
        now += 0.01
        return now

    monkeypatch.setattr(transactions, "LIMITS", replace(LIMITS, search_seconds=30.0))
    monkeypatch.setattr(time, "monotonic", clock)
    page = library.search("boat harbour")
    assert [hit.message_id for hit in page.hits] == [hit.message_id for hit in expected]
    assert not page.partial


def fail_after(calls: int, method: Callable[..., Any]) -> Callable[..., Any]:
    """A method that exceeds its time limit after so many calls."""
    remaining = calls

    def limited(*arguments: Any, **options: Any) -> Any:
        nonlocal remaining
        remaining -= 1
        if remaining < 0:
            raise SearchTimeout("The search took too long and was stopped.")
        return method(*arguments, **options)

    return limited


@pytest.mark.parametrize("method", few(["count", "nearest", "frequencies", "variants"]))
def test_a_step_that_takes_too_long_makes_the_answer_partial(
    library: recollect.Library, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    fill(library, CANDIDATES + 1)  # more than one arm finds, so they are counted
    monkeypatch.setattr(library._store, method, fail_after(0, getattr(library._store, method)))
    page = library.search("boat harbour")
    assert page.hits
    assert page.partial
    assert not page.exact
    assert page.total >= len(page.hits)
    assert "there may be more and better results" in page.note
    assert not page.missing


def test_a_search_that_found_nothing_in_time_is_an_error(
    library: recollect.Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(library, 20)
    for method in ("match", "nearest"):
        monkeypatch.setattr(library._store, method, fail_after(0, lambda: None))
    with pytest.raises(SearchTimeout, match="before it found anything"):
        library.search("boat harbour")


def test_a_search_over_all_kinds_can_be_partial(
    library: recollect.Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(library, 20)
    store = library._store
    monkeypatch.setattr(store, "nearest", fail_after(0, store.nearest))
    results = library.knowledge.search("boat harbour")
    assert results["partial"]
    assert results["results"]


@pytest.mark.both_stores
def test_quotes_that_cannot_be_found_in_time_leave_a_partial_answer(
    library: recollect.Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(library, 20)
    store = library._store
    match = store.match

    def slow_match(node: Any, filter: Any, limit: int) -> list[int]:
        if limit == 1:
            raise SearchTimeout("The search took too long and was stopped.")
        return match(node, filter, limit)

    monkeypatch.setattr(store, "match", slow_match)
    query = 'the "rain barrel" near the boat in the harbour'
    page = library.search(query)
    assert page.hits
    assert page.partial
    results = library.knowledge.search(query)
    assert results["results"]
    assert results["partial"]
    assert deadline.NOTE in library.memory.search(query).note
    with pytest.raises(SearchTimeout):
        library.count_matches(query)
