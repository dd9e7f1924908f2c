"""The edge: what every request passes before a route sees it, and every answer on its way out.

In this order, and before anything of the body is read: how much is going on,
how large the request is, whether it was meant for this server (Host), which web
page sends it (Origin), who sends it, how often. Whatever is refused costs
little and leaves nothing behind. A WebSocket passes the same checks before it is
accepted.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from collections.abc import Sequence
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

from starlette.datastructures import MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.responses import RedirectResponse, Response
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from recollect.serve.http import limits, logs
from recollect.serve.http.access import Principal
from recollect.serve.http.auth import Unauthorized, cookies
from recollect.serve.http.errors import Problem, answer_to, unexpected
from recollect.serve.http.patience import Patience
from recollect.settings import LIMITS

if TYPE_CHECKING:
    from recollect.serve.http.service import Service, ServiceConfig

PUBLIC = frozenset(("/healthz", "/readyz", "/login"))
STATIC = "/static/"
UPLOADS = "/api/imports"
SEARCHES = frozenset(
    (
        "/api/search",
        "/api/v1/search",
        "/api/v1/related",
        "/conversations/search/messages",
        "/console/hits",
        "/console/matches",
        "/api/knowledge/search",
        "/api/knowledge/notes/search",
        "/api/knowledge/media/search",
        "/api/knowledge/chats/search",
        "/api/knowledge/characters/search",
        "/api/knowledge/prompts/search",
    )
)
MCP = "/mcp"
CHECKED_EVERY = 5.0  # seconds after which a stream's credential is checked again

_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
_SAFE = frozenset(("GET", "HEAD", "OPTIONS"))
_HOST = re.compile(r"(\[[0-9a-f:.]{2,45}\]|[a-z0-9._-]{1,253})(?::([0-9]{1,5}))?")
_HEADER_NAMES = re.compile(r"[A-Za-z0-9, _-]{1,2000}")
_REQUEST_ID = re.compile(r"[\x20-\x7e]{1,128}")
_THIS_COMPUTER = frozenset(("localhost", "127.0.0.1", "[::1]"))
# What a page of any site may send without asking first.
_SIMPLE_TYPES = frozenset(
    ("", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data")
)
_SECURITY = {
    b"content-security-policy": (
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
        b"connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"no-referrer",
    b"cross-origin-opener-policy": b"same-origin",
    b"cross-origin-resource-policy": b"same-origin",
}
_PREFLIGHT = {
    "Access-Control-Allow-Methods": ", ".join(_METHODS),
    "Access-Control-Max-Age": "600",
}


class Edge:
    """ASGI, before everything of the framework. `mcp` are the routes that it need not find: its way to a route costs
    more than most calls of a tool do."""

    def __init__(self, app: ASGIApp, service: Service, mcp: Sequence[Route] = ()) -> None:
        self.app = app
        self.service = service
        self.busy = 0
        """Requests being answered, without streams of events."""
        self._mcp = mcp
        self.turns = _Turns()
        self.patience = Patience()
        """With those who send a request."""

    def way_to(self, scope: Scope) -> ASGIApp:
        """What answers a request that was let in."""
        if is_mcp(scope["path"]):
            for route in self._mcp:
                match, found = route.matches(scope)
                if match is Match.FULL:
                    scope.update(found, route=route)
                    return route.app
        return self.app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await _Exchange(self, scope, receive, send).run()
        elif scope["type"] == "websocket":
            await _Connection(self, scope, receive, send).run()
        else:
            await self.app(scope, receive, send)


class _Turns:
    """Searches take turns: many at once would only push each other past their deadlines."""

    def __init__(self) -> None:
        self._free = asyncio.Semaphore(LIMITS.searches_at_once)
        self._patience = Patience()

    async def __aenter__(self) -> None:
        try:
            with self._patience.limit(LIMITS.search_wait_seconds):
                await self._free.acquire()
        except TimeoutError:
            raise Problem(
                503, "The server is busy with other searches. Try again.", retry_after=1
            ) from None

    async def __aexit__(self, *_: object) -> None:
        self._free.release()


class _Visit:
    """Somebody at the door: what is asked of a request and of a WebSocket alike."""

    def __init__(self, edge: Edge, scope: Scope, receive: Receive, send: Send, method: str) -> None:
        self._edge = edge
        self._service = edge.service
        self._raw_receive = receive
        self._raw_send = send
        self._headers = Headers(scope["headers"])
        self._method = method
        self._path: str = scope["path"]
        given = self._headers.get("x-request-id")
        self._id = given if given and _REQUEST_ID.fullmatch(given) else secrets.token_hex(8)
        self._scope: Scope = {**scope}
        self._scope["state"] = {
            **scope.get("state", {}),
            "request_id": self._id,
            "headers": self._headers,
            "turn": edge.turns,
        }
        self._cors = ""  # the origin that is told it may read the answer
        self._principal: Principal | None = None
        self._credential: str | None = None
        self._checked = 0.0
        self._status = 0

    @property
    def _public(self) -> bool:
        return self._path in PUBLIC or self._path.startswith(STATIC)

    def _log(self, name: str, began: float) -> None:
        seconds = time.perf_counter() - began
        route, status = _template(self._scope), self._status or 499
        self._service.metrics.answered(route, self._method, status, seconds)
        logs.event(
            name,
            method=self._method if self._method in (*_METHODS, "OPTIONS") else "OTHER",
            route=route,
            status=status,
            ms=round(seconds * 1000, 2),
            user=self._principal.user if self._principal else None,
            credential=self._principal.credential if self._principal else None,
            request_id=self._id,
        )

    # -- the checks ---

    def _check_load(self) -> None:
        if self._edge.busy > LIMITS.requests_at_once and not self._public:
            raise Problem(503, "The server is busy. Try again.", retry_after=1)

    def _check_host(self) -> None:
        names = self._headers.every("host")
        if len(names) != 1 or not host_allowed(
            names[0], self._service.config, self._scope.get("server")
        ):
            raise Problem(
                421,
                "This server is not known by that name (Host). Whoever runs it can allow a name: --allow-host NAME.",
                headers={"Connection": "close"},
            )

    def _check_origin(self) -> None:
        config, origins = self._service.config, self._headers.every("origin")
        own = True
        if origins:
            own = same_origin(origins[0], self._headers.get("host") or "", config)
            if len(origins) > 1 or not (own or origins[0] in config.cors_origins):
                raise _foreign()
            self._cors = "" if own else origins[0]
        with_cookie = bool(cookies("; ".join(self._headers.every("cookie"))))
        if not own and with_cookie:
            raise _foreign()  # another site's page acts with its own key, not with that of the console
        site = self._headers.get("sec-fetch-site")
        if own and site not in (None, "same-origin", "none") and not self._is_navigation():
            raise _foreign()
        content_type = (self._headers.get("content-type") or "").partition(";")[0].strip().lower()
        if (
            self._method not in _SAFE
            and with_cookie
            and not origins
            and content_type in _SIMPLE_TYPES
        ):
            raise _foreign()

    def _is_navigation(self) -> bool:
        """Whether a person follows a link to here, which shows the page and tells the other site nothing."""
        return (
            self._method in ("GET", "HEAD")
            and self._headers.get("sec-fetch-mode") == "navigate"
            and self._headers.get("sec-fetch-dest") in (None, "document")
        )

    async def _authenticate(self) -> None:
        auth, metrics = self._service.auth, self._service.metrics
        try:
            peer = (self._scope.get("client") or ("",))[0]
            self._principal, self._credential = await auth.authenticate(self._headers.raw, peer)
        except Problem as problem:
            (
                metrics.auth_failures
                if problem.status_code == 401
                else metrics.rate_limited.labels("auth")
            ).inc()
            raise
        self._checked = time.monotonic()
        self._scope["state"]["principal"] = self._principal

    def _check_rate(self) -> None:
        assert self._principal is not None
        group = group_of(self._method, self._path)
        wait = self._service.limiter.take(self._principal.user, group)
        if wait:
            self._service.metrics.rate_limited.labels(group).inc()
            raise Problem(429, f"Too many requests. Try again in {wait} seconds.", retry_after=wait)

    async def _still_allowed(self) -> bool:
        """Whether what goes on for long may: until the credential is revoked or expires."""
        if (
            self._principal is None
            or self._credential is None
            or time.monotonic() - self._checked < CHECKED_EVERY
        ):
            return True
        self._checked = time.monotonic()
        return await self._service.auth.still(self._principal, self._credential)


class _Connection(_Visit):
    """One WebSocket: refused before it is accepted, and cut off when its credential is no longer good."""

    def __init__(self, edge: Edge, scope: Scope, receive: Receive, send: Send) -> None:
        super().__init__(edge, scope, receive, send, "WEBSOCKET")
        self._open = False

    async def run(self) -> None:
        began = time.perf_counter()
        try:
            self._check_load()
            self._check_host()
            self._check_origin()
            await self._authenticate()
            self._check_rate()
            await self._edge.app(self._scope, self._receive, self._send)
        except Exception as error:
            if isinstance(error, _Over):
                return
            if unexpected(error):
                logs.failed(error, request_id=self._id, route=_template(self._scope))
            await self._refuse(error)
        finally:
            if self._open:
                self._service.metrics.open_streams.dec()
            self._log("websocket", began)

    async def _refuse(self, error: Exception) -> None:
        if self._open:
            await self._raw_send({"type": "websocket.close", "code": 1011})
        elif not self._status and "websocket.http.response" in self._scope.get("extensions", {}):
            await answer_to(error, self._scope)(self._scope, self._receive, self._send)
        elif not self._status:
            self._status = 403
            await self._raw_send({"type": "websocket.close", "code": 1008})

    async def _receive(self) -> Message:
        message = await self._raw_receive()
        if self._open and message["type"] == "websocket.receive":
            await self._check_still()
        return message

    async def _send(self, message: Message) -> None:
        kind = message["type"]
        if kind == "websocket.send":
            await self._check_still()
        elif kind == "websocket.accept":
            self._status, self._open = 101, True
            self._service.metrics.open_streams.inc()
        elif kind == "websocket.http.response.start":
            self._status = message["status"]
            headers = MutableHeaders(raw=message.setdefault("headers", []))
            headers.setdefault("X-Request-ID", self._id)
            headers["Cache-Control"] = "no-store"
        elif kind == "websocket.close" and not self._status:
            self._status = 403  # so the server answers where nothing was accepted
        await self._raw_send(message)

    async def _check_still(self) -> None:
        if not await self._still_allowed():
            await self._raw_send({"type": "websocket.close", "code": 1008})
            raise _Over


class _Exchange(_Visit):
    """One request and its answer."""

    def __init__(self, edge: Edge, scope: Scope, receive: Receive, send: Send) -> None:
        super().__init__(edge, scope, receive, send, scope["method"])
        if self._method == "HEAD":
            self._scope["method"] = "GET"
        self._received = 0
        self._body_done = False
        self._most = _most_bytes(self._method, self._path)
        self._streams = False
        self._over = False

    async def run(self) -> None:
        began = time.perf_counter()
        self._edge.busy += 1
        try:
            await self._answer()
        finally:
            if self._streams:
                self._service.metrics.open_streams.dec()
            else:
                self._edge.busy -= 1
            self._log("request", began)

    async def _answer(self) -> None:
        try:
            early = await self._admitted()
            if early is None and group_of(self._method, self._path) == limits.SEARCH:
                async with self._edge.turns:
                    await self._edge.app(self._scope, self._receive, self._send)
            else:
                await (early or self._edge.way_to(self._scope))(
                    self._scope, self._receive, self._send
                )
        except Exception as error:
            if self._over or isinstance(error, ClientDisconnect):
                return
            if unexpected(error):
                logs.failed(error, request_id=self._id, route=_template(self._scope))
            if not self._status:  # else it is too late; the server closes the connection
                await self._refusal(error)(self._scope, self._receive, self._send)

    async def _admitted(self) -> Response | None:
        """Let the request in, or raise what refuses it. Some are answered here."""
        self._check_load()
        self._check_size()
        self._check_host()
        self._check_origin()
        if (
            self._cors
            and self._method == "OPTIONS"
            and self._headers.get("access-control-request-method")
        ):
            return Response(status_code=204, headers=_PREFLIGHT | self._headers_allowed())
        if not self._public:
            await self._authenticate()
            self._check_rate()
        if self._method == "OPTIONS":
            allowed = _allowed(self._scope)
            if not allowed:
                raise Problem(404, "There is nothing at this address.")
            return Response(status_code=204, headers={"Allow": ", ".join(allowed)})
        return None

    def _headers_allowed(self) -> dict[str, str]:
        """A site that was allowed may send any header: OpenAI's own clients send a dozen of theirs."""
        wanted = self._headers.get("access-control-request-headers") or ""
        return {"Access-Control-Allow-Headers": wanted} if _HEADER_NAMES.fullmatch(wanted) else {}

    def _check_size(self) -> None:
        said = self._headers.get("content-length")
        if said is None:
            return
        if not re.fullmatch(r"[0-9]{1,18}", said):
            raise Problem(400, "Content-Length is no number.", headers={"Connection": "close"})
        if int(said) > self._most:
            raise _too_large(self._most)

    # -- the way in and the way out ---

    async def _receive(self) -> Message:
        if self._body_done:
            return await self._raw_receive()
        try:
            with self._edge.patience.limit(LIMITS.body_seconds):
                message = await self._raw_receive()
        except TimeoutError:
            raise Problem(
                408, "The request came too slowly.", headers={"Connection": "close"}
            ) from None
        if message["type"] == "http.request":
            self._received += len(message.get("body", b""))
            if self._received > self._most:
                raise _too_large(self._most)
            self._body_done = not message.get("more_body", False)
        return message

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            self._finish(MutableHeaders(raw=message.setdefault("headers", [])))
            await self._raw_send(message)
            if self._method == "HEAD":
                await self._end()
        elif message["type"] != "http.response.body" or self._method != "HEAD":
            if self._streams and not await self._may_go_on():
                await self._end()
            await self._raw_send(message)
        elif message.get("more_body"):
            raise _Over

    def _finish(self, headers: MutableHeaders) -> None:
        given = {name for name, _ in headers.raw}
        headers.raw.extend(header for header in _SECURITY.items() if header[0] not in given)
        headers.setdefault("X-Request-ID", self._id)  # the model behind may have given its own
        if not self._path.startswith(STATIC) or self._status >= 400:
            headers["Cache-Control"] = "no-store"
        if self._status == 405 and (allowed := _allowed(self._scope)):
            headers["Allow"] = ", ".join(allowed)
        if self._cors:
            headers["Access-Control-Allow-Origin"] = self._cors
            headers["Access-Control-Expose-Headers"] = (
                "X-Request-ID, Retry-After, Content-Disposition, Mcp-Session-Id"
            )
            headers.add_vary_header("Origin")
        if (
            headers.get("content-type", "").startswith("text/event-stream")
            and self._method != "HEAD"
        ):
            self._streams = True
            self._edge.busy -= 1
            self._service.metrics.open_streams.inc()

    async def _may_go_on(self) -> bool:
        """Whether a stream may: until the server stops, unless it ends by itself then."""
        if self._service.draining.is_set() and not (
            self._path.startswith("/v1/") or is_mcp(self._path)
        ):
            return False
        return await self._still_allowed()

    async def _end(self) -> None:
        await self._raw_send({"type": "http.response.body", "body": b"", "more_body": False})
        self._over = True
        if self._streams:
            raise _Over

    def _refusal(self, error: Exception) -> Response:
        if isinstance(error, Unauthorized) and self._wants_page():
            query = self._scope.get("query_string", b"").decode("latin-1")
            target = self._scope.get("raw_path", self._path.encode()).decode("latin-1") + (
                f"?{query}" if query else ""
            )
            told = f"?{urlencode({'next': target})}" if is_local(target) and target != "/" else ""
            return RedirectResponse(f"/login{told}", 303)
        return answer_to(error, self._scope)

    def _wants_page(self) -> bool:
        accepted = self._headers.get("accept") or ""
        return (
            self._method in ("GET", "HEAD")
            and "text/html" in accepted
            and not self._path.startswith(("/api/", "/v1/"))
        )


class _Over(Exception):
    """The answer has been ended; nothing more of it is wanted."""


class Headers:
    """The headers of a request; names are in lower case, as ASGI wants it."""

    def __init__(self, raw: list[tuple[bytes, bytes]]) -> None:
        self.raw = raw
        self._values: dict[str, list[str]] = {}
        for name, value in raw:
            self._values.setdefault(name.decode("latin-1").lower(), []).append(
                value.decode("latin-1").strip(" \t")
            )

    def get(self, name: str) -> str | None:
        values = self._values.get(name)
        return values[0] if values else None

    def every(self, name: str) -> list[str]:
        return self._values.get(name, [])


def host_allowed(host: str, config: ServiceConfig, server: Any = None) -> bool:
    """Whether a Host header names this server: this computer with our port, the address that the connection came
    to, or a name that was allowed."""
    found = _HOST.fullmatch(host.lower())
    if found is None:
        return False
    name, port = found[1], int(found[2] or 80)
    if name in _THIS_COMPUTER and port == config.port:
        return True
    if name in config.public_hosts or host.lower() in config.public_hosts:
        return True
    try:
        return (
            bool(server)
            and port == server[1]
            and ip_address(name.strip("[]")) == ip_address(server[0])
        )
    except ValueError:
        return False


def same_origin(origin: str, host: str, config: ServiceConfig) -> bool:
    """Whether a page of this origin came from here."""
    parts = urlsplit(origin.lower())
    if (
        parts.scheme not in ("http", "https")
        or origin.lower() != f"{parts.scheme}://{parts.netloc}"
    ):
        return False
    port = ":443" if parts.scheme == "https" else ":80"
    ours = {host.lower().removesuffix(port)}
    base = urlsplit(config.base_url.lower())
    if base.scheme == parts.scheme:
        ours.add(base.netloc.removesuffix(port))
    return parts.netloc.removesuffix(port) in ours


def group_of(method: str, path: str) -> str:
    """Which limit a request counts against."""
    if path == UPLOADS and method == "POST":
        return limits.IMPORT
    if method == "POST" and (path == "/chat" or path.startswith("/v1/")):
        return limits.CHAT
    if path in SEARCHES:
        return limits.SEARCH
    if is_mcp(path):
        return limits.READ  # calls of tools are counted one by one
    return limits.READ if method in _SAFE else limits.WRITE


def is_local(target: str) -> bool:
    """Whether an address leads to this server and nowhere else: what may follow a login."""
    return re.fullmatch(r"/(?![/\\])[\x21-\x7e]*", target) is not None and "\\" not in target


def is_mcp(path: str) -> bool:
    return path == MCP or path.startswith(f"{MCP}/")


def _most_bytes(method: str, path: str) -> int:
    if path == UPLOADS and method == "POST":
        return LIMITS.upload_bytes
    return LIMITS.mcp_line_bytes if is_mcp(path) else LIMITS.request_bytes


def _too_large(most: int) -> Problem:
    return Problem(
        413,
        f"The request is too large: at most {most:,} bytes are taken here.",
        headers={"Connection": "close"},
    )


def _foreign() -> Problem:
    return Problem(
        403,
        "A page of another site may not ask this. Whoever runs the server can allow it: --cors-origin.",
    )


def _template(scope: Scope) -> str:
    """The route that a request went to, as it is written in the code: no ids, no words of anybody."""
    path = getattr(scope.get("route"), "path", None)
    return path if isinstance(path, str) and path else "-"


def _allowed(scope: Scope) -> list[str]:
    """The methods that an address takes."""
    found = []
    for method in _METHODS:
        asked = {**scope, "method": "GET" if method == "HEAD" else method, "path_params": {}}
        if any(route.matches(asked)[0] is Match.FULL for route in scope["app"].router.routes):
            found.append(method)
    return [*found, "OPTIONS"] if found else []
