"""The contract of every store: parts of documents, changes to them, and counts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from messages import NOON, conversation, header, message

from recollect import Document, Filter
from recollect.errors import Conflict, NotFound
from recollect.language.queries.query import parse
from recollect.language.queries.query_tree import Word
from recollect.language.text import identifier
from recollect.model.edited_fields import without_edited_fields
from recollect.model.undo import Edit
from recollect.store.base import Store

# -- reading ---


def test_a_header_is_the_document_without_its_passages(store: Store) -> None:
    store.save([conversation(message("a"), message("b"), metadata={"k": 1})])
    assert header(store, "c1") == replace(store.document("c1"), passages=())
    with pytest.raises(NotFound):
        header(store, "nowhere")


def test_a_summary_equals_the_entry_in_the_list(store: Store) -> None:
    store.save([conversation(message("a")), conversation(message("b"), id="c2")])
    assert store.summary("c1") in store.summaries(Filter(), "", 10, 0)[0]
    assert store.summary("c1").id == "c1"
    with pytest.raises(NotFound):
        store.summary("nowhere")


def test_a_document_is_found_by_source_and_source_id(store: Store) -> None:
    odd, long = "c\ud800", "x" * 800
    store.save(
        [
            conversation(message("a")),
            conversation(message("a"), id=odd),
            conversation(message("a"), id=long),
        ]
    )
    assert [store.find_id("test", name) for name in ("c1", odd, long, "c2")] == [
        "c1",
        odd,
        long,
        None,
    ]
    assert store.find_id("elsewhere", "c1") is None


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


def test_passages_are_read_by_key_and_missing_keys_are_skipped(store: Store) -> None:
    store.save(
        [
            conversation(message("a", "one"), message("b", "two")),
            conversation(message("a", "three"), id="c2"),
        ]
    )
    keys = [position.key for document in ("c2", "c1") for position in store.positions(document)]
    passages = store.passages_by_key([*keys, 10_000])
    assert [(passages[k][0], passages[k][1].content) for k in keys] == [
        ("c2", "three"),
        ("c1", "one"),
        ("c1", "two"),
    ]
    assert len(passages) == 3
    assert store.passages_by_key([]) == {}


def test_several_documents_are_read_at_once_and_missing_ids_are_skipped(store: Store) -> None:
    long_id = "long" * 1_000  # is stored as a hash
    store.save(
        [
            conversation(message("b", "two", minutes=1), message("a", "one")),
            conversation(message("a", "three"), id="c2"),
            conversation(message("a", "four"), id=long_id),
        ]
    )
    documents = store.documents(["c2", "c1", "ghost", long_id])
    assert documents == {identifier(id_): store.document(id_) for id_ in ("c1", "c2", long_id)}
    assert store.documents([]) == {}


def test_summaries_of_named_documents_are_in_the_order_of_the_list(store: Store) -> None:
    for number in range(4):
        store.save([conversation(message("a", minutes=number), id=f"c{number}")])
    named = Filter(conversations=("c0", "c3", "ghost", "c1"))
    summaries, total = store.summaries(named, "", 10, 0)
    assert ([summary.id for summary in summaries], total) == (["c3", "c1", "c0"], 3)
    assert store.summaries(named, "", 1, 0) == (summaries[:1], 3)
    assert store.summaries(named, "", 10, 1) == (summaries[1:], 3)


def test_a_page_of_passages_starts_at_a_position_and_has_a_total(store: Store) -> None:
    store.save([conversation(*(message(f"m{n}", f"text {n}", minutes=n) for n in range(7)))])
    page, total = store.passage_page("c1", 3, 2)
    assert ([p.id for p in page], total) == (["m3", "m4"], 7)
    assert store.passage_page("c1", 7, 2) == ([], 7)
    assert page[0] == store.document("c1").passages[3]
    with pytest.raises(NotFound):
        store.passage_page("nowhere", 0, 1)


def test_authors_are_listed_unless_they_are_too_many(store: Store) -> None:
    messages = [message(f"m{n}", author=author) for n, author in enumerate(["Kofi", "Ada", None])]
    store.save([conversation(*messages), conversation(message("m", author="Kofi"), id="c2")])
    assert sorted(store.authors(2)) == ["Ada", "Kofi"]
    assert store.authors(1) == []


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


TITLES = [
    "Kite flying",
    "A kite",
    "KITES, and kite-flying",
    "Un café crème",
    "the robot🤖plan",
    "snake_case names",
    "汉字 and kites",
    "Straße",
    "",
]
WORDS = ["kite", "kit", "flying kite", "kite flying", "cafe", "café", "plan", "robot", "case"]
WORDS += ["汉", "字", "strasse", "and", "n", "…", "_", ""]


def test_titles_are_searched_by_the_rule_of_filters(store: Store) -> None:
    store.save(
        [
            conversation(message("a"), message("b"), id=f"c{n}", title=title)
            for n, title in enumerate(TITLES)
        ]
    )
    for text in WORDS:
        for prefix in (False, True):
            pattern = text + "*" * prefix
            openings = [
                store.positions(summary.id)[0].key
                for summary in store.summaries(Filter(titles=(pattern,)), "", 100, 0)[0]
            ]
            assert sorted(store.title_matches([Word(text, prefix)])) == sorted(openings), pattern
    keys = store.title_matches([Word("kite"), Word("cafe")])
    assert store.title_matches([Word("kite")]) == keys[:-1]
    many = [Word(f"word{n}") for n in range(1_200)]
    assert store.title_matches([*many, Word("kite"), Word("cafe")]) == keys


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


def test_tags_survive_later_imports_without_tags(store: Store) -> None:
    store.save([conversation(message("a"), metadata={"k": 1})])
    store.edit("c1", Edit(metadata={"tags": ["mine"]}))
    later = datetime.now(UTC) + timedelta(days=1)
    store.save([conversation(message("a"), message("b"), metadata={"k": 2}, updated_at=later)])
    assert without_edited_fields(header(store, "c1").metadata) == {
        "k": 2,
        "tags": ["mine"],
    }
    store.save(
        [
            conversation(
                message("a"), metadata={"tags": ["theirs"]}, updated_at=later + timedelta(days=1)
            )
        ]
    )
    assert without_edited_fields(header(store, "c1").metadata) == {"tags": ["mine", "theirs"]}


def test_appending_returns_the_position(store: Store) -> None:
    store.save([conversation(message("a"))])
    first, again = (
        store.append("c1", message("b", minutes=1)),
        store.append("c1", message("b", minutes=1)),
    )
    assert (first.position, bool(first)) == (1, True)
    assert (again.position, bool(again)) == (1, False)
    with pytest.raises(Conflict):
        store.append("c1", message("b", "something else", minutes=1))


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


def test_messages_added_together_are_stored_like_those_added_one_by_one(store: Store) -> None:
    for id_ in ("c1", "c2"):
        store.save([replace(conversation(id=id_), title="Trip", passages=())])
    messages = [
        message("a", "one", minutes=5),
        message("b", "two", minutes=2),
        message("c", "three", parent="a", minutes=9),
        message("d", "four", minutes=7),
        message("e", "five", parent="b"),
        message("f", "six", parent="e", minutes=8),
    ]
    assert store.extend("c1", [*messages, messages[0]]) == len(messages)
    for each in messages:
        store.append("c2", each)
    together, one_by_one = store.document("c1"), store.document("c2")
    assert together.passages == one_by_one.passages
    assert [p.id for p in together.passages if p.canonical] == ["a", "b", "e", "f"]
    for name in ("head", "created_at", "updated_at"):
        assert getattr(together, name) == getattr(one_by_one, name)
    assert len(store.match(parse("trip"), Filter(), 10)) == 2, "the title is indexed once for each"


def test_messages_are_added_together_or_not_at_all(store: Store) -> None:
    store.save([replace(conversation(id="c1"), passages=())])
    with pytest.raises(NotFound):
        store.extend("c1", [message("a"), message("b", parent="nowhere")])
    assert store.document("c1").passages == ()


def test_a_popped_document_is_gone_and_can_be_saved_again(store: Store) -> None:
    document = conversation(
        message("a", "walrus"),
        message("b"),
        message("c", minutes=2, parent="a"),
        metadata={"tags": ["x"]},
    )
    store.save([document])
    before = store.document("c1")
    assert store.delete("c1") == before
    assert store.match(parse("walrus"), Filter(), 10) == []
    with pytest.raises(NotFound):
        store.delete("c1")
    store.save([before], index_ids=True)
    assert store.document("c1") == before
    assert store.documents_containing("test", ["b"]) == [("c1", "b")]


# -- counting ---


def test_tags_are_counted_as_they_are_written(store: Store) -> None:
    store.save([conversation(message("a"), metadata={"tags": ["Mine", 0, "b"]})])
    store.save([conversation(message("a"), id="c2", metadata={"tags": "Mine"})])
    store.save([conversation(message("a"), id="c3", metadata={"tags": [""]})])
    assert store.facet_names("tags") == [("Mine", 2), ("b", 1)]


def test_facets_count_documents(store: Store) -> None:
    store.save(
        [
            conversation(message("a"), project="work", metadata={"tags": ["x", "y"]}),
            conversation(message("a"), id="c2", metadata={"tags": "x"}),
            conversation(message("a"), id="c3", metadata={"other": "tags"}),
        ]
    )
    assert store.facet_names("projects") == [("default", 2), ("work", 1)]
    assert store.facet_names("sources") == [("test", 3)]
    assert store.facet_names("tags") == [("x", 2), ("y", 1)]


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


def test_long_names_in_any_alphabet_are_distinguished(store: Store) -> None:
    long = "日本語" * 300
    store.save(
        [
            Document(
                f"{long}{o}", f"{long}{n}", "T", passages=(message(f"{long}{n}"),), updated_at=NOON
            )
            for o in "ab"
            for n in "cd"
        ]
    )
    assert store.summaries(Filter(), "", 10, 0)[1] == 4
    assert store.find_id(f"{long}a", f"{long}c") != store.find_id(f"{long}b", f"{long}c")
