"""Record in the audit log who reads, searches and exports over HTTP, and who is refused.

The edge calls this once per request. Deletions are recorded where they happen; see
`store/views.py`.
"""

from __future__ import annotations

from starlette.types import Scope

from recollect import places
from recollect.serve.http.checks import limits
from recollect.serve.http.checks.route_policy import RoutePolicy
from recollect.serve.http.service import Service
from recollect.serve.identity.principal import LOCAL, Principal
from recollect.store.audit_log import DENIED, EXPORT, READ, SEARCH, Actor, Entry, current_actor

_SAFE_METHODS = ("GET", "HEAD")
_FORBIDDEN = 403


def http_actor(principal: Principal, path: str, peer: str, has_cookie: bool) -> Actor:
    """Who sends a request."""
    interface = "rest"
    if has_cookie:
        interface = "console"
    if path == "/mcp" or path.startswith("/mcp/"):
        interface = "mcp"
    key = principal.credential
    if key == LOCAL:
        key = ""
    return Actor(principal.user, key, interface, peer)


def record_request(
    service: Service, principal: Principal, scope: Scope, policy: RoutePolicy, status: int
) -> None:
    """Record one request, if it read anything or was refused."""
    route = getattr(scope.get("route"), "path", "")
    action = _action(scope["method"], route, policy, status)
    if not action or current_actor().interface == "mcp":  # the tools of MCP are recorded one by one
        return
    ids = [str(value) for value in scope.get("path_params", {}).values()]
    operation = f"{scope['method']} {route}"
    places.record(service.place, principal.user, Entry.of(action, operation, ids))


def _action(method: str, route: str, policy: RoutePolicy, status: int) -> str:
    if status == _FORBIDDEN:
        return DENIED
    if not 200 <= status < 300 or not policy.toolsets:  # the other routes show no documents
        return ""
    if route.endswith("/export"):
        return EXPORT
    if policy.rate_limit == limits.SEARCH:
        return SEARCH
    if method in _SAFE_METHODS:
        return READ
    return ""
