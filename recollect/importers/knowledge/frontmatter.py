"""Front matter: what a Markdown file says of itself before its text, in YAML (---) or TOML (+++).

Dates stay as they were written. A text in which few characters stand for many
values (aliases of aliases) is refused, and so is a very long one.
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

_OPENING = re.compile(r"(---|\+\+\+)[ \t]*\n")
_CLOSING = {
    "---": re.compile(r"^(?:---|\.\.\.)[ \t]*$", re.MULTILINE),
    "+++": re.compile(r"^\+\+\+[ \t]*$", re.MULTILINE),
}
_VALUES = 10_000
_DEPTH = 50


class FrontMatter(NamedTuple):
    values: dict[str, Json]
    body: str
    problem: str = ""
    """What is wrong with it. The body then is the whole text."""
    where: str = ""


def split(text: str) -> FrontMatter:
    """What a text says of itself, and the rest of it, without the empty line between the two."""
    opening = _OPENING.match(text)
    closing = opening and _CLOSING[opening[1]].search(text, opening.end())
    if not opening or not closing:
        return FrontMatter({}, text)
    written = text[opening.end() : closing.start()]
    try:
        values = _toml(written) if opening[1] == "+++" else _yaml(written)
    except _RefusedError as error:
        return FrontMatter({}, text, *error.args)
    if values is None:  # a line across the page, not front matter
        return FrontMatter({}, text)
    return FrontMatter(values, text[closing.end() :].removeprefix("\n").removeprefix("\n"))


def written(values: Mapping[str, Json], body: str) -> str:
    """A text that `split` takes apart into these values and this body."""
    from recollect.importers.knowledge import yaml12

    return f"---\n{yaml12.dumped(values) if values else ''}---\n\n{body}"


class _RefusedError(ValueError):
    pass


def _yaml(text: str) -> dict[str, Json] | None:
    from recollect.importers.knowledge import yaml12

    _refuse_long(text)
    try:
        value = yaml12.loaded(text)
    except ValueError as error:
        raise _RefusedError(
            "front matter that is not valid YAML", f"{error} of it" if str(error) else ""
        ) from None
    return {} if value is None and not text.strip() else _mapping(value)


def _toml(text: str) -> dict[str, Json] | None:
    _refuse_long(text)
    try:
        return _mapping(tomllib.loads(text))
    except (tomllib.TOMLDecodeError, RecursionError):
        raise _RefusedError("front matter that is not valid TOML") from None


def _refuse_long(text: str) -> None:
    if len(text) > LIMITS.front_matter_characters:
        raise _RefusedError(
            f"front matter of more than {LIMITS.front_matter_characters:,} characters"
        )


def _mapping(value: Any) -> dict[str, Json] | None:
    plain = _Plain().of(value, _DEPTH)
    return plain if isinstance(plain, dict) else None


class _Plain:
    """Values as JSON has them, and not too many of them."""

    def __init__(self) -> None:
        self._left = _VALUES

    def of(self, value: Any, depth: int) -> Json:
        self._left -= 1
        if self._left < 0 or depth < 0:
            raise _RefusedError("front matter of too many values")
        if isinstance(value, dict):
            return {str(self.of(key, 0)): self.of(inner, depth - 1) for key, inner in value.items()}
        if isinstance(value, (list, tuple, set)):
            return [self.of(inner, depth - 1) for inner in value]
        if isinstance(value, (datetime, date, time)):
            return value.isoformat()
        if value is None or isinstance(value, (str, bool, int)):
            return value
        return value if isinstance(value, float) and math.isfinite(value) else str(value)
