"""The edge: checks that every request passes before it reaches a route.

In this order, and before the body is read: server load, request size, Host header, Origin header,
credential, rate limit, permission. A rejected request costs little and leaves nothing behind. A
WebSocket passes the same checks before it is accepted. On the way out, the edge adds security
headers, writes the log and the audit log, and ends streams whose credential was revoked.
"""

from __future__ import annotations

import asyncio
import os
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

from recollect import places
from recollect.serve.http import limits, logs
from recollect.serve.http.hosts import (
    client_address,
    client_network,
    is_allowed_host,
    is_local_path,
    is_same_origin,
)
from recollect.serve.http.limits import WaitingRoom
from recollect.serve.http.responses import (
    DEFAULT_MESSAGES,
    Problem,
    error_response,
    is_unexpected,
)
from recollect.serve.http.route_policy import SAFE_METHODS, WEBSOCKET, RoutePolicies, RoutePolicy
from recollect.serve.http.service import Service
from recollect.serve.identity.accounts import cookie_values
from recollect.serve.identity.auth import Unauthorized
from recollect.serve.identity.principal import LOCAL, Principal
from recollect.settings import LIMITS
from recollect.store.audit_log import (
    DENIED,
    EXPORT,
    READ,
    SEARCH,
    Actor,
    Entry,
    current_actor,
    set_actor,
)

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
RECHECK_SECONDS = 5.0
"""How often the credential of an open stream is checked again."""
STATIC = "/static/"

_REQUEST_ID = re.compile(r"[\x20-\x7e]{1,128}")
_HEADER_NAMES = re.compile(r"[A-Za-z0-9, _-]{1,2000}")
_CONTENT_LENGTH = re.compile(r"[0-9]{1,18}")
# Content types that a page of any site may send without a CORS preflight.
_SIMPLE_TYPES = frozenset(
    ("", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data")
)
_CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "font-src 'self'; connect-src 'self'; manifest-src 'self'; worker-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
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
_CLOSE = {"Connection": "close"}


class StreamEnded(Exception):
    """The edge ended the response. Whatever produces it can stop."""


class Edge:
    """ASGI middleware in front of the framework, and what all requests share.

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
        self.waiting_bodies: WaitingRoom[HttpExchange] = WaitingRoom()
        """Requests in progress whose client has to send more, by user."""
        self.anonymous_bodies: WaitingRoom[HttpExchange] = WaitingRoom()
        """The same without a credential, by address."""
        self._direct_routes = direct_routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await HttpExchange(self, scope, receive, send).run()
        elif scope["type"] == "websocket":
            await WebSocketExchange(self, scope, receive, send).run()
        else:
            await self.app(scope, receive, send)

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


def searches_at_once() -> int:
    """How many searches may run at once: one per processor, at least two.

    Threads that compete for a processor and for Python's lock need more CPU time: on two
    processors, a search took 34 ms alone, 46 ms next to one other, and 57 ms next to three.
    """
    return min(LIMITS.searches_at_once, max(2, os.cpu_count() or 1))


class SearchTurns:
    """Searches take turns: too many at once would push each other past their deadlines.

    `async with` waits for a turn. Raises Problem if it takes too long.
    """

    def __init__(self) -> None:
        self._semaphore = asyncio.Semaphore(searches_at_once())

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


# -- the checks that requests and WebSockets share ---


class Exchange:
    """One request or WebSocket at the edge."""

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
        self._address = client_address(
            (scope.get("client") or ("",))[0],
            self._headers.getlist("x-forwarded-for"),
            edge.service.config.trusted_proxies,
        )
        self._state = {
            **scope.get("state", {}),
            "request_id": self._request_id,
            "turn": edge.search_turns,
            "policy": self._policy,
            "address": self._address,
        }
        self._scope: Scope = {**scope, "state": self._state}
        self._has_cookie = bool(cookie_values(self._headers.getlist("cookie")))
        self._cors_origin = ""  # the other origin that may read the response
        self._principal: Principal | None = None
        self._credential: str | None = None
        self._credential_checked_at = 0.0
        self._status = 0

    def _log(self, name: str, started_at: float) -> None:
        seconds = time.perf_counter() - started_at
        route, status = route_template(self._scope), self._status or 499
        self._service.metrics.count_request(route, self._method, status, seconds)
        method, user, credential = self._method, None, None
        if method not in (*METHODS, "OPTIONS"):
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
            logs.error(error, request_id=self._request_id, route=route_template(self._scope))

    def _check_load(self) -> None:
        if self._edge.busy > LIMITS.requests_at_once and not self._policy.is_public:
            raise Problem(503, "The server is busy. Try again.", retry_after=1)

    def _check_host(self) -> None:
        hosts, config = self._headers.getlist("host"), self._service.config
        server = self._scope.get("server")
        if len(hosts) != 1 or not is_allowed_host(
            hosts[0], config.port, config.public_hosts, server
        ):
            raise Problem(
                421,
                "This server does not accept requests for that host name (Host header). "
                "To allow a name, start the server with --allow-host NAME.",
                headers=_CLOSE,
            )

    def _check_origin(self) -> None:
        config, origins = self._service.config, self._headers.getlist("origin")
        is_own = True
        if origins:
            is_own = is_same_origin(origins[0], self._headers.get("host", ""), config.base_url)
            if not is_own and origins[0] in config.cors_origins:
                self._cors_origin = origins[0]
        site = self._headers.get("sec-fetch-site")
        is_from_elsewhere = is_own and site not in (None, "same-origin", "none")
        # A write that a page of any site could have sent (CSRF).
        content_type = self._headers.get("content-type", "").partition(";")[0].strip().lower()
        is_simple_write = self._method not in SAFE_METHODS and content_type in _SIMPLE_TYPES
        if (
            len(origins) > 1
            or not (is_own or self._cors_origin)
            or (self._has_cookie and not is_own)  # other sites must use a key of their own
            or (is_from_elsewhere and not self._is_navigation())
            or (self._has_cookie and not origins and is_simple_write)
        ):
            self._cors_origin = ""
            raise Problem(
                403,
                "Pages of other sites may not send this request. "
                "To allow a site, start the server with --cors-origin ORIGIN.",
            )

    def _is_navigation(self) -> bool:
        """Whether a user follows a link from another site. That site cannot read the response."""
        return (
            self._method in ("GET", "HEAD")
            and self._headers.get("sec-fetch-mode") == "navigate"
            and self._headers.get("sec-fetch-dest") in (None, "document")
        )

    async def _authenticate(self) -> None:
        auth, metrics = self._service.auth, self._service.metrics
        try:
            self._principal, self._credential = await auth.authenticate(
                self._headers.raw, self._address
            )
        except Problem as problem:
            if problem.status_code == 401:
                metrics.auth_failures.inc()
                self._take(client_network(self._address), limits.ANONYMOUS)
            elif problem.status_code == 429:
                metrics.rate_limited.labels("auth").inc()
            raise
        self._credential_checked_at = time.monotonic()
        self._state["principal"] = self._principal
        set_actor(actor(self._principal, self._path, self._address, self._has_cookie))
        connection = self._state.get("connection")
        if connection is not None:
            connection.prove()

    def _take(self, key: str, group: str) -> None:
        """Count against a rate limit."""
        wait = self._service.limiter.take(key, group)
        if wait:
            self._service.metrics.rate_limited.labels(group).inc()
            seconds = "1 second" if wait == 1 else f"{wait} seconds"
            raise Problem(429, f"Too many requests. Try again in {seconds}.", retry_after=wait)

    async def _is_still_allowed(self) -> bool:
        """Whether a stream may continue: its credential is neither revoked nor expired."""
        if self._principal is None or self._credential is None:
            return True
        if time.monotonic() - self._credential_checked_at < RECHECK_SECONDS:
            return True
        self._credential_checked_at = time.monotonic()
        return await self._service.auth.is_still_valid(self._principal, self._credential)


def route_template(scope: Scope) -> str:
    """The path of the matched route as written in the code, without ids or other user data."""
    path = getattr(scope.get("route"), "path", None)
    if isinstance(path, str) and path:
        return path
    return "-"


# -- HTTP ---


class HttpExchange(Exchange):
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
                record(self._service, self._principal, self._scope, self._policy, self._status)

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
        wants_method = self._headers.get("access-control-request-method")
        if self._cors_origin and self._method == "OPTIONS" and wants_method:
            headers = dict(_PREFLIGHT_HEADERS)
            names = self._headers.get("access-control-request-headers", "")
            if _HEADER_NAMES.fullmatch(names):  # OpenAI's clients send a dozen of their own
                headers["Access-Control-Allow-Headers"] = names
            return Response(status_code=204, headers=headers)
        if self._policy.is_public:
            self._take(client_network(self._address), self._rate_group)
        else:
            await self._authenticate()
            assert self._principal is not None
            self._take(self._principal.user, self._rate_group)
            self._policy.check(self._principal)
            self._check_share(self._principal.user)
        if self._method != "OPTIONS":
            return None
        methods = allowed_methods(self._scope)
        if not methods:
            raise Problem(404, DEFAULT_MESSAGES[404])
        return Response(status_code=204, headers={"Allow": ", ".join(methods)})

    def _check_share(self, user: str) -> None:
        """Leave some requests to other users."""
        self._edge.in_flight_of[user] += 1
        self._is_counted = True
        working = self._edge.in_flight_of[user] - self._edge.waiting_bodies.count(user)
        if working > LIMITS.requests_each_user:
            raise Problem(503, "You have too many requests in progress. Try again.", retry_after=1)

    def _count_end(self) -> None:
        self._edge.in_flight -= 1
        if self._is_counted and self._principal is not None:
            self._edge.in_flight_of[self._principal.user] -= 1
            if not self._edge.in_flight_of[self._principal.user]:
                del self._edge.in_flight_of[self._principal.user]

    def _check_size(self) -> None:
        length = self._headers.get("content-length")
        if length is None:
            return
        if not _CONTENT_LENGTH.fullmatch(length):
            raise Problem(400, "The Content-Length header is not a number.", headers=_CLOSE)
        if int(length) > self._max_bytes:
            raise self._too_large()

    def _too_large(self) -> Problem:
        return Problem(
            413,
            f"The request body is too large. This route accepts {self._max_bytes:,} bytes.",
            headers=_CLOSE,
        )

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
        if self._principal is None:
            room, holder = self._edge.anonymous_bodies, client_network(self._address)
            each, total = LIMITS.anonymous_bodies_each_address, LIMITS.anonymous_bodies
        else:
            room, holder = self._edge.waiting_bodies, self._principal.user
            each, total = LIMITS.waiting_bodies_each_user, LIMITS.waiting_bodies
        room.enter(self, holder)
        started_at = time.monotonic()
        # The time until the next piece, and until the whole body falls below the minimal rate.
        earned = LIMITS.body_seconds + self._received_bytes / LIMITS.body_bytes_per_second
        seconds = max(0.0, min(LIMITS.body_seconds, earned - self._waited_seconds))
        try:
            async with asyncio.timeout(seconds) as self._patience:
                victim = room.victim(holder, each, total)
                if victim is not None:
                    victim.give_way()
                return await self._raw_receive()
        except TimeoutError:
            raise Problem(408, "The request body arrived too slowly.", headers=_CLOSE) from None
        finally:
            self._waited_seconds += time.monotonic() - started_at
            self._patience = None
            room.leave(self)

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
            methods = allowed_methods(self._scope)
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
        """An error, or the login page for a browser that navigates to a page."""
        is_page = (
            self._method in ("GET", "HEAD")
            and "text/html" in self._headers.get("accept", "")
            and not self._path.startswith(("/api/", "/v1/"))
        )
        if not (is_page and isinstance(error, Unauthorized)):
            return error_response(error, self._scope)
        target = self._scope.get("raw_path", self._path.encode()).decode("latin-1")
        query = self._scope.get("query_string", b"").decode("latin-1")
        if query:
            target += f"?{query}"
        login = "/login"
        if target != "/" and is_local_path(target):
            login += "?" + urlencode({"next": target})
        return RedirectResponse(login, 303)


def allowed_methods(scope: Scope) -> list[str]:
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


# -- WebSockets ---


class WebSocketExchange(Exchange):
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
            assert self._principal is not None
            self._take(self._principal.user, limits.READ)
            self._policy.check(self._principal)
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


# -- the audit log ---


def actor(principal: Principal, path: str, peer: str, has_cookie: bool) -> Actor:
    """Who sends a request."""
    interface = "console" if has_cookie else "rest"
    if path == "/mcp" or path.startswith("/mcp/"):
        interface = "mcp"
    key = "" if principal.credential == LOCAL else principal.credential
    return Actor(principal.user, key, interface, peer)


def record(
    service: Service, principal: Principal, scope: Scope, policy: RoutePolicy, status: int
) -> None:
    """Record a request that read, searched or exported anything, or was refused.

    Deletions are recorded where they happen, and the tools of MCP one by one.
    """
    method, route = scope["method"], getattr(scope.get("route"), "path", "")
    action = ""
    if status == 403:
        action = DENIED
    elif 200 <= status < 300 and policy.toolsets:  # the other routes show no documents
        if route.endswith("/export"):
            action = EXPORT
        elif policy.rate_limit == limits.SEARCH:
            action = SEARCH
        elif method in ("GET", "HEAD"):
            action = READ
    if action and current_actor().interface != "mcp":
        ids = [str(value) for value in scope.get("path_params", {}).values()]
        places.record(service.place, principal.user, Entry.of(action, f"{method} {route}", ids))
