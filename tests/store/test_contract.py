"""What every store promises (recollect/store/base.py)."""

from __future__ import annotations

import random
import re
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.errors import InvalidInput, NotFound
from recollect.index.meaning import Meaning
from recollect.language.query import parse
from recollect.language.text import storable
from recollect.model.documents import Document, Passage, arrange
from recollect.model.search import Filter, SearchOptions
from recollect.search.engine import search
from recollect.store.base import Store

NOON = datetime(2025, 5, 1, 12, tzinfo=UTC)
EVERYTHING = Filter()


def said(id: str, content: str, role: str = "user", minutes: int = 0, **fields: Any) -> Passage:
    return Passage(id, role, content, created_at=NOON + timedelta(minutes=minutes), **fields)


def conversation(*passages: Passage, id: str = "c1", **fields: Any) -> Document:
    chained = [
        p._replace(parent=p.parent or (passages[n - 1].id if n else None))
        for n, p in enumerate(passages)
    ]
    defaults = {"title": "A talk", "created_at": NOON, "updated_at": NOON}
    return Document("test", id, passages=tuple(chained), **(defaults | fields))


def found(store: Store, query: str, filter: Filter = EVERYTHING) -> list[str]:
    keys = store.match(parse(query), filter, 100)
    candidates = {c.key: c.id for c in store.candidates(keys, filter)}
    assert store.count(parse(query), filter) == (len(candidates), True)
    return [candidates[key] for key in keys]


# -- saving and reading -----------------------------------------------------------


def test_a_document_comes_back_as_it_was_saved(store: Store) -> None:
    given_ = conversation(
        said(
            "a",
            "hello",
            author="Ann",
            attachments=({"name": "x.png"},),
            metadata={"k": [1, None, "ü"]},
        ),
        said(
            "b",
            "hi",
            "assistant",
            1,
            model="gpt",
            tool="web",
            citations=({"url": "u"},),
            visibility="hidden",
        ),
        metadata={"pinned": True},
        project="work",
    )
    store.save([given_])
    assert store.document("c1") == arrange(replace(given_, id="c1"))


def test_saving_nothing_is_fine(store: Store) -> None:
    assert store.save([]) == []


def test_saving_the_same_again_changes_nothing(store: Store) -> None:
    document = conversation(said("a", "hello"), said("b", "hi", "assistant", 1))
    store.save([document])
    before = store.document("c1")
    (again,) = store.save([document])
    assert (again.created, again.new, again.same, again.changed, again.document_changed) == (
        False,
        0,
        2,
        0,
        False,
    )
    assert store.document("c1") == before


def test_a_grown_document_adds_only_what_is_new(store: Store) -> None:
    store.save([conversation(said("a", "hello"))])
    (saved,) = store.save(
        [conversation(said("a", "hello"), said("b", "later words", "assistant", 1))]
    )
    assert (saved.new, saved.same, saved.changed) == (1, 1, 0)
    assert [p.id for p in store.document("c1").passages] == ["a", "b"]
    assert found(store, "later") == ["b"]


def test_a_changed_message_is_replaced_and_found_by_its_new_words_only(store: Store) -> None:
    store.save([conversation(said("a", "zebra"))])
    (saved,) = store.save([conversation(said("a", "giraffe"))])
    assert saved.changed == 1
    assert (found(store, "zebra"), found(store, "giraffe")) == ([], ["a"])


def test_an_older_export_does_not_replace_what_is_newer(store: Store) -> None:
    store.save([conversation(said("a", "new words"), updated_at=NOON)])
    (saved,) = store.save(
        [conversation(said("a", "old words"), updated_at=NOON - timedelta(days=1))]
    )
    assert (saved.changed, saved.outdated) == (0, 1)
    assert store.document("c1").passages[0].content == "new words"


def test_a_partial_copy_adds_but_never_replaces(store: Store) -> None:
    store.save([conversation(said("a", "the full text"))])
    (saved,) = store.save([conversation(said("a", ""), said("b", "more", minutes=1), partial=True)])
    assert (saved.new, saved.outdated, saved.changed) == (1, 1, 0)
    assert [p.content for p in store.document("c1").passages] == ["the full text", "more"]


def test_a_copy_of_a_partial_copy_is_partial_too(store: Store) -> None:
    store.save([conversation(said("a", "half"), partial=True, shared_ids=True)])
    assert (store.document("c1").partial, store.document("c1").shared_ids) == (True, True)
    store.save([conversation(said("a", "whole"), shared_ids=True)])
    assert (store.document("c1").partial, store.document("c1").passages[0].content) == (
        False,
        "whole",
    )


def test_messages_that_the_origin_dropped_are_kept(store: Store) -> None:
    store.save([conversation(said("a", "one"), said("b", "two", minutes=1))])
    store.save([conversation(said("a", "one"))])
    assert [p.id for p in store.document("c1").passages] == ["a", "b"]


def test_two_origins_may_use_the_same_id(store: Store) -> None:
    store.save(
        [conversation(said("a", "one")), replace(conversation(said("a", "two")), source="other")]
    )
    assert store.document("c1").passages[0].content == "one"
    assert store.document("other:c1").passages[0].content == "two"
    store.save(
        [
            conversation(said("a", "three"), id="third:c1"),
            replace(conversation(said("a", "four")), source="third"),
        ]
    )
    assert store.document("third:c1#2").passages[0].content == "four"


def test_a_copy_of_a_message_in_another_document_is_left_out_where_ids_are_shared(
    store: Store,
) -> None:
    store.save([conversation(said("a", "prompt"), said("b", "answer", minutes=1), shared_ids=True)])
    resumed = conversation(
        said("a", "prompt"),
        said("b", "answer", minutes=1),
        said("c", "go on", minutes=2),
        id="c2",
        shared_ids=True,
    )
    (saved,) = store.save([resumed])
    assert (saved.new, saved.copies) == (1, 2)
    (again,) = store.save([resumed])
    assert (again.new, again.same, again.copies) == (0, 1, 2)
    assert [p.id for p in store.document("c2").passages] == ["c"]


def test_a_message_id_used_twice_in_one_document_is_stored_once(store: Store) -> None:
    store.save([conversation(said("a", "first"), said("a", "second"))])
    assert [p.content for p in store.document("c1").passages] == ["second"]


def test_every_branch_is_kept_and_the_canonical_path_is_marked(store: Store) -> None:
    branches = (
        said("q", "question"),
        said("a1", "first answer", "assistant", 1, parent="q"),
        said("a2", "second answer", "assistant", 2, parent="q"),
        said("t", "thanks", "user", 3, parent="a1"),
    )
    store.save([Document("test", "c1", head="t", passages=branches)])
    stored = store.document("c1")
    assert [(p.id, p.canonical) for p in stored.passages] == [
        ("q", True),
        ("a1", True),
        ("t", True),
        ("a2", False),
    ]
    assert found(store, "second") == ["a2"]
    store.save([Document("test", "c1", head="a2", passages=branches)])
    assert [p.id for p in store.document("c1").canonical] == ["q", "a2"]


@pytest.mark.parametrize(
    "text",
    ["lone \ud800 surrogate", "a\0b", "", " ", "e\u0301", "\U0001f600", "\u202e\u0007\x1b[31m"],
)
def test_any_text_is_stored_without_loss(store: Store, text: str) -> None:
    document = conversation(
        said(
            "a" + text,
            text,
            author=text,
            model=text,
            metadata={"k": text},
            attachments=({"t": text},),
        ),
        title=text,
        project=text or "default",
        metadata={"m": text},
    )
    store.save([document])
    (stored,) = store.iter_documents(EVERYTHING)
    assert stored == arrange(replace(document, id="c1"))
    (again,) = store.save([document])
    assert (again.same, again.changed) == (1, 0)


def test_names_of_any_length_are_kept_and_told_apart(store: Store) -> None:
    rng = random.Random(7)
    long = "".join(rng.choices("abcdefghijklmnopqrstuvwxyz0123456789", k=6_000))
    document = conversation(
        said("m" + long, "one"), said("n" + long, "two", minutes=1), id=long + "x", head="n" + long
    )
    store.save([document, conversation(said("a", "other"), id=long + "y")])
    stored = store.document(long + "x")
    assert (stored.source_id, stored.head, [p.id for p in stored.passages]) == (
        long + "x",
        "n" + long,
        ["m" + long, "n" + long],
    )
    assert stored.passages[1].parent == "m" + long
    assert store.document(long + "y").passages[0].content == "other"
    (again,) = store.save([document])
    assert (again.same, again.new, again.changed) == (2, 0, 0)
    assert not store.append(long + "x", said("n" + long, "two", minutes=1))
    assert store.append(long + "x", said("o" + long, "three", minutes=2))


def test_words_around_an_unstorable_character_are_found(store: Store) -> None:
    store.save([conversation(said("a", "before \ud800 between \0 behind"))])
    assert found(store, "before between behind") == ["a"]


def test_a_message_of_fifty_megabytes_is_stored_and_found_by_its_beginning(store: Store) -> None:
    text = "needle " + "word " * 10_000_000
    store.save([conversation(said("a", text))])
    assert store.document("c1").passages[0].content == text
    assert found(store, "needle") == ["a"]
    assert store.stats()["indexed_in_part"] == 1


def test_a_message_without_a_time_is_stored_and_comes_last(store: Store) -> None:
    store.save(
        [conversation(Passage("a", "user", "no time here"), said("b", "a time here", minutes=1))]
    )
    assert [c.id for c in store.recent("here", EVERYTHING, 10)] == ["b", "a"]


@given(
    st.lists(
        st.tuples(st.text(max_size=30), st.sampled_from(["user", "assistant", "tool"])),
        min_size=1,
        max_size=6,
    )
)
def test_whatever_is_said_is_read_back_unchanged(
    store: Store, turns: list[tuple[str, str]]
) -> None:
    passages = [said(f"m{n}", text, role, n) for n, (text, role) in enumerate(turns)]
    document = conversation(*passages, id=repr(turns))
    (saved,) = store.save([document])
    assert store.document(saved.id).passages == arrange(document).passages


# -- one message at a time ----------------------------------------------------------


def test_an_appended_message_follows_the_head_and_is_found_at_once(
    store: Store, reopen: Callable[[], Store]
) -> None:
    store.save([conversation(said("a", "hello"))])
    assert store.append("c1", said("b", "freshly appended", minutes=5))
    other = reopen()
    assert found(other, "freshly") == ["b"]
    stored = other.document("c1")
    assert (stored.head, stored.passages[1].parent) == ("b", "a")
    assert stored.updated_at == NOON + timedelta(minutes=5)


def test_appending_the_same_message_again_stores_it_once(store: Store) -> None:
    store.save([conversation(said("a", "hello"))])
    message = Passage("b", "user", "again")
    assert store.append("c1", message)
    assert not store.append("c1", message)
    assert len(store.document("c1").passages) == 2


def test_appending_another_message_under_a_used_id_is_refused(store: Store) -> None:
    store.save([conversation(said("a", "hello"))])
    with pytest.raises(InvalidInput, match="already used"):
        store.append("c1", said("a", "something else"))
    assert store.document("c1").passages[0].content == "hello"


def test_appending_to_an_earlier_message_makes_a_branch(store: Store) -> None:
    store.save([conversation(said("a", "one"), said("b", "two", minutes=1))])
    store.append("c1", said("c", "instead of two", minutes=2, parent="a"))
    assert [(p.id, p.canonical) for p in store.document("c1").passages] == [
        ("a", True),
        ("b", False),
        ("c", True),
    ]


def test_appending_where_nothing_is_says_so(store: Store) -> None:
    with pytest.raises(NotFound, match="nowhere"):
        store.append("nowhere", said("a", "hello"))
    store.save([conversation(said("a", "hello"))])
    with pytest.raises(NotFound, match="ghost"):
        store.append("c1", said("b", "hello", parent="ghost"))


def test_writers_in_many_threads_lose_nothing(store: Store) -> None:
    store.save([conversation(said("a", "start"))])
    threads = [
        threading.Thread(
            target=lambda n=n: [
                store.append("c1", said(f"{n}-{k}", f"word{n}x{k}")) for k in range(20)
            ]
        )
        for n in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stored = store.document("c1")
    assert len(stored.passages) == 161
    assert sorted(p.position for p in stored.passages) == list(range(161))
    assert all(found(store, f"word{n}x{k}") == [f"{n}-{k}"] for n in range(8) for k in range(20))
    assert store.verify().healthy


def test_one_writer_that_fails_does_not_hurt_the_others(store: Store) -> None:
    store.save([conversation(said("a", "start"))])
    errors: list[Exception] = []

    def write(n: int) -> None:
        try:
            store.append("c1" if n % 2 else "nowhere", said(f"m{n}", "text"))
        except NotFound as error:
            errors.append(error)

    threads = [threading.Thread(target=write, args=(n,)) for n in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(errors), len(store.document("c1").passages)) == (10, 11)


# -- titles, deleting, listing --------------------------------------------------------


def test_a_title_is_found_and_follows_a_rename(store: Store) -> None:
    store.save([conversation(said("a", "hello"), said("b", "hi", minutes=1), title="Zeppelin")])
    assert found(store, "zeppelin") == ["a"]
    assert found(store, "zeppelin hello") == ["a"]
    store.update("c1", title="Airship")
    assert (found(store, "zeppelin"), found(store, "airship")) == ([], ["a"])
    with pytest.raises(NotFound):
        store.update("nowhere", title="x")


def test_a_rename_survives_importing_the_same_file_again(store: Store) -> None:
    document = conversation(said("a", "hello"), title="Theirs")
    store.save([document])
    store.update("c1", title="Mine")
    store.save([document])
    assert store.document("c1").title == "Mine"


def test_the_title_is_found_when_messages_arrive_later(store: Store) -> None:
    store.save([conversation(title="Zeppelin")])
    store.append("c1", said("a", "hello"))
    assert found(store, "zeppelin") == ["a"]


def test_what_was_deleted_is_nowhere(store: Store) -> None:
    store.save(
        [conversation(said("a", "secretword one")), conversation(said("b", "other two"), id="c2")]
    )
    store.delete("c1")
    assert (found(store, "secretword"), found(store, "other")) == ([], ["b"])
    assert store.recent("cretwor", EVERYTHING, 10) == []
    with pytest.raises(NotFound):
        store.document("c1")
    with pytest.raises(NotFound):
        store.delete("c1")
    assert store.verify().healthy


def test_documents_are_listed_last_changed_first_with_a_true_total(store: Store) -> None:
    store.save(
        [
            conversation(
                said("a", "x"), id=f"c{n}", updated_at=NOON + timedelta(days=n), title=f"T{n}"
            )
            for n in range(5)
        ]
    )
    page, total = store.summaries(EVERYTHING, "", 2, 1)
    assert ([s.id for s in page], total) == (["c3", "c2"], 5)
    page, total = store.summaries(EVERYTHING, "t4", 10, 0)
    assert ([s.id for s in page], total) == (["c4"], 1)
    assert store.summaries(EVERYTHING, "%", 10, 0) == ([], 0)


# -- finding ------------------------------------------------------------------------------


@pytest.fixture
def talk(store: Store) -> Store:
    store.save(
        [
            conversation(
                said("m1", "How do I run coroutines with asyncio?", "user", 0, author="Ann"),
                said("m2", "Use asyncio.gather() or a TaskGroup.", "assistant", 1),
                said("m3", "exit code 0x80070057 in C:\\Temp\\build-log.txt", "tool", 2),
                title="Concurrency",
                project="work",
            ),
            conversation(
                said("n1", "非同期処理について教えてください", "user", 60),
                said("n2", "Ein Spaziergang über die Straße, ganz naïve", "assistant", 61),
                said(
                    "n3", "internal instructions about asyncio", "system", 62, visibility="hidden"
                ),
                id="c2",
                title="日本語",
            ),
        ]
    )
    return store


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("asyncio", {"m1", "m2"}),
        ("ASYNCIO gather", {"m2"}),
        ('"run coroutines"', {"m1"}),
        ('"coroutines run"', set()),
        ("corout*", {"m1"}),
        ("gather OR coroutines", {"m1", "m2"}),
        ("asyncio NOT gather", {"m1"}),
        ("(gather OR coroutines) AND asyncio", {"m1", "m2"}),
        ("asyncio.gather()", {"m2"}),
        ("0x80070057", {"m3"}),
        ("C:\\Temp\\build-log.txt", {"m3"}),
        ("build-log", {"m3"}),
        ("concurrency", {"m1"}),
        ("非同期", {"n1"}),
        ("同期処理", {"n1"}),
        ("教えて", {"n1"}),
        ("strasse", {"n2"}),
        ("STRAßE", {"n2"}),
        ("uber naive", {"n2"}),
        ("日本", {"n1"}),
        ("nothing-like-it", set()),
    ],
)
def test_a_query_finds_what_it_says(talk: Store, query: str, expected: set[str]) -> None:
    assert set(found(talk, query)) == expected


@pytest.mark.parametrize(
    ("content", "query"),
    [
        ("ภาษาไทยเป็นภาษาที่ใช้ในประเทศไทย", "ประเทศไทย"),
        ("ພາສາລາວແມ່ນພາສາທາງການ", "ພາສາທາງ"),
        ("ភាសាខ្មែរជាភាសាផ្លូវការ", "ខ្មែរ"),
        ("မြန်မာဘာသာစကားသည်", "ဘာသာ"),
        ("བོད་སྐད་ནི་སྐད་ཡིག", "སྐད་ཡིག"),
        ("한국어는 어렵습니다", "어렵"),
        ("東京タワーは高いです。ｶﾀｶﾅ", "カタカナ"),
        ("हिन्दी भाषा सीखना", "भाषा"),
        ("اللغة العربية جميلة", "العربية"),
        ("השפה העברית יפה", "העברית"),
        ("Η Ελληνική γλώσσα", "ελληνικη"),
        ("Русский язык, ёлка", "елка"),
        ("Tiếng Việt rất hay", "tieng viet"),
        ("İstanbul ışık", "istanbul"),
    ],
)
def test_every_script_is_found(store: Store, content: str, query: str) -> None:
    store.save([conversation(said("a", content), said("b", "something else"))])
    assert found(store, query) == ["a"]


@pytest.mark.parametrize(
    ("filter", "expected"),
    [
        (Filter(roles=("user",)), {"m1"}),
        (Filter(authors=("Ann",)), {"m1"}),
        (Filter(projects=("work",)), {"m1", "m2"}),
        (Filter(projects=("play",)), set()),
        (Filter(sources=("test",)), {"m1", "m2"}),
        (Filter(sources=("other",)), set()),
        (Filter(conversations=("c2",), hidden=True), {"n3"}),
        (Filter(conversations=("c2",)), set()),
        (Filter(after=NOON + timedelta(minutes=1)), {"m2"}),
        (Filter(before=NOON), {"m1"}),
        (Filter(kinds=("note",)), set()),
        (
            Filter(roles=("user", "assistant"), after=NOON, before=NOON + timedelta(minutes=1)),
            {"m1", "m2"},
        ),
    ],
)
def test_filters_hold_inside_the_search(talk: Store, filter: Filter, expected: set[str]) -> None:
    assert set(found(talk, "asyncio", filter)) == expected


def test_the_total_counts_every_match_whatever_the_page(store: Store) -> None:
    store.save([conversation(*(said(f"m{n}", f"common text {n}", minutes=n) for n in range(30)))])
    pages = [
        search(store, Meaning(store), "common", EVERYTHING, SearchOptions(limit=7, offset=n))
        for n in range(0, 35, 7)
    ]
    assert {page.total for page in pages} == {30}
    seen = [hit.message_id for page in pages for hit in page.hits]
    assert sorted(seen) == sorted(f"m{n}" for n in range(30))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("asyncio", ["m2", "m1"]),
        ("syncio.gath", ["m2"]),
        ("ASYNCIO?", ["m2", "m1"]),
        ("gather taskgroup", ["m2"]),
        ("concurrency", ["m3", "m2", "m1"]),
        ("%", []),
        ("_", []),
        ("\\Temp\\", ["m3"]),
        ("straß", ["n2"]),
        ("STRASS", ["n2"]),
        ("期処", ["n1"]),
        ("()", ["m2"]),
        ("e", ["n2", "m3", "m2", "m1"]),
        ("zzz", []),
    ],
)
def test_recent_finds_a_text_literally_or_all_its_words_newest_first(
    talk: Store, text: str, expected: list[str]
) -> None:
    assert [c.id for c in talk.recent(text, EVERYTHING, 50)] == expected


def test_recent_finds_all_words_also_where_each_of_them_lies_in_very_many(store: Store) -> None:
    crowd = ", ".join(f"{a}{n}{b}" for n in range(500) for a, b in (("x", "qq"), ("zz", "y")))
    store.save([conversation(said("m1", crowd), said("m2", "zz first and then qq", minutes=1))])
    assert [c.id for c in store.recent("qq zz", EVERYTHING, 50)] == ["m2"]


def test_recent_takes_an_accent_for_what_it_is_inside_a_word(store: Store) -> None:
    store.save(
        [
            conversation(
                said("m1", "the cafeteria"),
                said("m2", "un café", minutes=1),
                said("m3", "cafétéria", minutes=2),
            )
        ]
    )
    assert [c.id for c in store.recent("café", EVERYTHING, 50)] == ["m3", "m2"]


def test_recent_without_a_text_gives_the_newest(talk: Store) -> None:
    assert [c.id for c in talk.recent(None, EVERYTHING, 2)] == ["n2", "n1"]
    assert [c.id for c in talk.recent(None, Filter(roles=("tool",)), 9)] == ["m3"]


def test_an_old_window_is_found_behind_any_number_of_newer_matches(store: Store) -> None:
    store.save([conversation(*(said(f"m{n}", "the same words", minutes=n) for n in range(6_000)))])
    window = Filter(after=NOON, before=NOON + timedelta(minutes=2))
    assert [c.id for c in store.recent("same", window, 50)] == ["m2", "m1", "m0"]


def test_a_text_is_found_as_it_is_newest_first(talk: Store) -> None:
    candidates, total = talk.find_substring("()", EVERYTHING, 10, 0)
    assert ([c.id for c in candidates], total) == (["m2"], 1)


@given(st.text(max_size=40))
def test_nothing_typed_breaks_a_search(talk: Store, text: str) -> None:
    page = search(talk, Meaning(talk), storable(text), EVERYTHING, SearchOptions(limit=5))
    assert page.total >= len(page.hits)
    talk.recent(storable(text), EVERYTHING, 5)


@given(st.data())
def test_recent_agrees_with_reading_everything(talk: Store, data: st.DataObject) -> None:
    from recollect.language.text import fold

    everything = [
        p for d in talk.iter_documents(EVERYTHING) for p in d.passages if p.visibility != "hidden"
    ]
    content = data.draw(st.sampled_from([p.content for p in everything]))
    start = data.draw(st.integers(0, len(content) - 1))
    piece = content[start : start + data.draw(st.integers(1, 12))]
    if data.draw(st.booleans()):
        piece = " ".join(data.draw(st.permutations(content.split()))[:2])
    wanted = set(re.findall(r"[^\W_]+", fold(piece)))
    expected = {
        p.id
        for p in everything
        if fold(piece) in fold(p.content)
        or (wanted and wanted <= set(re.findall(r"[^\W_]+", fold(p.content))))
    }
    assert expected <= {c.id for c in talk.recent(piece, EVERYTHING, 50)}


# -- receipts ---------------------------------------------------------------------------------


def test_undo_takes_back_what_an_import_brought(store: Store) -> None:
    store.save([conversation(said("x", "here before"), id="c0")])
    receipt = store.start_import("export.zip")
    store.save([conversation(said("a", "imported words"))], receipt.id)
    store.finish_import(receipt)
    assert store.undo_import(receipt.id).undone_at is not None
    assert (found(store, "imported"), found(store, "before")) == ([], ["x"])
    assert store.verify().healthy
    with pytest.raises(InvalidInput, match="was undone on"):
        store.undo_import(receipt.id)
    with pytest.raises(NotFound):
        store.undo_import(99)


def test_undo_restores_what_an_import_changed(store: Store) -> None:
    store.save([conversation(said("a", "first version"), title="Old title")])
    before = store.document("c1")
    receipt = store.start_import("p")
    grown = conversation(
        said("a", "second version"),
        said("b", "and more", minutes=1),
        title="New title",
        updated_at=NOON + timedelta(days=1),
    )
    store.save([grown], receipt.id)
    assert found(store, "second") == ["a"]
    store.undo_import(receipt.id)
    assert store.document("c1") == before
    assert (found(store, "second"), found(store, "first"), found(store, "old")) == (
        [],
        ["a"],
        ["a"],
    )


def test_undo_keeps_what_a_later_import_also_contained(store: Store) -> None:
    first, second = store.start_import("1"), store.start_import("2")
    store.save([conversation(said("a", "one"), said("b", "two", minutes=1))], first.id)
    store.save([conversation(said("a", "one"), said("c", "three", minutes=2))], second.id)
    store.undo_import(first.id)
    assert [p.id for p in store.document("c1").passages] == ["a", "c"]
    store.undo_import(second.id)
    assert list(store.iter_documents(EVERYTHING)) == []


def test_undo_of_an_earlier_change_leaves_the_later_one(store: Store) -> None:
    store.save([conversation(said("a", "version one"))])
    first, second = store.start_import("1"), store.start_import("2")
    store.save([conversation(said("a", "version two"))], first.id)
    store.save([conversation(said("a", "version three"))], second.id)
    store.undo_import(first.id)
    assert store.document("c1").passages[0].content == "version three"
    store.undo_import(second.id)
    assert store.document("c1").passages[0].content == "version one"


def test_receipts_are_kept_newest_first(store: Store, reopen: Callable[[], Store]) -> None:
    first, second = store.start_import("a.zip"), store.start_import("b.zip")
    store.finish_import(replace(first, finished_at=NOON))
    assert [(r.id, r.path, r.finished_at) for r in reopen().receipts()] == [
        (second.id, "b.zip", None),
        (first.id, "a.zip", NOON),
    ]


# -- care ---------------------------------------------------------------------------------------


def test_stats_count_what_is_there(talk: Store) -> None:
    stats = talk.stats()
    assert (stats["conversations"], stats["messages"]) == (2, 6)
    assert stats["roles"] == {"assistant": 2, "user": 2, "system": 1, "tool": 1}
    assert (stats["first"], stats["last"]) == (
        "2025-05-01T12:00:00+00:00",
        "2025-05-01T13:02:00+00:00",
    )


def test_a_rebuilt_index_finds_the_same(talk: Store) -> None:
    queries = ["asyncio", "非同期", "concurrency", "strasse"]
    before = [found(talk, q) for q in queries]
    talk.repair()
    assert [found(talk, q) for q in queries] == before
    assert talk.verify().healthy


def test_a_closed_store_says_so(store: Store) -> None:
    from recollect.errors import RecollectError

    store.close()
    store.close()
    with pytest.raises(RecollectError, match="closed"):
        store.stats()
    with pytest.raises(RecollectError, match="closed"):
        store.save([conversation(said("a", "x"))])


@given(st.data())
def test_undoing_any_imports_leaves_what_the_others_brought(
    reopen: Callable[[], Store], data: st.DataObject
) -> None:
    store = reopen()
    for document in list(store.iter_documents(EVERYTHING)):
        store.delete(document.id)
    words = st.sampled_from(["red", "green", "blue"])
    imports = data.draw(
        st.lists(
            st.dictionaries(st.sampled_from("abcd"), words, min_size=1), min_size=1, max_size=5
        )
    )
    receipts = []
    for contents in imports:
        receipt = store.start_import("x")
        store.save(
            [Document("test", "c1", passages=tuple(said(i, c) for i, c in contents.items()))],
            receipt.id,
        )
        receipts.append(receipt.id)
    undone = data.draw(st.permutations(range(len(imports))))[
        : data.draw(st.integers(0, len(imports)))
    ]
    for number in undone:
        store.undo_import(receipts[number])
    expected: dict[str, str] = {}
    for number, contents in enumerate(imports):
        if number not in undone:
            expected |= contents
    stored = {p.id: p.content for d in store.iter_documents(EVERYTHING) for p in d.passages}
    assert stored == expected
    for word in ("red", "green", "blue"):
        assert set(found(store, word)) == {i for i, c in expected.items() if c == word}
    assert store.verify().healthy


@given(st.data())
def test_however_a_conversation_grows_its_order_and_path_are_whole(
    reopen: Callable[[], Store], data: st.DataObject
) -> None:
    store = reopen()
    for document in list(store.iter_documents(EVERYTHING)):
        store.delete(document.id)
    names = "abcdef"
    links = data.draw(st.lists(st.sampled_from([None, *names]), min_size=6, max_size=6))
    passages = {
        n: Passage(n, "user", f"word{n}", parent=p) for n, p in zip(names, links, strict=True)
    }
    told: set[str] = set()
    for part in data.draw(
        st.lists(st.sets(st.sampled_from(names), min_size=1), min_size=1, max_size=4)
    ):
        told |= part
        head = data.draw(st.sampled_from([None, *sorted(part)]))
        store.save(
            [Document("test", "c1", head=head, passages=tuple(passages[n] for n in sorted(part)))]
        )
    stored = store.document("c1")
    assert sorted(p.id for p in stored.passages) == sorted(told)
    assert [p.position for p in stored.passages] == list(range(len(told)))
    assert arrange(stored) == stored
    assert all(found(store, f"word{n}") == [n] for n in told)
