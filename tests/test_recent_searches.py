"""The last searches of a library, from which further pages are answered."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import recollect
from recollect import Audience, Page, SearchOptions
from recollect.search import deadline
from recollect.search.passages import ranked_part
from recollect.search.queries.terms import Term
from recollect.settings import LIMITS
from recollect.store.sqlite import passages

FIRST = SearchOptions(limit=10)
SECOND = replace(FIRST, offset=10)


@pytest.fixture
def library(tmp_path: Path) -> Iterator[recollect.Library]:
    with recollect.open(tmp_path, background=False) as library:
        conversation = library.add_conversation(title="Zoo", id="zoo")
        for number in range(40):
            library.add_message(conversation.id, "user", f"walrus number{number} => pool")
        library.index()
        yield library


def ids(page: Page) -> list[str]:
    return [hit.message_id for hit in page.hits]


def count_searches(library: recollect.Library) -> int:
    return len(library._recent_searches._searches)


def test_a_second_page_continues_the_first(library: recollect.Library) -> None:
    whole = library.search("walrus pool", options=replace(FIRST, limit=20))
    pages = [library.search("walrus pool", options=options) for options in (FIRST, SECOND)]
    assert [id for page in pages for id in ids(page)] == ids(whole)
    assert count_searches(library) == 1


def test_a_new_message_is_found_by_the_next_search(library: recollect.Library) -> None:
    assert library.search("walrus pool", options=FIRST).total == 40
    library.add_message("zoo", "user", "walrus pool pool")
    assert library.search("walrus pool", options=FIRST).total == 41


def test_a_deleted_message_is_not_on_the_second_page(library: recollect.Library) -> None:
    library.search("walrus", options=FIRST)
    library.delete_conversation("zoo")
    assert library.search("walrus", options=SECOND).hits == ()


def test_what_a_person_searched_for_is_not_shown_to_agents(library: recollect.Library) -> None:
    library.add_message("zoo", "user", "walrus secret", metadata={"visibility": "human_only"})
    assert library.search("walrus secret", options=FIRST).hits[0].snippet == "walrus secret"
    page = library.search("walrus secret", options=FIRST, audience=Audience.AGENT_HIDDEN)
    assert not [hit for hit in page.hits if "secret" in hit.snippet]


# -- a search that takes too long ---


def test_of_a_very_long_text_the_part_around_the_rarest_term_is_read() -> None:
    terms = [Term((("common",),), weight=1.0), Term((("rare",),), weight=9.0)]
    text = "common — " * 10_000 + "Rare " + "common " * 100_000
    part = ranked_part(text, terms)
    assert len(part) == LIMITS.ranked_characters
    assert part[8_000:].startswith("Rare")
    assert ranked_part("short", terms) == "short"


def test_a_search_that_takes_too_long_returns_what_it_has_found(
    library: recollect.Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deadline, "LIMITS", replace(LIMITS, search_cpu_seconds=-1.0))
    page = library.search("which walrus is in the pool?", options=FIRST)
    assert page.partial and not page.exact
    assert len(page.hits) == 10
    assert "took too long" in page.note
    monkeypatch.undo()
    assert not library.search("which walrus is in the pool?", options=FIRST).partial


def test_a_search_for_symbols_that_takes_too_long_returns_what_it_has_found(
    library: recollect.Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = library.search("=>", options=FIRST)
    assert (whole.total, whole.exact, whole.partial) == (40, True, False)
    monkeypatch.setattr(passages, "LIMITS", replace(LIMITS, search_seconds=-1.0))
    page = library.search("=>", options=FIRST)
    assert page.partial and not page.exact
    assert ids(page) == ids(whole)[:1]
    answer = library.knowledge.search("=>")
    assert answer["partial"] and "took too long" in answer["note"]
