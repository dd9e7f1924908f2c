"""`GET /docs`: the API reference with examples, from which requests can be sent.

One page with a small script of our own. Nothing is loaded from elsewhere.
"""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import Environment, StrictUndefined, Template
from markupsafe import Markup, escape
from starlette.responses import HTMLResponse, Response

from recollect.serve.http.access import AccessTo
from recollect.serve.http.assets import url
from recollect.serve.http.checks.route_policy import ANY_SCOPE
from recollect.serve.http.routes import Routes
from recollect.serve.rest.examples import example_of

routes = Routes()

Schema = dict[str, Any]

_TAG_TITLES = {
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


def _markup(text: str) -> Markup:
    """Escaped text with `<code>` for parts in backticks, as in Markdown."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))  # noqa: S704


_ENVIRONMENT = Environment(
    autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
)
_ENVIRONMENT.filters["markup"] = _markup
_PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>API reference · Recollect</title>
<link rel="icon" href="{{ icon }}" type="image/svg+xml"><link rel="stylesheet" href="{{ style }}">
</head>
<body class="docs">
<main>
<h1>{{ title }} {{ version }} API reference</h1>
<p>The machine-readable description is <a href="/openapi.json">openapi.json</a>.</p>
<h2 id="authentication">Authentication</h2>
<p>If the server requires an API key, send it as <code>Authorization: Bearer KEY</code> or
<code>X-API-Key: KEY</code>. All requests act on the library of the key's user.</p>
<p><label>Key for the requests that you send from this page:
<input id="api-key" type="password" autocomplete="off"></label> It is not stored. Without one, they
are sent as the person who is signed in. They change your library like any other request.</p>
<h2 id="errors">Errors</h2>
<p>All routes return errors with the same body. <code>error.code</code> is stable and meant for
programs, <code>detail</code> is meant for people.</p>
<pre><code>{{ error | join("\n") }}</code></pre>
{% for group in groups %}
<h2 id="{{ group.tag }}">{{ group.title }}</h2>
{% for operation in group.operations %}
<details>
<summary><code>{{ operation.method }} {{ operation.path }}</code> {{ operation.summary }}</summary>
{% for paragraph in operation.paragraphs %}
<p>{{ paragraph | markup }}</p>
{% endfor %}
{% if operation.parameters %}
<table>
<thead><tr><th scope="col">Parameter</th><th scope="col">In</th>\
<th scope="col">Description</th></tr></thead>
<tbody>
{% for parameter in operation.parameters %}
<tr><td><code>{{ parameter.name }}</code></td><td>{{ parameter.place }}</td>\
<td>{{ parameter.description | markup }}</td></tr>
{% endfor %}
</tbody>
</table>
{% endif %}
{% for section in operation.sections %}
<h3>{{ section.title }}</h3>
<pre><code>{{ section.lines | join("\n") }}</code></pre>
{% endfor %}
<h3>Example</h3>
<pre><code>{{ operation.curl }}</code></pre>
{% if operation.response %}
<pre><code>{{ operation.response }}</code></pre>
{% endif %}
{% if operation.can_try %}
<form class="try" data-method="{{ operation.method }}" data-path="{{ operation.path }}">
<h3>Try it</h3>
{% for parameter in operation.parameters %}
<label>{{ parameter.name }} <input name="{{ parameter.name }}" data-place="{{ parameter.place }}"\
{% if parameter.is_list %} data-list="yes"{% endif %}\
{% if parameter.is_required %} required{% endif %}></label>
{% endfor %}
{% if operation.body is not none %}
<label>Body <textarea rows="8" spellcheck="false">{{ operation.body }}</textarea></label>
{% endif %}
<button>Send</button>
<pre><output></output></pre>
</form>
{% endif %}
</details>
{% endfor %}
{% endfor %}
</main>
<script type="module" src="{{ script }}"></script>
</body>
</html>
"""


@routes.add("GET /docs", ANY_SCOPE)
def docs(access: AccessTo) -> Response:
    api = access.request.app.openapi()
    page = _template().render(
        title=api["info"]["title"],
        version=api["info"]["version"],
        error=_field_lines(api, api["components"]["schemas"]["Error"]),
        groups=_groups(api),
        style=url("console.css"),
        script=url("docs.js"),
        icon=url("favicon.svg"),
    )
    return HTMLResponse(page)


@cache
def _template() -> Template:
    return _ENVIRONMENT.from_string(_PAGE)


def _groups(api: Schema) -> list[dict[str, Any]]:
    operations: dict[str, list[dict[str, Any]]] = {}
    for path, methods in api["paths"].items():
        for method, operation in methods.items():
            tag = str(operation["tags"][0])
            operations.setdefault(tag, []).append(_operation(api, method, path, operation))
    return [
        {"tag": tag, "title": _TAG_TITLES.get(tag, tag), "operations": group}
        for tag, group in operations.items()
    ]


def _operation(api: Schema, method: str, path: str, operation: Schema) -> dict[str, Any]:
    return {
        "method": method.upper(),
        "path": path,
        "summary": operation.get("summary", ""),
        "paragraphs": operation.get("description", "").split("\n\n"),
        "parameters": [_parameter(parameter) for parameter in operation.get("parameters", ())],
        "sections": _sections(api, operation),
        "response": _example_response(api, operation),
        "can_try": _can_try(operation),
        **_example_request(api, method, path, operation),
    }


def _can_try(operation: Schema) -> bool:
    """Whether the page can send the request, and show the response: not uploads and streams."""
    content = operation.get("requestBody", {}).get("content", {"application/json": {}})
    streams = operation["responses"].get("200", {}).get("content", {})
    return "application/json" in content and list(streams) != ["text/event-stream"]


def _example_request(api: Schema, method: str, path: str, operation: Schema) -> dict[str, Any]:
    """A command that sends the request, and its body."""
    words = ["curl"]
    if method != "get":
        words += ["-X", method.upper()]
    words.append(f"'http://127.0.0.1:8765{_example_address(api, path, operation)}'")
    body = None
    content = operation.get("requestBody", {}).get("content", {})
    if "application/json" in content:
        value = example_of(api, content["application/json"].get("schema", {}))
        body = json.dumps(value, indent=2, ensure_ascii=False)
        words += ["-H", "'Content-Type: application/json'", "-d", f"'{json.dumps(value)}'"]
    elif content:
        words += ["--data-binary", "@FILE"]
    return {"curl": " ".join(words), "body": body}


def _example_address(api: Schema, path: str, operation: Schema) -> str:
    query = {}
    for parameter in operation.get("parameters", ()):
        value = example_of(api, parameter.get("schema", {}), parameter["name"])
        if isinstance(value, list):
            value = value[0]
        if parameter["in"] == "path":
            path = path.replace(f"{{{parameter['name']}}}", quote(str(value), safe=""))
        elif parameter.get("required"):
            query[parameter["name"]] = value
    if query:
        path += f"?{urlencode(query)}"
    return path


def _example_response(api: Schema, operation: Schema) -> str:
    for status in ("200", "201", "202"):
        schema = _content_schema(operation["responses"].get(status, {}))
        if schema:
            return json.dumps(example_of(api, schema), indent=2, ensure_ascii=False)
    return ""


def _sections(api: Schema, operation: Schema) -> list[dict[str, Any]]:
    """The fields of the request body and of the responses. Equal responses share a section."""
    sections = []
    if "requestBody" in operation:
        lines = _field_lines(api, _content_schema(operation["requestBody"]))
        sections.append({"title": "Request body", "lines": lines})
    statuses: dict[tuple[str, ...], list[str]] = {}
    for status, response in operation["responses"].items():
        response_lines = tuple(_field_lines(api, _content_schema(response)))
        if status != "default" and response_lines:
            statuses.setdefault(response_lines, []).append(status)
    for response_lines, names in statuses.items():
        sections.append({"title": f"Response {' or '.join(names)}", "lines": list(response_lines)})
    return sections


def _resolve_type(schema: Schema) -> str:
    for choice in schema.get("anyOf", [schema]):
        return str(choice.get("type", ""))
    return ""


def _parameter(parameter: Schema) -> dict[str, Any]:
    schema = parameter.get("schema", {})
    facts = [parameter.get("description", schema.get("description", "")), _type(schema)]
    if parameter.get("required"):
        facts.append("required")
    if schema.get("default") not in (None, "", []):
        facts.append(f"default {schema['default']}")
    return {
        "name": parameter["name"],
        "place": parameter["in"],
        "is_list": _resolve_type(schema) == "array",
        "is_required": bool(parameter.get("required")),
        "description": " · ".join(fact for fact in facts if fact),
    }


def _content_schema(holder: Schema) -> Schema:
    """The schema of a request body or response. Other media types have the same fields."""
    for content in holder.get("content", {}).values():
        schema: Schema = content.get("schema", {})
        return schema
    return {}


def _field_lines(api: Schema, schema: Schema, outer: tuple[str, ...] = ()) -> list[str]:
    """The fields of a schema, one per line, with those of nested schemas indented below."""
    if "$ref" in schema:
        name = _reference(schema)
        if name in outer:
            return []
        outer = (*outer, name)
        schema = api["components"]["schemas"].get(name, {})
    required = schema.get("required", ())
    lines = []
    for name, field in schema.get("properties", {}).items():
        line = f"{name}: {_type(field)}"
        if name not in required:
            line += " (optional)"
        if field.get("description"):
            line += f"  {field['description']}"
        lines.append(line)
        nested = _field_lines(api, _nested_schema(field), outer)
        lines.extend(f"  {nested_line}" for nested_line in nested)
    return lines


def _nested_schema(field: Schema) -> Schema:
    """The object that a field or the items of a list consist of."""
    for choice in field.get("anyOf", [field]):
        if choice.get("type") == "array":
            choice = choice.get("items", {})
        if "$ref" in choice or "properties" in choice:
            nested: Schema = choice
            return nested
    return {}


def _type(schema: Schema) -> str:
    if "$ref" in schema:
        return _reference(schema)
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(map(_type, schema["anyOf"])))
    if "enum" in schema:
        return " or ".join(map(str, schema["enum"]))
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    types = schema.get("type", "any")
    if isinstance(types, list):
        return " or ".join(types)
    return str(types)


def _reference(schema: Schema) -> str:
    return str(schema["$ref"]).rsplit("/", 1)[-1]
