"""The toolset "memory": what is remembered of past work, layer by layer, and forgetting it.

Answers are Markdown, as contract 4 has them; errors are its texts, plain.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from recollect.errors import RecollectError, SearchTimeout
from recollect.language.text import storable
from recollect.memory import render as remembered
from recollect.memory.api import AROUND, MOST_AROUND, MOST_RESULTS, RESULTS
from recollect.serve.mcp.arguments import TIMEOUT, Arguments, answered, harmless, quoted
from recollect.serve.mcp.context import Answer, Context, ToolError
from recollect.serve.mcp.tools.memory_tools import FORGET, GET_OBSERVATIONS, READ, SEARCH, TIMELINE

NOT_A_QUERY = "Query must be string or array"


class Toolset:
    """See `definitions`. One object serves every user."""

    def close(self) -> None:
        """Nothing is kept open between calls."""

    def search(self, context: Context, arguments: dict[str, Any]) -> str | Answer:
        given = Given(SEARCH, arguments)
        query = given.query()
        format_ = given.choice("response_format", "markdown")
        with told(), context.library() as library:
            found = library.memory.search(
                query,
                mode=given.choice("mode", "both"),
                limit=given.within("limit", RESULTS, 1, MOST_RESULTS),
                after=given.text("after"),
                before=given.text("before"),
                projects=given.texts("projects"),
                types=given.texts("types"),
                concepts=given.texts("concepts"),
                files=given.texts("files"),
                audience=context.audience,
            )
        if format_ == "json":
            return answered(harmless(remembered.search_json(found)))
        return _text(remembered.search_text(found, query))

    def get_observations(self, context: Context, arguments: dict[str, Any]) -> str:
        ids = Given(GET_OBSERVATIONS, arguments).texts("ids")
        with told(), context.library() as library:
            return _text(
                remembered.details_text(library.memory.get(ids, audience=context.audience))
            )

    def read(self, context: Context, arguments: dict[str, Any]) -> str:
        given = Given(READ, arguments)
        path, first, last = given.text("path"), given.line("startLine"), given.line("endLine")
        with told(), context.library() as library:
            start = 1 if first is None else first
            return _text(library.memory.read(path, start, last, audience=context.audience))

    def timeline(self, context: Context, arguments: dict[str, Any]) -> str:
        given = Given(TIMELINE, arguments)
        anchor = given.name("anchor").strip()
        before, after = (given.within(name, AROUND, 0, MOST_AROUND) for name in ("before", "after"))
        with told(), context.library() as library:
            found, place = library.memory.timeline(
                anchor, before=before, after=after, projects=given.texts("projects")
            )
        return _text(remembered.timeline_text(found, place))

    def forget(self, context: Context, arguments: dict[str, Any]) -> str:
        given = Given(FORGET, arguments)
        confirm = given.flag("confirm")
        with told(), context.library() as library:
            forgotten = library.memory.forget(
                given.texts("ids"),
                path=given.text("path"),
                project=given.text("project"),
                after=given.text("after"),
                before=given.text("before"),
                conversations=given.choice("scope", "observation") == "conversation",
                confirm=confirm,
            )
        return _text(remembered.forgotten_text(forgotten, confirm))


class Given(Arguments):
    """The arguments of a tool of contract 4, whose errors are plain texts."""

    def wrong(self, error: str) -> ToolError:
        return ToolError(error)

    def query(self) -> str | list[str]:
        value = self._given.get("query")
        if isinstance(value, str):
            return storable(value)
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise self.wrong(NOT_A_QUERY)
        return [storable(each) for each in value]

    def texts(self, name: str) -> list[str]:
        """Several texts; one needs no list."""
        value = self._given.get(name, [])
        values = [value] if isinstance(value, str) else value
        if not isinstance(values, list) or not all(isinstance(each, str) for each in values):
            raise self.wrong(f"Invalid {name}: expected a list of strings.")
        return [storable(each) for each in values if each.strip()]

    def choice(self, name: str, default: str = "") -> str:
        allowed: list[str] = self._known[name]["enum"]
        value = self.text(name) or default
        if value not in allowed:
            raise self.wrong(f"Invalid {name}: {quoted(value)}. Allowed: {', '.join(allowed)}.")
        return value

    def within(self, name: str, default: int, lowest: int, highest: int) -> int:
        return self.number(name, lowest, highest) if name in self else default

    def line(self, name: str) -> int | None:
        """A line's number; whether there is such a line is not for here."""
        if name not in self:
            return None
        value = self._given[name]
        try:
            number = int(value) if isinstance(value, str) else value
            if isinstance(number, bool) or number != int(number) or abs(number) > 1e12:
                raise ValueError(value)
            return int(number)
        except (TypeError, ValueError, OverflowError) as error:
            raise self.wrong(f"Invalid line range: {name} must be a whole number.") from error


@contextmanager
def told() -> Iterator[None]:
    """Errors of the library as the caller reads them. One that is out of time never looks like an empty answer."""
    try:
        yield
    except SearchTimeout as error:
        raise ToolError(TIMEOUT) from error
    except RecollectError as error:
        raise ToolError(harmless(str(error))) from error


def _text(text: str) -> str:
    shown: str = harmless(text)
    return shown
