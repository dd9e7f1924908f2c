"""Messages that change after they were sealed are found by their new words only."""

from __future__ import annotations

import pytest
from messages import conversation, message

from recollect import Filter
from recollect.language.queries.query import parse
from recollect.language.queries.query_tree import Word
from recollect.store.sqlite import SqliteStore, sealing, volume_index

EVERYTHING = Filter(kinds=(), hidden=True)


@pytest.fixture
def store(sqlite_store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> SqliteStore:
    """Forty sealed messages, of which three have changed since."""
    monkeypatch.setattr(sealing, "MIN_VOLUME_PASSAGES", 4)
    monkeypatch.setattr(sealing, "_STALE_SHARE", 2)
    messages = [message(f"m{n}", f"the walrus swims, old{n}x", minutes=n) for n in range(40)]
    sqlite_store.save([conversation(*messages)])
    sqlite_store.refresh()
    for n, text in enumerate(("a rare otter, newword", "the brown walrus", "otters rarely swim")):
        sqlite_store.save([conversation(message(f"m{n}", text, minutes=n))])
    sqlite_store.refresh()
    with sqlite_store._connections.read() as db:
        assert db.get("select count(*) from stale") == 3
    return sqlite_store


def ids(store: SqliteStore, query: str, filter: Filter = EVERYTHING) -> list[str]:
    keys = store.match(parse(query), filter, 100)
    assert store.count(parse(query), filter) == (len(keys), True)
    messages = store.passages_by_key(keys)
    return [messages[key][1].id for key in keys]


def check_queries(store: SqliteStore) -> None:
    expected = {
        "newword": ["m0"],
        '"rare otter"': ["m0"],
        '"otter rare"': [],
        "otter*": ["m0", "m2"],
        "otter OR otters": ["m0", "m2"],
        "swim AND otters": ["m2"],
        "brown NOT otter": ["m1"],
        "otter* NOT newword": ["m2"],
        "NEAR(rare newword, 1)": ["m0"],
        "old0x OR old1x": [],
        "old3x": ["m3"],
    }
    for query, messages in expected.items():
        assert sorted(ids(store, query)) == messages, query
    assert "m1" in ids(store, "walrus")
    assert ids(store, "otter", Filter(kinds=(), roles=("assistant",))) == []
    assert ids(store, "otter", Filter(kinds=(), roles=("user",))) == ["m0"]


def test_changed_messages_are_found_by_their_new_words(store: SqliteStore) -> None:
    check_queries(store)


def test_changed_messages_that_are_too_long_are_found_by_fts5(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(volume_index, "_MAX_CHANGED_CHARACTERS", 30)
    with store._connections.read() as db:
        assert len(volume_index.changed_passages(db)[1]) == 1
        check_queries(store)


def test_words_of_changed_messages_are_counted(store: SqliteStore) -> None:
    words = ["newword", "old0x", "old3x", "otter", "walrus"]
    frequencies, _ = store.frequencies([Word(word) for word in words])
    # Old words of changed messages may count for frequent words, but not if nothing else has them.
    assert frequencies[:4] == [1, 0, 1, 1]
    assert frequencies[4] in (38, 40)


def test_a_changed_message_ranks_like_others(store: SqliteStore) -> None:
    store.save([conversation(message("m5", "the otter and the walrus", minutes=5))])
    assert "m5" in ids(store, "otter OR walrus")[:3], "it has both words"
