"""The tokens of a query: words, phrases, operators, parentheses and fields.

The fields, such as `role:user` and `before:2026-05`, are described in `language.queries.query`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any, NamedTuple

from recollect.errors import InvalidInput
from recollect.language.queries.query_tree import Word, typed_word
from recollect.language.text import bound, has_token
from recollect.settings import LIMITS

# A parenthesis directly after a word, as in `gather()` or `f(x,y)`, belongs to the word.
_TOKEN = re.compile(
    r"""\s*(?P<token>"(?P<phrase>[^"]*)"(?P<star>\*?)|[()"]
    |NEAR\((?P<near>(?:[^()"]|"[^"]*")*+)\)
    |(?!(?:AND|OR|NOT)\()[^\s()"]+(?:\([^\s()"]*\)[^\s()"]*)+|[^\s()"]+)""",
    re.VERBOSE,
)
MINUS = re.compile(
    r"""(?<![^\s(])-(?=(?P<phrase>"[^"]*"|\()
    |(?!(?:AND|NOT|NEAR)\b)[^\W\d_]{3,}\*?[.,;:!?]*(?![^\s)]))""",
    re.VERBOSE,
)
_FLAG = re.compile(r"(?<!\S)-(?:-[A-Za-z]|[A-Za-z]{1,2}[0-9]*(?!\S))")
_PHRASE = re.compile('"[^"]*"')
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
        start = end
        match = _TOKEN.match(text, start)
        assert match is not None  # every character except white space starts a token
        first = match.start("token")
        minus = MINUS.match(text, first) if fields else None
        field_match = _FIELD.match(text, first) if fields else None
        field = _field(field_match) if field_match else None
        if minus and (minus["phrase"] or not flagged):
            token, end = Token("-"), minus.end()
        elif field and field_match:
            token, end = Token("field", field=field), field_match.end()
        else:
            token, end = _token(match, fields), match.end()
        yield token._replace(text=text[start:end])


def _token(match: re.Match[str], fields: bool) -> Token:
    if match["phrase"] is not None:
        return Token("phrase", word=Word(match["phrase"], prefix=bool(match["star"])))
    if match["near"] is not None:
        inner, distance = near_distance(match["near"])
        inner = _NEAR_COMMA.sub(lambda comma: comma[1] or " ", inner)
        return Token("near", distance=distance, inner=tuple(query_tokens(inner, fields=fields)))
    text = match["token"]
    if text == '"':
        return Token("lone quote")
    if text in ("(", ")", "AND", "OR", "NOT"):
        return Token(text)
    name, _, distance = text.partition("/")
    if name == "NEAR" and (text == name or (distance.isascii() and distance.isdigit())):
        return Token("NEAR", distance=distance)
    return Token("word", word=typed_word(text))


def near_distance(inner: str) -> tuple[str, str]:
    """What is in the parentheses of NEAR, without the distance, and the distance."""
    match = _NEAR_DISTANCE.search(inner)
    return (inner[: match.start()], match[1]) if match else (inner, "")


def has_flag(text: str) -> bool:
    """Whether a command-line flag shows that a minus sign before a word is text."""
    return "-" in text and _FLAG.search(_PHRASE.sub('""', text)) is not None


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


# -- fields ---

ROLES = ("user", "assistant", "system", "tool")
"""The roles of messages, which are the values of the field `role:`."""
_FIELDS = {
    "role": "roles",
    "from": "authors",
    "in": "projects",
    "project": "projects",
    "source": "sources",
    "tag": "tags",
    "title": "titles",
    "before": "before",
    "after": "after",
}
"""The name of each field in a query, and in `Fields`."""
_FIELD = re.compile(
    rf"""(?<![^\s(])(?P<minus>-?)(?P<name>(?ai:{"|".join(_FIELDS)})):
    (?:"(?P<quoted>[^"]*)"(?P<star>\*?)|(?P<value>[^\s()"]+))(?![^\s)])""",
    re.VERBOSE,
)


class Field(NamedTuple):
    """One field, as typed."""

    name: str
    """As in `Fields`."""
    values: tuple[Any, ...]
    negated: bool = False


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


def combine_fields(tokens: Iterable[Token]) -> Fields:
    """All fields of a query together. NOT before a field negates it, like a minus sign."""
    values: dict[str, list[Any]] = {}
    negated = False
    for token in tokens:
        if token.field:
            name = "not_" * (token.field.negated != negated) + token.field.name
            values.setdefault(name, []).extend(token.field.values)
        negated = token.kind == "NOT" and not negated
    if sum(map(len, values.values())) > LIMITS.query_terms:
        raise InvalidInput(
            f"The fields have more than {LIMITS.query_terms} words. Use fewer words."
        )
    if "not_before" in values or "not_after" in values:
        raise InvalidInput(
            "`before:` and `after:` cannot be negated. Use `after:` instead of `-before:`, and "
            "`before:` instead of `-after:`."
        )
    after, before = values.pop("after", []), values.pop("before", [])
    distinct = {name: tuple(dict.fromkeys(each)) for name, each in values.items()}
    return Fields(**distinct, after=max(after, default=None), before=min(before, default=None))


def _field(match: re.Match[str]) -> Field | None:
    """The field of a match; None if its value is not valid, which makes it text."""
    typed_name = match["name"].lower()
    name = _FIELDS[typed_name]
    negated = bool(match["minus"])
    quoted = match["quoted"]
    value: str = match["value"] if quoted is None else quoted
    if name in ("before", "after"):
        return Field(name, (parse_date(typed_name, value),), negated)
    if not has_token(value):
        return None
    if name == "titles":
        word = typed_word(value) if quoted is None else Word(value, bool(match["star"]))
        return Field(name, (word,), negated)
    values = value.split(",") if quoted is None or name == "roles" else [value]
    values = [each.strip() for each in values]
    if name == "roles":
        values = [each.lower() for each in values]
    if match["star"] or (name == "roles" and not set(values) <= set(ROLES)):
        return None
    return Field(name, tuple(values), negated) if all(map(has_token, values)) else None


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
