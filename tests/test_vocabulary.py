"""The ranker's words as numbers, and what is remembered of texts."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.language.text import separated_words, tokens
from recollect.search.ranking import answer, vocabulary
from recollect.search.ranking.vocabulary import Vocabulary


def numbers_in(split: bytes) -> list[int]:
    numbers: list[int] = np.frombuffer(split, np.int32).tolist()
    return numbers


def test_a_word_has_the_same_number_in_every_text() -> None:
    words = Vocabulary()
    first, second = words.split(["The walrus, the ice", "Ice WALRUS"])
    (third,) = words.split(["A walrus"])
    the, walrus, the_again, ice = numbers_in(first)
    assert the == the_again
    assert numbers_in(second) == [ice, walrus]
    assert numbers_in(third)[1] == walrus
    assert len({the, walrus, ice, numbers_in(third)[0]}) == 4
    assert words.numbers(["ice", "tusk", "walrus"]) == {"ice": ice, "walrus": walrus}


@given(st.lists(st.text(), max_size=5))
def test_texts_are_split_into_the_tokens_of_the_index(texts: list[str]) -> None:
    words = Vocabulary()
    texts += ["“Straße” – Ünïcode_and 東京 snake_case", "", "don’t … stop 5 🎉 🎉", "\ud800 x"]
    texts += ["Größe ½: 5 € für das Café", "Cafe\u0301 ﬁn"]
    for text, split in zip(texts, words.split(texts), strict=True):
        expected = tokens(text)
        assert separated_words(text).decode().split() == expected
        known_numbers = words.numbers(expected)
        assert numbers_in(split) == [known_numbers[token] for token in expected]


def test_many_words_have_different_numbers() -> None:
    words = Vocabulary()
    names = [f"w{number}" for number in range(60_000)]
    splits = [
        words.split([" ".join(names[start : start + 7_000])]) for start in range(0, 60_000, 7_000)
    ]
    numbers = [n for (split,) in splits for n in numbers_in(split)]
    assert sorted(numbers) == list(range(60_000))
    assert words.numbers(names) == dict(zip(names, numbers, strict=True))


def test_words_have_the_same_numbers_in_every_thread() -> None:
    words = Vocabulary()
    texts = [" ".join(f"word{n % 700}" for n in range(start, start + 50)) for start in range(700)]
    with ThreadPoolExecutor(4) as pool:
        splits = list(pool.map(lambda text: words.split([text])[0], texts))
    assert len(words) == 700
    assert words.split(texts) == splits


def test_long_words_are_compared_in_full() -> None:
    words = Vocabulary()
    names = ["a" * size for size in range(1, 200)]
    names += [name[:-1] + "b" for name in names]
    (split,) = words.split([" ".join(names)])
    assert sorted(numbers_in(split)) == list(range(len(names)))
    assert words.numbers(names) == dict(zip(names, numbers_in(split), strict=True))


@pytest.mark.parametrize("count", [50, 5_000])
def test_all_words_with_a_prefix_are_found(count: int) -> None:
    words = Vocabulary()
    names = [f"w{number}" for number in range(count)]
    for start in range(0, count, 40):
        words.split([" ".join(names[start : start + 40])])
        words.numbers_with_prefix("w")
    expected = {name for name in names if name.startswith("w1")}
    assert set(words.numbers_with_prefix("w1")) == set(words.numbers(expected).values())
    assert words.numbers_with_prefix("x") == []


def test_long_prefixes_are_compared_in_full() -> None:
    words = Vocabulary()
    (split,) = words.split(["internationally internationale internet 東京タワー"])
    first, second, _, east, *_ = numbers_in(split)
    assert set(words.numbers_with_prefix("international")) == {first, second}
    assert words.numbers_with_prefix("internationall") == [first]
    assert words.numbers_with_prefix("東") == [east]


def test_words_have_traits() -> None:
    words = Vocabulary()
    (split,) = words.split(["I walked and prefer 5 beds"])
    assert words.traits(np.frombuffer(split, np.int32)).tolist() == [
        answer.FIRST_PERSON,
        answer.PAST,
        0,
        answer.PREFERENCE | answer.LIKING,
        answer.DIGITS,
        0,
    ]


def test_texts_that_were_forgotten_are_split_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vocabulary, "_MAX_REMEMBERED_BYTES", 10)
    words = Vocabulary()
    (first,) = words.split(["walrus tusk"])
    for number in range(20):
        words.split([f"text {number}"])
    (second,) = words.split(["walrus tusk"])
    assert second is not first
    assert second == first


def test_long_words_count_by_their_length() -> None:
    words = Vocabulary()
    for number in range(250):
        words.split([f"{number:x}" + "x" * 30_000])
    assert words.is_full
    remembered = [*words._texts, *words._earlier_texts]
    assert sum(map(len, remembered)) < 3 * vocabulary._MAX_REMEMBERED_BYTES
