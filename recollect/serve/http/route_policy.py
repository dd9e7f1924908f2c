"""Route policies: what the edge must know about a route before the request reaches it.

A policy is declared on the route's endpoint:

    @router.get("/api/search")
    @route_policy(rate_limit=SEARCH)
    def search(...): ...
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from starlette.routing import BaseRoute, Route

from recollect.serve.http.limits import READ, WRITE

SAFE_METHODS = frozenset(("GET", "HEAD", "OPTIONS"))
_ATTRIBUTE = "route_policy"

Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class RoutePolicy:
    """How the edge treats the requests of a route."""

    rate_limit: str = ""
    """The group in `limits` that requests count against. By default WRITE for unsafe methods and
    READ for others. Requests in SEARCH also take turns."""
    body_limit: str = "request_bytes"
    """The setting in LIMITS that bounds the request body."""
    ends_streams: bool = False
    """Whether the route ends its own event streams when the server shuts down. Others are cut."""

    def rate_limit_for(self, method: str) -> str:
        if self.rate_limit:
            return self.rate_limit
        if method in SAFE_METHODS:
            return READ
        return WRITE


DEFAULT = RoutePolicy()


def route_policy(
    *, rate_limit: str = "", body_limit: str = "request_bytes", ends_streams: bool = False
) -> Callable[[Endpoint], Endpoint]:
    """Declare the policy of an endpoint. See RoutePolicy."""
    policy = RoutePolicy(rate_limit, body_limit, ends_streams)

    def declare(endpoint: Endpoint) -> Endpoint:
        setattr(endpoint, _ATTRIBUTE, policy)
        return endpoint

    return declare


class RoutePolicies:
    """Finds the policy that applies to a request."""

    def __init__(self, routes: Iterable[BaseRoute]) -> None:
        self._declared: list[tuple[Route, RoutePolicy]] = []
        for route in routes:
            if isinstance(route, Route):
                policy = getattr(route.endpoint, _ATTRIBUTE, None)
                if policy is not None:
                    self._declared.append((route, policy))

    def find(self, method: str, path: str) -> RoutePolicy:
        if method == "HEAD":
            method = "GET"
        for route, policy in self._declared:
            if method in (route.methods or ()) and route.path_regex.match(path):
                return policy
        return DEFAULT
