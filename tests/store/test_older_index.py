"""Passages that older versions indexed differently are indexed again.

These had codes of terminals in words, or no names with symbols: C++ was the letter C.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from messages import conversation, message

from recollect.language import text as language
from recollect.language.queries.query_tree import Node, Word
from recollect.model.search import Filter
from recollect.store.base import Store
from recollect.store.postgres.text import lexemes
from recollect.store.sql.database import Database
from recollect.store.sql.markers import set_marker
from recollect.store.sql.writing import older_index
from recollect.store.sqlite import SqliteStore
from recollect.store.sqlite.volumes import plan

EVERYTHING = Filter(kinds=(), hidden=True)
LINE = "\x1b[31mFailed\x1b[0m tests: \x1b[33mERR_AUTH\x1b[0m_42 in \x1b[1mStra\x1b[0mße"
PLAIN = "Failed tests: ERR_AUTH_42 in Straße"
TITLE = "\x1b[1mNightly\x1b[0m build"
NAMES = "C++ and F# are languages, C is not C#, says \x1b[31mcplusplus\x1b[0m"
# What the words of LINE were with the codes.
GLUED = ["31mfailed", "33merr", "0m", "1mstra"]


def ids(store: Store, node: Node | str) -> list[str]:
    if isinstance(node, str):
        node = Word(node)
    keys = store.match(node, EVERYTHING, 100)
    assert store.count(node, EVERYTHING) == (len(keys), True)
    return sorted(message.id for _, message in store.passages_by_key(keys).values())


def literal_ids(store: Store, text: str) -> list[str]:
    matches = store.find_substring(text, EVERYTHING, 100, 0)
    assert matches.total == len(matches.candidates)
    assert {c.id for c in store.recent(text, EVERYTHING, 100)} >= {c.id for c in matches.candidates}
    return sorted(candidate.id for candidate in matches.candidates)


def check_search(store: Store, expected: list[str]) -> None:
    words = ("failed", "FAILED tests", "ERR_AUTH_42", "straße")
    for word in (*map(Word, words), Word("fai", prefix=True)):
        assert ids(store, word) == expected, word
    for text in ("Failed tests", "ailed te", "auth_42 in stra", "Straß", "s: E", LINE):
        assert literal_ids(store, text) == expected, text
    for text in ("31m", "[0m", "\x1b[31m"):
        assert literal_ids(store, text) == [], text
    assert store.known_words(["failed", "strasse", *GLUED]) == {"failed", "strasse"}
    assert [ids(store, word) for word in GLUED] == [[]] * len(GLUED)


@contextmanager
def older_version(store: Any) -> Iterator[None]:
    """What is written to the store is written as older versions did."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (language, lexemes):
            patch.setattr(module, "without_terminal_codes", lambda text: text)
        patch.setattr(language, "spell_out_symbols", lambda text: text)
        yield
    store._write(forget_marker)


def forget_marker(db: Database) -> None:
    set_marker(db, older_index._MARKER, None)


def save_older(store: Store) -> None:
    with older_version(store):
        store.save(
            [
                conversation(message("b", "nothing"), message("a", LINE, minutes=1)),
                conversation(message("d", "31m"), id="c3"),
                conversation(message("c", LINE, minutes=2), id="c2", title=TITLE),
            ]
        )
    assert ids(store, "31mfailed") == ["a", "c"]
    assert ids(store, "failed") == []


def stored_contents(store: Store, document: str) -> list[str]:
    return [passage.content for passage in store.document(document).passages]


def titled(store: Store) -> list[str]:
    """The conversations in a list of those whose title contains a text."""
    summaries, _ = store.summaries(EVERYTHING, "nightly build", 10, 0)
    return [summary.id for summary in summaries]


def test_messages_are_found_by_the_words_between_codes(store: Store) -> None:
    store.save([conversation(message("a", LINE), message("b", "nothing", minutes=1), title=TITLE)])
    store.append("c1", message("c", LINE, minutes=2))
    assert not store.needs_refresh()
    check_search(store, ["a", "c"])
    assert stored_contents(store, "c1") == [LINE, "nothing", LINE]
    assert titled(store) == ["c1"]
    assert ids(store, "nightly build") == ["a"]


def test_older_libraries_are_repaired_in_the_background(
    reopen: Callable[[], Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(older_index, "_KEYS_PER_BATCH", 2)
    store = reopen()
    save_older(store)
    space = store.add_space("test", "1", 8, None)
    passages, _ = store.unembedded(space, 10)
    store.add_vectors(space, {passage: [] for passage in passages})
    store = reopen()
    assert store.needs_refresh()
    store.refresh(stop=lambda: True)
    assert store.needs_refresh(), "it continues later"
    stops = iter([False, True])
    store.refresh(stop=lambda: next(stops, True))
    assert ids(store, "failed") == ["c"], "the newest are first"
    store.refresh()
    assert not store.needs_refresh()
    assert store.verify().healthy
    assert ids(store, "31m") == ["d"]
    store.pop("c3")
    check_search(store, ["a", "c"])
    assert ids(store, "nightly") == ["c"]
    assert titled(store) == ["c2"]
    assert [p.content for p in store.unembedded(space, 10)[0]] == [LINE, LINE]
    assert stored_contents(store, "c1") == ["nothing", LINE]


def test_an_older_message_can_be_deleted_before_it_is_repaired(store: Store) -> None:
    save_older(store)
    store.delete_passage("c1", "a")
    store.append("c1", message("e", LINE, minutes=9))
    store.pop("c2")
    assert store.known_words([*GLUED, "failed"]) == {"failed"}
    store.refresh()
    assert ids(store, "failed") == ["e"]
    assert store.verify().healthy
    store.pop("c1")
    assert store.known_words([*GLUED, "failed", "tests", "nightly"]) == set()
    assert store.verify().healthy


def test_a_new_index_is_complete(reopen: Callable[[], Store]) -> None:
    store = reopen()
    save_older(store)
    store.repair()
    assert not store.needs_refresh()
    assert ids(store, "failed") == ["a", "c"]


def test_sealed_volumes_of_older_libraries_are_repaired(
    sqlite_store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "MIN_VOLUME_PASSAGES", 4)
    with older_version(sqlite_store):
        others = [message(f"m{n}", f"other {n}", minutes=n) for n in range(20)]
        sqlite_store.save([conversation(message("a", LINE), *others)])
        older_index_complete(sqlite_store)
        sqlite_store.refresh()
    assert ids(sqlite_store, "31mfailed") == ["a"]
    sqlite_store.refresh()
    check_search(sqlite_store, ["a"])


def older_index_complete(store: Any) -> None:
    store._write(older_index.mark_complete)


def test_names_with_symbols_are_found_in_older_libraries(reopen: Callable[[], Store]) -> None:
    store = reopen()
    with older_version(store):
        messages = [message("a", NAMES), message("b", NAMES, minutes=1)]
        store.save([conversation(*messages, title="C++ notes")])
    store = reopen()
    assert (ids(store, "c++"), ids(store, "c")) == ([], ["a", "b"])
    store.delete_passage("c1", "b")
    store.append("c1", message("d", NAMES, minutes=2))
    store.refresh()
    assert not store.needs_refresh()
    assert ids(store, "c++") == ids(store, "f#") == [*ids(store, "C++ notes"), "d"] == ["a", "d"]
    assert literal_ids(store, "C++ and F#") == ["a", "d"]
    store.pop("c1")
    assert store.known_words(["c", "cplusplus", "fsharp", "csharp", "31mcplusplus"]) == set()
    assert store.verify().healthy


def test_a_name_in_colour_of_an_older_library_can_be_deleted(
    reopen: Callable[[], Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    """This version left codes out, but indexed C++ as the letter C."""
    store = reopen()
    with monkeypatch.context() as patch:
        patch.setattr(language, "spell_out_symbols", lambda text: text)
        store.save([conversation(message("a", "use \x1b[31mC++\x1b[0m here"))])
    store._write(forget_marker)  # type: ignore[attr-defined]
    store.delete_passage("c1", "a")
    assert store.known_words(["use", "c", "cplusplus", "31mc"]) == set()
    assert store.verify().healthy
