"""MCP clients over real sockets, with full control of every message."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import httpx
from people import World

from recollect.serve.mcp.context import Context

TIMEOUT = 60.0
NEW = "2026-07-28"
OLD = "2025-11-25"
BOTH = "application/json, text/event-stream"
META = {
    "io.modelcontextprotocol/protocolVersion": NEW,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "a-test", "version": "1"},
}
_NAME_PARAMS = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}


def message(method: str, request_id: Any = 1, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}


def notification(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, "params": params}


def call(
    tool: str = "conversation_search", request_id: Any = 1, meta: Any = None, **arguments: Any
) -> dict[str, Any]:
    request = message("tools/call", request_id, name=tool, arguments=arguments)
    if meta is not None:
        request["params"]["_meta"] = meta
    return request


def stateless(request: dict[str, Any], **meta: Any) -> dict[str, Any]:
    """The request in the stateless protocol."""
    return {**request, "params": {**request["params"], "_meta": {**META, **meta}}}


def headers_of(request: dict[str, Any]) -> dict[str, str]:
    """The headers that a request of the stateless protocol needs."""
    headers = {"MCP-Protocol-Version": NEW, "Mcp-Method": request["method"]}
    name_param = _NAME_PARAMS.get(request["method"])
    if name_param is not None:
        headers["Mcp-Name"] = request["params"][name_param]
    return headers


def initialize(client: str = "a-test", version: str = OLD, **params: Any) -> dict[str, Any]:
    about = {"name": client, "version": "1"}
    return message(
        "initialize", 0, protocolVersion=version, capabilities={}, clientInfo=about, **params
    )


def events(text: str) -> list[dict[str, str]]:
    """The events of a stream, without its comments."""
    parsed = []
    for block in text.split("\n\n"):
        fields = dict(
            line.split(": ", 1) for line in block.splitlines() if line and not line.startswith(":")
        )
        if fields:
            parsed.append(fields)
    return parsed


def answers(text: str) -> list[Any]:
    return [json.loads(event["data"]) for event in events(text) if event.get("data")]


def text_of(answer: Any) -> str:
    text: str = answer["result"]["content"][0]["text"]
    return text


class HttpUser:
    """A user of a server, with an API key of their own."""

    instances: ClassVar[list[HttpUser]] = []

    def __init__(self, address: str, key: str, user: str) -> None:
        self.address = address
        self.key = key
        self.user = user
        self.session = ""
        headers = {
            "Authorization": f"Bearer {key}",
            "Accept": BOTH,
            "Content-Type": "application/json",
        }
        self.http = httpx.Client(base_url=address, headers=headers, timeout=TIMEOUT)
        self.instances.append(self)

    def post(self, body: Any, path: str = "/mcp", **headers: str | None) -> httpx.Response:
        """Post in the current session, if there is one. A header of None is omitted."""
        if not isinstance(body, bytes):
            body = json.dumps(body).encode()
        return self.http.send(self.request("POST", path, body, **headers))

    def request(
        self, method: str, path: str = "/mcp", content: bytes = b"", **headers: str | None
    ) -> httpx.Request:
        fields: dict[str, str | None] = {}
        if self.session:
            fields["mcp-session-id"] = self.session
        for name, value in headers.items():
            fields[name.replace("_", "-")] = value
        present = {name: value for name, value in fields.items() if value is not None}
        request = self.http.build_request(method, path, content=content, headers=present)
        for name, value in fields.items():
            if value is None:
                request.headers.pop(name, None)
        return request

    def send(self, method: str, path: str = "/mcp", **headers: str | None) -> httpx.Response:
        return self.http.send(self.request(method, path, **headers))

    def start_session(self, path: str = "/mcp", **about: Any) -> Any:
        """Start a session with a handshake."""
        answer = self.post(initialize(**about), path)
        assert answer.status_code == 200, answer.text
        self.session = answer.headers["mcp-session-id"]
        assert self.post(notification("notifications/initialized"), path).status_code == 202
        return answer.json()["result"]

    def ask(self, body: dict[str, Any], path: str = "/mcp", **headers: str) -> httpx.Response:
        """Send a request of the stateless protocol, with the headers it needs."""
        request = stateless(body)
        return self.post(request, path, **{**headers_of(request), **headers})

    @contextmanager
    def stream(self, request: httpx.Request) -> Iterator[tuple[httpx.Response, Iterator[str]]]:
        answer = self.http.send(request, stream=True)
        try:
            yield answer, answer.iter_lines()
        finally:
            answer.close()


class Web:
    """A server in this process."""

    def __init__(self, world: World, address: str) -> None:
        self.world = world
        self.address = address

    def new_user(
        self, scopes: Sequence[str] = ("read", "write"), user: str = "", **options: Any
    ) -> HttpUser:
        user = user or f"user-{uuid.uuid4()}"
        return HttpUser(self.address, self.world.key(user, scopes, **options), user)

    def remember(self, user: str, content: str, title: str = "A title") -> None:
        with self.world.service.libraries.borrow(user) as library:
            library.add_conversation(
                id=f"c-{uuid.uuid4()}",
                title=title,
                messages=[
                    {"role": "user", "content": content, "created_at": "2026-01-02T03:04:05Z"}
                ],
            )


class Probe:
    """Replaces conversation_search: records contexts and arguments, reports progress, can wait."""

    def __init__(self) -> None:
        self.contexts: list[Context] = []
        self.arguments: list[dict[str, Any]] = []
        self.started = threading.Semaphore(0)
        self.release = threading.Event()
        self.release.set()
        self.saw_cancellation = threading.Event()
        self.progress = 0

    def __call__(self, context: Context, **arguments: Any) -> str:
        self.contexts.append(context)
        self.arguments.append(arguments)
        if context.session is not None:
            context.session.add_query(f"query {len(context.session.recent_queries) + 1}")
        self.started.release()
        for number in range(self.progress):
            context.progress(number + 1, self.progress, f"step {number + 1}")
        while not self.release.wait(0.01):
            if context.is_cancelled():
                self.saw_cancellation.set()
                return "cancelled"
        return f"for {context.user}"

    def hold(self) -> None:
        """Make calls wait until `release` is set or they are cancelled."""
        self.release.clear()
