"""Which stored passages are human-only, decided from their columns. See `model/audience.py`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import orjson

from recollect.model.audience import has_human_only_values
from recollect.store.sql.encoding import PASSAGE_TEXTS, load, original_texts

COLUMNS = ("visibility", "metadata", "original")
"""The columns that decide."""
# Nearly all messages have these, and are not human-only because of them.
_USUAL_VISIBILITIES = ("all", "hidden")


def is_human_only_row(visibility: str, metadata: str | None, original: str | None) -> bool:
    """Whether the passage with these COLUMNS is human-only.

    This runs for every message of an import, so it is written for speed.
    """
    if not metadata and visibility in _USUAL_VISIBILITIES:
        return False
    if original:
        visibility = original_texts(original, PASSAGE_TEXTS).get("visibility", visibility)
    return has_human_only_values(visibility, _parse(metadata))


def _parse(metadata: str | None) -> dict[str, Any]:
    try:
        parsed: dict[str, Any] = orjson.loads(metadata or "{}")
    except orjson.JSONDecodeError:  # lone surrogates or huge numbers
        return load(metadata)
    return parsed


def human_only_keys(rows: Iterable[tuple[Any, ...]]) -> list[int]:
    """The keys of the human-only passages. Each row has a key and the COLUMNS."""
    return [key for key, *columns in rows if is_human_only_row(*columns)]
