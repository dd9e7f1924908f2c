"""The HTTP answer to a call that may take long: JSON if it is ready soon, else an event stream.

A stream that belongs to a session outlives its connection, and the client may resume it. Without a
session, a client that disconnects cancels its call.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from recollect.serve.http.json_response import encode_json
from recollect.serve.mcp.jsonrpc import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    TOO_BUSY,
    UNSUPPORTED_VERSION,
    RpcError,
    error_response,
    is_id,
    meta_of,
    notification,
    params_of,
    request_id_of,
)
from recollect.serve.mcp.protocol import Dispatcher
from recollect.serve.mcp.transports.calls import Caller, Reply
from recollect.serve.mcp.transports.request_era import HEADER_MISMATCH
from recollect.serve.mcp.transports.streams import Stream

CANCELLED = -32800
PRIMING_VERSION = "2025-11-25"
"""From this version on, a stream starts with an event that has only an id. Older clients fail on
it."""
QUICK_SECONDS = 0.05  # most calls take less; until then we do not watch for disconnects
JSON_SECONDS = 5.0  # then a client that accepts event streams gets one
TICK_SECONDS = 1.0
KEEP_ALIVE_SECONDS = 15.0
EVENT_STREAM = "text/event-stream"
JSON = "application/json"
STREAM_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
KEEP_ALIVE = b": keep-alive\n\n"
RETRY = b"retry: 1000\n\n"
_STATUSES = {
    PARSE_ERROR: 400,
    INVALID_REQUEST: 400,
    INVALID_PARAMS: 400,
    HEADER_MISMATCH: 400,
    UNSUPPORTED_VERSION: 400,
    METHOD_NOT_FOUND: 404,
    TOO_BUSY: 429,
}


class AcceptedTypes:
    """What the Accept header of a request allows. Without the header, JSON."""

    def __init__(self, header: str | None) -> None:
        parts = (header or JSON).split(",")
        types = {part.partition(";")[0].strip().lower() for part in parts}
        self.json = not types.isdisjoint((JSON, "application/*", "*/*"))
        self.events = not types.isdisjoint((EVENT_STREAM, "text/*", "*/*"))


def status_of(error_code: int | None, is_stateless: bool) -> int:
    """The HTTP status of an answer. In the handshake era most errors have the status 200."""
    if is_stateless or error_code in (PARSE_ERROR, INVALID_REQUEST):
        return _STATUSES.get(error_code or 0, 200)
    return 200


def error_answer(request_id: Any, error: RpcError) -> Response:
    body = encode_json(error_response(request_id, error))
    return Response(body, _STATUSES[error.code], media_type=JSON)


def event_of(id: str, message: bytes) -> bytes:
    return b"id: %s\nevent: message\ndata: %s\n\n" % (id.encode(), message)


async def stream_events(stream: Stream, count: int) -> AsyncIterator[bytes]:
    """The messages of a stream after the first `count`, as events, until it is complete."""
    quiet_until = time.monotonic() + KEEP_ALIVE_SECONDS
    while True:
        if await stream.wait(count, TICK_SECONDS):
            for message in stream.messages[count:]:
                count += 1
                yield event_of(f"{stream.id}-{count}", message)
            if stream.is_complete:
                return
        elif time.monotonic() >= quiet_until:
            yield KEEP_ALIVE
        else:
            continue
        quiet_until = time.monotonic() + KEEP_ALIVE_SECONDS


class CallAnswer(Response):
    """Runs a call and answers it."""

    def __init__(
        self,
        caller: Caller,
        dispatcher: Dispatcher,
        message: Any,
        *,
        accepts: AcceptedTypes,
        is_stateless: bool,
    ) -> None:
        self._caller = caller
        self._dispatcher = dispatcher
        self._message = message
        self._accepts_events = accepts.events
        self._wants_stream = accepts.events and (not accepts.json or _wants_progress(message))
        self._is_stateless = is_stateless
        self._session = caller.session
        if is_stateless:
            self._session = None
        self._id = request_id_of(message)
        self._stream = Stream()
        self._reply = Reply()
        self._is_resumable = False
        notify = None
        if accepts.events:
            notify = self._notifier(asyncio.get_running_loop())
        self._context = caller.context(notify)

    @property
    def _session_name(self) -> tuple[str, str]:
        assert self._session is not None
        return self._caller.user, self._session.key

    def _notifier(self, loop: asyncio.AbstractEventLoop) -> Any:
        def notify(method: str, params: dict[str, Any]) -> None:
            message = encode_json(notification(method, params))
            loop.call_soon_threadsafe(self._stream.add, message)

        return notify

    def cancel(self) -> None:
        """Stop the call. The client gets an error instead of an answer."""
        self._context.cancel()
        error = RpcError(CANCELLED, "The request was cancelled")
        self._stream.end(encode_json(error_response(self._id, error)))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._session is not None and self._id is not None:
            self._caller.server.shared_calls.add_call(self._session_name, self._id, self)
        self._caller.server.start(self._work())
        try:
            if await self._is_quick():
                await self._json_response()(scope, receive, send)
            else:
                await self._answer_until_disconnect(scope, receive, send)
        finally:
            if not (self._is_resumable or self._stream.is_complete):
                self.cancel()

    async def _is_quick(self) -> bool:
        if self._wants_stream:
            return False
        return await self._stream.wait(0, QUICK_SECONDS) and self._stream.is_complete

    async def _work(self) -> None:
        try:
            self._reply = await self._caller.server.work(
                self._caller, self._dispatcher, self._message, self._context
            )
            if self._reply.body is None and self._id is not None:
                self.cancel()
            self._stream.end(self._reply.body)
        finally:
            if self._session is not None:
                shared_calls = self._caller.server.shared_calls
                shared_calls.remove_call(self._session_name, self._id, self)
                if self._is_resumable:
                    shared_calls.streams.count_bytes(*self._session_name, self._stream)

    async def _answer_until_disconnect(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = asyncio.create_task(self._answer(scope, receive, send))
        disconnect = asyncio.create_task(_wait_for_disconnect(receive))
        try:
            await asyncio.wait({answer, disconnect}, return_when=asyncio.FIRST_COMPLETED)
            if answer.done():
                answer.result()
        finally:
            disconnect.cancel()
            if not answer.done():
                answer.cancel()

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not self._wants_stream and await self._is_ready_soon():
            await self._json_response()(scope, receive, send)
        else:
            response = StreamingResponse(
                self._events(), headers=STREAM_HEADERS, media_type=EVENT_STREAM
            )
            await response.stream_response(send)

    async def _is_ready_soon(self) -> bool:
        """Wait for the answer. Returns False if the client accepts events and there is progress to
        report, or the call takes long."""
        deadline = time.monotonic() + JSON_SECONDS
        while not self._stream.is_complete:
            await self._stream.wait(0, TICK_SECONDS)
            if self._stream.is_complete or not self._accepts_events:
                continue
            if self._stream.messages or time.monotonic() >= deadline:
                return False
        return True

    def _json_response(self) -> Response:
        if not self._stream.messages:
            return Response(status_code=202)
        status = status_of(self._reply.error_code, self._is_stateless)
        headers = {}
        if status == 429:
            headers["Retry-After"] = str(self._reply.retry_after or 1)
        return Response(self._stream.messages[-1], status, headers, JSON)

    async def _events(self) -> AsyncIterator[bytes]:
        if self._session is not None:
            self._is_resumable = True
            shared_calls = self._caller.server.shared_calls
            await shared_calls.add_stream(self._session_name, self._id, self._stream)
            if self._dispatcher.version >= PRIMING_VERSION:
                yield b"id: %s-0\nretry: 1000\ndata: \n\n" % self._stream.id.encode()
        async for event in stream_events(self._stream, 0):
            yield event


async def _wait_for_disconnect(receive: Receive) -> None:
    while True:
        event = await receive()
        if event["type"] == "http.disconnect":
            return


def _wants_progress(message: Any) -> bool:
    return is_id(meta_of(params_of(message)).get("progressToken"))
