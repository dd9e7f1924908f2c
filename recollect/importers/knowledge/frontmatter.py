"""Front matter: the metadata at the start of a Markdown file, in YAML (---) or TOML (+++).

Dates stay as they are written. Front matter that is very long, or expands to very many values
through aliases of aliases, is rejected.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Mapping
from datetime import date, datetime, time
from typing import Any, NamedTuple

from recollect.model.documents import Json
from recollect.settings import LIMITS

_CLOSING = {"---": r"---|\.\.\.", "+++": r"\+\+\+"}
_MAX_KEY_PARTS = 30
# The time to parse a key of TOML (a.b.c) grows with the square of the number of its parts.
_KEY_PART = r"""(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+"""
_LONG_KEY = re.compile(rf"(?<![\w-]){_KEY_PART}(?:\.[ \t]*+{_KEY_PART}){{{_MAX_KEY_PARTS}}}")
_MAX_VALUES = 10_000
_MAX_BITS = 1_000
"""A longer number cannot be written in decimal within reasonable time."""
_MAX_DEPTH = 50


class FrontMatter(NamedTuple):
    values: dict[str, Json]
    body: str
    problem: str = ""
    """Why the front matter is invalid. `body` is then the whole text."""
    where: str = ""


def split(text: str) -> FrontMatter:
    """The front matter of a text, and the text after it without the empty line between them."""
    mark, _, _ = text.partition("\n")
    start, mark = len(mark) + 1, mark.rstrip(" \t")
    closing = None
    if mark in _CLOSING:
        closing = re.compile(rf"^(?:{_CLOSING[mark]})[ \t]*$", re.MULTILINE).search(text, start)
    if closing is None:
        return FrontMatter({}, text)
    block = text[start : closing.start()]
    limit = LIMITS.front_matter_characters
    try:
        if len(block) > limit:
            raise _InvalidError(f"front matter has more than {limit:,} characters")
        values = parse_toml(block) if mark == "+++" else parse_yaml(block)
    except _InvalidError as error:
        return FrontMatter({}, text, *error.args)
    if values is None:  # a horizontal rule, not front matter
        return FrontMatter({}, text)
    return FrontMatter(values, text[closing.end() :].removeprefix("\n").removeprefix("\n"))


def join(values: Mapping[str, Json], body: str) -> str:
    """The text that `split` splits into these values and this body."""
    from recollect.importers.knowledge import yaml12

    block = yaml12.dump(values) if values else ""
    return f"---\n{block}---\n\n{body}"


class _InvalidError(ValueError):
    pass


def parse_yaml(text: str) -> dict[str, Json] | None:
    from recollect.importers.knowledge import yaml12

    try:
        value = yaml12.load(text)
    except ValueError as error:
        line = str(error)
        where = f"{line} of the front matter" if line else ""
        raise _InvalidError("front matter is not valid YAML", where) from None
    if value is None and not text.strip():
        return {}
    return as_mapping(value)


def parse_toml(text: str) -> dict[str, Json] | None:
    if _LONG_KEY.search(text):
        raise _InvalidError(f"front matter has a key of more than {_MAX_KEY_PARTS} parts")
    try:
        value = tomllib.loads(text)
    except (ValueError, RecursionError):
        raise _InvalidError("front matter is not valid TOML") from None
    return as_mapping(value)


def as_mapping(value: Any) -> dict[str, Json] | None:
    plain = _JsonConverter().convert(value, _MAX_DEPTH)
    return plain if isinstance(plain, dict) else None


class _JsonConverter:
    """Converts values to JSON, up to a limit on their number."""

    def __init__(self) -> None:
        self._remaining = _MAX_VALUES

    def convert(self, value: Any, depth: int) -> Json:
        self._remaining -= 1
        if self._remaining < 0 or depth < 0:
            raise _InvalidError("front matter has too many values")
        if isinstance(value, dict):
            return {
                str(self.convert(key, 0)): self.convert(item, depth - 1)
                for key, item in value.items()
            }
        if isinstance(value, (list, tuple, set)):
            return [self.convert(item, depth - 1) for item in value]
        if isinstance(value, (datetime, date, time)):
            return value.isoformat()
        if isinstance(value, int) and value.bit_length() > _MAX_BITS:
            raise _InvalidError("front matter has a number that is too long")
        if value is None or isinstance(value, (str, bool, int)):
            return value
        if isinstance(value, float) and math.isfinite(value):
            return value
        return str(value)
