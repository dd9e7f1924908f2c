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


def summary(endpoint: Callable[..., Any]) -> str:
    """`list_conversations` as "List conversations"."""
    return endpoint.__name__.replace("_", " ").capitalize()


class Routes(list[DeferredRoute]):
    """The routes of a module, in a group of the API reference: its `tag`.

    They need these toolsets, unless they declare others. `document` is the parameter of their paths
    with the id of a document; see `RoutePolicy`.
    """

    def __init__(
        self,
        tag: str = "",
        *toolsets: str,
        document: str = "",
        route_class: type[DeferredRoute] = JsonRoute,
    ) -> None:
        super().__init__()
        self._tag = tag
        self._toolsets = toolsets
        self._document = document
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
        if not document and self._document and f"{{{self._document}:" in path:
            document = self._document
        described = dict(responses or {})
        if existing:
            status = 201
            described[200] = {"model": returns, "description": existing}
        if returns is not None:
            described[status] = {"model": returns, **described.get(status, {})}
        options = {
            "tags": [self._tag],
            "include_in_schema": bool(self._tag) and not is_hidden,
            "status_code": status if status != 200 else None,
            "responses": described,
            **details,
        }
        declare_policy = route_policy(
            scope,
            *(() if one_of else toolsets or self._toolsets),
            one_of=one_of,
            document=document,
            rate_limit=rate_limit,
            body_limit=body_limit,
            ends_streams=ends_streams,
        )

        def declare(endpoint: Endpoint) -> Endpoint:
            declare_policy(endpoint)
            if of_contract:
                route_of_contract(endpoint)
            # `list_conversations` as "List conversations".
            options.setdefault("summary", endpoint.__name__.replace("_", " ").capitalize())
            self.append(self._route_class(path, endpoint, methods=method.split("|"), **options))
            return endpoint

        return declare
