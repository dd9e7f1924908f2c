"""The text index has positions or not. Older libraries get the new layout in the background.

Without positions, phrases are verified against the text. The results are the same.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from messages import message
from random_libraries import WORDS, conversation, random_documents, random_filter, random_tree

from recollect.language.queries.query import parse
from recollect.language.queries.query_tree import And, Near, Not, Or, Word
from recollect.model.search import Filter
from recollect.model.undo import Edit
from recollect.store.sqlite import SqliteStore
from recollect.store.sqlite import store as sqlite_store
from recollect.store.sqlite.care import reindexing
from recollect.store.sqlite.connections.connection import Connection, connect
from recollect.store.sqlite.text import (
    fts_match,
    index_copy,
    index_layout,
    text_index,
    verified_matches,
)
from recollect.store.sqlite.text.index_copy import COPY
from recollect.store.sqlite.text.index_layout import INDEX, has_layout
from recollect.store.sqlite.volumes import plan

EVERYTHING = Filter(kinds=(), hidden=True)
MANY = 100_000


@pytest.fixture(autouse=True)
def small_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_layout, "_MIN_PASSAGES_WITHOUT_POSITIONS", 0)
    monkeypatch.setattr(text_index, "_REWRITES_PER_WIPE", 0)
    monkeypatch.setattr(plan, "MIN_VOLUME_PASSAGES", 10)
    monkeypatch.setattr(plan, "MAX_VOLUME_PASSAGES", 40)


@pytest.fixture
def open_store(tmp_path: Path) -> Iterator[Callable[[str], SqliteStore]]:
    stores: list[SqliteStore] = []

    def open_named(name: str) -> SqliteStore:
        stores.append(SqliteStore(tmp_path / name / "library.db"))
        return stores[-1]

    yield open_named
    for store in stores:
        store.close()


def use_positions(store: SqliteStore) -> None:
    """The layout of a new library."""
    assert has_positions(store)


def leave_out_positions(store: SqliteStore) -> None:
    """Give an empty library the index of a large one."""
    store._write(lambda db: text_index.clear(db, False))


def use_oldest_layout(store: SqliteStore) -> None:
    """The same of version 0.1: the title comes first."""

    def replace(db: Connection) -> None:
        db.execute(
            f"drop table {INDEX}; create virtual table {INDEX} using fts5(title, content, "
            "content='', tokenize='unicode61 remove_diacritics 0')"
        ).fetchall()

    store._write(replace)


def has_positions(store: SqliteStore) -> bool:
    with store._connections.read() as db:
        assert has_layout(db, INDEX, True) != has_layout(db, INDEX, False)
        return has_layout(db, INDEX, True)


def results(store: SqliteStore, seed: int, searches: int = 30) -> list[object]:
    """What random searches find, by ids that do not depend on the store."""
    rng = random.Random(seed)
    outcomes: list[object] = []
    for _ in range(searches):
        node, filter = random_tree(rng), random_filter(rng)
        if rng.random() < 0.5:
            filter = EVERYTHING
        keys = store.match(node, filter, MANY)
        assert store.count(node, filter) == (len(keys), True)
        groups = store.match_groups(node, filter)
        assert sum(group.matches for group in groups.passages) == len(keys)
        outcomes.append((node, filter, keys, sorted(map(repr, groups.passages))))
        text = " ".join(rng.choices(WORDS, k=2))[rng.randrange(3) :]
        literal = store.find_substring(text, filter, MANY, 0)
        recent = store.recent(text, filter, MANY)
        outcomes.append((text, literal.total, [c.key for c in literal.candidates]))
        outcomes.append((text, [c.key for c in recent]))
    return outcomes


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.full) for n in (1, 2, 3))])
def test_an_index_without_positions_finds_what_one_with_positions_finds(
    open_store: Callable[[str], SqliteStore], seed: int
) -> None:
    with_positions, without = stores = [open_store("with"), open_store("without")]
    leave_out_positions(without)
    for store in stores:
        store.save(random_documents(random.Random(seed), 40))
    assert has_positions(with_positions) and not has_positions(without)
    expected = results(with_positions, seed)
    assert sum(bool(keys) for _, _, keys, *_ in expected[::3]) > 10
    assert results(without, seed) == expected


def test_sealed_phrases_are_grouped_like_unsealed_ones(
    open_store: Callable[[str], SqliteStore],
) -> None:
    store = open_store("sealed")
    leave_out_positions(store)
    store.save(random_documents(random.Random(0), 40))
    nodes = [Word("over walrus"), Word("日本"), Or((Word("a.b"), Word("tusk over"))), Word("tusk")]
    before = [store.match_groups(node, Filter()) for node in nodes]
    store.refresh()
    store.save([conversation("late", message("late", "walrus 日本 over walrus tusk"))])
    store.save([conversation("d1", message("p1-0", "日本 was edited"))])
    after = [store.match_groups(node, Filter()) for node in nodes]
    for node, groups in zip(nodes, after, strict=True):
        count, _ = store.count(node, Filter())
        assert sum(group.matches for group in groups.passages) == count
    assert before != after


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        (Word("rain barrel"), ["phrase"]),
        (Word("rain barr", prefix=True), ["phrase"]),
        (Near((Word("barrel"), Word("rain")), 1), ["phrase", "reversed"]),
        (And((Word("rain"), Not(Word("rain barrel")))), ["apart", "reversed"]),
        (And((Word("rain"), Not(Near((Word("rain"), Word("barrel")), 0)))), ["apart"]),
        (Or((Word("rain barrel"), Word("title words"))), ["phrase"]),
        (Word("words rain"), []),
        (Word("雨水桶"), ["chinese"]),
        (Word("水雨"), []),
    ],
)
def test_phrases_are_verified_against_the_text(
    open_store: Callable[[str], SqliteStore], node: Word, expected: list[str]
) -> None:
    store = open_store("small")
    leave_out_positions(store)
    texts = {
        "phrase": "rain barrel",
        "reversed": "a barrel rain",
        "apart": "rain or sun, and no other barrel",
        "chinese": "花园里的雨水桶很大",
    }
    for name, text in texts.items():
        store.save([conversation(name, message(name, text), title=f"title of words {name}")])
    keys = store.match(node, EVERYTHING, MANY)
    assert sorted(c.id for c in store.candidates(keys, EVERYTHING)) == expected


def test_a_word_of_the_title_is_not_in_the_text(open_store: Callable[[str], SqliteStore]) -> None:
    store = open_store("titles")
    leave_out_positions(store)
    store.save(
        [
            conversation(
                "c", message("a", "about castles"), message("b", "trams"), title="Trams to castles"
            )
        ]
    )
    for text, ids in (("tram", ["b"]), ("castle", ["a"]), ("rams", ["b"]), ("trams to", [])):
        matches = store.find_substring(text, EVERYTHING, MANY, 0)
        assert [c.id for c in matches.candidates] == ids, text
        assert matches.total == len(ids)
    both = store.find_substring("castles", EVERYTHING, MANY, 0)
    assert [c.id for c in both.candidates] == ["a"]


def test_very_many_possible_matches_are_verified_until_there_are_enough(
    open_store: Callable[[str], SqliteStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store("bounded")
    leave_out_positions(store)
    for n in range(12):
        text = f"rain barrel {n}" if n % 3 == 0 else f"rain in barrel {n}"
        store.save([conversation(f"c{n}", message(f"m{n}", text))])
    phrase, near = Word("rain barrel"), Near((Word("barrel"), Word("rain")), 1)
    monkeypatch.setattr(fts_match, "_SMALL_RANGE", 0)
    monkeypatch.setattr(verified_matches, "_MAX_VERIFIED", 6)
    monkeypatch.setattr(verified_matches, "_MAX_VERIFIED_MATCHES", 3)
    assert [store.count(node, EVERYTHING) for node in (phrase, near)] == [(2, False), (3, False)]
    assert store.count(near, Filter(conversations=("c1", "c2"))) == (2, True)
    assert len(store.match(near, EVERYTHING, MANY)) == 3
    groups = store.match_groups(near, EVERYTHING)
    assert sum(group.matches for group in groups.passages) == 12
    store.save([conversation("first", message("first", "rain, barrel, rain"), title="Rain")])
    for n in range(12, 24):
        store.save([conversation(f"c{n}", message(f"m{n}", f"barrel {n} rain"))])
    assert store.count(Word("barrel rain"), EVERYTHING) == (1, False)


def test_words_around_the_end_of_a_title_are_not_near_each_other(
    open_store: Callable[[str], SqliteStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store("near")
    for n in range(20):
        texts = ["barrel of oil", "no rain", "a rain barrel"][: 2 + n % 2]
        messages = [message(f"m{n}-{place}", text) for place, text in enumerate(texts)]
        store.save([conversation(f"c{n}", *messages, title="All about rain")])
    before = store.match(Near((Word("rain"), Word("barrel")), 2), EVERYTHING, MANY)
    store.refresh()
    for left_out in (False, True):
        if left_out:
            store._write(lambda db: reindexing.copy_batch(db, False))
        for node in (
            Near((Word("rain"), Word("barrel")), 2),
            And((Word("rain"), Near((Word("barrel"), Word("rain")), 2))),
        ):
            keys = store.match(node, EVERYTHING, MANY)
            assert sorted(keys) == sorted(before)
            assert {c.content for c in store.candidates(keys, EVERYTHING)} == {"a rain barrel"}
            assert len(store.match(node, EVERYTHING, 3)) == 3
            assert store.count(node, EVERYTHING) == (10, True)
            groups = store.match_groups(node, EVERYTHING)
            assert sum(group.matches for group in groups.passages) == 10
        without = And((Word("rain"), Not(Near((Word("rain"), Word("barrel")), 2))))
        assert store.count(without, EVERYTHING) == (40, True)
    monkeypatch.setattr(sqlite_store, "_MAX_COUNTED_MATCHES", 4)
    assert store.count(Near((Word("barrel"), Word("rain")), 2), EVERYTHING) == (4, False)


# -- reindexing ---


def change(store: SqliteStore, step: int) -> None:
    """Edit, delete, retitle, append and add, each time something else."""
    edited, retitled, deleted = (f"d{(step * 3 + n) % 36}" for n in range(3))
    store.save([conversation(edited, message(f"p{edited[1:]}-0", f"walrus café only{step}x"))])
    store.edit(retitled, Edit(title=f"Tusk title{step}x 日本"))
    store.delete(deleted)
    store.append(retitled, message(f"last{step}", f"walrus over new{step}x"))
    store.save([conversation(f"added{step}", message(f"added{step}", f"over tusk added{step}x"))])


@pytest.mark.parametrize(
    "use_old_layout", [use_positions, pytest.param(use_oldest_layout, marks=pytest.mark.full)]
)
def test_an_older_index_is_replaced_while_others_write(
    open_store: Callable[[str], SqliteStore],
    monkeypatch: pytest.MonkeyPatch,
    use_old_layout: Callable[[SqliteStore], None],
) -> None:
    monkeypatch.setattr(reindexing, "_BATCH", 20)
    old, new = open_store("old"), open_store("new")
    use_old_layout(old)
    for store in (old, new):
        store.save(random_documents(random.Random(1), 40))
    steps = 0
    while old._write(lambda db: reindexing.copy_batch(db, False)):
        change(old, steps)
        change(new, steps)
        assert results(old, steps, 3) == results(new, steps, 3)
        steps += 1
    assert steps > 4
    assert not has_positions(old)
    assert results(old, 99) == results(new, 99)
    for store in (old, new):
        assert store.verify().healthy


def test_a_batch_has_fewer_messages_if_they_are_long(
    open_store: Callable[[str], SqliteStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reindexing, "_MAX_BYTES", 0)
    store = open_store("long")
    for n in range(5):
        store.save([conversation(f"c{n}", message(f"m{n}", f"walrus {n} " * 20))])
    batches = 1
    while store._write(lambda db: reindexing.copy_batch(db, False)):
        batches += 1
    assert batches == 6
    assert store.count(parse('"walrus 3"'), Filter()) == (1, True)
    assert store.verify().healthy


def vocabulary(path: Path, table: str) -> set[str]:
    with closing(connect(path)) as db:
        db.execute(f"create virtual table temp.terms using fts5vocab(main, {table}, row)")
        return {term for (term,) in db.rows("select term from temp.terms")}


def start_copy(store: SqliteStore, monkeypatch: pytest.MonkeyPatch, texts: list[str]) -> None:
    """Save messages in an older library, and copy the index of the first two."""
    monkeypatch.setattr(reindexing, "_BATCH", 2)
    for n, text in enumerate(texts):
        store.save([conversation(f"c{n}", message(f"m{n}", text))])
    assert store._write(lambda db: reindexing.copy_batch(db, False))


def test_deleted_words_are_in_neither_index(
    open_store: Callable[[str], SqliteStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store("old")
    start_copy(store, monkeypatch, ["secret walrus", "tusk", "late"])
    assert vocabulary(store.path, COPY) == {"secret", "walrus", "tusk"}
    store.save([conversation("c1", message("m1", "changed"))])
    store.delete("c0")
    assert vocabulary(store.path, COPY) == {"changed"}
    assert vocabulary(store.path, INDEX) == {"changed", "late"}
    store.refresh()
    assert vocabulary(store.path, INDEX) == {"changed", "late"}
    assert not has_positions(store)


def test_reindexing_is_resumed_where_it_stopped(
    open_store: Callable[[str], SqliteStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store("old")
    start_copy(store, monkeypatch, [f"walrus only{n}x" for n in range(9)])
    assert store.needs_refresh()
    store.close()
    copied: list[int] = []
    insert_rows = reindexing.insert_rows

    def count_rows(db: Connection, table: str, rows: list[tuple[int, str, str]]) -> None:
        copied.extend(key for key, _, _ in rows)
        insert_rows(db, table, rows)

    monkeypatch.setattr(reindexing, "insert_rows", count_rows)
    reopened = open_store("old")
    reopened.refresh()
    assert copied == list(range(3, 10))
    assert not has_positions(reopened)
    assert reopened.count(parse("walrus"), Filter()) == (9, True)
    assert reopened.count(parse('"walrus only4x"'), Filter()) == (1, True)
    assert reopened.verify().healthy
    assert not reopened.needs_refresh()


@pytest.mark.parametrize("drop_copy", [SqliteStore.repair, lambda store: store.delete("c0")])
def test_a_repair_and_a_large_deletion_drop_an_unfinished_copy(
    open_store: Callable[[str], SqliteStore],
    monkeypatch: pytest.MonkeyPatch,
    drop_copy: Callable[[SqliteStore], object],
) -> None:
    monkeypatch.setattr(text_index, "_REWRITES_PER_WIPE", 300)
    store = open_store("old")
    start_copy(store, monkeypatch, ["secret walrus", "tusk", "late"])
    drop_copy(store)
    with store._connections.read() as db:
        assert not db.get("select 1 from sqlite_schema where name = ?", (COPY,))
    store.refresh()
    assert not has_positions(store)
    assert store.count(parse("tusk OR late"), Filter()) == (2, True)
    assert store.verify().healthy


def test_a_copy_that_nobody_can_finish_is_not_searched(
    open_store: Callable[[str], SqliteStore], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    store = open_store("old")
    start_copy(store, monkeypatch, ["secret walrus", "tusk", "late"])
    store.close()
    shutil.copytree(tmp_path / "old", tmp_path / "read-only")
    read_only = SqliteStore(tmp_path / "read-only" / "library.db", read_only=True)
    assert read_only.count(parse("walrus OR late"), Filter()) == (2, True)
    read_only.close()


def test_a_copy_with_the_wrong_layout_is_started_again(
    open_store: Callable[[str], SqliteStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store("old")
    start_copy(store, monkeypatch, ["secret walrus", "tusk", "late"])
    assert store._write(lambda db: index_copy.start_copy(db, False)) == 2
    assert store._write(lambda db: index_copy.start_copy(db, True)) == 0
    assert vocabulary(store.path, COPY) == set()


def test_positions_are_left_out_when_a_library_has_become_large(
    open_store: Callable[[str], SqliteStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_layout, "_MIN_PASSAGES_WITHOUT_POSITIONS", 3)
    store = open_store("growing")
    for n in range(3):
        assert not store.needs_refresh()
        store.save([conversation(f"c{n}", message(f"m{n}", "walrus over"))])
        assert has_positions(store)
    assert store.needs_refresh()
    store.refresh()
    assert not has_positions(store)
    assert store.count(parse('"walrus over"'), Filter()) == (3, True)
    store.repair()
    assert not has_positions(store)
    assert store.verify().healthy
