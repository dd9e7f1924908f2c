"""Chunking: no text is lost, no chunk is too long, and sentences stay whole."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.language.chunking import Chunk, chunk_ids, chunks, count_tokens, sentences

TEXTS = st.text(st.characters() | st.sampled_from(" .!?\n。#"), max_size=600)


@given(TEXTS, st.integers(1, 60), st.floats(1, 8))
def test_the_chunks_joined_are_the_text(text: str, size: int, per_token: float) -> None:
    parts = chunks(text, size, per_token=per_token)
    assert "".join(text[start:end] for start, end in parts) == text
    assert all(count_tokens(end - start, per_token) <= size for start, end in parts)


@given(TEXTS, st.integers(1, 60), st.integers(0, 80))
def test_overlapping_chunks_cover_the_text_and_share_at_most_the_overlap(
    text: str, size: int, overlap: int
) -> None:
    parts = chunks(text, size, overlap)
    assert all(count_tokens(end - start) <= size for start, end in parts)
    if parts:
        assert (parts[0].start, parts[-1].end) == (0, len(text))
    for before, after in pairwise(parts):
        assert before.start < after.start <= before.end < after.end
        assert before.end - after.start <= overlap * 4


@given(TEXTS)
def test_the_sentences_joined_are_the_text(text: str) -> None:
    assert "".join(text[start:end] for start, end in sentences(text)) == text


@pytest.mark.parametrize(
    ("text", "language", "expected"),
    [
        (
            "Dr. Smith paid $3.50 for it. He left.",
            "en",
            ["Dr. Smith paid $3.50 for it. ", "He left."],
        ),
        ("これは文です。次の文です。", "ja", ["これは文です。", "次の文です。"]),
        ("¿Qué tal? Muy bien.", "es", ["¿Qué tal? ", "Muy bien."]),
        ("هل أنت بخير؟ نعم.", "ar", ["هل أنت بخير؟ ", "نعم."]),
        ("यह एक वाक्य है। यह दूसरा है।", "hi", ["यह एक वाक्य है। ", "यह दूसरा है।"]),
        ("Das ist z. B. gut. Ja.", "de", ["Das ist z. B. gut. ", "Ja."]),
    ],
)
def test_sentences_are_split_correctly_in_many_languages(
    text: str, language: str, expected: list[str]
) -> None:
    assert [text[start:end] for start, end in sentences(text, language)] == expected


def test_a_chunk_ends_at_a_paragraph_or_else_at_a_sentence() -> None:
    text = "One is here. Two is here.\n\nThree is here. Four is here. Five is here."
    assert [text[start:end] for start, end in chunks(text, 8)] == [
        "One is here. Two is here.\n\n",
        "Three is here. Four is here. ",
        "Five is here.",
    ]


def test_a_sentence_longer_than_a_chunk_is_split_between_words() -> None:
    text = "word " * 40
    assert {text[start:end] for start, end in chunks(text, 10)} == {"word " * 8}


def test_a_chunk_keeps_its_id_when_other_chunks_change() -> None:
    before = list(chunk_ids("notes\0a", ["one", "two", "one"]))
    after = list(chunk_ids("notes\0a", ["new", "two", "one"]))
    assert len(set(before)) == 3
    assert after[1:] == [before[1], before[0]]
    assert list(chunk_ids("notes\0b", ["one"])) != before[:1], "ids differ between documents"


def test_an_empty_text_has_no_chunks() -> None:
    assert chunks("") == []
    assert sentences(" ") == [Chunk(0, 1)]


@pytest.mark.parametrize(
    "text", ["a" * 300_000, "\n" * 300_000, ". " * 150_000, "🙂" * 100_000, "\ud800" * 1_000]
)
def test_a_text_without_sentences_is_split_too(text: str) -> None:
    parts = chunks(text)
    assert "".join(text[start:end] for start, end in parts) == text
    assert max(end - start for start, end in parts) <= 1_000
