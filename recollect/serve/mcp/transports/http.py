"""MCP over Streamable HTTP: both eras of the protocol at one address, `/mcp`, and for other profiles `/mcp/{profile}`.

Up to 2025-11-25 `initialize` begins a session, which its user's later requests
name and DELETE ends; a GET listens, or takes up a stream that broke off. From
2026-07-28 each POST stands alone: its headers repeat what its body says, so
that a proxy may trust them. There a client that wants to be remembered sends a
key of its own.

An answer that is there soon is plain JSON. One that takes longer, or that tells
of progress, is a stream of events, where the client reads both. What the
protocol refuses is told in its own words; what the server refuses, in the one
shape of all our errors.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import lru_cache
from typing import Any

from fastapi import APIRouter, FastAPI
from starlette.requests import ClientDisconnect
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from recollect.knowledge.preferences import parse_preferences
from recollect.serve.http.error_responses import Problem
from recollect.serve.http.json_response import encode_json
from recollect.serve.http.limits import READ
from recollect.serve.http.route_policy import route_policy
from recollect.serve.mcp.protocol import (
    BATCHING_VERSION,
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
    RpcError,
    decode,
    failure,
    is_id,
    is_stateless,
)
from recollect.serve.mcp.transports import websocket
from recollect.serve.mcp.transports.calls import SESSION, Caller, Done, takes_long
from recollect.serve.mcp.transports.streams import Stream

HEADER_MISMATCH = -32020
CANCELLED = -32800
PRIMED_VERSION = "2025-11-25"
"""From here on a stream opens with an event that has an id and nothing else; earlier clients stumble over it."""
MOMENT = 0.05  # seconds in which most calls are answered: before, nobody looks whether the client is still there
PATIENCE = 5.0  # seconds until a client that reads streams is given one
TICK = 1.0
ALIVE_SECONDS = 15.0
LIFE_SECONDS = (
    600.0  # of a stream that listens; the client comes back, and its key is checked again
)
_VERSION, _METHOD, _NAME = "mcp-protocol-version", "mcp-method", "mcp-name"
# Which part of a request's params Mcp-Name repeats.
_NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_ENCODED = re.compile(r"=\?base64\?(.*)\?=")
_STATUSES = {
    PARSE_ERROR: 400,
    INVALID_REQUEST: 400,
    INVALID_PARAMS: 400,
    HEADER_MISMATCH: 400,
    UNSUPPORTED_VERSION: 400,
    METHOD_NOT_FOUND: 404,
    TOO_BUSY: 429,
}
_EVENTS = "text/event-stream"
_JSON = "application/json"
_STREAM_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
_ALIVE = b": still here\n\n"
_RETRY = b"retry: 1000\n\n"


@asynccontextmanager
async def _closed(app: FastAPI) -> AsyncIterator[None]:
    yield
    if hasattr(app.state, "mcp"):
        app.state.mcp.close()
        del app.state.mcp


router = APIRouter(lifespan=_closed)


@route_policy(rate_limit=READ, body_limit="mcp_line_bytes", ends_streams=True)
class Endpoint:
    """As ASGI has it: the edge hands requests over to it."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        caller = Caller(scope)
        if scope["method"] == "POST":
            answer = await _Post(caller, receive).answer()
        else:
            answer = _answer(scope["method"], caller)
        await answer(scope, receive, send)


def _answer(method: str, caller: Caller) -> Response:
    version = caller.headers.get(_VERSION)
    if version in STATELESS_VERSIONS:
        raise Problem(405, "In this version of the protocol every request is a POST.")
    if version is not None and version not in HANDSHAKE_VERSIONS:
        return _refused(None, _unsupported(version))
    if caller.key is None:
        raise Problem(400, f"Say which session: {SESSION}. It came with the answer to initialize.")
    return _end(caller) if method == "DELETE" else _listen(caller)


PATHS = ("/mcp", "/mcp/{profile}")
ROUTES = [
    Route(path, Endpoint(), methods=["POST", "GET", "DELETE"], include_in_schema=False)
    for path in PATHS
]
router.routes.extend(ROUTES)
for _path in PATHS:
    router.add_websocket_route(f"{_path}/ws", websocket.endpoint)


# -- sessions ----------------------------------------------------------------


def _end(caller: Caller) -> Response:
    assert caller.key is not None
    session = caller.server.sessions.get(caller.user, caller.key)
    if session is None:
        raise _no_session()
    caller.server.sessions.end(caller.user, caller.key)
    caller.server.kept.forget(caller.user, caller.key)
    for call in list(session.calls.values()):
        call.cancel()
    return Response(status_code=200)


def _listen(caller: Caller) -> Response:
    assert caller.key is not None
    if not accepted(caller.headers.get("accept"))[1]:
        raise Problem(406, f"This is a stream of events: Accept: {_EVENTS}.")
    session = caller.server.sessions.get(caller.user, caller.key)
    if session is None:
        raise _no_session()
    counted = caller.server.connection(caller.user)
    broken_off = caller.server.kept.find(
        caller.user, session.key, caller.headers.get("last-event-id") or ""
    )

    async def events() -> AsyncIterator[bytes]:
        with counted:
            if broken_off is not None:
                stream, known = broken_off
                yield _RETRY
                async for event in _events(stream, known):
                    yield event
                return
            async for event in _silence(caller, session.key):
                yield event

    return StreamingResponse(events(), headers=_STREAM_HEADERS, media_type=_EVENTS)


async def _silence(caller: Caller, key: str) -> AsyncIterator[bytes]:
    """What a client hears that listens: nothing, as yet, has to be told unasked."""
    ends = time.monotonic() + LIFE_SECONDS
    quiet_until = 0.0
    yield _RETRY
    while time.monotonic() < ends and not caller.service.draining.is_set():
        if caller.server.sessions.get(caller.user, key) is None:
            return
        if time.monotonic() >= quiet_until:
            quiet_until = time.monotonic() + ALIVE_SECONDS
            yield _ALIVE
        await asyncio.sleep(TICK)


async def _events(stream: Stream, known: int) -> AsyncIterator[bytes]:
    """The messages of a stream after those that are known, as events, until its end."""
    quiet_until = time.monotonic() + ALIVE_SECONDS
    while True:
        if await stream.changed(known, TICK):
            for message in stream.messages[known:]:
                known += 1
                yield b"id: %s-%d\nevent: message\ndata: %s\n\n" % (
                    stream.id.encode(),
                    known,
                    message,
                )
            if stream.done:
                return
        elif time.monotonic() >= quiet_until:
            yield _ALIVE
        else:
            continue
        quiet_until = time.monotonic() + ALIVE_SECONDS


def _no_session() -> Problem:
    return Problem(404, "There is no such session, or no longer. Begin one: initialize.")


# -- one POST ----------------------------------------------------------------


class _Post:
    """One message that was posted, and its answer."""

    def __init__(self, caller: Caller, receive: Receive) -> None:
        self._caller = caller
        self._receive = receive
        self._stateless = False

    async def answer(self) -> Response:
        kind = (self._caller.headers.get("content-type") or "").partition(";")[0].strip().lower()
        if kind != _JSON:
            raise Problem(415, f"Send JSON, and say so: Content-Type: {_JSON}.")
        self._json, self._events = accepted(self._caller.headers.get("accept"))
        if not (self._json or self._events):
            raise Problem(406, f"Answers are {_JSON} or {_EVENTS}.")
        try:
            message = decode(await _body(self._receive))
        except RpcError as error:
            return _refused(None, error)
        request_id = message.get("id") if isinstance(message, dict) else None
        try:
            self._settle_era(message)
        except RpcError as error:
            return _refused(request_id if is_id(request_id) else None, error)
        return await self._answer_to(message)

    # -- which era ---

    def _settle_era(self, message: Any) -> None:
        """Find out which era a message is of. Raises RpcError where it cannot be of either."""
        version = self._header(_VERSION)
        if isinstance(message, list):
            if version not in (None, *HANDSHAKE_VERSIONS) or any(map(_of_stateless_era, message)):
                raise RpcError(INVALID_REQUEST, "Batches are not part of this protocol version")
            return
        self._stateless = _of_stateless_era(message) or version not in (None, *HANDSHAKE_VERSIONS)
        if not self._stateless:
            return
        if not isinstance(message, dict) or not isinstance(message.get("method"), str):
            raise RpcError(
                INVALID_REQUEST, "Invalid request: one request or notification is posted at a time"
            )
        if "id" not in message:
            if version not in STATELESS_VERSIONS:
                raise _unsupported(version)
            return
        self._compare(message, version)

    def _compare(self, message: dict[str, Any], version: str | None) -> None:
        params = message.get("params")
        meta = params.get("_meta") if isinstance(params, dict) else None
        if not isinstance(meta, dict) or VERSION_KEY not in meta or CAPABILITIES_KEY not in meta:
            if version is not None and version not in STATELESS_VERSIONS:
                raise _unsupported(version)
            raise RpcError(
                INVALID_PARAMS,
                f"Invalid params: '_meta' needs {VERSION_KEY} and {CAPABILITIES_KEY}",
            )
        assert isinstance(params, dict)
        if version is None or version != meta[VERSION_KEY]:
            raise _mismatch(_VERSION, "the version")
        if self._header(_METHOD) != message["method"]:
            raise _mismatch(_METHOD, "the method")
        if part := _NAMED.get(message["method"]):
            named = params.get(part)
            if named is not None and _decoded(self._header(_NAME)) != named:
                raise _mismatch(_NAME, f"'{part}'")
        if version not in STATELESS_VERSIONS:
            raise _unsupported(version)
        if message["method"] == "initialize":
            raise RpcError(METHOD_NOT_FOUND, "Method not found: initialize")

    def _header(self, name: str) -> str | None:
        values = self._caller.headers.getlist(name)
        if len(values) > 1:
            raise RpcError(HEADER_MISMATCH, f"The header {name} is there twice")
        return values[0] if values else None

    # -- the answer ---

    async def _answer_to(self, message: Any) -> Response:
        caller = self._caller
        begins = (
            isinstance(message, dict)
            and message.get("method") == "initialize"
            and not self._stateless
        )
        if caller.key is not None and not begins:
            self._use_session(caller.key)
        caller.take_key_argument(message)
        if _is_told(message):
            self._take_notification(message)
            return Response(status_code=202)
        if takes_long(message):
            return _Call(
                caller,
                self._dispatcher(),
                message,
                json=self._json,
                events=self._events,
                stateless=self._stateless,
            )
        dispatcher = self._dispatcher()
        done = Done.of(dispatcher.handle(message, caller.context()))
        if done.body is None:
            return Response(status_code=202)
        headers = self._begin(message, dispatcher) if begins and done.code is None else {}
        return self._written(done.body, _status(done.code, self._stateless), headers)

    def _use_session(self, key: str) -> None:
        sessions, user = self._caller.server.sessions, self._caller.user
        self._caller.session = (
            sessions.named(user, key) if self._stateless else sessions.get(user, key)
        )
        if self._caller.session is None:
            raise _no_session()

    def _begin(self, message: dict[str, Any], dispatcher: Dispatcher) -> dict[str, str]:
        caller = self._caller
        session = caller.server.sessions.new(
            caller.user,
            caller.key or "",
            client=dispatcher.client,
            version=dispatcher.version,
            profile=dispatcher.catalog.profile,
        )
        session.prefer({**parse_preferences(message["params"].get("config")), **caller.config})
        return {"Mcp-Session-Id": session.key}

    def _dispatcher(self) -> Dispatcher:
        """With what the session settled. A client that says nothing of its version is taken for one of the oldest."""
        session, catalog = self._caller.session, self._caller.catalog
        if self._stateless:
            return Dispatcher(catalog)
        version = self._header(_VERSION) or (session.version if session else "") or BATCHING_VERSION
        if session is not None and session.profile == "research" and catalog.profile == "default":
            catalog = catalog.variant(profile="research")
        return Dispatcher(catalog, version, session.client if session else "")

    def _take_notification(self, message: dict[str, Any]) -> None:
        """Of all that a client may tell, only one thing matters: that it does not want an answer any more."""
        session, params = self._caller.session, message.get("params")
        if (
            message.get("method") == "notifications/cancelled"
            and session is not None
            and isinstance(params, dict)
        ):
            request_id = params.get("requestId")
            call = session.calls.get(request_id) if is_id(request_id) else None
            if call is not None:
                call.cancel()

    def _written(self, body: bytes, status: int, headers: dict[str, str]) -> Response:
        if self._json or status != 200:
            return Response(body, status, headers, _JSON)
        return Response(
            b"event: message\ndata: %s\n\n" % body, 200, {**_STREAM_HEADERS, **headers}, _EVENTS
        )


class _Call(Response):
    """The answer to what takes long: JSON where it is there soon, else a stream of events.

    A stream of a session outlives its connection: the client may take it up
    again. Otherwise a client that leaves cancels what it asked for.
    """

    def __init__(
        self,
        caller: Caller,
        dispatcher: Dispatcher,
        message: Any,
        *,
        json: bool,
        events: bool,
        stateless: bool,
    ) -> None:
        self._caller = caller
        self._dispatcher = dispatcher
        self._message = message
        self._events = events
        self._wants_stream = events and (not json or _wants_progress(message))
        self._stateless = stateless
        self._session = None if stateless else caller.session
        self._id = message.get("id") if isinstance(message, dict) else None
        self._stream = Stream()
        self._done = Done()
        self._kept = False
        loop = asyncio.get_running_loop()

        def notify(method: str, params: dict[str, Any]) -> None:
            told = encode_json({"jsonrpc": "2.0", "method": method, "params": params})
            loop.call_soon_threadsafe(self._stream.put, told)

        self._context = caller.context(notify if events else None)

    def cancel(self) -> None:
        """Nobody wants the answer any more: what works on it is told so, and it is not sent."""
        self._context.cancel()
        self._stream.end(
            encode_json(failure(self._id, RpcError(CANCELLED, "The request was cancelled")))
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._session is not None and self._id is not None:
            self._session.calls[self._id] = self
        self._caller.server.start(self._work())
        try:
            if (
                not self._wants_stream
                and await self._stream.changed(0, MOMENT)
                and self._stream.done
            ):
                await self._whole()(scope, receive, send)
            else:
                await self._answer_while_there(scope, receive, send)
        finally:
            if not (self._kept or self._stream.done):
                self.cancel()

    async def _answer_while_there(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, unless the client leaves."""
        answering = asyncio.create_task(self._answer(scope, receive, send))
        gone = asyncio.create_task(_disconnected(receive))
        try:
            await asyncio.wait({answering, gone}, return_when=asyncio.FIRST_COMPLETED)
            if answering.done():
                answering.result()
        finally:
            gone.cancel()
            if not answering.done():
                answering.cancel()

    async def _work(self) -> None:
        try:
            done = await self._caller.server.work(
                self._caller, self._dispatcher, self._message, self._context
            )
            self._done = done
            if done.body is None and self._id is not None:
                self.cancel()
            self._stream.end(done.body)
        finally:
            if self._session is not None:
                if self._session.calls.get(self._id) is self:
                    del self._session.calls[self._id]
                if self._kept:
                    self._caller.server.kept.ended(
                        self._caller.user, self._session.key, self._stream
                    )

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not self._wants_stream and await self._is_soon():
            await self._whole()(scope, receive, send)
        else:
            await StreamingResponse(
                self._streamed(), headers=_STREAM_HEADERS, media_type=_EVENTS
            ).stream_response(send)

    async def _is_soon(self) -> bool:
        """Wait for the answer, unless the client reads a stream and it takes long or there is news of it."""
        ends = time.monotonic() + PATIENCE
        while not self._stream.done:
            await self._stream.changed(0, TICK)
            if (
                self._events
                and not self._stream.done
                and (self._stream.messages or time.monotonic() >= ends)
            ):
                return False
        return True

    def _whole(self) -> Response:
        body = self._stream.messages[-1] if self._stream.messages else None
        status = 202 if body is None else _status(self._done.code, self._stateless)
        headers = {"Retry-After": str(self._done.retry_after or 1)} if status == 429 else {}
        return Response(body, status, headers, None if body is None else _JSON)

    async def _streamed(self) -> AsyncIterator[bytes]:
        if self._session is not None:
            self._kept = True
            self._caller.server.kept.add(self._caller.user, self._session.key, self._stream)
            if self._dispatcher.version >= PRIMED_VERSION:
                yield b"id: %s-0\nretry: 1000\ndata: \n\n" % self._stream.id.encode()
        async for event in _events(self._stream, 0):
            yield event


async def _body(receive: Receive) -> bytes:
    parts = []
    while True:
        part = await receive()
        if part["type"] == "http.disconnect":
            raise ClientDisconnect
        parts.append(part.get("body", b""))
        if not part.get("more_body", False):
            return b"".join(parts)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


# -- what is asked, and how it is refused ------------------------------------


def _wants_progress(message: Any) -> bool:
    params = message.get("params") if isinstance(message, dict) else None
    meta = params.get("_meta") if isinstance(params, dict) else None
    return isinstance(meta, dict) and is_id(meta.get("progressToken"))


@lru_cache(64)
def accepted(header: str | None) -> tuple[bool, bool]:
    """Whether a client reads JSON, and whether it reads streams. One that says nothing reads JSON."""
    kinds = {part.partition(";")[0].strip().lower() for part in (header or _JSON).split(",")}
    return not kinds.isdisjoint((_JSON, "application/*", "*/*")), not kinds.isdisjoint(
        (_EVENTS, "text/*", "*/*")
    )


def _of_stateless_era(message: Any) -> bool:
    if not isinstance(message, dict) or not isinstance(message.get("method"), str):
        return False
    params = message.get("params")
    return is_stateless(message["method"], params if isinstance(params, dict) else {})


def _is_told(message: Any) -> bool:
    """Whether a message is a notification, which gets no answer."""
    return (
        isinstance(message, dict) and isinstance(message.get("method"), str) and "id" not in message
    )


def _decoded(value: str | None) -> str | None:
    """A header's value, which may be written in base64; None where it is written wrongly."""
    found = _ENCODED.fullmatch(value or "")
    if found is None:
        return value
    try:
        return base64.b64decode(found[1], validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None


def _refused(request_id: Any, error: RpcError) -> Response:
    return Response(
        encode_json(failure(request_id, error)), _STATUSES[error.code], media_type=_JSON
    )


def _status(code: int | None, stateless: bool) -> int:
    if code is None:
        return 200
    return _STATUSES.get(code, 200) if stateless or code in (PARSE_ERROR, INVALID_REQUEST) else 200


def _mismatch(header: str, part: str) -> RpcError:
    return RpcError(HEADER_MISMATCH, f"The header {header} and {part} in the body are not the same")


def _unsupported(version: str | None) -> RpcError:
    data = {"supported": [*STATELESS_VERSIONS], "requested": (version or "")[:100]}
    return RpcError(UNSUPPORTED_VERSION, "Unsupported protocol version", data=data)
