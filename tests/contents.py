"""Everything that a value contains, as text. The `repr` of documents and hits is short."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any


def all_contents(value: Any) -> str:
    """All texts and numbers in a value, whatever it consists of."""
    if is_dataclass(value):
        return all_contents({field.name: getattr(value, field.name) for field in fields(value)})
    if isinstance(value, Mapping):
        return all_contents([part for pair in value.items() for part in pair])
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
        return " ".join(map(all_contents, value))
    return repr(value)
