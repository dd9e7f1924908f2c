"""GET /docs: every operation of the service on one page, made here. No script, nothing from elsewhere."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from jinja2 import Environment, StrictUndefined
from starlette.responses import HTMLResponse, Response

from recollect.serve.http.access import AccessTo
from recollect.serve.http.assets import url

router = APIRouter()

_PAGE = Environment(
    autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
).from_string("""\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>API · Recollect</title>
<link rel="icon" href="{{ icon }}" type="image/svg+xml"><link rel="stylesheet" href="{{ style }}">
</head>
<body class="docs">
<main>
<h1>{{ title }} {{ version }}: the API</h1>
<p>Every operation below, for programs: <a href="/openapi.json">openapi.json</a>.
Where the server asks for a key, send it as <code>Authorization: Bearer KEY</code> or <code>X-API-Key: KEY</code>.
Every error has the same shape.</p>
{% for tag, operations in groups.items() %}
<h2 id="{{ tag }}">{{ tag }}</h2>
{% for o in operations %}
<details>
<summary><code>{{ o.method }} {{ o.path }}</code> {{ o.description or o.summary }}</summary>
{% if o.parameters %}
<table>
<thead><tr><th scope="col">parameter</th><th scope="col">in</th><th scope="col">what</th></tr></thead>
<tbody>
{% for p in o.parameters %}
<tr><td><code>{{ p.name }}</code></td><td>{{ p.where }}</td><td>{{ p.what }}</td></tr>
{% endfor %}
</tbody>
</table>
{% endif %}
{% for title, lines in o.shapes.items() %}
<h3>{{ title }}</h3>
<pre><code>{{ lines | join("\n") }}</code></pre>
{% endfor %}
</details>
{% endfor %}
{% endfor %}
</main>
</body>
</html>
""")


@router.get("/docs", include_in_schema=False)
def docs(access: AccessTo) -> Response:
    api = access.request.app.openapi()
    return HTMLResponse(
        _PAGE.render(
            title=api["info"]["title"],
            version=api["info"]["version"],
            groups=_groups(api),
            style=url("console.css"),
            icon=url("favicon.svg"),
        )
    )


def _groups(api: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    groups: dict[str, list[dict[str, Any]]] = {}
    for path, methods in api["paths"].items():
        for method, operation in methods.items():
            tag = (operation.get("tags") or ["other"])[0]
            groups.setdefault(str(tag), []).append(_operation(api, method, path, operation))
    return groups


def _operation(
    api: dict[str, Any], method: str, path: str, operation: dict[str, Any]
) -> dict[str, Any]:
    shapes = {}
    if body := operation.get("requestBody"):
        shapes["Body"] = _lines(api, _schema(body))
    for status, response in operation["responses"].items():
        if status != "default" and (lines := _lines(api, _schema(response))):
            shapes[f"Answer {status}"] = lines
    return {
        "method": method.upper(),
        "path": path,
        "summary": operation.get("summary", ""),
        "description": operation.get("description", ""),
        "shapes": shapes,
        "parameters": [_parameter(p) for p in operation.get("parameters", ())],
    }


def _parameter(given: dict[str, Any]) -> dict[str, str]:
    schema = given.get("schema", {})
    facts = [_kind(schema), "required" if given.get("required") else ""]
    if schema.get("default") not in (None, ""):
        facts.append(f"default {schema['default']}")
    told = given.get("description", schema.get("description", ""))
    return {
        "name": given["name"],
        "where": given["in"],
        "what": " · ".join(filter(None, [told, *facts])),
    }


def _schema(holder: dict[str, Any]) -> dict[str, Any]:
    for content in holder.get("content", {}).values():
        schema: dict[str, Any] = content.get("schema", {})
        return schema
    return {}


def _lines(api: dict[str, Any], schema: dict[str, Any]) -> list[str]:
    """The fields of a shape, one a line."""
    if "$ref" in schema:
        schema = api["components"]["schemas"].get(schema["$ref"].rsplit("/", 1)[-1], {})
    required = schema.get("required", ())
    return [
        f"{name}: {_kind(field)}{'' if name in required else ' (optional)'}"
        + (f"  {field['description']}" if field.get("description") else "")
        for name, field in schema.get("properties", {}).items()
    ]


def _kind(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        return str(schema["$ref"]).rsplit("/", 1)[-1]
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(map(_kind, schema["anyOf"])))
    if "enum" in schema:
        return " or ".join(map(str, schema["enum"]))
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    return str(schema.get("type", "anything"))
