"""The ranker scores and orders candidates."""

from __future__ import annotations

from copy import deepcopy
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


# -- each part ----------------------------------------------------------------


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
