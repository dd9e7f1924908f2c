"""Routes for monitoring: health, readiness and metrics."""

from __future__ import annotations

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field
from starlette.responses import PlainTextResponse, Response

from recollect import __version__
from recollect.errors import RecollectError
from recollect.serve.http.access import AccessTo
from recollect.serve.http.error_responses import RETRY_SECONDS, Problem
from recollect.serve.http.json_response import json_response
from recollect.serve.http.route_policy import PUBLIC, route_policy
from recollect.serve.http.routing import DeferredRoute
from recollect.serve.http.service import Service
from recollect.serve.identity.principal import ADMIN
from recollect.settings import LIMITS

router = APIRouter(tags=["health"], route_class=DeferredRoute)


class Health(BaseModel):
    """The server and its limits."""

    status: str = Field(description="Always `ok`.")
    version: str
    engine: str = Field(description="`sqlite` or `postgresql`.")
    limits: dict[str, float] = Field(description="The limits of the server by name.")


class Readiness(BaseModel):
    status: str = Field(description="Always `ready`.")


@router.get("/healthz", summary="Check health", responses={200: {"model": Health}})
@route_policy(PUBLIC)
async def health(request: Request) -> Response:
    """Returns 200 while the server runs, with its version and limits. Needs no API key."""
    service: Service = request.app.state.service
    return json_response(
        {"status": "ok", "version": __version__, "engine": service.engine, "limits": LIMITS.table()}
    )


@router.get("/readyz", summary="Check readiness", responses={200: {"model": Readiness}})
@route_policy(PUBLIC)
def readiness(request: Request) -> Response:
    """Returns 200 while the server accepts requests and reaches its database, else 503.

    Needs no API key.
    """
    service: Service = request.app.state.service
    if service.draining.is_set():
        raise Problem(503, "The server is shutting down.", retry_after=RETRY_SECONDS)
    try:
        service.keys.has_any()
    except RecollectError as error:
        raise Problem(503, "The database cannot be reached.", retry_after=RETRY_SECONDS) from error
    return json_response({"status": "ready"})


@router.get("/metrics", summary="Retrieve metrics", response_class=PlainTextResponse)
@route_policy(ADMIN)
def metrics(access: AccessTo) -> Response:
    """Returns metrics in the format of Prometheus. Needs the scope `admin`."""
    metrics = access.service.metrics
    return Response(metrics.text(), headers={"Content-Type": metrics.content_type})
