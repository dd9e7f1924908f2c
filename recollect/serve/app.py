"""The ASGI application: all routes of the service behind the edge."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from fastapi import FastAPI
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from recollect import __version__
from recollect.serve.console import (
    charts,
    conversation_pages,
    docs_page,
    error_pages,
    first_run,
    forms,
    items,
    login_pages,
    pages,
    search_pages,
    settings_page,
)
from recollect.serve.http.edge import Edge
from recollect.serve.http.responses import ERROR_SCHEMA, add_exception_handlers
from recollect.serve.http.routes import NO_ROUTE, set_policy
from recollect.serve.http.service import Service
from recollect.serve.mcp import streamable_http as mcp
from recollect.serve.rest import (
    access_routes,
    bus_routes,
    chat_routes,
    conversation_routes,
    import_routes,
    knowledge_routes,
    openai_routes,
    saving_routes,
    search_routes,
    service_routes,
)

ROUTES = (
    service_routes.health_routes,
    mcp.router.routes,
    docs_page.routes,
    access_routes.key_routes,
    conversation_routes.routes,
    saving_routes.routes,
    bus_routes.routes,
    search_routes.routes,
    import_routes.change_routes,
    knowledge_routes.routes,
    import_routes.routes,
    service_routes.index_routes,
    import_routes.forget_routes,
    access_routes.audit_routes,
    service_routes.event_routes,
    chat_routes.routes,
    openai_routes.routes,
    conversation_pages.routes,
    search_pages.routes,
    items.routes,
    forms.routes,
    login_pages.routes,
    settings_page.routes,
    first_run.routes,
    charts.routes,
    pages.routes,
)
_DESCRIPTION = """\
Recollect stores every conversation you have with AI and makes it searchable.

If the server requires an API key, send it as `Authorization: Bearer KEY` or `X-API-Key: KEY`.
All requests act on the library of the key's user. Errors of all routes have the same body, `Error`.
"""


# Clients of these contracts may add a slash to a path.
_PATHS_OF_CONTRACTS = ("/conversations/", "/chat/", "/api/search/")


def drop_final_slash(scope: Scope) -> None:
    """One that is not a part of an id, in which it is percent-encoded."""
    raw_path = scope.get("raw_path") or b""
    if raw_path.endswith(b"/"):
        scope["raw_path"] = raw_path.removesuffix(b"/")
        scope["path"] = scope["path"].removesuffix("/")


class _App(FastAPI):
    """The framework behind the edge."""

    edge: Edge

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["app"] = self
        if scope["type"] == "http" and scope["path"].startswith(_PATHS_OF_CONTRACTS):
            drop_final_slash(scope)
        await self.edge(scope, receive, send)

    async def framework(self, scope: Scope, receive: Receive, send: Send) -> None:
        await super().__call__(scope, receive, send)


def make_app(service: Service) -> FastAPI:
    """The application of a service.

    On shutdown it finishes the work it accepted. The caller closes the service.
    """

    @asynccontextmanager
    async def lifespan(app: _App) -> AsyncIterator[None]:
        service.metrics.in_flight.set_function(lambda: app.edge.in_flight)
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(mcp.router.lifespan_context(app))
            stack.push_async_callback(service.disconnect)
            await asyncio.to_thread(service.start_jobs)
            stack.push_async_callback(asyncio.to_thread, service.drain)
            yield

    app = _App(
        title="Recollect",
        version=__version__,
        description=_DESCRIPTION,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.service = service
    app.state.error_page = error_pages.respond_with_page
    add_exception_handlers(app)
    for routes in ROUTES:
        # One flat list instead of include_router: the edge looks up policies and methods in it.
        app.router.routes.extend(routes)
    for route in app.router.routes:
        if isinstance(route, Route) and route.path == app.openapi_url:
            set_policy(route.endpoint, NO_ROUTE)  # the one route that FastAPI makes itself
    app.edge = Edge(app.framework, service, app.router.routes, direct_routes=mcp.ROUTES)
    app.openapi = lambda: openapi(app)  # type: ignore[method-assign]
    return app


def openapi(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI description, with our error body and the ways to authenticate."""
    if app.openapi_schema is not None:
        return app.openapi_schema
    api = FastAPI.openapi(app)
    components = api.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    schemas["Error"] = ERROR_SCHEMA
    components["securitySchemes"] = {
        "bearer": {
            "type": "http",
            "scheme": "bearer",
            "description": "An API key or a JSON Web Token.",
        },
        "key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
    }
    api["security"] = [{}, {"bearer": []}, {"key": []}]
    error_content = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    for path in api["paths"].values():
        for operation in path.values():
            operation["responses"].pop("422", None)
            operation["responses"]["default"] = {
                "description": "An error.",
                "content": error_content,
            }
    return api
