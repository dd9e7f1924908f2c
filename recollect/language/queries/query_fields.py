"""The fields of a query, such as `role:user` and `before:2026-05`. See `language.queries.query`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from recollect.errors import InvalidInput
from recollect.language.queries.query_tree import Word, typed_word
from recollect.language.text import bound, has_token
from recollect.settings import LIMITS

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
        return Field(name, negated, date=_parse_date(name, value))
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


def _parse_date(name: str, value: str) -> datetime:
    """The start of the year, month or day for `after`, its end for `before`."""
    try:
        return bound(value, end=name == "before")
    except ValueError:
        raise InvalidInput(
            f"`{name}:{value}` is not a valid date. Use {name}:2026, {name}:2026-05, "
            f"{name}:2026-05-01 or {name}:2026-05-01T14:30. To search for the text, put it in "
            "quotation marks."
        ) from None
