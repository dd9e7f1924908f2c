"""What a connection has read or computed, valid until anybody writes."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

T = TypeVar("T")

# Each value may list many thousand keys.
_MAX_VALUES = 32
_MAX_SMALL_VALUES = 1_024


class Memo:
    """Values by key, for one version of the database."""

    def __init__(self, version: int) -> None:
        self.version = version
        """The version of the database that the values belong to."""
        self._values: dict[Hashable, Any] = {}
        self._small_values: dict[Hashable, Any] = {}

    def value(self, key: Hashable, compute: Callable[[], T]) -> T:
        return _value(self._values, _MAX_VALUES, key, compute)

    def small_value(self, key: Hashable, compute: Callable[[], T]) -> T:
        """A value that takes little memory, such as the frequency of a word."""
        return _value(self._small_values, _MAX_SMALL_VALUES, key, compute)


def _value(values: dict[Hashable, Any], size: int, key: Hashable, compute: Callable[[], T]) -> T:
    if key not in values:
        if len(values) >= size:
            values.clear()
        values[key] = compute()
    value: T = values[key]
    return value
