"""What the memory accepts and returns: filters, their validation, and results."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, tzinfo
from typing import NamedTuple

from recollect.errors import InvalidInput
from recollect.language.text import bound, storable, truncate
from recollect.memory.formats import current_zone
from recollect.memory.observe import TYPES, parse_type
from recollect.model.documents import Summary
from recollect.model.observations import Observation

DEFAULT_LIMIT = 10
MAX_LIMIT = 50
_MAX_VALUES = 100
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


# -- requests ------------------------------------------------------------------


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
    concepts = [query] if isinstance(query, str) else query
    if not isinstance(concepts, (list, tuple)) or not all(isinstance(c, str) for c in concepts):
        raise InvalidInput("Query must be string or array")
    wrong = ""
    if not isinstance(query, str) and len(concepts) < 2:
        wrong = "Must provide at least 2 concepts for multi-concept search"
    elif len(concepts) > 5:
        wrong = "Cannot search more than 5 concepts at once"
    if wrong:
        raise InvalidInput(f"Query array must have 2-5 items. {wrong}")
    concepts = [storable(concept).strip() for concept in concepts]
    if min(map(len, concepts)) < 2:
        raise InvalidInput("Query must be at least 2 characters")
    return concepts[0] if isinstance(query, str) else concepts


def parse_texts(values: Sequence[str], name: str) -> tuple[str, ...]:
    """The values of a filter that are not blank. Raises InvalidInput."""
    if isinstance(values, str):
        values = [values]
    if len(values) > _MAX_VALUES or not all(isinstance(value, str) for value in values):
        raise InvalidInput(f"{name}: give up to 100 texts.")
    return tuple(storable(value).strip() for value in values if value.strip())


def parse_types(values: Sequence[str]) -> tuple[str, ...]:
    """The types of observations that these names stand for. Raises InvalidInput."""
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


# -- results -------------------------------------------------------------------


class ObservationHit(NamedTuple):
    """An observation and the path of its conversation."""

    observation: Observation
    path: str
    score: float = 0.0
    snippet: str = ""
    terms: tuple[str, ...] = ()
    """The words of the query that it contains."""
    quote: str = ""
    """What one of its messages says about the query, if its own text does not say it."""


class ConversationHit(NamedTuple):
    """A conversation, or one exchange of it."""

    path: str
    project: str
    title: str
    created_at: datetime | None
    score: float
    snippets: tuple[str, ...]
    lines: tuple[int, int] | None
    terms: tuple[str, ...] = ()
    """The words of the query that the best message contains."""


MemoryHit = ObservationHit | ConversationHit


@dataclass(frozen=True, slots=True)
class MemoryResults:
    """The results of a search, best first.

    One concept finds observations, and exchanges that no observation was made of. Several concepts
    find conversations.
    """

    kind: str
    """"observations", "exchanges", "mixed" (both) or "conversations"."""
    hits: tuple[MemoryHit, ...] = ()
    total: int = 0
    """How many results there are without the limit."""
    is_exact: bool = True
    """Whether `total` is exact; otherwise it is a lower bound."""
    note: str = ""
    nearest: tuple[MemoryHit, ...] = ()
    """If there are no hits: up to three results that are the closest in meaning."""

    @property
    def observations(self) -> tuple[ObservationHit, ...]:
        return tuple(hit for hit in self.hits if isinstance(hit, ObservationHit))

    @property
    def conversations(self) -> tuple[ConversationHit, ...]:
        """The conversations or exchanges."""
        return tuple(hit for hit in self.hits if isinstance(hit, ConversationHit))


@dataclass(frozen=True, slots=True)
class Deletion:
    """What `Memory.forget` deleted, or would delete."""

    conversations: tuple[Summary, ...]
    """Deleted with their messages and observations."""
    observations: tuple[ObservationHit, ...]
    """Deleted alone: their conversations stay."""
    message_count: int
    """The messages of the deleted conversations."""
    observation_count: int
    """The observations of the deleted conversations."""
