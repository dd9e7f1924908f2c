"""The arguments of a tool call, read as the tool's schema says; and answers and errors.

Where a contract leaves room, we accept what is nearly right: null means "not given", a number may
be a string, a single string needs no list, and numbers are clamped. Everything else is an error
that names the argument. Each toolset words its errors as its contract does.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NamedTuple

from recollect import places
from recollect.errors import Conflict, InvalidInput, RecollectError, SearchTimeout
from recollect.language.text import for_model, storable, truncate
from recollect.serve.mcp.context import Answer, Context, ToolError, TooManyCalls
from recollect.serve.mcp.toolsets import TOOLSETS, Tool
from recollect.settings import LIMITS
from recollect.store.audit_log import READ, SEARCH, Actor, Entry, acting

log = logging.getLogger(__name__)

TIMEOUT = "Database operation timeout"
PREFERENCES = ("snippet_length", "max_tokens", "order_by")
_MAX_NUMBER = 10**6
_ID_ARGUMENTS = ("id", "ids", "conversation_id", "conversation", "thread_id", "message_id", "path")
"""Arguments that the audit log records."""


class BadArgument(Exception):
    """An argument is invalid. Without a name, the arguments do not go together."""

    def __init__(self, name: str, problem: str, allowed: Sequence[str] = ()) -> None:
        super().__init__(problem)
        self.name = name
        self.problem = problem
        """With `allowed` values, the value that is not one of them."""
        self.allowed = allowed


# -- calls ---


class Wording(NamedTuple):
    """How a toolset words its errors."""

    invalid: str = "Invalid {name}: {problem}"
    choice: str = "{value}. Allowed: {allowed}."
    arguments: str = "{problem}"
    """An error in the arguments; `problem` may be made by `invalid`."""
    error: str = "{problem}"
    timeout: str = TIMEOUT
    is_json: bool = False
    has_preferences: bool = False
    """Whether PREFERENCES are those of the session if they are not given."""

    def argument_error(self, tool: str, error: BadArgument) -> ToolError:
        problem = error.problem
        if error.allowed:
            problem = self.choice.format(value=problem, allowed=", ".join(error.allowed))
        if error.name:
            problem = self.invalid.format(name=error.name, problem=problem)
        return self.tool_error(self.arguments.format(tool=tool, problem=problem))

    def tool_error(self, problem: str, **details: Any) -> ToolError:
        text = self.error.format(problem=problem)
        if self.is_json:
            text = json.dumps({"error": text, **details}, ensure_ascii=False)
        return ToolError(text)


WORDINGS = {
    "plain": Wording(),
    "json": Wording(is_json=True),
    "knowledge": Wording(
        "{name}: {problem}",
        "{value} is not one of {allowed}.",
        "Invalid arguments for {tool}: {problem}",
        is_json=True,
        has_preferences=True,
    ),
    "contract": Wording(error="Error: {problem}", timeout=""),
}
"""By the `errors` of a toolset."""


def json_error(error: str, **details: Any) -> ToolError:
    return WORDINGS["json"].tool_error(error, **details)


def call_tool(tool: Tool, context: Context, arguments: dict[str, Any]) -> str | Answer:
    """Call the handler of a tool. Raises ToolError. A timeout never looks like an empty answer."""
    toolset = TOOLSETS[tool.toolset]
    wording = WORDINGS[toolset.errors]
    handler = getattr(import_module(toolset.module), tool.handler)
    try:
        context.admit(tool.name, writes=not tool.is_read_only)
        with acting(context.actor or Actor(interface="mcp")):
            answer = handler(context, **tool.fixed, **read_arguments(tool, arguments))
            record(tool, context, arguments)
    except TooManyCalls as error:
        raise wording.tool_error(str(error)) from error
    except BadArgument as error:
        raise wording.argument_error(tool.name, error) from error
    except RecollectError as error:
        if toolset.errors == "contract":
            log.warning("%s failed", tool.name, exc_info=True)
        problem = sanitize(str(error))
        if isinstance(error, SearchTimeout):
            problem = wording.timeout or problem
        elif isinstance(error, InvalidInput) and not isinstance(error, Conflict):
            problem = wording.arguments.format(tool=tool.name, problem=problem)
        raise wording.tool_error(problem) from error
    if isinstance(answer, dict):
        answer = sanitize(answer)
        return Answer(json.dumps(answer, ensure_ascii=False), answer)
    if isinstance(answer, str):
        return str(sanitize(answer))
    assert isinstance(answer, Answer)
    return answer


def record(tool: Tool, context: Context, arguments: dict[str, Any]) -> None:
    """Record in the audit log a call that reads. Deletions are recorded where they happen."""
    if not tool.is_read_only:
        return
    ids: list[str] = []
    for name in _ID_ARGUMENTS:
        value = arguments.get(name)
        values = value if isinstance(value, list) else [value]
        ids += [str(item) for item in values if isinstance(item, (str, int))]
    action = SEARCH if "search" in tool.name else READ
    places.record(context.home, context.user, Entry.of(action, tool.name, ids))


# -- arguments ---


def read_arguments(tool: Tool, arguments: dict[str, Any]) -> dict[str, Any]:
    """A value for every argument of a tool. Raises BadArgument.

    Without a value and a default, a text is empty, a list is empty, and everything else is None.
    """
    schemas: dict[str, dict[str, Any]] = tool.accepts["properties"]
    for name in arguments:
        if name not in schemas:
            raise BadArgument(
                "", f"Unknown argument: {quote(name)}. Allowed: {', '.join(schemas)}."
            )
    has_preferences = WORDINGS[TOOLSETS[tool.toolset].errors].has_preferences
    values: dict[str, Any] = {}
    for name, schema in schemas.items():
        value = arguments.get(name)
        if value is None and name in tool.checked_later:
            values[name] = None
            continue
        if value is None and not (has_preferences and name in PREFERENCES):
            value = schema.get("default")
        is_required = name in tool.accepts["required"] and name not in tool.checked_later
        values[name] = read_value(tool, name, schema, value, is_required)
    return values


def read_value(tool: Tool, name: str, schema: dict[str, Any], value: Any, is_required: bool) -> Any:
    """An argument as its schema says. Raises BadArgument."""
    kind = schema.get("type", "")
    if kind in ("integer", "number"):
        return read_number(tool, name, schema, value, is_required)
    if kind == "array":
        values = [value] if isinstance(value, str) else value or []
        if not isinstance(values, list) or not all(isinstance(item, str) for item in values):
            raise BadArgument(name, "expected a list of strings.")
        return [storable(item) for item in values if item.strip()]
    if kind in ("boolean", "object"):
        if value is None or isinstance(value, bool if kind == "boolean" else dict):
            return value
        expected = "true or false" if kind == "boolean" else "an object"
        raise BadArgument(name, f"expected {expected}.")
    if kind != "string":
        types = [part.get("type") for part in schema.get("anyOf", ())]
        if "array" in types:  # a text or a list of texts
            if isinstance(value, str):
                return storable(value)
            if not isinstance(value, list) or not all(isinstance(part, str) for part in value):
                raise BadArgument("", f"{name.capitalize()} must be string or array")
            return [storable(part) for part in value]
        if "integer" not in types:  # a schema of the conformance suite
            return value
        if isinstance(value, int) and not isinstance(value, bool):  # an id
            return str(value)
    if not isinstance(value, (str, type(None))):
        raise BadArgument(name, "expected a string.")
    text = storable(value or "")
    allowed = schema.get("enum", ())
    if allowed and text not in allowed and (text or is_required):
        raise BadArgument(name, quote(text), allowed)
    if is_required and not text.strip():
        raise BadArgument("", f"{name} must not be empty")
    return text


def read_number(
    tool: Tool, name: str, schema: dict[str, Any], value: Any, is_required: bool
) -> Any:
    lowest, highest = schema.get("minimum", 0), schema.get("maximum", _MAX_NUMBER)
    if name == "offset":
        highest = LIMITS.page_offset
    if name in tool.bounds:
        bounds = tool.bounds[name]
        if bounds is None:
            return value
        lowest, highest = bounds
    if isinstance(value, str) and not value.strip():
        value = schema.get("default")
    if value is None and not is_required:
        return None
    try:
        number = float(value) if isinstance(value, str) else value
    except ValueError:
        number = None
    is_number = isinstance(number, (int, float)) and not isinstance(number, bool)
    if not is_number or number != number:  # NaN is not equal to itself
        raise BadArgument(name, "expected a number.")
    number = min(max(number, lowest), highest)
    return int(number) if schema["type"] == "integer" else float(number)


def sanitize(value: Any) -> Any:
    """Stored JSON, safe for a model: no hidden instructions, nothing that breaks a parser."""
    if isinstance(value, str):
        return for_model(storable(value))
    if isinstance(value, dict):
        return {sanitize(name): sanitize(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [sanitize(item) for item in value]
    return value


def one_line(value: str, length: int = 200) -> str:
    """Stored text on one line, safe for a model."""
    return truncate(" ".join(sanitize(value[: 4 * length]).split()), length)


def quote(value: str) -> str:
    """An argument as error messages show it: short, on one line, in quotes."""
    return repr(truncate(sanitize(value), 80))
