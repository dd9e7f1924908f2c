"""Retrieval: how much of an item a call asks for, and from where."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from recollect.errors import InvalidInput
from recollect.knowledge.preferences import DEFAULTS, clamp, preference
from recollect.language.text import truncate
from recollect.model.documents import Json

MODES = ("snippet", "chunk", "chunk_with_siblings", "full", "auto")
LONGEST_ANSWER = 100_000
"""The most characters in one answer with mode "full"; the rest is on the next page."""
LARGEST_CHUNK = 8_000
LARGEST_OFFSET = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Retrieval:
    """How much of an item to return, and from where."""

    mode: str = "snippet"
    snippet_length: int = int(DEFAULTS["snippet_length"])
    max_tokens: int | None = None
    chars_per_token: float = float(DEFAULTS["chars_per_token"])
    chunk_size_tokens: int | None = None
    chunk_overlap_tokens: int = 0
    sibling_window: int | None = None
    """Chunks on each side. None: as many as the budget allows, or one if there is no budget."""
    prefer_prechunked: bool = True
    loc: Mapping[str, Json] = field(default_factory=dict)
    """The location to return, from a result."""
    query: str = ""
    """What to search for in the item, if there is no `loc`."""
    offset: int = 0
    """With mode "full": the first character to return; in a conversation, the first message."""

    @property
    def budget(self) -> int:
        if self.max_tokens is None:
            return int(DEFAULTS["max_tokens"])
        return self.max_tokens

    @property
    def has_place(self) -> bool:
        """Whether `loc` names a place, and not only an item, as for a conversation's title."""
        return not self.loc.keys() <= {"conversation_id", "media_id"}

    @property
    def has_budget(self) -> bool:
        return self.mode == "chunk_with_siblings" or self.max_tokens is not None

    @property
    def window(self) -> int | None:
        if self.sibling_window is None and self.max_tokens is None:
            return int(DEFAULTS["sibling_window"])
        return self.sibling_window


_OPTIONS = frozenset(Retrieval.__dataclass_fields__)


def parse_retrieval(
    options: Mapping[str, Any] | None, config: Mapping[str, Any], default_mode: str = "snippet"
) -> Retrieval:
    """The `retrieval` of a call: its own options, then those of its session, then the defaults.

    Numbers are clamped. Raises InvalidInput if an option is unknown or not valid.
    """
    values = {name: value for name, value in (options or {}).items() if value is not None}
    unknown = sorted(values.keys() - _OPTIONS)
    if unknown:
        raise InvalidInput(f"retrieval: there is no {truncate(unknown[0], 80)!r}.")
    mode = _parse_mode(values.get("mode", default_mode))
    loc, query = values.get("loc", {}), values.get("query", "")
    if not isinstance(loc, Mapping) or not isinstance(query, str):
        raise InvalidInput("retrieval: loc must be an object, and query a text.")
    size = _parse_number(values, "chunk_size_tokens", 1, LARGEST_CHUNK)
    overlap = _parse_number(values, "chunk_overlap_tokens", 0, LARGEST_CHUNK)
    prefer_prechunked = values.get("prefer_prechunked", size is None and overlap is None)
    if not isinstance(prefer_prechunked, bool):
        raise InvalidInput("retrieval.prefer_prechunked must be true or false.")
    max_tokens = _optional_preference(values, "max_tokens", config)
    if mode == "auto" and max_tokens is None:
        mode = "snippet"
    elif mode == "auto":
        mode = "chunk_with_siblings"
    return Retrieval(
        mode=mode,
        snippet_length=preference("snippet_length", values.get("snippet_length"), config),
        max_tokens=max_tokens,
        chars_per_token=preference("chars_per_token", values.get("chars_per_token"), config),
        chunk_size_tokens=size,
        chunk_overlap_tokens=overlap or 0,
        sibling_window=_optional_preference(values, "sibling_window", config),
        prefer_prechunked=prefer_prechunked,
        loc=dict(loc),
        query=query,
        offset=_parse_number(values, "offset", 0, LARGEST_OFFSET) or 0,
    )


def _parse_mode(mode: Any) -> str:
    if mode not in MODES:
        raise InvalidInput(
            f"retrieval.mode: {truncate(str(mode), 80)!r} is not one of {', '.join(MODES)}."
        )
    return str(mode)


def _optional_preference(
    values: Mapping[str, Any], name: str, config: Mapping[str, Any]
) -> int | None:
    """A preference without its default: None unless the call or its session has one."""
    if name not in values:
        return config.get(name)
    value: int | None = clamp(name, values[name])
    if value is None:
        raise _not_a_number(name, values[name])
    if name == "max_tokens" and value == 1 and float(values[name]) < 1:
        raise InvalidInput("retrieval.max_tokens: use 1 or more.")
    return value


def _parse_number(values: Mapping[str, Any], name: str, least: int, most: int) -> int | None:
    value = values.get(name)
    if value is None:
        return None
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or value != value:  # NaN is not equal to itself
        raise _not_a_number(name, value)
    return int(min(max(value, least), most))


def _not_a_number(name: str, value: Any) -> InvalidInput:
    return InvalidInput(f"retrieval.{name}: {truncate(str(value), 80)!r} is not a number.")
