"""Tags and keywords, however programs write them."""

from __future__ import annotations

from collections.abc import Iterable

from recollect.language.text import fold
from recollect.model.documents import Json


def parse_tags(value: Json) -> list[str]:
    """Tags from a list or from a text with commas or spaces, with or without `#`."""
    if isinstance(value, str):
        value = value.split(",") if "," in value else value.split()
    tags = (str(tag).strip().lstrip("#").strip() for tag in as_texts(value))
    return unique(tag for tag in tags if tag)


def unique(values: Iterable[str]) -> list[str]:
    """Each value once, ignoring case and accents, as it was first written."""
    by_key: dict[str, str] = {}
    for value in values:
        by_key.setdefault(fold(value), value)
    return list(by_key.values())


def as_texts(value: Json) -> list[Json]:
    """The strings and numbers of a list, or a single one as a list."""
    if isinstance(value, list):
        return [item for item in value if isinstance(item, (str, int, float))]
    if isinstance(value, (str, int, float)) and not isinstance(value, bool):
        return [value]
    return []
