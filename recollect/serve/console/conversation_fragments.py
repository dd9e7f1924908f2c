"""Parts of the conversation page: find in the conversation, its questions, attached pictures."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import JSONResponse, Response

from recollect.serve.console.fragments import read_message
from recollect.serve.console.tabs import CONVERSATIONS
from recollect.serve.console.views.attachments import picture
from recollect.serve.console.views.conversation_scans import find_in_conversation, list_questions
from recollect.serve.http.access import AccessTo
from recollect.serve.http.limits import SEARCH
from recollect.serve.http.route_policy import route_policy
from recollect.serve.http.routing import DeferredRoute
from recollect.serve.identity.principal import READ

router = APIRouter(prefix="/console", include_in_schema=False, route_class=DeferredRoute)

_START = Query(ge=0, le=2_000_000_000)


@router.get("/find")
@route_policy(READ, CONVERSATIONS, document="id", rate_limit=SEARCH)
def find(
    access: AccessTo, id: str, text: str, through: str = "", start: Annotated[int, _START] = 0
) -> Response:
    """The indexes of the messages that contain a text."""
    with access.read() as library:
        scan = find_in_conversation(
            library, access.principal, id, text, through=through, start=start
        )
    return JSONResponse(scan.as_json())


@router.get("/questions")
@route_policy(READ, CONVERSATIONS, document="id")
def questions(
    access: AccessTo, id: str, through: str = "", start: Annotated[int, _START] = 0
) -> Response:
    """The messages of people, each as its index and its first words."""
    with access.read() as library:
        scan = list_questions(library, access.principal, id, through=through, start=start)
    return JSONResponse(scan.as_json())


@router.get("/picture")
@route_policy(READ, CONVERSATIONS, document="id")
def attached_picture(access: AccessTo, id: str, m: str, n: int) -> Response:
    """A picture that is attached to a message."""
    media_type, data = picture(read_message(access, id, m), n)
    headers = {"Cache-Control": "private, max-age=3600"}
    return Response(data, headers=headers, media_type=media_type)
