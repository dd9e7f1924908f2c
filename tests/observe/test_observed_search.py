"""Observations help to find the messages that they were made of."""

from __future__ import annotations

import pytest

from recollect import Filter, Library, Page, SearchOptions
from recollect.model.kinds import CONVERSATION

QUERY = "Where do we keep the request keys of payments?"


def add(library: Library, id_: str, *texts: str, project: str = "/work/shop") -> None:
    messages = [
        {"id": f"{id_}-{n}", "role": ("user", "assistant")[n % 2], "content": text}
        for n, text in enumerate(texts)
    ]
    library.add_conversation(id_, id_, project=project, messages=messages)


@pytest.fixture
def shop(library: Library) -> Library:
    add(
        library,
        "decision",
        "Customers hit the button twice and pay again. Redis or Postgres for the request keys?",
        "A table next to the payments lets both commit in one transaction.",
        "Makes sense, go with the table.",
        "Done: what was submitted is remembered in `charge_requests`, purged after 72 hours.",
    )
    add(library, "keys", "I keep losing my keys.", "Keep them in a bowl next to the door.")
    library.index()
    return library


def search(library: Library, text: str, filter: Filter | None = None) -> Page:
    options = SearchOptions(group="conversation", observations=True)
    return library.search(text, filter, options)


@pytest.mark.both_stores
def test_an_observation_stands_for_a_message(shop: Library) -> None:
    page = search(shop, QUERY)
    assert page.hits[0].conversation_id == "decision"
    assert {hit.kind for hit in page.hits} == {CONVERSATION}
    assert page.total == 2


def test_an_observation_raises_the_score_of_its_message(shop: Library) -> None:
    plain = shop.search(QUERY, options=SearchOptions(group="conversation"))
    shares = [
        scores["keys"] / scores["decision"]
        for page in (plain, search(shop, QUERY))
        for scores in [{hit.conversation_id: hit.score for hit in page.hits}]
    ]
    assert shares[1] < shares[0]


def test_operators_and_filters_hold_for_the_messages(shop: Library) -> None:
    assert [hit.message_id for hit in search(shop, "table AND payments").hits] == ["decision-1"]
    page = search(shop, QUERY, Filter.of(projects="/work/other"))
    assert not page.hits
    page = search(shop, QUERY, Filter.of(roles="assistant"))
    assert {hit.role for hit in page.hits} == {"assistant"}


@pytest.mark.both_stores
def test_what_was_observed_as_a_preference_answers_what_is_allowed(library: Library) -> None:
    add(library, "rule", "Never mock the bank in the payment tests.", "Understood.")
    add(library, "mock", "Which mock library is used in these tests?", "The mock in the tests.")
    library.index()
    assert search(library, "May I mock the ledger in tests?").hits[0].conversation_id == "rule"
    assert search(library, "Who wrote the mock in tests?").hits[0].conversation_id == "mock"
