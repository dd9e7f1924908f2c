"""MCP over Streamable HTTP: both eras at `/mcp`, and at `/mcp/{profile}` for other profiles.

Up to 2025-11-25, `initialize` starts a session. The user's later requests name it, DELETE ends it,
and GET listens for messages or resumes an interrupted stream. From 2026-07-28, each POST stands
alone; a client that wants to be remembered sends a session key of its own choice.

An answer that is ready soon is plain JSON. A slow one, or one that reports progress, is an event
stream if the client accepts both. Errors of the protocol are JSON-RPC errors; other errors have the
same shape as everywhere in the service.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import APIRouter, FastAPI
from starlette.requests import ClientDisconnect
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from recollect.knowledge.preferences import parse_preferences
from recollect.serve.http.checks.limits import READ
from recollect.serve.http.checks.route_policy import ANY_SCOPE, route_policy
from recollect.serve.http.error_responses import Problem
from recollect.serve.mcp.jsonrpc import RpcError, decode, is_id, params_of, request_id_of
from recollect.serve.mcp.protocol import (
    BATCH_VERSION,
    HANDSHAKE_VERSIONS,
    STATELESS_VERSIONS,
    Dispatcher,
    is_slow,
    unsupported_version,
)
from recollect.serve.mcp.sessions import Session
from recollect.serve.mcp.transports import websocket
from recollect.serve.mcp.transports.calls import SESSION_HEADER, Caller, Reply
from recollect.serve.mcp.transports.http_answer import (
    EVENT_STREAM,
    JSON,
    KEEP_ALIVE,
    KEEP_ALIVE_SECONDS,
    RETRY,
    STREAM_HEADERS,
    TICK_SECONDS,
    AcceptedTypes,
    CallAnswer,
    error_answer,
    event_of,
    status_of,
    stream_events,
)
from recollect.serve.mcp.transports.request_era import VERSION_HEADER, check_era, single_header
from recollect.store.shared.sessions import SessionState

MAX_LISTEN_SECONDS = 600.0  # then the client reconnects, and its key is checked again


@route_policy(ANY_SCOPE, rate_limit=READ, body_limit="mcp_line_bytes", ends_streams=True)
class Endpoint:
    """The ASGI app of `/mcp`. `catalog` decides for each tool whether a credential may use it."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        caller = Caller(scope)
        if scope["method"] == "POST":
            response = await _Post(caller, receive).answer()
        else:
            response = await _answer_without_body(scope["method"], caller)
        await response(scope, receive, send)


async def _answer_without_body(method: str, caller: Caller) -> Response:
    version = caller.headers.get(VERSION_HEADER)
    if version in STATELESS_VERSIONS:
        raise Problem(405, "In this protocol version every request is a POST.")
    if version is not None and version not in HANDSHAKE_VERSIONS:
        return error_answer(None, unsupported_version(version))
    if caller.session_key is None:
        raise Problem(
            400,
            f"Send the session id from the answer to initialize in the header {SESSION_HEADER}.",
        )
    if method == "DELETE":
        return await _end_session(caller, caller.session_key)
    return await _listen(caller, caller.session_key)


# -- routes ---


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    yield
    if hasattr(app.state, "mcp"):
        await app.state.mcp.close()
        del app.state.mcp


PATHS = ("/mcp", "/mcp/{profile}")
# The edge calls these routes itself. Through FastAPI's router, calls are half as fast: see "MCP" in
# bench/README.md.
ROUTES = [
    Route(path, Endpoint(), methods=["POST", "GET", "DELETE"], include_in_schema=False)
    for path in PATHS
]
router = APIRouter(lifespan=_lifespan)
router.routes.extend(ROUTES)
for _path in PATHS:
    router.add_websocket_route(f"{_path}/ws", websocket.endpoint)


# -- GET and DELETE ---


async def _end_session(caller: Caller, key: str) -> Response:
    await _find_session(caller, key)
    server = caller.server
    await server.in_database_thread(server.sessions.end, caller.user, key)
    await server.shared_calls.end_session((caller.user, key))
    return Response(status_code=200)


async def _listen(caller: Caller, key: str) -> Response:
    if not AcceptedTypes(caller.headers.get("accept")).events:
        raise Problem(406, f"This is an event stream. Send Accept: {EVENT_STREAM}.")
    await _find_session(caller, key)
    connection = caller.server.count_connection(caller.user)
    name = (caller.user, key)
    shared_calls = caller.server.shared_calls
    last_event_id = caller.headers.get("last-event-id") or ""
    stream = shared_calls.streams.find(*name, last_event_id)
    is_elsewhere = False
    if stream is None and last_event_id:
        is_elsewhere = await shared_calls.find_stored(name, last_event_id) is not None

    async def events() -> AsyncIterator[bytes]:
        if stream is not None:
            source = stream_events(*stream)
        elif is_elsewhere:
            source = _stored_events(caller, name, last_event_id)
        else:
            source = _keep_alive(caller, name)
        with connection:
            yield RETRY
            async for event in source:
                yield event

    return StreamingResponse(events(), headers=STREAM_HEADERS, media_type=EVENT_STREAM)


async def _stored_events(
    caller: Caller, name: tuple[str, str], last_event_id: str
) -> AsyncIterator[bytes]:
    """The rest of a stream that another server began."""
    quiet_until = time.monotonic() + KEEP_ALIVE_SECONDS
    async for entry in caller.server.shared_calls.stored_messages(name, last_event_id):
        if entry is not None:
            yield event_of(*entry)
        elif caller.service.draining.is_set():
            return  # the client resumes it at another server
        elif time.monotonic() >= quiet_until:
            yield KEEP_ALIVE
        else:
            continue
        quiet_until = time.monotonic() + KEEP_ALIVE_SECONDS


async def _keep_alive(caller: Caller, name: tuple[str, str]) -> AsyncIterator[bytes]:
    """A stream without messages: this server never sends any unasked."""
    deadline = time.monotonic() + MAX_LISTEN_SECONDS
    quiet_until = 0.0
    shared_calls = caller.server.shared_calls
    shared_calls.listen(name)
    caller.server.watch()
    try:
        while time.monotonic() < deadline and not caller.service.draining.is_set():
            if shared_calls.has_ended(name):
                return
            if time.monotonic() >= quiet_until:
                quiet_until = time.monotonic() + KEEP_ALIVE_SECONDS
                yield KEEP_ALIVE
            await asyncio.sleep(TICK_SECONDS)
    finally:
        shared_calls.stop_listening(name)


async def _find_session(caller: Caller, key: str) -> Session:
    server = caller.server
    session = await server.in_database_thread(server.sessions.get, caller.user, key)
    if session is None:
        raise Problem(404, "There is no such session. Start one with initialize.")
    return session


# -- POST ---


class _Post:
    """One posted message and its answer."""

    def __init__(self, caller: Caller, receive: Receive) -> None:
        self._caller = caller
        self._receive = receive
        self._accepts = AcceptedTypes(caller.headers.get("accept"))
        self._is_stateless = False

    async def answer(self) -> Response:
        content_type = self._caller.headers.get("content-type") or ""
        if content_type.partition(";")[0].strip().lower() != JSON:
            raise Problem(415, f"Send JSON with Content-Type: {JSON}.")
        if not (self._accepts.json or self._accepts.events):
            raise Problem(406, f"Answers are {JSON} or {EVENT_STREAM}.")
        try:
            message = decode(await _read_body(self._receive))
        except RpcError as error:
            return error_answer(None, error)
        try:
            self._is_stateless = check_era(message, self._caller.headers)
        except RpcError as error:
            return error_answer(request_id_of(message), error)
        return await self._answer_message(message)

    async def _answer_message(self, message: Any) -> Response:
        caller = self._caller
        is_initialize = (
            not self._is_stateless
            and isinstance(message, dict)
            and message.get("method") == "initialize"
        )
        if caller.session_key is not None and not is_initialize:
            await self._use_session(caller.session_key)
        caller.take_session_argument(message)
        if _is_notification(message):
            await self._handle_notification(message)
            return Response(status_code=202)
        dispatcher = self._dispatcher()
        if is_slow(message):
            return CallAnswer(
                caller,
                dispatcher,
                message,
                accepts=self._accepts,
                is_stateless=self._is_stateless,
            )
        reply = Reply.from_answer(dispatcher.handle(message, caller.context()))
        if reply.body is None:
            return Response(status_code=202)
        headers = {}
        if is_initialize and reply.error_code is None:
            headers["Mcp-Session-Id"] = await self._start_session(message, dispatcher)
        status = status_of(reply.error_code, self._is_stateless)
        return self._quick_answer(reply.body, status, headers)

    async def _use_session(self, key: str) -> None:
        if self._is_stateless:
            self._caller.own_key = key
        else:
            self._caller.session = await _find_session(self._caller, key)

    async def _start_session(self, message: Any, dispatcher: Dispatcher) -> str:
        caller = self._caller
        config = parse_preferences(params_of(message).get("config"))
        state = SessionState(
            client=dispatcher.client,
            version=dispatcher.version,
            profile=dispatcher.catalog.profile,
            preferences={**config, **caller.config},
        )
        session = await caller.server.in_database_thread(
            caller.server.sessions.create, caller.user, caller.session_key or "", state
        )
        return session.key

    def _dispatcher(self) -> Dispatcher:
        """A dispatcher with what the session negotiated.

        If nothing names a version, the protocol says to assume 2025-03-26.
        """
        catalog = self._caller.catalog
        if self._is_stateless:
            return Dispatcher(catalog)
        version = single_header(self._caller.headers, VERSION_HEADER) or ""
        client = ""
        session = self._caller.session
        if session is not None:
            client = session.client
            version = version or session.version
            if session.profile == "research" and catalog.profile == "default":
                catalog = catalog.variant(profile="research")
        return Dispatcher(catalog, version or BATCH_VERSION, client)

    async def _handle_notification(self, message: dict[str, Any]) -> None:
        """Only cancellations matter."""
        caller = self._caller
        request_id = params_of(message).get("requestId")
        is_cancellation = message.get("method") == "notifications/cancelled" and is_id(request_id)
        if caller.session is not None and is_cancellation:
            name = (caller.user, caller.session.key)
            await caller.server.shared_calls.cancel(name, request_id)

    def _quick_answer(self, body: bytes, status: int, headers: dict[str, str]) -> Response:
        if self._accepts.json or status != 200:
            return Response(body, status, headers, JSON)
        event = b"event: message\ndata: %s\n\n" % body
        return Response(event, 200, {**STREAM_HEADERS, **headers}, EVENT_STREAM)


async def _read_body(receive: Receive) -> bytes:
    parts = []
    while True:
        event = await receive()
        if event["type"] == "http.disconnect":
            raise ClientDisconnect
        parts.append(event.get("body", b""))
        if not event.get("more_body", False):
            return b"".join(parts)


def _is_notification(message: Any) -> bool:
    if not isinstance(message, dict) or "id" in message:
        return False
    return isinstance(message.get("method"), str)
