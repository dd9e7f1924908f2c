"""A stand-in for a model's API on loopback: it makes an agent call the tools that it is told to, and remembers all.

It speaks enough of Anthropic's messages and OpenAI's responses for real agents to run end to end. It is no model: of
each request it looks at the tools that are offered and at the results that came back, asks for the next tool of its
script, and ends when there is none left.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import urlsplit

Json = dict[str, Any]
DONE = "I am done."


class Call(NamedTuple):
    tool: str
    """The end of its name: agents put the server's before it."""
    arguments: Json


class Offered(NamedTuple):
    name: str
    namespace: str | None
    description: str
    schema: Json


class Model:
    """A running stand-in. `offered` are the tools of the largest request, `results` what the called ones answered,
    `asked` the requests. Whoever offers `helped_by` is the agent; others are its helpers, who follow `helping`."""

    def __init__(
        self, script: list[Call], helping: list[Call] | None = None, helped_by: str = ""
    ) -> None:
        self.script = script
        self.helping = helping or []
        self.helped_by = helped_by
        self.asked: list[str] = []
        self.helpers: list[tuple[list[Offered], list[str]]] = []
        self.offered: list[Offered] = []
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

    def next(self, offered: list[Offered], results: list[str]) -> tuple[Offered, Json] | None:
        """The call that is due, if the agent offers its tool."""
        self.requests += 1
        script = self.script
        if self.helping and offered and not any(tool.name == self.helped_by for tool in offered):
            script = self.helping
            self.helpers.append((offered, results))
        elif len(offered) > len(self.offered):
            self.offered = offered
        if script is self.script and len(results) > len(self.results):
            self.results = results
        if not offered or len(results) >= len(script):
            return None
        wanted = script[len(results)]
        for tool in offered:
            if tool.name == wanted.tool or tool.name.endswith(f"__{wanted.tool}"):
                return tool, wanted.arguments
        self.problems.append(f"the agent does not offer {wanted.tool}")
        return None


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
        speaks = (
            _anthropic
            if path.endswith("/messages")
            else _openai
            if path.endswith("/responses")
            else None
        )
        try:
            if speaks is None:
                self._json({"input_tokens": 1} if path.endswith("/count_tokens") else {})
                return
            asked = json.loads(body)
            self.server.model.asked.append(body.decode())
            events = speaks(self.server.model, asked)
        except Exception as error:  # the test says what happened; the agent only sees that it did
            self.server.model.problems.append(f"{path}: {error!r}")
            self.send_error(500)
            return
        if asked.get("stream"):
            self._send("text/event-stream", b"".join(map(_event, events)))
        else:
            self._json(_whole(events))

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
    return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()


def _whole(events: list[Json]) -> Json:
    """The same answer for whoever does not want it piece by piece."""
    last = events[-1]
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


# -- Anthropic ---------------------------------------------------------------


def _anthropic(model: Model, asked: Json) -> list[Json]:
    offered = [
        Offered(tool["name"], None, tool.get("description", ""), tool.get("input_schema", {}))
        for tool in asked.get("tools") or ()
        if "name" in tool
    ]
    results = [
        _flat(block.get("content"))
        for message in asked.get("messages") or ()
        if isinstance(message.get("content"), list)
        for block in message["content"]
        if block.get("type") == "tool_result"
    ]
    due = model.next(offered, results)
    message = {
        "id": f"msg_{model.requests}",
        "type": "message",
        "role": "assistant",
        "model": asked.get("model", ""),
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }
    block: Json = {"type": "text", "text": ""}
    delta: Json = {"type": "text_delta", "text": DONE}
    if due is not None:
        block = {
            "type": "tool_use",
            "id": f"toolu_{model.requests}",
            "name": due[0].name,
            "input": {},
        }
        delta = {"type": "input_json_delta", "partial_json": json.dumps(due[1])}
    reason = "end_turn" if due is None else "tool_use"
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


# -- OpenAI ------------------------------------------------------------------


def _openai(model: Model, asked: Json) -> list[Json]:
    offered = list(_openai_tools(asked.get("tools") or (), None))
    asked_for = asked.get("input")
    results = [
        _flat(item.get("output"))
        for item in (asked_for if isinstance(asked_for, list) else ())
        if item.get("type") in ("function_call_output", "custom_tool_call_output")
    ]
    due = model.next(offered, results)
    item: Json = {
        "type": "message",
        "id": f"item_{model.requests}",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": DONE, "annotations": []}],
    }
    if due is not None:
        tool, arguments = due
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
        "model": asked.get("model", ""),
        "output": [item],
        "usage": {
            "input_tokens": 1,
            "input_tokens_details": None,
            "output_tokens": 1,
            "output_tokens_details": None,
            "total_tokens": 2,
        },
    }
    started = {**answer, "status": "in_progress", "output": []}
    return [
        {"type": "response.created", "response": started},
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": answer},
    ]


def _openai_tools(tools: Any, namespace: str | None) -> Iterator[Offered]:
    for tool in tools:
        if tool.get("type") == "namespace":
            yield from _openai_tools(tool.get("tools") or (), tool["name"])
        elif "name" in tool:
            yield Offered(
                tool["name"], namespace, tool.get("description", ""), tool.get("parameters") or {}
            )


def _flat(content: Any) -> str:
    """The text of a result, which is a text or blocks of it."""
    if isinstance(content, str):
        return content
    return "\n".join(
        str(block.get("text", "")) for block in content or () if isinstance(block, dict)
    )
