"""Routes for the index: how much of the library it covers, and pausing the background indexer."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from fastapi import APIRouter
from pydantic import BaseModel, Field
from starlette.responses import Response

from recollect.serve.http.access import AccessTo
from recollect.serve.http.checks.route_policy import route_policy
from recollect.serve.http.json_response import json_response
from recollect.serve.http.routing import JsonRoute
from recollect.serve.identity.principal import CONVERSATIONS, KNOWLEDGE, READ, WRITE

if TYPE_CHECKING:
    from recollect.index.status import IndexStatus  # imports numpy

router = APIRouter(tags=["index"], prefix="/api/v1/index", route_class=JsonRoute)


class IndexState(BaseModel):
    """The index of the library."""

    passages: int = Field(description="Messages, parts of items, and observations.")
    embedded: int = Field(description="How many of them can be found by meaning.")
    share: float = Field(description="The same as a share, from 0 to 1.")
    has_work: bool = Field(description="Whether there is anything to index.")
    background: bool = Field(description="Whether the server indexes in the background.")
    paused_since: datetime | None = Field(description="When indexing was paused; else null.")
    problem: str = Field(description="Why indexing in the background stopped; else empty.")


@router.get("", summary="Retrieve the state of the index", responses={200: {"model": IndexState}})
@route_policy(READ, CONVERSATIONS)
def get_index(access: AccessTo) -> Response:
    """Returns how much of the library is indexed. New messages are found by words at once."""
    with access.read() as library:
        return _respond(library.index_status())


@router.post("/pause", summary="Pause indexing", responses={200: {"model": IndexState}})
@route_policy(WRITE, CONVERSATIONS, KNOWLEDGE)
def pause_index(access: AccessTo) -> Response:
    """Stops indexing this library in the background, in every program, until it is resumed."""
    with access.write() as library:
        library.pause_indexing()
        return _respond(library.index_status())


@router.post("/resume", summary="Resume indexing", responses={200: {"model": IndexState}})
@route_policy(WRITE, CONVERSATIONS, KNOWLEDGE)
def resume_index(access: AccessTo) -> Response:
    """Indexes this library in the background again."""
    with access.write() as library:
        library.resume_indexing()
        return _respond(library.index_status())


def _respond(status: IndexStatus) -> Response:
    return json_response(
        {
            "passages": status.passages,
            "embedded": status.embedded,
            "share": round(status.share, 4),
            "has_work": status.has_work,
            "background": status.is_background,
            "paused_since": status.paused_since,
            "problem": status.problem,
        }
    )
