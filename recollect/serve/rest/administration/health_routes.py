"""Routes for monitoring: health, readiness and metrics."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field
from starlette.responses import PlainTextResponse, Response

from recollect import __version__
from recollect.checkup import unreadable_libraries
from recollect.errors import RecollectError
from recollect.serve.http.access import AccessTo
from recollect.serve.http.checks.route_policy import PUBLIC, route_policy
from recollect.serve.http.error_responses import RETRY_SECONDS, Problem
from recollect.serve.http.json_response import json_response
from recollect.serve.http.routing import DeferredRoute
from recollect.serve.http.service import Service
from recollect.serve.identity.principal import ADMIN
from recollect.settings import LIMITS

router = APIRouter(tags=["health"], route_class=DeferredRoute)


class _QuickChecks:
    """Checks of libraries, at most one every few seconds. Anybody may request them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._results: dict[Path | str, tuple[float, list[str]]] = {}

    def unreadable(self, place: Path | str) -> list[str]:
        """Why libraries at a place cannot be read."""
        with self._lock:
            expires_at, reasons = self._results.get(place, (0.0, []))
            if time.monotonic() >= expires_at:
                reasons = unreadable_libraries(place)
                self._results[place] = (time.monotonic() + _SECONDS_BETWEEN_CHECKS, reasons)
            return reasons


_SECONDS_BETWEEN_CHECKS = 5
_quick_checks = _QuickChecks()


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
async def check_health(request: Request) -> Response:
    """Returns 200 while the server runs, with its version and limits. Needs no API key."""
    service: Service = request.app.state.service
    return json_response(
        {"status": "ok", "version": __version__, "engine": service.engine, "limits": LIMITS.table()}
    )


@router.get("/readyz", summary="Check readiness", responses={200: {"model": Readiness}})
@route_policy(PUBLIC)
def check_readiness(request: Request) -> Response:
    """Returns 200 while the server accepts requests and can read its libraries, else 503.

    Needs no API key.
    """
    service: Service = request.app.state.service
    if service.draining.is_set():
        raise Problem(503, "The server is shutting down.", retry_after=RETRY_SECONDS)
    try:
        service.keys.has_any()
    except RecollectError as error:
        raise Problem(503, "The database cannot be reached.", retry_after=RETRY_SECONDS) from error
    reasons = _quick_checks.unreadable(service.place)
    if reasons:
        raise Problem(
            503,
            f"A library cannot be read: {reasons[0]}. Run `recollect doctor` on the server.",
            retry_after=RETRY_SECONDS,
        )
    return json_response({"status": "ready"})


@router.get("/metrics", summary="Retrieve metrics", response_class=PlainTextResponse)
@route_policy(ADMIN)
def get_metrics(access: AccessTo) -> Response:
    """Returns metrics in the format of Prometheus. Needs the scope `admin`."""
    metrics = access.service.metrics
    return Response(metrics.text(), headers={"Content-Type": metrics.content_type})
