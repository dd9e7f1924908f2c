"""A date is found in whatever format a message has it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

import recollect
from recollect import SearchOptions

TEXTS = {
    "iso": "We signed the lease on 2023-03-14.",
    "english": "The lease ends on March 31st, 2026.",
    "german": "Die Kündigung kam am 5. Juli 2024 an.",
    "spanish": "La cita es el 9 de mayo de 2024.",
    "american": "Invoice of 7/21/2024.",
}


@pytest.fixture
def notes(library: recollect.Library) -> recollect.Library:
    for name, text in TEXTS.items():
        message = {"role": "user", "content": text, "created_at": "2022-01-01T12:00:00Z"}
        library.add_conversation(name, messages=[message])
    return library


@pytest.mark.both_stores
def test_a_date_is_found_in_any_format(notes: recollect.Library) -> None:
    queries = {
        "14.03.2023": "iso",
        "14.3.2023": "iso",
        "3/14/2023": "iso",
        "March 14 2023": "iso",
        "2026-03-31": "english",
        "31.3.2026": "english",
        "2024-07-05": "german",
        "9.5.2024": "spanish",
        "2024-07-21": "american",
        "lease 14.3.2023": "iso",
    }
    for query, name in queries.items():
        assert notes.search(query).hits[0].conversation_id == name, query


@pytest.mark.both_stores
def test_a_day_without_a_year_is_found_in_any_format(notes: recollect.Library) -> None:
    texts = {
        "dentist": "Dentist appointment on 15 July at 10:30.",
        "wedding": "The wedding is on May 3rd.",
        "concert": "The concert is on the 22nd of October.",
        "other": "We have 15 chairs since July. The first one broke in June.",
    }
    for name, text in texts.items():
        message = {"role": "user", "content": text, "created_at": "2022-01-01T12:00:00Z"}
        notes.add_conversation(name, messages=[message])
    queries = {
        "July 15": "dentist",
        "July 15th": "dentist",
        "15th of July": "dentist",
        "15 July": "dentist",
        "3 May": "wedding",
        "may 3": "wedding",
        "what is on May 3?": "wedding",
        "july 5": "german",
        "October 22": "concert",
    }
    for query, name in queries.items():
        page = notes.search(query)
        assert page.hits[0].conversation_id == name, query
        assert page.note.startswith("Nothing was written at that time ("), query


def test_a_date_that_is_not_mentioned_is_not_found(notes: recollect.Library) -> None:
    for query in ("15.03.2023", "2023-14-03", "5.6.2024", "7/5/2024", "2023-02-30"):
        page = notes.search(query)
        assert (page.hits, page.total) == ((), 0), query


@pytest.mark.both_stores
def test_what_mentions_a_day_comes_before_what_was_written_on_it(
    notes: recollect.Library,
) -> None:
    """As keywords. A question asks what was written then."""
    message = {"role": "user", "content": "Hello.", "created_at": "2023-03-14T12:00:00Z"}
    notes.add_conversation("written", messages=[message])
    for query in ("March 14 2023", "14 March 2023", "14. März 2023"):
        page = notes.search(query)
        assert [hit.conversation_id for hit in page.hits] == ["iso"], query
        assert page.note == (
            "These mention that day. For what was written then, use after:2023-03-14 "
            "before:2023-03-14."
        )
    page = notes.search("after:2023-03-14 before:2023-03-14")
    assert [hit.conversation_id for hit in page.hits] == ["written"]
    page = notes.search("what happened on March 14 2023?")
    assert [hit.conversation_id for hit in page.hits] == ["written"]


@pytest.mark.both_stores
def test_a_day_without_a_year_is_found_although_something_was_written_then(
    library: recollect.Library,
) -> None:
    now = datetime(2026, 7, 1, 12, tzinfo=UTC)
    texts = {
        "2026-04-09": "Rain all day.",
        "2026-03-01": "The dentist is on 9 April.",
        "2026-02-01": "We leave on April 9th.",
        "2026-02-02": "In April, nine of us meet.",
        "2026-02-03": "Version 1 may break it, or May 11, or I may 1 day.",
        "2026-05-01": "The maypole stands.",
    }
    for day, text in texts.items():
        message = {"role": "user", "content": text, "created_at": f"{day}T12:00:00Z"}
        library.add_conversation(day, messages=[message])
    for query in ("9 April", "April 9", "9th of April", "9. April"):
        page = library.search(query, options=SearchOptions(now=now))
        assert {hit.conversation_id for hit in page.hits} == {"2026-03-01", "2026-02-01"}, query
        assert "after:2026-04-09 before:2026-04-09" in page.note
    page = library.search("1 May", options=SearchOptions(now=now))
    assert [hit.conversation_id for hit in page.hits] == ["2026-05-01"]
    page = library.search("10 April", options=SearchOptions(now=now))
    assert (page.hits, page.note) == ((), "Searched by time only: 2026-04-10.")
