"""The memory tools: search, details, reading, timeline and forgetting.

Answers are Markdown and errors are plain text, as the Memory API defines them
(docs/contracts/memory-api.md).
"""

from __future__ import annotations

from typing import Any

from recollect.memory import rendering
from recollect.memory.api import DEFAULT_NEIGHBORS
from recollect.memory.formats import time_zone as in_time_zone
from recollect.memory.reading import DEFAULT_READ_TOKENS
from recollect.memory.rendering import search_compact
from recollect.memory.results import DEFAULT_LIMIT, MemoryFilter, MemoryResults
from recollect.serve.mcp.arguments import BadArgument
from recollect.serve.mcp.context import Context, NoLibrary

MAX_LINE = 1e12


def search(
    context: Context,
    query: str | list[str],
    mode: str,
    limit: int | None,
    response_format: str,
    time_zone: str,
    **filters: Any,
) -> str | dict[str, Any]:
    with in_time_zone(time_zone):
        try:
            with context.library() as library:
                answer = library.memory.search(
                    query,
                    MemoryFilter(**filters),
                    mode=mode or "both",
                    limit=limit or DEFAULT_LIMIT,
                    audience=context.audience,
                )
        except NoLibrary as missing:
            answer = MemoryResults("observations", note=str(missing))
            if response_format in ("", "markdown"):
                return f"{rendering.NO_OBSERVATIONS}\n\n{missing}"
        if response_format == "json":
            return rendering.search_json(answer)
        if response_format == "compact":
            return search_compact(answer, query)
        return rendering.search_text(answer, query)


def get_observations(context: Context, ids: list[str], time_zone: str) -> str:
    with in_time_zone(time_zone), context.library() as library:
        return rendering.details_text(library.memory.get(ids, audience=context.audience))


def read(
    context: Context,
    path: str | None,
    startLine: Any,
    endLine: Any,
    tool_results: bool | None,
    max_tokens: int | None,
    time_zone: str,
) -> str:
    with in_time_zone(time_zone), context.library() as library:
        return library.memory.read(
            path or "",
            line("startLine", startLine),
            line("endLine", endLine),
            audience=context.audience,
            tool_results=bool(tool_results),
            max_tokens=max_tokens or DEFAULT_READ_TOKENS,
        )


def line(name: str, value: Any) -> int | None:
    """A line number. Whether the line exists is checked later."""
    if value is None:
        return None
    try:
        if isinstance(value, str):
            value = int(value)
        if isinstance(value, bool) or value != int(value) or abs(value) > MAX_LINE:
            raise ValueError(value)
        return int(value)
    except (TypeError, ValueError, OverflowError) as error:
        problem = f"Invalid line range: {name} must be a whole number."
        raise BadArgument("", problem) from error


def timeline(
    context: Context,
    anchor: str,
    before: int | None,
    after: int | None,
    projects: list[str],
    time_zone: str,
) -> str:
    with in_time_zone(time_zone), context.library() as library:
        observations, position = library.memory.timeline(
            anchor.strip(),
            before=DEFAULT_NEIGHBORS if before is None else before,
            after=DEFAULT_NEIGHBORS if after is None else after,
            projects=projects,
        )
        return rendering.timeline_text(observations, position)


def forget(
    context: Context,
    ids: list[str],
    scope: str,
    path: str,
    project: str,
    after: str,
    before: str,
    confirm: bool | None,
    time_zone: str,
) -> str:
    with in_time_zone(time_zone), context.library() as library:
        deletion = library.memory.forget(
            ids,
            path=path,
            project=project,
            after=after,
            before=before,
            conversations=scope == "conversation",
            confirm=bool(confirm),
        )
        return rendering.deletion_text(deletion, bool(confirm))
