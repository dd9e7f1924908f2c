"""The bus tools: threads of messages between agents and people (docs/contracts/bus.md).

A thread is a conversation, so imported and saved conversations can be searched and read here, too.
For agents, human-only messages are masked, or left out if RECOLLECT_HUMAN_ONLY is `hide`: then no
search, count or page mentions them.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from recollect.errors import NotFound, OutdatedPosition
from recollect.language.queries.query import MalformedQuery
from recollect.language.text import iso
from recollect.library import Library
from recollect.model.audience import ALL, HUMAN_ONLY
from recollect.model.documents import Summary
from recollect.model.search import Filter
from recollect.serve.mcp.arguments import BadArgument, json_error, sanitize
from recollect.serve.mcp.context import READ, Context, ToolError
from recollect.serve.threads import (
    BUS_SOURCE,
    NO_THREAD,
    message_json,
    result_json,
    thread_json,
    thread_status,
)

DEFAULT_MESSAGES = 100
MAX_MESSAGES = 200
MAX_CONTENT_LENGTH = 20_000
"""Characters of one message in a list."""
MAX_ANSWER_LENGTH = 200_000
"""Characters of all messages in a list; the rest is on the next page."""
POLL_SECONDS = 0.25
MAX_WAITS = 32
MAX_WAITS_EACH_USER = 8
"""Concurrent msg_wait calls. Each occupies a server thread."""
AGENT_ID_NAMESPACE = uuid.UUID("5d0c6a1e-7a55-4a57-9f0c-1d2f7d6d4f11")
_CONNECT_FIELDS = ("seq", "author", "role", "content", "created_at")

Json = dict[str, Any]


def msg_search(context: Context, query: str, thread_id: str, limit: int) -> Json:
    query = query.strip()
    conversations = (thread_id,) if thread_id else ()
    with context.library() as library:
        try:
            page = library.match_expression(
                query,
                conversations=conversations,
                sources=_sources(context),
                limit=limit,
                audience=context.audience,
            )
        except MalformedQuery:
            return {"results": [], "total": 0, "query": query}
    results = [result_json(hit, context.audience) for hit in page.hits]
    return {"results": results, "total": page.total, "query": query}


def bus_connect(
    context: Context,
    thread_name: str | None,
    thread_id: str,
    display_name: str,
    ide: str,
    model: str,
    after_seq: int,
) -> Json:
    topic = thread_name or ""
    if not thread_id and not topic.strip():
        raise BadArgument("", "thread_name must not be empty")
    program, model = ide.strip(), model.strip()
    name = display_name.strip()
    if not name and program and model:
        name = f"{program} ({model})"
    name = name or program or model or context.client or "agent"
    with context.library(create=True) as library:
        created = False
        if not thread_id:
            created = library.find_id(BUS_SOURCE, topic) is None
            thread_id = library.thread(topic).id
        thread = find_thread(context, library, thread_id)
        page = read_page(context, library, thread_id, after_seq, DEFAULT_MESSAGES)
    return {
        "agent": {
            "agent_id": str(uuid.uuid5(AGENT_ID_NAMESPACE, name)),
            "name": name,
            "registered": True,
        },
        "thread": {
            "thread_id": thread.id,
            "topic": thread.title,
            "status": thread_status(thread),
            "created": created,
        },
        "messages": [
            {field: message[field] for field in _CONNECT_FIELDS} for message in page["messages"]
        ],
        "current_seq": page["current_seq"],
    }


def thread_list(context: Context, limit: int, offset: int, scope: str) -> Json:
    sources = _sources(context) if scope == "all" else (BUS_SOURCE,)
    with context.library() as library:
        summaries, total = library.conversation_page(
            Filter.of(sources=sources), limit=limit, offset=offset
        )
    threads = [thread_json(thread) for thread in summaries]
    return {"threads": threads, "total": total, "limit": limit, "offset": offset}


def msg_post(
    context: Context,
    thread_id: str,
    content: str | None,
    author: str,
    role: str,
    id: str,
    metadata: Json | None,
    human_only: bool | None,
    expected_last_seq: int | None,
    reply_to: str,
) -> Json:
    if content is None:
        raise BadArgument("", "content is required")
    metadata = dict(metadata or {})
    if reply_to:
        metadata["reply_to"] = reply_to
    with context.library() as library:
        find_thread(context, library, thread_id)
        try:
            message, _ = library.post(
                thread_id,
                author,
                content,
                role=role,
                expected_last_seq=expected_last_seq,
                id=id or None,
                metadata=metadata,
                visibility=HUMAN_ONLY if human_only else ALL,
            )
        except OutdatedPosition:
            raise outdated(context, library, thread_id, expected_last_seq or 0) from None
        except NotFound:
            raise json_error(NO_THREAD) from None
    return {
        "msg_id": message.id,
        "seq": message.position + 1,
        "created_at": iso(message.created_at),
    }


def msg_list(context: Context, thread_id: str, after_seq: int, limit: int) -> Json:
    with context.library() as library:
        return read_page(context, library, thread_id, after_seq, limit)


def msg_wait(context: Context, thread_id: str, after_seq: int, timeout_seconds: float) -> Json:
    deadline = time.monotonic() + timeout_seconds
    with count_wait(context.user), context.changes() as changes:
        last_version: object = None
        while True:
            # The library is released while we sleep: other users may need its place.
            with context.library() as library:
                version = library.version()
                if last_version is None or version != last_version:
                    last_version = version
                    page = read_page(context, library, thread_id, after_seq, DEFAULT_MESSAGES)
            seconds = deadline - time.monotonic()
            if page["messages"] or seconds <= 0 or context.is_cancelled():
                return page
            changes.wait(seconds, POLL_SECONDS, context.is_cancelled)


_waits: Counter[str | None] = Counter()
_waits_lock = threading.Lock()


@contextmanager
def count_wait(user: str | None) -> Iterator[None]:
    """Limit how many calls wait at once, so that they leave server threads for other calls."""
    with _waits_lock:
        if _waits[user] >= MAX_WAITS_EACH_USER or _waits.total() >= MAX_WAITS:
            raise json_error("Too many calls are waiting for messages. Use msg_list instead.")
        _waits[user] += 1
    try:
        yield
    finally:
        with _waits_lock:
            _waits[user] -= 1
            if not _waits[user]:
                del _waits[user]


def read_page(context: Context, library: Library, thread_id: str, after: int, limit: int) -> Json:
    """The messages of a thread after a sequence number, as many as fit into an answer."""
    find_thread(context, library, thread_id)
    messages: list[Json] = []
    room, has_more = MAX_ANSWER_LENGTH, True
    while has_more and not messages:  # a page on which nothing is visible is skipped
        try:
            passages, current_seq = library.messages(thread_id, after, limit)
        except NotFound:
            raise json_error(NO_THREAD) from None
        after = current_seq
        for passage in passages:
            if context.can_find(passage):
                message = message_json(passage, context.audience)
                if len(message["content"]) > MAX_CONTENT_LENGTH:
                    content = message["content"][:MAX_CONTENT_LENGTH] + "..."
                    message = {**message, "content": content, "truncated": True}
                room -= len(message["content"])
                if room < 0 and messages:
                    break
                messages.append(message)
            after = passage.position + 1
        has_more = after < current_seq
    return {"messages": messages, "current_seq": current_seq, "has_more": has_more}


def find_thread(context: Context, library: Library, thread_id: str) -> Summary:
    try:
        thread = library.summary(thread_id)
    except NotFound:
        raise json_error(NO_THREAD) from None
    if not context.can_reach(thread):
        raise json_error(NO_THREAD)
    return thread


def _sources(context: Context) -> tuple[str, ...]:
    """The sources to search and list; none means all. An API key for the bus sees only threads."""
    if context.can_use("conversations"):
        return ()
    return (BUS_SOURCE,)


def outdated(context: Context, library: Library, thread_id: str, expected: int) -> ToolError:
    """The error for a post after which others have posted, with their messages."""
    page = read_page(context, library, thread_id, expected, MAX_MESSAGES)
    current_seq = page["current_seq"]
    if READ not in context.scopes:
        return json_error(f"The thread is at {current_seq}.", current_seq=current_seq)
    return json_error(
        f"expected_last_seq is {expected}, but the thread is at {current_seq}: "
        "read new_messages, then post again.",
        expected_last_seq=expected,
        current_seq=current_seq,
        new_messages=sanitize(page["messages"]),
        has_more=page["has_more"],
    )
