"""GET /api/events: a page learns that something was saved."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import StreamingResponse

from recollect.serve.http.access import AccessTo
from recollect.serve.http.error_responses import Problem
from recollect.serve.http.events import TooManyStreams
from recollect.serve.http.principal import READ

router = APIRouter(tags=["events"])


@router.get(
    "/api/events",
    summary="Follow changes",
    response_class=StreamingResponse,
    responses={
        200: {
            "content": {"text/event-stream": {"schema": {"type": "string"}}},
            "description": "The stream.",
        }
    },
)
async def events(access: AccessTo) -> StreamingResponse:
    """Server-sent events: `ready` at once, then `changed` whenever something in the library was written. The
    stream ends after some minutes; a browser comes back by itself."""
    access.require(READ, "conversations")
    try:
        stream = access.service.events.stream(access.principal.user, access.request.is_disconnected)
    except TooManyStreams as error:
        raise Problem(429, str(error), retry_after=30) from error
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(stream, headers=headers, media_type="text/event-stream")
