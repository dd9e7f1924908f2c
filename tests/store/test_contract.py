"""The contract of every store (recollect/store/base.py)."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from messages import NOON, conversation, message, recent

from recollect import Document, Filter, Passage, SearchOptions
from recollect.errors import ImportUndone, InvalidInput, NotFound
from recollect.index.meaning import Meaning
from recollect.language.queries.query import parse
from recollect.language.text import storable
from recollect.model.documents import arrange
from recollect.model.receipts import FileReceipt
from recollect.model.undo import Edit
from recollect.search.engine import search
from recollect.store.base import Store
from recollect.store.values import SaveResult

pytestmark = pytest.mark.every_store

EVERYTHING = Filter()


def matching_ids(store: Store, query: str, filter: Filter = EVERYTHING) -> list[str]:
    """The ids of the matching messages, best first."""
    keys = store.match(parse(query), filter, 100)
    candidates = {c.key: c.id for c in store.candidates(keys, filter)}
    assert store.count(parse(query), filter) == (len(candidates), True)
    return [candidates[key] for key in keys]


# -- saving and reading ---


def test_a_saved_document_is_read_back_unchanged(store: Store) -> None:
    document = conversation(
        message(
            "a",
            "hello",
            author="Ann",
            attachments=({"name": "x.png"},),
            metadata={"k": [1, None, "ü"]},
        ),
        message(
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
    store.save([document])
    assert store.document("c1") == arrange(replace(document, id="c1"))


def test_saving_the_same_again_changes_nothing(store: Store) -> None:
    document = conversation(message("a", "hello"), message("b", "hi", "assistant", 1))
    store.save([document])
    before = store.document("c1")
    (again,) = store.save([document])
    assert again == SaveResult("c1", created=False, same=2)
    assert store.document("c1") == before


def test_saving_a_longer_conversation_adds_only_the_new_messages(store: Store) -> None:
    store.save([conversation(message("a", "hello"))])
    (saved,) = store.save(
        [conversation(message("a", "hello"), message("b", "later words", "assistant", 1))]
    )
    assert (saved.new, saved.same, saved.changed) == (1, 1, 0)
    assert [p.id for p in store.document("c1").passages] == ["a", "b"]
    assert matching_ids(store, "later") == ["b"]


def test_a_changed_message_matches_only_its_new_text(store: Store) -> None:
    store.save([conversation(message("a", "zebra"))])
    (saved,) = store.save([conversation(message("a", "giraffe"))])
    assert saved.changed == 1
    assert (matching_ids(store, "zebra"), matching_ids(store, "giraffe")) == ([], ["a"])


def test_an_older_export_does_not_replace_newer_messages(store: Store) -> None:
    store.save([conversation(message("a", "new words"), updated_at=NOON)])
    (saved,) = store.save(
        [conversation(message("a", "old words"), updated_at=NOON - timedelta(days=1))]
    )
    assert (saved.changed, saved.outdated) == (0, 1)
    assert store.document("c1").passages[0].content == "new words"


def test_only_new_documents_are_saved_if_asked(store: Store) -> None:
    store.save([conversation(message("a", "one"), id="c1")])
    before = store.document("c1")
    documents = [
        conversation(message("a", "two"), message("b", "three"), id="c1"),
        conversation(message("c", "four"), id="c2"),
        conversation(message("d", "five"), id="c2"),
    ]
    results = store.save(documents, only_new=True)
    assert [(r.id, r.created) for r in results] == [("c1", False), ("c2", True), ("c2", False)]
    assert store.document("c1") == before
    assert [p.id for p in store.document("c2").passages] == ["c"]


def test_a_partial_copy_adds_but_never_replaces(store: Store) -> None:
    store.save([conversation(message("a", "the full text"))])
    (saved,) = store.save(
        [conversation(message("a", ""), message("b", "more", minutes=1), partial=True)]
    )
    assert (saved.new, saved.outdated, saved.changed) == (1, 1, 0)
    assert [p.content for p in store.document("c1").passages] == ["the full text", "more"]


def test_a_copy_of_another_documents_message_is_skipped_if_ids_are_shared(
    store: Store,
) -> None:
    store.save(
        [conversation(message("a", "prompt"), message("b", "answer", minutes=1), shared_ids=True)]
    )
    resumed = conversation(
        message("a", "prompt"),
        message("b", "answer", minutes=1),
        message("c", "go on", minutes=2),
        id="c2",
        shared_ids=True,
    )
    (saved,) = store.save([resumed])
    assert (saved.new, saved.copies) == (1, 2)
    (again,) = store.save([resumed])
    assert (again.new, again.same, again.copies) == (0, 1, 2)
    assert [p.id for p in store.document("c2").passages] == ["c"]


def test_all_branches_are_stored_and_the_canonical_path_is_marked(store: Store) -> None:
    branches = (
        message("q", "question"),
        message("a1", "first answer", "assistant", 1, parent="q"),
        message("a2", "second answer", "assistant", 2, parent="q"),
        message("t", "thanks", "user", 3, parent="a1"),
    )
    store.save([Document("test", "c1", head="t", passages=branches)])
    stored = store.document("c1")
    assert [(p.id, p.canonical) for p in stored.passages] == [
        ("q", True),
        ("a1", True),
        ("t", True),
        ("a2", False),
    ]
    assert matching_ids(store, "second") == ["a2"]
    store.save([Document("test", "c1", head="a2", passages=branches)])
    assert [p.id for p in store.document("c1").canonical] == ["q", "a2"]


@pytest.mark.parametrize(
    "text",
    ["lone \ud800 surrogate", "a\0b", "", " ", "e\u0301", "\U0001f600", "\u202e\u0007\x1b[31m"],
)
def test_any_text_is_stored_without_loss(store: Store, text: str) -> None:
    document = conversation(
        message(
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


def test_names_of_any_length_are_stored_and_distinguished(store: Store) -> None:
    rng = random.Random(7)
    long = "".join(rng.choices("abcdefghijklmnopqrstuvwxyz0123456789", k=6_000))
    document = conversation(
        message("m" + long, "one"),
        message("n" + long, "two", minutes=1),
        id=long + "x",
        head="n" + long,
    )
    store.save([document, conversation(message("a", "other"), id=long + "y")])
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
    assert not store.append(long + "x", message("n" + long, "two", minutes=1))
    assert store.append(long + "x", message("o" + long, "three", minutes=2))


@pytest.mark.parametrize("megabytes", [5, pytest.param(50, marks=pytest.mark.full)])
def test_a_huge_message_is_stored_and_found_by_its_first_words(
    store: Store, megabytes: int
) -> None:
    text = "needle " + "word " * (megabytes * 200_000)
    store.save([conversation(message("a", text))])
    assert store.document("c1").passages[0].content == text
    assert matching_ids(store, "needle") == ["a"]
    assert store.stats()["indexed_in_part"] == 1


@given(
    st.lists(
        st.tuples(st.text(max_size=30), st.sampled_from(["user", "assistant", "tool"])),
        min_size=1,
        max_size=6,
    )
)
def test_any_message_is_read_back_unchanged(store: Store, turns: list[tuple[str, str]]) -> None:
    passages = [message(f"m{n}", text, role, n) for n, (text, role) in enumerate(turns)]
    document = conversation(*passages, id=repr(turns))
    (saved,) = store.save([document])
    assert store.document(saved.id).passages == arrange(document).passages


# -- one message at a time ---


def test_an_appended_message_follows_the_head_and_is_found_at_once(
    store: Store, reopen: Callable[[], Store]
) -> None:
    store.save([conversation(message("a", "hello"))])
    assert store.append("c1", message("b", "freshly appended", minutes=5))
    other = reopen()
    assert matching_ids(other, "freshly") == ["b"]
    stored = other.document("c1")
    assert (stored.head, stored.passages[1].parent) == ("b", "a")
    assert stored.updated_at == NOON + timedelta(minutes=5)


def test_appending_the_same_message_again_stores_it_once(store: Store) -> None:
    store.save([conversation(message("a", "hello"))])
    repeated = Passage("b", "user", "again")
    assert store.append("c1", repeated)
    assert not store.append("c1", repeated)
    assert len(store.document("c1").passages) == 2


def test_appending_another_message_with_a_used_id_raises_conflict(store: Store) -> None:
    store.save([conversation(message("a", "hello"))])
    with pytest.raises(InvalidInput, match="already used"):
        store.append("c1", message("a", "something else"))
    assert store.document("c1").passages[0].content == "hello"


def test_appending_to_a_missing_document_or_parent_raises_not_found(store: Store) -> None:
    with pytest.raises(NotFound, match="nowhere"):
        store.append("nowhere", message("a", "hello"))
    store.save([conversation(message("a", "hello"))])
    with pytest.raises(NotFound, match="ghost"):
        store.append("c1", message("b", "hello", parent="ghost"))


@pytest.mark.full
def test_writers_in_many_threads_lose_nothing(store: Store) -> None:
    store.save([conversation(message("a", "start"))])

    def write(n: int) -> None:
        for k in range(20):
            store.append("c1", message(f"{n}-{k}", f"word{n}x{k}"))

    threads = [threading.Thread(target=write, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stored = store.document("c1")
    assert len(stored.passages) == 161
    assert sorted(p.position for p in stored.passages) == list(range(161))
    assert all(
        matching_ids(store, f"word{n}x{k}") == [f"{n}-{k}"] for n in range(8) for k in range(20)
    )
    assert store.verify().healthy


def test_a_failing_writer_does_not_affect_the_others(store: Store) -> None:
    store.save([conversation(message("a", "start"))])
    errors: list[Exception] = []

    def write(n: int) -> None:
        try:
            store.append(["c1", "nowhere"][n % 2], message(f"m{n}", "text"))
        except NotFound as error:
            errors.append(error)

    threads = [threading.Thread(target=write, args=(n,)) for n in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(errors), len(store.document("c1").passages)) == (10, 11)


# -- titles, deleting, listing ---


def test_a_document_is_found_by_its_current_title(store: Store) -> None:
    store.save(
        [conversation(message("a", "hello"), message("b", "hi", minutes=1), title="Zeppelin")]
    )
    assert matching_ids(store, "zeppelin") == ["a"]
    assert matching_ids(store, "zeppelin hello") == ["a"]
    store.edit("c1", Edit(title="Airship"))
    assert (matching_ids(store, "zeppelin"), matching_ids(store, "airship")) == ([], ["a"])
    with pytest.raises(NotFound):
        store.edit("nowhere", Edit(title="x"))


def test_a_deleted_document_is_gone_everywhere(store: Store) -> None:
    store.save(
        [
            conversation(message("a", "secretword one")),
            conversation(message("b", "other two"), id="c2"),
        ]
    )
    store.delete("c1")
    assert (matching_ids(store, "secretword"), matching_ids(store, "other")) == ([], ["b"])
    assert recent(store, "cretwor", EVERYTHING, 10) == []
    with pytest.raises(NotFound):
        store.document("c1")
    with pytest.raises(NotFound):
        store.delete("c1")
    assert store.verify().healthy


def test_documents_are_listed_last_changed_first_with_an_exact_total(store: Store) -> None:
    store.save(
        [
            conversation(
                message("a", "x"), id=f"c{n}", updated_at=NOON + timedelta(days=n), title=f"T{n}"
            )
            for n in range(5)
        ]
    )
    page, total = store.summaries(EVERYTHING, "", 2, 1)
    assert ([s.id for s in page], total) == (["c3", "c2"], 5)
    page, total = store.summaries(EVERYTHING, "t4", 10, 0)
    assert ([s.id for s in page], total) == (["c4"], 1)
    assert store.summaries(EVERYTHING, "%", 10, 0) == ([], 0)


# -- searching ---


@pytest.fixture
def conversations(store: Store) -> Store:
    store.save(
        [
            conversation(
                message("m1", "How do I run coroutines with asyncio?", "user", 0, author="Ann"),
                message("m2", "Use asyncio.gather() or a TaskGroup.", "assistant", 1),
                message("m3", "exit code 0x80070057 in C:\\Temp\\build-log.txt", "tool", 2),
                title="Concurrency",
                project="work",
            ),
            conversation(
                message("n1", "非同期処理について教えてください", "user", 60),
                message("n2", "Ein Spaziergang über die Straße, ganz naïve", "assistant", 61),
                message(
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
def test_queries_match_the_expected_messages(
    conversations: Store, query: str, expected: set[str]
) -> None:
    assert set(matching_ids(conversations, query)) == expected


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
def test_text_in_every_script_can_be_found(store: Store, content: str, query: str) -> None:
    store.save([conversation(message("a", content), message("b", "something else"))])
    assert matching_ids(store, query) == ["a"]


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
def test_filters_apply_within_a_search(
    conversations: Store, filter: Filter, expected: set[str]
) -> None:
    assert set(matching_ids(conversations, "asyncio", filter)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("asyncio", ["m2", "m1"]),
        ("syncio.gath", ["m2"]),
        ("ASYNCIO?", ["m1"]),
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
def test_recent_finds_a_substring_or_all_words_newest_first(
    conversations: Store, text: str, expected: list[str]
) -> None:
    messages = recent(conversations, text, EVERYTHING, 50)
    messages = messages or recent(conversations, text, EVERYTHING, 50, "words")
    assert [c.id for c in messages] == expected


def test_recent_without_a_text_returns_the_newest_messages(conversations: Store) -> None:
    assert [c.id for c in recent(conversations, None, EVERYTHING, 2)] == [
        "n2",
        "n1",
    ]
    assert [c.id for c in recent(conversations, None, Filter(roles=("tool",)), 9)] == ["m3"]


def test_substring_search_by_document_returns_the_newest_match_of_each(store: Store) -> None:
    store.save(
        [
            conversation(message("a", "x ()"), message("b", "()", minutes=1), id="c1"),
            conversation(message("c", "() y", minutes=2), message("d", "z", minutes=3), id="c2"),
            conversation(message("e", "nothing", minutes=4), id="c3"),
        ]
    )
    for text in ("()", "(", ")"):
        first = store.newest(EVERYTHING, 1, 0, text=text, by_document=True)
        assert ([c.id for c in first.candidates], first.total) == (["c"], 2)
        second = store.newest(EVERYTHING, 1, 1, text=text, by_document=True)
        assert ([c.id for c in second.candidates], second.total) == (["b"], 2)


@given(st.text(max_size=40))
def test_no_input_breaks_a_search(conversations: Store, text: str) -> None:
    page = search(
        conversations, Meaning(conversations), storable(text), EVERYTHING, SearchOptions(limit=5)
    )
    assert page.total >= len(page.hits)
    recent(conversations, storable(text), EVERYTHING, 5)


# -- receipts ---


def test_undo_removes_what_an_import_added(store: Store) -> None:
    store.save([conversation(message("x", "here before"), id="c0")])
    receipt = store.start_import("export.zip")
    store.save([conversation(message("a", "imported words"))], receipt.id)
    store.update_receipt(receipt)
    assert store.undo_import(receipt.id).undone_at is not None
    assert (matching_ids(store, "imported"), matching_ids(store, "before")) == ([], ["x"])
    assert store.verify().healthy
    with pytest.raises(InvalidInput, match="was undone on"):
        store.undo_import(receipt.id)
    with pytest.raises(NotFound):
        store.undo_import(99)


def test_undo_restores_what_an_import_changed(store: Store) -> None:
    store.save([conversation(message("a", "first version"), title="Old title")])
    before = store.document("c1")
    receipt = store.start_import("p")
    grown = conversation(
        message("a", "second version"),
        message("b", "and more", minutes=1),
        title="New title",
        updated_at=NOON + timedelta(days=1),
    )
    store.save([grown], receipt.id)
    assert matching_ids(store, "second") == ["a"]
    store.undo_import(receipt.id)
    assert store.document("c1") == before
    assert matching_ids(store, "second") == []
    assert matching_ids(store, "first") == ["a"]
    assert matching_ids(store, "old") == ["a"]


def test_an_import_that_was_undone_while_it_runs_saves_nothing_more(store: Store) -> None:
    receipt = store.start_import("p", "a job")
    store.save([conversation(message("a", "walrus"))], receipt.id)
    store.undo_import(receipt.id)
    with pytest.raises(ImportUndone, match="was undone while it was running"):
        store.save([conversation(message("b", "seal"), id="c2")], receipt.id)
    receipt.files = [FileReceipt("x.json", "test", samples={"why": ["A conversation"]})]
    receipt.finished_at = NOON
    store.update_receipt(receipt)
    assert list(store.iter_documents(EVERYTHING)) == []
    (stored,) = store.receipts()
    assert (stored.files, stored.undone_at is None) == ([], False)


def test_receipts_are_stored_and_listed_newest_first(
    store: Store, reopen: Callable[[], Store]
) -> None:
    first, second = store.start_import("a.zip"), store.start_import("b.zip")
    store.update_receipt(replace(first, finished_at=NOON))
    assert [(r.id, r.path, r.finished_at) for r in reopen().receipts()] == [
        (second.id, "b.zip", None),
        (first.id, "a.zip", NOON),
    ]


# -- care ---


def test_stats_count_documents_and_messages(conversations: Store) -> None:
    stats = conversations.stats()
    assert (stats["conversations"], stats["messages"]) == (2, 6)
    assert stats["roles"] == {"assistant": 2, "user": 2, "system": 1, "tool": 1}
    assert (stats["first"], stats["last"]) == (
        "2025-05-01T12:00:00+00:00",
        "2025-05-01T13:02:00+00:00",
    )


def test_a_rebuilt_index_returns_the_same_results(conversations: Store) -> None:
    queries = ["asyncio", "非同期", "concurrency", "strasse"]
    before = [matching_ids(conversations, q) for q in queries]
    conversations.repair()
    assert [matching_ids(conversations, q) for q in queries] == before
    assert conversations.verify().healthy


def test_a_closed_store_raises_an_error(store: Store) -> None:
    from recollect.errors import RecollectError

    store.close()
    store.close()
    with pytest.raises(RecollectError, match="closed"):
        store.stats()
    with pytest.raises(RecollectError, match="closed"):
        store.save([conversation(message("a", "x"))])
