"""The tokens of a query: words, phrases, operators, parentheses and fields."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from recollect.language.queries.query_fields import Field, field_at
from recollect.language.queries.query_tree import Word, typed_word

# A parenthesis directly after a word, as in `gather()` or `f(x,y)`, belongs to the word.
_TOKEN = re.compile(
    r"""(?P<open>\()|(?P<close>\))|"(?P<phrase>[^"]*)"(?P<star>\*?)|(?P<lone_quote>")
    |NEAR\((?P<near>(?:[^()"]|"[^"]*")*+)\)
    |(?P<text>(?!(?:AND|OR|NOT)\()[^\s()"]+(?:\([^\s()"]*\)[^\s()"]*)+|[^\s()"]+)""",
    re.VERBOSE,
)
MINUS = re.compile(
    r"""(?<![^\s(])-(?=(?P<phrase>"[^"]*"|\()
    |(?!(?:AND|NOT|NEAR)\b)[^\W\d_]{3,}\*?[.,;:!?]*(?![^\s)]))""",
    re.VERBOSE,
)
_FLAG = re.compile(r"(?<!\S)-(?:-[A-Za-z]|[A-Za-z]{1,2}[0-9]*(?!\S))")
_PHRASE = re.compile('"[^"]*"')
_SPACE = re.compile(r"\s*")
_NEAR_OPERATOR = re.compile(r"NEAR(?:/([0-9]+))?")
_NEAR_DISTANCE = re.compile(r",\s*([0-9]+)\s*$")
_NEAR_COMMA = re.compile(r'("[^"]*")|,(?=[\s"]|$)')


class Token(NamedTuple):
    """A token of a query, with the fields that its kind needs."""

    kind: str
    """word, phrase, near, field, lone quote, a parenthesis, "-", or the name of an operator."""
    text: str = ""
    """As typed, with the white space before it."""
    word: Word | None = None
    field: Field | None = None
    distance: str = ""
    """Of NEAR."""
    inner: tuple[Token, ...] = ()
    """The tokens inside NEAR( )."""


def query_tokens(text: str, *, fields: bool) -> Iterator[Token]:
    """The tokens of a query; fields and minus signs only with `fields`."""
    text = text.rstrip()
    flagged = has_flag(text)
    end = 0
    while end < len(text):
        space = _SPACE.match(text, end)
        assert space is not None  # it matches the empty string
        start = end
        token, end = _token_at(text, space.end(), fields, flagged)
        yield token._replace(text=text[start:end])


def field_list(tokens: Iterable[Token]) -> list[Field]:
    """The fields in order. NOT before a field negates it, like a minus sign."""
    fields: list[Field] = []
    negated = False
    for token in tokens:
        if token.field:
            fields.append(token.field._replace(negated=token.field.negated != negated))
        negated = token.kind == "NOT" and not negated
    return fields


def text_without_fields(tokens: Iterable[Token]) -> str:
    """The text without the fields and the operators that connect them to the rest."""
    remaining: list[Token] = []
    follows_field = False
    for token in tokens:
        if token.field:
            while remaining and remaining[-1].kind in ("AND", "NOT"):
                remaining.pop()
        elif not (follows_field and token.kind == "AND"):
            remaining.append(token)
        follows_field = token.field is not None
    return "".join(token.text for token in remaining).strip()


def _token_at(text: str, start: int, fields: bool, flagged: bool) -> tuple[Token, int]:
    """The token at a position, and where it ends."""
    match = _TOKEN.match(text, start)
    assert match is not None  # every character except white space starts a token
    token = _token(match, fields)
    if not fields:
        return token, match.end()
    minus = MINUS.match(text, start)
    if minus and (minus["phrase"] or not flagged):
        return Token("-"), minus.end()
    field, end = field_at(text, start)
    if field:
        return Token("field", field=field), end
    return token, match.end()


def _token(match: re.Match[str], fields: bool) -> Token:
    if match["phrase"] is not None:
        return Token("phrase", word=Word(match["phrase"], prefix=bool(match["star"])))
    if match["near"] is not None:
        return _near_token(match["near"], fields)
    text: str | None = match["text"]
    if text is None:
        if match["lone_quote"]:
            return Token("lone quote")
        return Token(match[0])
    if text in ("AND", "OR", "NOT"):
        return Token(text)
    operator = _NEAR_OPERATOR.fullmatch(text)
    if operator:
        return Token("NEAR", distance=operator[1] or "")
    return Token("word", word=typed_word(text))


def _near_token(inner: str, fields: bool) -> Token:
    """The token of NEAR(...), given what is in its parentheses."""
    distance = ""
    match = _NEAR_DISTANCE.search(inner)
    if match:
        distance = match[1]
        inner = inner[: match.start()]
    inner = _NEAR_COMMA.sub(lambda comma: comma[1] or " ", inner)
    return Token("near", distance=distance, inner=tuple(query_tokens(inner, fields=fields)))


def has_flag(text: str) -> bool:
    """Whether a command-line flag shows that a minus sign before a word is text."""
    return _FLAG.search(_PHRASE.sub('""', text)) is not None
