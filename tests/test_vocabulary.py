"""The ranker's words as numbers, and what is remembered of texts."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from recollect.search.ranking import answer, vocabulary
from recollect.search.ranking.vocabulary import Vocabulary
from recollect.store.sqlite import content_cache
from recollect.store.sqlite.content_cache import ContentCache


def test_a_word_has_the_same_number_in_every_text() -> None:
    words = Vocabulary()
    first = words.split("The walrus, the ice").tolist()
    second = words.split("Ice WALRUS").tolist()
    assert first == [0, 1, 0, 2]
    assert second == [2, 1]
    assert words.numbers(["ice", "tusk", "walrus"]) == [2, 1]


def test_words_have_the_same_numbers_in_every_thread() -> None:
    words = Vocabulary()
    texts = [" ".join(f"word{n % 700}" for n in range(start, start + 50)) for start in range(700)]
    with ThreadPoolExecutor(4) as pool:
        splits = list(pool.map(words.split, texts))
    assert len(words) == 700
    assert [words.split(text).tolist() for text in texts] == [each.tolist() for each in splits]


@pytest.mark.parametrize("count", [50, 5_000])
def test_all_words_with_a_prefix_are_found(count: int) -> None:
    words = Vocabulary()
    names = [f"w{number}" for number in range(count)]
    for start in range(0, count, 40):
        words.split(" ".join(names[start : start + 40]))
        words.numbers_with_prefix("w")
    expected = {name for name in names if name.startswith("w1")}
    assert set(words.numbers_with_prefix("w1")) == set(words.numbers(sorted(expected)))
    assert words.numbers_with_prefix("x") == []


def test_words_have_traits() -> None:
    words = Vocabulary()
    traits = words.traits(words.split("I walked and prefer 5 beds")).tolist()
    assert traits == [
        answer.FIRST_PERSON,
        answer.PAST,
        0,
        answer.PREFERENCE,
        answer.DIGITS,
        0,
    ]


def test_texts_that_were_forgotten_are_split_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vocabulary, "_MAX_REMEMBERED", 10)
    words = Vocabulary()
    first = words.split("walrus tusk")
    for number in range(20):
        words.split(f"text {number}")
    assert words.split("walrus tusk") is not first
    assert words.split("walrus tusk").tolist() == first.tolist()


def test_contents_that_are_used_stay_in_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content_cache, "_MAX_CHARACTERS", 10)
    cache = ContentCache()
    cache.add(b"walrus", "walrus")
    for number in range(20):
        cache.add(b"%d" % number, str(number))
        assert cache.get(b"walrus") == "walrus"
    assert cache.get(b"0") is None
