"""What a client prefers, within bounds: how long snippets are, how many tokens an answer may have, and the like.

What a call says itself comes first, then what its request or session prefers,
then the default. Nothing else can be said this way, so nothing else can be
changed by it.
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
    default: float
    least: float
    most: float
    whole: bool = True


NUMBERS: Mapping[str, NumberRange] = MappingProxyType(
    {
        "snippet_length": NumberRange(300, 10, 1_000),
        "max_tokens": NumberRange(5_000, 16, 50_000),
        "sibling_window": NumberRange(1, 0, 20),
        "chars_per_token": NumberRange(4, 1, 16, whole=False),
    }
)
ORDERS = ("relevance", "recent")


def _defaults() -> dict[str, Any]:
    return {name: int(knob.default) for name, knob in NUMBERS.items()} | {"order_by": ORDERS[0]}


DEFAULTS: Mapping[str, Any] = MappingProxyType(_defaults())


def clamp(name: str, value: Any) -> Any:
    """A preference within its bounds; None where it is none of ours, or says nothing that could be meant."""
    if name == "order_by":
        return value if isinstance(value, str) and value in ORDERS else None
    knob = NUMBERS.get(name)
    if knob is None or isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):  # an integer may be too large for a float
        return knob.most if isinstance(value, int) and value > 0 else None
    if math.isnan(number):
        return None
    number = min(max(number, knob.least), knob.most)
    return int(number) if knob.whole else number


def parse_preferences(given: Any) -> dict[str, Any]:
    """What a client's `config` says that it may: an object, or its JSON in base64. All else in it is ignored."""
    if isinstance(given, str):
        given = _decoded(given)
    if not isinstance(given, dict):
        return {}
    found = {name: clamp(name, given[name]) for name in DEFAULTS if name in given}
    return {name: value for name, value in found.items() if value is not None}


def preference(name: str, argument: Any, config: Mapping[str, Any]) -> Any:
    """A preference for one call: the argument, else what the request or the session prefers, else the default."""
    value = clamp(name, argument)
    return value if value is not None else config.get(name, DEFAULTS[name])


def _decoded(text: str) -> Any:
    if len(text) > LONGEST_CONFIG:
        return None
    try:
        data = base64.b64decode(
            text.replace("-", "+").replace("_", "/") + "=" * (-len(text) % 4), validate=True
        )
        return json.loads(data)
    except (binascii.Error, ValueError, RecursionError):
        return None
