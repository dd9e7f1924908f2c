"""`GET /docs`: the API reference with examples, from which requests can be sent.

It is made from the OpenAPI description. Nothing is loaded from elsewhere.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, urlencode

from markupsafe import Markup, escape
from starlette.responses import Response

from recollect.serve.console.templating import fragment
from recollect.serve.http.access import AccessTo
from recollect.serve.http.routes import ANY_SCOPE, Routes

routes = Routes()

Schema = dict[str, Any]

_TITLES = {
    "health": "Monitoring",
    "keys": "API keys",
    "sessions": "Console sessions",
    "conversations": "Conversations",
    "bus": "Threads (bus)",
    "search": "Search",
    "changes": "Changes and undo",
    "knowledge": "Knowledge: conversations, notes, media, characters and prompts",
    "imports": "Imports",
    "events": "Events",
    "chat": "Chat",
    "openai": "OpenAI-compatible proxy",
}
_MAX_DEPTH = 6
_EXAMPLE_TEXTS = {
    "id": "3f2a9c41-7d5e-4b8a-9c3d-1e2f3a4b5c6d",
    "conversation_id": "3f2a9c41-7d5e-4b8a-9c3d-1e2f3a4b5c6d",
    "message_id": "7b1c2d3e-5f60-4a7b-8c9d-0e1f2a3b4c5d",
    "session_id": "session-1",
    "thread_id": "deploys",
    "topic": "deploys",
    "title": "Trip to Lisbon",
    "name": "Trip to Lisbon",
    "namespace": "default",
    "project": "default",
    "role": "user",
    "author": "ann",
    "content": "Which tram goes to the castle?",
    "message": "Which tram goes to the castle?",
    "answer": "Number 28.",
    "q": "tram to the castle",
    "query": "tram",
    "snippet": "Which tram goes to the castle?",
    "timestamp": "2026-01-31T12:00:00+00:00",
    "source": "chatgpt",
    "kind": "conversation",
    "model": "my-model",
}
"""What fields with these names contain."""


@routes.add("GET /docs", ANY_SCOPE)
def docs(access: AccessTo) -> Response:
    api = access.request.app.openapi()
    groups: dict[str, list[dict[str, Any]]] = {}
    for path, methods in api["paths"].items():
        for method, operation in methods.items():
            groups.setdefault(operation["tags"][0], []).append(
                describe_operation(api, method, path, operation)
            )
    return fragment(
        "docs.html",
        api=api["info"],
        error=field_lines(api, api["components"]["schemas"]["Error"]),
        groups=[(tag, _TITLES.get(tag, tag.capitalize()), group) for tag, group in groups.items()],
        code_spans=code_spans,
    )


def code_spans(text: str) -> Markup:
    """Escaped text with `<code>` for parts in backticks, as in Markdown."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))  # noqa: S704


def describe_operation(api: Schema, method: str, path: str, operation: Schema) -> dict[str, Any]:
    """An operation for the page: what it takes and returns, and a command that sends it."""
    content = operation.get("requestBody", {}).get("content", {})
    responses = operation["responses"]
    address = path
    query = {}
    for parameter in operation.get("parameters", ()):
        value = example_of(api, parameter.get("schema", {}), parameter["name"])
        if parameter["in"] == "path":
            address = address.replace(f"{{{parameter['name']}}}", quote(str(value), safe=""))
        elif parameter.get("required"):
            query[parameter["name"]] = value
    if query:
        address += f"?{urlencode(query, doseq=True)}"
    words = ["curl"] if method == "get" else ["curl", "-X", method.upper()]
    words.append(f"'http://127.0.0.1:8765{address}'")
    body = None
    if "application/json" in content:
        value = example_of(api, content["application/json"].get("schema", {}))
        body = json.dumps(value, indent=2, ensure_ascii=False)
        words += ["-H", "'Content-Type: application/json'", "-d", f"'{json.dumps(value)}'"]
    elif content:
        words += ["--data-binary", "@FILE"]
    schemas = [content_schema(responses.get(status, {})) for status in ("200", "201", "202")]
    example = next((example_of(api, schema) for schema in schemas if schema), None)
    # The page cannot send files, or show a stream.
    can_try = not content or "application/json" in content
    can_try = can_try and list(responses.get("200", {}).get("content", {})) != ["text/event-stream"]
    return {
        "method": method.upper(),
        "path": path,
        "summary": operation.get("summary", ""),
        "paragraphs": operation.get("description", "").split("\n\n"),
        "parameters": [describe_parameter(each) for each in operation.get("parameters", ())],
        "sections": list(sections(api, operation)),
        "response": example and json.dumps(example, indent=2, ensure_ascii=False),
        "can_try": can_try,
        "curl": " ".join(words),
        "body": body,
    }


def sections(api: Schema, operation: Schema) -> Iterator[tuple[str, list[str]]]:
    """The fields of the request body and of the responses. Equal responses share a section."""
    if "requestBody" in operation:
        yield "Request body", field_lines(api, content_schema(operation["requestBody"]))
    statuses: dict[tuple[str, ...], list[str]] = {}
    for status, response in operation["responses"].items():
        lines = tuple(field_lines(api, content_schema(response)))
        if status != "default" and lines:
            statuses.setdefault(lines, []).append(status)
    for lines, names in statuses.items():
        yield f"Response {' or '.join(names)}", list(lines)


def describe_parameter(parameter: Schema) -> dict[str, Any]:
    schema = parameter.get("schema", {})
    facts = [parameter.get("description", schema.get("description", "")), type_name(schema)]
    if parameter.get("required"):
        facts.append("required")
    if schema.get("default") not in (None, "", []):
        facts.append(f"default {schema['default']}")
    return {
        "name": parameter["name"],
        "place": parameter["in"],
        "is_list": schema.get("anyOf", [schema])[0].get("type") == "array",
        "is_required": bool(parameter.get("required")),
        "description": " · ".join(fact for fact in facts if fact),
    }


def content_schema(holder: Schema) -> Schema:
    """The schema of a request body or response. Other media types have the same fields."""
    contents = list(holder.get("content", {}).values())
    return contents[0].get("schema", {}) if contents else {}


def field_lines(api: Schema, schema: Schema, outer: tuple[str, ...] = ()) -> list[str]:
    """The fields of a schema, one per line, with those of nested schemas indented below."""
    if "$ref" in schema:
        name = type_name(schema)
        if name in outer:
            return []
        outer = (*outer, name)
        schema = resolve(api, schema)
    lines = []
    for name, field in schema.get("properties", {}).items():
        line = f"{name}: {type_name(field)}"
        if name not in schema.get("required", ()):
            line += " (optional)"
        if field.get("description"):
            line += f"  {field['description']}"
        lines.append(line)
        for choice in field.get("anyOf", [field]):
            nested = choice.get("items", {}) if choice.get("type") == "array" else choice
            if "$ref" in nested or "properties" in nested:
                lines += [f"  {line}" for line in field_lines(api, nested, outer)]
                break
    return lines


def type_name(schema: Schema) -> str:
    if "$ref" in schema:
        return str(schema["$ref"]).rsplit("/", 1)[-1]
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(map(type_name, schema["anyOf"])))
    if "enum" in schema:
        return " or ".join(map(str, schema["enum"]))
    if schema.get("type") == "array":
        return f"list of {type_name(schema.get('items', {}))}"
    types = schema.get("type", "any")
    return " or ".join(types) if isinstance(types, list) else str(types)


def resolve(api: Schema, schema: Schema) -> Schema:
    while "$ref" in schema:
        schema = api["components"]["schemas"].get(type_name(schema), {})
    return schema


def example_of(api: Schema, schema: Schema, name: str = "", depth: int = 0) -> Any:
    """A value that fits a schema. Optional fields that are null by default are left out."""
    schema = resolve(api, schema)
    for key in ("examples", "default", "const", "example", "enum"):
        if schema.get(key) not in (None, "", [], {}):
            return schema[key][0] if key in ("examples", "enum") else schema[key]
    if "anyOf" in schema:
        return example_of(api, schema["anyOf"][0], name, depth)
    if "properties" in schema and depth < _MAX_DEPTH:
        return {
            name: example_of(api, field, name, depth + 1)
            for name, field in schema["properties"].items()
            if name in schema.get("required", ()) or field.get("default") not in (None, "", [], {})
        }
    if schema.get("type") == "array":
        items = schema.get("items", {})
        return [example_of(api, items, name.removesuffix("s"), depth + 1)] * (depth < _MAX_DEPTH)
    if schema.get("type") == "string":
        return _EXAMPLE_TEXTS.get("timestamp" if name.endswith("_at") else name, "text")
    plain = {"integer": schema.get("minimum", 1), "number": 0.5, "boolean": True, "null": None}
    return plain.get(schema.get("type", ""), {})
