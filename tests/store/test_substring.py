"""Literal search finds exactly the messages that contain a text, with the index or without it."""

from __future__ import annotations

import random

import pytest
from messages import conversation, message, recent

from recollect import Filter
from recollect.language.text import fold
from recollect.store.base import Store
from recollect.store.sqlite import passages, substring

# Letters, separators and characters that change when text is indexed or folded.
PIECES = [
    *"ab1",
    *" _-.'",
    *"éßİKﬁ²½",
    *"日本",
    "e\u0301",
    "foo",
    "bar",
    "가",
    "ᄀ",
    "\u00ad",
]


@pytest.fixture(autouse=True, params=[substring.MAX_SORTED_MATCHES, 0])
def most_sorted(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Matches are found as in a small library, and as in one that has many."""
    for module in (passages, substring):
        monkeypatch.setattr(module, "MAX_SORTED_MATCHES", request.param)


def contents(count: int, seed: int) -> list[str]:
    generator = random.Random(seed)
    return [
        "".join(generator.choice(PIECES) for _ in range(generator.randint(1, 7)))
        for _ in range(count)
    ]


@pytest.mark.parametrize("seed", range(2))
def test_the_index_finds_what_a_scan_finds(store: Store, seed: int) -> None:
    texts = contents(120, seed)
    store.save([conversation(*(message(f"m{n}", text) for n, text in enumerate(texts)))])
    for needle in contents(40, seed + 100):
        expected = {f"m{n}" for n, text in enumerate(texts) if fold(needle) in fold(text)}
        matches = store.newest(Filter(), 200, text=needle)
        assert {candidate.id for candidate in matches.candidates} == expected, repr(needle)
        assert (matches.total, matches.is_complete) == (len(expected), True)


def test_pages_are_newest_first_and_filters_apply(store: Store) -> None:
    passages = [message(f"m{n}", "a zebra crossing", minutes=n) for n in range(5)]
    passages += [message("x", "zebra", "assistant", 9), message("y", "zebra", visibility="hidden")]
    store.save([conversation(*passages), conversation(message("z", "zebra"), id="c2")])
    for text in ("zebra", "a zebra cros", "ebr", "bra cr"):
        page = store.newest(Filter(roles=("user",), conversations=("c1",)), 2, 1, text=text)
        assert ([c.id for c in page.candidates], page.total) == (["m3", "m2"], 5)


def test_the_newest_messages_with_frequent_words_are_listed(store: Store) -> None:
    texts = ["the boat and the sea", "and then the rain", "the sea", "And the", "and", ""]
    passages = [message(f"m{n}", text, minutes=n) for n, text in enumerate(texts * 3)]
    other = message("x", "rain", minutes=99)
    titled = message("y", "a storm", minutes=50)
    notes = conversation(*passages, other, title="Notes")
    store.save([notes, conversation(titled, id="c2", title="The land")])
    for text, literal, by_words in (
        ("the and", [], ["m15", "m13", "m12"]),
        ("and the", ["m15", "m13", "m12"], ["m15", "m13", "m12"]),
        ("the", ["y", "m15", "m14"], ["y", "m15", "m14"]),
        ("nd", ["y", "m16", "m15"], []),
        ("nothing", [], []),
    ):
        assert [c.id for c in recent(store, text, Filter(), 3)] == literal, text
        assert [c.id for c in recent(store, text, Filter(), 3, "words")] == by_words, text
    assert [
        c.id
        for c in store.newest(
            Filter(roles=("assistant",)), 3, text="and", where="anywhere"
        ).candidates
    ] == []
