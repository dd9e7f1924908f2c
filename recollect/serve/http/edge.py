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
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any
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
    is_same_origin,
)
from recollect.serve.http.limits import WaitingRoom
from recollect.serve.http.responses import Problem, error_response, is_unexpected
from recollect.serve.http.routes import SAFE_METHODS, WEBSOCKET, RoutePolicies
from recollect.serve.http.service import Service
from recollect.serve.identity.accounts import cookie_values
from recollect.serve.identity.auth import Unauthorized
from recollect.serve.identity.principal import LOCAL, Principal
from recollect.serve.links import local
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

_HEADER_NAMES = re.compile(r"[A-Za-z0-9, _-]{1,2000}")
# Content types that a page of any site may send without a CORS preflight.
_SIMPLE_TYPES = ("", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data")
_SECURITY_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "font-src 'self'; connect-src 'self'; manifest-src 'self'; worker-src 'self'; "
        "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
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


def searches_at_once() -> int:
    """How many searches may run at once: one per processor, at least two.

    Threads that compete for a processor and for Python's lock need more CPU time: on two
    processors, a search took 34 ms alone, 46 ms next to one other, and 57 ms next to three.
    """
    return min(LIMITS.searches_at_once, max(2, os.cpu_count() or 1))


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
        self.in_flight = 0
        """Requests in progress, without event streams."""
        self.in_flight_of: Counter[str] = Counter()
        """The same by user, without those that need no credential."""
        self.waiting_bodies: WaitingRoom[HttpExchange] = WaitingRoom()
        """Requests in progress whose client has to send more, by user."""
        self.anonymous_bodies: WaitingRoom[HttpExchange] = WaitingRoom()
        """The same without a credential, by address."""
        self._direct_routes = direct_routes
        self._searches = asyncio.Semaphore(searches_at_once())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await HttpExchange(self, scope, receive, send, scope["method"]).run()
        elif scope["type"] == "websocket":
            await WebSocketExchange(self, scope, receive, send, WEBSOCKET).run()
        else:
            await self.app(scope, receive, send)

    @asynccontextmanager
    async def search_turn(self) -> AsyncIterator[None]:
        """Wait for a turn: too many searches at once would push each other past their deadlines.

        Raises Problem if it takes too long.
        """
        try:
            async with asyncio.timeout(LIMITS.search_wait_seconds):
                await self._searches.acquire()
        except TimeoutError:
            raise Problem(
                503, "The server is busy with other searches. Try again.", retry_after=1
            ) from None
        try:
            yield
        finally:
            self._searches.release()

    def handler(self, scope: Scope) -> ASGIApp:
        """The application that handles an admitted request."""
        for route in self._direct_routes:
            match, child_scope = route.matches(scope)
            if match is Match.FULL:
                scope.update(child_scope, route=route)
                return route.app
        return self.app


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
        self._rate_group = self._policy.rate_limit_for(method)
        self._request_id = self._headers.get("x-request-id", "")
        is_visible = self._request_id.isascii() and self._request_id.isprintable()
        if not (is_visible and 1 <= len(self._request_id) <= 128):
            self._request_id = secrets.token_hex(8)
        self._address = client_address(
            (scope.get("client") or ("",))[0],
            self._headers.getlist("x-forwarded-for"),
            edge.service.config.trusted_proxies,
        )
        self._state = {
            **scope.get("state", {}),
            "request_id": self._request_id,
            "search_turn": edge.search_turn,
            "policy": self._policy,
            "address": self._address,
        }
        self._scope: Scope = {**scope, "state": self._state}
        self._has_cookie = bool(cookie_values(self._headers.getlist("cookie")))
        self._cors_origin = ""
        """The other origin that may read the response."""
        self._principal: Principal | None = None
        self._credential: str | None = None
        self._credential_checked_at = 0.0
        self._status = 0

    # -- the checks that requests and WebSockets share ---

    def _check_load(self) -> None:
        edge = self._edge
        working = edge.in_flight - len(edge.waiting_bodies) - len(edge.anonymous_bodies)
        if working > LIMITS.requests_at_once and not self._policy.is_public:
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
        config, headers = self._service.config, self._headers
        origins = headers.getlist("origin")
        is_own = True
        if origins:
            is_own = is_same_origin(origins[0], headers.get("host", ""), config.base_url)
            if not is_own and origins[0] in config.cors_origins:
                self._cors_origin = origins[0]
        is_from_elsewhere = is_own and headers.get("sec-fetch-site") not in (
            None,
            "same-origin",
            "none",
        )
        # A user follows a link from another site. That site cannot read the response.
        is_navigation = (
            self._method in ("GET", "HEAD")
            and headers.get("sec-fetch-mode") == "navigate"
            and headers.get("sec-fetch-dest") in (None, "document")
        )
        # A write that a page of any site could have sent (CSRF).
        content_type = headers.get("content-type", "").partition(";")[0].strip().lower()
        is_simple_write = self._method not in SAFE_METHODS and content_type in _SIMPLE_TYPES
        if (
            len(origins) > 1
            or not (is_own or self._cors_origin)
            or (self._has_cookie and not is_own)  # other sites must use a key of their own
            or (is_from_elsewhere and not is_navigation)
            or (self._has_cookie and not origins and is_simple_write)
        ):
            self._cors_origin = ""
            raise Problem(
                403,
                "Pages of other sites may not send this request. "
                "To allow a site, start the server with --cors-origin ORIGIN.",
            )

    async def _check_credential(self) -> Principal:
        """Who sends this, if they may, and do not do so too often."""
        metrics = self._service.metrics
        try:
            principal, self._credential = await self._service.auth.authenticate(
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
        self._principal = self._state["principal"] = principal
        interface = "console" if self._has_cookie else "rest"
        if self._path == "/mcp" or self._path.startswith("/mcp/"):
            interface = "mcp"
        key = "" if principal.credential == LOCAL else principal.credential
        set_actor(Actor(principal.user, key, interface, self._address))
        if "connection" in self._state:
            self._state["connection"].prove()
        self._take(principal.user, self._rate_group)
        self._policy.check(principal)
        return principal

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

    # -- the log ---

    def _log(self, name: str, started_at: float) -> None:
        seconds = time.perf_counter() - started_at
        route, status = route_template(self._scope), self._status or 499
        self._service.metrics.count_request(route, self._method, status, seconds)
        method, principal = self._method, self._principal
        logs.event(
            name,
            method=method if method in (*METHODS, "OPTIONS") else "OTHER",
            route=route,
            status=status,
            ms=round(seconds * 1000, 2),
            user=principal and principal.user,
            credential=principal and principal.credential,
            request_id=self._request_id,
        )

    def _log_failure(self, error: Exception) -> None:
        if is_unexpected(error):
            logs.error(error, request_id=self._request_id, route=route_template(self._scope))


def route_template(scope: Scope) -> str:
    """The path of the matched route as written in the code, without ids or other user data."""
    return getattr(scope.get("route"), "path", None) or "-"


class HttpExchange(Exchange):
    """One request and its response."""

    def __init__(self, edge: Edge, scope: Scope, receive: Receive, send: Send, method: str) -> None:
        super().__init__(edge, scope, receive, send, method)
        if method == "HEAD":
            self._scope["method"] = "GET"
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
            response = await self._admit()
            if response is not None:
                await response(self._scope, self._receive, self._send)
            elif self._rate_group == limits.SEARCH:
                async with self._edge.search_turn():
                    await self._edge.app(self._scope, self._receive, self._send)
            else:
                handler = self._edge.handler(self._scope)
                await handler(self._scope, self._receive, self._send)
        except StreamEnded:
            pass  # the response is complete
        except Exception as error:  # the client gets an error response, whatever it is
            if not self._has_ended and not isinstance(error, ClientDisconnect):
                self._log_failure(error)
                if not self._status:  # otherwise the server closes the connection
                    await self._error_response(error)(self._scope, self._receive, self._send)
        finally:
            if self._is_stream:
                self._service.metrics.open_streams.dec()
            else:
                self._count_end()
            self._log("request", started_at)
            self._record()

    async def _admit(self) -> Response | None:
        """Admit the request or raise. CORS preflight requests are answered here."""
        self._check_load()
        length = self._headers.get("content-length", "0")
        if not (length.isascii() and length.isdecimal() and len(length) <= 18):
            raise Problem(400, "The Content-Length header is not a number.", headers=_CLOSE)
        if int(length) > self._max_bytes:
            raise self._too_large()
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
            return None
        user = (await self._check_credential()).user
        self._edge.in_flight_of[user] += 1
        self._is_counted = True
        working = self._edge.in_flight_of[user] - self._edge.waiting_bodies.count(user)
        if working > LIMITS.requests_each_user:  # leave some to other users
            raise Problem(503, "You have too many requests in progress. Try again.", retry_after=1)
        return None

    def _count_end(self) -> None:
        self._edge.in_flight -= 1
        if self._is_counted and self._principal is not None:
            self._edge.in_flight_of[self._principal.user] -= 1
            if not self._edge.in_flight_of[self._principal.user]:
                del self._edge.in_flight_of[self._principal.user]

    def _too_large(self) -> Problem:
        return Problem(
            413,
            f"The request body is too large. This route accepts {self._max_bytes:,} bytes.",
            headers=_CLOSE,
        )

    # -- the body ---

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
                if victim is not None and victim._patience is not None:
                    victim._patience.reschedule(asyncio.get_running_loop().time())
                return await self._raw_receive()
        except TimeoutError:
            raise Problem(408, "The request body arrived too slowly.", headers=_CLOSE) from None
        finally:
            self._waited_seconds += time.monotonic() - started_at
            self._patience = None
            room.leave(self)

    # -- the response ---

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            self._complete_headers(MutableHeaders(raw=message.setdefault("headers", [])))
            await self._raw_send(message)
            if self._method == "HEAD":
                await self._end()
        elif message["type"] != "http.response.body" or self._method != "HEAD":
            is_over = self._service.draining.is_set() and not self._policy.ends_streams
            if self._is_stream and (is_over or not await self._is_still_allowed()):
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
            headers["Allow"] = ", ".join(allowed_methods(self._scope))
        if self._cors_origin:
            headers["Access-Control-Allow-Origin"] = self._cors_origin
            headers["Access-Control-Expose-Headers"] = _EXPOSED_HEADERS
            headers.add_vary_header("Origin")
        is_event_stream = headers.get("content-type", "").startswith("text/event-stream")
        if is_event_stream and self._method != "HEAD":
            self._is_stream = True
            self._count_end()
            self._service.metrics.open_streams.inc()

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
        if target != "/" and local(target) == target:
            login += "?" + urlencode({"next": target})
        return RedirectResponse(login, 303)

    def _record(self) -> None:
        """Record in the audit log a request that read, searched or exported anything, or was
        refused. Deletions are recorded where they happen, and the tools of MCP one by one."""
        principal, policy = self._principal, self._policy
        if principal is None or current_actor().interface == "mcp":
            return
        method, route = self._scope["method"], getattr(self._scope.get("route"), "path", "")
        action = ""
        if self._status == 403:
            action = DENIED
        elif 200 <= self._status < 300 and (policy.toolsets or policy.one_of):
            if route.endswith("/export"):
                action = EXPORT
            elif policy.rate_limit == limits.SEARCH:
                action = SEARCH
            elif method in ("GET", "HEAD"):
                action = READ
        if action:
            ids = [str(value) for value in self._scope.get("path_params", {}).values()]
            entry = Entry.of(action, f"{method} {route}", ids)
            places.record(self._service.place, principal.user, entry)


def allowed_methods(scope: Scope) -> list[str]:
    """The methods that a path supports."""
    routes: list[Any] = scope["app"].router.routes

    def is_supported(method: str) -> bool:
        probe = {**scope, "method": "GET" if method == "HEAD" else method, "path_params": {}}
        return any(route.matches(probe)[0] is Match.FULL for route in routes)

    return list(filter(is_supported, METHODS))


class WebSocketExchange(Exchange):
    """One WebSocket. It is closed when its credential is revoked or expires."""

    _is_open = False

    async def run(self) -> None:
        started_at = time.perf_counter()
        try:
            self._check_load()
            self._check_host()
            self._check_origin()
            await self._check_credential()
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
