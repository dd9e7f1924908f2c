"""Routes of the Bus: threads in which agents and people exchange messages, and their search.

See docs/contracts/bus.md. A thread is a conversation. So these routes also find and read imported
conversations, and the console shows threads like any other conversation.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Path, Query
from starlette.responses import Response

from recollect.errors import InvalidInput, SearchTimeout
from recollect.language.queries.query import MalformedQuery
from recollect.language.text import iso
from recollect.model.audience import ALL, HUMAN_ONLY, Audience
from recollect.model.documents import Summary
from recollect.model.fields import without_edited_fields
from recollect.model.search import Filter, Hit
from recollect.serve.http.access import Access, AccessTo
from recollect.serve.http.limits import SEARCH
from recollect.serve.http.responses import json_response
from recollect.serve.http.routes import Routes
from recollect.serve.identity.principal import BUS, CONVERSATIONS, READ, WRITE
from recollect.serve.masking import can_find, mask_hit
from recollect.serve.rest.schemas import (
    Limit,
    MessageId,
    Metadata,
    Name,
    PurgeState,
    RequestBody,
    ResponseBody,
    about,
    clamp,
    clamp_page,
    created_status,
    not_found_as,
)
from recollect.serve.threads import BUS_SOURCE, NO_THREAD, message_json, result_json, thread_json
from recollect.settings import LIMITS

routes = Routes("bus", BUS, document="thread_id")

_MAX_SEQ = 1 << 53

ThreadId = Annotated[str, Path(description="The id of the thread, percent-encoded.", min_length=1)]


def _sources(access: Access) -> list[str]:
    """The sources to search and list; none means all. A key for the bus sees only threads."""
    return [] if access.principal.has_toolset(CONVERSATIONS) else [BUS_SOURCE]


# -- searching ---


class SearchResult(ResponseBody):
    """A message that matches a search."""

    message_id: str
    thread_id: str
    thread_topic: str
    author: str | None = about("The author's name, or the role if there is none.")
    seq: int = about("The position of the message in its thread, starting at 1.")
    created_at: str | None
    snippet: str = about(
        "Up to 20 words around the match, as HTML with `<mark>` around the matches."
    )
    metadata: Metadata | None


class SearchResults(ResponseBody):
    """The messages that match a search, best first."""

    results: list[SearchResult]
    total: int = about("Number of matching messages.")
    query: str = about("The query that was searched for.")
    warning: str | None = about(
        "Why the query is malformed. Malformed queries match nothing.", None
    )


@routes.add(
    "GET /api/search",
    READ,
    document="thread_id",
    rate_limit=SEARCH,
    of_contract=True,
    returns=SearchResults,
)
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
    query, audience = q.strip(), access.principal.audience
    if not query:
        raise InvalidInput("Query parameter 'q' must not be empty")
    with access.read() as library:
        try:
            page = library.match_expression(
                query,
                conversations=[thread_id] if thread_id else [],
                sources=_sources(access),
                limit=clamp(limit, 1, LIMITS.page_size),
                audience=audience,
            )
        except MalformedQuery as error:
            return json_response({"results": [], "total": 0, "query": query, "warning": str(error)})
        except SearchTimeout:
            raise SearchTimeout("Database operation timeout") from None
    results = [result(hit, audience) for hit in page.hits]
    return json_response({"results": results, "total": page.total, "query": query})


def result(hit: Hit, audience: Audience) -> dict[str, Any]:
    metadata = None
    if hit.source == BUS_SOURCE:
        metadata = dict(mask_hit(hit, audience).metadata) or None
    return result_json(hit, audience) | {"metadata": metadata}


# -- threads ---


class Thread(ResponseBody):
    """A thread without its messages."""

    id: str
    thread_id: str = about("Same as `id`.")
    topic: str
    status: str
    created_at: str | None
    updated_at: str | None
    message_count: int
    last_seq: int = about("The `seq` of the last message.")
    metadata: Metadata


class ThreadList(ResponseBody):
    """A page of threads."""

    threads: list[Thread]
    total: int = about("Number of threads on all pages.")
    limit: int
    offset: int


class NewThread(RequestBody):
    """A thread to open."""

    topic: Name = about("Identifies the thread: the same topic is the same thread.")
    metadata: Metadata | None = None


class DeletedThread(ResponseBody):
    success: Literal[True]
    thread_id: str
    purge: PurgeState


def _thread(summary: Summary) -> dict[str, Any]:
    metadata = without_edited_fields(summary.metadata)
    return {"id": summary.id, **thread_json(summary), "metadata": metadata}


@routes.add(
    "POST /api/threads", WRITE, returns=Thread, existing="The thread of this topic already existed."
)
def open_thread(access: AccessTo, thread: NewThread) -> Response:
    """Returns the thread of a topic. The thread is created on first use."""
    if not thread.topic.strip():
        raise InvalidInput("topic: a thread needs a topic.")
    with access.write() as library:
        is_new = library.find_id(BUS_SOURCE, thread.topic) is None
        summary = library.thread(thread.topic, thread.metadata)
    return json_response(_thread(summary), created_status(is_new))


@routes.add("GET /api/threads", READ, returns=ThreadList)
def list_threads(
    access: AccessTo,
    limit: Limit = 50,
    offset: Annotated[int, Query(description="Number of threads to skip.")] = 0,
    scope: Annotated[
        Literal["bus", "all"],
        Query(description="`bus` lists threads of the bus, `all` lists every conversation."),
    ] = "bus",
) -> Response:
    """Returns threads, most recently updated first."""
    limit, offset = clamp_page(limit, offset)
    sources = [BUS_SOURCE] if scope == "bus" else _sources(access)
    with access.read() as library:
        summaries, total = library.conversation_page(
            Filter.of(sources=sources), limit=limit, offset=offset
        )
    threads = [_thread(summary) for summary in summaries]
    return json_response({"threads": threads, "total": total, "limit": limit, "offset": offset})


# -- messages of a thread ---


class BusMessage(ResponseBody):
    """One message of a thread."""

    id: str
    thread_id: str
    author: str | None
    role: str | None
    content: str = about("Masked for agents if the message is human-only.")
    seq: int = about("The position of the message in its thread, starting at 1.")
    created_at: str | None
    metadata: Metadata | None
    human_only: bool


class BusMessages(ResponseBody):
    """A page of messages."""

    messages: list[BusMessage]
    current_seq: int = about("The `seq` of the thread's last message.")
    has_more: bool = about("Whether there are messages after these.")


class PostedMessage(ResponseBody):
    msg_id: str
    thread_id: str
    seq: int
    created_at: str | None


class NewBusMessage(RequestBody):
    """A message to post to a thread."""

    author: Name = about("The name of the agent or person who posts.")
    content: str
    role: Name = "user"
    id: MessageId = None
    metadata: Metadata | None = None
    human_only: bool = about("Whether agents see a mask instead of the content.", False)
    reply_to: Name | None = about("The id of the message this one replies to.", None)


@routes.add("GET /api/threads/{thread_id:id}/messages", READ, returns=BusMessages)
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


@routes.add(
    "POST /api/threads/{thread_id:id}/messages",
    WRITE,
    returns=PostedMessage,
    existing="The message already existed.",
)
def post_thread_message(access: AccessTo, thread_id: ThreadId, message: NewBusMessage) -> Response:
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


# -- one thread: its path matches any other path below ---


@routes.add("GET /api/threads/{thread_id:id}", READ, returns=Thread)
def get_thread(access: AccessTo, thread_id: ThreadId) -> Response:
    """Returns a thread without its messages."""
    with access.read() as library, not_found_as(NO_THREAD):
        return json_response(_thread(library.summary(thread_id)))


@routes.add("DELETE /api/threads/{thread_id:id}", WRITE, returns=DeletedThread)
def delete_thread(access: AccessTo, thread_id: ThreadId) -> Response:
    """Deletes a thread permanently, with its messages, index entries and vectors."""
    with access.write() as library, not_found_as(NO_THREAD):
        library.delete_conversation(thread_id)
        purge = library.purge_status().state
    return json_response({"success": True, "thread_id": thread_id, "purge": purge})
