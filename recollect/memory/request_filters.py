"""What a search of the memory accepts: queries, filters and dates, with their error messages."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, tzinfo

from recollect.errors import InvalidInput
from recollect.language.text import bound, storable, truncate
from recollect.memory.formats import current_zone
from recollect.memory.observe import TYPES, parse_type

DEFAULT_LIMIT = 10
MAX_LIMIT = 50
MIN_QUERY_LENGTH = 2
MAX_CONCEPTS = 5

_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_MAX_VALUES = 100


@dataclass(frozen=True, slots=True)
class MemoryFilter:
    """Which observations a search considers.

    Dates are whole days of this computer's time zone, both included. An observation matches if it
    has one of the projects, one of the types, one of the concepts and one of the files; an empty
    filter matches everything.
    """

    after: str | None = None
    before: str | None = None
    projects: Sequence[str] = ()
    types: Sequence[str] = ()
    concepts: Sequence[str] = ()
    files: Sequence[str] = ()


def parse_query(query: object) -> str | list[str]:
    """A query of one concept, or a list of two to five. Raises InvalidInput."""
    if isinstance(query, str):
        return _parse_concept(query)
    if not isinstance(query, (list, tuple)) or not all(isinstance(each, str) for each in query):
        raise InvalidInput("Query must be string or array")
    if len(query) < 2:
        raise InvalidInput(
            "Query array must have 2-5 items. "
            "Must provide at least 2 concepts for multi-concept search"
        )
    if len(query) > MAX_CONCEPTS:
        raise InvalidInput(
            "Query array must have 2-5 items. Cannot search more than 5 concepts at once"
        )
    return [_parse_concept(each) for each in query]


def _parse_concept(text: str) -> str:
    text = storable(text).strip()
    if len(text) < MIN_QUERY_LENGTH:
        raise InvalidInput("Query must be at least 2 characters")
    return text


def parse_texts(values: Sequence[str], name: str) -> tuple[str, ...]:
    """The values of a filter that are not blank. Raises InvalidInput."""
    if isinstance(values, str):
        values = [values]
    if len(values) > _MAX_VALUES or not all(isinstance(value, str) for value in values):
        raise InvalidInput(f"{name}: give up to 100 texts.")
    return tuple(storable(value).strip() for value in values if value.strip())


def parse_types(values: Sequence[str]) -> tuple[str, ...]:
    """The types of observations that these names stand for. Raises InvalidInput."""
    if not values:
        return ()
    types: dict[str, None] = {}
    for name in parse_texts(values, "types"):
        type_ = parse_type(name)
        if type_ is None:
            raise InvalidInput(f"Unknown type: {truncate(name, 80)!r}. Types: {', '.join(TYPES)}.")
        types[type_] = None
    return tuple(types)


def parse_day(
    value: str | None, name: str, *, end: bool = False, zone: tzinfo | None = None
) -> datetime | None:
    """The beginning of a day, or with `end` its end. Raises InvalidInput."""
    if value is None or value == "":
        return None
    try:
        if not isinstance(value, str) or not _DAY.fullmatch(value.strip()):
            raise ValueError(value)
        day = date.fromisoformat(value.strip()).isoformat()
        return bound(day, end=end, zone=zone or current_zone())
    except ValueError as error:
        raise InvalidInput(
            f"Invalid date format: {name} is {truncate(repr(value), 80)}. Use YYYY-MM-DD"
        ) from error


def parse_anchor_date(anchor: str) -> datetime:
    """The moment that the anchor of a timeline names. Raises InvalidInput."""
    try:
        return bound(anchor, end=False, zone=current_zone())
    except (ValueError, AttributeError) as error:
        raise InvalidInput(
            f"Invalid anchor: {truncate(repr(anchor), 80)} is neither an observation ID nor a date."
            " Use YYYY-MM-DD"
        ) from error
