"""Routes are declared once: the address, who may use it, and what the API reference says.

routes = Routes("conversations")

@routes.add("GET /conversations", READ, CONVERSATIONS, returns=ConversationList)
def list_conversations(access: AccessTo) -> Response: ...
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from recollect.serve.http.route_policy import route_policy
from recollect.serve.http.routing import DeferredRoute, JsonRoute, route_of_contract

Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])


def _summary(endpoint: Callable[..., Any]) -> str:
    """`list_conversations` as "List conversations"."""
    return endpoint.__name__.replace("_", " ").capitalize()


class Routes(list[DeferredRoute]):
    """The routes of a module. `tag` is their group in the API reference."""

    def __init__(self, tag: str = "", route_class: type[DeferredRoute] = JsonRoute) -> None:
        super().__init__()
        self._tag = tag
        self._route_class = route_class

    def add(
        self,
        address: str,
        scope: str,
        *toolsets: str,
        is_hidden: bool = False,
        returns: Any = None,
        status: int = 200,
        existing: str = "",
        of_contract: bool = False,
        one_of: tuple[str, ...] = (),
        document: str = "",
        rate_limit: str = "",
        body_limit: str = "request_bytes",
        ends_streams: bool = False,
        responses: dict[int | str, dict[str, Any]] | None = None,
        **details: Any,
    ) -> Callable[[Endpoint], Endpoint]:
        """Add the endpoint of `METHOD /path`. See `RoutePolicy` for who may use it.

        `returns` is the model of the response. A route with `existing` answers 201 if it creates
        something, and 200 if that exists; `existing` says what that means. Hidden routes, and those
        of modules without a tag, are not in the API reference.
        """
        method, path = address.split(" ", 1)
        described = dict(responses or {})
        if existing:
            status = 201
            described[200] = {"model": returns, "description": existing}
        if returns is not None:
            described[status] = {"model": returns, **described.get(status, {})}
        details.setdefault("tags", [self._tag])
        details["include_in_schema"] = bool(self._tag) and not is_hidden

        def declare(endpoint: Endpoint) -> Endpoint:
            policy = route_policy(
                scope,
                *toolsets,
                one_of=one_of,
                document=document,
                rate_limit=rate_limit,
                body_limit=body_limit,
                ends_streams=ends_streams,
            )
            policy(endpoint)
            if of_contract:
                route_of_contract(endpoint)
            route = self._route_class(
                path,
                endpoint,
                methods=method.split("|"),
                status_code=status if status != 200 else None,
                responses=described,
                **({"summary": _summary(endpoint)} | details),
            )
            self.append(route)
            return endpoint

        return declare
