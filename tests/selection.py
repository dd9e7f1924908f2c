"""Which parameters of a test `make test` runs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def few(values: Iterable[Any], count: int = 2) -> list[Any]:
    """The first values, and the others marked `full`, for examples that take long.

    `make test-all` runs all of them.
    """
    values = list(values)
    return [*values[:count], *map(_as_full, values[count:])]


def _as_full(value: Any) -> Any:
    if hasattr(value, "marks"):  # of pytest.param
        return pytest.param(*value.values, marks=[*value.marks, pytest.mark.full], id=value.id)
    values = value if isinstance(value, tuple) else (value,)
    return pytest.param(*values, marks=pytest.mark.full)
