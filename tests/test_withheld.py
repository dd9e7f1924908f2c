"""Searches for agents that must not learn that human-only messages exist."""

from __future__ import annotations

from dataclasses import replace

import pytest
from limits import few_counted_for_agents

from recollect import Audience, Library, SearchOptions

AGENT = Audience.AGENT_HIDDEN
SECRET_TEXT = "launch quagga launch"


def fill(library: Library) -> None:
    hidden = [
        {"id": f"h{n}", "role": "user", "content": SECRET_TEXT, "visibility": "human_only"}
        for n in range(4)
    ]
    hidden_by_metadata = {
        "id": "m",
        "role": "user",
        "content": SECRET_TEXT,
        "metadata": {"audience": "Human"},
    }
    visible = [
        {"id": f"s{n}", "role": "user", "content": f"a launch, number {n}"} for n in range(3)
    ]
    library.add_conversation("c1", "Launch", messages=[*hidden, hidden_by_metadata, *visible])


@pytest.fixture(params=[pytest.param("fresh", marks=pytest.mark.full), "indexed"])
def launches(request: pytest.FixtureRequest, library: Library) -> Library:
    """A conversation with five human-only messages and three that everybody may see."""
    fill(library)
    if request.param == "indexed":
        library.index()
    return library


def test_an_exact_search_neither_finds_nor_counts_human_only_messages(launches: Library) -> None:
    assert launches.match_expression("launch").total == 8
    page = launches.match_expression("launch", audience=AGENT)
    assert sorted(hit.message_id for hit in page.hits) == ["s0", "s1", "s2"]
    assert (page.total, page.exact) == (3, True)
    for query in ("quagga", "launch quagga", '"launch quagga"', "qua*"):
        page = launches.match_expression(query, audience=AGENT)
        assert (page.hits, page.total) == ((), 0)
    assert launches.match_expression("launch NOT quagga", audience=AGENT).total == 3


def test_a_page_is_filled_with_visible_messages(launches: Library) -> None:
    page = launches.match_expression("launch", limit=2, audience=AGENT)
    assert (len(page.hits), page.total) == (2, 3)
    assert {hit.message_id[0] for hit in page.hits} == {"s"}


@pytest.mark.parametrize("group", ["message", "conversation"])
@pytest.mark.parametrize(
    "query", ["launch", "launch quagga", '"launch quagga" number', "quagga OR launch", "!", ""]
)
def test_a_search_does_not_find_human_only_messages(
    launches: Library, query: str, group: str
) -> None:
    page = launches.search(query, options=SearchOptions(group=group), audience=AGENT)
    assert all(one.message_id[0] == "s" for hit in page.hits for one in (hit, *hit.also))
    assert page.total <= 3


@pytest.mark.parametrize(
    ("hidden", "absent"),
    [
        ('"launch quagga"', '"launch okapi"'),
        ("launch quagga", "launch okapi"),
        ("launch quag", "launch okap"),
        ("launch AND quagga", "launch AND okapi"),
        ("launch OR quagga", "launch OR okapi"),
        ("quagga", "okapi"),
    ],
)
def test_hidden_words_give_the_same_results_and_scores_as_absent_words(
    launches: Library, hidden: str, absent: str
) -> None:
    hidden_page, absent_page = [
        launches.search(q, options=SearchOptions(mode="text"), audience=AGENT)
        for q in (hidden, absent)
    ]
    # The pages quote words of their queries.
    note = _with_okapi(hidden_page.note)
    missing = tuple(map(_with_okapi, hidden_page.missing))
    assert replace(hidden_page, note=note, missing=missing) == absent_page


def _with_okapi(text: str) -> str:
    return text.replace("quag", "okap").replace("okapga", "okapi")


@pytest.mark.parametrize("query", ["role:user", ","])
def test_pages_and_totals_of_queries_without_words_leave_out_human_only_messages(
    launches: Library, query: str
) -> None:
    pages = [
        launches.search(query, options=SearchOptions(limit=1, offset=n), audience=AGENT)
        for n in range(4)
    ]
    assert [page.total for page in pages] == [3] * 4
    assert [hit.message_id for page in pages for hit in page.hits] == ["s2", "s1", "s0"]


def test_a_search_for_several_concepts_does_not_find_human_only_messages(
    launches: Library,
) -> None:
    assert launches.search(["launch", "quagga"]).hits
    page = launches.search(["launch", "quagga"], options=SearchOptions(mode="text"), audience=AGENT)
    assert page.hits == ()


@pytest.mark.parametrize(("limit", "total", "exact"), [(2, 2, False), (3, 3, True), (6, 3, True)])
def test_visible_matches_are_counted_up_to_a_limit(
    launches: Library, monkeypatch: pytest.MonkeyPatch, limit: int, total: int, exact: bool
) -> None:
    few_counted_for_agents(monkeypatch, limit)
    page = launches.match_expression("launch", limit=1, audience=AGENT)
    assert (page.total, page.exact) == (total, exact)
