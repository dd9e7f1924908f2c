"""How much of a question its best hits must have."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from recollect.model.kinds import CONVERSATION
from recollect.search.evidence import assess
from recollect.search.passages import ScoredCandidate
from recollect.search.queries.terms import RankingQuery, Term
from recollect.store.values import Candidate

NOW = datetime(2026, 3, 1, tzinfo=UTC)
FLOOR = 0.4


def question(text: str, *words: str) -> RankingQuery:
    """A question with terms of the same weight."""
    return RankingQuery(text, tuple(Term(((word,),), frequency=1) for word in words), NOW)


def is_weak(query: RankingQuery, ranking: list[ScoredCandidate], floor: float | None) -> bool:
    return assess(query, ranking, floor).is_weak


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


def test_a_question_for_a_rule_needs_a_rule_if_rules_are_observed() -> None:
    query = question("May I merge my own pull requests?", "merge", "own", "pull", "requests")
    mention = hit(1, {0, 3}, FLOOR)
    rule = replace(mention, part_names=("preference",), part_values=(3.0,))
    assert not assess(query, [mention], FLOOR).is_weak
    assert assess(query, [mention], FLOOR, has_observations=True).is_weak
    assert not assess(query, [mention, rule], FLOOR, has_observations=True).is_weak
    assert not assess(query, [hit(1, {0, 1, 3}, FLOOR)], FLOOR, has_observations=True).is_weak
    other = question("Who merged the pull requests?", "merged", "pull", "requests")
    assert not assess(other, [hit(1, {0, 2}, FLOOR)], FLOOR, has_observations=True).is_weak


def test_a_request_with_a_new_name_needs_a_preference_about_its_topic() -> None:
    query = question("Suggest a flight to Rome", "flight", "rome")
    flight, rome = query.terms
    query = replace(query, terms=(flight, rome._replace(frequency=0)))
    mention = hit(1, {0}, 0.1)
    liking = replace(mention, part_names=("liking",), part_values=(1.5,))
    assert is_weak(query, [mention], FLOOR)
    assert not is_weak(query, [mention, liking], FLOOR)
    assert is_weak(query, [mention, replace(liking, terms=())], FLOOR)
    assert is_weak(replace(query, text="Which flight is to Rome?"), [mention, liking], FLOOR)


@pytest.mark.parametrize(("cosine", "weak"), [(0.35, True), (0.45, False)])
def test_a_name_alone_is_evidence_only_with_a_similar_meaning(cosine: float, weak: bool) -> None:
    query = question("which region is Redis in?", "region", "redis")
    assert is_weak(query, [hit(1, {1}, cosine)], FLOOR) == weak


def test_the_time_of_a_message_alone_is_no_evidence() -> None:
    text = "what did we note about databases in April 2024?"
    query = question(text, "databases", "april", "2024")
    dated = replace(hit(1, set(), 0.1), metadata_terms=(1, 2))
    assert is_weak(query, [dated], FLOOR)
    assert not is_weak(query, [replace(dated, terms=(0,))], FLOOR)
    assert not is_weak(query, [hit(1, {1, 2}, 0.1)], FLOOR)  # a message that mentions April 2024
    period = question("What was in April 2024?", "april", "2024")
    assert not is_weak(period, [replace(dated, metadata_terms=(0, 1))], FLOOR)
