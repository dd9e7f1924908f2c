"""Searching for somebody who must not learn that there are messages only people may see."""

from __future__ import annotations

import pytest

from recollect.library import Library
from recollect.model.audience import Audience
from recollect.store.views import audience as withheld


def fill(library: Library, shown: int = 3, closed: int = 4) -> None:
    library.add_conversation(
        "c1",
        "Launch",
        messages=[
            *(
                {
                    "id": f"h{n}",
                    "role": "user",
                    "content": "launch quagga launch",
                    "visibility": "human_only",
                }
                for n in range(closed)
            ),
            {
                "id": "m",
                "role": "user",
                "content": "launch quagga launch",
                "metadata": {"audience": "Human"},
            },
            *(
                {"id": f"s{n}", "role": "user", "content": f"a launch, number {n}"}
                for n in range(shown)
            ),
        ],
    )


@pytest.fixture(params=["fresh", "indexed"])
def filled(request: pytest.FixtureRequest, library: Library) -> Library:
    fill(library)
    if request.param == "indexed":
        library.index()
    return library


def test_an_exact_search_neither_finds_nor_counts_them(filled: Library) -> None:
    assert filled.match_expression("launch").total == 8
    page = filled.match_expression("launch", audience=Audience.AGENT_HIDDEN)
    assert (sorted(hit.message_id for hit in page.hits), page.total, page.exact) == (
        ["s0", "s1", "s2"],
        3,
        True,
    )
    for query in ("quagga", "launch quagga", '"launch quagga"', "qua*"):
        page = filled.match_expression(query, audience=Audience.AGENT_HIDDEN)
        assert (page.hits, page.total) == ((), 0)
    assert filled.match_expression("launch NOT quagga", audience=Audience.AGENT_HIDDEN).total == 3


def test_a_limit_is_filled_from_behind_them(filled: Library) -> None:
    page = filled.match_expression("launch", limit=2, audience=Audience.AGENT_HIDDEN)
    assert (len(page.hits), page.total) == (2, 3)
    assert {hit.message_id[0] for hit in page.hits} == {"s"}


@pytest.mark.parametrize("group", ["message", "conversation"])
@pytest.mark.parametrize(
    "query", ["launch", "launch quagga", '"launch quagga" number', "quagga OR launch", "!", ""]
)
def test_a_search_does_not_find_them(filled: Library, query: str, group: str) -> None:
    page = filled.search(query, group=group, audience=Audience.AGENT_HIDDEN)
    assert all(one.message_id[0] == "s" for hit in page.hits for one in (hit, *hit.also))
    assert page.total <= 3


def test_a_search_for_what_only_they_have_is_as_one_for_what_nobody_has(filled: Library) -> None:
    closed, nobody = (
        filled.search(query, mode="text", audience=Audience.AGENT_HIDDEN)
        for query in ('"launch quagga"', '"launch okapi"')
    )
    assert closed == nobody


@pytest.mark.parametrize("query", ["role:user", ","])
def test_pages_and_totals_of_queries_without_words_do_not_tell_of_them(
    filled: Library, query: str
) -> None:
    pages = [
        filled.search(query, limit=1, offset=n, audience=Audience.AGENT_HIDDEN) for n in range(4)
    ]
    assert [page.total for page in pages] == [3] * 4
    assert [hit.message_id for page in pages for hit in page.hits] == ["s2", "s1", "s0"]


def test_several_concepts_do_not_find_them(filled: Library) -> None:
    assert filled.search(["launch", "quagga"]).hits
    page = filled.search(["launch", "quagga"], mode="text", audience=Audience.AGENT_HIDDEN)
    assert page.hits == ()


def test_matches_are_counted_only_so_far(filled: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    for most, counted, exact in ((2, 2, False), (3, 3, True), (6, 3, True)):
        monkeypatch.setattr(withheld, "COUNTED", most)
        page = filled.match_expression("launch", limit=1, audience=Audience.AGENT_HIDDEN)
        assert (page.total, page.exact) == (counted, exact)
