"""A fake model API on loopback that makes an agent call the tools of a script.

It speaks enough of Anthropic's Messages API, OpenAI's Responses API and Google's Gemini API for
real agents to run end to end. It answers each request with a call of the next tool in the script,
if the agent offers that tool, and ends the conversation after the last one. It records all
requests, tools and results.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import urlsplit

Json = dict[str, Any]
FINAL_ANSWER = "I am done."


class Call(NamedTuple):
    tool: str
    """The full name, or the part after the last `__` of a prefix that the agent adds."""
    arguments: Json | Callable[[list[str]], Json]
    """The arguments, or a function that derives them from the results so far."""


class OfferedTool(NamedTuple):
    name: str
    namespace: str | None
    description: str
    schema: Json


class Model:
    """A running fake model.

    `tools` are the tools of the request that offered most, and `results` the answers of the tools
    that were called. With `quotes_result`, the final answer contains the last result.

    An agent can start subagents with the tool `subagent_tool`. Requests that do not offer that tool
    come from subagents, which follow `subagent_script`.
    """

    def __init__(
        self,
        script: list[Call],
        subagent_script: list[Call] | None = None,
        subagent_tool: str = "",
        *,
        quotes_result: bool = False,
    ) -> None:
        self.script = script
        self.subagent_script = subagent_script or []
        self.subagent_tool = subagent_tool
        self.quotes_result = quotes_result
        self.bodies: list[str] = []
        self.subagents: list[tuple[list[OfferedTool], list[str]]] = []
        self.tools: list[OfferedTool] = []
        self.results: list[str] = []
        self.problems: list[str] = []
        self.requests = 0
        self._server = _Server(self)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Model:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def next_call(
        self, tools: list[OfferedTool], results: list[str]
    ) -> tuple[OfferedTool, Json] | None:
        """The next call of the script, if the agent offers its tool."""
        self.requests += 1
        if self._is_subagent(tools):
            script = self.subagent_script
            self.subagents.append((tools, results))
        else:
            script = self.script
            if len(tools) > len(self.tools):
                self.tools = tools
            if len(results) > len(self.results):
                self.results = results
        if not tools or len(results) >= len(script):
            return None
        call = script[len(results)]
        for tool in tools:
            if tool.name == call.tool or tool.name.endswith(f"__{call.tool}"):
                return tool, _arguments(call, results)
        self.problems.append(f"the agent does not offer {call.tool}")
        return None

    def final_answer(self, results: list[str]) -> str:
        if self.quotes_result and results:
            return f"{FINAL_ANSWER} {results[-1]}"
        return FINAL_ANSWER

    def _is_subagent(self, tools: list[OfferedTool]) -> bool:
        if not self.subagent_script or not tools:
            return False
        return all(tool.name != self.subagent_tool for tool in tools)


def _arguments(call: Call, results: list[str]) -> Json:
    if callable(call.arguments):
        return call.arguments(results)
    return call.arguments


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, model: Model) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.model = model


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        path = urlsplit(self.path).path
        if path.endswith("/count_tokens"):
            self._json({"input_tokens": 1})
            return
        is_stream = path.endswith(":streamGenerateContent")
        if path.endswith("/messages"):
            answer = _anthropic
        elif path.endswith("/responses"):
            answer = _openai
        elif is_stream or path.endswith(":generateContent"):
            answer = _gemini
        else:
            self._json({})
            return
        try:
            request = json.loads(body)
            self.server.model.bodies.append(body.decode())
            events = answer(self.server.model, request)
        except Exception as error:  # reported by the test; the agent only sees a status
            self.server.model.problems.append(f"{path}: {error!r}")
            self.send_error(500)
            return
        if is_stream or request.get("stream"):
            self._send("text/event-stream", b"".join(map(_event, events)))
        else:
            self._json(_join(events))

    def do_GET(self) -> None:
        self._json({"object": "list", "data": [], "models": []})

    def do_HEAD(self) -> None:
        self._json({})

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def _json(self, answer: Json) -> None:
        self._send("application/json", json.dumps(answer).encode())

    def _send(self, kind: str, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def _event(event: Json) -> bytes:
    data = f"data: {json.dumps(event)}\n\n"
    if "type" in event:
        data = f"event: {event['type']}\n{data}"
    return data.encode()


def _join(events: list[Json]) -> Json:
    """The same answer without streaming."""
    last = events[-1]
    if "candidates" in last:
        return last
    if "response" in last:
        answer: Json = last["response"]
        return answer
    message: Json = events[0]["message"]
    blocks = []
    for event in events:
        if event["type"] == "content_block_start":
            blocks.append(dict(event["content_block"]))
        elif event["type"] == "content_block_delta" and "text" in event["delta"]:
            blocks[-1]["text"] += event["delta"]["text"]
        elif event["type"] == "content_block_delta":
            blocks[-1]["input"] = json.loads(event["delta"]["partial_json"])
    return {**message, "content": blocks, "stop_reason": "end_turn"}


# -- Anthropic ----------------------------------------------------------------


def _anthropic(model: Model, request: Json) -> list[Json]:
    tools = [
        OfferedTool(tool["name"], None, tool.get("description", ""), tool.get("input_schema", {}))
        for tool in request.get("tools") or ()
        if "name" in tool
    ]
    results = []
    for message in request.get("messages") or ():
        if isinstance(message.get("content"), list):
            blocks = [b for b in message["content"] if b.get("type") == "tool_result"]
            results += [_text(block.get("content")) for block in blocks]
    call = model.next_call(tools, results)
    message = {
        "id": f"msg_{model.requests}",
        "type": "message",
        "role": "assistant",
        "model": request.get("model", ""),
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }
    block: Json = {"type": "text", "text": ""}
    delta: Json = {"type": "text_delta", "text": model.final_answer(results)}
    reason = "end_turn"
    if call is not None:
        tool, arguments = call
        block = {
            "type": "tool_use",
            "id": f"toolu_{model.requests}",
            "name": tool.name,
            "input": {},
        }
        delta = {"type": "input_json_delta", "partial_json": json.dumps(arguments)}
        reason = "tool_use"
    return [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": reason, "stop_sequence": None},
            "usage": {"output_tokens": 1},
        },
        {"type": "message_stop"},
    ]


# -- OpenAI -------------------------------------------------------------------


def _openai(model: Model, request: Json) -> list[Json]:
    tools = list(_openai_tools(request.get("tools") or (), None))
    items = request.get("input")
    if not isinstance(items, list):
        items = []
    results = [
        _text(item.get("output"))
        for item in items
        if item.get("type") in ("function_call_output", "custom_tool_call_output")
    ]
    call = model.next_call(tools, results)
    item: Json = {
        "type": "message",
        "id": f"item_{model.requests}",
        "role": "assistant",
        "status": "completed",
        "content": [
            {"type": "output_text", "text": model.final_answer(results), "annotations": []}
        ],
    }
    if call is not None:
        tool, arguments = call
        item = {
            "type": "function_call",
            "id": f"item_{model.requests}",
            "call_id": f"call_{model.requests}",
            "status": "completed",
            "name": tool.name,
            "arguments": json.dumps(arguments),
        }
        if tool.namespace is not None:
            item["namespace"] = tool.namespace
    answer: Json = {
        "id": f"resp_{model.requests}",
        "object": "response",
        "created_at": 0,
        "status": "completed",
        "model": request.get("model", ""),
        "output": [item],
        "usage": {
            "input_tokens": 1,
            "input_tokens_details": None,
            "output_tokens": 1,
            "output_tokens_details": None,
            "total_tokens": 2,
        },
    }
    start = {**answer, "status": "in_progress", "output": []}
    return [
        {"type": "response.created", "response": start},
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": answer},
    ]


def _openai_tools(tools: Any, namespace: str | None) -> Iterator[OfferedTool]:
    for tool in tools:
        if tool.get("type") == "namespace":
            yield from _openai_tools(tool.get("tools") or (), tool["name"])
        elif "name" in tool:
            yield OfferedTool(
                tool["name"], namespace, tool.get("description", ""), tool.get("parameters") or {}
            )


# -- Google -------------------------------------------------------------------


def _gemini(model: Model, request: Json) -> list[Json]:
    tools = [
        OfferedTool(
            declaration["name"],
            None,
            declaration.get("description", ""),
            declaration.get("parametersJsonSchema") or declaration.get("parameters") or {},
        )
        for tool in request.get("tools") or ()
        for declaration in tool.get("functionDeclarations") or ()
    ]
    results = [
        "\n".join(str(value) for value in part["functionResponse"]["response"].values())
        for content in request.get("contents") or ()
        for part in content.get("parts") or ()
        if "functionResponse" in part
    ]
    call = model.next_call(tools, results)
    part: Json = {"text": model.final_answer(results)}
    if call is not None:
        tool, arguments = call
        part = {"functionCall": {"name": tool.name, "args": arguments}}
    candidate = {"index": 0, "content": {"role": "model", "parts": [part]}, "finishReason": "STOP"}
    usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
    return [{"candidates": [candidate], "usageMetadata": usage}]


def _text(content: Any) -> str:
    """The text of a result: a string, or a list of blocks."""
    if isinstance(content, str):
        return content
    blocks = [block for block in content or () if isinstance(block, dict)]
    return "\n".join(str(block.get("text", "")) for block in blocks)
