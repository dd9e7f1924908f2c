"""The arguments of a call, checked by name, and its answer as JSON.

What the contracts leave open is decided for the caller who gets it nearly
right, as in `conversations`: null means "not given", a number may be a string
and is clamped. What cannot be meant is refused, and the error names it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from recollect.errors import RecollectError, SearchTimeout
from recollect.language.text import for_model, storable, truncate
from recollect.serve.mcp.context import Answer, ToolError
from recollect.serve.mcp.tool import Tool

TIMEOUT = "Database operation timeout"


def failed(error: str, **more: Any) -> ToolError:
    return ToolError(json.dumps({"error": error, **more}, ensure_ascii=False))


def answered(value: dict[str, Any]) -> Answer:
    """The same object for programs and, as the one text, for everybody else."""
    return Answer(json.dumps(value, ensure_ascii=False), value)


def harmless(value: Any) -> Any:
    """JSON from storage for a model: no string in it hides instructions or breaks a parser."""
    if isinstance(value, str):
        return for_model(storable(value))
    if isinstance(value, dict):
        return {harmless(name): harmless(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [harmless(item) for item in value]
    return value


@contextmanager
def told() -> Iterator[None]:
    """Errors of the library as the caller reads them. One that is out of time never looks like an empty answer."""
    try:
        yield
    except SearchTimeout as error:
        raise failed(TIMEOUT) from error
    except RecollectError as error:
        raise failed(harmless(str(error))) from error


class Arguments:
    """What a call was given. Every method raises ToolError with the argument's name."""

    def __init__(self, tool: Tool, given: dict[str, Any]) -> None:
        self._tool = tool.name
        known = tool.input_schema["properties"]
        if unknown := [name for name in given if name not in known]:
            raise self.wrong(
                f"Unknown argument: {quoted(unknown[0])}. Allowed: {', '.join(known)}."
            )
        self._given = {name: value for name, value in given.items() if value is not None}
        self._known = known

    def wrong(self, error: str) -> ToolError:
        return failed(error)

    def __contains__(self, name: str) -> bool:
        return name in self._given

    def text(self, name: str) -> str:
        """A text; empty when it was not given."""
        value = self._given.get(name, "")
        if not isinstance(value, str):
            raise self.wrong(f"Invalid {name}: expected a string.")
        return storable(value)

    def name(self, name: str) -> str:
        """A text that must be given and must not be blank."""
        value = self.text(name)
        if not value.strip():
            raise self.wrong(f"{name} must not be empty")
        return value

    def choice(self, name: str) -> str:
        allowed: list[str] = self._known[name]["enum"]
        value = self.text(name) or str(self._known[name]["default"])
        if value not in allowed:
            raise self.wrong(f"Invalid {name}: {quoted(value)}. Allowed: {', '.join(allowed)}.")
        return value

    def number(self, name: str, lowest: int, highest: int) -> int:
        """A whole number, clamped; without one its default, and without a default an error."""
        return int(self.amount(name, lowest, highest))

    def amount(self, name: str, lowest: float, highest: float) -> float:
        value = self._given.get(name, self._known[name].get("default"))
        if isinstance(value, str):
            try:
                value = float(value)
            except ValueError:
                value = None
        if (
            not isinstance(value, (int, float)) or isinstance(value, bool) or value != value
        ):  # NaN is not itself
            raise self.wrong(f"Invalid {name}: expected a number.")
        return min(max(value, lowest), highest)

    def flag(self, name: str) -> bool:
        value = self._given.get(name, False)
        if not isinstance(value, bool):
            raise self.wrong(f"Invalid {name}: expected true or false.")
        return value

    def object(self, name: str) -> dict[str, Any]:
        value = self._given.get(name, {})
        if not isinstance(value, dict):
            raise self.wrong(f"Invalid {name}: expected an object.")
        return dict(value)


def quoted(value: str) -> str:
    return repr(truncate(harmless(value), 80))
