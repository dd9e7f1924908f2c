"""Contract 2: messages of agents on a bus, in threads; and the search over them.

A thread is a conversation: what was imported or saved elsewhere is found and
read here too, and a thread is read in the console like anything else.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query
from starlette.responses import Response

from recollect.errors import InvalidInput, SearchTimeout
from recollect.language.query import MalformedQuery
from recollect.language.text import iso
from recollect.library import BUS
from recollect.model.audience import is_marked_human_only
from recollect.model.documents import Summary
from recollect.model.search import Hit
from recollect.serve.http.access import AccessTo
from recollect.serve.http.json_response import json_response
from recollect.serve.http.limits import SEARCH
from recollect.serve.http.principal import Principal
from recollect.serve.http.route_policy import route_policy
from recollect.serve.http.routing import JsonRoute, clamp, not_found_as
from recollect.serve.masking import mask_hit
from recollect.serve.rest import schemas
from recollect.serve.threads import NO_THREAD, message_json, result_json, thread_json
from recollect.settings import LIMITS

router = APIRouter(tags=["bus"], route_class=JsonRoute)

ThreadId = Annotated[str, Path(description="The thread's id, percent-encoded.", min_length=1)]
Limit = Annotated[int, Query(description="How many at most; values outside 1 to 200 are clamped.")]


# -- searching -----------------------------------------------------------------


@router.get("/api/search", responses={200: {"model": schemas.SearchResults}})
@route_policy(rate_limit=SEARCH)
def search(
    access: AccessTo,
    q: Annotated[str, Query(description="An FTS5 MATCH expression; it must not be empty.")] = "",
    thread_id: Annotated[str, Query(description="Look only in this thread.")] = "",
    limit: Limit = 50,
) -> Response:
    """Messages whose content matches, best first. A malformed expression matches nothing."""
    query = q.strip()
    if not query:
        raise InvalidInput("Query parameter 'q' must not be empty")
    found: dict[str, Any] = {"results": [], "total": 0, "query": query}
    with access.read(BUS) as library:
        try:
            page = library.match_expression(
                query,
                conversations=(thread_id,) if thread_id else (),
                limit=clamp(limit, 1, LIMITS.page_size),
            )
        except MalformedQuery as error:
            return json_response(found | {"warning": str(error)})
        except SearchTimeout:
            raise SearchTimeout("Database operation timeout") from None
    results = [_result(access.principal, hit) for hit in page.hits]
    return json_response(found | {"results": results, "total": page.total})


def _result(principal: Principal, hit: Hit) -> dict[str, Any]:
    metadata = dict(mask_hit(hit, principal.audience).metadata) or None
    return result_json(hit, principal.audience) | {
        "metadata": metadata if hit.source == BUS else None
    }


# -- threads -------------------------------------------------------------------


@router.post(
    "/api/threads",
    status_code=201,
    responses={
        201: {"model": schemas.Thread},
        200: {
            "model": schemas.Thread,
            "description": "The thread of that topic was there already.",
        },
    },
)
def open_thread(access: AccessTo, thread: schemas.NewThread) -> Response:
    """The thread of a topic, made on first use."""
    if not thread.topic.strip():
        raise InvalidInput("A thread needs a topic.")
    with access.write(BUS) as library:
        there = library.store.find_id(BUS, thread.topic)
        opened = library.store.summary(there or library.thread(thread.topic, thread.metadata).id)
    return json_response(_thread(opened), 200 if there else 201)


@router.get("/api/threads", responses={200: {"model": schemas.ThreadList}})
def list_threads(
    access: AccessTo,
    limit: Limit = 50,
    offset: Annotated[int, Query(description="How many to skip.")] = 0,
    scope: Annotated[
        Literal["bus", "all"],
        Query(description="Threads of the bus only, or every conversation of the library."),
    ] = "bus",
) -> Response:
    """Threads, last changed first."""
    limit, offset = clamp(limit, 1, LIMITS.page_size), clamp(offset, 0, LIMITS.page_offset)
    with access.read(BUS) as library:
        found, total = library.conversations(
            limit=limit, offset=offset, sources=(BUS,) if scope == BUS else ()
        )
    return json_response(
        {"threads": [_thread(t) for t in found], "total": total, "limit": limit, "offset": offset}
    )


@router.get("/api/threads/{thread_id:id}/messages", responses={200: {"model": schemas.BusMessages}})
def list_messages(
    access: AccessTo,
    thread_id: ThreadId,
    after_seq: Annotated[int, Query(description="Only messages after this one.")] = 0,
    limit: Limit = 100,
) -> Response:
    """The messages of a thread in order, after one that is known."""
    with access.read(BUS) as library, not_found_as(NO_THREAD):
        found, last = library.messages(
            thread_id, clamp(after_seq, 0, 1 << 53), clamp(limit, 1, LIMITS.page_size)
        )
    shown = [
        {**message_json(passage, access.principal.audience), "thread_id": thread_id}
        for passage in found
    ]
    return json_response(
        {
            "messages": shown,
            "current_seq": last,
            "has_more": bool(shown) and shown[-1]["seq"] < last,
        }
    )


@router.get("/api/threads/{thread_id:id}", responses={200: {"model": schemas.Thread}})
def get_thread(access: AccessTo, thread_id: ThreadId) -> Response:
    """One thread, without its messages."""
    with access.read(BUS) as library, not_found_as(NO_THREAD):
        thread = library.store.summary(thread_id)
    return json_response(_thread(thread))


@router.delete("/api/threads/{thread_id:id}", responses={200: {"model": schemas.DeletedThread}})
def delete_thread(access: AccessTo, thread_id: ThreadId) -> Response:
    """Delete a thread for good, with its messages and everything that was made of them."""
    with access.write(BUS) as library, not_found_as(NO_THREAD):
        library.delete_conversation(thread_id)
    return json_response({"success": True, "thread_id": thread_id})


@router.post(
    "/api/threads/{thread_id:id}/messages",
    status_code=201,
    responses={
        201: {"model": schemas.Posted},
        200: {"model": schemas.Posted, "description": "It was there already."},
    },
)
def post_message(access: AccessTo, thread_id: ThreadId, message: schemas.NewBusMessage) -> Response:
    """Say something in a thread. With an id this may be repeated: the same message is stored once."""
    metadata = dict(message.metadata or {})
    if message.reply_to is not None:
        metadata["reply_to"] = message.reply_to
    with access.write(BUS) as library, not_found_as(NO_THREAD):
        posted, new = library.post(
            thread_id,
            message.author,
            message.content,
            role=message.role,
            id=message.id,
            metadata=metadata,
            human_only=message.human_only or is_marked_human_only(metadata),
        )
    said = {"msg_id": posted.id, "thread_id": thread_id, "seq": posted.position + 1}
    return json_response(said | {"created_at": iso(posted.created_at)}, 201 if new else 200)


def _thread(thread: Summary) -> dict[str, Any]:
    return {"id": thread.id, **thread_json(thread), "metadata": dict(thread.metadata)}
