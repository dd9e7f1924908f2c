"""The toolset "conversations": `conversation_search`, contract 0.

It reads the library. In a process that serves its own user alone, a ChatGPT
Browser database takes its place where one is named by CONVERSATION_DB or
ORIGIN_CONVERSATION_DB or lies in `<home>/db/`. The choice is made anew for every
call, so a database that is dropped into the folder is found by the next one.

What the contract leaves open is decided for the caller who gets it nearly
right: null and empty mean "not given", one role needs no list, a number may be
a string. What cannot be meant is refused by name.
"""

from __future__ import annotations

import stat
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from recollect import settings
from recollect.errors import RecollectError
from recollect.language import text
from recollect.language.query import check_size
from recollect.model.audience import MASK, is_human_only
from recollect.serve.mcp.context import Context, ToolError

if TYPE_CHECKING:
    from recollect.library import Library
    from recollect.search.foreign import ForeignDatabase
    from recollect.store.values import Candidate

ROLES = ("user", "assistant", "tool")
DEFAULT_LIMIT = 50
MOST_MESSAGES = 200
FARTHEST = 10_000
"""How many messages are looked at, where some are left out."""
CONTENT_LENGTH = 2_000
TITLE_LENGTH = 200
SEPARATOR = "\n\n---\n\n"
NOTHING_FOUND = "No matching messages."
VARIABLES = ("CONVERSATION_DB", "ORIGIN_CONVERSATION_DB")


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


class Toolset:
    """See `definitions`. One object serves every user."""

    def close(self) -> None:
        """Nothing is kept open between calls."""

    def conversation_search(self, context: Context, arguments: dict[str, Any]) -> str:
        wanted = parse(arguments)
        if (path := _other_database(context)) is not None:
            matches: Sequence[Match] = _foreign(path).recent(
                wanted.query,
                roles=wanted.roles,
                after=wanted.after,
                before=wanted.before,
                limit=wanted.limit,
            )
        else:
            with context.library() as library:
                matches = _recent(context, library, wanted)
        return SEPARATOR.join(block(match) for match in matches) or NOTHING_FOUND


def _other_database(context: Context) -> Path | None:
    """The database that is searched in the library's place, if there is one."""
    place = context.place
    if place is None:
        return None
    configured = settings.CONVERSATION_DB.get() or settings.ORIGIN_CONVERSATION_DB.get()
    if configured:
        path = Path(configured).expanduser()
        if not path.exists() or path.is_dir():
            raise ToolError(f"Database not found: {configured}")
        return path
    return _newest_database(place / "db") if isinstance(place, Path) else None


def _recent(context: Context, library: Library, wanted: Wanted) -> list[Candidate]:
    """The newest messages that match, without what only people may see.

    Where that is left out instead of masked, older ones take its place.
    """
    limit = wanted.limit
    while True:
        found = library.recent(
            wanted.query, roles=wanted.roles, after=wanted.after, before=wanted.before, limit=limit
        )
        closed = _for_people(library, found) if context.agent else set()
        if closed and context.hides:
            shown = [match for match in found if match.key not in closed]
        else:
            shown = [
                match._replace(content=MASK) if match.key in closed else match for match in found
            ]
        if len(shown) >= wanted.limit or len(found) < limit or limit >= FARTHEST:
            return shown[: wanted.limit]
        limit *= 4


def _for_people(library: Library, found: Sequence[Candidate]) -> set[int]:
    """Those which only people may see: because they are kept so, or because their metadata says so."""
    read = library.store.passages_by_key([match.key for match in found])
    return {key for key, (_, passage) in read.items() if is_human_only(passage)}


def _foreign(path: Path) -> ForeignDatabase:
    from recollect.search.foreign import ForeignDatabase  # not loaded where the library is searched

    return ForeignDatabase(path)


def _newest_database(folder: Path) -> Path | None:
    """The newest regular `*.db`; links, pipes and devices are passed over."""
    found: list[tuple[float, str, Path]] = []
    for path in folder.glob("*.db"):
        status = path.lstat()
        if stat.S_ISREG(status.st_mode):
            found.append((status.st_mtime, path.name, path))
    return max(found)[2] if found else None


# -- arguments -------------------------------------------------------------


class Wanted(NamedTuple):
    query: str | None
    roles: tuple[str, ...]
    after: datetime | None
    before: datetime | None
    limit: int


def parse(arguments: dict[str, Any]) -> Wanted:
    """The arguments of a call. Raises ToolError naming the one that cannot be used."""
    known = ("query", "roles", "start_date", "end_date", "limit")
    if unknown := [name for name in arguments if name not in known]:
        raise ToolError(
            f"Error: Unknown argument: {_quoted(unknown[0])}. Allowed: {', '.join(known)}."
        )
    given = {name: value for name, value in arguments.items() if value is not None and value != ""}
    return Wanted(
        query=_query(given.get("query")),
        roles=_roles(given.get("roles", [])),
        after=_date(given, "start_date", end=False),
        before=_date(given, "end_date", end=True),
        limit=_limit(given.get("limit", DEFAULT_LIMIT)),
    )


def _query(value: Any) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise ToolError("Error: Invalid query: expected a string.")
    query = text.storable(value).strip()
    try:
        check_size(query)
    except RecollectError as error:
        raise ToolError(f"Error: Invalid query: {error}") from error
    return query or None


def _roles(value: Any) -> tuple[str, ...]:
    roles = [value] if isinstance(value, str) else value
    if not isinstance(roles, list) or not all(isinstance(role, str) for role in roles):
        raise ToolError("Error: Invalid roles: expected a list of strings.")
    if invalid := [role for role in dict.fromkeys(roles) if role not in ROLES]:
        shown = ", ".join(_quoted(role) for role in invalid[:10])
        raise ToolError(f"Invalid role(s): [{shown}]. Allowed: {', '.join(ROLES)}.")
    return tuple(dict.fromkeys(roles))


def _date(given: dict[str, Any], name: str, *, end: bool) -> datetime | None:
    value = given.get(name)
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
            f"Error: Invalid {name}: {_quoted(value)}. Expected ISO 8601, e.g. {example}."
        ) from error


def _limit(value: Any) -> int:
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            value = None if value.strip() else DEFAULT_LIMIT
    if (
        not isinstance(value, (int, float)) or isinstance(value, bool) or value != value
    ):  # NaN is not itself
        raise ToolError("Error: Invalid limit: expected an integer.")
    return int(min(max(value, 1), MOST_MESSAGES))


def _quoted(value: str) -> str:
    """An argument as an error shows it: short, on one line, in quotes."""
    return repr(text.truncate(text.for_model(value), 80))


# -- the answer ------------------------------------------------------------


def block(match: Match) -> str:
    """A message as the contract shows it. Stored text is data: bounded, and without what harms its reader."""
    when = match.created_at.astimezone(UTC).isoformat(" ")[:16] if match.created_at else "(no time)"
    title = _one_line(match.title) or _one_line(match.conversation_id)[:8]
    return f"[{when}] {_one_line(match.role or 'unknown')} (conv: {title})\n{_shown(match.content)}"


def _shown(content: str) -> str:
    stripped = content.strip()
    head = _harmless(stripped[: settings.LIMITS.snippet_slice]).strip()
    cut = len(head) > CONTENT_LENGTH or len(stripped) > settings.LIMITS.snippet_slice
    return head[:CONTENT_LENGTH] + "..." if cut else head


def _one_line(value: str) -> str:
    return text.truncate(" ".join(_harmless(value[: 4 * TITLE_LENGTH]).split()), TITLE_LENGTH)


def _harmless(value: str) -> str:
    """Without hidden instructions, and without the lone surrogates that some JSON parsers refuse."""
    return text.for_model(text.storable(value))
