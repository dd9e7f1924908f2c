"""Handlers of the memory tools: search, details, reading, timeline and forgetting.

Answers are Markdown and errors are plain text, as the Memory API defines them
(docs/contracts/memory-api.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

from recollect.errors import RecollectError, SearchTimeout
from recollect.language.text import storable
from recollect.memory import rendering
from recollect.memory.api import DEFAULT_NEIGHBORS, MAX_NEIGHBORS
from recollect.memory.formats import time_zone
from recollect.memory.reading import DEFAULT_READ_TOKENS, MAX_TOKENS, MIN_TOKENS
from recollect.memory.rendering import search_compact
from recollect.memory.results import DEFAULT_LIMIT, MAX_LIMIT, MemoryFilter, MemoryResults
from recollect.serve.mcp.arguments import TIMEOUT, Arguments, json_answer, sanitize
from recollect.serve.mcp.context import Answer, Context, NoLibrary, ToolError
from recollect.serve.mcp.tools.memory.definitions import (
    FORGET,
    GET_OBSERVATIONS,
    READ,
    SEARCH,
    TIMELINE,
)

INVALID_QUERY = "Query must be string or array"
MAX_LINE = 1e12


Handler = Callable[[Any, Context, dict[str, Any]], Any]


def in_time_zone(handler: Handler) -> Handler:
    """The handler in the time zone that the caller asks for."""

    @wraps(handler)
    def handle(self: Any, context: Context, arguments: dict[str, Any]) -> Any:
        with plain_errors(), time_zone(str(arguments.get("time_zone") or "")):
            return handler(self, context, arguments)

    return handle


class Handlers:
    """One object serves every user."""

    @in_time_zone
    def search(self, context: Context, arguments: dict[str, Any]) -> str | Answer:
        args = MemoryArguments(SEARCH, arguments)
        query = args.query()
        response_format = args.choice("response_format", "markdown")
        filters = MemoryFilter(
            after=args.text("after"),
            before=args.text("before"),
            projects=args.texts("projects"),
            types=args.texts("types"),
            concepts=args.texts("concepts"),
            files=args.texts("files"),
        )
        mode = args.choice("mode", "both")
        limit = args.number("limit", 1, MAX_LIMIT, default=DEFAULT_LIMIT)
        try:
            with context.library() as library:
                answer = library.memory.search(
                    query, filters, mode=mode, limit=limit, audience=context.audience
                )
        except NoLibrary as missing:
            answer = MemoryResults("observations", note=str(missing))
            if response_format == "markdown":
                return f"{rendering.NO_OBSERVATIONS}\n\n{missing}"
        if response_format == "json":
            return json_answer(sanitize(rendering.search_json(answer)))
        if response_format == "compact":
            return _sanitize_text(search_compact(answer, query))
        return _sanitize_text(rendering.search_text(answer, query))

    @in_time_zone
    def get_observations(self, context: Context, arguments: dict[str, Any]) -> str:
        ids = MemoryArguments(GET_OBSERVATIONS, arguments).texts("ids")
        with context.library() as library:
            observations = library.memory.get(ids, audience=context.audience)
            return _sanitize_text(rendering.details_text(observations))

    @in_time_zone
    def read(self, context: Context, arguments: dict[str, Any]) -> str:
        args = MemoryArguments(READ, arguments)
        path = args.text("path")
        first = args.line("startLine")
        last = args.line("endLine")
        tool_results = args.flag("tool_results")
        max_tokens = args.number("max_tokens", MIN_TOKENS, MAX_TOKENS, default=DEFAULT_READ_TOKENS)
        with context.library() as library:
            text = library.memory.read(
                path,
                first,
                last,
                audience=context.audience,
                tool_results=tool_results,
                max_tokens=max_tokens,
            )
        return _sanitize_text(text)

    @in_time_zone
    def timeline(self, context: Context, arguments: dict[str, Any]) -> str:
        args = MemoryArguments(TIMELINE, arguments)
        anchor = args.required_text("anchor").strip()
        before = args.number("before", 0, MAX_NEIGHBORS, default=DEFAULT_NEIGHBORS)
        after = args.number("after", 0, MAX_NEIGHBORS, default=DEFAULT_NEIGHBORS)
        projects = args.texts("projects")
        with context.library() as library:
            observations, position = library.memory.timeline(
                anchor, before=before, after=after, projects=projects
            )
        return _sanitize_text(rendering.timeline_text(observations, position))

    @in_time_zone
    def forget(self, context: Context, arguments: dict[str, Any]) -> str:
        args = MemoryArguments(FORGET, arguments)
        confirm = args.flag("confirm")
        with context.library() as library:
            deletion = library.memory.forget(
                args.texts("ids"),
                path=args.text("path"),
                project=args.text("project"),
                after=args.text("after"),
                before=args.text("before"),
                conversations=args.choice("scope", "observation") == "conversation",
                confirm=confirm,
            )
        return _sanitize_text(rendering.deletion_text(deletion, confirm))


class MemoryArguments(Arguments):
    """The arguments of a Memory API tool. Its errors are plain text."""

    def error(self, message: str) -> ToolError:
        return ToolError(message)

    def query(self) -> str | list[str]:
        value = self._values.get("query")
        if isinstance(value, str):
            return storable(value)
        if not isinstance(value, list) or not all(isinstance(part, str) for part in value):
            raise self.error(INVALID_QUERY)
        return [storable(part) for part in value]

    def line(self, name: str) -> int | None:
        """A line number. Whether the line exists is checked later."""
        if name not in self:
            return None
        value = self._values[name]
        try:
            if isinstance(value, str):
                value = int(value)
            if isinstance(value, bool) or value != int(value) or abs(value) > MAX_LINE:
                raise ValueError(value)
            return int(value)
        except (TypeError, ValueError, OverflowError) as error:
            raise self.error(f"Invalid line range: {name} must be a whole number.") from error


@contextmanager
def plain_errors() -> Iterator[None]:
    """Turn library errors into tool errors. A timeout never looks like an empty answer."""
    try:
        yield
    except SearchTimeout as error:
        raise ToolError(TIMEOUT) from error
    except RecollectError as error:
        raise ToolError(sanitize(str(error))) from error


def _sanitize_text(text: str) -> str:
    sanitized: str = sanitize(text)
    return sanitized
