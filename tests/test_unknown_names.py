"""A search that finds nothing because its filter names something that nothing has says so."""

from __future__ import annotations

from typing import Any

import pytest
from selection import few

import recollect
from recollect import Audience, Filter, SearchOptions

NO_PROJECT = "No message is in a project named “nope”. Projects: work, garden."


def add(library: recollect.Library, id: str, project: str, *messages: dict[str, Any]) -> None:
    fields = [
        {"id": f"{id}-{number}", "role": "user", **message}
        for number, message in enumerate(messages)
    ]
    library.add_conversation(
        id, project=project, metadata={"tags": [f"{project} idea"]}, messages=fields
    )


@pytest.fixture
def castles(library: recollect.Library) -> recollect.Library:
    """Two conversations in the project "work", and one in "garden"."""
    add(library, "trip", "work", {"content": "The castle opens at nine.", "author": "Ada"})
    add(library, "tram", "work", {"content": "Tram 22 goes to the castle.", "author": "Ben"})
    reply = {"role": "assistant", "content": "Ivy grows on the castle.", "model": "gpt-4o"}
    add(library, "ivy", "garden", reply)
    return library


@pytest.mark.both_stores
@pytest.mark.parametrize(
    ("query", "note"),
    few(
        [
            ("castle in:nope", NO_PROJECT),
            ("in:nope", NO_PROJECT),
            (
                "! in:nope",
                f"Searched for the text as typed, because it has no words. {NO_PROJECT}",
            ),
            (
                "castle source:chatgpt",
                "No message is from a source named “chatgpt”. Sources: recollect.",
            ),
            (
                "castle tag:idea",
                "No message has the tag “idea”. Tags: work idea, garden idea.",
            ),
            ("castle from:Bea", "No message is by an author named “Bea”. Authors: Ben, Ada."),
            (
                "castle in:nope,none",
                "No message is in a project named “nope” or “none”. Projects: work, garden.",
            ),
            (
                "zeppelin in:nope",
                f"No message mentions “zeppelin”. {NO_PROJECT}",
            ),
            (
                "castle in:nope from:Bea",
                f"{NO_PROJECT} No message is by an author named “Bea”. Authors: Ben, Ada.",
            ),
        ],
        5,
    ),
)
def test_the_note_names_what_does_not_exist_and_what_does(
    castles: recollect.Library, query: str, note: str
) -> None:
    for group in ("message", "conversation"):
        page = castles.search(query, options=SearchOptions(mode="text", group=group))
        assert (page.hits, page.note) == ((), note)


@pytest.mark.parametrize(
    ("filter", "note"),
    [
        ({"projects": "nope"}, NO_PROJECT),
        ({"roles": "USER"}, "No message has the role “USER”. Roles: user, assistant."),
        (
            {"conversations": "nope"},
            "No message is in a conversation with the id “nope”.",
        ),
        (
            {"after": "2026", "before": "2025"},
            "Nothing is both after 2026-01-01 and before 2025-12-31.",
        ),
        (
            {"models": "gpt-4"},
            "No message is in a conversation with a model named “gpt-4”. Models: gpt-4o.",
        ),
        ({"senders": "bea"}, "No message is by an author named “bea”. Authors: Ben, Ada."),
        ({"projects": "nope", "kinds": "note"}, "No note is in a project named “nope”."),
    ],
)
def test_the_names_of_a_filter_are_noted_as_well(
    castles: recollect.Library, filter: dict[str, str], note: str
) -> None:
    assert note in castles.search("castle", Filter.of(**filter)).note


def test_similar_names_come_first(castles: recollect.Library) -> None:
    for number in range(4):
        add(castles, f"many{number}", f"/home/ann/p{number}", {"content": "Nothing."})
    note = castles.search("castle in:gardn").note
    assert note == (
        "No message is in a project named “gardn”. Projects: garden, work, /home/ann/p0."
    )
    note = castles.search("castle in:q1").note
    assert "Projects: /home/ann/p1, " in note


@pytest.mark.parametrize("query", ["castle in:nope", "in:nope"])
@pytest.mark.parametrize("order", ["relevance", "recent"])
def test_a_search_over_all_kinds_notes_unknown_names(
    castles: recollect.Library, query: str, order: str
) -> None:
    castles.knowledge.create("notes", {"title": "Castle", "content": "It opens at nine."})
    answer = castles.knowledge.search(query, mode="text", order_by=order)
    assert answer["results"] == []
    assert answer["note"] == (
        "Nothing is in a project named “nope”. Projects: work, default, garden."
    )


def test_a_name_that_only_one_kind_must_have_is_not_why_others_are_not_found(
    castles: recollect.Library,
) -> None:
    filters = {"notes": {"keywords": ["nope"]}}
    answer = castles.knowledge.search("zeppelin", mode="text", filters=filters)
    assert "tag" not in answer["note"]
    answer = castles.knowledge.search("zeppelin", mode="text", filters=filters, sources=["notes"])
    assert answer["note"] == "No note mentions “zeppelin”. No note has the tag “nope”."


@pytest.mark.both_stores
def test_agents_do_not_learn_names_of_human_only_messages(castles: recollect.Library) -> None:
    hidden = {"content": "The castle is haunted.", "visibility": "human_only", "author": "Beatrix"}
    add(castles, "secret", "gardening", hidden)

    def note(query: str, audience: Audience) -> str:
        return castles.search(query, options=SearchOptions(mode="text"), audience=audience).note

    person, agent = Audience.PERSON, Audience.AGENT_HIDDEN
    assert "Beatrix" in note("castle from:Beatri", person)
    assert "Beatrix" not in note("castle from:Beatri", agent)
    assert "gardening" in note("castle in:gardenin", person)
    assert "gardening" not in note("castle in:gardenin", agent)
    # What agents cannot find is noted like what does not exist.
    assert note("castle from:Beatrix", person) == ""
    assert note("castle from:Beatrix", agent).startswith(
        "No message is by an author named “Beatrix”."
    )
