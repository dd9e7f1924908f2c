"""MCP over Streamable HTTP: both eras at `/mcp`, and at `/mcp/{profile}` for other profiles.

Up to 2025-11-25, `initialize` starts a session, which the user's later requests name and DELETE
ends. From 2026-07-28, each POST stands alone; a client that wants to be remembered sends a session
key of its own choice, and headers repeat parts of the body, so that proxies can rely on them.

An answer that is ready soon is plain JSON. A slow one, or one that reports progress, is an event
stream if the client accepts both. A client that disconnects cancels its call. Errors of the
protocol are JSON-RPC errors; other errors have the same shape as everywhere in the service.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import APIRouter, FastAPI
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from recollect.knowledge.retrieval import parse_preferences
from recollect.serve.http.limits import READ
from recollect.serve.http.responses import Problem, encode_json
from recollect.serve.http.routes import ANY_SCOPE, RoutePolicy
from recollect.serve.mcp import websocket
from recollect.serve.mcp.calls import SESSION_HEADER, Caller
from recollect.serve.mcp.client_sessions import Session
from recollect.serve.mcp.protocol import (
    CAPABILITIES_KEY,
    HANDSHAKE_VERSIONS,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    STATELESS_VERSIONS,
    TOO_BUSY,
    UNSUPPORTED_VERSION,
    VERSION_KEY,
    Dispatcher,
    Json,
    RpcError,
    decode,
    error_response,
    is_id,
    is_slow,
    is_stateless,
    meta_of,
    notification,
    params_of,
    request_id_of,
    unsupported_version,
)
from recollect.store.shared.sessions import SessionState

HEADER_MISMATCH = -32020
CANCELLED = -32800
VERSION_HEADER = "mcp-protocol-version"
JSON_SECONDS = 5.0  # then a client that accepts event streams gets one
KEEP_ALIVE_SECONDS = 15.0
MAX_NOTIFICATIONS = 256  # of one request; further progress is dropped
EVENT_STREAM = "text/event-stream"
JSON = "application/json"
STREAM_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
_NAME_PARAMS = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
"""The parameter that the header Mcp-Name repeats, by method."""
_STATUSES = {
    PARSE_ERROR: 400,
    INVALID_REQUEST: 400,
    INVALID_PARAMS: 400,
    HEADER_MISMATCH: 400,
    UNSUPPORTED_VERSION: 400,
    METHOD_NOT_FOUND: 404,
    TOO_BUSY: 429,
}


class Endpoint:
    """The ASGI app of `/mcp`. `catalog` decides for each tool whether a credential may use it."""

    route_policy = RoutePolicy(
        ANY_SCOPE, rate_limit=READ, body_limit="mcp_line_bytes", ends_streams=True
    )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        caller = Caller(scope)
        if scope["method"] == "DELETE":
            response = await end_session(caller)
        else:
            response = await answer_post(caller, receive)
        await response(scope, receive, send)


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    yield
    if hasattr(app.state, "mcp"):
        app.state.mcp.close()
        del app.state.mcp


PATHS = ("/mcp", "/mcp/{profile}")
# The edge calls these routes itself. Through FastAPI's router, calls are half as fast: see "MCP" in
# bench/README.md. There is no GET: this server sends nothing unasked.
ROUTES = [
    Route(path, Endpoint(), methods=["POST", "DELETE"], include_in_schema=False) for path in PATHS
]
router = APIRouter(lifespan=lifespan)
router.routes.extend(ROUTES)
for _path in PATHS:
    router.add_websocket_route(f"{_path}/ws", websocket.endpoint)


# -- sessions ---


async def end_session(caller: Caller) -> Response:
    version, key = caller.headers.get(VERSION_HEADER), caller.session_key
    if version in STATELESS_VERSIONS:
        raise Problem(405, "In this protocol version every request is a POST.")
    if version is not None and version not in HANDSHAKE_VERSIONS:
        return error_answer(None, unsupported_version(version))
    if key is None:
        raise Problem(
            400,
            f"Send the session id from the answer to initialize in the header {SESSION_HEADER}.",
        )
    await find_session(caller, key)
    await asyncio.to_thread(caller.server.sessions.end, caller.user, key)
    for (user, session, _), cancel in list(caller.server.running.items()):
        if (user, session) == (caller.user, key):
            cancel()
    return Response(status_code=200)


async def find_session(caller: Caller, key: str) -> Session:
    session = await asyncio.to_thread(caller.server.sessions.get, caller.user, key)
    if session is None:
        raise Problem(404, "There is no such session. Start one with initialize.")
    return session


async def start_session(caller: Caller, message: Any, dispatcher: Dispatcher) -> dict[str, str]:
    """Start a session with what `initialize` negotiated. Returns the header that names it."""
    config = parse_preferences(params_of(message).get("config"))
    state = SessionState(
        client=dispatcher.client,
        version=dispatcher.version,
        profile=dispatcher.catalog.profile,
        preferences={**config, **caller.config},
    )
    create = caller.server.sessions.create
    session = await asyncio.to_thread(create, caller.user, caller.session_key or "", state)
    return {} if session is None else {"Mcp-Session-Id": session.key}


# -- POST ---


async def answer_post(caller: Caller, receive: Receive) -> Response:
    content_type = caller.headers.get("content-type") or ""
    if content_type.partition(";")[0].strip().lower() != JSON:
        raise Problem(415, f"Send JSON with Content-Type: {JSON}.")
    parts = caller.headers.get("accept", JSON).split(",")
    types = {part.partition(";")[0].strip().lower() for part in parts}
    accepts_json = not types.isdisjoint((JSON, "application/*", "*/*"))
    accepts_events = not types.isdisjoint((EVENT_STREAM, "text/*", "*/*"))
    if not (accepts_json or accepts_events):
        raise Problem(406, f"Answers are {JSON} or {EVENT_STREAM}.")
    message: Any = None
    try:
        message = decode(await read_body(receive))
        stateless = check_era(message, caller.headers)
    except RpcError as error:
        return error_answer(request_id_of(message), error)
    method = message.get("method") if isinstance(message, dict) else None
    is_initialize = method == "initialize" and not stateless
    if caller.session_key is not None and not is_initialize:
        if stateless:
            caller.own_key = caller.session_key
        else:
            caller.session = await find_session(caller, caller.session_key)
    caller.take_session_argument(message)
    params = params_of(message)
    if isinstance(method, str) and "id" not in message:
        request_id = params.get("requestId")  # of all notifications, only cancellations matter
        if method == "notifications/cancelled" and caller.session is not None and is_id(request_id):
            cancel = caller.server.running.get((caller.user, caller.session.key, request_id))
            if cancel is not None:
                cancel()
        return Response(status_code=202)
    dispatcher = _dispatcher(caller, stateless)
    if is_slow(message):
        has_progress = accepts_events and is_id(meta_of(params).get("progressToken"))
        seconds = 0.0 if has_progress or not accepts_json else JSON_SECONDS
        return CallAnswer(
            caller, dispatcher, message, stateless, seconds if accepts_events else None
        )
    answer = dispatcher.handle(message, caller.context())
    if answer is None:
        return Response(status_code=202)
    headers = {}
    if is_initialize and "result" in answer:
        headers = await start_session(caller, message, dispatcher)
    status = status_of(answer, stateless)
    if accepts_json or status != 200:
        return Response(encode_json(answer), status, headers, JSON)
    return Response(_event(answer), 200, {**STREAM_HEADERS, **headers}, EVENT_STREAM)


def _dispatcher(caller: Caller, stateless: bool) -> Dispatcher:
    """A dispatcher with what the session negotiated."""
    catalog = caller.catalog
    if stateless or caller.session is None:
        return Dispatcher(catalog)
    state = caller.session.state
    if state.profile == "research" and catalog.profile == "default":
        catalog = catalog.variant(profile="research")
    return Dispatcher(catalog, state.version, state.client)


async def read_body(receive: Receive) -> bytes:
    parts = []
    while True:
        event = await receive()
        if event["type"] == "http.disconnect":
            raise ClientDisconnect
        parts.append(event.get("body", b""))
        if not event.get("more_body", False):
            return b"".join(parts)


def status_of(answer: Json, stateless: bool) -> int:
    """The HTTP status of an answer. In the handshake era most errors have the status 200."""
    if "error" in answer:
        code = answer["error"]["code"]
        if stateless or code in (PARSE_ERROR, INVALID_REQUEST):
            return _STATUSES.get(code, 200)
    return 200


def error_answer(request_id: Any, error: RpcError) -> Response:
    body = encode_json(error_response(request_id, error))
    return Response(body, _STATUSES[error.code], media_type=JSON)


def _event(message: Json) -> bytes:
    return b"event: message\ndata: %s\n\n" % encode_json(message)


# -- the era of a request ---


def check_era(message: Any, headers: Headers) -> bool:
    """Whether a message belongs to the stateless era. Raises RpcError if it fits neither era."""
    version = single_header(headers, VERSION_HEADER)
    is_request = isinstance(message, dict) and isinstance(message.get("method"), str)
    is_new = is_request and is_stateless(message["method"], params_of(message))
    if isinstance(message, list):
        raise RpcError(INVALID_REQUEST, "Batches are not supported: post one message")
    if not is_new and (version is None or version in HANDSHAKE_VERSIONS):
        return False
    if not is_request:
        raise RpcError(INVALID_REQUEST, "Invalid request: post one request or notification")
    if "id" in message:
        compare_headers(message, headers, version)
    elif version not in STATELESS_VERSIONS:
        raise unsupported_version(version or "")
    return True


def compare_headers(message: dict[str, Any], headers: Headers, version: str | None) -> None:
    method, params = message["method"], params_of(message)
    meta = meta_of(params)
    if VERSION_KEY not in meta or CAPABILITIES_KEY not in meta:
        if version is not None and version not in STATELESS_VERSIONS:
            raise unsupported_version(version)
        raise RpcError(
            INVALID_PARAMS, f"Invalid params: '_meta' needs {VERSION_KEY} and {CAPABILITIES_KEY}"
        )
    name_param = _NAME_PARAMS.get(method, "")
    name = params.get(name_param)
    expected = [
        (VERSION_HEADER, version, meta[VERSION_KEY], "the version"),
        ("mcp-method", single_header(headers, "mcp-method"), method, "the method"),
    ]
    if name is not None:
        value = decode_header(single_header(headers, "mcp-name"))
        expected.append(("mcp-name", value, name, f"'{name_param}'"))
    for header, value, wanted, part in expected:
        if value is None or value != wanted:
            raise RpcError(
                HEADER_MISMATCH, f"The header {header} does not match {part} in the body"
            )
    if version not in STATELESS_VERSIONS:
        raise unsupported_version(version or "")
    if method == "initialize":
        raise RpcError(METHOD_NOT_FOUND, "Method not found: initialize")


def single_header(headers: Headers, name: str) -> str | None:
    """The value of a header, without surrounding whitespace. Raises RpcError if it occurs twice."""
    values = headers.getlist(name)
    if len(values) > 1:
        raise RpcError(HEADER_MISMATCH, f"The header {name} occurs twice")
    return values[0].strip() if values else None


def decode_header(value: str | None) -> str | None:
    """A header's value, which may be encoded in base64; None if it is encoded incorrectly."""
    if value is None or not (value.startswith("=?base64?") and value.endswith("?=")):
        return value
    try:
        return base64.b64decode(value[9:-2], validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None


# -- calls that may take long ---


class CallAnswer(Response):
    """Runs a call and answers it."""

    def __init__(
        self,
        caller: Caller,
        dispatcher: Dispatcher,
        message: Any,
        stateless: bool,
        seconds: float | None,
    ) -> None:
        """An answer that is not there after these seconds is a stream; None for always JSON."""
        self._caller = caller
        self._dispatcher = dispatcher
        self._message = message
        self._is_stateless = stateless
        self._json_seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._news: asyncio.Queue[tuple[Json, bool]] = asyncio.Queue()
        """Notifications, then the answer, which is marked as the last."""
        self._is_done = False
        self._context = caller.context(None if seconds is None else self._notify)

    def _notify(self, method: str, params: dict[str, Any]) -> None:
        """Called in the thread of the call."""
        if self._news.qsize() < MAX_NOTIFICATIONS:
            news = (notification(method, params), False)
            self._loop.call_soon_threadsafe(self._news.put_nowait, news)

    def _end(self, answer: Json) -> None:
        """The first answer counts: that of the call, or that it was cancelled."""
        if not self._is_done:
            self._is_done = True
            self._news.put_nowait((answer, True))

    def cancel(self) -> None:
        """Stop the call. The client gets an error instead of an answer."""
        self._context.cancel()
        error = RpcError(CANCELLED, "The request was cancelled")
        self._end(error_response(request_id_of(self._message), error))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._caller.server.start(self._work())
        disconnect = asyncio.create_task(self._watch_connection(receive))
        try:
            news = None
            if self._json_seconds != 0.0:
                news = await self._next(self._json_seconds)
            if news is not None and news[1]:
                answer = news[0]
                status = status_of(answer, self._is_stateless)
                headers = {"Retry-After": "1"} if status == 429 else {}
                await Response(encode_json(answer), status, headers, JSON)(scope, receive, send)
            else:
                events = self._events(news)
                response = StreamingResponse(
                    events, headers=STREAM_HEADERS, media_type=EVENT_STREAM
                )
                await response.stream_response(send)
        finally:
            disconnect.cancel()
            if not self._is_done:
                self.cancel()

    async def _work(self) -> None:
        running, session = self._caller.server.running, self._caller.session
        name = None
        if session is not None:
            name = (self._caller.user, session.key, request_id_of(self._message))
            running[name] = self.cancel
        answer = await self._caller.server.work(
            self._caller, self._dispatcher, self._message, self._context
        )
        if answer is None:
            self.cancel()
        self._end(answer)
        if name is not None and running.get(name) == self.cancel:
            del running[name]

    async def _watch_connection(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self.cancel()

    async def _next(self, seconds: float | None) -> tuple[Json, bool] | None:
        """What comes next; None if nothing does in time."""
        try:
            async with asyncio.timeout(seconds):
                return await self._news.get()
        except TimeoutError:
            return None

    async def _events(self, news: tuple[Json, bool] | None) -> AsyncIterator[bytes]:
        news = news or await self._next(KEEP_ALIVE_SECONDS)
        while news is None or not news[1]:
            yield b": keep-alive\n\n" if news is None else _event(news[0])
            news = await self._next(KEEP_ALIVE_SECONDS)
        yield _event(news[0])
