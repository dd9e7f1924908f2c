"""The toolset "bus": messages of agents in threads, and the search over them; contract 2.

A thread is a conversation: what was imported or saved elsewhere is found and
read here too. What only people may see is masked for agents, or left out where
RECOLLECT_HUMAN_ONLY is `hide`: then no search, count or page tells of it.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from recollect.errors import NotFound
from recollect.language.query import MalformedQuery
from recollect.language.text import iso
from recollect.library import BUS, Library
from recollect.model.audience import is_marked_human_only
from recollect.model.documents import Passage, Summary
from recollect.serve.masking import is_masked
from recollect.serve.mcp.arguments import Arguments, answered, failed, harmless, told
from recollect.serve.mcp.context import Answer, Context
from recollect.serve.mcp.tools.bus_tools import (
    BUS_CONNECT,
    DEFAULT_MESSAGES,
    LONGEST_WAIT,
    MOST,
    MSG_LIST,
    MSG_POST,
    MSG_SEARCH,
    MSG_WAIT,
    THREAD_LIST,
)
from recollect.serve.threads import (
    NO_THREAD,
    message_json,
    result_json,
    thread_json,
    thread_status,
)
from recollect.settings import LIMITS

LATEST = 2_000_000_000
CONTENT_LENGTH = 20_000
"""Characters of one message that a list shows."""
ANSWER_LENGTH = 200_000
"""Characters of all of them; what follows is on the next page."""
POLL_SECONDS = 0.25
WAITS = 32
WAITS_EACH = 8
"""Calls of msg_wait at once, of all users and of one: each keeps a thread of the server."""
_CONNECTED = ("seq", "author", "role", "content", "created_at")
_NAMES = uuid.UUID("5d0c6a1e-7a55-4a57-9f0c-1d2f7d6d4f11")


class Toolset:
    """See `definitions`. One object serves every user."""

    def __init__(self) -> None:
        self._waits = _Waits()
        self._posting = [threading.Lock() for _ in range(64)]

    def close(self) -> None:
        """Nothing is kept open between calls."""

    # -- searching ---

    def msg_search(self, context: Context, arguments: dict[str, Any]) -> Answer:
        given = Arguments(MSG_SEARCH, arguments)
        query = given.name("query").strip()
        within, limit = given.text("thread_id"), given.number("limit", 1, MOST)
        found: dict[str, Any] = {"results": [], "total": 0, "query": query}
        with told(), context.library() as library:
            try:
                page = library.match_expression(
                    query,
                    conversations=(within,) if within else (),
                    limit=limit,
                    audience=context.audience,
                )
            except MalformedQuery:
                return answered(found)
        results = [result_json(hit, context.audience) for hit in page.hits]
        return answered(found | {"results": harmless(results), "total": page.total})

    # -- threads ---

    def bus_connect(self, context: Context, arguments: dict[str, Any]) -> Answer:
        given = Arguments(BUS_CONNECT, arguments)
        thread_id, after = given.text("thread_id"), given.number("after_seq", 0, LATEST)
        topic = given.text("thread_name") if thread_id else given.name("thread_name")
        name = _name(given, context)
        with told(), context.library(create=True) as library:
            created = False
            if not thread_id:
                there = library.store.find_id(BUS, topic)
                created, thread_id = there is None, there or library.thread(topic).id
            thread = _thread(library, thread_id)
            part = _Part(context, library, thread_id, after, DEFAULT_MESSAGES)
        agent = {"agent_id": str(uuid.uuid5(_NAMES, name)), "name": name, "registered": True}
        joined = {
            "thread_id": thread.id,
            "topic": thread.title,
            "status": thread_status(thread),
            "created": created,
        }
        messages = [{key: message[key] for key in _CONNECTED} for message in part.messages]
        return answered(
            harmless(
                {
                    "agent": agent,
                    "thread": joined,
                    "messages": messages,
                    "current_seq": part.last,
                }
            )
        )

    def thread_list(self, context: Context, arguments: dict[str, Any]) -> Answer:
        given = Arguments(THREAD_LIST, arguments)
        limit, offset = (
            given.number("limit", 1, MOST),
            given.number("offset", 0, LIMITS.page_offset),
        )
        origins = (BUS,) if given.choice("scope") == BUS else ()
        with told(), context.library() as library:
            found, total = library.conversations(limit=limit, offset=offset, sources=origins)
        threads = harmless([thread_json(thread) for thread in found])
        return answered({"threads": threads, "total": total, "limit": limit, "offset": offset})

    # -- messages ---

    def msg_post(self, context: Context, arguments: dict[str, Any]) -> Answer:
        given = Arguments(MSG_POST, arguments)
        thread_id, author, content = (
            given.name("thread_id"),
            given.name("author"),
            given.text("content"),
        )
        if "content" not in given:
            raise failed("content must be given")
        id_, metadata = given.text("id"), given.object("metadata")
        if given.text("reply_to"):
            metadata["reply_to"] = given.text("reply_to")
        human_only = given.flag("human_only") or is_marked_human_only(metadata)
        role = given.choice("role")
        expected = (
            given.number("expected_last_seq", 0, LATEST) if "expected_last_seq" in given else None
        )
        with told(), context.library() as library, self._alone(context.user, thread_id, expected):
            if expected is not None:
                _check_nobody_wrote(context, library, thread_id, expected, id_)
            try:
                posted, _ = library.post(
                    thread_id,
                    author,
                    content,
                    role=role,
                    id=id_ or None,
                    metadata=metadata,
                    human_only=human_only,
                )
            except NotFound:
                raise failed(NO_THREAD) from None
        said = {
            "msg_id": posted.id,
            "seq": posted.position + 1,
            "created_at": iso(posted.created_at),
        }
        return answered(harmless(said))

    def msg_list(self, context: Context, arguments: dict[str, Any]) -> Answer:
        given = Arguments(MSG_LIST, arguments)
        thread_id, after = given.name("thread_id"), given.number("after_seq", 0, LATEST)
        limit = given.number("limit", 1, MOST)
        with told(), context.library() as library:
            return _Part(context, library, thread_id, after, limit).answer()

    def msg_wait(self, context: Context, arguments: dict[str, Any]) -> Answer:
        given = Arguments(MSG_WAIT, arguments)
        thread_id, after = given.name("thread_id"), given.number("after_seq", 0, LATEST)
        ends = time.monotonic() + given.amount("timeout_seconds", 0, LONGEST_WAIT)
        with self._waits.one_more(context.user):
            known: object = None
            while True:
                with (
                    told(),
                    context.library() as library,
                ):  # given back while waiting: others may need the room
                    version = library.version()
                    if known is None or version != known:
                        known = version
                        part = _Part(context, library, thread_id, after, DEFAULT_MESSAGES)
                left = ends - time.monotonic()
                if part.messages or left <= 0 or context.cancelled():
                    return part.answer()
                time.sleep(min(left, POLL_SECONDS))

    @contextmanager
    def _alone(self, user: str | None, thread_id: str, expected: int | None) -> Iterator[None]:
        """For the block, nobody else of this process posts into the thread who expects a last seq."""
        if expected is None:
            yield
            return
        with self._posting[hash((user, thread_id)) % len(self._posting)]:
            yield


# -- what is shown -----------------------------------------------------------


class _Part:
    """The messages of a thread after one, as far as they fit into an answer."""

    def __init__(
        self, context: Context, library: Library, thread_id: str, after: int, limit: int
    ) -> None:
        self.messages: list[dict[str, Any]] = []
        room = ANSWER_LENGTH
        while True:
            try:
                read, self.last = library.messages(thread_id, after, limit)
            except NotFound:
                raise failed(NO_THREAD) from None
            for passage in _seen(context, read):
                shown = _cut(message_json(passage, context.audience))
                room -= len(shown["content"])
                if room < 0 and self.messages:
                    self.more = True
                    return
                self.messages.append(shown)
            after = read[-1].position + 1 if read else self.last
            self.more = after < self.last
            if self.messages or not self.more:
                return

    def answer(self) -> Answer:
        return answered(
            harmless(
                {
                    "messages": self.messages,
                    "current_seq": self.last,
                    "has_more": self.more,
                }
            )
        )


def _leaves_out(context: Context) -> bool:
    return context.agent and context.hides


def _seen(context: Context, passages: Sequence[Passage]) -> list[Passage]:
    return [p for p in passages if not (_leaves_out(context) and is_masked(p, context.audience))]


def _cut(message: dict[str, Any]) -> dict[str, Any]:
    if len(message["content"]) <= CONTENT_LENGTH:
        return message
    return message | {"content": message["content"][:CONTENT_LENGTH] + "...", "truncated": True}


def _thread(library: Library, thread_id: str) -> Summary:
    try:
        return library.store.summary(thread_id)
    except NotFound:
        raise failed(NO_THREAD) from None


def _name(given: Arguments, context: Context) -> str:
    """How an agent is called: as it says, or by its program and model."""
    said, program, model = (given.text(each).strip() for each in ("display_name", "ide", "model"))
    return said or (
        f"{program} ({model})"
        if program and model
        else program or model or context.client or "agent"
    )


def _check_nobody_wrote(
    context: Context, library: Library, thread_id: str, expected: int, id_: str
) -> None:
    """Raise ToolError, with what was written, where a thread has gone on since the caller read it; unless the
    message itself is there, from a call whose answer was lost."""
    part = _Part(context, library, thread_id, expected, MOST)
    if part.last == expected or (id_ and _has(library, thread_id, id_)):
        return
    raise failed(
        f"expected_last_seq is {expected}, but the thread is at {part.last}: read new_messages, then post again.",
        expected_last_seq=expected,
        current_seq=part.last,
        new_messages=harmless(part.messages),
        has_more=part.more,
    )


def _has(library: Library, thread_id: str, message: str) -> bool:
    try:
        library.store.passage_key(thread_id, message)
    except NotFound:
        return False
    return True


class _Waits:
    """How many calls wait, so that they leave threads of the server to the others."""

    def __init__(self) -> None:
        self._of: dict[str | None, int] = {}
        self._lock = threading.Lock()

    @contextmanager
    def one_more(self, user: str | None) -> Iterator[None]:
        with self._lock:
            mine = self._of.get(user, 0)
            if mine >= WAITS_EACH or sum(self._of.values()) >= WAITS:
                raise failed(
                    "Too many calls wait for messages already. Read with msg_list instead."
                )
            self._of[user] = mine + 1
        try:
            yield
        finally:
            with self._lock:
                self._of[user] -= 1
                if not self._of[user]:
                    del self._of[user]
