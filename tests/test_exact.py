"""Search in message contents only, with the FTS5 query syntax. The Bus uses it."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from contextlib import suppress

import apsw
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import recollect
from recollect.errors import InvalidInput
from recollect.language.queries.fts5 import parse_fts5
from recollect.language.queries.query import MalformedQuery, parse
from recollect.language.queries.query_tree import Word, matches
from recollect.search.snippets import excerpt_at

WORDS = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta")
texts = st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join)
queries = st.recursive(
    st.sampled_from([*WORDS, "al*", "eps*", '"alpha beta"', '"gamma delta"']),
    lambda inner: st.tuples(inner, st.sampled_from([" AND ", " OR ", " NOT ", " "]), inner).map(
        lambda parts: f"({parts[0]}){parts[1]}({parts[2]})"
    ),
    max_leaves=4,
)


def test_column_filters_and_plus_work_as_in_fts5() -> None:
    assert parse_fts5("content:alpha") == parse_fts5("{content} : alpha") == parse("alpha")
    assert parse_fts5("content: (alpha OR beta)") == parse("(alpha OR beta)")
    assert parse_fts5("alpha + beta") == parse_fts5('"alpha" + "beta"') == parse('"alpha beta"')
    assert parse_fts5('alpha + beta + "gamma delta"') == parse('"alpha beta gamma delta"')
    assert parse_fts5('"content:alpha"') == parse('"content:alpha"')
    for expression in ("author:x", "{author} : x", "a AND message_id:b", "author:x y"):
        with pytest.raises(MalformedQuery):
            parse_fts5(expression)


CONTENTS = (
    "the fox performs near one",
    "a performance by foxes",
    "brown fox",
    "fox brown",
    "perform",
    "one two three",
    "one two thrice",
    "two one three",
    'he said "hi" now',
    "content author",
    "one near the three",
    "two and two fox three one",
)
UNSUPPORTED = ("^one", "one * + two")


@pytest.fixture(scope="module")
def fts5() -> Iterator[apsw.Connection]:
    """The table of the published page."""
    db = apsw.Connection(":memory:")
    db.execute(
        """create virtual table messages_fts using fts5(
        message_id unindexed, thread_id unindexed, author unindexed, content)"""
    )
    for content in CONTENTS:
        db.execute("insert into messages_fts values ('fox', 'perform', 'brown', ?)", (content,))
    yield db
    db.close()


@pytest.fixture
def contents(library: recollect.Library) -> recollect.Library:
    messages = [{"role": "user", "content": content} for content in CONTENTS]
    library.add_conversation("c", messages=messages)
    return library


@pytest.mark.parametrize(
    "expression",
    [
        "perform *",
        '"fo" *',
        '"fo"*',
        "fo *",
        "perform * OR brown",
        "perform*fox",
        "perform *fox",
        "(perform *)",
        "NEAR(fox bro *, 3)",
        "one + two + thr *",
        "one + two + thr*",
        '"one two thr" *',
        '"one"+"two"',
        'one +"two"',
        "- content : fox",
        "-content:fox",
        "- {content} : fox",
        "- { content author } : fox",
        "- author : fox",
        "- {author thread_id}:fox",
        "{content author} : fox",
        '"content" : fox',
        "CONTENT : fox",
        "author : fox",
        "{author message_id} : fox",
        "{content nothing} : fox",
        "content : (brown OR perform *)",
        '"said ""hi"" now"',
        '"content : author"',
        "fox -brown",
        '-"brown fox"',
        "fox NOT brown",
        "perform * *",
        "AND *",
        "fox AND *",
        "(fox) *",
        "* fox",
        "^ *",
        *UNSUPPORTED,
    ],
)
def test_an_expression_matches_as_in_fts5_or_is_malformed(
    contents: recollect.Library, fts5: apsw.Connection, expression: str
) -> None:
    """FTS5 rejects a malformed expression, or matches nothing."""
    expected: set[str] = set()
    with suppress(apsw.SQLError):
        rows = fts5.execute("select content from messages_fts where content match ?", (expression,))
        expected = {content for (content,) in rows}
    try:
        page = contents.match_expression(expression, limit=50)
    except MalformedQuery:
        assert not expected or expression in UNSUPPORTED
        return
    assert {CONTENTS[hit.position] for hit in page.hits} == expected
    assert expected


def expressions() -> st.SearchStrategy[str]:
    """Expressions that FTS5 accepts, in the grammar of its documentation, and a few others."""
    space = st.sampled_from(["", " "])
    word = st.sampled_from(["fox", "one", "two", "three", "perform", "NEAR", "FOX", "the", "zebra"])
    string = word | st.sampled_from(['"brown fox"', '"one two"', '"one"', '""', '"->"'])
    last = st.tuples(string, st.sampled_from(["", "", "", "*", " *"])).map("".join)
    plus = st.tuples(space, space).map("+".join)
    phrase = st.one_of(last, last, last, st.tuples(string, plus, last).map("".join))
    inside = st.lists(phrase, min_size=1, max_size=3).map(" ".join)
    distance = st.sampled_from(["", ", 0", ",1", " , 2 ", ",5000"])
    near = st.tuples(st.just("NEAR"), space, st.just("("), inside, distance, st.just(")"))
    group = st.one_of(phrase, phrase, phrase, near.map("".join))
    column = st.sampled_from(["", "", "", "", "content:", "- author : ", '{content "author"}: '])
    other = st.sampled_from(["author: ", "-{content}: "])
    words = st.lists(st.tuples(column | other, group).map("".join), min_size=1, max_size=3)

    def combine(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        operator = st.sampled_from([" AND ", " OR ", " NOT "])
        return st.one_of(
            st.tuples(parts, operator, parts).map("".join),
            st.tuples(column, st.just("("), parts, st.just(")")).map("".join),
        )

    return st.recursive(words.map(" ".join), combine, max_leaves=5)


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@example("the NOT fox performs")
@example("NEAR(one)")
@example("NEAR (one three)")
@example("one NEAR three")
@given(expressions())
def test_whatever_fts5_accepts_matches_as_in_fts5(
    contents: recollect.Library, fts5: apsw.Connection, expression: str
) -> None:
    try:
        rows = fts5.execute("select rowid from messages_fts where content match ?", (expression,))
        expected = {int(rowid) - 1 for (rowid,) in rows}
    except apsw.SQLError:
        return
    positions: set[int] = set()
    with suppress(MalformedQuery):
        page = contents.match_expression(expression, limit=50)
        positions = {hit.position for hit in page.hits}
        assert page.total == len(positions)
    assert positions == expected


@pytest.mark.parametrize(
    "text",
    ["**kwargs", "*args", "src/*.ts", "git commit -m", "a -> b", "C:\\path", "well-known", "c++"],
)
def test_code_and_paths_are_text(text: str) -> None:
    assert parse_fts5(text) == parse(text)


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("- content : fox", "NOT word"),
        ("fox -brown", "NOT word"),
        ("fox AND *", "must follow a word"),
        ("author : fox", "Only the column `content`"),
        ("{content nothing} : fox", "unknown column"),
        ("^fox", "not supported"),
        ("one * + two", "last part of a phrase"),
    ],
)
def test_the_reason_why_an_expression_is_malformed_is_clear(expression: str, reason: str) -> None:
    with pytest.raises(MalformedQuery, match=re.escape(reason)):
        parse_fts5(expression)


@pytest.mark.parametrize(
    "expression", ["*", '"', "(", ")", "a AND", "OR b", '"a', "", "  ", "->", "a (", "NEAR("]
)
def test_a_malformed_expression_is_an_error(library: recollect.Library, expression: str) -> None:
    with pytest.raises(MalformedQuery):
        library.match_expression(expression)


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(st.tuples(texts, st.lists(texts, min_size=1, max_size=4)), min_size=1, max_size=6),
    st.lists(queries, min_size=1, max_size=6),
)
def test_only_message_contents_match_never_titles(
    library: recollect.Library, conversations: list[tuple[str, list[str]]], expressions: list[str]
) -> None:
    for summary in library.conversation_page(limit=200)[0]:
        library.delete_conversation(summary.id)
    for n, (title, contents) in enumerate(conversations):
        library.add_conversation(
            f"c{n}", title, messages=[{"role": "user", "content": c} for c in contents]
        )
    for expression in expressions:
        page = library.match_expression(expression, limit=200)
        expected = {
            (f"c{n}", k)
            for n, (_, contents) in enumerate(conversations)
            for k, content in enumerate(contents)
            if matches(parse(expression), "", content)
        }
        assert {(hit.conversation_id, hit.position) for hit in page.hits} == expected
        assert (page.total, page.exact) == (len(expected), True)


def test_the_best_hit_comes_first_and_the_total_counts_all_matches(
    library: recollect.Library,
) -> None:
    for n in range(29):
        library.add_conversation(
            f"c{n}", "walrus", messages=[{"role": "user", "content": "a seal " + "and me " * n}]
        )
    library.add_conversation("best", "", messages=[{"role": "user", "content": "seal"}])
    page = library.match_expression("seal", limit=3)
    assert (len(page.hits), page.total) == (3, 30)
    assert page.hits[0].conversation_id == "best"
    assert library.match_expression("walrus").total == 0
    assert library.match_expression("seal", conversations=["c7"]).total == 1
    assert library.match_expression("seal", conversations=["nowhere"]).total == 0


# -- excerpts -----------------------------------------------------------------


def test_an_excerpt_has_twenty_words_around_the_match_and_marks_whole_words() -> None:
    before = " ".join(f"w{n}" for n in range(200))
    after = " ".join(f"x{n}" for n in range(200))
    text = f"{before} performance {after}"
    _, result, marks = excerpt_at(text, [Word("perform", prefix=True)], 20)
    assert result.startswith("…") and result.endswith("…")
    assert len(result.strip("…").split()) == 20
    assert [result[start:end] for start, end in marks] == ["performance"]


@given(
    st.lists(st.sampled_from([*WORDS, "<b>", "&", "…", "\n", "日本", "x" * 50]), max_size=120).map(
        " ".join
    ),
    st.sampled_from(WORDS),
)
def test_an_excerpt_has_at_most_twenty_words_and_includes_a_match(text: str, word: str) -> None:
    _, result, marks = excerpt_at(text, [Word(word)], 20)
    assert len(re.findall(r"[^\W_]+", result)) <= 20
    assert bool(marks) == (word in text.split())
    assert all(result[start:end] == word for start, end in marks)


def test_an_excerpt_of_a_message_with_500_000_matches_marks_twenty() -> None:
    _, result, marks = excerpt_at("a " * 500_000, [Word("a")], 20)
    assert result == "a " * 19 + "a…"
    assert len(marks) == 20


def test_a_long_expression_is_refused_before_it_is_parsed() -> None:
    with pytest.raises(InvalidInput):
        parse_fts5("a + " * 20_000)


@pytest.mark.both_stores
@pytest.mark.parametrize(
    "query", ["w3", "w3 w40", "w9 OR w30 OR w80", '"w3 w5" OR w20*', "w1 NOT w2"]
)
def test_messages_are_in_the_order_of_fts5(library: recollect.Library, query: str) -> None:
    rng = random.Random(11)
    contents = [
        " ".join(f"w{int(rng.paretovariate(0.7))}" for _ in range(rng.randint(3, 90)))
        for _ in range(300)
    ]
    db = apsw.Connection(":memory:")
    db.execute("create virtual table t using fts5(content)")
    db.executemany("insert into t values (?)", [(content,) for content in contents])
    sql = "select rowid - 1, rank from t where t match ? order by rank"
    ranks = dict(db.execute(sql, (query,)).fetchall())
    messages = [{"role": "user", "content": content} for content in contents]
    library.add_conversation("c", messages=messages)
    hits = library.match_expression(query, limit=200).hits
    assert [ranks[hit.position] for hit in hits] == pytest.approx(list(ranks.values())[:200])
