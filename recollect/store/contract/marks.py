"""Marks on the methods of a store: which of them read or write stored data.

The views in `store/views` rely on them. See `store/base.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

READERS: set[str] = set()
"""Methods that return stored data or pass it to a callback."""
WRITERS: set[str] = set()
"""Methods that store or remove data."""
NEUTRAL: set[str] = set()
"""Methods that do neither."""

Method = TypeVar("Method", bound=Callable[..., Any])


def reader(method: Method) -> Method:
    READERS.add(method.__name__)
    return method


def writer(method: Method) -> Method:
    WRITERS.add(method.__name__)
    return method


def neutral(method: Method) -> Method:
    NEUTRAL.add(method.__name__)
    return method
