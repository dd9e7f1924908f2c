"""Numbers are found with and without separators, versions with and without a v."""

from __future__ import annotations

import pytest

import recollect
from recollect import SearchOptions


@pytest.mark.parametrize("mode", ["both", "text"])
def test_a_number_is_found_in_either_format(library: recollect.Library, mode: str) -> None:
    texts = {
        "flight": "The flight to Lisbon cost €1,249.50, the hotel $980.",
        "budget": "The budget is 1250000 for this year.",
        "other": "Room 249 has 1 window and 50 chairs.",
    }
    for id_, text in texts.items():
        library.add_conversation(id_, messages=[{"role": "user", "content": text}])
    library.index()
    first_hits = {
        "1249": "flight",
        "1249.50": "flight",
        "€1249.50": "flight",
        "how much was the 1249 euro flight": "flight",
        "1,250,000": "budget",
        "1.250.000": "budget",
        "budget 1,250,000": "budget",
    }
    for query, first in first_hits.items():
        page = library.search(query, options=SearchOptions(mode=mode))
        hit = page.hits[0]
        assert hit.conversation_id == first, query
        assert not any("1" in word for word in page.missing), query
        marked = {hit.snippet[start:end] for start, end in hit.marks}
        assert marked & {"1,249", "1,249.50", "1250000"}, query


def test_a_number_that_the_library_has_is_found_as_it_was_typed(
    library: recollect.Library,
) -> None:
    for text in ("The meeting is in room 2024.", "It costs 2,024 dollars."):
        library.add_conversation(messages=[{"role": "user", "content": text}])
    page = library.search("2024")
    assert [hit.snippet for hit in page.hits] == ["The meeting is in room 2024."]


@pytest.mark.both_stores
def test_a_version_is_found_with_and_without_a_v(library: recollect.Library) -> None:
    texts = {
        "deploy": "The deploy fails since v2.14.0-rc.3, so we changed it back.",
        "parser": "We use nom 7.1.3 instead of pest.",
        "other": "Version 2 has 14 pages and 0 pictures, of which 3 are large.",
    }
    for id_, text in texts.items():
        library.add_conversation(id_, messages=[{"role": "user", "content": text}])
    library.index()
    first_hits = {
        "2.14.0": "deploy",
        "2.14.0-rc.3": "deploy",
        "what changed in 2.14.0-rc.3?": "deploy",
        "v7.1.3": "parser",
    }
    for query, first in first_hits.items():
        page = library.search(query)
        assert (page.hits[0].conversation_id, page.note) == (first, ""), query


@pytest.mark.both_stores
def test_an_amount_is_found_without_the_space_before_its_unit(library: recollect.Library) -> None:
    for id_, text in (("bread", "Mix 500 g flour with water."), ("cake", "Sift the flour.")):
        library.add_conversation(id_, messages=[{"role": "user", "content": text}])
    library.index()
    for query in ("500g flour", "500g"):
        page = library.search(query)
        assert (page.hits[0].conversation_id, page.note) == ("bread", "")
        assert page.hits[0].score == 1
    assert library.search("750g").hits == ()
