"""How the memory writes counts, dates, lists and long texts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime, tzinfo
from typing import NamedTuple

from recollect.errors import InvalidInput

TOKEN_LENGTH = 4
"""Characters of a token, the rule of thumb used throughout Recollect."""


class OptionNames(NamedTuple):
    """How an interface spells the options that an answer mentions."""

    limit: str = "limit"
    filters: str = "projects, after, before"
    start: str = "startLine {}"
    tool_results: str = "tool_results true"
    max_tokens: str = "max_tokens {}"


TOOL_OPTIONS = OptionNames()
"""The arguments of the MCP tools."""
COMMAND_OPTIONS = OptionNames(
    limit="--limit",
    filters="--project, --after, --before",
    start="--lines {}-",
    tool_results="--tool-results",
    max_tokens="--max-tokens {}",
)


_ZONE: ContextVar[tzinfo | None] = ContextVar("time zone", default=None)
"""None is that of this computer."""


@contextmanager
def time_zone(name: str) -> Iterator[None]:
    """Days and hours are read and written in this time zone; an empty name changes nothing.

    Raises InvalidInput.
    """
    from zoneinfo import ZoneInfo  # seldom needed

    try:
        zone = UTC if name == "UTC" else ZoneInfo(name) if name else _ZONE.get()
    except (ValueError, OSError, KeyError) as error:  # ZoneInfoNotFoundError is a KeyError
        raise InvalidInput(
            f"Unknown time_zone: {name[:80]!r}. Give one like Asia/Tokyo."
        ) from error
    token = _ZONE.set(zone)
    try:
        yield
    finally:
        _ZONE.reset(token)


def current_zone() -> tzinfo | None:
    return _ZONE.get()


def count(number: int, noun: str) -> str:
    if number == 1:
        return f"1 {noun}"
    return f"{number:,} {noun}s"


def one_line(text: str) -> str:
    return " ".join(text.split())


def shorten(text: str, length: int) -> str:
    """At most `length` characters, cut at the end of a word."""
    if len(text) <= length:
        return text
    head = text[: length - 1]
    if " " in head[length // 2 :]:
        head = head.rsplit(" ", 1)[0]
    return head.rstrip(" ,;:") + "…"


def code_list(names: Iterable[str]) -> str:
    return ", ".join(f"`{one_line(name)}`" for name in names)


def format_date(at: datetime | None) -> str:
    if at is None:
        return "unknown"
    return f"{at.astimezone(_ZONE.get()):%Y-%m-%d}"


def format_time(at: datetime | None) -> str:
    if at is None:
        return "unknown"
    return f"{at.astimezone(_ZONE.get()):%Y-%m-%d %H:%M}"
