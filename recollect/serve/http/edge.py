"""The edge: checks that every request passes before it reaches a route.

In this order, and before the body is read: server load, request size, Host header, Origin header,
credential, rate limit, permission. A rejected request costs little and leaves nothing behind. A
WebSocket passes the same checks before it is accepted. On the way out, the edge adds security
headers.
"""

from __future__ import annotations

from starlette.types import Receive, Scope, Send

from recollect.serve.http.checks.edge_state import EdgeState
from recollect.serve.http.checks.http_exchange import HttpExchange
from recollect.serve.http.checks.websocket_exchange import WebSocketExchange


class Edge(EdgeState):
    """ASGI middleware in front of the framework."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await HttpExchange(self, scope, receive, send).run()
        elif scope["type"] == "websocket":
            await WebSocketExchange(self, scope, receive, send).run()
        else:
            await self.app(scope, receive, send)
