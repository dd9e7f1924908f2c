"""Preferences of a client: the length of snippets, the token budget of an answer and so on.

An argument of the call takes precedence, then the preferences of the request or session, then the
default. Values are clamped, and unknown preferences are ignored.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

LONGEST_CONFIG = 4_096


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
ORDERS = ("relevance", "recent")


def _defaults() -> dict[str, Any]:
    defaults: dict[str, Any] = {name: int(number.default) for name, number in NUMBERS.items()}
    return defaults | {"order_by": ORDERS[0]}


DEFAULTS: Mapping[str, Any] = MappingProxyType(_defaults())


def clamp(name: str, value: Any) -> Any:
    """A preference within its limits; None if there is no such preference or it is not valid."""
    if name == "order_by":
        if isinstance(value, str) and value in ORDERS:
            return value
        return None
    number_range = NUMBERS.get(name)
    if number_range is None or isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):  # an integer may be too large for a float
        if isinstance(value, int) and value > 0:
            return number_range.most
        return None
    if math.isnan(number):
        return None
    number = min(max(number, number_range.least), number_range.most)
    if number_range.is_whole:
        return int(number)
    return number


def parse_preferences(config: Any) -> dict[str, Any]:
    """The valid preferences in a client's `config`: an object, or its JSON in base64."""
    if isinstance(config, str):
        config = _decode(config)
    if not isinstance(config, dict):
        return {}
    preferences = {name: clamp(name, config[name]) for name in DEFAULTS if name in config}
    return {name: value for name, value in preferences.items() if value is not None}


def preference(name: str, argument: Any, config: Mapping[str, Any]) -> Any:
    """The value for one call: the argument, else the request's or session's, else the default."""
    value = clamp(name, argument)
    if value is None:
        value = config.get(name, DEFAULTS[name])
    return value


def _decode(text: str) -> Any:
    if len(text) > LONGEST_CONFIG:
        return None
    standard = text.replace("-", "+").replace("_", "/")
    padding = "=" * (-len(text) % 4)
    try:
        return json.loads(base64.b64decode(standard + padding, validate=True))
    except (binascii.Error, ValueError, RecursionError):
        return None
