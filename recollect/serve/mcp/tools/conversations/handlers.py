"""Handler of `conversation_search`. The definition is in `definitions`.

It searches the library. In a process that serves one local user (`recollect mcp`, or `recollect
serve` without API keys), a ChatGPT Browser database is searched instead if CONVERSATION_DB or
ORIGIN_CONVERSATION_DB names one, or if there is one in `<home>/db/`. Every call decides again, so a
database dropped into the folder is used by the next call.

Where the contract leaves room, we accept what is nearly right: null and empty mean "not given", a
single role needs no list, and a number may be a string. Everything else is an error that names the
argument.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from recollect import settings
from recollect.configuration import expand_path
from recollect.errors import RecollectError
from recollect.language import text
from recollect.language.queries.query import check_size
from recollect.model.search import Filter
from recollect.serve.mcp.arguments import parse_number, quote, sanitize
from recollect.serve.mcp.context import Context, ToolError

if TYPE_CHECKING:
    from recollect.library import Library

ARGUMENTS = ("query", "roles", "start_date", "end_date", "limit")
ROLES = ("user", "assistant", "tool")
DEFAULT_LIMIT = 50
MAX_LIMIT = 200
CONTENT_LENGTH = 2_000
TITLE_LENGTH = 200
SEPARATOR = "\n\n---\n\n"
NO_MATCHES = "No matching messages."


class Match(Protocol):
    @property
    def created_at(self) -> datetime | None: ...
    @property
    def role(self) -> str | None: ...
    @property
    def title(self) -> str: ...
    @property
    def conversation_id(self) -> str: ...
    @property
    def content(self) -> str: ...


class Query(NamedTuple):
    """The validated arguments of a call."""

    text: str | None
    roles: tuple[str, ...]
    after: datetime | None
    before: datetime | None
    limit: int


class Handlers:
    def conversation_search(self, context: Context, arguments: dict[str, Any]) -> str:
        query = parse_arguments(arguments)
        database = _foreign_database(context)
        if database is not None:
            matches = _search_foreign(database, query)
        else:
            with context.library() as library:
                matches = _search_library(context, library, query)
        return SEPARATOR.join(map(format_match, matches)) or NO_MATCHES


# -- search ---


def _search_library(context: Context, library: Library, query: Query) -> Sequence[Match]:
    return library.recent(
        query.text,
        Filter.of(roles=query.roles, after=query.after, before=query.before),
        limit=query.limit,
        audience=context.audience,
    )


# -- ChatGPT Browser databases ---


def _foreign_database(context: Context) -> Path | None:
    """The database to search instead of the library, if there is one."""
    place = context.place
    if place is None:
        return None
    configured = settings.CONVERSATION_DB.get() or settings.ORIGIN_CONVERSATION_DB.get()
    if configured:
        path = expand_path(configured)
        if not path.exists() or path.is_dir():
            raise ToolError(f"Database not found: {configured}")
        return path
    if isinstance(place, Path):
        return _newest_database(place / "db")
    return None


def _newest_database(folder: Path) -> Path | None:
    """The newest `*.db` file, or link to a file; pipes, devices and folders are ignored.

    Raises ToolError if it is a broken link: searching something else instead would be wrong.
    """
    databases: list[tuple[float, str, Path]] = []
    for path in folder.glob("*.db"):
        status = _status(path)
        if status is not None and (stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode)):
            databases.append((status.st_mtime, path.name, path))
    if not databases:
        return None
    newest = max(databases)[2]
    if not newest.exists():
        raise ToolError(
            f"Database not found: {newest} is a link to {newest.readlink()}, which does not exist."
        )
    return newest


def _status(path: Path) -> os.stat_result | None:
    """The status of a file, or of a link that is broken; None if it was deleted."""
    try:
        return path.stat()
    except OSError:
        pass  # a broken link has a status of its own
    try:
        return path.lstat()
    except OSError:
        return None


def _search_foreign(path: Path, query: Query) -> Sequence[Match]:
    from recollect.search.variants.foreign import (
        ForeignDatabase,  # not needed to search the library
    )

    return ForeignDatabase(path).recent(
        query.text, roles=query.roles, after=query.after, before=query.before, limit=query.limit
    )


# -- arguments ---


def parse_arguments(arguments: dict[str, Any]) -> Query:
    """Validate the arguments of a call. Raises ToolError naming the invalid one."""
    for name in arguments:
        if name not in ARGUMENTS:
            allowed = ", ".join(ARGUMENTS)
            raise ToolError(f"Error: Unknown argument: {quote(name)}. Allowed: {allowed}.")
    values = {name: value for name, value in arguments.items() if value not in (None, "")}
    return Query(
        text=_parse_query(values.get("query")),
        roles=_parse_roles(values.get("roles", [])),
        after=_parse_date(values, "start_date", end=False),
        before=_parse_date(values, "end_date", end=True),
        limit=_parse_limit(values.get("limit", DEFAULT_LIMIT)),
    )


def _parse_query(value: Any) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise ToolError("Error: Invalid query: expected a string.")
    query = text.storable(value).strip()
    try:
        check_size(query, settings.LIMITS.long_query_bytes)
    except RecollectError as error:
        raise ToolError(f"Error: Invalid query: {error}") from error
    return query or None


def _parse_roles(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, list) or not all(isinstance(role, str) for role in value):
        raise ToolError("Error: Invalid roles: expected a list of strings.")
    roles = tuple(dict.fromkeys(value))
    invalid = [quote(role) for role in roles if role not in ROLES]
    if invalid:
        allowed = ", ".join(ROLES)
        raise ToolError(f"Invalid role(s): [{', '.join(invalid[:10])}]. Allowed: {allowed}.")
    return roles


def _parse_date(values: dict[str, Any], name: str, *, end: bool) -> datetime | None:
    value = values.get(name)
    if value is None:
        return None
    if not isinstance(value, str):
        raise ToolError(f"Error: Invalid {name}: expected a string in ISO 8601.")
    if not value.strip():
        return None
    try:
        return text.bound(value, end=end)
    except ValueError as error:
        example = "2024-01-15 or 2024-01-15T14:30:00"
        raise ToolError(
            f"Error: Invalid {name}: {quote(value)}. Expected ISO 8601, e.g. {example}."
        ) from error


def _parse_limit(value: Any) -> int:
    if isinstance(value, str) and not value.strip():
        return DEFAULT_LIMIT
    number = parse_number(value)
    if number is None:
        raise ToolError("Error: Invalid limit: expected an integer.")
    return int(min(max(number, 1), MAX_LIMIT))


# -- the answer ---


def format_match(match: Match) -> str:
    """A message in the contract's format, bounded and sanitized."""
    time = "(no time)"
    if match.created_at is not None:
        time = match.created_at.astimezone(UTC).isoformat(" ")[:16]
    role = _one_line(match.role or "unknown")
    title = _one_line(match.title) or _one_line(match.conversation_id)
    return f"[{time}] {role} (conv: {title})\n{_shorten(match.content)}"


def _shorten(content: str) -> str:
    content = content.strip()
    head: str = sanitize(content[: settings.LIMITS.snippet_slice]).strip()
    if len(head) > CONTENT_LENGTH or len(content) > settings.LIMITS.snippet_slice:
        return head[:CONTENT_LENGTH] + "..."
    return head


def _one_line(value: str) -> str:
    return text.truncate(" ".join(sanitize(value[: 4 * TITLE_LENGTH]).split()), TITLE_LENGTH)
