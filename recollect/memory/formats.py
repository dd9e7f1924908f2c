"""How the memory writes names, paths, counts, dates, lists and long texts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime, tzinfo
from typing import NamedTuple
from urllib.parse import quote, unquote

from recollect.errors import InvalidInput
from recollect.language.text import storable
from recollect.model.names import is_folder, project_name

TOKEN_LENGTH = 4
"""Characters of a token, the rule of thumb used throughout Recollect."""
_PATH = re.compile(r"/([^/]+)/([^/]+)\.jsonl")
_OBSERVATION_ID = re.compile(r"obs-\S{1,100}")
_FURTHER_OBSERVATION = re.compile(r"(obs-[a-z2-7]{10})-\d{1,3}")
_NOT_IN_PATHS = re.compile(r"[\s%/\\`?#\u2028\u2029]")


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


# -- names ---------------------------------------------------------------------


def conversation_path(project: str, conversation: str) -> str:
    """The path of a conversation, as `Memory.read` accepts it.

    It is a name inside the library and never the path of a file.
    """
    folder = encode(project_name(project)) or "-"
    return f"/{folder}/{encode(conversation)}.jsonl"


def encode(name: str) -> str:
    """A name as part of a path: separators and invisible characters are percent-encoded."""
    return "".join(
        quote(char, safe="") if _NOT_IN_PATHS.match(char) or not char.isprintable() else char
        for char in storable(name)
    )


def conversation_id(path: str) -> str | None:
    """The id of the conversation that a path names.

    The project in a path is only for people, because a conversation may move to another project.
    """
    match = _PATH.fullmatch(storable(path).strip())
    return None if match is None else unquote(match[2])


def is_observation_id(name: str) -> bool:
    return _OBSERVATION_ID.fullmatch(name) is not None


def successor_id(id_: str) -> str:
    """The id of the observation that covers the same messages once this one is no longer made."""
    return _FURTHER_OBSERVATION.sub(r"\1", id_)


def file_name(path: str, project: str) -> str:
    """The path of a file as people read it: relative to the folder of its project."""
    relative = path.removeprefix(project.rstrip("/\\"))
    is_inside = relative != path and is_folder(project) and relative[:1] in "/\\"
    return relative.lstrip("/\\") if is_inside else path


# -- texts ---------------------------------------------------------------------


def count(number: int, noun: str) -> str:
    return f"1 {noun}" if number == 1 else f"{number:,} {noun}s"


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


# -- dates ---------------------------------------------------------------------

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


def format_date(at: datetime | None) -> str:
    return "unknown" if at is None else f"{at.astimezone(_ZONE.get()):%Y-%m-%d}"


def format_time(at: datetime | None) -> str:
    return "unknown" if at is None else f"{at.astimezone(_ZONE.get()):%Y-%m-%d %H:%M}"
