"""The reranker, which is part of Recollect."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from selection import few

from recollect.errors import RecollectError
from recollect.models import reranker
from recollect.models.reranker import (
    MODEL,
    Passage,
    Reranker,
    best_window,
    query_pattern,
)

TALK = [
    Passage("Anna", "I planted tomatoes and basil on the balcony last week."),
    Passage("Ben", "My flight to Lisbon was cancelled, so I took the night train."),
    Passage("Anna", "The vet says the cat needs to lose weight."),
    Passage("Ben", "I am learning to play the cello. My teacher is strict."),
    Passage("Anna", "That sounds great! What do you think about it?"),
    Passage("", "A deployment manages a set of pods to run an application workload."),
]


@pytest.fixture(scope="module")
def model() -> Reranker:
    return Reranker.load()


def best(model: Reranker, query: str, passages: list[Passage]) -> str:
    scores = model.scores(query, passages)
    return passages[scores.index(max(scores))].text


@pytest.mark.parametrize(
    ("query", "answer"),
    few(
        [
            ("How did Ben get to Portugal?", 1),
            ("Which vegetables does Anna grow?", 0),
            ("What instrument is Ben practising?", 3),
            ("Is Anna's pet too heavy?", 2),
            ("kubernetes workload", 5),
        ]
    ),
)
def test_the_answer_scores_best_even_in_other_words(
    model: Reranker, query: str, answer: int
) -> None:
    assert best(model, query, TALK) == TALK[answer].text


def test_a_score_does_not_depend_on_the_other_passages(model: Reranker) -> None:
    query = "When did Anna plant tomatoes?"
    many = [Passage("", "word " * n) for n in range(20)]
    together = model.scores(query, [*many, *TALK, *many])[len(many) : len(many) + len(TALK)]
    alone = [model.scores(query, [passage])[0] for passage in TALK]
    assert together == alone
    assert model.scores(query, TALK[::-1]) == alone[::-1]


def test_an_answer_deep_inside_a_long_text_is_read(model: Reranker) -> None:
    filler = "Nothing of note happened that day, and the weather was mild. " * 500
    long = Passage("Ben", filler + "I bought a red canoe in Norway. " + filler)
    scores = model.scores("Where did Ben buy the canoe?", [long, Passage("Ben", filler), *TALK])
    assert scores[0] == max(scores)


# -- windows -------------------------------------------------------------------


def test_the_window_has_the_most_words_of_the_query() -> None:
    text = "The ferry is late. " * 30 + "Our ferry tickets to Crete cost 40 euros. " + "More. " * 99
    window = best_window(text, query_pattern("What did the tickets to Crete cost?"), 100)
    assert "tickets to Crete cost 40" in window
    assert len(window) <= 100


# -- the file ------------------------------------------------------------------


def test_the_checksum_in_the_notice_is_that_of_the_model() -> None:
    notice = MODEL.with_name("NOTICE.md").read_text(encoding="utf-8")
    assert hashlib.sha256(MODEL.read_bytes()).hexdigest() in notice


def test_a_damaged_file_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    damaged = tmp_path / "reranker.npz"
    damaged.write_bytes(MODEL.read_bytes()[:100_000])
    monkeypatch.setattr(reranker, "MODEL", damaged)
    with pytest.raises(RecollectError, match="is damaged"):
        Reranker.load.__wrapped__(Reranker)
