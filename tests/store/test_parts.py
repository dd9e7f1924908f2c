"""The contract of every store: parts of documents, changes to them, and counts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from messages import NOON, conversation, header, message

from recollect import Filter
from recollect.errors import NotFound
from recollect.language.queries.query import parse
from recollect.language.queries.query_tree import Word
from recollect.model.fields import without_edited_fields
from recollect.model.undo import Edit
from recollect.store.base import Store

# -- reading ---


def test_positions_are_in_reading_order_and_include_all_branches(store: Store) -> None:
    store.save(
        [
            conversation(
                message("a"), message("b", minutes=1), message("c", minutes=2, parent="a"), head="b"
            )
        ]
    )
    assert [(p.id, p.parent, p.position, p.canonical) for p in store.positions("c1")] == [
        ("a", None, 0, True),
        ("b", "a", 1, True),
        ("c", "a", 2, False),
    ]


def test_a_document_is_linear_until_it_has_a_branch(store: Store) -> None:
    chain = (message("a"), message("b", minutes=1))
    store.save([conversation(*chain)])
    assert store.is_linear("c1")
    store.save([conversation(*chain, message("c", minutes=2, parent="a"))])
    assert not store.is_linear("c1")
    store.delete("c1", "b")
    assert store.is_linear("c1")
    with pytest.raises(NotFound):
        store.is_linear("ghost")


def test_title_matches_are_opening_passages_of_titles_with_one_of_the_words(store: Store) -> None:
    store.save(
        [
            conversation(message("a"), message("b"), title="Zeppelins and kites"),
            conversation(message("a"), id="c2", title="Kite flying"),
            conversation(message("a"), id="c3", title="Other"),
        ]
    )
    opening = {c.key: c.document for c in store.candidates(list(range(1, 10)), Filter())}

    def title_matches(*words: Word) -> set[str]:
        return {opening[key] for key in store.title_matches(words)}

    assert title_matches(Word("zeppelins")) == {"c1"}
    assert title_matches(Word("kite", prefix=True)) == {"c1", "c2"}
    assert title_matches(Word("kite"), Word("other")) == {"c2", "c3"}
    assert title_matches(Word("hello")) == set()


WORDS = ["kite", "kit", "flying kite", "kite flying", "cafe", "café", "plan", "robot", "case"]
WORDS += ["汉", "字", "strasse", "and", "n", "…", "_", ""]


# -- lists that depend on messages ---


def test_a_document_is_listed_if_one_message_passes_the_whole_filter(store: Store) -> None:
    store.save(
        [
            conversation(
                message("a", author="Ann"), message("b", role="assistant", minutes=60 * 24 * 40)
            ),
            conversation(message("a", author="Ben"), id="c2"),
            conversation(message("a", role="tool", author="Ann", visibility="hidden"), id="c3"),
        ]
    )

    def matching_ids(**filter: Any) -> list[str]:
        summaries, total = store.summaries(Filter(**filter), "", 10, 0)
        assert total == len(summaries)
        return sorted(s.id for s in summaries)

    assert matching_ids(roles=("user",)) == ["c1", "c2"]
    assert matching_ids(roles=("assistant",)) == ["c1"]
    assert matching_ids(roles=("tool",)) == []
    assert matching_ids(roles=("tool",), hidden=True) == ["c3"]
    assert matching_ids(authors=("Ann",)) == ["c1"]
    assert matching_ids(after=NOON + timedelta(days=30)) == ["c1"]
    assert matching_ids(before=NOON) == ["c1", "c2"]
    assert matching_ids(roles=("user",), after=NOON + timedelta(days=30)) == []
    assert matching_ids(authors=("Ben",), conversations=("c2", "c1")) == ["c2"]


# -- changing ---


def test_an_update_changes_only_the_given_fields(store: Store) -> None:
    store.save([conversation(message("a"), metadata={"keep": 1, "drop": 2})])
    store.edit("c1", Edit(project="work", metadata={"drop": None, "tags": ["x"], "null": None}))
    edited = header(store, "c1")
    assert (edited.title, edited.project, without_edited_fields(edited.metadata)) == (
        "A conversation",
        "work",
        {"keep": 1, "tags": ["x"]},
    )
    assert edited.updated_at and edited.updated_at > NOON
    assert [
        s.id for s in store.summaries(Filter(tags=("X",), projects=("work",)), "", 10, 0)[0]
    ] == ["c1"]
    with pytest.raises(NotFound):
        store.edit("nowhere", Edit(title="x"))


def test_extending_adds_missing_messages_which_can_be_looked_up(store: Store) -> None:
    store.save(
        [replace(conversation(id="c1"), passages=()), replace(conversation(id="c2"), passages=())]
    )
    assert store.extend("c1", [message("h1", "one"), message("h2", "two", parent="h1")]) == 2
    assert (
        store.extend("c1", [message("h1", "one"), message("h3", "three", parent="h1", minutes=3)])
        == 1
    )
    assert store.extend("c1", [message("h3", "changed")]) == 0
    assert store.extend("c1", []) == 0
    assert store.extend("c2", [message("h1", "one", minutes=9)]) == 1
    assert [(p.id, p.canonical) for p in store.document("c1").passages] == [
        ("h1", True),
        ("h2", False),
        ("h3", True),
    ]
    assert store.documents_containing("test", ["h1", "h2", "zz"]) == [
        ("c2", "h1"),
        ("c1", "h1"),
        ("c1", "h2"),
    ]
    assert (
        store.documents_containing("elsewhere", ["h1"])
        == store.documents_containing("test", [])
        == []
    )
    assert store.match(parse("three"), Filter(), 10)
    with pytest.raises(NotFound):
        store.extend("nowhere", [message("x")])


def test_messages_are_added_together_or_not_at_all(store: Store) -> None:
    store.save([replace(conversation(id="c1"), passages=())])
    with pytest.raises(NotFound):
        store.extend("c1", [message("a"), message("b", parent="nowhere")])
    assert store.document("c1").passages == ()


# -- counting ---


def test_all_names_are_searched_and_the_most_frequent_are_listed(store: Store) -> None:
    tags = [f"Tag {n}" for n in range(250)]
    store.save(
        [
            conversation(message("a"), project="/home/Zoé", metadata={"tags": [*tags, "Rare Été"]}),
            conversation(message("a"), id="c2", metadata={"tags": tags}),
            conversation(message("a"), id="n", kind="note", metadata={"tags": ["tag 7"]}),
        ]
    )
    assert store.facet_names("tags", "ÉTÉ") == [("Rare Été", 1)]
    assert store.facet_names("tags", "tag 24")[:2] == [("Tag 24", 2), ("Tag 240", 2)]
    assert len(store.facet_names("tags")) == 251
    assert store.facet_names("tags", "tag 7", ["note"]) == [("tag 7", 1)]
    assert store.facet_names("tags", "tag 7", ["conversation", "note"])[-1] == ("tag 7", 1)
    assert store.facet_names("projects", "zoé") == [("/home/Zoé", 1)]
    assert store.facet_names("sources", "es") == [("test", 2)]
    assert store.facet_names("tags", "%") == []


def test_activity_counts_what_people_wrote(store: Store) -> None:
    store.save(
        [
            conversation(
                message("a"),
                message("b", role="assistant", tool="web", model="m1"),
                message("c", tool="web", type="tool_result"),
                message("d", role="assistant", model="m1"),
            ),
            conversation(
                message("a", minutes=90),
                message("b")._replace(created_at=None),
                id="c2",
                project="work",
            ),
            replace(conversation(message("a"), id="n1"), kind="note"),
            replace(conversation(message("a"), id="o1"), kind="observation"),
        ]
    )
    activity = store.activity()
    assert activity.days == [(int(NOON.timestamp()) // 86_400, 2)]
    assert activity.hours == [(12, 1), (13, 1)]
    assert (activity.sources, activity.projects) == ([("test", 3)], [("work", 2), ("default", 1)])
    assert (activity.models, activity.tools) == ([("m1", 2)], [("web", 1)])
    store.edit("c2", Edit(project="default"))
    assert store.activity().projects == [("default", 3)]


def test_the_version_changes_with_every_write_of_any_process(
    store: Store, reopen: Callable[[], Store]
) -> None:
    store.save([conversation(message("a"))])
    other = reopen()
    versions = [store.version()]
    for write in (
        lambda: store.append("c1", message("b")),
        lambda: other.append("c1", message("c")),
        lambda: other.edit("c1", Edit(title="New")),
        lambda: other.delete("c1"),
    ):
        write()
        versions.append(store.version())
    assert len(set(versions)) == 5
    assert store.version() == versions[-1]
