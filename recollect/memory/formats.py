"""How the memory writes counts, dates, lists and long texts."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import NamedTuple

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
    return f"{at.astimezone(UTC):%Y-%m-%d}"


def format_time(at: datetime | None) -> str:
    if at is None:
        return "unknown"
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M}"
