"""Examples of request and response bodies, made from their schemas."""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]

_MAX_DEPTH = 6
_TEXTS = {
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


def example_of(api: Schema, schema: Schema, name: str = "", depth: int = 0) -> Any:
    """A value that fits a schema. Optional fields that are null by default are left out."""
    schema = _resolve(api, schema)
    if schema.get("examples"):
        return schema["examples"][0]
    for key in ("default", "const", "example"):
        if schema.get(key) not in (None, "", [], {}):
            return schema[key]
    if "enum" in schema:
        return schema["enum"][0]
    if "anyOf" in schema:
        return example_of(api, schema["anyOf"][0], name, depth)
    if "properties" in schema and depth < _MAX_DEPTH:
        return _object(api, schema, depth)
    return _plain(api, schema, name, depth)


def _object(api: Schema, schema: Schema, depth: int) -> dict[str, Any]:
    required = schema.get("required", ())
    value = {}
    for name, field in schema["properties"].items():
        is_optional = name not in required and _is_empty_by_default(field)
        if not is_optional:
            value[name] = example_of(api, field, name, depth + 1)
    return value


def _is_empty_by_default(field: Schema) -> bool:
    return field.get("default") in (None, "", [], {})


def _plain(api: Schema, schema: Schema, name: str, depth: int) -> Any:
    match schema.get("type"):
        case "string":
            if name.endswith("_at"):
                return _TEXTS["timestamp"]
            return _TEXTS.get(name, "text")
        case "integer":
            return schema.get("minimum", 1)
        case "number":
            return 0.5
        case "boolean":
            return True
        case "array":
            if depth >= _MAX_DEPTH:
                return []
            return [example_of(api, schema.get("items", {}), name.removesuffix("s"), depth + 1)]
        case "null":
            return None
        case _:
            return {}


def _resolve(api: Schema, schema: Schema) -> Schema:
    while "$ref" in schema:
        name = str(schema["$ref"]).rsplit("/", 1)[-1]
        schema = api["components"]["schemas"].get(name, {})
    return schema
