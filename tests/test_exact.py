"""Searching contents alone, in FTS5's own language (contract 2 stands on it)."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import recollect
from recollect.errors import InvalidInput
from recollect.language.matching import matches
from recollect.language.query import MalformedQuery, Word, parse, parse_fts5
from recollect.search.snippet import excerpt
from recollect.settings import LIMITS

WORDS = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta")
texts = st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join)
queries = st.recursive(
    st.sampled_from([*WORDS, "al*", "eps*", '"alpha beta"', '"gamma delta"']),
    lambda inner: st.tuples(inner, st.sampled_from([" AND ", " OR ", " NOT ", " "]), inner).map(
        lambda each: f"({each[0]}){each[1]}({each[2]})"
    ),
    max_leaves=4,
)


def test_column_filters_and_plus_are_fts5_s() -> None:
    assert parse_fts5("content:alpha") == parse_fts5("{content} : alpha") == parse("alpha")
    assert parse_fts5("content: (alpha OR beta)") == parse("(alpha OR beta)")
    assert parse_fts5("alpha + beta") == parse_fts5('"alpha" + "beta"') == parse('"alpha beta"')
    assert parse_fts5('alpha + beta + "gamma delta"') == parse('"alpha beta gamma delta"')
    assert parse_fts5('"content:alpha"') == parse('"content:alpha"')
    for other in ("author:x", "{author} : x", "- thread_id : x", "a AND message_id:b"):
        with pytest.raises(MalformedQuery):
            parse_fts5(other)


@pytest.mark.parametrize(
    "wrong", ["*", '"', "(", ")", "a AND", "OR b", '"a', "", "  ", "->", "a (", "NEAR("]
)
def test_what_is_malformed_is_told(library: recollect.Library, wrong: str) -> None:
    with pytest.raises(MalformedQuery):
        library.match_expression(wrong)


def test_a_query_over_the_cap_is_told(library: recollect.Library) -> None:
    with pytest.raises(InvalidInput):
        library.match_expression("a" * (LIMITS.query_bytes + 1))


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(st.tuples(texts, st.lists(texts, min_size=1, max_size=4)), min_size=1, max_size=6),
    st.lists(queries, min_size=1, max_size=6),
)
def test_titles_are_never_what_matches(
    library: recollect.Library, conversations: list[tuple[str, list[str]]], asked: list[str]
) -> None:
    for summary in library.conversations(limit=200)[0]:
        library.delete_conversation(summary.id)
    for n, (title, contents) in enumerate(conversations):
        library.add_conversation(
            f"c{n}", title, messages=[{"role": "user", "content": c} for c in contents]
        )
    for query in asked:
        page = library.match_expression(query, limit=200)
        wanted = {
            (f"c{n}", k)
            for n, (_, contents) in enumerate(conversations)
            for k, content in enumerate(contents)
            if matches(parse(query), "", content)
        }
        assert {(hit.conversation_id, hit.position) for hit in page.hits} == wanted
        assert (page.total, page.exact) == (len(wanted), True)


def test_the_best_come_first_and_the_total_counts_all(library: recollect.Library) -> None:
    for n in range(30):
        library.add_conversation(
            f"c{n}", "walrus", messages=[{"role": "user", "content": "a seal " * n}]
        )
    library.add_conversation("best", "", messages=[{"role": "user", "content": "seal"}])
    page = library.match_expression("seal", limit=3)
    assert (len(page.hits), page.total) == (3, 30)
    assert page.hits[0].conversation_id == "best"
    assert library.match_expression("walrus").total == 0
    assert library.match_expression("seal", conversations=["c7"]).total == 1
    assert library.match_expression("seal", conversations=["nowhere"]).total == 0


# -- excerpts ------------------------------------------------------------------------------


def test_an_excerpt_has_twenty_words_around_the_match_and_whole_words_are_marked() -> None:
    text = (
        " ".join(f"w{n}" for n in range(200))
        + " performance "
        + " ".join(f"x{n}" for n in range(200))
    )
    shown, marks = excerpt(text, [Word("perform", prefix=True)], 20)
    assert shown.startswith("…") and shown.endswith("…")
    assert len(shown.strip("…").split()) == 20
    assert [shown[a:b] for a, b in marks] == ["performance"]


@given(
    st.lists(st.sampled_from([*WORDS, "<b>", "&", "…", "\n", "日本", "x" * 50]), max_size=120).map(
        " ".join
    ),
    st.sampled_from(WORDS),
)
def test_an_excerpt_never_has_more_words_and_always_shows_a_match(text: str, word: str) -> None:
    shown, marks = excerpt(text, [Word(word)], 20)
    import re

    assert len(re.findall(r"[^\W_]+", shown)) <= 20
    assert bool(marks) == (word in text.split())
    assert all(shown[a:b] == word for a, b in marks)


def test_a_huge_message_of_one_word_is_soon_shown() -> None:
    shown, marks = excerpt("a " * 500_000, [Word("a")], 20)
    assert shown == "a " * 19 + "a…"
    assert len(marks) == 20


def test_a_long_query_is_refused_before_it_is_read() -> None:
    with pytest.raises(InvalidInput):
        parse_fts5("a + " * 20_000)
