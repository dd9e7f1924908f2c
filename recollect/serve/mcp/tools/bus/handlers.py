"""Handlers of the bus tools: threads, messages, and search. The definitions are in `definitions`.

A thread is a conversation, so imported and saved conversations can be searched and read here, too.
For agents, human-only messages are masked, or left out if RECOLLECT_HUMAN_ONLY is `hide`: then no
search, count or page mentions them.
"""

from __future__ import annotations

import threading
import time
import uuid
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
from recollect.serve.mcp.arguments import (
    Arguments,
    json_answer,
    json_error,
    json_errors,
    sanitize,
)
from recollect.serve.mcp.context import READ, Answer, Context, ToolError
from recollect.serve.mcp.tools.bus.definitions import (
    BUS_CONNECT,
    DEFAULT_MESSAGES,
    MAX_RESULTS,
    MAX_WAIT_SECONDS,
    MSG_LIST,
    MSG_POST,
    MSG_SEARCH,
    MSG_WAIT,
    THREAD_LIST,
)
from recollect.serve.threads import (
    BUS_SOURCE,
    NO_THREAD,
    message_json,
    result_json,
    thread_json,
    thread_status,
)
from recollect.settings import LIMITS

MAX_SEQ = 2_000_000_000
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


class Handlers:
    """One object serves every user."""

    def __init__(self) -> None:
        self._waits = _Waits()

    # -- search ---

    def msg_search(self, context: Context, arguments: dict[str, Any]) -> Answer:
        args = Arguments(MSG_SEARCH, arguments)
        query = args.required_text("query").strip()
        thread_id = args.text("thread_id")
        limit = args.number("limit", 1, MAX_RESULTS)
        conversations: tuple[str, ...] = ()
        if thread_id:
            conversations = (thread_id,)
        with json_errors(), context.library() as library:
            try:
                page = library.match_expression(
                    query,
                    conversations=conversations,
                    sources=_sources(context),
                    limit=limit,
                    audience=context.audience,
                )
            except MalformedQuery:
                return json_answer({"results": [], "total": 0, "query": query})
        results = sanitize([result_json(hit, context.audience) for hit in page.hits])
        return json_answer({"results": results, "total": page.total, "query": query})

    # -- threads ---

    def bus_connect(self, context: Context, arguments: dict[str, Any]) -> Answer:
        args = Arguments(BUS_CONNECT, arguments)
        thread_id = args.text("thread_id")
        after = args.number("after_seq", 0, MAX_SEQ)
        topic = args.text("thread_name")
        if not thread_id:
            topic = args.required_text("thread_name")
        name = _agent_name(args, context)
        with json_errors(), context.library(create=True) as library:
            created = False
            if not thread_id:
                created = library.find_id(BUS_SOURCE, topic) is None
                thread_id = library.thread(topic).id
            thread = _find_thread(context, library, thread_id)
            page = _MessagePage(context, library, thread_id, after, DEFAULT_MESSAGES)
        answer = {
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
                {field: message[field] for field in _CONNECT_FIELDS} for message in page.messages
            ],
            "current_seq": page.current_seq,
        }
        return json_answer(sanitize(answer))

    def thread_list(self, context: Context, arguments: dict[str, Any]) -> Answer:
        args = Arguments(THREAD_LIST, arguments)
        limit = args.number("limit", 1, MAX_RESULTS)
        offset = args.number("offset", 0, LIMITS.page_offset)
        sources = _sources(context)
        if args.choice("scope") == "bus":
            sources = (BUS_SOURCE,)
        with json_errors(), context.library() as library:
            summaries, total = library.conversation_page(
                Filter.of(sources=sources), limit=limit, offset=offset
            )
        threads = sanitize([thread_json(thread) for thread in summaries])
        return json_answer({"threads": threads, "total": total, "limit": limit, "offset": offset})

    # -- messages ---

    def msg_post(self, context: Context, arguments: dict[str, Any]) -> Answer:
        args = Arguments(MSG_POST, arguments)
        thread_id = args.required_text("thread_id")
        author = args.required_text("author")
        content = args.text("content")
        if "content" not in args:
            raise json_error("content is required")
        message_id = args.text("id")
        metadata = args.object("metadata")
        if args.text("reply_to"):
            metadata["reply_to"] = args.text("reply_to")
        visibility = HUMAN_ONLY if args.flag("human_only") else ALL
        role = args.choice("role")
        expected = None
        if "expected_last_seq" in args:
            expected = args.number("expected_last_seq", 0, MAX_SEQ)
        with json_errors(), context.library() as library:
            _find_thread(context, library, thread_id)
            try:
                message, _ = library.post(
                    thread_id,
                    author,
                    content,
                    role=role,
                    expected_last_seq=expected,
                    id=message_id or None,
                    metadata=metadata,
                    visibility=visibility,
                )
            except OutdatedPosition:
                raise _outdated(context, library, thread_id, expected or 0) from None
            except NotFound:
                raise json_error(NO_THREAD) from None
        answer = {
            "msg_id": message.id,
            "seq": message.position + 1,
            "created_at": iso(message.created_at),
        }
        return json_answer(sanitize(answer))

    def msg_list(self, context: Context, arguments: dict[str, Any]) -> Answer:
        args = Arguments(MSG_LIST, arguments)
        thread_id = args.required_text("thread_id")
        after = args.number("after_seq", 0, MAX_SEQ)
        limit = args.number("limit", 1, MAX_RESULTS)
        with json_errors(), context.library() as library:
            return _MessagePage(context, library, thread_id, after, limit).answer()

    def msg_wait(self, context: Context, arguments: dict[str, Any]) -> Answer:
        args = Arguments(MSG_WAIT, arguments)
        thread_id = args.required_text("thread_id")
        after = args.number("after_seq", 0, MAX_SEQ)
        deadline = time.monotonic() + args.decimal("timeout_seconds", 0, MAX_WAIT_SECONDS)
        with self._waits.count(context.user), context.changes() as changes:
            last_version: object = None
            while True:
                # The library is released while we sleep: other users may need its place.
                with json_errors(), context.library() as library:
                    version = library.version()
                    if last_version is None or version != last_version:
                        last_version = version
                        page = _MessagePage(context, library, thread_id, after, DEFAULT_MESSAGES)
                seconds = deadline - time.monotonic()
                if page.messages or seconds <= 0 or context.is_cancelled():
                    return page.answer()
                changes.wait(seconds, POLL_SECONDS, context.is_cancelled)


# -- pages of messages ---


class _MessagePage:
    """The messages of a thread after a sequence number, as many as fit into an answer."""

    def __init__(
        self, context: Context, library: Library, thread_id: str, after: int, limit: int
    ) -> None:
        self.messages: list[dict[str, Any]] = []
        self.has_more = False
        _find_thread(context, library, thread_id)
        room = MAX_ANSWER_LENGTH
        while True:
            try:
                passages, self.current_seq = library.messages(thread_id, after, limit)
            except NotFound:
                raise json_error(NO_THREAD) from None
            for passage in passages:
                if not context.can_find(passage):
                    continue
                message = _shorten(message_json(passage, context.audience))
                room -= len(message["content"])
                if room < 0 and self.messages:
                    self.has_more = True
                    return
                self.messages.append(message)
            after = self.current_seq
            if passages:
                after = passages[-1].position + 1
            self.has_more = after < self.current_seq
            # A page on which nothing is visible is skipped.
            if self.messages or not self.has_more:
                return

    def answer(self) -> Answer:
        answer = {
            "messages": self.messages,
            "current_seq": self.current_seq,
            "has_more": self.has_more,
        }
        return json_answer(sanitize(answer))


def _shorten(message: dict[str, Any]) -> dict[str, Any]:
    if len(message["content"]) <= MAX_CONTENT_LENGTH:
        return message
    content = message["content"][:MAX_CONTENT_LENGTH] + "..."
    return {**message, "content": content, "truncated": True}


def _find_thread(context: Context, library: Library, thread_id: str) -> Summary:
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


def _agent_name(args: Arguments, context: Context) -> str:
    """The agent's display name, or a name made from its program and model."""
    display_name = args.text("display_name").strip()
    program = args.text("ide").strip()
    model = args.text("model").strip()
    if display_name:
        return display_name
    if program and model:
        return f"{program} ({model})"
    return program or model or context.client or "agent"


def _outdated(context: Context, library: Library, thread_id: str, expected: int) -> ToolError:
    """The error for a post after which others have posted, with their messages."""
    page = _MessagePage(context, library, thread_id, expected, MAX_RESULTS)
    if READ not in context.scopes:
        return json_error(f"The thread is at {page.current_seq}.", current_seq=page.current_seq)
    return json_error(
        f"expected_last_seq is {expected}, but the thread is at {page.current_seq}: "
        "read new_messages, then post again.",
        expected_last_seq=expected,
        current_seq=page.current_seq,
        new_messages=sanitize(page.messages),
        has_more=page.has_more,
    )


class _Waits:
    """Limits how many calls wait at once, so that they leave server threads for other calls."""

    def __init__(self) -> None:
        self._by_user: dict[str | None, int] = {}
        self._lock = threading.Lock()

    @contextmanager
    def count(self, user: str | None) -> Iterator[None]:
        with self._lock:
            own_waits = self._by_user.get(user, 0)
            if own_waits >= MAX_WAITS_EACH_USER or sum(self._by_user.values()) >= MAX_WAITS:
                raise json_error("Too many calls are waiting for messages. Use msg_list instead.")
            self._by_user[user] = own_waits + 1
        try:
            yield
        finally:
            with self._lock:
                self._by_user[user] -= 1
                if not self._by_user[user]:
                    del self._by_user[user]
