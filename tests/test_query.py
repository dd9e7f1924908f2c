"""What is typed becomes a small tree, or a clear error."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.errors import InvalidInput
from recollect.query import And, MalformedQuery, Node, Not, Or, Word, any_of, literal, parse, words


def w(text: str) -> Word:
    return Word(text)


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("word", w("word")),
        ("two words", And((w("two"), w("words")))),
        ("two AND words", And((w("two"), w("words")))),
        ('"a phrase"', w("a phrase")),
        ("prefi*", Word("prefi", prefix=True)),
        ('"a phr"*', Word("a phr", prefix=True)),
        ("a OR b c", Or((w("a"), And((w("b"), w("c")))))),
        ("a NOT b", And((w("a"), Not(w("b"))))),
        ("a AND NOT b", And((w("a"), Not(w("b"))))),
        ("(a OR b) c", And((Or((w("a"), w("b"))), w("c")))),
        ("a NOT(b OR c)", And((w("a"), Not(Or((w("b"), w("c"))))))),
        ("and or not", And((w("and"), w("or"), w("not")))),
        ("asyncio.gather()", w("asyncio.gather()")),
        ("f(x,y)[0]", w("f(x,y)[0]")),
        ("/usr/lib/x.so.1 E0308 c++", And((w("/usr/lib/x.so.1"), w("E0308"), w("c++")))),
        ("col:value -flag +plus ^hat", And((w("col:value"), w("-flag"), w("+plus"), w("^hat")))),
        ("it's 20.04", And((w("it's"), w("20.04")))),
        ("C++ -> rust", And((w("C++"), w("rust")))),
        ("->", w("->")),
        ("***", w("***")),
        ("日本語 テスト", And((w("日本語"), w("テスト")))),
    ],
)
def test_text_becomes_a_tree(text: str, tree: Node) -> None:
    assert parse(text) == tree


@pytest.mark.parametrize(
    "text", ["", " ", "(a", "a)", '"open', "a AND", "OR a", "NOT a", "a OR", "()", "NEAR(a", "a AND OR b"]
)
def test_operators_that_do_not_fit_are_an_error(text: str) -> None:
    with pytest.raises(MalformedQuery, match="cannot be read"):
        parse(text)


def test_a_query_over_a_cap_is_refused() -> None:
    with pytest.raises(InvalidInput, match="bytes"):
        parse("x" * 2_000)
    with pytest.raises(InvalidInput, match="more than 64 words"):
        parse("a " * 70)


def test_literal_takes_every_word_as_it_is() -> None:
    assert literal('NOT (a "b c') == And((w("NOT"), w("a"), w("b"), w("c")))
    assert literal("( -> )") is None


def test_what_is_not_wanted_is_not_shown() -> None:
    assert words(parse("a (b OR c*) NOT d")) == [w("a"), w("b"), Word("c", prefix=True)]


def test_only_plain_words_may_be_relaxed() -> None:
    assert any_of(parse("a b")) == Or((w("a"), w("b")))
    assert any_of(parse("a")) is None
    assert any_of(parse("a NOT b")) is None


@given(st.text(max_size=60))
def test_anything_typed_is_a_tree_or_an_error_that_says_why(text: str) -> None:
    try:
        assert words(parse(text))
    except InvalidInput as error:
        assert str(error).endswith(".")
