"""Routes of the Bus: threads in which agents and people exchange messages, and their search.

See docs/contracts/bus.md. A thread is a conversation. So these routes also find and read imported
conversations, and the console shows threads like any other conversation.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query
from starlette.responses import Response

from recollect.errors import InvalidInput, SearchTimeout
from recollect.language.queries.query import MalformedQuery
from recollect.language.text import iso
from recollect.model.audience import ALL, HUMAN_ONLY, Audience
from recollect.model.documents import Summary
from recollect.model.edited_fields import without_edited_fields
from recollect.model.search import Filter, Hit
from recollect.serve.http.access import Access, AccessTo
from recollect.serve.http.checks.limits import SEARCH
from recollect.serve.http.checks.route_policy import route_policy
from recollect.serve.http.json_response import json_response
from recollect.serve.http.routing import (
    JsonRoute,
    clamp,
    clamp_page,
    created_or_existing,
    created_status,
    not_found_as,
    route_of_contract,
)
from recollect.serve.identity.principal import BUS, CONVERSATIONS, READ, WRITE
from recollect.serve.masking import can_find, mask_hit
from recollect.serve.rest import schemas
from recollect.serve.threads import BUS_SOURCE, NO_THREAD, message_json, result_json, thread_json
from recollect.settings import LIMITS

router = APIRouter(tags=["bus"], route_class=JsonRoute)

_MAX_SEQ = 1 << 53

ThreadId = Annotated[str, Path(description="The id of the thread, percent-encoded.", min_length=1)]
Limit = Annotated[int, Query(description="Page size, from 1 to 200. Values outside are clamped.")]
Offset = Annotated[int, Query(description="Number of threads to skip.")]


# -- searching -----------------------------------------------------------------


@router.get(
    "/api/search",
    summary="Search threads",
    responses={200: {"model": schemas.SearchResults}},
)
@route_policy(READ, BUS, document="thread_id", rate_limit=SEARCH)
@route_of_contract
def search_threads(
    access: AccessTo,
    q: Annotated[str, Query(description="An FTS5 MATCH expression. It must not be empty.")] = "",
    thread_id: Annotated[str, Query(description="Only messages of this thread.")] = "",
    limit: Limit = 50,
) -> Response:
    """Returns messages whose content matches an FTS5 expression, best first.

    This is the search of the Bus, for agents that speak its protocol; otherwise use
    `GET /api/v1/search`. A malformed expression matches nothing. The `warning` says what is wrong
    with it.
    """
    query = q.strip()
    if not query:
        raise InvalidInput("Query parameter 'q' must not be empty")
    conversations = []
    if thread_id:
        conversations.append(thread_id)
    body: dict[str, Any] = {"results": [], "total": 0, "query": query}
    with access.read() as library:
        try:
            page = library.match_expression(
                query,
                conversations=conversations,
                sources=_sources(access),
                limit=clamp(limit, 1, LIMITS.page_size),
                audience=access.principal.audience,
            )
        except MalformedQuery as error:
            return json_response(body | {"warning": str(error)})
        except SearchTimeout:
            raise SearchTimeout("Database operation timeout") from None
    body["results"] = [_result(hit, access.principal.audience) for hit in page.hits]
    body["total"] = page.total
    return json_response(body)


def _result(hit: Hit, audience: Audience) -> dict[str, Any]:
    metadata = None
    if hit.source == BUS_SOURCE:
        metadata = dict(mask_hit(hit, audience).metadata) or None
    return result_json(hit, audience) | {"metadata": metadata}


# -- threads -------------------------------------------------------------------


@router.post(
    "/api/threads",
    summary="Open a thread",
    status_code=201,
    responses=created_or_existing(schemas.Thread, "The thread of this topic already existed."),
)
@route_policy(WRITE, BUS)
def open_thread(access: AccessTo, thread: schemas.NewThread) -> Response:
    """Returns the thread of a topic. The thread is created on first use."""
    if not thread.topic.strip():
        raise InvalidInput("topic: a thread needs a topic.")
    status = 200
    with access.write() as library:
        if library.find_id(BUS_SOURCE, thread.topic) is None:
            status = 201
        summary = library.thread(thread.topic, thread.metadata)
    return json_response(_thread(summary), status)


@router.get("/api/threads", summary="List threads", responses={200: {"model": schemas.ThreadList}})
@route_policy(READ, BUS)
def list_threads(
    access: AccessTo,
    limit: Limit = 50,
    offset: Offset = 0,
    scope: Annotated[
        Literal["bus", "all"],
        Query(description="`bus` lists threads of the bus, `all` lists every conversation."),
    ] = "bus",
) -> Response:
    """Returns threads, most recently updated first."""
    limit, offset = clamp_page(limit, offset)
    sources = _sources(access)
    if scope == "bus":
        sources = [BUS_SOURCE]
    with access.read() as library:
        summaries, total = library.conversation_page(
            Filter.of(sources=sources), limit=limit, offset=offset
        )
    threads = [_thread(summary) for summary in summaries]
    return json_response({"threads": threads, "total": total, "limit": limit, "offset": offset})


@router.get(
    "/api/threads/{thread_id:id}/messages",
    summary="List messages",
    responses={200: {"model": schemas.BusMessages}},
)
@route_policy(READ, BUS, document="thread_id")
def list_thread_messages(
    access: AccessTo,
    thread_id: ThreadId,
    after_seq: Annotated[int, Query(description="Only messages after this `seq`.")] = 0,
    limit: Limit = 100,
) -> Response:
    """Returns messages of a thread in order.

    To follow a thread, pass the last `seq` you have seen as `after_seq`.
    """
    after_seq, limit = clamp(after_seq, 0, _MAX_SEQ), clamp(limit, 1, LIMITS.page_size)
    audience = access.principal.audience
    messages: list[dict[str, Any]] = []
    has_more = True
    with access.read() as library, not_found_as(NO_THREAD):
        while has_more and not messages:  # A page on which nothing is visible is skipped.
            passages, current_seq = library.messages(thread_id, after_seq, limit)
            for passage in passages:
                after_seq = passage.position + 1
                if can_find(passage, audience):
                    messages.append({**message_json(passage, audience), "thread_id": thread_id})
            has_more = bool(passages) and after_seq < current_seq
    return json_response({"messages": messages, "current_seq": current_seq, "has_more": has_more})


@router.get(
    "/api/threads/{thread_id:id}",
    summary="Retrieve a thread",
    responses={200: {"model": schemas.Thread}},
)
@route_policy(READ, BUS, document="thread_id")
def get_thread(access: AccessTo, thread_id: ThreadId) -> Response:
    """Returns a thread without its messages."""
    with access.read() as library, not_found_as(NO_THREAD):
        summary = library.summary(thread_id)
    return json_response(_thread(summary))


@router.delete(
    "/api/threads/{thread_id:id}",
    summary="Delete a thread",
    responses={200: {"model": schemas.DeletedThread}},
)
@route_policy(WRITE, BUS, document="thread_id")
def delete_thread(access: AccessTo, thread_id: ThreadId) -> Response:
    """Deletes a thread permanently, with its messages, index entries and vectors."""
    with access.write() as library, not_found_as(NO_THREAD):
        library.delete_conversation(thread_id)
        purge = library.purge_status().state
    return json_response({"success": True, "thread_id": thread_id, "purge": purge})


@router.post(
    "/api/threads/{thread_id:id}/messages",
    summary="Post a message",
    status_code=201,
    responses=created_or_existing(schemas.PostedMessage, "The message already existed."),
)
@route_policy(WRITE, BUS, document="thread_id")
def post_thread_message(
    access: AccessTo, thread_id: ThreadId, message: schemas.NewBusMessage
) -> Response:
    """Posts a message to a thread.

    The request is idempotent if the message has an `id`: a message sent twice is stored once.
    """
    metadata = dict(message.metadata or {})
    if message.reply_to is not None:
        metadata["reply_to"] = message.reply_to
    with access.write() as library, not_found_as(NO_THREAD):
        passage, is_new = library.post(
            thread_id,
            message.author,
            message.content,
            role=message.role,
            id=message.id,
            metadata=metadata,
            visibility=HUMAN_ONLY if message.human_only else ALL,
        )
    body = {
        "msg_id": passage.id,
        "thread_id": thread_id,
        "seq": passage.position + 1,
        "created_at": iso(passage.created_at),
    }
    return json_response(body, created_status(is_new))


def _sources(access: Access) -> list[str]:
    """The sources to search and list; none means all. A key for the bus sees only threads."""
    if access.principal.has_toolset(CONVERSATIONS):
        return []
    return [BUS_SOURCE]


def _thread(summary: Summary) -> dict[str, Any]:
    metadata = without_edited_fields(summary.metadata)
    return {"id": summary.id, **thread_json(summary), "metadata": metadata}
