"""The recall tools, which agents get by default. Answers are plain text within a token budget."""

from __future__ import annotations

from datetime import UTC, datetime

from recollect.errors import InvalidInput
from recollect.language.text import bound
from recollect.library import Library
from recollect.memory.api import MAX_NEIGHBORS
from recollect.memory.results import ObservationHit
from recollect.model.kinds import CONVERSATION, KIND_TABLE
from recollect.model.names import projects_named
from recollect.model.search import Filter
from recollect.serve.mcp.arguments import BadArgument, quote
from recollect.serve.mcp.context import Context, ToolError
from recollect.serve.mcp.recall_lines import (
    Budget,
    count,
    day,
    heading,
    list_projects,
    one_line,
    parse_reference,
)
from recollect.serve.mcp.recall_read import Reading
from recollect.serve.mcp.recall_search import RecallSearch

_KINDS = {kind.plural: kind.name for kind in KIND_TABLE}
_LISTED = 50
_OBSERVATIONS = MAX_NEIGHBORS - 1
"""Observations in one answer; one more is read, to know whether there are others."""
_REMARKS = 150


def recall_search(
    context: Context,
    query: str,
    kinds: list[str],
    project: str,
    after: str,
    before: str,
    offset: int,
    max_tokens: int,
    repeat: bool | None,
) -> str:
    names = kinds or ["conversations"]
    for name in names:
        if name not in _KINDS:
            raise BadArgument("kinds", f"{quote(name)}. Allowed: {', '.join(_KINDS)}.")
    selected = tuple(_KINDS[name] for name in dict.fromkeys(names))
    with context.library() as library:
        filter_ = _filter(library, selected, project, after, before)
        return RecallSearch(context, library, query, filter_).answer(
            offset, max_tokens, bool(repeat)
        )


def recall_read(context: Context, id: str, tool_results: bool | None, max_tokens: int) -> str:
    with context.library() as library:
        reference = parse_reference(library, id, context.audience)
        return Reading(context, library, reference, bool(tool_results)).answer(max_tokens)


def recall_recent(
    context: Context, project: str, after: str, before: str, offset: int, max_tokens: int
) -> str:
    budget = Budget(max_tokens, _REMARKS)
    with context.library() as library:
        filter_ = _filter(library, (CONVERSATION,), project, after, before)
        summaries, total = library.conversation_page(filter_, limit=_LISTED, offset=offset)
        end = offset
        for summary in summaries:
            time = summary.updated_at or summary.created_at
            size = count(summary.message_count, "message")
            if not budget.add(f"{heading(library, summary, time)} · {size}"):
                break
            end += 1
        remark = f"{count(total, 'conversation')}."
        if end < total:
            remark = f"This is {end} of {remark} More: offset {end}."
        projects = "" if filter_.projects else list_projects(library)
    return budget.close(remark, quote=projects)


def recall_timeline(context: Context, project: str, after: str, max_tokens: int) -> str:
    """The observations, newest first, or from a date on, oldest first."""
    budget = Budget(max_tokens, _REMARKS)
    with context.library() as library:
        projects = _projects(library, project)
        start = date("after", after, end=False)
        newest = start is None
        hits, _ = library.memory.timeline(
            (start or datetime.now(UTC)).isoformat(),
            before=MAX_NEIGHBORS if newest else 0,
            after=0 if newest else MAX_NEIGHBORS,
            projects=projects,
        )
    if not hits:
        return "Nothing was observed in this period. recall_recent lists the conversations."
    lines = [observation_line(hit) for hit in hits]
    if newest:
        lines.reverse()
    shown = 0
    for line in lines[:_OBSERVATIONS]:
        if not budget.add(line):
            break
        shown += 1
    if shown == len(lines):
        return budget.close()
    omitted = count(len(lines) - shown, f"{'older' if newest else 'later'} observation")
    if len(lines) == MAX_NEIGHBORS:
        omitted = f"At least {omitted}"
    advice = "give after" if shown == _OBSERVATIONS else "raise max_tokens, or give after"
    return budget.close(f"{omitted} left out: {advice}.")


def observation_line(hit: ObservationHit) -> str:
    observation = hit.observation
    title = one_line(observation.title, 160)
    return f"{day(observation.created_at)} {observation.type}: {title} [{observation.id}]"


def recall_note(context: Context, title: str, text: str, tags: list[str]) -> str:
    fields = {"title": title, "content": text, "keywords": tags}
    with context.library(create=True) as library:
        note = library.knowledge.create("notes", fields)
        return f"Saved as [{library.short_id(note.id)}] {one_line(note.title, 80)}."


# -- filters ---


def _filter(
    library: Library, kinds: tuple[str, ...], project: str, after: str, before: str
) -> Filter:
    return Filter(
        kinds=kinds,
        projects=_projects(library, project),
        after=date("after", after, end=False),
        before=date("before", before, end=True),
    )


def _projects(library: Library, name: str) -> tuple[str, ...]:
    """The projects with this name, or whose folder has it. Case does not matter."""
    name = name.strip()
    if not name:
        return ()
    projects = projects_named(name, [project for project, _ in library.facet_names("projects")])
    if not projects:
        raise ToolError(f"There is no project {quote(name)}. {list_projects(library)}")
    return projects


def date(name: str, text: str, end: bool) -> datetime | None:
    text = text.strip()
    if not text:
        return None
    try:
        return bound(text, end=end, zone=None)
    except ValueError as error:
        raise InvalidInput(
            f"{name}: {quote(text)} is not a date. Give one such as 2026-01-31."
        ) from error
