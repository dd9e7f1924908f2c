"""`conversation_search`, as its contract defines it (docs/contracts/conversation-search.md).

It searches the library. In a process that serves one local user (`recollect mcp`, or `recollect
serve` without API keys), a ChatGPT Browser database is searched instead if CONVERSATION_DB or
ORIGIN_CONVERSATION_DB names one, or if there is one in `<home>/db/`. Every call decides again, so a
database dropped into the folder is used by the next call.
"""

from __future__ import annotations

import stat
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from recollect import settings
from recollect.configuration import expand_path
from recollect.errors import RecollectError
from recollect.language import text
from recollect.language.queries.query import check_size
from recollect.model.search import Filter
from recollect.serve.mcp.arguments import BadArgument, one_line, quote, sanitize
from recollect.serve.mcp.context import Context, ToolError

ROLES = ("user", "assistant", "tool")
CONTENT_LENGTH = 2_000
SEPARATOR = "\n\n---\n\n"
NO_MATCHES = "No matching messages."


def conversation_search(
    context: Context, query: str, roles: list[str], start_date: str, end_date: str, limit: int
) -> str:
    query = query.strip()
    try:
        check_size(query, settings.LIMITS.long_query_bytes)
    except RecollectError as error:
        raise BadArgument("query", str(error)) from error
    invalid = [quote(role) for role in dict.fromkeys(roles) if role not in ROLES]
    if invalid:
        raise ToolError(
            f"Invalid role(s): [{', '.join(invalid[:10])}]. Allowed: {', '.join(ROLES)}."
        )
    filters: dict[str, Any] = {
        "roles": tuple(dict.fromkeys(roles)),
        "after": parse_date("start_date", start_date, end=False),
        "before": parse_date("end_date", end_date, end=True),
    }
    database = foreign_database(context)
    matches: Sequence[Any]
    if database is not None:
        from recollect.search.foreign import ForeignDatabase  # few have one

        matches = ForeignDatabase(database).recent(query or None, limit=limit, **filters)
    else:
        with context.library() as library:
            matches = library.recent(
                query or None, Filter.of(**filters), limit=limit, audience=context.audience
            )
    return SEPARATOR.join(map(format_match, matches)) or NO_MATCHES


def parse_date(name: str, value: str, *, end: bool) -> datetime | None:
    if not value.strip():
        return None
    try:
        return text.bound(value, end=end)
    except ValueError as error:
        example = "2024-01-15 or 2024-01-15T14:30:00"
        raise BadArgument(name, f"{quote(value)}. Expected ISO 8601, e.g. {example}.") from error


def format_match(match: Any) -> str:
    """A message in the contract's format, bounded and sanitized."""
    time = "(no time)"
    if match.created_at is not None:
        time = match.created_at.astimezone(UTC).isoformat(" ")[:16]
    role = one_line(match.role or "unknown")
    title = one_line(match.title) or one_line(match.conversation_id)
    content = match.content.strip()
    head: str = sanitize(content[: settings.LIMITS.snippet_slice]).strip()
    if len(head) > CONTENT_LENGTH or len(content) > settings.LIMITS.snippet_slice:
        head = head[:CONTENT_LENGTH] + "..."
    return f"[{time}] {role} (conv: {title})\n{head}"


def foreign_database(context: Context) -> Path | None:
    """The ChatGPT Browser database to search instead of the library, if there is one."""
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
        return newest_database(place / "db")
    return None


def newest_database(folder: Path) -> Path | None:
    """The newest `*.db` file, or link to a file; pipes, devices and folders are ignored.

    Raises ToolError if it is a broken link: searching something else instead would be wrong.
    """
    databases: list[tuple[float, str, Path]] = []
    for path in folder.glob("*.db"):
        try:
            status = path.stat() if path.exists() else path.lstat()
        except OSError:
            continue  # it was deleted
        if stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode):
            databases.append((status.st_mtime, path.name, path))
    if not databases:
        return None
    newest = max(databases)[2]
    if not newest.exists():
        raise ToolError(
            f"Database not found: {newest} is a link to {newest.readlink()}, which does not exist."
        )
    return newest
