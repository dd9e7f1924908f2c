"""MCP clients that say exactly what a test wants said, over real sockets."""

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
from recollect.serve.mcp.tools.conversations.handlers import Handlers

PATIENCE = 60.0
NEW = "2026-07-28"
OLD = "2025-11-25"
BOTH = "application/json, text/event-stream"
META = {
    "io.modelcontextprotocol/protocolVersion": NEW,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "a-test", "version": "1"},
}
_NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}


def message(method: str, request_id: Any = 1, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}


def told(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, "params": params}


def call(
    tool: str = "conversation_search", request_id: Any = 1, meta: Any = None, **arguments: Any
) -> dict[str, Any]:
    more = {} if meta is None else {"_meta": meta}
    return message("tools/call", request_id, name=tool, arguments=arguments, **more)


def stateless(asked: dict[str, Any], **meta: Any) -> dict[str, Any]:
    """A request as one of the era without handshakes."""
    return {**asked, "params": {**asked["params"], "_meta": {**META, **meta}}}


def headers_of(asked: dict[str, Any]) -> dict[str, str]:
    """What the headers of such a request repeat."""
    found = {"MCP-Protocol-Version": NEW, "Mcp-Method": asked["method"]}
    if part := _NAMED.get(asked["method"]):
        found["Mcp-Name"] = asked["params"][part]
    return found


def initialize(client: str = "a-test", version: str = OLD, **params: Any) -> dict[str, Any]:
    about = {"name": client, "version": "1"}
    return message(
        "initialize", 0, protocolVersion=version, capabilities={}, clientInfo=about, **params
    )


def events(text: str) -> list[dict[str, str]]:
    """The events of a stream, without its comments."""
    found = []
    for block in text.split("\n\n"):
        fields = dict(
            line.split(": ", 1) for line in block.splitlines() if line and not line.startswith(":")
        )
        if fields:
            found.append(fields)
    return found


def answers(text: str) -> list[Any]:
    return [json.loads(event["data"]) for event in events(text) if event.get("data")]


def text_of(answer: Any) -> str:
    found: str = answer["result"]["content"][0]["text"]
    return found


class Someone:
    """A user at a server, with a key of their own."""

    everybody: ClassVar[list[Someone]] = []

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
        self.http = httpx.Client(base_url=address, headers=headers, timeout=PATIENCE)
        self.everybody.append(self)

    def post(self, body: Any, path: str = "/mcp", **headers: str | None) -> httpx.Response:
        """Post in the session that there is, if any. A header of None is left out."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.http.send(self.request("POST", path, content, **headers))

    def request(
        self, method: str, path: str = "/mcp", content: bytes = b"", **headers: str | None
    ) -> httpx.Request:
        given = {"mcp-session-id": self.session} if self.session else {}
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        wanted = {name: value for name, value in {**given, **named}.items() if value is not None}
        made = self.http.build_request(method, path, content=content, headers=wanted)
        for name, value in named.items():
            if value is None:
                made.headers.pop(name, None)
        return made

    def send(self, method: str, path: str = "/mcp", **headers: str | None) -> httpx.Response:
        return self.http.send(self.request(method, path, **headers))

    def begin(self, path: str = "/mcp", **about: Any) -> Any:
        """Begin a session of the older era."""
        answer = self.post(initialize(**about), path)
        assert answer.status_code == 200, answer.text
        self.session = answer.headers["mcp-session-id"]
        assert self.post(told("notifications/initialized"), path).status_code == 202
        return answer.json()["result"]

    def ask(self, asked: dict[str, Any], path: str = "/mcp", **more: str) -> httpx.Response:
        """A request of the newer era, with the headers that it needs."""
        whole = stateless(asked)
        return self.post(whole, path, **{**headers_of(whole), **more})

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

    def someone(
        self, scopes: Sequence[str] = ("read", "write"), user: str = "", **more: Any
    ) -> Someone:
        user = user or f"user-{uuid.uuid4()}"
        return Someone(self.address, self.world.key(user, scopes, **more), user)

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
    """Takes the place of conversation_search: keeps the contexts of its calls, tells of progress, waits if told to."""

    def __init__(self) -> None:
        self.contexts: list[Context] = []
        self.arguments: list[dict[str, Any]] = []
        self.begun = threading.Semaphore(0)
        self.may_end = threading.Event()
        self.may_end.set()
        self.noticed = threading.Event()
        self.progress = 0

    def __call__(self, _: Handlers, context: Context, arguments: dict[str, Any]) -> str:
        self.contexts.append(context)
        self.arguments.append(arguments)
        self.begun.release()
        for number in range(self.progress):
            context.progress(number + 1, self.progress, f"step {number + 1}")
        while not self.may_end.wait(0.01):
            if context.is_cancelled():
                self.noticed.set()
                return "cancelled"
        return f"for {context.user}"

    def hold(self) -> None:
        """Let calls wait until `may_end` is set, or they are cancelled."""
        self.may_end.clear()
