"""One request or WebSocket at the edge: the checks that both must pass, and their log."""

from __future__ import annotations

import re
import secrets
import time

from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from recollect.serve.http.checks import limits
from recollect.serve.http.checks.edge_state import EdgeState
from recollect.serve.http.checks.hosts import client_address, client_network
from recollect.serve.http.checks.origins import is_allowed_host, is_same_origin
from recollect.serve.http.checks.route_policy import SAFE_METHODS
from recollect.serve.http.error_responses import Problem, is_unexpected
from recollect.serve.http.monitoring import logs
from recollect.serve.http.monitoring.auditing import http_actor
from recollect.serve.identity.principal import Principal
from recollect.serve.identity.sessions import cookie_values
from recollect.settings import LIMITS
from recollect.store.audit_log import set_actor

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
RECHECK_SECONDS = 5.0
"""How often the credential of an open stream is checked again."""

_REQUEST_ID = re.compile(r"[\x20-\x7e]{1,128}")
# Content types that a page of any site may send without a CORS preflight.
_SIMPLE_TYPES = frozenset(
    ("", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data")
)


class StreamEnded(Exception):
    """The edge ended the response. Whatever produces it can stop."""


class Exchange:
    """The checks that requests and WebSockets share."""

    def __init__(
        self, edge: EdgeState, scope: Scope, receive: Receive, send: Send, method: str
    ) -> None:
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
                self._check_address_rate(limits.ANONYMOUS)
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

    def _check_address_rate(self, group: str) -> None:
        self._take(client_network(self._address), group)

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
