"""How much of a question its best hits must have."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from recollect.model.kinds import CONVERSATION
from recollect.search.evidence import is_weak
from recollect.search.ranking.scored import Question, ScoredCandidate
from recollect.search.terms import Term
from recollect.store.values import Candidate

NOW = datetime(2026, 3, 1, tzinfo=UTC)
FLOOR = 0.4


def question(text: str, *words: str) -> Question:
    """A question with terms of the same weight."""
    return Question(text, tuple(Term(((word,),), frequency=1) for word in words), NOW)


def hit(number: int, terms: set[int], cosine: float) -> ScoredCandidate:
    candidate = Candidate(
        number,
        "m",
        f"c{number}",
        "",
        "user",
        None,
        "message",
        NOW,
        "test",
        CONVERSATION,
        "",
        0,
        True,
        1,
        "",
    )
    return ScoredCandidate(candidate, terms=tuple(terms), cosine=cosine)


def test_words_and_meaning_count_in_the_same_exchange() -> None:
    query = question("who paid the water bill of the hut?", "paid", "water", "bill", "hut")
    assert not is_weak(query, [hit(1, {0, 1}, 0.3), hit(2, set(), 0.1)], FLOOR)
    assert is_weak(query, [hit(1, {0, 1}, 0.1), hit(2, set(), 0.3)], FLOOR)


def test_words_without_the_name_that_the_question_mentions_are_no_evidence() -> None:
    query = question("how many reviewers does Terraform need?", "reviewers", "terraform", "need")
    assert is_weak(query, [hit(1, {0, 2}, 0.3)], FLOOR)
    assert not is_weak(query, [hit(1, {0, 1}, 0.3)], FLOOR)


@pytest.mark.parametrize(("cosine", "weak"), [(0.35, True), (0.45, False)])
def test_a_name_alone_is_evidence_only_with_a_similar_meaning(cosine: float, weak: bool) -> None:
    query = question("which region is Redis in?", "region", "redis")
    assert is_weak(query, [hit(1, {1}, cosine)], FLOOR) == weak
