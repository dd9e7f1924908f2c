"""Validated arguments of a tool call, and answers and errors as JSON.

Where a contract leaves room, we accept what is nearly right: null means "not given", a number may
be a string, and numbers are clamped. Everything else is an error that names the argument.
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


def json_error(error: str, **details: Any) -> ToolError:
    return ToolError(json.dumps({"error": error, **details}, ensure_ascii=False))


def json_answer(value: dict[str, Any]) -> Answer:
    """The same object twice: as structured content, and as JSON text for clients without it."""
    return Answer(json.dumps(value, ensure_ascii=False), value)


def sanitize(value: Any) -> Any:
    """Stored JSON, safe for a model: no hidden instructions, nothing that breaks a parser."""
    if isinstance(value, str):
        return for_model(storable(value))
    if isinstance(value, dict):
        return {sanitize(name): sanitize(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [sanitize(item) for item in value]
    return value


def quote(value: str) -> str:
    """An argument as error messages show it: short, on one line, in quotes."""
    return repr(truncate(sanitize(value), 80))


def parse_number(value: Any) -> float | None:
    """A number, also from text; None if it is none."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or value != value:  # NaN is not equal to itself
        return None
    number: float = value
    return number


@contextmanager
def json_errors() -> Iterator[None]:
    """Turn library errors into tool errors. A timeout never looks like an empty answer."""
    try:
        yield
    except SearchTimeout as error:
        raise json_error(TIMEOUT) from error
    except RecollectError as error:
        raise json_error(sanitize(str(error))) from error


class Arguments:
    """The arguments of a call. Every method raises ToolError with the name of the argument.

    Toolsets with another style of error messages override `error` and `invalid`.
    """

    def __init__(self, tool: Tool, arguments: dict[str, Any]) -> None:
        self._tool = tool.name
        self._schema: dict[str, Any] = tool.input_schema["properties"]
        for name in arguments:
            if name not in self._schema:
                allowed = ", ".join(self._schema)
                raise self.error(f"Unknown argument: {quote(name)}. Allowed: {allowed}.")
        self._values = {name: value for name, value in arguments.items() if value is not None}

    def error(self, message: str) -> ToolError:
        return json_error(message)

    def invalid(self, name: str, problem: str) -> ToolError:
        return self.error(f"Invalid {name}: {problem}")

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def text(self, name: str) -> str:
        """A string; empty if it was not given."""
        value = self._values.get(name, "")
        if not isinstance(value, str):
            raise self.invalid(name, "expected a string.")
        return storable(value)

    def required_text(self, name: str) -> str:
        """A string that must not be blank."""
        value = self.text(name)
        if not value.strip():
            raise self.error(f"{name} must not be empty")
        return value

    def texts(self, name: str) -> list[str]:
        """A list of strings. A single string needs no list."""
        values = self._values.get(name, [])
        if isinstance(values, str):
            values = [values]
        if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
            raise self.invalid(name, "expected a list of strings.")
        return [storable(value) for value in values if value.strip()]

    def choice(self, name: str, default: str | None = None) -> str:
        """One of the values the schema lists. The default, too, is the schema's unless given."""
        allowed: list[str] = self._schema[name]["enum"]
        value = self.text(name)
        if not value:
            if default is not None:
                return default
            value = self._schema[name].get("default", "")
        if value not in allowed:
            raise self.invalid(name, f"{quote(value)}. Allowed: {', '.join(allowed)}.")
        return value

    def number(self, name: str, lowest: int, highest: int, default: int | None = None) -> int:
        """An integer, clamped. Without a default, here or in the schema, it is required."""
        if default is not None and name not in self:
            return default
        return int(self.decimal(name, lowest, highest))

    def decimal(self, name: str, lowest: float, highest: float) -> float:
        value = parse_number(self._values.get(name, self._schema[name].get("default")))
        if value is None:
            raise self.invalid(name, "expected a number.")
        return float(min(max(value, lowest), highest))

    def flag(self, name: str, default: bool = False) -> bool:
        value = self._values.get(name, default)
        if not isinstance(value, bool):
            raise self.invalid(name, "expected true or false.")
        return value

    def object(self, name: str) -> dict[str, Any]:
        value = self._values.get(name, {})
        if not isinstance(value, dict):
            raise self.invalid(name, "expected an object.")
        return dict(value)
