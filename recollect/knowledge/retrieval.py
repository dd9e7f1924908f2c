"""Retrieval: how much of an item a call asks for, and from where; and what a client prefers.

An argument of the call takes precedence, then the preferences of the request or session, then the
default. Preferences are clamped, and unknown ones are ignored.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

from recollect.errors import InvalidInput
from recollect.language.text import truncate
from recollect.model.documents import Json

MODES = ("snippet", "chunk", "chunk_with_siblings", "full", "auto")
ORDERS = ("relevance", "recent")
LONGEST_ANSWER = 100_000
"""The most characters in one answer with mode "full"; the rest is on the next page."""
LARGEST_CHUNK = 8_000
LARGEST_OFFSET = 1_000_000_000
LONGEST_CONFIG = 4_096


# -- preferences ---------------------------------------------------------------


class NumberRange(NamedTuple):
    """A numeric preference: its default and its limits."""

    default: float
    least: float
    most: float
    is_whole: bool = True


NUMBERS: Mapping[str, NumberRange] = MappingProxyType(
    {
        "snippet_length": NumberRange(300, 10, 1_000),
        "max_tokens": NumberRange(5_000, 1, 50_000),
        "sibling_window": NumberRange(1, 0, 20),
        "chars_per_token": NumberRange(4, 1, 16, is_whole=False),
    }
)
_DEFAULT_NUMBERS = {name: int(number.default) for name, number in NUMBERS.items()}
DEFAULTS: Mapping[str, Any] = MappingProxyType({**_DEFAULT_NUMBERS, "order_by": ORDERS[0]})


def clamp(name: str, value: Any) -> Any:
    """A preference within its limits; None if there is no such preference or it is not valid."""
    if name == "order_by":
        return value if isinstance(value, str) and value in ORDERS else None
    number_range = NUMBERS.get(name)
    if number_range is None or isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(value)
    except OverflowError:  # an integer that is too large for a float
        return number_range.most if isinstance(value, int) and value > 0 else None
    except ValueError:
        return None
    if math.isnan(number):
        return None
    number = min(max(number, number_range.least), number_range.most)
    return int(number) if number_range.is_whole else number


def parse_preferences(config: Any) -> dict[str, Any]:
    """The valid preferences in a client's `config`: an object, or its JSON in base64."""
    if isinstance(config, str):
        config = decode(config)
    if not isinstance(config, dict):
        return {}
    preferences = {name: clamp(name, config[name]) for name in DEFAULTS if name in config}
    return {name: value for name, value in preferences.items() if value is not None}


def decode(text: str) -> Any:
    if len(text) > LONGEST_CONFIG:
        return None
    standard = text.replace("-", "+").replace("_", "/") + "=" * (-len(text) % 4)
    try:
        return json.loads(base64.b64decode(standard, validate=True))
    except (ValueError, RecursionError):
        return None


def preference(name: str, argument: Any, config: Mapping[str, Any]) -> Any:
    """The value for one call: the argument, else the request's or session's, else the default."""
    value = clamp(name, argument)
    return config.get(name, DEFAULTS[name]) if value is None else value


# -- retrieval -----------------------------------------------------------------


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
        return int(DEFAULTS["max_tokens"]) if self.max_tokens is None else self.max_tokens

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
    mode = values.get("mode", default_mode)
    if mode not in MODES:
        raise InvalidInput(
            f"retrieval.mode: {truncate(str(mode), 80)!r} is not one of {', '.join(MODES)}."
        )
    loc, query = values.get("loc", {}), values.get("query", "")
    if not isinstance(loc, Mapping) or not isinstance(query, str):
        raise InvalidInput("retrieval: loc must be an object, and query a text.")
    size = parse_number(values, "chunk_size_tokens", 1, LARGEST_CHUNK)
    overlap = parse_number(values, "chunk_overlap_tokens", 0, LARGEST_CHUNK)
    prefer_prechunked = values.get("prefer_prechunked", size is None and overlap is None)
    if not isinstance(prefer_prechunked, bool):
        raise InvalidInput("retrieval.prefer_prechunked must be true or false.")
    max_tokens = optional_preference(values, "max_tokens", config)
    if mode == "auto":
        mode = "snippet" if max_tokens is None else "chunk_with_siblings"
    return Retrieval(
        mode=mode,
        snippet_length=preference("snippet_length", values.get("snippet_length"), config),
        max_tokens=max_tokens,
        chars_per_token=preference("chars_per_token", values.get("chars_per_token"), config),
        chunk_size_tokens=size,
        chunk_overlap_tokens=overlap or 0,
        sibling_window=optional_preference(values, "sibling_window", config),
        prefer_prechunked=prefer_prechunked,
        loc=dict(loc),
        query=query,
        offset=parse_number(values, "offset", 0, LARGEST_OFFSET) or 0,
    )


def optional_preference(
    values: Mapping[str, Any], name: str, config: Mapping[str, Any]
) -> int | None:
    """A preference without its default: None unless the call or its session has one."""
    if name not in values:
        return config.get(name)
    value: int | None = clamp(name, values[name])
    if value is None:
        raise not_a_number(name, values[name])
    if name == "max_tokens" and value == 1 and float(values[name]) < 1:
        raise InvalidInput("retrieval.max_tokens: use 1 or more.")
    return value


def parse_number(values: Mapping[str, Any], name: str, least: int, most: int) -> int | None:
    value = values.get(name)
    if value is None:
        return None
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or value != value:  # NaN is not equal to itself
        raise not_a_number(name, value)
    return int(min(max(value, least), most))


def not_a_number(name: str, value: Any) -> InvalidInput:
    return InvalidInput(f"retrieval.{name}: {truncate(str(value), 80)!r} is not a number.")
