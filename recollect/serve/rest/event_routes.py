"""`GET /api/events`: a stream that tells clients when the library changes."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import StreamingResponse

from recollect.serve.http.access import AccessTo
from recollect.serve.http.checks.route_policy import route_policy
from recollect.serve.http.error_responses import Problem
from recollect.serve.http.events import TooManyStreams
from recollect.serve.http.routing import DeferredRoute
from recollect.serve.identity.principal import CONVERSATIONS, READ

router = APIRouter(tags=["events"], route_class=DeferredRoute)

_RETRY_SECONDS = 30
_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


@router.get(
    "/api/events",
    summary="Follow changes",
    response_class=StreamingResponse,
    responses={
        200: {
            "content": {"text/event-stream": {"schema": {"type": "string"}}},
            "description": "The stream of events.",
        }
    },
)
@route_policy(READ, CONVERSATIONS)
async def follow_events(access: AccessTo) -> StreamingResponse:
    """Streams server-sent events: `ready` first, then `changed` whenever the library changes.

    The stream ends after some minutes. Reconnect then, as browsers do by themselves.
    """
    user, is_disconnected = access.principal.user, access.request.is_disconnected
    try:
        stream = access.service.events.stream(user, is_disconnected)
    except TooManyStreams as error:
        raise Problem(429, str(error), retry_after=_RETRY_SECONDS) from error
    return StreamingResponse(stream, headers=_HEADERS, media_type="text/event-stream")
