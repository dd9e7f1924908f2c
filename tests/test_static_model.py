"""The embedding model that comes with Recollect."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.errors import InvalidInput, RecollectError
from recollect.models.static import (
    CACHED,
    TABLE,
    Counts,
    Pieces,
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


def likeness(one: str, other: str, model: StaticModel = MODEL) -> float:
    first, second = model.embed([one, other])
    return float(first @ second)


# -- meaning -----------------------------------------------------------------


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
def test_what_means_the_same_is_nearer(word: str, near: str, far: str) -> None:
    assert likeness(word, near) > likeness(word, far) + 0.1


@pytest.mark.parametrize(
    ("question", "answer"),
    [("What does he grow? vegetables, herbs", 0), ("which instrument does Ben practise", 3)],
)
def test_a_question_finds_the_message_that_answers_it(question: str, answer: int) -> None:
    model = StaticModel(Counts.of(TALK))
    assert int(np.argmax(model.embed(TALK) @ model.embed_query(question))) == answer


def test_a_word_in_every_text_of_the_library_says_little() -> None:
    counted = StaticModel(Counts.of(["Anna: " + line for line in TALK] * 10))
    apart = ("Anna: the weather is fine", "Anna: a broken bicycle")
    assert likeness(*apart, counted) < likeness(*apart) - 0.1
    counts = Counts.of(["the cat", "the dog", "the end"])
    weights = counts.weights()
    the, cat, unseen = (default_table()[0].pieces[piece] for piece in ("the", "cat", "zebra"))
    assert weights[the] < weights[cat] < weights[unseen]


def test_the_only_message_of_a_library_has_a_vector() -> None:
    (vector,) = StaticModel(Counts.of(TALK[:1])).embed(TALK[:1])
    assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-5)


# -- the same, always --------------------------------------------------------


def test_a_text_has_the_same_vector_in_whatever_batch() -> None:
    model = StaticModel(Counts.of(TALK))
    together = model.embed([*TALK, "", *reversed(TALK)])
    for text, vector in zip([*TALK, "", *reversed(TALK)], together, strict=True):
        assert np.array_equal(model.embed([text])[0], vector)
        assert np.array_equal(model.embed_query(text), vector)


def test_no_texts_make_no_vectors() -> None:
    assert MODEL.embed([]).shape == (0, MODEL.dimensions)


@given(st.text())
def test_any_text_has_a_vector_of_unit_length_or_zero(text: str) -> None:
    (vector,) = MODEL.embed([text])
    assert vector.dtype == np.float32
    assert np.isfinite(vector).all()
    length = float(np.linalg.norm(vector))
    assert length == 0 or length == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize(
    "text", ["", " \n\t", "\U0001f600\U0001f680", "\u200b\u200d", "\ud800", "\x00", "x" * 101]
)
def test_a_text_without_a_known_piece_is_zero(text: str) -> None:
    assert not MODEL.embed([text]).any()


@pytest.mark.parametrize(
    "text",
    [
        "今天天气很好",
        "こんにちは世界",
        "안녕하세요",
        "Привет, как дела?",
        "مرحبا بالعالم",
        "नमस्ते दुनिया",
        "สวัสดีชาวโลก",
    ],
)
def test_other_scripts_are_cut_too(text: str) -> None:
    assert np.isfinite(MODEL.embed([text])).all()


def test_a_text_of_a_megabyte_has_a_vector() -> None:
    long = "The boats lay in the harbour until the storm had passed. " * 18_000
    nonsense = "".join(hashlib.sha256(str(n).encode()).hexdigest() + " " for n in range(15_000))
    vectors = MODEL.embed([long, nonsense])
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1, abs=1e-5)
    assert float(vectors[0] @ MODEL.embed_query("ships in a port, bad weather")) > 0.3


# -- cutting -----------------------------------------------------------------


def pieces(text: str) -> list[str]:
    table, cut = default_table()
    names = list(table.pieces)
    return [names[number] for number in cut.of(text)]


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
def test_a_text_is_cut_as_the_model_was_taught(text: str, expected: list[str]) -> None:
    assert pieces(text) == expected


@given(st.text(st.characters(max_codepoint=127)))
def test_plain_text_is_cut_the_same_among_other_characters(text: str) -> None:
    assert pieces(text) == pieces(text + "\u200b")  # which is dropped, but not in ASCII


def test_only_so_many_words_are_remembered() -> None:
    cut = Pieces({"w": 0, **{f"##{digit}": digit + 1 for digit in range(10)}})
    assert cut.of("w 9 w20") == [0, 0, 3, 1]
    cut.of(" ".join(f"w{n}" for n in range(CACHED + 10)))
    assert len(cut) <= CACHED
    assert cut.of("w20") == [0, 3, 1]


# -- keeping -----------------------------------------------------------------


def test_counts_survive_being_stored() -> None:
    counts = Counts.of(TALK)
    stored = counts.to_bytes()
    again = Counts.from_bytes(stored)
    assert len(stored) < 2_000
    assert again.documents == counts.documents == len(TALK)
    assert np.array_equal(again.pieces, counts.pieces)
    assert StaticModel(again).version == StaticModel(counts).version


def test_a_piece_is_counted_once_a_text() -> None:
    counts = Counts.of(iter(["the the the", "the cat", ""]))
    table, _ = default_table()
    assert (counts.documents, counts.pieces[table.pieces["the"]], counts.pieces.sum()) == (3, 2, 3)


def test_the_version_tells_which_vectors_can_be_compared() -> None:
    versions = [
        StaticModel(counts).version for counts in (None, Counts.of(TALK), Counts.of(TALK[:2]))
    ]
    assert len(set(versions)) == 3
    assert all(version.split("-")[0] == default_table()[0].version for version in versions)


def test_counts_of_another_table_are_refused() -> None:
    with pytest.raises(InvalidInput, match="Count the texts again"):
        StaticModel(Counts(1, np.ones(5, np.uint32)))


def test_the_table_is_the_one_that_the_notice_describes() -> None:
    notice = TABLE.with_name("NOTICE.md").read_text(encoding="utf-8")
    assert hashlib.sha256(TABLE.read_bytes()).hexdigest() in notice


def test_a_table_is_read_as_it_was_written() -> None:
    table = Table.read(TABLE)
    assert table.to_bytes() == TABLE.read_bytes()
    assert table.codes.shape == (len(table.pieces), StaticModel.dimensions)


@pytest.mark.parametrize(
    "damage", [lambda data: data[:-1], lambda data: data[:5], lambda data: b"X" + data[1:]]
)
def test_a_damaged_table_is_told_from_a_good_one(tmp_path: Path, damage: object) -> None:
    assert callable(damage)
    path = tmp_path / "static.table"
    path.write_bytes(damage(TABLE.read_bytes()))
    with pytest.raises(RecollectError, match="Reinstall Recollect"):
        Table.read(path)
