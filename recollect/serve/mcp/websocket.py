"""MCP over WebSocket, with the subprotocol `mcp`: one message per text frame, both eras.

No revision of the protocol describes this transport, but clients use it. The connection is the
session. The edge authenticates the client before the connection is accepted, and keeps checking
that the credential is valid.
"""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.websockets import WebSocket, WebSocketDisconnect

from recollect.knowledge.retrieval import parse_preferences
from recollect.serve.http import limits
from recollect.serve.http.responses import encode_json
from recollect.serve.http.routes import NO_ROUTE, set_policy
from recollect.serve.mcp.calls import Caller, ServiceContext
from recollect.serve.mcp.client_sessions import Session
from recollect.serve.mcp.context import TooManyCalls
from recollect.serve.mcp.protocol import (
    INVALID_REQUEST,
    TOO_BUSY,
    Dispatcher,
    RpcError,
    decode,
    error_response,
    is_id,
    is_slow,
    notification,
    params_of,
    request_id_of,
)

SUBPROTOCOL = "mcp"
MAX_CALLS = 64
MAX_OUTBOX = 256  # messages waiting to be sent; beyond that, progress is dropped
UNSUPPORTED_DATA = 1003


async def endpoint(socket: WebSocket) -> None:
    caller = Caller(socket.scope)
    subprotocol = SUBPROTOCOL if SUBPROTOCOL in socket.scope["subprotocols"] else None
    with caller.server.connected(caller.user):
        await socket.accept(subprotocol)
        connection = _Connection(socket, caller)
        writer = asyncio.create_task(connection.write())
        reader = asyncio.create_task(connection.read())
        try:
            await asyncio.wait({reader, writer}, return_when=asyncio.FIRST_COMPLETED)
            for task in (reader, writer):
                if task.done():
                    task.result()
        except WebSocketDisconnect:
            pass  # the normal end
        finally:
            connection.cancel_all()
            reader.cancel()
            writer.cancel()
            await asyncio.gather(reader, writer, return_exceptions=True)


set_policy(endpoint, NO_ROUTE)


class _Connection:
    """One client. Its messages are answered in any order."""

    def __init__(self, socket: WebSocket, caller: Caller) -> None:
        self._socket = socket
        self._caller = caller
        self._dispatcher = Dispatcher(caller.catalog)
        self._loop = asyncio.get_running_loop()
        self._outbox: asyncio.Queue[str] = asyncio.Queue()
        self._calls: dict[Any, ServiceContext] = {}
        # The session of the connection, or one that the client names. That one is loaded for each
        # call, because the client may use it at other servers at the same time.
        caller.own_key = caller.session_key
        if caller.own_key is None:
            caller.session = Session()

    async def write(self) -> None:
        while True:
            await self._socket.send_text(await self._outbox.get())
            self._outbox.task_done()

    async def read(self) -> None:
        while True:
            frame = await self._socket.receive()
            if frame["type"] == "websocket.disconnect":
                return
            if frame.get("text") is None:
                await self._socket.close(UNSUPPORTED_DATA, "Send messages as text frames.")
                return
            try:
                self._handle(decode(frame["text"].encode()))
            except RpcError as error:
                self._send(encode_json(error_response(error.request_id, error)))
            if self._outbox.qsize() > MAX_CALLS:
                await self._outbox.join()  # the client must read before it may write more

    def cancel_all(self) -> None:
        for context in self._calls.values():
            context.cancel()

    def _handle(self, message: Any) -> None:
        request_id = request_id_of(message)
        retry_after = self._caller.service.limiter.take(self._caller.user, limits.READ)
        if retry_after:
            if request_id is not None:
                text, data = str(TooManyCalls(retry_after)), {"retryAfter": retry_after}
                raise RpcError(TOO_BUSY, text, data=data, request_id=request_id)
            return
        method = message.get("method") if isinstance(message, dict) else None
        if is_slow(message):
            self._start(message, request_id)
        elif method == "notifications/cancelled":
            self._cancel(params_of(message).get("requestId"))
        else:
            answer = self._dispatcher.handle(message, self._caller.context())
            if method == "initialize":
                config = parse_preferences(params_of(message).get("config"))
                self._caller.config = {**config, **self._caller.config}
            if answer is not None:
                self._send(encode_json(answer))

    def _start(self, message: Any, request_id: Any) -> None:
        if len(self._calls) >= MAX_CALLS:
            problem = "Too many concurrent calls: wait for an answer first"
            raise RpcError(TOO_BUSY, problem, request_id=request_id)
        if request_id in self._calls:
            problem = "Invalid request: this 'id' is in use"
            raise RpcError(INVALID_REQUEST, problem, request_id=request_id)
        self._caller.take_session_argument(message)
        context = self._caller.context(self._notify)
        self._calls[request_id] = context
        self._caller.server.start(self._work(request_id, message, context))

    async def _work(self, key: Any, message: Any, context: ServiceContext) -> None:
        try:
            answer = await self._caller.server.work(
                self._caller, self._dispatcher, message, context
            )
        finally:
            is_expected = self._calls.get(key) is context
            if is_expected:
                del self._calls[key]
        if answer is not None and is_expected:  # otherwise the client has cancelled it
            self._send(encode_json(answer))

    def _cancel(self, request_id: Any) -> None:
        if is_id(request_id):
            context = self._calls.pop(request_id, None)
            if context is not None:
                context.cancel()

    def _notify(self, method: str, params: dict[str, Any]) -> None:
        message = encode_json(notification(method, params))
        self._loop.call_soon_threadsafe(self._send_progress, message)

    def _send_progress(self, message: bytes) -> None:
        if self._outbox.qsize() < MAX_OUTBOX:
            self._send(message)

    def _send(self, message: bytes) -> None:
        self._outbox.put_nowait(message.decode())
