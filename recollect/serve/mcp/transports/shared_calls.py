"""What a server does for sessions that clients also use at other servers.

A call runs in one server. Its client may cancel it, end its session, or resume its stream at any
other. So while calls run or clients listen, a server looks into the shared database once a second,
and the messages of streams are stored there as well.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any, Protocol

from recollect.errors import RecollectError
from recollect.serve.http.json_response import encode_json
from recollect.serve.mcp.jsonrpc import INTERNAL_ERROR, RpcError, error_response
from recollect.serve.mcp.sessions import Sessions
from recollect.serve.mcp.transports.streams import Stream, StreamStore, parse_event_id
from recollect.store.shared.sessions import session_id
from recollect.store.shared.streams import STREAM_SECONDS, StoredMessages, StreamLog

if TYPE_CHECKING:
    from recollect.serve.http.service import Service

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.5
FINISH_SECONDS = 3.0
STORE_SECONDS = 5.0
_SERVER_STOPPED = (
    "The server that worked on this request has stopped, so there is no answer. Send it again."
)

RunInThread = Callable[..., Awaitable[Any]]
SessionName = tuple[str, str]
"""The user and the key of a session."""


class Call(Protocol):
    """A request of a session that has not been answered yet."""

    def cancel(self) -> None: ...


class SharedCalls:
    """The running calls and open streams of sessions. Use it only from the event loop."""

    def __init__(self, sessions: Sessions, service: Service, run_in_thread: RunInThread) -> None:
        self.streams = StreamStore()
        self._sessions = sessions
        self._run_in_thread = run_in_thread
        self._log = StreamLog(service.shared, secrets.token_hex(8))
        self._calls: dict[tuple[SessionName, Any], Call] = {}
        self._listeners: Counter[SessionName] = Counter()
        self._ended: set[SessionName] = set()
        """Sessions that ended while a client listened here."""
        self._unfinished: set[asyncio.Task[None]] = set()
        """Tasks that store streams."""
        self._cleanup: asyncio.Task[None] | None = None

    # -- calls ---

    def add_call(self, name: SessionName, request_id: Any, call: Call) -> None:
        self._calls[name, request_id] = call

    def remove_call(self, name: SessionName, request_id: Any, call: Call) -> None:
        if self._calls.get((name, request_id)) is call:
            del self._calls[name, request_id]

    async def cancel(self, name: SessionName, request_id: Any) -> None:
        """Cancel a call, here or at the server that runs it."""
        call = self._calls.get((name, request_id))
        if call is not None:
            call.cancel()
            return
        await self._try(self._sessions.store.cancel, *name, json.dumps(request_id))

    async def end_session(self, name: SessionName) -> None:
        """Cancel the calls of a session that has ended, and drop its streams."""
        self._cancel_calls_of(name)
        self.streams.remove_session(*name)
        await self._try(self._log.remove_session, session_id(*name))

    def _cancel_calls_of(self, name: SessionName) -> None:
        if name in self._listeners:
            self._ended.add(name)
        for (session, _), call in list(self._calls.items()):
            if session == name:
                call.cancel()

    # -- listeners ---

    def listen(self, name: SessionName) -> None:
        """A client begins to listen for messages of a session."""
        self._listeners[name] += 1

    def stop_listening(self, name: SessionName) -> None:
        self._listeners[name] -= 1
        if not self._listeners[name]:
            del self._listeners[name]
            self._ended.discard(name)

    def has_ended(self, name: SessionName) -> bool:
        """Whether a session has ended to which a client listens."""
        return name in self._ended

    # -- what other servers do ---

    @property
    def are_watched(self) -> bool:
        return bool(self._listeners or self._unfinished)

    async def check(self) -> None:
        """Look for cancelled requests and ended sessions, and keep streams alive."""
        names = {session_id(*name): name for name, _ in self._calls}
        if names:
            requests = await self._try(self._sessions.store.cancelled_requests, list(names))
            for id, request in requests or ():
                await self._cancel_here(names[id], id, request)
        watched = {*names.values(), *self._listeners}
        if watched:
            for name in await self._try(self._sessions.ended, watched) or ():
                self._cancel_calls_of(name)
        if self._unfinished:
            await self._try(self._log.keep_alive)

    async def _cancel_here(self, name: SessionName, id: str, request: str) -> None:
        call = self._calls.get((name, json.loads(request)))
        if call is not None:
            call.cancel()
            await self._try(self._sessions.store.forget_cancellation, id, request)

    async def _try(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """Run something in a thread. If the database cannot be used, log it and return None."""
        try:
            return await self._run_in_thread(work, *arguments)
        except RecollectError as error:
            logger.warning("Sessions are not shared with other servers at the moment: %s", error)
            return None

    # -- streams ---

    async def add_stream(self, name: SessionName, request_id: Any, stream: Stream) -> None:
        """Let the client resume a stream, here or at another server."""
        self.streams.add(*name, stream)
        try:
            await self._run_in_thread(
                self._log.begin, stream.id, session_id(*name), json.dumps(request_id)
            )
        except RecollectError as error:
            logger.warning("A stream can be resumed only at this server: %s", error)
            return
        task = asyncio.create_task(self._store(stream))
        self._unfinished.add(task)
        task.add_done_callback(self._unfinished.discard)

    async def _store(self, stream: Stream) -> None:
        """Store the messages of a stream until it is complete."""
        count = 0
        is_complete = False
        while not is_complete:
            await stream.wait(count, STORE_SECONDS)
            is_complete = stream.is_complete
            messages = stream.messages[count:]
            if messages or is_complete:
                await self._try(self._append, stream.id, count, messages, is_complete)
            count += len(messages)
        if self._cleanup is None:
            self._cleanup = asyncio.create_task(self._drop_expired())

    async def _drop_expired(self) -> None:
        """Delete streams when they have expired, even if no other stream follows."""
        await asyncio.sleep(STREAM_SECONDS + 1)
        self._cleanup = None
        await self._try(self._log.drop_old)

    def _append(self, id: str, count: int, messages: list[bytes], is_last: bool) -> None:
        self._log.append(id, count, messages, is_last=is_last)

    async def find_stored(self, name: SessionName, event_id: str) -> StoredMessages | None:
        """The events that another server has stored of the stream to which an event belongs."""
        stream_id, count = parse_event_id(event_id)
        if count is None:
            return None
        stored: StoredMessages | None = await self._run_in_thread(
            self._log.read, stream_id, session_id(*name), count
        )
        return stored

    async def stored_messages(
        self, name: SessionName, event_id: str
    ) -> AsyncIterator[tuple[str, bytes] | None]:
        """The messages after an event, with their ids, as the other server stores them.

        Yields None from time to time while there is none.
        """
        stream_id, count = parse_event_id(event_id)
        assert count is not None
        while True:
            part = await self.find_stored(name, f"{stream_id}-{count}")
            if part is None:  # the session has ended
                return
            for message in part.messages:
                count += 1
                yield f"{stream_id}-{count}", message
            if part.is_complete:
                return
            if part.is_abandoned:
                await self._end_abandoned(stream_id, part.request)
                continue
            if not part.messages:
                yield None
            await asyncio.sleep(POLL_SECONDS)

    async def _end_abandoned(self, stream_id: str, request: str) -> None:
        error = RpcError(INTERNAL_ERROR, _SERVER_STOPPED)
        message = encode_json(error_response(json.loads(request), error))
        await self._run_in_thread(self._log.end_abandoned, stream_id, message)

    async def finish(self) -> None:
        """Store the last messages before the server stops."""
        if self._unfinished:
            await asyncio.wait(self._unfinished, timeout=FINISH_SECONDS)
        if self._cleanup is not None:
            self._cleanup.cancel()
