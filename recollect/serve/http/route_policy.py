"""Route policies: what the edge must know about a route before the request reaches it.

Every route declares its policy on its endpoint, first of all what a credential needs to use it:

    @router.get("/api/search")
    @route_policy(READ, BUS, rate_limit=SEARCH)
    def search(...): ...

An application with a route that declares nothing does not start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from starlette.routing import BaseRoute, Route, WebSocketRoute

from recollect.serve.http import limits
from recollect.serve.identity.principal import Forbidden, Principal

SAFE_METHODS = frozenset(("GET", "HEAD", "OPTIONS"))
WEBSOCKET = "WEBSOCKET"
"""Takes the place of the method for WebSockets."""
PUBLIC = "public"
"""The scope of routes that need no credential."""
ANY_SCOPE = ""
"""The scope of routes that need a valid credential, whatever its scopes."""
_ATTRIBUTE = "route_policy"

Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])


class OneOf(tuple[str, ...]):
    """Toolsets of which a credential needs one. The route checks which, from its parameters."""

    __slots__ = ()

    def __new__(cls, *toolsets: str) -> OneOf:
        return super().__new__(cls, toolsets)


@dataclass(frozen=True, slots=True)
class RoutePolicy:
    """How the edge treats the requests of a route."""

    scope: str
    """The scope that a credential needs: READ, WRITE or ADMIN, ANY_SCOPE or PUBLIC."""
    toolsets: tuple[str, ...] = ()
    """The toolsets that it needs: all of them, or one if this is a OneOf."""
    document: str = ""
    """The parameter in the path or query with the id of a document. The credential must be able to
    reach that document, too; see `Access`."""
    rate_limit: str = ""
    """The group in `limits` that requests count against. By default ANONYMOUS for public
    routes, otherwise WRITE for unsafe methods and READ for others. Requests in SEARCH also take
    turns."""
    body_limit: str = "request_bytes"
    """The setting in LIMITS that bounds the request body."""
    ends_streams: bool = False
    """Whether the route ends its own event streams when the server shuts down. Others are cut."""

    @property
    def is_public(self) -> bool:
        return self.scope == PUBLIC

    def rate_limit_for(self, method: str) -> str:
        if self.rate_limit:
            return self.rate_limit
        if self.is_public:
            return limits.ANONYMOUS
        if method in SAFE_METHODS:
            return limits.READ
        return limits.WRITE

    def check(self, principal: Principal) -> None:
        """Raise Forbidden unless the credential allows the route."""
        if self.scope not in (PUBLIC, ANY_SCOPE):
            principal.require(self.scope)
        if not isinstance(self.toolsets, OneOf):
            for toolset in self.toolsets:
                principal.require_toolset(toolset)
        elif not any(principal.has_toolset(toolset) for toolset in self.toolsets):
            raise Forbidden(f"This key may use none of the toolsets {' and '.join(self.toolsets)}.")


NO_ROUTE = RoutePolicy(ANY_SCOPE)
"""For requests that no route answers: with a valid credential, they get 404 or 405."""
NO_PUBLIC_ROUTE = RoutePolicy(PUBLIC)
"""The same for the paths of public routes."""


def route_policy(
    scope: str,
    *toolsets: str,
    one_of: tuple[str, ...] = (),
    document: str = "",
    rate_limit: str = "",
    body_limit: str = "request_bytes",
    ends_streams: bool = False,
) -> Callable[[Endpoint], Endpoint]:
    """Declare the policy of an endpoint. See RoutePolicy."""
    if one_of:
        toolsets = OneOf(*one_of)
    policy = RoutePolicy(scope, toolsets, document, rate_limit, body_limit, ends_streams)

    def declare(endpoint: Endpoint) -> Endpoint:
        setattr(endpoint, _ATTRIBUTE, policy)
        return endpoint

    return declare


def policy_of(endpoint: object) -> RoutePolicy | None:
    """The policy that an endpoint declares."""
    return getattr(endpoint, _ATTRIBUTE, None)


class RoutePolicies:
    """Finds the policy that applies to a request. Raises LookupError for an undeclared route."""

    def __init__(self, routes: Iterable[BaseRoute]) -> None:
        self._declared: list[tuple[frozenset[str], Any, RoutePolicy]] = []
        for route in routes:
            if not isinstance(route, (Route, WebSocketRoute)):
                raise LookupError(f"{route!r} cannot have a policy: it is no single route.")
            policy = policy_of(route.endpoint)
            if policy is None:
                raise LookupError(f"{route.path} has no policy. Declare it with @route_policy.")
            methods = frozenset((WEBSOCKET,))
            if isinstance(route, Route):
                methods = frozenset(route.methods or ())
            self._declared.append((methods, route.path_regex, policy))

    def find(self, method: str, path: str) -> RoutePolicy:
        if method == "HEAD":
            method = "GET"
        missing = NO_ROUTE
        for methods, pattern, policy in self._declared:
            if policy.is_public or method in methods:
                if pattern.match(path) is None:
                    continue
                if method in methods:
                    return policy
                missing = NO_PUBLIC_ROUTE
        return missing
