"""The Python API of a library: import, add, search, undo; users, and concurrent processes."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

import recollect
from recollect import Filter, SearchOptions
from recollect.errors import (
    Conflict,
    InvalidInput,
    NotFound,
    OutdatedPosition,
    RecollectError,
    UnknownFormat,
)
from recollect.language.text import storable
from recollect.places import library_file


def own_export(path: Path, *conversations: dict[str, Any]) -> Path:
    path.write_text(json.dumps({"conversations": conversations}), encoding="utf-8")
    return path


def conversation(id: str, *texts: str, title: str = "") -> dict[str, Any]:
    messages = [
        {"id": f"{id}-{n}", "role": "user", "content": t, "created_at": f"2025-01-0{n + 1}"}
        for n, t in enumerate(texts)
    ]
    return {"id": id, "title": title or id, "created_at": "2025-01-01", "messages": messages}


def test_a_session_whose_messages_are_all_in_its_fork_is_skipped_and_not_restored(
    library: recollect.Library, tmp_path: Path
) -> None:
    messages = [{"id": f"m{n}", "role": "user", "content": f"word{n}"} for n in range(3)]
    fork = {"id": "fork", "shared_ids": True, "messages": messages}
    original = {"id": "original", "shared_ids": True, "messages": messages[:2]}
    library.import_path(own_export(tmp_path / "original.json", original))
    deleted = library.delete_conversation("original")
    library.import_path(own_export(tmp_path / "fork.json", fork))
    (file,) = library.import_path(own_export(tmp_path / "again.json", original)).files
    assert file.conversations.skipped == {"all its messages are in another conversation": 1}
    assert file.messages.skipped == {"copy of a message in another conversation": 2}
    assert [c.id for c in library.conversations()] == ["fork"]
    with pytest.raises(Conflict, match="in another conversation"):
        library.restore_document(deleted)


@pytest.mark.both_stores
def test_a_receipt_counts_what_was_imported(library: recollect.Library, tmp_path: Path) -> None:
    path = own_export(
        tmp_path / "a.json",
        conversation("c1", "one", "two"),
        {"id": "c2", "title": "x", "messages": []},
        {"title": "no id", "messages": [{"role": "user", "content": "x"}]},
    )
    receipt = library.import_path(path)
    (file,) = receipt.files
    assert (file.name, file.format, file.conversations.new, file.messages.new) == (
        "a.json",
        "recollect",
        1,
        2,
    )
    assert sum(file.conversations.skipped.values()) == 1
    assert sum(file.conversations.failed.values()) == 1
    assert receipt.finished_at is not None
    assert library.receipts()[0] == receipt


def test_importing_a_file_again_adds_only_new_messages(
    library: recollect.Library, tmp_path: Path
) -> None:
    path = own_export(tmp_path / "a.json", conversation("c1", "one", "two"))
    library.import_path(path)
    (again,) = library.import_path(path).files
    assert (again.conversations.same, again.messages.same, again.messages.new) == (1, 2, 0)
    own_export(path, conversation("c1", "one", "two", "three"), conversation("c2", "four"))
    (grown,) = library.import_path(path).files
    assert (grown.conversations.new, grown.conversations.changed) == (1, 1)
    assert (grown.messages.new, grown.messages.same) == (2, 2)


@pytest.mark.both_stores
def test_an_import_can_be_undone(library: recollect.Library, tmp_path: Path) -> None:
    library.import_path(own_export(tmp_path / "a.json", conversation("c1", "kept words")))
    receipt = library.import_path(
        own_export(tmp_path / "b.json", conversation("c2", "unwanted words"))
    )
    library.undo_import(receipt.id)
    assert [h.conversation_id for h in library.search("words").hits] == ["c1"]


@pytest.mark.both_stores
def test_of_several_posts_that_expect_the_same_last_message_one_succeeds(place: str) -> None:
    """Each thread has its own library, as processes do that share a database."""
    with recollect.open(place, background=False) as library:
        id_ = library.thread("plans").id
        library.post(id_, "ann", "one")

    def post(number: int) -> bool:
        with recollect.open(place, background=False) as library:
            try:
                library.post(id_, "bob", f"two {number}", expected_last_seq=1)
            except OutdatedPosition:
                return False
            return True

    with ThreadPoolExecutor(4) as threads:
        assert sum(threads.map(post, range(8))) == 1
    with recollect.open(place, background=False) as library:
        assert library.summary(id_).message_count == 2


def test_one_invalid_conversation_does_not_affect_the_others(
    library: recollect.Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from recollect.settings import Limits
    from recollect.store.sql import encoding

    monkeypatch.setattr(encoding, "LIMITS", Limits(message_characters=100))
    path = own_export(
        tmp_path / "a.json",
        conversation("c1", "good"),
        conversation("c2", "x" * 200),
        conversation("c3", "fine"),
    )
    (file,) = library.import_path(path).files
    assert (file.conversations.new, list(file.conversations.failed.values())) == (2, [1])
    assert "at most 100" in next(iter(file.conversations.failed))


def test_the_error_for_an_unknown_format_lists_the_known_ones(
    library: recollect.Library, tmp_path: Path
) -> None:
    (tmp_path / "x.xyz").write_text("hello")
    with pytest.raises(UnknownFormat, match="ChatGPT"):
        library.import_path(tmp_path / "x.xyz")
    assert library.receipts() == []


def test_hits_have_the_ids_of_the_source(library: recollect.Library, tmp_path: Path) -> None:
    library.import_path(own_export(tmp_path / "a.json", conversation("conv-7", "the needle in it")))
    (hit,) = library.search("needle").hits
    assert (hit.message_id, hit.conversation_id, 0 < hit.score <= 1) == ("conv-7-0", "conv-7", True)
    assert hit.snippet[slice(*hit.marks[0])] == "needle"


def test_a_search_falls_back_to_any_word_and_reports_it(
    library: recollect.Library,
) -> None:
    library.add_conversation(
        "c1",
        messages=[
            {"role": "user", "content": "red apples"},
            {"role": "user", "content": "green pears"},
        ],
    )
    page = library.search("apples pears")
    assert (page.total, page.matched) == (2, "any")
    page = library.search("red apples")
    assert (page.total, page.matched) == (1, "all")
    assert library.search('"red pears"').total == 0


def test_a_malformed_query_is_searched_literally(library: recollect.Library) -> None:
    library.add_conversation("c1", messages=[{"role": "user", "content": "if (x AND y"}])
    page = library.search("(x AND y")
    assert (page.total, page.matched) == (1, "literal")
    assert library.search("   ").total == 0


@pytest.mark.parametrize(
    "after", ["2025-01-02", date(2025, 1, 2), datetime(2025, 1, 2, tzinfo=UTC)]
)
def test_dates_are_inclusive_in_every_form(
    library: recollect.Library, tmp_path: Path, after: Any
) -> None:
    library.import_path(own_export(tmp_path / "a.json", conversation("c1", "word", "word", "word")))
    assert library.search("word", Filter.of(after=after)).total == 2
    assert library.search("word", Filter.of(before="2025-01-02")).total == 2


def test_an_invalid_date_is_an_error(library: recollect.Library) -> None:
    with pytest.raises(InvalidInput, match="after: 'soon' is not a date"):
        library.search("word", Filter.of(after="soon"))


def test_pages_are_clamped(library: recollect.Library) -> None:
    library.add_conversation("c1", messages=[{"role": "user", "content": "word"}])
    page = library.search("word", options=SearchOptions(limit=10**9, offset=-5))
    assert (page.limit, page.offset, page.total) == (200, 0, 1)


@pytest.mark.both_stores
def test_messages_are_added_one_by_one(library: recollect.Library) -> None:
    conversation = library.add_conversation(title="Live")
    first = library.add_message(conversation.id, "user", "hello there")
    second = library.add_message(conversation.id, "assistant", "hi", model="m", metadata={"k": 1})
    stored = library.conversation(conversation.id)
    assert [(p.id, p.parent) for p in stored.messages] == [(first, None), (second, first)]
    assert stored.messages[1].created_at is not None
    assert library.search("hello").hits[0].message_id == first


@pytest.mark.both_stores
def test_a_conversation_is_continued_by_adding_only_its_new_messages(
    library: recollect.Library,
) -> None:
    turns = [{"id": id, "role": "user", "content": f"text {id}"} for id in "abc"]
    library.add_conversation(
        "c1", "T", messages=turns[:2], project="shop", metadata={"tags": ["x"], "order": 7}
    )
    begun = library.conversation("c1").created_at
    stored = library.add_conversation("c1", messages=turns[2:], metadata={"paid": True})
    assert [(m.id, m.parent) for m in stored.canonical] == [("a", None), ("b", "a"), ("c", "b")]
    assert (stored.title, stored.project, stored.created_at) == ("T", "shop", begun)
    assert stored.metadata == {"tags": ["x"], "order": 7, "paid": True}
    again = library.add_conversation("c1", messages=turns[1:])
    assert (again.messages, again.metadata) == (stored.messages, stored.metadata)
    moved = library.add_conversation("c1", "New", project="home", created_at="2025-01-31")
    assert (moved.title, moved.project, len(moved.messages)) == ("New", "home", 3)
    assert moved.created_at == datetime(2025, 1, 31, tzinfo=UTC)


@pytest.mark.both_stores
def test_a_conversation_that_another_process_creates_meanwhile_is_continued(
    library: recollect.Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    library.add_conversation("c1", "T", messages=[{"id": "a", "role": "user", "content": "one"}])
    monkeypatch.setattr(library._store, "find_id", lambda *_: None)  # what it was before
    stored = library.add_conversation(
        "c1", messages=[{"id": "b", "role": "user", "content": "two"}]
    )
    assert [(m.id, m.parent) for m in stored.canonical] == [("a", None), ("b", "a")]
    assert stored.title == "T"


@pytest.mark.both_stores
def test_adding_a_conversation_never_replaces_a_message(library: recollect.Library) -> None:
    first = library.add_conversation("c1", messages=[{"role": "user", "content": "one"}])
    messages = [{"role": "user", "content": "two"}, {"role": "assistant", "content": "three"}]
    with pytest.raises(Conflict, match="'c1:0' is already used"):
        library.add_conversation("c1", "T", messages=messages)
    assert library.conversation("c1") == first
    twice = [{"id": "x", "role": "user", "content": text} for text in ("one", "two")]
    with pytest.raises(InvalidInput, match="Two messages have the id 'x'"):
        library.add_conversation("c2", messages=twice)


@pytest.mark.parametrize(
    ("message", "error"),
    [
        ({"role": "user"}, "`content`"),
        ({"content": "x"}, "`role`"),
        ({"role": "user", "content": 5}, "`content` as text, not 5"),
        ({"role": "user", "content": "x", "colour": "red"}, "no field 'colour'"),
        ({"role": "user", "content": "x", "created_at": "soon"}, "created_at: 'soon'"),
        ({"role": "user", "content": "x", "author": 5}, "author: 5 is not text"),
        ({"role": "user", "content": "x", "model": ["m"]}, "model: .* is not text"),
        ({"role": "user", "content": "x", "visibility": "people"}, "not one of all, hidden"),
        ({"role": "user", "content": "x", "type": "note"}, "type: 'note' is not one of message"),
        ({"role": "user", "content": "x", "attachments": "a.png"}, "'a.png' is not a list"),
        ({"role": "user", "content": "x", "metadata": ["a"]}, "metadata: .* is not a mapping"),
        ("hello", "'hello' is not a message"),
    ],
)
def test_an_invalid_message_is_an_error(
    library: recollect.Library, message: dict[str, Any], error: str
) -> None:
    with pytest.raises(InvalidInput, match=error):
        library.add_conversation("c1", messages=[message])


def test_an_unknown_conversation_is_not_found(library: recollect.Library) -> None:
    with pytest.raises(NotFound, match="ghost"):
        library.conversation("ghost")


def test_a_tag_with_unstorable_characters_is_restored_and_can_be_searched(
    library: recollect.Library,
) -> None:
    tags = ["odd \ud800 \0", "fine"]
    library.add_conversation(
        "c1", "T", messages=[{"role": "user", "content": "walrus"}], metadata={"tags": tags}
    )
    assert library.conversation("c1").metadata["tags"] == tags
    assert library.search("walrus", Filter.of(tags=["fine"])).total == 1
    assert library.search("walrus -tag:other").total == 1
    assert library.search("walrus -tag:fine").total == 0


@pytest.mark.parametrize("text", ["\0", "a\0b", "\ud800", "\udcff"])
def test_unstorable_characters_match_nothing(library: recollect.Library, text: str) -> None:
    library.add_conversation("c1", "T", messages=[{"role": "user", "content": "walrus"}])
    assert library.conversation_page(title=text) == ([], 0)
    assert library.search("walrus role:user", Filter.of(roles=[text])).total == 0
    assert library.recent("walrus", Filter.of(roles=[text])) == []
    with pytest.raises(NotFound):
        library.conversation(text)


def test_a_closed_library_raises_an_error(place: str) -> None:
    with recollect.open(place) as library:
        library.add_conversation("c1", messages=[{"role": "user", "content": "walrus"}])
    library.close()
    for use in (library.stats, library.index, library.receipts, lambda: library.search("walrus")):
        with pytest.raises(RecollectError, match="closed"):
            use()


# -- users --------------------------------------------------------------------------


def test_users_never_share_a_library(place: str, user: str) -> None:
    with (
        recollect.open(place, user=f"alice-{user}") as alice,
        recollect.open(place, user=f"bob-{user}") as bob,
    ):
        alice.add_conversation("c1", "Secret", messages=[{"role": "user", "content": "zebra"}])
        assert bob.search("zebra").total == 0
        assert bob.stats()["conversations"] == 0
        with pytest.raises(NotFound):
            bob.conversation("c1")


NAMES = [
    "bob",
    "BOB",
    "Bob",
    "../bob",
    "bob/",
    "bob%2f",
    "bob\0",
    "b\u00f6b",
    "bo\u0308b",
    "b" * 300,
    "con",
    "CON",
    ".",
    "..",
    "a b",
    "-",
    "bob-",
    "\ud800",
    "user-0123456789abcdef",
]


def test_every_user_name_has_its_own_folder_inside_the_home(tmp_path: Path) -> None:
    files = {library_file(tmp_path, name) for name in NAMES}
    assert len(files) == len(NAMES)
    for file in files:
        assert file.resolve().is_relative_to(tmp_path.resolve())
        assert file.parent.parent == tmp_path / "users"
    # No user can choose the hash of another name.
    hashed = library_file(tmp_path, "BOB").parent.name
    assert library_file(tmp_path, hashed) != library_file(tmp_path, "BOB")


def test_different_names_are_different_users(place: str, user: str) -> None:
    names = [name + user for name in NAMES if storable(name) == name]
    with ExitStack() as stack:
        libraries = [stack.enter_context(recollect.open(place, user=name)) for name in names]
        for name, library in zip(names, libraries, strict=True):
            library.add_conversation("c1", name)
        assert [[c.title for c in library.conversation_page()[0]] for library in libraries] == [
            [name] for name in names
        ]


def test_a_user_needs_a_name(place: str) -> None:
    with pytest.raises(InvalidInput):
        recollect.open(place, user="")


def test_arguments_override_the_configured_home_and_user(
    place: str, user: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECOLLECT_USER", f"{user}-set")
    with recollect.open() as library:
        library.add_conversation("c1", "Set")
    for arguments in ((), (place,), (place, f"{user}-set")):
        with recollect.open(*arguments) as library:
            assert library.conversation("c1").title == "Set"
    with recollect.open(user=f"{user}-given") as library:
        assert library.stats()["conversations"] == 0


def test_an_unsupported_url_is_an_error() -> None:
    with pytest.raises(InvalidInput, match="mysql:// libraries are not supported"):
        recollect.open("mysql://localhost/x")


# -- several processes -----------------------------------------------------------------

WRITER = """
import sys, recollect
library = recollect.open(sys.argv[1])
for n in range(40):
    library.add_message("c1", "user", f"from {sys.argv[2]} number {n}", id=f"{sys.argv[2]}-{n}")
"""


@pytest.mark.full
def test_processes_can_share_a_library(place: str, tmp_path: Path) -> None:
    with recollect.open(place) as library:
        library.add_conversation("c1", "Shared")
        writers = [subprocess.Popen([sys.executable, "-c", WRITER, place, name]) for name in "abcd"]
        path = own_export(
            tmp_path / "big.json",
            *(conversation(f"x{n}", *["imported text"] * 5) for n in range(200)),
        )
        library.import_path(path)
        assert [w.wait() for w in writers] == [0, 0, 0, 0]
        assert len(library.conversation("c1").messages) == 160
        assert library.search("imported").total == 1_000
        assert library.search("from number").total == 160
        assert library.verify().healthy


def test_an_import_that_cannot_be_saved_raises_an_error(
    library: recollect.Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from recollect.errors import StoreBusy

    def busy(*_: object, **__: object) -> None:
        raise StoreBusy("Another program is writing.")

    path = own_export(tmp_path / "a.json", conversation("c1", "one"))
    monkeypatch.setattr(library._store, "save", busy)
    with pytest.raises(StoreBusy):
        library.import_path(path)
    assert library.receipts()[0].finished_at is None  # it is listed as stopped
