"""Counts of all matches of a search, by what the console offers to select."""

from __future__ import annotations

import pytest

import recollect
from recollect import Filter, SearchOptions


def fill(library: recollect.Library) -> None:
    library.add_conversation(
        "trip",
        "A trip",
        project="travel",
        messages=[
            {"role": "user", "content": "Which tram?", "created_at": "2026-03-01T10:00:00Z"},
            {
                "role": "assistant",
                "content": "Tram 22.",
                "model": "gpt-4o",
                "created_at": "2026-04-02T10:00:00Z",
            },
        ],
    )
    library.add_conversation(
        "work",
        "Work",
        messages=[
            {"role": "user", "content": "The tram was late", "created_at": "2026-04-05T10:00:00Z"}
        ],
    )
    library.knowledge.create("notes", {"title": "Trams", "content": "A tram, and another tram."})


@pytest.mark.both_stores
def test_matches_are_counted_by_every_property(library: recollect.Library) -> None:
    fill(library)
    counts = library.count_matches("tram")
    assert counts is not None
    assert (counts.messages, counts.conversations, counts.exact) == (3, 2, True)
    assert counts.kinds == (("conversation", 3), ("note", 1))
    assert counts.projects == (("travel", 2), ("default", 1))
    assert counts.months == (("2026-03", 1), ("2026-04", 2))
    assert counts.models == (("gpt-4o", 2),)
    assert counts.roles == (("user", 2), ("assistant", 1))


@pytest.mark.both_stores
def test_a_count_is_the_total_of_the_search_that_selecting_it_gives(
    library: recollect.Library,
) -> None:
    fill(library)
    options = SearchOptions(mode="text")
    for field in ("projects", "sources", "roles", "models"):
        counts = library.count_matches("tram", Filter.of(**{"roles": "user", field: "x"}))
        assert counts is not None
        for name, count in getattr(counts, field):
            filter = Filter.of(**{"kinds": "conversation", "roles": "user", field: name})
            assert library.search("tram", filter, options).total == count


def test_fields_of_the_query_are_always_applied(library: recollect.Library) -> None:
    fill(library)
    counts = library.count_matches("tram project:travel -role:user")
    assert counts is not None
    assert (counts.messages, counts.projects) == (1, (("travel", 1),))
    only_fields = library.count_matches("source:recollect")
    assert only_fields is not None
    assert only_fields.messages == 3
    assert library.search("tram source:Recollect", options=SearchOptions(mode="text")).total == 4
    assert library.search("tram -source:recollect", options=SearchOptions(mode="text")).total == 0


def test_a_search_by_meaning_or_for_punctuation_has_no_counts(library: recollect.Library) -> None:
    fill(library)
    assert library.count_matches("tram", options=SearchOptions(mode="vector")) is None
    assert library.count_matches("???") is None


@pytest.mark.both_stores
def test_a_title_with_some_of_the_words_does_not_change_the_count_of_messages(
    library: recollect.Library,
) -> None:
    titles_and_texts = {
        "First": "alpha and beta",
        "Second": "beta before alpha",
        "alpha": "something else",  # not a match
        "alpha beta": "nothing",  # a match only by its title
    }
    for title, text in titles_and_texts.items():
        library.add_conversation(title, title, messages=[{"role": "user", "content": text}])
    by_message = {"chats": {"by": "message"}}
    answer = library.knowledge.search("alpha AND beta", sources=["chats"], filters=by_message)
    assert len(answer["results"]) == answer["total_estimated"] == 2
