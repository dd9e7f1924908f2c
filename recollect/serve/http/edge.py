"""The edge: checks that every request passes before it reaches a route.

In this order, and before the body is read: server load, request size, Host header, Origin header,
credential, rate limit, permission. A rejected request costs little and leaves nothing behind. A
WebSocket passes the same checks before it is accepted. On the way out, the edge adds security
headers.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from collections import Counter
from collections.abc import Sequence
from urllib.parse import urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Match, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from recollect.serve.http import limits, logs
from recollect.serve.http.auditing import http_actor, record_request
from recollect.serve.http.connections import WaitingRoom
from recollect.serve.http.error_responses import (
    DEFAULT_MESSAGES,
    Problem,
    error_response,
    is_unexpected,
)
from recollect.serve.http.hosts import client_address, client_network
from recollect.serve.http.origins import is_allowed_host, is_local_path, is_same_origin
from recollect.serve.http.route_policy import SAFE_METHODS, WEBSOCKET, RoutePolicies
from recollect.serve.http.service import Service
from recollect.serve.identity.auth import Unauthorized
from recollect.serve.identity.principal import Principal
from recollect.serve.identity.sessions import cookie_values
from recollect.settings import LIMITS
from recollect.store.audit_log import set_actor

STATIC = "/static/"
RECHECK_SECONDS = 5.0
"""How often the credential of an open stream is checked again."""

_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
_HEADER_NAMES = re.compile(r"[A-Za-z0-9, _-]{1,2000}")
_REQUEST_ID = re.compile(r"[\x20-\x7e]{1,128}")
_CONTENT_LENGTH = re.compile(r"[0-9]{1,18}")
# Content types that a page of any site may send without a CORS preflight.
_SIMPLE_TYPES = frozenset(
    ("", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data")
)
_CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "font-src 'self'",
        "connect-src 'self'",
        "manifest-src 'self'",
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
    "Access-Control-Allow-Methods": ", ".join(_METHODS),
    "Access-Control-Max-Age": "600",
}
_EXPOSED_HEADERS = "X-Request-ID, Retry-After, Content-Disposition, Mcp-Session-Id"


class Edge:
    """ASGI middleware in front of the framework.

    Requests for `direct_routes` (MCP) bypass the framework's router. It costs more than most tool
    calls do: without the bypass, a server answers about half as many small calls (bench/README.md,
    "MCP": 1.4 to 2.5 times the official SDK instead of 2.6 to 4.9 times).
    """

    def __init__(
        self,
        app: ASGIApp,
        service: Service,
        routes: Sequence[BaseRoute] = (),
        direct_routes: Sequence[Route] = (),
    ) -> None:
        self.app = app
        self.service = service
        self.policies = RoutePolicies(routes)
        self.search_turns = SearchTurns()
        self.in_flight = 0
        """Requests in progress, without event streams."""
        self.in_flight_of: Counter[str] = Counter()
        """The same by user, without those that need no credential."""
        self.waiting_bodies: WaitingRoom[_HttpExchange] = WaitingRoom()
        """Requests in progress whose client has to send more, by user."""
        self.anonymous_bodies: WaitingRoom[_HttpExchange] = WaitingRoom()
        """The same without a credential, by address."""
        self._direct_routes = direct_routes

    @property
    def busy(self) -> int:
        """Requests that the server works on."""
        return self.in_flight - len(self.waiting_bodies) - len(self.anonymous_bodies)

    def handler(self, scope: Scope) -> ASGIApp:
        """The application that handles an admitted request."""
        for route in self._direct_routes:
            match, child_scope = route.matches(scope)
            if match is Match.FULL:
                scope.update(child_scope, route=route)
                return route.app
        return self.app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await _HttpExchange(self, scope, receive, send).run()
        elif scope["type"] == "websocket":
            await _WebSocketExchange(self, scope, receive, send).run()
        else:
            await self.app(scope, receive, send)


class SearchTurns:
    """Searches take turns: too many at once would push each other past their deadlines."""

    def __init__(self) -> None:
        self._semaphore = asyncio.Semaphore(LIMITS.searches_at_once)

    async def __aenter__(self) -> None:
        try:
            async with asyncio.timeout(LIMITS.search_wait_seconds):
                await self._semaphore.acquire()
        except TimeoutError:
            raise Problem(
                503, "The server is busy with other searches. Try again.", retry_after=1
            ) from None

    async def __aexit__(self, *_: object) -> None:
        self._semaphore.release()


class _StreamEnded(Exception):
    """The edge ended the response. Whatever produces it can stop."""


class _Exchange:
    """The checks that requests and WebSockets share."""

    def __init__(self, edge: Edge, scope: Scope, receive: Receive, send: Send, method: str) -> None:
        self._edge = edge
        self._service = edge.service
        self._raw_receive = receive
        self._raw_send = send
        self._headers = Headers(scope=scope)
        self._method = method
        self._path: str = scope["path"]
        self._policy = edge.policies.find(method, self._path)
        self._request_id = self._headers.get("x-request-id", "")
        if not _REQUEST_ID.fullmatch(self._request_id):
            self._request_id = secrets.token_hex(8)
        self._scope: Scope = {**scope}
        self._scope["state"] = {
            **scope.get("state", {}),
            "request_id": self._request_id,
            "turn": edge.search_turns,
            "policy": self._policy,
        }
        self._address = client_address(
            (scope.get("client") or ("",))[0],
            self._headers.getlist("x-forwarded-for"),
            edge.service.config.trusted_proxies,
        )
        self._scope["state"]["address"] = self._address
        self._has_cookie = bool(cookie_values(self._headers.getlist("cookie")))
        self._cors_origin = ""  # the other origin that may read the response
        self._principal: Principal | None = None
        self._credential: str | None = None
        self._credential_checked_at = 0.0
        self._status = 0

    def _log(self, name: str, started_at: float) -> None:
        seconds = time.perf_counter() - started_at
        route, status = _route_template(self._scope), self._status or 499
        self._service.metrics.count_request(route, self._method, status, seconds)
        method, user, credential = self._method, None, None
        if method not in (*_METHODS, "OPTIONS"):
            method = "OTHER"
        if self._principal is not None:
            user, credential = self._principal.user, self._principal.credential
        logs.event(
            name,
            method=method,
            route=route,
            status=status,
            ms=round(seconds * 1000, 2),
            user=user,
            credential=credential,
            request_id=self._request_id,
        )

    def _log_failure(self, error: Exception) -> None:
        if is_unexpected(error):
            logs.error(error, request_id=self._request_id, route=_route_template(self._scope))

    # -- checks ---

    def _check_load(self) -> None:
        if self._edge.busy > LIMITS.requests_at_once and not self._policy.is_public:
            raise Problem(503, "The server is busy. Try again.", retry_after=1)

    def _check_host(self) -> None:
        hosts = self._headers.getlist("host")
        server = self._scope.get("server")
        if len(hosts) != 1 or not is_allowed_host(hosts[0], self._service.config, server):
            raise Problem(
                421,
                "This server does not accept requests for that host name (Host header). "
                "To allow a name, start the server with --allow-host NAME.",
                headers={"Connection": "close"},
            )

    def _check_origin(self) -> None:
        config, origins = self._service.config, self._headers.getlist("origin")
        is_own = True
        if origins:
            is_own = is_same_origin(origins[0], self._headers.get("host", ""), config)
            if len(origins) > 1 or not (is_own or origins[0] in config.cors_origins):
                raise _cross_origin_problem()
            if not is_own:
                self._cors_origin = origins[0]
        if self._has_cookie and not is_own:
            raise _cross_origin_problem()  # other sites must use a key of their own
        site = self._headers.get("sec-fetch-site")
        if is_own and site not in (None, "same-origin", "none") and not self._is_navigation():
            raise _cross_origin_problem()
        if self._has_cookie and not origins and self._needs_no_preflight():
            raise _cross_origin_problem()

    def _is_navigation(self) -> bool:
        """Whether a user follows a link from another site. That site cannot read the response."""
        return (
            self._method in ("GET", "HEAD")
            and self._headers.get("sec-fetch-mode") == "navigate"
            and self._headers.get("sec-fetch-dest") in (None, "document")
        )

    def _needs_no_preflight(self) -> bool:
        """Whether this is a write that a page of any site could have sent (CSRF)."""
        content_type = self._headers.get("content-type", "").partition(";")[0].strip().lower()
        return self._method not in SAFE_METHODS and content_type in _SIMPLE_TYPES

    async def _authenticate(self) -> None:
        auth, metrics = self._service.auth, self._service.metrics
        try:
            self._principal, self._credential = await auth.authenticate(
                self._headers.raw, self._address
            )
        except Problem as problem:
            if problem.status_code == 401:
                metrics.auth_failures.inc()
                self._check_anonymous_rate()
            elif problem.status_code == 429:
                metrics.rate_limited.labels("auth").inc()
            raise
        self._credential_checked_at = time.monotonic()
        self._scope["state"]["principal"] = self._principal
        set_actor(http_actor(self._principal, self._path, self._address, self._has_cookie))
        connection = self._scope["state"].get("connection")
        if connection is not None:
            connection.prove()

    def _check_rate(self, group: str) -> None:
        assert self._principal is not None
        self._take(self._principal.user, group)

    def _check_anonymous_rate(self) -> None:
        self._take(client_network(self._address), limits.ANONYMOUS)

    def _take(self, key: str, group: str) -> None:
        wait = self._service.limiter.take(key, group)
        if wait:
            self._service.metrics.rate_limited.labels(group).inc()
            raise Problem(
                429, f"Too many requests. Try again in {_seconds(wait)}.", retry_after=wait
            )

    def _check_permission(self) -> None:
        assert self._principal is not None
        self._policy.check(self._principal)

    async def _is_still_allowed(self) -> bool:
        """Whether a stream may continue: its credential is neither revoked nor expired."""
        if self._principal is None or self._credential is None:
            return True
        if time.monotonic() - self._credential_checked_at < RECHECK_SECONDS:
            return True
        self._credential_checked_at = time.monotonic()
        return await self._service.auth.is_still_valid(self._principal, self._credential)


class _WebSocketExchange(_Exchange):
    """One WebSocket. It is closed when its credential is revoked or expires."""

    def __init__(self, edge: Edge, scope: Scope, receive: Receive, send: Send) -> None:
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
        except _StreamEnded:
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
            raise _StreamEnded


class _HttpExchange(_Exchange):
    """One request and its response."""

    def __init__(self, edge: Edge, scope: Scope, receive: Receive, send: Send) -> None:
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
        except _StreamEnded:
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
            self._check_anonymous_rate()
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

    def _waiting_room(self) -> tuple[WaitingRoom[_HttpExchange], str, int, int]:
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
            raise _StreamEnded

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
            raise _StreamEnded

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


def _cross_origin_problem() -> Problem:
    return Problem(
        403,
        "Pages of other sites may not send this request. "
        "To allow a site, start the server with --cors-origin ORIGIN.",
    )


def _seconds(count: int) -> str:
    if count == 1:
        return "1 second"
    return f"{count} seconds"


def _route_template(scope: Scope) -> str:
    """The path of the matched route as written in the code, without ids or other user data."""
    path = getattr(scope.get("route"), "path", None)
    if isinstance(path, str) and path:
        return path
    return "-"


def _allowed_methods(scope: Scope) -> list[str]:
    """The methods that a path supports."""
    methods = []
    for method in _METHODS:
        probe = {**scope, "method": method, "path_params": {}}
        if method == "HEAD":
            probe["method"] = "GET"
        if any(route.matches(probe)[0] is Match.FULL for route in scope["app"].router.routes):
            methods.append(method)
    if methods:
        methods.append("OPTIONS")
    return methods
