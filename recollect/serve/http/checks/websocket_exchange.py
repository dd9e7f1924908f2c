"""A WebSocket at the edge: the checks before it is accepted, and while it is open."""

from __future__ import annotations

import time

from starlette.datastructures import MutableHeaders
from starlette.types import Message, Receive, Scope, Send

from recollect.serve.http.checks import limits
from recollect.serve.http.checks.edge_state import EdgeState
from recollect.serve.http.checks.exchange import Exchange, StreamEnded
from recollect.serve.http.checks.route_policy import WEBSOCKET
from recollect.serve.http.error_responses import error_response


class WebSocketExchange(Exchange):
    """One WebSocket. It is closed when its credential is revoked or expires."""

    def __init__(self, edge: EdgeState, scope: Scope, receive: Receive, send: Send) -> None:
        super().__init__(edge, scope, receive, send, WEBSOCKET)
        self._is_open = False

    async def run(self) -> None:
        started_at = time.perf_counter()
        try:
            self._check_load()
            self._check_host()
            self._check_origin()
            await self._authenticate()
            self._check_rate(limits.READ)
            self._check_permission()
            await self._edge.app(self._scope, self._receive, self._send)
        except StreamEnded:
            pass  # the socket is closed
        except Exception as error:  # the client gets an error response, whatever it is
            self._log_failure(error)
            await self._refuse(error)
        finally:
            if self._is_open:
                self._service.metrics.open_streams.dec()
            self._log("websocket", started_at)

    async def _refuse(self, error: Exception) -> None:
        if self._is_open:
            await self._raw_send({"type": "websocket.close", "code": 1011})
        elif not self._status and "websocket.http.response" in self._scope.get("extensions", {}):
            response = error_response(error, self._scope)
            await response(self._scope, self._receive, self._send)
        elif not self._status:
            self._status = 403
            await self._raw_send({"type": "websocket.close", "code": 1008})

    async def _receive(self) -> Message:
        message = await self._raw_receive()
        if self._is_open and message["type"] == "websocket.receive":
            await self._recheck_credential()
        return message

    async def _send(self, message: Message) -> None:
        kind = message["type"]
        if kind == "websocket.send":
            await self._recheck_credential()
        elif kind == "websocket.accept":
            self._status, self._is_open = 101, True
            self._service.metrics.open_streams.inc()
        elif kind == "websocket.http.response.start":
            self._status = message["status"]
            headers = MutableHeaders(raw=message.setdefault("headers", []))
            headers.setdefault("X-Request-ID", self._request_id)
            headers["Cache-Control"] = "no-store"
        elif kind == "websocket.close" and not self._status:
            self._status = 403  # what the server responds if the socket was never accepted
        await self._raw_send(message)

    async def _recheck_credential(self) -> None:
        if not await self._is_still_allowed():
            await self._raw_send({"type": "websocket.close", "code": 1008})
            raise StreamEnded
