"""The static embedding model, which is part of Recollect."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from recollect.errors import RecollectError
from recollect.models.pieces import PieceCounter
from recollect.models.static import (
    PRIOR_PIECES,
    TABLE,
    Counts,
    StaticModel,
    Table,
    default_table,
)

MODEL = StaticModel()
TALK = [
    "Anna: I planted tomatoes and basil on the balcony",
    "Ben: my flight to Lisbon was cancelled, so I took the night train",
    "Anna: the vet says the cat needs to lose weight",
    "Ben: I am learning to play the cello, my teacher is strict",
]


def similarity(one: str, other: str, model: StaticModel = MODEL) -> float:
    first, second = model.embed([one, other])
    return float(first @ second)


# -- meaning ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("word", "near", "far"),
    [
        ("physician", "doctor", "guitar"),
        ("car", "automobile", "banana"),
        ("happy", "glad", "concrete"),
        ("the film was boring", "a dull movie", "the soup was hot"),
        ("my dog is ill", "the puppy got sick", "the train leaves at noon"),
    ],
)
def test_texts_with_a_similar_meaning_have_similar_vectors(word: str, near: str, far: str) -> None:
    assert similarity(word, near) > similarity(word, far) + 0.1


def test_a_word_that_occurs_in_every_text_has_little_weight() -> None:
    weighted = StaticModel(Counts.of(["Anna: " + line for line in TALK] * 10))
    unrelated = ("Anna: the weather is fine", "Anna: a broken bicycle")
    assert similarity(*unrelated, weighted) < similarity(*unrelated) - 0.1
    counts = Counts.of(["the cat", "the dog", "the end"])
    weights = counts.weights()
    the, cat, unseen = (default_table()[0].pieces[piece] for piece in ("the", "cat", "zebra"))
    assert weights[the] < weights[cat] < weights[unseen]


# -- vectors ------------------------------------------------------------------


@given(st.text())
def test_every_vector_has_unit_length_or_is_zero(text: str) -> None:
    (vector,) = MODEL.embed([text])
    assert vector.dtype == np.float32
    assert np.isfinite(vector).all()
    length = float(np.linalg.norm(vector))
    assert length == 0 or length == pytest.approx(1, abs=1e-5)


# -- a plain implementation to compare with ------------------------------------


_CJK = re.compile(
    "[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002ceaf\U0002f800-\U0002fa1f]"
)


def plain_words(text: str) -> list[str]:
    letters = (letter for c in text for letter in unicodedata.normalize("NFD", c).lower())
    return "".join(map(plain_folding, letters)).split()


def plain_folding(letter: str) -> str:
    category = unicodedata.category(letter)
    if letter.isspace() or (category == "Cc" and letter.isascii()):
        return " "
    if category[0] == "C" or category == "Mn":
        return ""
    if category[0] in "PS" or _CJK.match(letter):
        return f" {letter} "
    return letter


def plain_pieces(word: str) -> list[int]:
    numbers = default_table()[0].pieces
    pieces: list[int] = []
    rest = word
    marker = ""
    while rest and len(word) <= 100:
        ends = [end for end in range(1, len(rest) + 1) if marker + rest[:end] in numbers]
        if not ends:
            return []
        pieces.append(numbers[marker + rest[: ends[-1]]])
        rest = rest[ends[-1] :]
        marker = "##"
    return pieces


def plain_vector(text: str, counts: Counts) -> NDArray[np.float64]:
    """The vector of a text in double precision, one piece after the other."""
    table, _ = default_table()
    vectors = table.codes * table.scales[:, None].astype(np.float64)
    weights = counts.weights().astype(np.float64)
    frequencies = counts.pieces * weights
    zero = frequencies @ vectors / (frequencies.sum() + PRIOR_PIECES)
    total = np.zeros(vectors.shape[1])
    pieces = Counter(number for word in plain_words(text) for number in plain_pieces(word))
    for number, occurrences in pieces.items():
        total += occurrences**0.5 * weights[number] * (vectors[number] - zero)
    length = np.linalg.norm(total)
    if length == 0:
        return total
    unit: NDArray[np.float64] = total / length
    return unit


VARIED = [
    *TALK,
    "",
    " \n\t\x00\x1f\x7f",
    "It\u2019s \u201cquoted\u201d \u2014 isn\u2019t it\u2026",
    "caf\xe9 na\xefve \u00c5NGSTR\u00d6M \u212a",
    "\U0001f600 great\U0001f680news \u2764\ufe0f 3\u00d74 \u2260 \u00bd \u2460",
    "東京タワーは高い。数据库连接失败 안녕하세요 สวัสดี Привет ΣΊΣΥΦΟΣ مرحبا",
    "def f(x): return x**2  # C:\\path\\to_file; $HOME/.ssh/id_rsa <b>&amp;</b>",
    "zero\u200bwidth soft\xadhyphen nb\xa0space line\u2028sep \ue000 \U000e0041 \ud800",
    "x" * 100 + " " + "x" * 101 + " the the the The THE",
    "0123456789abcdef " * 30,
]


def test_vectors_are_those_of_a_plain_implementation() -> None:
    counts = Counts.of(VARIED)
    model = StaticModel(counts)
    expected = np.array([plain_vector(text, counts) for text in VARIED])
    assert np.abs(model.embed(VARIED) - expected).max() < 1e-5


def count_pieces(counter: PieceCounter, texts: list[str]) -> list[Counter[int]]:
    result = []
    for bags in counter.count(texts):
        entries = list(zip(bags.pieces.tolist(), bags.occurrences.tolist(), strict=True))
        for start, end in pairwise([0, *bags.ends]):
            result.append(Counter(dict(entries[start:end])))
    return result


def check_pieces(counter: PieceCounter, texts: list[str]) -> None:
    expected = [[n for word in plain_words(text) for n in plain_pieces(word)] for text in texts]
    assert [default_table()[1].of(text) for text in texts] == expected
    assert count_pieces(counter, texts) == [Counter(pieces) for pieces in expected]


def new_counter() -> PieceCounter:
    table, pieces = default_table()
    return PieceCounter(pieces, len(table.pieces))


COUNTER = new_counter()


@given(st.lists(st.text(max_size=50)))
def test_pieces_are_counted_as_a_plain_implementation_does(texts: list[str]) -> None:
    check_pieces(COUNTER, texts)


# -- tokenizing ---------------------------------------------------------------


def pieces(text: str) -> list[str]:
    table, tokenizer = default_table()
    names = list(table.pieces)
    return [names[number] for number in tokenizer.of(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Don't embed_this!", ["don", "'", "t", "em", "##bed", "_", "this", "!"]),
        ("Café À LA mode", ["cafe", "a", "la", "mode"]),
        ("İstanbul", ["istanbul"]),
        ("東京 tower", ["東", "京", "tower"]),
        ("great\U0001f600 news", ["great", "news"]),
        ("“quoted” — text…", ["“", "quoted", "”", "—", "text", "…"]),
        ("zero\u200bwidth", ["zero", "##wi", "##dt", "##h"]),
        ("c#", ["c", "#"]),
        (f"a {'b' * 101} c", ["a", "c"]),
        ("unaffable", ["una", "##ffa", "##ble"]),
    ],
)
def test_a_text_is_tokenized_as_in_training(text: str, expected: list[str]) -> None:
    assert pieces(text) == expected


# -- storing ------------------------------------------------------------------


def test_the_notice_contains_the_checksum_of_the_table() -> None:
    notice = TABLE.with_name("NOTICE.md").read_text(encoding="utf-8")
    assert hashlib.sha256(TABLE.read_bytes()).hexdigest() in notice


@pytest.mark.parametrize(
    "damage", [lambda data: data[:-1], lambda data: data[:5], lambda data: b"X" + data[1:]]
)
def test_a_damaged_table_is_an_error(tmp_path: Path, damage: object) -> None:
    assert callable(damage)
    path = tmp_path / "static.table"
    path.write_bytes(damage(TABLE.read_bytes()))
    with pytest.raises(RecollectError, match="Reinstall Recollect"):
        Table.read(path)
