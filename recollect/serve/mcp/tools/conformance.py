"""The fixtures of the official conformance suite: tools, resources and prompts with fixed answers.

They go the way of all others through the dispatcher and the transport, which is
what the suite looks at; only kinds of content that no tool of ours answers are
put in here. What the server does not offer (completions, subscriptions, log
messages, questions to the client) has no fixture: the suite's complaints about
it are in `tests/clients/conformance-expected.yml`, each with its reason.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from typing import Any

from recollect.serve.mcp.context import Answer, Context, ToolError
from recollect.serve.mcp.protocol import INVALID_PARAMS, Dispatcher, Request, Result, RpcError

# One red pixel, and no sound at all.
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
WAV = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA="
IMAGE = {"type": "image", "data": PNG, "mimeType": "image/png"}
PAUSE = 0.05  # seconds between two steps: the suite wants to see them come one by one


class Toolset:
    def close(self) -> None:
        pass

    def test_simple_text(self, context: Context, arguments: dict[str, Any]) -> str:
        return "This is a simple text response for testing."

    def test_image_content(self, context: Context, arguments: dict[str, Any]) -> Answer:
        return _blocks(IMAGE)

    def test_audio_content(self, context: Context, arguments: dict[str, Any]) -> Answer:
        return _blocks({"type": "audio", "data": WAV, "mimeType": "audio/wav"})

    def test_embedded_resource(self, context: Context, arguments: dict[str, Any]) -> Answer:
        return _blocks(
            _embedded(
                "test://embedded-resource", "text/plain", "This is an embedded resource content."
            )
        )

    def test_multiple_content_types(self, context: Context, arguments: dict[str, Any]) -> Answer:
        data = json.dumps({"test": "data", "value": 123})
        resource = _embedded("test://mixed-content-resource", "application/json", data)
        return _blocks(_text("Multiple content types test:"), IMAGE, resource)

    def test_error_handling(self, context: Context, arguments: dict[str, Any]) -> str:
        raise ToolError("This tool intentionally returns an error for testing")

    def test_tool_with_progress(self, context: Context, arguments: dict[str, Any]) -> str:
        for done in (0, 50, 100):
            context.progress(done, 100)
            time.sleep(PAUSE)
        return "Done."

    test_streaming_elicitation = test_tool_with_progress

    def test_logging_tool(self, context: Context, arguments: dict[str, Any]) -> str:
        return "Nothing was logged to the client."

    def json_schema_2020_12_tool(self, context: Context, arguments: dict[str, Any]) -> str:
        return "Read."


# -- content of all kinds ----------------------------------------------------


class _Blocks(list[Any]):
    """Content that takes the place of the text."""


def _blocks(*blocks: dict[str, Any]) -> Answer:
    return Answer("", _Blocks(blocks))


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _embedded(uri: str, kind: str, text: str) -> dict[str, Any]:
    return {"type": "resource", "resource": {"uri": uri, "mimeType": kind, "text": text}}


def _call_tool(dispatcher: Dispatcher, request: Request) -> Result:
    result = dispatcher._call_tool(request)
    if isinstance(result.get("structuredContent"), _Blocks):
        result["content"] = list(result.pop("structuredContent"))
    return result


# -- resources ---------------------------------------------------------------


def _list_resources(dispatcher: Dispatcher, request: Request) -> Result:
    result = dispatcher._list_resources(request)
    listed = [
        {
            "uri": uri,
            "name": uri,
            "description": "For the conformance suite.",
            "mimeType": content["mimeType"],
        }
        for uri, content in _RESOURCES.items()
    ]
    return {**result, "resources": [*listed, *result["resources"]]}


def _list_templates(dispatcher: Dispatcher, request: Request) -> Result:
    result = dispatcher._list_templates(request)
    template = {
        "uriTemplate": "test://template/{id}/data",
        "name": "template",
        "mimeType": "application/json",
    }
    return {**result, "resourceTemplates": [template, *result["resourceTemplates"]]}


def _read_resource(dispatcher: Dispatcher, request: Request) -> Result:
    uri = request.params.get("uri")
    content = _RESOURCES.get(uri) if isinstance(uri, str) else None
    if found := re.fullmatch(r"test://template/(\w+)/data", str(uri)):
        data = {"id": found[1], "templateTest": True, "data": f"Data for ID: {found[1]}"}
        content = {"mimeType": "application/json", "text": json.dumps(data)}
    if content is None:
        return dispatcher._read_resource(request)
    return {"contents": [{"uri": uri, **content}], **_kept(request)}


def _kept(request: Request) -> Result:
    return {"ttlMs": 0, "cacheScope": "private"} if request.stateless else {}


_RESOURCES: dict[str, dict[str, str]] = {
    "test://static-text": {
        "mimeType": "text/plain",
        "text": "This is the content of the static text resource.",
    },
    "test://static-binary": {"mimeType": "image/png", "blob": PNG},
}


# -- prompts -----------------------------------------------------------------


def _list_prompts(dispatcher: Dispatcher, request: Request) -> Result:
    result = dispatcher._list_prompts(request)
    listed = [
        {
            "name": name,
            "description": "For the conformance suite.",
            "arguments": [
                {"name": argument, "description": argument, "required": True}
                for argument in arguments
            ],
        }
        for name, (arguments, _) in _PROMPTS.items()
    ]
    return {**result, "prompts": [*listed, *result["prompts"]]}


def _get_prompt(dispatcher: Dispatcher, request: Request) -> Result:
    name = request.params.get("name")
    if not isinstance(name, str) or name not in _PROMPTS:
        return dispatcher._get_prompt(request)
    needed, blocks = _PROMPTS[name]
    given = request.params.get("arguments")
    given = given if isinstance(given, dict) else {}
    if missing := [argument for argument in needed if not isinstance(given.get(argument), str)]:
        raise RpcError(INVALID_PARAMS, f"Invalid params: the prompt needs '{missing[0]}'")
    return {"messages": [{"role": "user", "content": block} for block in blocks(given)]}


_PROMPTS: dict[str, tuple[tuple[str, ...], Callable[[dict[str, str]], list[dict[str, Any]]]]] = {
    "test_simple_prompt": ((), lambda given: [_text("This is a simple prompt for testing.")]),
    "test_prompt_with_arguments": (
        ("arg1", "arg2"),
        lambda given: [
            _text(f"Prompt with arguments: arg1='{given['arg1']}', arg2='{given['arg2']}'")
        ],
    ),
    "test_prompt_with_embedded_resource": (
        ("resourceUri",),
        lambda given: [
            _embedded(given["resourceUri"], "text/plain", "Embedded resource content for testing."),
            _text("Please process the embedded resource above."),
        ],
    ),
    "test_prompt_with_image": ((), lambda given: [IMAGE, _text("Please analyze the image above.")]),
}


HANDLERS: dict[str, Callable[[Dispatcher, Request], Result]] = {
    "tools/call": _call_tool,
    "resources/list": _list_resources,
    "resources/templates/list": _list_templates,
    "resources/read": _read_resource,
    "prompts/list": _list_prompts,
    "prompts/get": _get_prompt,
}
"""What the dispatcher takes in place of its own, in the profile `conformance`."""
