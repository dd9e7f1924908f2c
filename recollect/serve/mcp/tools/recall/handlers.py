"""Handlers of the recall tools. Answers are plain text within a token budget."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from recollect.errors import InvalidInput
from recollect.language.text import bound
from recollect.library import Library
from recollect.memory.api import MAX_NEIGHBORS
from recollect.memory.results import ObservationHit
from recollect.model.kinds import CONVERSATION, KIND_TABLE
from recollect.model.search import Filter
from recollect.serve.mcp.arguments import Arguments, quote
from recollect.serve.mcp.context import Context, ToolError
from recollect.serve.mcp.tools.memory.handlers import plain_errors
from recollect.serve.mcp.tools.recall.budget import Budget
from recollect.serve.mcp.tools.recall.definitions import (
    READ_TOKENS,
    RECALL_NOTE,
    RECALL_READ,
    RECALL_RECENT,
    RECALL_SEARCH,
    RECALL_TIMELINE,
    SEARCH_TOKENS,
)
from recollect.serve.mcp.tools.recall.labels import (
    day,
    heading,
    list_projects,
    matching_projects,
    one_line,
)
from recollect.serve.mcp.tools.recall.reading import Reading
from recollect.serve.mcp.tools.recall.references import parse_reference
from recollect.serve.mcp.tools.recall.searching import RecallSearch
from recollect.settings import LIMITS

_KINDS = {kind.plural: kind.name for kind in KIND_TABLE}
_LISTED = 50
_OBSERVATIONS = MAX_NEIGHBORS - 1
"""Observations in one answer; one more is read, to know whether there are others."""
_REMARKS = 150


class Handlers:
    """One object serves every user."""

    def recall_search(self, context: Context, arguments: dict[str, Any]) -> str:
        args = RecallArguments(RECALL_SEARCH, arguments)
        query = args.required_text("query")
        kinds = args.kinds()
        offset = args.number("offset", 0, LIMITS.page_offset, default=0)
        max_tokens = args.tokens(SEARCH_TOKENS)
        repeat = args.flag("repeat")
        with plain_errors(), context.library() as library:
            filter_ = args.filter(library, kinds)
            search = RecallSearch(context, library, query, filter_)
            return search.answer(offset, max_tokens, repeat)

    def recall_read(self, context: Context, arguments: dict[str, Any]) -> str:
        args = RecallArguments(RECALL_READ, arguments)
        id_ = args.required_text("id")
        tool_results = args.flag("tool_results")
        max_tokens = args.tokens(READ_TOKENS)
        with plain_errors(), context.library() as library:
            reference = parse_reference(library, id_, context.audience)
            return Reading(context, library, reference, tool_results).answer(max_tokens)

    def recall_recent(self, context: Context, arguments: dict[str, Any]) -> str:
        args = RecallArguments(RECALL_RECENT, arguments)
        offset = args.number("offset", 0, LIMITS.page_offset, default=0)
        budget = Budget(args.tokens(SEARCH_TOKENS), _REMARKS)
        with plain_errors(), context.library() as library:
            filter_ = args.filter(library, (CONVERSATION,))
            summaries, total = library.conversation_page(filter_, limit=_LISTED, offset=offset)
            end = offset
            for summary in summaries:
                short_id = library.short_id(summary.id)
                time = summary.updated_at or summary.created_at
                size = _count(summary.message_count, "message")
                if not budget.add(f"{heading(library, short_id, summary, time)} · {size}"):
                    break
                end += 1
            remark = f"{_count(total, 'conversation')}."
            if end < total:
                remark = f"This is {end} of {remark} More: offset {end}."
            projects = ""
            if not filter_.projects:
                projects = list_projects(library)
        return budget.close(remark, quote=projects)

    def recall_timeline(self, context: Context, arguments: dict[str, Any]) -> str:
        args = RecallArguments(RECALL_TIMELINE, arguments)
        budget = Budget(args.tokens(SEARCH_TOKENS), _REMARKS)
        with plain_errors(), context.library() as library:
            projects = args.projects(library)
            after = args.date("after", end=False)
            if after is not None:
                hits, _ = library.memory.timeline(
                    after.isoformat(), before=0, after=MAX_NEIGHBORS, projects=projects
                )
            else:
                hits, _ = library.memory.timeline(
                    datetime.now(UTC).isoformat(), before=MAX_NEIGHBORS, after=0, projects=projects
                )
        if not hits:
            return "Nothing was observed in this period. recall_recent lists the conversations."
        return _timeline(budget, hits, newest=after is None)

    def recall_note(self, context: Context, arguments: dict[str, Any]) -> str:
        args = RecallArguments(RECALL_NOTE, arguments)
        fields = {
            "title": args.required_text("title"),
            "content": args.required_text("text"),
            "keywords": args.texts("tags"),
        }
        with plain_errors(), context.library(create=True) as library:
            note = library.knowledge.create("notes", fields)
            return f"Saved as [{library.short_id(note.id)}] {one_line(note.title, 80)}."


def _count(number: int, noun: str) -> str:
    if number == 1:
        return f"1 {noun}"
    return f"{number:,} {noun}s"


def _timeline(budget: Budget, hits: list[ObservationHit], newest: bool) -> str:
    """The observations, newest first, or from a date on, oldest first."""
    lines = [_observation_line(hit) for hit in hits]
    if newest:
        lines.reverse()
    count = 0
    for line in lines[:_OBSERVATIONS]:
        if not budget.add(line):
            break
        count += 1
    return budget.close(_remark_on_omission(len(lines), count, newest))


def _remark_on_omission(total: int, count: int, newest: bool) -> str:
    """How many of the observations that were read are left out, and how to get them."""
    if count == total:
        return ""
    order = "older" if newest else "later"
    number = _count(total - count, f"{order} observation")
    if total == MAX_NEIGHBORS:
        number = f"At least {number}"
    if count == _OBSERVATIONS:
        return f"{number} left out: give after."
    return f"{number} left out: raise max_tokens, or give after."


def _observation_line(hit: ObservationHit) -> str:
    observation = hit.observation
    title = one_line(observation.title, 160)
    return f"{day(observation.created_at)} {observation.type}: {title} [{observation.id}]"


class RecallArguments(Arguments):
    """The arguments of a recall tool. Its errors are plain text."""

    def error(self, message: str) -> ToolError:
        return ToolError(message)

    def tokens(self, default: int) -> int:
        return self.number("max_tokens", 0, 10**9, default=default)

    def kinds(self) -> tuple[str, ...]:
        names = self.texts("kinds") or ["conversations"]
        unknown = [name for name in names if name not in _KINDS]
        if unknown:
            raise self.invalid("kinds", f"{quote(unknown[0])}. Allowed: {', '.join(_KINDS)}.")
        return tuple(_KINDS[name] for name in dict.fromkeys(names))

    def filter(self, library: Library, kinds: tuple[str, ...]) -> Filter:
        return Filter(
            kinds=kinds,
            projects=self.projects(library),
            after=self.date("after", end=False),
            before=self.date("before", end=True),
        )

    def projects(self, library: Library) -> tuple[str, ...]:
        name = self.text("project").strip()
        if not name:
            return ()
        projects = matching_projects(library, name)
        if not projects:
            raise ToolError(f"There is no project {quote(name)}. {list_projects(library)}")
        return projects

    def date(self, name: str, end: bool) -> datetime | None:
        text = self.text(name).strip()
        if not text:
            return None
        try:
            return bound(text, end=end, zone=None)
        except ValueError as error:
            raise InvalidInput(
                f"{name}: {quote(text)} is not a date. Give one such as 2026-01-31."
            ) from error
