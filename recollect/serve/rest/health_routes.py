"""How the server is: for whoever watches it."""

from __future__ import annotations

from fastapi import APIRouter, Request
from pydantic import BaseModel
from starlette.responses import PlainTextResponse, Response

from recollect import __version__
from recollect.errors import RecollectError
from recollect.serve.http.access import AccessTo
from recollect.serve.http.error_responses import RETRY_SECONDS, Problem
from recollect.serve.http.json_response import json_response
from recollect.serve.http.principal import ADMIN
from recollect.serve.http.service import Service
from recollect.settings import LIMITS

router = APIRouter(tags=["health"])


class Health(BaseModel):
    status: str
    version: str
    engine: str
    limits: dict[str, float]


class Readiness(BaseModel):
    status: str


@router.get(
    "/healthz",
    summary="Whether the server is there, and its limits",
    responses={200: {"model": Health}},
)
async def healthy(request: Request) -> Response:
    service: Service = request.app.state.service
    return json_response(
        {"status": "ok", "version": __version__, "engine": service.engine, "limits": LIMITS.table()}
    )


@router.get(
    "/readyz", summary="Whether the server takes requests", responses={200: {"model": Readiness}}
)
def ready(request: Request) -> Response:
    service: Service = request.app.state.service
    if service.draining.is_set():
        raise Problem(503, "The server is shutting down.", retry_after=RETRY_SECONDS)
    try:
        service.keys.has_any()
    except RecollectError as error:
        raise Problem(503, "The database cannot be reached.", retry_after=RETRY_SECONDS) from error
    return json_response({"status": "ready"})


@router.get(
    "/metrics",
    summary="Numbers for Prometheus; needs the scope admin",
    response_class=PlainTextResponse,
)
def metrics(access: AccessTo) -> Response:
    access.require(ADMIN)
    return Response(
        access.service.metrics.text(), headers={"Content-Type": access.service.metrics.content_type}
    )
