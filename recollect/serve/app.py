"""The app: every route of the service behind one edge."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from fastapi import FastAPI
from starlette.types import Receive, Scope, Send

from recollect import __version__
from recollect.serve.console import pages
from recollect.serve.http.edge import Edge
from recollect.serve.http.errors import SCHEMA, add_handlers
from recollect.serve.http.service import Service
from recollect.serve.mcp.transports import http as mcp
from recollect.serve.rest import (
    bus,
    chat,
    conversations,
    docs,
    events,
    health,
    imports,
    keys,
    knowledge,
    openai,
    search,
)

ROUTERS = tuple(
    part.router
    for part in (
        health,
        mcp,
        docs,
        keys,
        conversations,
        bus,
        search,
        knowledge,
        imports,
        events,
        chat,
        openai,
        pages,
    )
)
_DESCRIPTION = "Every conversation with AI, kept verbatim and found again."


class _App(FastAPI):
    """The framework, with the edge before it."""

    edge: Edge

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["app"] = self
        await self.edge(scope, receive, send)

    async def framework(self, scope: Scope, receive: Receive, send: Send) -> None:
        await super().__call__(scope, receive, send)


def make_app(service: Service) -> FastAPI:
    """The app of a service. When it is shut down, it finishes what it accepted; closing the service is the
    caller's."""

    @asynccontextmanager
    async def lifespan(app: _App) -> AsyncIterator[None]:
        service.metrics.in_flight.set_function(lambda: app.edge.busy)
        async with AsyncExitStack() as stack:
            for router in ROUTERS:
                await stack.enter_async_context(router.lifespan_context(app))
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
    app.edge = Edge(app.framework, service, mcp.ROUTES)
    add_handlers(app)
    for router in ROUTERS:
        # Not include_router: then every request would be matched router by router, which costs more than all else here.
        app.router.routes.extend(router.routes)
    app.openapi = lambda: _described(app)  # type: ignore[method-assign]
    return app


def _described(app: FastAPI) -> dict[str, Any]:
    """OpenAPI as it is: the one shape of errors, and how a key is sent."""
    if app.openapi_schema is not None:
        return app.openapi_schema
    api = FastAPI.openapi(app)
    parts = api.setdefault("components", {})
    schemas = parts.setdefault("schemas", {})
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    schemas["Error"] = SCHEMA
    parts["securitySchemes"] = {
        "bearer": {"type": "http", "scheme": "bearer", "description": "An API key, or a JWT."},
        "key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
    }
    api["security"] = [{}, {"bearer": []}, {"key": []}]
    for path in api["paths"].values():
        for operation in path.values():
            operation["responses"].pop("422", None)
            operation["responses"]["default"] = {
                "description": "What went wrong",
                "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
            }
    return api
