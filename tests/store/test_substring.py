"""Literal search finds exactly the messages that contain a text, with the index or without it."""

from __future__ import annotations

import random

import pytest
from messages import conversation, message

from recollect.language.text import fold
from recollect.model.search import Filter
from recollect.store.base import Store

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
        matches = store.find_substring(needle, Filter(), 200, 0)
        assert {candidate.id for candidate in matches.candidates} == expected, repr(needle)
        assert (matches.total, matches.is_complete) == (len(expected), True)


def test_pages_are_newest_first_and_filters_apply(store: Store) -> None:
    passages = [message(f"m{n}", "a zebra crossing", minutes=n) for n in range(5)]
    passages += [message("x", "zebra", "assistant", 9), message("y", "zebra", visibility="hidden")]
    store.save([conversation(*passages), conversation(message("z", "zebra"), id="c2")])
    for text in ("zebra", "a zebra cros", "ebr", "bra cr"):
        page = store.find_substring(text, Filter(roles=("user",), conversations=("c1",)), 2, 1)
        assert ([c.id for c in page.candidates], page.total) == (["m3", "m2"], 5)
