"""Arguments of the Python API: dates, names and messages in plain form, checked and converted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime
from typing import Any

from recollect.errors import InvalidInput
from recollect.language.text import bound, storable, truncate
from recollect.model.audience import HUMAN_ONLY, is_marked_human_only
from recollect.model.documents import Passage

Moment = str | date | datetime | None
"""A point in time. Text is ISO 8601; a time without a zone is UTC."""

_MOST_NAMES = 100
_MESSAGE_FIELDS = frozenset(Passage._fields) - {"position", "canonical"}


def parse_moment(value: Moment, name: str, *, end: bool = False) -> datetime | None:
    """Convert a date or time. A bare date is the start of that day in UTC, or its `end`."""
    if value is None:
        return None
    if isinstance(value, datetime):
        if value.tzinfo is None:
            return value.replace(tzinfo=UTC)
        return value.astimezone(UTC)
    try:
        text = value if isinstance(value, str) else value.isoformat()
        return bound(text, end=end)
    except (ValueError, AttributeError) as error:
        raise InvalidInput(
            f"{name}: {truncate(repr(value), 80)} is not a date. "
            "Use ISO 8601, such as 2026-01-31 or 2026-01-31T14:30:00+01:00."
        ) from error


def parse_names(values: str | Iterable[str], name: str) -> tuple[str, ...]:
    """Convert one name, or several."""
    names = (values,) if isinstance(values, str) else tuple(values)
    if len(names) > _MOST_NAMES:
        raise InvalidInput(f"{name}: at most {_MOST_NAMES} values are accepted.")
    return tuple(storable(value) for value in names)


def parse_message(fields: Mapping[str, Any]) -> Passage:
    """Convert a message given as a mapping of the fields of a Passage."""
    unknown = sorted(fields.keys() - _MESSAGE_FIELDS)
    if unknown:
        raise InvalidInput(
            f"A message has no field {unknown[0]!r}; extra data goes into `metadata`."
        )
    for name in ("id", "role", "content"):
        value = fields.get(name)
        if not isinstance(value, str) or (name != "content" and not value):
            raise InvalidInput(f"A message needs `{name}` as text, not {value!r}.")
    values = dict(fields)
    for name in ("created_at", "updated_at"):
        values[name] = parse_moment(fields.get(name), name)
    for name in ("attachments", "citations"):
        values[name] = tuple(fields.get(name) or ())
    values["metadata"] = dict(fields.get("metadata") or {})
    if is_marked_human_only(values["metadata"]):
        values["visibility"] = HUMAN_ONLY
    return Passage(**values)
