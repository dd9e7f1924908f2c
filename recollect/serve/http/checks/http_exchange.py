"""A request at the edge: its checks, its body, and the headers of its response."""

from __future__ import annotations

import asyncio
import re
import time
from urllib.parse import urlencode

from starlette.datastructures import MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.responses import RedirectResponse, Response
from starlette.routing import Match
from starlette.types import Message, Receive, Scope, Send

from recollect.serve.http.checks import limits
from recollect.serve.http.checks.connections import WaitingRoom
from recollect.serve.http.checks.edge_state import EdgeState, Waiter
from recollect.serve.http.checks.exchange import METHODS, Exchange, StreamEnded
from recollect.serve.http.checks.hosts import client_network
from recollect.serve.http.checks.origins import is_local_path
from recollect.serve.http.error_responses import DEFAULT_MESSAGES, Problem, error_response
from recollect.serve.http.monitoring.auditing import record_request
from recollect.serve.identity.auth import Unauthorized
from recollect.settings import LIMITS

STATIC = "/static/"

_HEADER_NAMES = re.compile(r"[A-Za-z0-9, _-]{1,2000}")
_CONTENT_LENGTH = re.compile(r"[0-9]{1,18}")
_CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "font-src 'self'",
        "connect-src 'self'",
        "manifest-src 'self'",
        "worker-src 'self'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    )
)
_SECURITY_HEADERS = {
    "Content-Security-Policy": _CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_PREFLIGHT_HEADERS = {
    "Access-Control-Allow-Methods": ", ".join(METHODS),
    "Access-Control-Max-Age": "600",
}
_EXPOSED_HEADERS = "X-Request-ID, Retry-After, Content-Disposition, Mcp-Session-Id"


class HttpExchange(Exchange):
    """One request and its response."""

    def __init__(self, edge: EdgeState, scope: Scope, receive: Receive, send: Send) -> None:
        super().__init__(edge, scope, receive, send, scope["method"])
        if self._method == "HEAD":
            self._scope["method"] = "GET"
        self._rate_group = self._policy.rate_limit_for(self._method)
        self._max_bytes: int = getattr(LIMITS, self._policy.body_limit)
        self._received_bytes = 0
        self._waited_seconds = 0.0
        self._patience: asyncio.Timeout | None = None
        """How long to wait for the next piece of the body, while we do."""
        self._is_body_complete = False
        self._is_counted = False
        """Whether the request counts against its user's share."""
        self._is_stream = False
        self._has_ended = False

    async def run(self) -> None:
        started_at = time.perf_counter()
        self._edge.in_flight += 1
        try:
            await self._handle()
        except StreamEnded:
            pass  # the response is complete
        except Exception as error:  # the client gets an error response, whatever it is
            await self._handle_error(error)
        finally:
            if self._is_stream:
                self._service.metrics.open_streams.dec()
            else:
                self._count_end()
            self._log("request", started_at)
            if self._principal is not None:
                record_request(
                    self._service, self._principal, self._scope, self._policy, self._status
                )

    async def _handle(self) -> None:
        response = await self._admit()
        if response is not None:
            await response(self._scope, self._receive, self._send)
        elif self._rate_group == limits.SEARCH:
            async with self._edge.search_turns:
                await self._edge.app(self._scope, self._receive, self._send)
        else:
            handler = self._edge.handler(self._scope)
            await handler(self._scope, self._receive, self._send)

    async def _handle_error(self, error: Exception) -> None:
        if self._has_ended or isinstance(error, ClientDisconnect):
            return
        self._log_failure(error)
        if not self._status:  # otherwise the server closes the connection
            response = self._error_response(error)
            await response(self._scope, self._receive, self._send)

    async def _admit(self) -> Response | None:
        """Admit the request or raise. Preflight and OPTIONS requests are answered here."""
        self._check_load()
        self._check_size()
        self._check_host()
        self._check_origin()
        if self._is_preflight():
            return Response(status_code=204, headers=_PREFLIGHT_HEADERS | self._allowed_headers())
        if self._policy.is_public:
            self._check_address_rate(self._rate_group)
        else:
            await self._authenticate()
            self._check_rate(self._rate_group)
            self._check_permission()
            self._check_share()
        if self._method != "OPTIONS":
            return None
        methods = _allowed_methods(self._scope)
        if not methods:
            raise Problem(404, DEFAULT_MESSAGES[404])
        return Response(status_code=204, headers={"Allow": ", ".join(methods)})

    def _check_share(self) -> None:
        """Leave some requests to other users."""
        assert self._principal is not None
        user = self._principal.user
        self._edge.in_flight_of[user] += 1
        self._is_counted = True
        if self._edge.in_flight_of[user] - self._edge.waiting_bodies.count(user) > (
            LIMITS.requests_each_user
        ):
            raise Problem(503, "You have too many requests in progress. Try again.", retry_after=1)

    def _count_end(self) -> None:
        self._edge.in_flight -= 1
        if self._is_counted and self._principal is not None:
            self._edge.in_flight_of[self._principal.user] -= 1
            if not self._edge.in_flight_of[self._principal.user]:
                del self._edge.in_flight_of[self._principal.user]

    def _is_preflight(self) -> bool:
        return (
            bool(self._cors_origin)
            and self._method == "OPTIONS"
            and bool(self._headers.get("access-control-request-method"))
        )

    def _allowed_headers(self) -> dict[str, str]:
        """An allowed site may send any header. OpenAI's clients send a dozen of their own."""
        names = self._headers.get("access-control-request-headers", "")
        if not _HEADER_NAMES.fullmatch(names):
            return {}
        return {"Access-Control-Allow-Headers": names}

    def _check_size(self) -> None:
        length = self._headers.get("content-length")
        if length is None:
            return
        if not _CONTENT_LENGTH.fullmatch(length):
            raise Problem(
                400, "The Content-Length header is not a number.", headers={"Connection": "close"}
            )
        if int(length) > self._max_bytes:
            raise self._too_large()

    def _too_large(self) -> Problem:
        return Problem(
            413,
            f"The request body is too large. This route accepts {self._max_bytes:,} bytes.",
            headers={"Connection": "close"},
        )

    # -- the body and the response ---

    async def _receive(self) -> Message:
        if self._is_body_complete:
            return await self._raw_receive()
        message = await self._wait_for_client()
        if message["type"] == "http.request":
            self._received_bytes += len(message.get("body", b""))
            if self._received_bytes > self._max_bytes:
                raise self._too_large()
            self._is_body_complete = not message.get("more_body", False)
        return message

    async def _wait_for_client(self) -> Message:
        """The next piece of the body. Raises Problem if the client is too slow, or has to give way
        to others."""
        room, holder, each, total = self._waiting_room()
        room.enter(self, holder)
        started_at = time.monotonic()
        try:
            async with asyncio.timeout(self._seconds_to_wait()) as self._patience:
                victim = room.victim(holder, each, total)
                if victim is not None:
                    victim.give_way()
                return await self._raw_receive()
        except TimeoutError:
            raise Problem(
                408, "The request body arrived too slowly.", headers={"Connection": "close"}
            ) from None
        finally:
            self._waited_seconds += time.monotonic() - started_at
            self._patience = None
            room.leave(self)

    def _waiting_room(self) -> tuple[WaitingRoom[Waiter], str, int, int]:
        """Where to wait, on whose account, and how many may, of that account and in total."""
        if self._principal is None:
            room, holder = self._edge.anonymous_bodies, client_network(self._address)
            return room, holder, LIMITS.anonymous_bodies_each_address, LIMITS.anonymous_bodies
        room, holder = self._edge.waiting_bodies, self._principal.user
        return room, holder, LIMITS.waiting_bodies_each_user, LIMITS.waiting_bodies

    def _seconds_to_wait(self) -> float:
        """The time until the next piece, and until the whole body falls below the minimal rate."""
        earned = LIMITS.body_seconds + self._received_bytes / LIMITS.body_bytes_per_second
        return max(0.0, min(LIMITS.body_seconds, earned - self._waited_seconds))

    def give_way(self) -> None:
        """Stop waiting for the client."""
        if self._patience is not None:
            self._patience.reschedule(asyncio.get_running_loop().time())

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            self._complete_headers(MutableHeaders(raw=message.setdefault("headers", [])))
            await self._raw_send(message)
            if self._method == "HEAD":
                await self._end()
        elif message["type"] != "http.response.body" or self._method != "HEAD":
            if self._is_stream and not await self._may_continue():
                await self._end()
            await self._raw_send(message)
        elif message.get("more_body"):
            raise StreamEnded

    def _complete_headers(self, headers: MutableHeaders) -> None:
        for name, value in _SECURITY_HEADERS.items():
            headers.setdefault(name, value)
        headers.setdefault("X-Request-ID", self._request_id)  # a proxied response has its own
        if not self._path.startswith(STATIC) or self._status >= 400:
            headers["Cache-Control"] = "no-store"
        if self._status == 405:
            methods = _allowed_methods(self._scope)
            if methods:
                headers["Allow"] = ", ".join(methods)
        if self._cors_origin:
            headers["Access-Control-Allow-Origin"] = self._cors_origin
            headers["Access-Control-Expose-Headers"] = _EXPOSED_HEADERS
            headers.add_vary_header("Origin")
        is_event_stream = headers.get("content-type", "").startswith("text/event-stream")
        if is_event_stream and self._method != "HEAD":
            self._is_stream = True
            self._count_end()
            self._service.metrics.open_streams.inc()

    async def _may_continue(self) -> bool:
        """Whether an event stream may continue."""
        if self._service.draining.is_set() and not self._policy.ends_streams:
            return False
        return await self._is_still_allowed()

    async def _end(self) -> None:
        await self._raw_send({"type": "http.response.body", "body": b"", "more_body": False})
        self._has_ended = True
        if self._is_stream:
            raise StreamEnded

    def _error_response(self, error: Exception) -> Response:
        if isinstance(error, Unauthorized) and self._wants_page():
            return RedirectResponse(f"/login{self._next_parameter()}", 303)
        return error_response(error, self._scope)

    def _next_parameter(self) -> str:
        """The query string that makes the login page return here."""
        target = self._scope.get("raw_path", self._path.encode()).decode("latin-1")
        query = self._scope.get("query_string", b"").decode("latin-1")
        if query:
            target += f"?{query}"
        if target == "/" or not is_local_path(target):
            return ""
        return "?" + urlencode({"next": target})

    def _wants_page(self) -> bool:
        """Whether a browser navigates to a page, as opposed to a program calling the API."""
        return (
            self._method in ("GET", "HEAD")
            and "text/html" in self._headers.get("accept", "")
            and not self._path.startswith(("/api/", "/v1/"))
        )


def _allowed_methods(scope: Scope) -> list[str]:
    """The methods that a path supports."""
    methods = []
    for method in METHODS:
        probe = {**scope, "method": method, "path_params": {}}
        if method == "HEAD":
            probe["method"] = "GET"
        if any(route.matches(probe)[0] is Match.FULL for route in scope["app"].router.routes):
            methods.append(method)
    if methods:
        methods.append("OPTIONS")
    return methods
