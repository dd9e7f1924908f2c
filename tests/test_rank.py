"""The ranker scores and orders candidates."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.language.when import windows
from recollect.search.passages import ScoredCandidate, find_terms
from recollect.search.queries.terms import RankingQuery, Term
from recollect.search.ranking import rank, weights_for
from recollect.store.values import Candidate

NOW = datetime(2025, 6, 18, 12, tzinfo=UTC)
DEFAULTS: dict[str, Any] = {
    "title": "",
    "role": "user",
    "author": None,
    "type": "message",
    "created_at": NOW - timedelta(days=30),
    "source": "test",
    "kind": "conversation",
    "project": "default",
    "canonical": True,
    "passages": 4,
}


def candidate(
    key: int, content: str, cosine: float | None = None, by_text: bool = True, **fields: Any
) -> ScoredCandidate:
    values = {"document": f"c{key}", "position": 0} | DEFAULTS | fields
    return ScoredCandidate(
        Candidate(key=key, id=f"m{key}", content=content, **values),
        by_text,
        cosine is not None,
        cosine,
    )


def question(text: str, *words: str, weights: tuple[float, ...] = ()) -> RankingQuery:
    weights = weights or (1.0,) * len(words)
    terms = tuple(
        Term(((word,),), weight=weight) for word, weight in zip(words, weights, strict=True)
    )
    return RankingQuery(text, terms, NOW, windows(text, NOW))


def ranking(query: RankingQuery, *pool: ScoredCandidate) -> list[ScoredCandidate]:
    find_terms(query, pool)
    return rank(query, pool)


def order(query: RankingQuery, *pool: ScoredCandidate) -> list[int]:
    return [scored.candidate.key for scored in ranking(query, *pool)]


def parts_by_key(query: RankingQuery, *pool: ScoredCandidate) -> dict[int, dict[str, float]]:
    return {scored.candidate.key: scored.parts for scored in ranking(query, *pool)}


# -- every pool ---------------------------------------------------------------

WORDS = ["walrus", "tusk", "ice", "and", "the", "?"]
candidate_values = st.builds(
    lambda words, role, author, days, document, cosine, by_text, title: (
        " ".join(words),
        role,
        author,
        days,
        document,
        cosine,
        by_text,
        title,
    ),
    st.lists(st.sampled_from(WORDS), max_size=12),
    st.sampled_from(["user", "assistant", "tool", None]),
    st.sampled_from([None, "Ann", "Bob"]),
    st.one_of(st.none(), st.integers(-5, 900)),
    st.integers(0, 3),
    st.one_of(st.none(), st.floats(-1, 1)),
    st.booleans(),
    st.sampled_from(["", "walrus", "the ice"]),
)
QUESTIONS = [
    question("walrus tusk last week", "walrus", "tusk", weights=(2.5, 0.7)),
    question("what did you tell Ann about ice", "ann", "ice", "tusk", weights=(1.3, 0.1, 3.3)),
    question("", ""),
    RankingQuery("?", (), NOW),
]


def pool_of(values: list[Any]) -> list[ScoredCandidate]:
    pool = []
    for n, (content, role, author, days, document, cosine, by_text, title) in enumerate(values):
        created_at = None
        if days is not None:
            created_at = NOW - timedelta(days=days)
        pool.append(
            candidate(
                n,
                content,
                cosine,
                by_text,
                role=role,
                author=author,
                document=f"c{document}",
                position=n,
                title=title,
                created_at=created_at,
            )
        )
    return pool


@given(
    st.lists(candidate_values, max_size=8),
    st.sampled_from(QUESTIONS),
    st.randoms(use_true_random=False),
)
def test_the_ranking_does_not_depend_on_the_order_of_the_pool(
    values: list[Any], query: RankingQuery, rng: Any
) -> None:
    pool = pool_of(values)
    find_terms(query, pool)
    shuffled_pool = deepcopy(pool)
    rng.shuffle(shuffled_pool)
    first = rank(query, pool)
    second = rank(query, shuffled_pool)
    assert [s.candidate.key for s in first] == [s.candidate.key for s in second]
    assert [s.score for s in first] == [s.score for s in second]


@given(st.lists(candidate_values, max_size=8), st.sampled_from(QUESTIONS))
def test_ranking_twice_gives_the_same_result_and_changes_only_scores(
    values: list[Any], query: RankingQuery
) -> None:
    pool = pool_of(values)
    find_terms(query, pool)
    before = deepcopy(pool)
    first = deepcopy(rank(query, pool))
    assert rank(query, pool) == first
    scoring = {"score": 0.0, "part_names": (), "part_values": (), "is_between_people": False}
    assert [replace(s, **scoring) for s in pool] == before


@given(st.lists(candidate_values, max_size=8), st.sampled_from(QUESTIONS))
def test_parts_have_a_weight_and_add_up_to_the_score(
    values: list[Any], query: RankingQuery
) -> None:
    result = ranking(query, *pool_of(values))
    assert len(result) == sum(by_text or cosine is not None for *_, cosine, by_text, _ in values)
    for scored in result:
        weights = weights_for(query, scored.is_between_people)
        assert scored.parts.keys() <= weights.keys()
        assert sum(scored.parts.values()) == pytest.approx(scored.score)
        assert all(-0.001 <= value / weights[name] <= 1.5 for name, value in scored.parts.items())
    scores = [scored.score for scored in result]
    assert scores == sorted(scores, reverse=True)


def test_an_empty_pool_has_an_empty_ranking() -> None:
    assert rank(question("walrus", "walrus"), []) == []


def test_context_messages_are_not_ranked() -> None:
    neighbour = candidate(2, "walrus", by_text=False)
    assert order(question("walrus", "walrus"), candidate(1, "walrus"), neighbour) == [1]


def test_the_later_of_two_equal_messages_comes_first() -> None:
    assert order(
        question("walrus", "walrus"),
        candidate(1, "walrus", document="c"),
        candidate(2, "walrus", document="c"),
    ) == [2, 1]


# -- each part ----------------------------------------------------------------


def test_a_rare_word_counts_more_than_a_common_one() -> None:
    query = question("walrus the", "walrus", "the", weights=(4.0, 0.2))
    assert order(query, candidate(1, "the walrus"), candidate(2, "the the")) == [1, 2]
    assert order(query, candidate(1, "walrus"), candidate(2, "the")) == [1, 2]


def test_a_long_message_gains_nothing_from_its_length() -> None:
    long = "walrus " + "word " * 400 + "walrus " + "word " * 400
    assert order(
        question("walrus", "walrus"), candidate(1, "a walrus here"), candidate(2, long)
    ) == [1, 2]


def test_words_close_together_count_more_than_words_far_apart() -> None:
    apart = "walrus one two three four five six tusk"
    assert order(
        question("walrus tusk", "walrus", "tusk"),
        candidate(1, "walrus tusk one two three four five six"),
        candidate(2, apart),
    ) == [1, 2]


def test_a_message_more_similar_in_meaning_comes_first() -> None:
    assert order(
        question("x", "x"),
        candidate(1, "a b", 0.2, by_text=False),
        candidate(2, "a b", 0.7, by_text=False),
    ) == [2, 1]


@pytest.mark.parametrize(
    "text",
    [
        "which walrus did you suggest",
        "what you said of the walrus",
        "remind me of the walrus",
        "what did ChatGPT recommend",
        "the assistant spoke of it",
        "in our previous talk of the walrus",
        "what did you tell me about the walrus",
        "what did you say about the walrus",
        "the poem that you write for me",
    ],
)
def test_the_user_comes_before_the_assistant_unless_the_query_asks_for_the_assistant(
    text: str,
) -> None:
    pool = [
        candidate(n, "walrus facts", role=role, document="c", position=n)
        for n, role in enumerate(["user", "assistant"])
    ]
    assert order(question("walrus facts for you and me", "walrus"), *pool) == [0, 1]
    assert order(question(text, "walrus"), *pool) == [1, 0]


def test_the_speaker_named_in_the_query_comes_first() -> None:
    pool = [candidate(1, "walrus", author="Ann Lee"), candidate(2, "walrus", author="Bob")]
    assert order(question("what did Ann say of the walrus", "walrus"), *pool) == [1, 2]
    assert order(question("what did Bob say of the walrus", "walrus"), *pool) == [2, 1]
    both_speakers = ranking(question("did Ann or Bob speak of the walrus", "walrus"), *pool)
    assert all("speaker" not in scored.parts for scored in both_speakers)


@pytest.mark.parametrize(
    ("text", "author"),
    [
        ("What did Will plant in the pot?", "Will Smith"),
        ("Which pot does smith have?", "Will Smith"),
        ("Where is the pot of Bo?", "Bo"),
        ("小明在花盆里种了什么?", "小明"),
        ("What will I have planted in the pot?", None),
        ("Where is a pot?", None),
        ("明天在花盆里种什么?", None),
    ],
)
def test_words_that_every_text_has_name_nobody(text: str, author: str | None) -> None:
    authors = ["Will Smith", "Speaker A", "Bo", "小明", "小红"]
    pool = [candidate(n, "pot", author=author) for n, author in enumerate(authors)]
    scored = ranking(question(text, "pot"), *pool)
    speakers = [each.candidate.author for each in scored if "speaker" in each.parts]
    assert speakers == [author] * (author is not None)


def test_newer_messages_are_preferred_but_only_mildly() -> None:
    old, new = NOW - timedelta(days=700), NOW - timedelta(days=1)
    query = question("walrus tusk", "walrus", "tusk", weights=(2.0, 2.0))
    assert order(
        query, candidate(1, "walrus", created_at=new), candidate(2, "walrus", created_at=old)
    ) == [1, 2]
    assert order(
        query, candidate(1, "walrus", created_at=new), candidate(2, "walrus tusk", created_at=old)
    ) == [2, 1]
    assert order(
        query, candidate(1, "walrus", created_at=new), candidate(2, "walrus", created_at=None)
    ) == [1, 2]


def test_messages_written_after_the_question_come_later() -> None:
    query = question("when did the walrus come?", "walrus")
    later = candidate(1, "the walrus came", created_at=NOW + timedelta(days=2))
    earlier = candidate(2, "the walrus came", created_at=NOW - timedelta(days=2))
    in_another_time_zone = candidate(3, "the walrus came", created_at=NOW + timedelta(hours=13))
    parts = parts_by_key(query, later, earlier, in_another_time_zone)
    assert [key for key in parts if "later" in parts[key]] == [1]
    assert list(parts)[-1] == 1


def test_messages_in_or_near_a_period_named_in_the_query_come_first() -> None:
    pool = [
        candidate(day, "walrus", created_at=NOW - timedelta(days=day), document=f"c{day}")
        for day in (1, 8, 17, 400)
    ]
    assert order(question("walrus last week", "walrus"), *pool)[0] == 8
    assert order(question("walrus last week", "walrus"), *pool)[-1] == 400
    assert len(order(question("walrus in March 1999", "walrus"), *pool)) == 4


def test_an_answer_to_a_matching_question_ranks_higher() -> None:
    query = question("which tea", "which", "tea", weights=(1.0, 3.0))
    first = candidate(1, "Which tea do you like?", document="c", position=0)
    answer = candidate(2, "Oolong.", 0.1, by_text=False, document="c", position=1)
    other = candidate(3, "Oolong.", 0.1, by_text=False, document="d", position=1)
    parts = parts_by_key(query, first, answer, other)
    assert "reply" in parts[2]
    assert "reply" not in parts[3]
    assert "question" in parts[1]


def test_a_matching_title_ranks_higher() -> None:
    pool = [candidate(1, "walrus", title="Groceries"), candidate(2, "walrus", title="Other")]
    assert order(question("walrus groceries", "walrus", "groceries"), *pool) == [1, 2]


def test_messages_of_a_conversation_with_more_matches_rank_higher() -> None:
    pool = [
        candidate(1, "walrus", document="c", position=0),
        candidate(2, "tusk", document="c", position=5),
        candidate(3, "walrus", document="d", position=0),
    ]
    parts = parts_by_key(question("walrus tusk", "walrus", "tusk"), *pool)
    assert parts[1]["whole"] > parts[3]["whole"]


def test_author_and_date_count_as_words_of_the_message() -> None:
    on = datetime(2025, 5, 8, 12, tzinfo=UTC)
    pool = [
        candidate(1, "walrus", author="Ann", created_at=on),
        candidate(2, "walrus", author="Bob", created_at=on),
    ]
    assert order(question("x", "walrus", "ann"), *pool) == [1, 2]
    pool = [
        candidate(1, "walrus", created_at=on),
        candidate(2, "walrus", created_at=on - timedelta(days=40)),
    ]
    assert order(
        RankingQuery("x", question("", "walrus", "may").terms, NOW - timedelta(days=61)), *pool
    ) == [1, 2]


def test_inflected_forms_phrases_and_prefixes_are_recognized() -> None:
    query = RankingQuery(
        "x",
        (Term((("walk",), ("walks",))), Term((("new", "york"),)), Term((("tus",),), prefix=True)),
        NOW,
    )
    pool = [
        candidate(1, "he walks"),
        candidate(2, "new york"),
        candidate(3, "york is new"),
        candidate(4, "two tusks"),
    ]
    find_terms(query, pool)
    assert [scored.terms for scored in pool] == [(0,), (1,), (), (2,)]
