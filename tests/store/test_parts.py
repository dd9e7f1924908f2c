"""What every store promises of parts of documents, of changes to them, and of what it counts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from recollect.errors import Conflict, NotFound
from recollect.language.query import Word, parse
from recollect.model.documents import Document, Passage
from recollect.model.search import Filter
from recollect.store.base import Store

NOON = datetime(2025, 5, 1, 12, tzinfo=UTC)


def said(
    id: str, content: str = "hello", role: str = "user", minutes: int = 0, **fields: Any
) -> Passage:
    return Passage(id, role, content, created_at=NOON + timedelta(minutes=minutes), **fields)


def talk(*passages: Passage, id: str = "c1", **fields: Any) -> Document:
    chained = tuple(
        p._replace(parent=p.parent or (passages[n - 1].id if n else None))
        for n, p in enumerate(passages)
    )
    return Document(
        "test", id, passages=chained, **({"title": "A talk", "updated_at": NOON} | fields)
    )


# -- reading -----------------------------------------------------------------------


def test_a_head_is_the_document_without_its_passages(store: Store) -> None:
    store.save([talk(said("a"), said("b"), metadata={"k": 1})])
    assert store.header("c1") == replace(store.document("c1"), passages=())
    with pytest.raises(NotFound):
        store.header("nowhere")


def test_a_summary_is_what_the_list_shows(store: Store) -> None:
    store.save([talk(said("a")), talk(said("b"), id="c2")])
    assert store.summary("c1") in store.summaries(Filter(), "", 10, 0)[0]
    assert store.summary("c1").id == "c1"
    with pytest.raises(NotFound):
        store.summary("nowhere")


def test_a_document_is_found_by_where_it_came_from(store: Store) -> None:
    odd, long = "c\ud800", "x" * 800
    store.save([talk(said("a")), talk(said("a"), id=odd), talk(said("a"), id=long)])
    assert [store.find_id("test", name) for name in ("c1", odd, long, "c2")] == [
        "c1",
        odd,
        long,
        None,
    ]
    assert store.find_id("elsewhere", "c1") is None


def test_bones_are_in_reading_order_and_know_the_branches(store: Store) -> None:
    store.save([talk(said("a"), said("b", minutes=1), said("c", minutes=2, parent="a"), head="b")])
    assert [(b.id, b.parent, b.position, b.canonical) for b in store.positions("c1")] == [
        ("a", None, 0, True),
        ("b", "a", 1, True),
        ("c", "a", 2, False),
    ]


def test_contents_are_read_by_key_and_missing_keys_are_left_out(store: Store) -> None:
    store.save([talk(said("a", "one"), said("b", "two")), talk(said("a", "three"), id="c2")])
    keys = [bone.key for document in ("c2", "c1") for bone in store.positions(document)]
    read = store.passages_by_key([*keys, 10_000])
    assert [(read[k][0], read[k][1].content) for k in keys] == [
        ("c2", "three"),
        ("c1", "one"),
        ("c1", "two"),
    ]
    assert len(read) == 3
    assert store.passages_by_key([]) == {}


def test_a_part_begins_at_a_position_and_tells_how_many_there_are(store: Store) -> None:
    store.save([talk(*(said(f"m{n}", f"text {n}", minutes=n) for n in range(7)))])
    part, total = store.passage_page("c1", 3, 2)
    assert ([p.id for p in part], total) == (["m3", "m4"], 7)
    assert store.passage_page("c1", 7, 2) == ([], 7)
    assert part[0] == store.document("c1").passages[3]
    with pytest.raises(NotFound):
        store.passage_page("nowhere", 0, 1)


def test_openings_carry_a_title_with_one_of_the_words(store: Store) -> None:
    store.save(
        [
            talk(said("a"), said("b"), title="Zeppelins and kites"),
            talk(said("a"), id="c2", title="Kite flying"),
            talk(said("a"), id="c3", title="Other"),
        ]
    )
    opening = {c.key: c.document for c in store.candidates(list(range(1, 10)), Filter())}

    def opened(*words: Word) -> set[str]:
        return {opening[key] for key in store.title_matches(words)}

    assert opened(Word("zeppelins")) == {"c1"}
    assert opened(Word("kite", prefix=True)) == {"c1", "c2"}
    assert opened(Word("kite"), Word("other")) == {"c2", "c3"}
    assert opened(Word("hello")) == set()


# -- lists that look into messages -----------------------------------------------------


def test_documents_are_listed_by_what_one_of_their_messages_has(store: Store) -> None:
    store.save(
        [
            talk(said("a", author="Ann"), said("b", role="assistant", minutes=60 * 24 * 40)),
            talk(said("a", author="Ben"), id="c2"),
            talk(said("a", role="tool", author="Ann", visibility="hidden"), id="c3"),
        ]
    )

    def listed(**filter: Any) -> list[str]:
        found, total = store.summaries(Filter(**filter), "", 10, 0)
        assert total == len(found)
        return sorted(s.id for s in found)

    assert listed(roles=("user",)) == ["c1", "c2"]
    assert listed(roles=("assistant",)) == ["c1"]
    assert listed(roles=("tool",)) == []
    assert listed(roles=("tool",), hidden=True) == ["c3"]
    assert listed(authors=("Ann",)) == ["c1"]
    assert listed(after=NOON + timedelta(days=30)) == ["c1"]
    assert listed(before=NOON) == ["c1", "c2"]
    assert listed(roles=("user",), after=NOON + timedelta(days=30)) == []
    assert listed(authors=("Ben",), conversations=("c2", "c1")) == ["c2"]


# -- changing ----------------------------------------------------------------------------


def test_amending_changes_only_what_is_said(store: Store) -> None:
    store.save([talk(said("a"), metadata={"keep": 1, "drop": 2})])
    store.update("c1", project="work", metadata={"drop": None, "tags": ["x"], "null": None})
    head = store.header("c1")
    assert (head.title, head.project, head.metadata) == (
        "A talk",
        "work",
        {"keep": 1, "tags": ["x"]},
    )
    assert head.updated_at and head.updated_at > NOON
    assert [
        s.id for s in store.summaries(Filter(tags=("X",), projects=("work",)), "", 10, 0)[0]
    ] == ["c1"]
    with pytest.raises(NotFound):
        store.update("nowhere", title="x")


def test_tags_of_a_person_survive_what_the_origin_says_later(store: Store) -> None:
    store.save([talk(said("a"), metadata={"k": 1})])
    store.update("c1", metadata={"tags": ["mine"]})
    later = datetime.now(UTC) + timedelta(days=1)
    store.save([talk(said("a"), said("b"), metadata={"k": 2}, updated_at=later)])
    assert store.header("c1").metadata == {"k": 2, "tags": ["mine"]}
    store.save(
        [talk(said("a"), metadata={"tags": ["theirs"]}, updated_at=later + timedelta(days=1))]
    )
    assert store.header("c1").metadata == {"tags": ["theirs"]}


def test_appending_says_where(store: Store) -> None:
    store.save([talk(said("a"))])
    first, again = (
        store.append("c1", said("b", minutes=1)),
        store.append("c1", said("b", minutes=1)),
    )
    assert (first.position, bool(first)) == (1, True)
    assert (again.position, bool(again)) == (1, False)
    with pytest.raises(Conflict):
        store.append("c1", said("b", "something else", minutes=1))


def test_extending_adds_what_is_missing_and_can_be_asked_for(store: Store) -> None:
    store.save([replace(talk(id="c1"), passages=()), replace(talk(id="c2"), passages=())])
    assert store.extend("c1", [said("h1", "one"), said("h2", "two", parent="h1")]) == 2
    assert store.extend("c1", [said("h1", "one"), said("h3", "three", parent="h1", minutes=3)]) == 1
    assert store.extend("c1", [said("h3", "changed")]) == 0
    assert store.extend("c1", []) == 0
    assert store.extend("c2", [said("h1", "one", minutes=9)]) == 1
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
        store.extend("nowhere", [said("x")])


def test_what_is_taken_is_gone_and_can_be_put_back(store: Store) -> None:
    given = talk(
        said("a", "walrus"), said("b"), said("c", minutes=2, parent="a"), metadata={"tags": ["x"]}
    )
    store.save([given])
    before = store.document("c1")
    assert store.pop("c1") == before
    assert store.match(parse("walrus"), Filter(), 10) == []
    with pytest.raises(NotFound):
        store.pop("c1")
    store.save([before], index_ids=True)
    assert store.document("c1") == before
    assert store.documents_containing("test", ["b"]) == [("c1", "b")]


# -- counting ----------------------------------------------------------------------------


def test_facets_count_documents(store: Store) -> None:
    store.save(
        [
            talk(said("a"), project="work", metadata={"tags": ["x", "y"]}),
            talk(said("a"), id="c2", metadata={"tags": "x"}),
            talk(said("a"), id="c3", metadata={"other": "tags"}),
        ]
    )
    assert store.facets() == {
        "projects": [("default", 2), ("work", 1)],
        "sources": [("test", 3)],
        "tags": [("x", 2), ("y", 1)],
    }


def test_activity_counts_messages(store: Store) -> None:
    store.save(
        [
            talk(
                said("a", model="m1"),
                said("b", tool="web", model="m1"),
                said("c", tool="web", type="tool_result"),
            ),
            talk(
                said("a", minutes=90),
                said("b")._replace(created_at=None),
                id="c2",
                project="work",
            ),
        ]
    )
    found = store.activity()
    hour = int(NOON.timestamp()) // 3600
    assert found.hours == [(hour, 3), (hour + 1, 1)]
    assert (found.sources, found.projects) == ([("test", 5)], [("default", 3), ("work", 2)])
    assert (found.models, found.tools) == ([("m1", 2)], [("web", 1)])


def test_the_version_changes_with_every_write_of_anybody(
    store: Store, reopen: Callable[[], Store]
) -> None:
    store.save([talk(said("a"))])
    other = reopen()
    seen = [store.version()]
    for write in (
        lambda: store.append("c1", said("b")),
        lambda: other.append("c1", said("c")),
        lambda: other.update("c1", title="New"),
        lambda: other.delete("c1"),
    ):
        write()
        seen.append(store.version())
    assert len(set(seen)) == 5
    assert store.version() == seen[-1]


def test_long_names_in_any_alphabet_are_kept_apart(store: Store) -> None:
    long = "日本語" * 300
    store.save(
        [
            Document(
                f"{long}{o}", f"{long}{n}", "T", passages=(said(f"{long}{n}"),), updated_at=NOON
            )
            for o in "ab"
            for n in "cd"
        ]
    )
    assert store.summaries(Filter(), "", 10, 0)[1] == 4
    assert store.find_id(f"{long}a", f"{long}c") != store.find_id(f"{long}b", f"{long}c")
