"""MCP over WebSocket, with the subprotocol `mcp`: one message a text frame, both eras.

No revision of the protocol describes it, yet clients speak it. The connection
is the session. The edge has checked who it is before it is accepted, and goes on
to check that their credential is still good.
"""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.websockets import WebSocket, WebSocketDisconnect

from recollect.knowledge.preferences import parse_preferences
from recollect.serve.http import limits
from recollect.serve.http.json_response import encode_json
from recollect.serve.mcp.context import Context
from recollect.serve.mcp.protocol import (
    INVALID_REQUEST,
    TOO_BUSY,
    Dispatcher,
    RpcError,
    decode,
    failure,
    is_id,
)
from recollect.serve.mcp.sessions import Session
from recollect.serve.mcp.transports.calls import Caller, takes_long

SUBPROTOCOL = "mcp"
MOST_CALLS = 64
MOST_WAITING = 256  # messages that wait to be sent; with more, no progress is told
UNSUPPORTED_DATA = 1003


async def endpoint(socket: WebSocket) -> None:
    caller = Caller(socket.scope)
    with caller.server.connection(caller.user):
        await socket.accept(SUBPROTOCOL if SUBPROTOCOL in socket.scope["subprotocols"] else None)
        connection = _Connection(socket, caller)
        writing = asyncio.create_task(connection.write())
        reading = asyncio.create_task(connection.read())
        try:
            await asyncio.wait({reading, writing}, return_when=asyncio.FIRST_COMPLETED)
            for task in (reading, writing):
                if task.done():
                    task.result()
        except WebSocketDisconnect:
            pass
        finally:
            connection.cancel_all()
            reading.cancel()
            writing.cancel()
            await asyncio.gather(reading, writing, return_exceptions=True)


class _Connection:
    """One client: what it sends is read here, and answered in any order."""

    def __init__(self, socket: WebSocket, caller: Caller) -> None:
        self._socket = socket
        self._caller = caller
        self._dispatcher = Dispatcher(caller.catalog)
        self._loop = asyncio.get_running_loop()
        self._outbox: asyncio.Queue[str] = asyncio.Queue()
        self._calls: dict[Any, Context] = {}
        key = caller.key
        caller.session = (
            Session() if key is None else caller.server.sessions.named(caller.user, key)
        )

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
                await self._socket.close(UNSUPPORTED_DATA, "Messages are text.")
                return
            try:
                self._take(decode(frame["text"].encode()))
            except RpcError as error:
                self._send(encode_json(failure(error.request_id, error)))
            if self._outbox.qsize() > MOST_CALLS:
                await self._outbox.join()  # a client that does not read is not listened to

    def cancel_all(self) -> None:
        for context in self._calls.values():
            context.cancel()

    def _take(self, message: Any) -> None:
        request_id = message.get("id") if isinstance(message, dict) else None
        request_id = request_id if is_id(request_id) else None
        if wait := self._caller.service.limiter.take(self._caller.user, limits.READ):
            if request_id is None:
                return
            told = f"Too many messages. Try again in {wait} seconds."
            raise RpcError(TOO_BUSY, told, data={"retryAfter": wait}, request_id=request_id)
        if takes_long(message):
            self._start(message, request_id)
        elif isinstance(message, dict) and message.get("method") == "notifications/cancelled":
            self._cancel(message.get("params"))
        else:
            answer = self._dispatcher.handle(message, self._caller.context())
            if isinstance(message, dict) and message.get("method") == "initialize":
                self._remember(message.get("params"))
            if answer is not None:
                self._send(encode_json(answer))

    def _remember(self, params: Any) -> None:
        assert self._caller.session is not None
        if isinstance(params, dict):
            self._caller.session.prefer(parse_preferences(params.get("config")))

    def _start(self, message: Any, request_id: Any) -> None:
        if len(self._calls) >= MOST_CALLS:
            raise RpcError(
                TOO_BUSY, "Too many calls at once: wait for an answer first", request_id=request_id
            )
        if request_id in self._calls:
            raise RpcError(
                INVALID_REQUEST, "Invalid request: this 'id' is in use", request_id=request_id
            )
        self._caller.take_key_argument(message)
        context = self._caller.context(self._notify)
        key = object() if request_id is None else request_id
        self._calls[key] = context
        self._caller.server.start(self._work(key, message, context))

    async def _work(self, key: Any, message: Any, context: Context) -> None:
        try:
            done = await self._caller.server.work(self._caller, self._dispatcher, message, context)
        finally:
            if self._calls.get(key) is context:
                del self._calls[key]
        if done.body is not None and not context.cancelled():
            self._send(done.body)

    def _cancel(self, params: Any) -> None:
        request_id = params.get("requestId") if isinstance(params, dict) else None
        context = self._calls.pop(request_id, None) if is_id(request_id) else None
        if context is not None:
            context.cancel()

    def _notify(self, method: str, params: dict[str, Any]) -> None:
        told = encode_json({"jsonrpc": "2.0", "method": method, "params": params})
        self._loop.call_soon_threadsafe(self._tell, told)

    def _tell(self, told: bytes) -> None:
        if self._outbox.qsize() < MOST_WAITING:
            self._send(told)

    def _send(self, message: bytes) -> None:
        self._outbox.put_nowait(message.decode())
