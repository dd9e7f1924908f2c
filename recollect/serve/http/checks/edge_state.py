"""What all requests at the edge share: the application, its policies, and the load."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Protocol

from starlette.routing import BaseRoute, Match, Route
from starlette.types import ASGIApp, Scope

from recollect.serve.http.checks.connections import WaitingRoom
from recollect.serve.http.checks.route_policy import RoutePolicies
from recollect.serve.http.search_turns import SearchTurns
from recollect.serve.http.service import Service


class Waiter(Hashable, Protocol):
    """A request whose client has to send more."""

    def give_way(self) -> None:
        """Stop waiting for the client."""


class EdgeState:
    """The application behind the edge, and the requests in progress.

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
        self.waiting_bodies: WaitingRoom[Waiter] = WaitingRoom()
        """Requests in progress whose client has to send more, by user."""
        self.anonymous_bodies: WaitingRoom[Waiter] = WaitingRoom()
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
