"""Tools, resources and prompts with the fixed answers that the MCP conformance suite expects.

The server offers no completions, subscriptions, log messages or questions to the client, so there
are no fixtures for them. `conformance-expected.yml` lists the suite's complaints about that, with
reasons.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from typing import Any

from recollect.serve.mcp.context import Answer, Context, ToolError
from recollect.serve.mcp.protocol import (
    INVALID_PARAMS,
    NOT_CACHEABLE,
    Dispatcher,
    Object,
    Request,
    RpcError,
)

# One red pixel, and a sound without samples.
PNG = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5E"
    "rkJggg=="
)
WAV = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA="
IMAGE = {"type": "image", "data": PNG, "mimeType": "image/png"}
STEP_SECONDS = 0.05  # the suite expects progress notifications one by one


def test_simple_text(context: Context, **arguments: Any) -> str:
    return "This is a simple text response for testing."


def test_image_content(context: Context, **arguments: Any) -> Answer:
    return content_answer(IMAGE)


def test_audio_content(context: Context, **arguments: Any) -> Answer:
    return content_answer({"type": "audio", "data": WAV, "mimeType": "audio/wav"})


def test_embedded_resource(context: Context, **arguments: Any) -> Answer:
    text = "This is an embedded resource content."
    return content_answer(embedded_resource("test://embedded-resource", "text/plain", text))


def test_multiple_content_types(context: Context, **arguments: Any) -> Answer:
    data = json.dumps({"test": "data", "value": 123})
    return content_answer(
        text_block("Multiple content types test:"),
        IMAGE,
        embedded_resource("test://mixed-content-resource", "application/json", data),
    )


def test_error_handling(context: Context, **arguments: Any) -> str:
    raise ToolError("This tool intentionally returns an error for testing")


def test_tool_with_progress(context: Context, **arguments: Any) -> str:
    for percent in (0, 50, 100):
        context.progress(percent, 100)
        time.sleep(STEP_SECONDS)
    return "Done."


test_streaming_elicitation = test_tool_with_progress


def test_logging_tool(context: Context, **arguments: Any) -> str:
    return "Nothing was logged to the client."


def json_schema_2020_12_tool(context: Context, **arguments: Any) -> str:
    return "Accepted."


# -- content of every type ---


class ContentBlocks(list[Any]):
    """Content that replaces the text of an answer. Our own tools return text only."""


def content_answer(*blocks: Object) -> Answer:
    return Answer("", ContentBlocks(blocks))


def text_block(text: str) -> Object:
    return {"type": "text", "text": text}


def embedded_resource(uri: str, media_type: str, text: str) -> Object:
    return {"type": "resource", "resource": {"uri": uri, "mimeType": media_type, "text": text}}


def call_tool(dispatcher: Dispatcher, request: Request) -> Object:
    result = dispatcher.call_tool(request)
    if isinstance(result.get("structuredContent"), ContentBlocks):
        result["content"] = list(result.pop("structuredContent"))
    return result


# -- resources ---

RESOURCES: dict[str, dict[str, str]] = {
    "test://static-text": {
        "mimeType": "text/plain",
        "text": "This is the content of the static text resource.",
    },
    "test://static-binary": {"mimeType": "image/png", "blob": PNG},
}
TEMPLATE = {
    "uriTemplate": "test://template/{id}/data",
    "name": "template",
    "mimeType": "application/json",
}


def list_resources(dispatcher: Dispatcher, request: Request) -> Object:
    result = dispatcher.list_resources(request)
    fixtures = [
        {
            "uri": uri,
            "name": uri,
            "description": "For the conformance suite.",
            "mimeType": content["mimeType"],
        }
        for uri, content in RESOURCES.items()
    ]
    return {**result, "resources": [*fixtures, *result["resources"]]}


def list_resource_templates(dispatcher: Dispatcher, request: Request) -> Object:
    result = dispatcher.list_resource_templates(request)
    return {**result, "resourceTemplates": [TEMPLATE, *result["resourceTemplates"]]}


def read_resource(dispatcher: Dispatcher, request: Request) -> Object:
    uri = str(request.params.get("uri"))
    content = RESOURCES.get(uri)
    match = re.fullmatch(r"test://template/(\w+)/data", uri)
    if match is not None:
        data = {"id": match[1], "templateTest": True, "data": f"Data for ID: {match[1]}"}
        content = {"mimeType": "application/json", "text": json.dumps(data)}
    if content is None:
        return dispatcher.read_resource(request)
    return {"contents": [{"uri": uri, **content}], **request.cache_hints(NOT_CACHEABLE)}


# -- prompts ---


class Prompt:
    def __init__(self, name: str, *arguments: str) -> None:
        self.name = name
        self.arguments = arguments

    def describe(self) -> Object:
        arguments = [
            {"name": name, "description": name, "required": True} for name in self.arguments
        ]
        return {
            "name": self.name,
            "description": "For the conformance suite.",
            "arguments": arguments,
        }

    def blocks(self, values: dict[str, str]) -> list[Object]:
        if self.name == "test_simple_prompt":
            return [text_block("This is a simple prompt for testing.")]
        if self.name == "test_prompt_with_arguments":
            text = f"Prompt with arguments: arg1='{values['arg1']}', arg2='{values['arg2']}'"
            return [text_block(text)]
        if self.name == "test_prompt_with_image":
            return [IMAGE, text_block("Please analyze the image above.")]
        text = "Embedded resource content for testing."
        return [
            embedded_resource(values["resourceUri"], "text/plain", text),
            text_block("Please process the embedded resource above."),
        ]


PROMPTS = {
    prompt.name: prompt
    for prompt in (
        Prompt("test_simple_prompt"),
        Prompt("test_prompt_with_arguments", "arg1", "arg2"),
        Prompt("test_prompt_with_embedded_resource", "resourceUri"),
        Prompt("test_prompt_with_image"),
    )
}


def list_prompts(dispatcher: Dispatcher, request: Request) -> Object:
    result = dispatcher.list_prompts(request)
    fixtures = [prompt.describe() for prompt in PROMPTS.values()]
    return {**result, "prompts": [*fixtures, *result["prompts"]]}


def get_prompt(dispatcher: Dispatcher, request: Request) -> Object:
    prompt = PROMPTS.get(str(request.params.get("name")))
    if prompt is None:
        return dispatcher.get_prompt(request)
    values = request.params.get("arguments")
    if not isinstance(values, dict):
        values = {}
    for name in prompt.arguments:
        if not isinstance(values.get(name), str):
            raise RpcError(INVALID_PARAMS, f"Invalid params: the prompt needs '{name}'")
    blocks = prompt.blocks(values)
    return {"messages": [{"role": "user", "content": block} for block in blocks]}


METHODS: dict[str, Callable[[Dispatcher, Request], Object]] = {
    "tools/call": call_tool,
    "resources/list": list_resources,
    "resources/templates/list": list_resource_templates,
    "resources/read": read_resource,
    "prompts/list": list_prompts,
    "prompts/get": get_prompt,
}
"""What replaces the dispatcher's own methods."""
