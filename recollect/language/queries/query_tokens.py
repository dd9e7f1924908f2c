"""The tokens of a query: words, phrases, operators, parentheses and fields.

The fields, such as `role:user` and `before:2026-05`, are described in `language.queries.query`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

from recollect.errors import InvalidInput
from recollect.language.queries.query_tree import Word, typed_word
from recollect.language.text import bound, has_token
from recollect.settings import LIMITS

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
        token, end = token_at(text, space.end(), fields, flagged)
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


def token_at(text: str, start: int, fields: bool, flagged: bool) -> tuple[Token, int]:
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
        return near_token(match["near"], fields)
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


def near_token(inner: str, fields: bool) -> Token:
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


# -- fields ---

ROLES = ("user", "assistant", "system", "tool")
"""The roles of messages, which are the values of the field `role:`."""

_FIELD = re.compile(
    r"""(?<![^\s(])(?P<minus>-?)
    (?P<name>(?ai:role|from|in|project|source|tag|title|before|after)):
    (?:"(?P<quoted>[^"]*)"(?P<star>\*?)|(?P<value>[^\s()"]+))(?![^\s)])""",
    re.VERBOSE,
)
_FIELD_ALIASES = {"project": "in"}


class Field(NamedTuple):
    """One field, as typed."""

    name: str
    negated: bool
    values: tuple[str, ...] = ()
    word: Word | None = None
    """Of `title:`."""
    date: datetime | None = None
    """Of `before:` and `after:`."""


class Fields(NamedTuple):
    """The fields of a query.

    One of the roles, authors, projects, sources and tags must match, and all titles. Dates are
    inclusive. Nothing under `not_` may match.
    """

    roles: tuple[str, ...] = ()
    authors: tuple[str, ...] = ()
    projects: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    titles: tuple[Word, ...] = ()
    after: datetime | None = None
    before: datetime | None = None
    not_roles: tuple[str, ...] = ()
    not_authors: tuple[str, ...] = ()
    not_projects: tuple[str, ...] = ()
    not_tags: tuple[str, ...] = ()
    not_titles: tuple[Word, ...] = ()
    sources: tuple[str, ...] = ()
    not_sources: tuple[str, ...] = ()


def field_at(text: str, start: int) -> tuple[Field | None, int]:
    """The field at a position, if there is one, and where it ends."""
    match = _FIELD.match(text, start)
    if match is None:
        return None, start
    return _field(match), match.end()


def combine_fields(fields: Sequence[Field]) -> Fields:
    """All fields of a query together."""
    if sum(len(field.values) or 1 for field in fields) > LIMITS.query_terms:
        raise InvalidInput(
            f"The fields have more than {LIMITS.query_terms} words. Use fewer words."
        )
    if any(field.negated and field.date for field in fields):
        raise InvalidInput(
            "`before:` and `after:` cannot be negated. Use `after:` instead of `-before:`, and "
            "`before:` instead of `-after:`."
        )

    def values(name: str, negated: bool = False) -> tuple[str, ...]:
        own_fields = [field for field in fields if (field.name, field.negated) == (name, negated)]
        return tuple(dict.fromkeys(value for field in own_fields for value in field.values))

    def titles(negated: bool = False) -> tuple[Word, ...]:
        return tuple(dict.fromkeys(f.word for f in fields if f.word and f.negated == negated))

    def dates(name: str) -> list[datetime]:
        return [field.date for field in fields if field.date and field.name == name]

    return Fields(
        roles=values("role"),
        authors=values("from"),
        projects=values("in"),
        tags=values("tag"),
        titles=titles(),
        after=max(dates("after"), default=None),
        before=min(dates("before"), default=None),
        not_roles=values("role", negated=True),
        not_authors=values("from", negated=True),
        not_projects=values("in", negated=True),
        not_tags=values("tag", negated=True),
        not_titles=titles(negated=True),
        sources=values("source"),
        not_sources=values("source", negated=True),
    )


def _field(match: re.Match[str]) -> Field | None:
    """The field of a match; None if its value is not valid, which makes it text."""
    name = match["name"].lower()
    name = _FIELD_ALIASES.get(name, name)
    negated = bool(match["minus"])
    quoted = match["quoted"]
    value: str = match["value"] if quoted is None else quoted
    if name in ("before", "after"):
        return Field(name, negated, date=parse_date(name, value))
    if not has_token(value):
        return None
    if name == "title":
        if quoted is None:
            return Field(name, negated, word=typed_word(value))
        return Field(name, negated, word=Word(value, bool(match["star"])))
    if match["star"]:
        return None
    values = [value]
    if quoted is None or name == "role":
        values = value.split(",")
    values = [v.strip() for v in values]
    if name == "role":
        values = [v.lower() for v in values]
        if not set(values) <= set(ROLES):
            return None
    if not all(map(has_token, values)):
        return None
    return Field(name, negated, values=tuple(values))


def parse_date(name: str, value: str) -> datetime:
    """The start of the year, month or day for `after`, its end for `before`."""
    try:
        return bound(value, end=name == "before")
    except ValueError:
        raise InvalidInput(
            f"`{name}:{value}` is not a valid date. Use {name}:2026, {name}:2026-05, "
            f"{name}:2026-05-01 or {name}:2026-05-01T14:30. To search for the text, put it in "
            "quotation marks."
        ) from None
