"""Routes about the service itself: health, readiness, metrics, events, and the index."""

from __future__ import annotations

import threading
import time
from datetime import datetime
from pathlib import Path

from fastapi import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from recollect import __version__
from recollect.checkup import unreadable_libraries
from recollect.errors import RecollectError
from recollect.library import Library
from recollect.serve.http.access import Access, AccessTo
from recollect.serve.http.events import TooManyStreams
from recollect.serve.http.responses import RETRY_SECONDS, Problem, json_response
from recollect.serve.http.routes import PUBLIC, Routes
from recollect.serve.http.service import Service
from recollect.serve.identity.principal import ADMIN, CONVERSATIONS, KNOWLEDGE, READ, WRITE
from recollect.serve.rest.schemas import ResponseBody, about
from recollect.settings import LIMITS

health_routes = Routes("health")
event_routes = Routes("events")
index_routes = Routes("index")

STREAM_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
_STREAM_RETRY_SECONDS = 30
_SECONDS_BETWEEN_CHECKS = 5


class Health(ResponseBody):
    """The server and its limits."""

    status: str = about("Always `ok`.")
    version: str
    engine: str = about("`sqlite` or `postgresql`.")
    limits: dict[str, float] = about("The limits of the server by name.")


class Readiness(ResponseBody):
    status: str = about("Always `ready`.")


@health_routes.add("GET /healthz", PUBLIC, returns=Health)
async def check_health(request: Request) -> Response:
    """Returns 200 while the server runs, with its version and limits. Needs no API key."""
    service: Service = request.app.state.service
    return json_response(
        {"status": "ok", "version": __version__, "engine": service.engine, "limits": LIMITS.table()}
    )


@health_routes.add("GET /readyz", PUBLIC, returns=Readiness)
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
    reasons = unreadable(service.place)
    if reasons:
        raise Problem(
            503,
            f"A library cannot be read: {reasons[0]}. Run `recollect doctor` on the server.",
            retry_after=RETRY_SECONDS,
        )
    return json_response({"status": "ready"})


_checks_lock = threading.Lock()
_checks: dict[Path | str, tuple[float, list[str]]] = {}


def unreadable(place: Path | str) -> list[str]:
    """Why libraries at a place cannot be read. Anybody may ask, so it is checked rarely."""
    with _checks_lock:
        expires_at, reasons = _checks.get(place, (0.0, []))
        if time.monotonic() >= expires_at:
            reasons = unreadable_libraries(place)
            _checks[place] = (time.monotonic() + _SECONDS_BETWEEN_CHECKS, reasons)
        return reasons


@health_routes.add("GET /metrics", ADMIN, response_class=PlainTextResponse)
def get_metrics(access: AccessTo) -> Response:
    """Returns metrics in the format of Prometheus. Needs the scope `admin`."""
    metrics = access.service.metrics
    return Response(metrics.text(), headers={"Content-Type": metrics.content_type})


@event_routes.add(
    "GET /api/events",
    READ,
    CONVERSATIONS,
    response_class=StreamingResponse,
    responses={
        200: {
            "content": {"text/event-stream": {"schema": {"type": "string"}}},
            "description": "The stream of events.",
        }
    },
)
async def follow_events(access: AccessTo) -> StreamingResponse:
    """Streams server-sent events: `ready` first, then `changed` whenever the library changes.

    The stream ends after some minutes. Reconnect then, as browsers do by themselves.
    """
    user, is_disconnected = access.principal.user, access.request.is_disconnected
    try:
        stream = access.service.events.stream(user, is_disconnected)
    except TooManyStreams as error:
        raise Problem(429, str(error), retry_after=_STREAM_RETRY_SECONDS) from error
    return StreamingResponse(stream, headers=STREAM_HEADERS, media_type="text/event-stream")


# -- the index ---


class IndexState(ResponseBody):
    """The index of the library."""

    passages: int = about("Messages, parts of items, and observations.")
    embedded: int = about("How many of them can be found by meaning.")
    share: float = about("The same as a share, from 0 to 1.")
    has_work: bool = about("Whether there is anything to index.")
    background: bool = about("Whether the server indexes in the background.")
    paused_since: datetime | None = about("When indexing was paused; else null.")
    problem: str = about("Why indexing in the background stopped; else empty.")


@index_routes.add("GET /api/v1/index", READ, CONVERSATIONS, returns=IndexState)
def get_index(access: AccessTo) -> Response:
    """Returns how much of the library is indexed. New messages are found by words at once."""
    with access.read() as library:
        return index_state(library)


@index_routes.add("POST /api/v1/index/pause", WRITE, CONVERSATIONS, KNOWLEDGE, returns=IndexState)
def pause_index(access: AccessTo) -> Response:
    """Stops indexing this library in the background, in every program, until it is resumed."""
    return set_paused(access, True)


@index_routes.add("POST /api/v1/index/resume", WRITE, CONVERSATIONS, KNOWLEDGE, returns=IndexState)
def resume_index(access: AccessTo) -> Response:
    """Indexes this library in the background again."""
    return set_paused(access, False)


def set_paused(access: Access, paused: bool) -> Response:
    with access.write() as library:
        library.pause_indexing(paused)
        return index_state(library)


def index_state(library: Library) -> Response:
    status = library.index_status()
    share, background = round(status.share, 4), status.is_background
    return json_response(IndexState.of(status, share=share, background=background))
