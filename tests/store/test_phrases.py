"""The text index has no positions, so phrases are verified against the text.

Only the index of an encrypted library has positions. The results are the same.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from messages import message, recent
from random_libraries import WORDS, conversation, random_documents, random_filter, random_tree

from recollect import Filter
from recollect.language.queries.query_tree import And, Near, Not, Or, Word
from recollect.store.sqlite import SqliteStore, sealing, text_index

EVERYTHING = Filter(kinds=(), hidden=True)
MANY = 100_000


@pytest.fixture(autouse=True)
def small_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_index, "_REWRITES_PER_WIPE", 0)
    monkeypatch.setattr(sealing, "MIN_VOLUME_PASSAGES", 10)
    monkeypatch.setattr(sealing, "MAX_VOLUME_PASSAGES", 40)


@pytest.fixture
def open_store(tmp_path: Path) -> Iterator[Callable[[str], SqliteStore]]:
    stores: list[SqliteStore] = []

    def open_named(name: str) -> SqliteStore:
        stores.append(SqliteStore(tmp_path / name / "library.db"))
        return stores[-1]

    yield open_named
    for store in stores:
        store.close()


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
        literal = store.newest(filter, MANY, text=text)
        newest = recent(store, text, filter, MANY)
        outcomes.append((text, literal.total, [c.key for c in literal.candidates]))
        outcomes.append((text, [c.key for c in newest]))
    return outcomes


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.full) for n in (1, 2, 3))])
def test_an_index_without_positions_finds_what_one_with_positions_finds(
    open_store: Callable[[str], SqliteStore], seed: int
) -> None:
    with_positions, without = stores = [open_store("with"), open_store("without")]
    with_positions._write(lambda db: text_index.clear(db, positions=True))
    for store in stores:
        store.save(random_documents(random.Random(seed), 40))
    expected = results(with_positions, seed)
    assert sum(bool(keys) for _, _, keys, *_ in expected[::3]) > 10
    assert results(without, seed) == expected


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
    store.save(
        [
            conversation(
                "c", message("a", "about castles"), message("b", "trams"), title="Trams to castles"
            )
        ]
    )
    for text, ids in (("tram", ["b"]), ("castle", ["a"]), ("rams", ["b"]), ("trams to", [])):
        matches = store.newest(EVERYTHING, MANY, text=text)
        assert [c.id for c in matches.candidates] == ids, text
        assert matches.total == len(ids)
    both = store.newest(EVERYTHING, MANY, text="castles")
    assert [c.id for c in both.candidates] == ["a"]
