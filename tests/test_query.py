"""The query language: a query is parsed into a small tree, or gives a clear error."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from query_text import unparse

from recollect.errors import InvalidInput
from recollect.language.queries.intent import IDENTIFIER, KEYWORDS, QUESTION, classify, is_statement
from recollect.language.queries.query import (
    MalformedQuery,
    Query,
    literal_words,
    parse,
    parse_query,
)
from recollect.language.queries.query_tokens import Fields
from recollect.language.queries.query_tree import (
    And,
    Near,
    Node,
    Not,
    Or,
    Word,
    words,
)
from recollect.language.words import content_words


def w(text: str) -> Word:
    return Word(text)


def near(*texts: str, distance: int = 10) -> Near:
    return Near(tuple(map(Word, texts)), distance)


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
        ("->", w("->")),
        ("日本語 テスト", And((w("日本語"), w("テスト")))),
        ("a NOT NOT b", And((w("a"), w("b")))),
        ("NEAR(a b, 5)", near("a", "b", distance=5)),
        ("NEAR(a b)", near("a", "b")),
        ("NEAR(a, b, c, 0)", near("a", "b", "c", distance=0)),
        ('NEAR("one, two" thre*, 3)', Near((w("one, two"), Word("thre", prefix=True)), 3)),
        ("a NEAR b", near("a", "b")),
        ('a NEAR/5 "b c"', near("a", "b c", distance=5)),
        ("a NEAR b NEAR/2 c", And((near("a", "b"), near("b", "c", distance=2)))),
        ("x NOT a NEAR b", And((w("x"), Not(near("a", "b"))))),
        ("(a NEAR b) OR NEAR(c d)", Or((near("a", "b"), near("c", "d")))),
        ("near NEARBY NEAR/shore", And((w("near"), w("NEARBY"), w("NEAR/shore")))),
        ("role:user -flag -v --force", And((w("role:user"), w("-flag"), w("-v"), w("--force")))),
    ],
)
def test_a_query_is_parsed_into_a_tree(text: str, tree: Node) -> None:
    assert parse(text) == tree


@pytest.mark.parametrize(
    "text",
    [
        *["", " ", "(a", "a)", '"open', "a AND", "OR a", "NOT a", "a OR", "()", "a AND OR b"],
        *["NEAR", "NEAR a", "a NEAR", "NEAR()", "NEAR(a", "NEAR(a)", "NEAR(a, 5)", "NEAR(a ->)"],
        *["a NEAR (b OR c)", "NEAR(a OR b)", "NEAR(a b, 5000)", "a NEAR/99999999999 b"],
        "(" * 300 + "a" + ")" * 300,
    ],
)
def test_misplaced_operators_are_an_error(text: str) -> None:
    with pytest.raises(MalformedQuery, match="cannot be parsed"):
        parse(text)


def test_a_literal_query_has_no_operators() -> None:
    assert literal_words('NOT (a "b c') == And((w("NOT"), w("a"), w("b"), w("c")))
    assert literal_words("( -> )") is None


@given(st.text(max_size=60))
def test_any_text_is_parsed_or_gives_an_error_with_a_reason(text: str) -> None:
    try:
        assert words(parse(text))
    except InvalidInput as error:
        assert str(error).endswith(".")


# -- fields, minus and literal text -------------------------------------------


def fields(text: str) -> Fields:
    return parse_query(text).fields


def test_a_query_has_its_text_its_tree_and_its_fields() -> None:
    assert parse_query("event loop") == Query(
        "event loop",
        And((w("event"), w("loop"))),
        Fields(),
        plain=True,
        literal=False,
        rest="event loop",
    )
    assert parse_query("role:user") == Query(
        "role:user", None, Fields(roles=("user",)), plain=False, literal=False, rest=""
    )
    assert parse_query(" \t") == Query(" \t", None, Fields(), plain=False, literal=False, rest="")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("role:user", Fields(roles=("user",))),
        ("role:User,assistant", Fields(roles=("user", "assistant"))),
        ("TAG:Idea -FROM:ann", Fields(tags=("Idea",), not_authors=("ann",))),
        ("role:user role:tool role:user", Fields(roles=("user", "tool"))),
        ("-role:tool,system", Fields(not_roles=("tool", "system"))),
        ("NOT role:tool", Fields(not_roles=("tool",))),
        ("NOT -role:tool", Fields(roles=("tool",))),
        ("from:ada,grace", Fields(authors=("ada", "grace"))),
        ('from:"Ada Lovelace"', Fields(authors=("Ada Lovelace",))),
        ('-from:"Lovelace, Ada"', Fields(not_authors=("Lovelace, Ada",))),
        ("in:work -in:old", Fields(projects=("work",), not_projects=("old",))),
        ('tag:idea tag:"to do" -tag:done', Fields(tags=("idea", "to do"), not_tags=("done",))),
        ("title:garden title:irrigat*", Fields(titles=(w("garden"), Word("irrigat", prefix=True)))),
        (
            'title:"two words" -title:"a draf"*',
            Fields(titles=(w("two words"),), not_titles=(Word("a draf", True),)),
        ),
        ("after:2026-05-01", Fields(after=datetime(2026, 5, 1, tzinfo=UTC))),
        ("before:2026-05-01", Fields(before=datetime(2026, 5, 1, 23, 59, 59, 999999, UTC))),
        ("before:2024-02", Fields(before=datetime(2024, 2, 29, 23, 59, 59, 999999, UTC))),
        ("before:2026", Fields(before=datetime(2026, 12, 31, 23, 59, 59, 999999, UTC))),
        ("before:2026-05-01T14:30+02:00", Fields(before=datetime(2026, 5, 1, 12, 30, tzinfo=UTC))),
        ('before:"2026-05-01 14:30"', Fields(before=datetime(2026, 5, 1, 14, 30, tzinfo=UTC))),
        (
            "after:2024 after:2025 before:2027 before:2026-05-01T00:00",
            Fields(after=datetime(2025, 1, 1, tzinfo=UTC), before=datetime(2026, 5, 1, tzinfo=UTC)),
        ),
    ],
)
def test_a_field_name_with_a_value_is_a_field(text: str, expected: Fields) -> None:
    assert parse_query(text).node is None
    assert fields(text) == expected
    assert fields(f"{text} word") == fields(f"word {text}") == expected
    assert parse_query(f"word {text}").node == w("word")
    assert parse_query(f"one {text} two").rest == "one two"


@pytest.mark.parametrize(
    "text",
    [
        "role:",
        "role: user",
        "role:admin",
        "role:user,",
        "role:,",
        "role:user?",
        "note:x",
        "http://x",
        r"C:\path",
        "std::vector",
        "from:",
        "tag:-",
        "a=role:user",
        "print(role:user)",
        "in:foo(bar)",
        "before:",
        "-role:admin",
        "ſource:chatgpt",
    ],
)
def test_anything_that_cannot_be_a_field_is_text(text: str) -> None:
    query = parse_query(text)
    assert query.fields == Fields()
    assert query.node == parse(text)
    assert query.plain and not query.literal


def test_a_field_in_quotes_is_text() -> None:
    assert parse_query('"role:user"').node == w("role:user")
    assert parse_query('"before:banana" x').fields == Fields()
    assert fields('from:""') == fields('from:"x"*') == Fields()


@pytest.mark.parametrize(
    "value", ["banana", "2026-13", "2026-02-30", "0000", "tomorrow", "content-['']", "26", '""']
)
def test_an_invalid_date_in_a_field_is_an_error_that_names_it(value: str) -> None:
    for name in ("before", "after"):
        field = f"{name}:{value.strip(chr(34))}"
        message = re.escape(f"`{field}` is not a valid date")
        with pytest.raises(InvalidInput, match=message) as error:
            parse_query(f"word {name}:{value}")
        assert not isinstance(error.value, MalformedQuery)
        assert f"{name}:2026-05-01" in str(error.value)


@pytest.mark.parametrize(
    "text",
    [
        "(role:user a)",
        "a OR role:user",
        "role:user OR role:tool",
        "(a role:user) OR b",
        "a -before:2026",
    ],
)
def test_a_field_inside_parentheses_or_an_or_is_an_error(text: str) -> None:
    with pytest.raises(InvalidInput):
        parse_query(text)


@pytest.mark.parametrize(
    ("text", "node", "rest"),
    [
        ("role:user a OR b", Or((w("a"), w("b"))), "a OR b"),
        ("a OR b role:user", Or((w("a"), w("b"))), "a OR b"),
        ("(a OR b) role:user c", And((Or((w("a"), w("b"))), w("c"))), "(a OR b) c"),
        ("a AND role:user AND b", And((w("a"), w("b"))), "a b"),
        ("role:user AND a", w("a"), "a"),
        ("a AND NOT -role:user", w("a"), "a"),
        ("role:user a NOT b", And((w("a"), Not(w("b")))), "a NOT b"),
        ("a  b   role:user", And((w("a"), w("b"))), "a  b"),
    ],
)
def test_a_field_applies_to_the_whole_query_wherever_it_is(
    text: str, node: Node, rest: str
) -> None:
    query = parse_query(text)
    assert (query.node, query.rest) == (node, rest)
    assert query.fields == Fields(roles=("user",))
    assert not query.literal


@pytest.mark.parametrize(
    ("text", "node"),
    [
        ("jaguar -car", And((w("jaguar"), Not(w("car"))))),
        ("-car jaguar speed", And((Not(w("car")), w("jaguar"), w("speed")))),
        ("jaguar -car*", And((w("jaguar"), Not(Word("car", prefix=True))))),
        ('jaguar -"a car"', And((w("jaguar"), Not(w("a car"))))),
        ("(jaguar -car) OR cat", Or((And((w("jaguar"), Not(w("car")))), w("cat")))),
        ("(-car jaguar)", And((Not(w("car")), w("jaguar")))),
        ("Köln -Straße", And((w("Köln"), Not(w("Straße"))))),
        (
            'git commit -m -"work in progress"',
            And((w("git"), w("commit"), w("-m"), Not(w("work in progress")))),
        ),
    ],
)
def test_a_minus_excludes_a_word_or_phrase(text: str, node: Node) -> None:
    query = parse_query(text)
    assert (query.node, query.plain, query.literal, query.rest) == (node, False, False, text)


@pytest.mark.parametrize(
    "text",
    [
        "git commit -m",
        "git push --force",
        "make -j8 -verbose",
        "find . -name x -exec rm -rf",
        "error -1073741819",
        "a well-known fact",
        "x -> y",
        "a - b",
        "x -C++",
        "x -NOT y",
        "x-ray -2.5",
        "foo -",
        "--",
        "-Xmx512m java",
    ],
)
def test_a_minus_in_options_numbers_and_compound_words_is_text(text: str) -> None:
    assert parse_query(text).node == parse(text)
    assert parse_query(text).plain


@pytest.mark.parametrize(
    ("text", "node", "expected_fields"),
    [
        ('NOT (a "b c', And((w("NOT"), w("a"), w("b"), w("c"))), Fields()),
        ("-draft", w("-draft"), Fields()),
        ('role:user 5" long', And((w("5"), w("long"))), Fields(roles=("user",))),
        ("a NEAR", And((w("a"), w("NEAR"))), Fields()),
        ("( ->", w("( ->"), Fields()),
        ("(" * 300 + "a", w("a"), Fields()),
    ],
)
def test_a_malformed_query_is_literal_text_and_its_fields_still_apply(
    text: str, node: Node, expected_fields: Fields
) -> None:
    query = parse_query(text)
    assert (query.node, query.fields) == (node, expected_fields)
    assert query.plain and query.literal


@pytest.mark.parametrize(
    "text", ["a AND b", '"a"', "a*", "(a)", "a OR b", "a NEAR b", "NEAR(a b)", "a -bcd", '"a" b']
)
def test_a_query_with_operators_or_quotes_is_not_plain(text: str) -> None:
    assert not parse_query(text).plain


def test_the_limits_apply_to_every_part_of_a_query() -> None:
    for text in (
        "x" * 2_000,
        "a " * 70,
        '"' + "a " * 70,
        "tag:" + "a," * 70 + "a",
        "in:a " * 70,
        f"NEAR({'a ' * 70})",
    ):
        with pytest.raises(InvalidInput, match=r"bytes|more than 64 words"):
            parse_query(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("what did we say about the garden", ["say", "garden"]),
        ("When's Ada's birthday?", ["Ada's", "birthday?"]),
        ("What is Ann’s car, and which is Ben's?", ["Ann’s", "car,", "Ben's?"]),
        ("don't you remember? I can’t", ["remember?"]),
        ("tell me what IT sent to the US", ["IT", "sent", "US"]),
        ("WHAT DID I SAY", ["SAY"]),
        ("trip in May", ["trip", "May"]),
        ("to be or not to be", ["to", "be", "or", "not", "to", "be"]),
        ("日本語 の", ["日本語", "の"]),
    ],
)
def test_stop_words_are_not_content_words_unless_there_are_no_others(
    text: str, expected: list[str]
) -> None:
    assert [word.text for word in content_words(parse(text))] == expected


WORDS_AND_OPERATORS = 'a bcd e* -> " ( ) AND OR NOT NEAR NEAR/3 NEAR( ,'
MINUS_AND_FIELDS = "-bcd -m role:user -role:tool title:x* before:2026"
PHRASES = ['"f g"', '-"h i"', 'from:"A B"']
QUERY_PARTS = st.lists(
    st.one_of(
        st.sampled_from(WORDS_AND_OPERATORS.split()),
        st.sampled_from(MINUS_AND_FIELDS.split() + PHRASES),
        st.text(max_size=5),
    ),
    max_size=14,
)


@given(QUERY_PARTS, st.sampled_from([" ", ""]))
def test_any_combination_of_operators_is_parsed_or_gives_an_error_with_a_reason(
    parts: list[str], between: str
) -> None:
    text = between.join(parts)
    try:
        query = parse_query(text)
    except InvalidInput as error:
        assert str(error).endswith(".")
        assert not isinstance(error, MalformedQuery)
        return
    assert query.text == text
    assert (query.node is None) == (not query.rest)
    if query.node is not None:
        assert words(query.node)
        assert content_words(query.node)


@given(QUERY_PARTS)
def test_a_tree_written_as_text_is_parsed_into_the_same_tree(parts: list[str]) -> None:
    try:
        tree = parse(" ".join(parts))
    except InvalidInput:
        return
    assert parse(unparse(tree)) == tree
    assert parse_query(unparse(tree)).node == tree


@pytest.mark.parametrize(
    ("query", "intent"),
    [
        ("rain barrel", KEYWORDS),
        ("tomatoes", KEYWORDS),
        ("film festival may", KEYWORDS),
        ("who waters the tomatoes", QUESTION),
        ("the barrel I installed", QUESTION),
        ("barrel?", QUESTION),
        ("recommend a film", QUESTION),
        ("src/server.ts", IDENTIFIER),
        ("ERR_AUTH_FAILED", IDENTIFIER),
        ("3.12.7", IDENTIFIER),
        ("AT&T", IDENTIFIER),
        ("A/B", IDENTIFIER),
        ("w/o", KEYWORDS),
        ("e.g.", KEYWORDS),
        ("2026-03-05", IDENTIFIER),
        ("getUserName", IDENTIFIER),
        ("and/or", KEYWORDS),
    ],
)
def test_a_query_is_a_question_keywords_or_an_identifier(query: str, intent: str) -> None:
    assert classify(query) == intent


@pytest.mark.parametrize(
    "text",
    [
        "my dog ate the whole cake",
        "a better handle on my",
        "I have been trying to keep the lemon tree alive over the winter.",
        "Could not find a version that satisfies the requirement",
        "Cannot connect to the Docker daemon. Is the docker daemon running?",
        "was thinking of organizing my",
        "Konnte nicht gefunden werden, weil der Server nicht antwortet",
    ],
)
def test_a_sentence_is_a_statement(text: str) -> None:
    assert is_statement(text)


@pytest.mark.parametrize(
    "text",
    [
        "what my dog ate",
        "my dog ate the whole cake?",
        "suggest a cake for my dog",
        "dog cake",
        "Where is the cake? My dog is here.",
        "why not bake a cake for my dog",
        "what not to give a dog to eat",
    ],
)
def test_questions_requests_and_keywords_are_not_statements(text: str) -> None:
    assert not is_statement(text)
