"""The ranker: what was found goes in, the order comes out."""

from __future__ import annotations

from copy import deepcopy
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.language.when import windows
from recollect.search import rank
from recollect.search.rank import WEIGHTS, Found, Question
from recollect.search.terms import Term
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


def found(
    key: int, content: str, cosine: float | None = None, text: bool = True, **fields: Any
) -> Found:
    given_ = {"document": f"c{key}", "position": 0} | DEFAULTS | fields
    return Found(
        Candidate(key=key, id=f"m{key}", content=content, **given_),
        text,
        cosine is not None,
        cosine,
    )


def asked(text: str, *words: str, weights: tuple[float, ...] = ()) -> Question:
    weights = weights or (1.0,) * len(words)
    terms = tuple(
        Term(((word,),), weight=weight) for word, weight in zip(words, weights, strict=True)
    )
    return Question(text, terms, NOW, windows(text, NOW))


def ranked(question: Question, *pool: Found) -> list[rank.Ranked]:
    rank.read(question, pool)
    return rank.rank(question, pool)


def order(question: Question, *pool: Found) -> list[int]:
    return [r.found.candidate.key for r in ranked(question, *pool)]


# -- pure ---------------------------------------------------------------------------

WORDS = ["walrus", "tusk", "ice", "and", "the", "?"]
candidates = st.builds(
    lambda words, role, author, days, document, cosine, text, title: (
        " ".join(words),
        role,
        author,
        days,
        document,
        cosine,
        text,
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
    asked("walrus tusk last week", "walrus", "tusk", weights=(2.5, 0.7)),
    asked("what did you tell Ann about ice", "ann", "ice", "tusk", weights=(1.3, 0.1, 3.3)),
    asked("", ""),
    Question("?", (), NOW),
]


def pool_of(made: list[Any]) -> list[Found]:
    return [
        found(
            n,
            content,
            cosine,
            text,
            role=role,
            author=author,
            document=f"c{document}",
            position=n,
            title=title,
            created_at=None if days is None else NOW - timedelta(days=days),
        )
        for n, (content, role, author, days, document, cosine, text, title) in enumerate(made)
    ]


@given(
    st.lists(candidates, max_size=8), st.sampled_from(QUESTIONS), st.randoms(use_true_random=False)
)
def test_the_order_does_not_depend_on_the_order_of_what_was_found(
    made: list[Any], question: Question, rng: Any
) -> None:
    pool = pool_of(made)
    rank.read(question, pool)
    first = rank.rank(question, pool)
    shuffled = deepcopy(pool)
    rng.shuffle(shuffled)
    again = rank.rank(question, shuffled)
    assert [r.found.candidate.key for r in first] == [r.found.candidate.key for r in again]
    assert [r.score for r in first] == [r.score for r in again]


@given(st.lists(candidates, max_size=8), st.sampled_from(QUESTIONS))
def test_the_same_pool_has_the_same_order_and_is_left_as_it_was(
    made: list[Any], question: Question
) -> None:
    pool = pool_of(made)
    rank.read(question, pool)
    before = deepcopy(pool)
    assert rank.rank(question, pool) == rank.rank(question, pool)
    assert pool == before


@given(st.lists(candidates, max_size=8), st.sampled_from(QUESTIONS))
def test_parts_are_those_that_have_a_weight_and_add_up_to_the_score(
    made: list[Any], question: Question
) -> None:
    result = ranked(question, *pool_of(made))
    assert len(result) == sum(text or cosine is not None for *_, cosine, text, _ in made)
    for one in result:
        assert one.parts.keys() <= WEIGHTS.keys()
        assert sum(one.parts.values()) == pytest.approx(one.score)
        assert all(-0.001 <= value / WEIGHTS[name] <= 1.5 for name, value in one.parts.items())
    assert [r.score for r in result] == sorted((r.score for r in result), reverse=True)


def test_nothing_found_is_nothing_ranked() -> None:
    assert rank.rank(asked("walrus", "walrus"), []) == []


def test_neighbours_are_not_hits() -> None:
    neighbour = found(2, "walrus", text=False)
    assert order(asked("walrus", "walrus"), found(1, "walrus"), neighbour) == [1]


def test_of_two_that_are_alike_the_later_comes_first() -> None:
    assert order(
        asked("walrus", "walrus"),
        found(1, "walrus", document="c"),
        found(2, "walrus", document="c"),
    ) == [
        2,
        1,
    ]


# -- each part ---------------------------------------------------------------------


def test_a_rare_word_says_more_than_a_common_one() -> None:
    question = asked("walrus the", "walrus", "the", weights=(4.0, 0.2))
    assert order(question, found(1, "the walrus"), found(2, "the the")) == [1, 2]
    assert order(question, found(1, "walrus"), found(2, "the")) == [1, 2]


def test_a_long_message_does_not_win_by_its_length() -> None:
    long = "walrus " + "word " * 400 + "walrus " + "word " * 400
    assert order(asked("walrus", "walrus"), found(1, "a walrus here"), found(2, long)) == [1, 2]


def test_words_close_together_say_more_than_words_apart() -> None:
    apart = "walrus one two three four five six tusk"
    assert order(
        asked("walrus tusk", "walrus", "tusk"),
        found(1, "walrus tusk one two three four five six"),
        found(2, apart),
    ) == [1, 2]


def test_what_is_nearer_in_meaning_comes_first() -> None:
    assert order(
        asked("x", "x"), found(1, "a b", 0.2, text=False), found(2, "a b", 0.7, text=False)
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
def test_the_person_comes_before_the_assistant_unless_the_assistant_is_asked_for(text: str) -> None:
    pool = [
        found(n, "walrus facts", role=role, document="c", position=n)
        for n, role in enumerate(["user", "assistant"])
    ]
    assert order(asked("walrus facts for you and me", "walrus"), *pool) == [0, 1]
    assert order(asked(text, "walrus"), *pool) == [1, 0]


def test_the_speaker_that_the_question_names_comes_first() -> None:
    pool = [found(1, "walrus", author="Ann Lee"), found(2, "walrus", author="Bob")]
    assert order(asked("what did Ann say of the walrus", "walrus"), *pool) == [1, 2]
    assert order(asked("what did Bob say of the walrus", "walrus"), *pool) == [2, 1]
    both = ranked(asked("did Ann or Bob speak of the walrus", "walrus"), *pool)
    assert all("speaker" not in r.parts for r in both)


def test_the_newer_is_preferred_but_gently() -> None:
    old, new = NOW - timedelta(days=700), NOW - timedelta(days=1)
    question = asked("walrus tusk", "walrus", "tusk", weights=(2.0, 2.0))
    assert order(
        question, found(1, "walrus", created_at=new), found(2, "walrus", created_at=old)
    ) == [1, 2]
    assert order(
        question, found(1, "walrus", created_at=new), found(2, "walrus tusk", created_at=old)
    ) == [2, 1]
    assert order(
        question, found(1, "walrus", created_at=new), found(2, "walrus", created_at=None)
    ) == [1, 2]


def test_a_time_that_the_question_names_prefers_what_lies_in_it_and_near_it() -> None:
    pool = [
        found(day, "walrus", created_at=NOW - timedelta(days=day), document=f"c{day}")
        for day in (1, 8, 17, 400)
    ]
    assert order(asked("walrus last week", "walrus"), *pool)[0] == 8
    assert order(asked("walrus last week", "walrus"), *pool)[-1] == 400
    assert len(order(asked("walrus in March 1999", "walrus"), *pool)) == 4


def test_an_answer_to_a_question_with_the_words_is_lifted() -> None:
    question = asked("which tea", "which", "tea", weights=(1.0, 3.0))
    asks = found(1, "Which tea do you like?", document="c", position=0)
    answer = found(2, "Oolong.", 0.1, text=False, document="c", position=1)
    other = found(3, "Oolong.", 0.1, text=False, document="d", position=1)
    result = {r.found.candidate.key: r.parts for r in ranked(question, asks, answer, other)}
    assert "reply" in result[2]
    assert "reply" not in result[3]
    assert "question" in result[1]


def test_a_title_with_the_words_helps() -> None:
    pool = [found(1, "walrus", title="Groceries"), found(2, "walrus", title="Other")]
    assert order(asked("walrus groceries", "walrus", "groceries"), *pool) == [1, 2]


def test_a_conversation_that_has_more_of_the_question_lifts_its_messages() -> None:
    pool = [
        found(1, "walrus", document="c", position=0),
        found(2, "tusk", document="c", position=5),
        found(3, "walrus", document="d", position=0),
    ]
    result = {
        r.found.candidate.key: r.parts
        for r in ranked(asked("walrus tusk", "walrus", "tusk"), *pool)
    }
    assert result[1]["whole"] > result[3]["whole"]


def test_author_and_date_count_as_if_they_were_written_in_the_message() -> None:
    on = datetime(2025, 5, 8, 12, tzinfo=UTC)
    pool = [
        found(1, "walrus", author="Ann", created_at=on),
        found(2, "walrus", author="Bob", created_at=on),
    ]
    assert order(asked("x", "walrus", "ann"), *pool) == [1, 2]
    pool = [
        found(1, "walrus", created_at=on),
        found(2, "walrus", created_at=on - timedelta(days=40)),
    ]
    assert order(
        Question("x", asked("", "walrus", "may").terms, NOW - timedelta(days=61)), *pool
    ) == [1, 2]


def test_every_form_of_a_word_and_words_in_a_row_are_found() -> None:
    question = Question(
        "x",
        (Term((("walk",), ("walks",))), Term((("new", "york"),)), Term((("tus",),), prefix=True)),
        NOW,
    )
    pool = [
        found(1, "he walks"),
        found(2, "new york"),
        found(3, "york is new"),
        found(4, "two tusks"),
    ]
    rank.read(question, pool)
    assert [f.matched for f in pool] == [(0,), (1,), (), (2,)]
