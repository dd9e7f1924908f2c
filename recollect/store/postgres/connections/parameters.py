"""The parameters of statements, as PostgreSQL expects them."""

from __future__ import annotations

from functools import lru_cache
from itertools import count
from types import NoneType
from typing import Any

from recollect.store.postgres.filters import OWNER


@lru_cache(2_000)
def number_parameters(sql: str) -> str:
    """Replace each `?` with `$1`, `$2` and so on. Our statements use `?` for nothing else.

    If the statement names the owner, that is the first parameter.
    """
    numbers = count(1)
    if OWNER in sql:
        sql = sql.replace(OWNER, f"${next(numbers)}::integer")
    return "".join(f"${next(numbers)}" if c == "?" else c for c in sql)


def array_text(value: Any) -> Any:
    """A list as the text of an array, which takes a tenth of the time of psycopg's own."""
    if not isinstance(value, list):
        return value
    types = set(map(type, value))
    if types == {int}:
        return f"{{{','.join(map(str, value))}}}"
    if types == {str}:
        joined = '","'.join(value)
        if "\\" not in joined and joined.count('"') == 2 * (len(value) - 1):
            return f'{{"{joined}"}}'
    if types and types <= {int, str, bool, NoneType}:
        return f"{{{','.join(map(_array_item, value))}}}"
    return value


def _array_item(value: int | str | None) -> str:
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    return "null" if value is None else str(value)
