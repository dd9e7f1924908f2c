"""MCP in a server of many users: whose call it is, which tools they see, and where it is worked on.

Calls run in threads of their own, so that one that waits for messages keeps
nobody else waiting; searches among them take turns with those of other routes.
HTTP and WebSocket share all of this; each has its own way to send the answer.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import TYPE_CHECKING, Any, NamedTuple

from starlette.applications import Starlette
from starlette.datastructures import Headers, QueryParams
from starlette.types import Scope

from recollect.knowledge.preferences import parse_preferences
from recollect.serve.http import limits
from recollect.serve.http.error_responses import Problem
from recollect.serve.http.json_response import encode_json
from recollect.serve.http.principal import WRITE, Principal
from recollect.serve.mcp.catalog import Catalog
from recollect.serve.mcp.context import Context, Notify, TooManyCalls
from recollect.serve.mcp.protocol import (
    INTERNAL_ERROR,
    TAKE_LONG,
    TOO_BUSY,
    Dispatcher,
    RpcError,
    failure,
    is_id,
)
from recollect.serve.mcp.sessions import Session, Sessions, is_key
from recollect.serve.mcp.transports.streams import KeptStreams
from recollect.settings import LIMITS

if TYPE_CHECKING:
    from recollect.library import Library
    from recollect.serve.http.service import Service

logger = logging.getLogger(__name__)

THREADS = 48
LOCAL = "local"  # the credential of somebody who needs none
SESSION = "mcp-session-id"
CONFIG = "mcp-config"
TICK = 1.0


class ServiceContext(Context):
    """A call of somebody whom the edge let in."""

    def __init__(self, service: Service, principal: Principal, **settled: Any) -> None:
        super().__init__(
            principal.user,
            agent=principal.agent or principal.credential == LOCAL,
            scopes=principal.scopes,
            base_url=service.config.base_url,
            **settled,
        )
        self._service = service

    def library(self, *, create: bool = False) -> AbstractContextManager[Library]:
        assert self.user is not None
        return self._service.libraries.borrow(self.user)

    def admit(self, tool: str, *, writes: bool) -> None:
        group = limits.WRITE if writes else limits.SEARCH
        wait = self._service.limiter.take((self.user, tool), group)
        if wait:
            self._service.metrics.rate_limited.labels(group).inc()
            raise TooManyCalls(wait)


class Caller:
    """Who speaks on a connection, or in one request: what the edge found out, and what they prefer."""

    def __init__(self, scope: Scope) -> None:
        state = scope["state"]
        self.server = server_of(scope["app"])
        self.service = self.server.service
        self.headers = Headers(scope=scope)
        self.principal: Principal = state["principal"]
        self.turn: AbstractAsyncContextManager[None] = state["turn"]
        self.catalog = self.server.catalog_for(scope["path_params"].get("profile"), self.principal)
        query: Mapping[str, str] = (
            QueryParams(scope["query_string"]) if scope["query_string"] else {}
        )
        self.config = parse_preferences(query.get("config") or self.headers.get(CONFIG))
        self.session: Session | None = None
        key = self.headers.get(SESSION) or query.get(SESSION)
        if key is not None and not is_key(key):
            raise Problem(400, "A session's key has 1 to 128 visible characters of ASCII.")
        self.key = key

    @property
    def user(self) -> str:
        return self.principal.user

    def context(self, notify: Notify | None = None) -> ServiceContext:
        config: Mapping[str, Any] = (
            self.config if self.session is None else self.session.config(self.config)
        )
        return ServiceContext(
            self.service, self.principal, session=self.session, config=config, notify=notify
        )

    def take_key_argument(self, message: Any) -> None:
        """Take `session_id` out of a call's arguments: whoever has no other key may name the session there."""
        params = (
            message.get("params")
            if isinstance(message, dict) and message.get("method") == "tools/call"
            else None
        )
        arguments = params.get("arguments") if isinstance(params, dict) else None
        if isinstance(arguments, dict) and is_key(arguments.get("session_id")):
            key = arguments.pop("session_id")
            if self.session is None:
                self.session = self.server.sessions.named(self.user, key)


class Done(NamedTuple):
    """An answer as JSON; without a body where none is due. Of an error also its code, and when to try again."""

    body: bytes | None = None
    code: int | None = None
    retry_after: int | None = None

    @classmethod
    def of(cls, answer: Any) -> Done:
        if answer is None:
            return cls()
        error = answer.get("error", {}) if isinstance(answer, dict) else {}
        data = error.get("data")
        return cls(
            encode_json(answer),
            error.get("code"),
            data.get("retryAfter") if isinstance(data, dict) else None,
        )


class Calls:
    """The MCP side of one server."""

    def __init__(self, service: Service) -> None:
        self.sessions = Sessions()
        self.kept = KeptStreams()
        self.service = service
        self._catalog = Catalog()
        self._threads = ThreadPoolExecutor(THREADS, "recollect-mcp")
        self._running: Counter[str] = Counter()
        self._connections: Counter[str] = Counter()
        self._contexts: set[Context] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._watching = False

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._catalog.close()

    def catalog_for(self, profile: str | None, principal: Principal) -> Catalog:
        """The tools of a profile, as far as the credential goes. Raises Problem where there is no such profile."""
        try:
            return self._catalog.variant(
                profile=profile, read_only=WRITE not in principal.scopes, allowed=principal.toolsets
            )
        except ValueError:
            raise Problem(404, "There is no such profile of tools.") from None

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Let something go on that may outlive the request it came with."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def work(
        self, caller: Caller, dispatcher: Dispatcher, message: Any, context: Context
    ) -> Done:
        """The answer to a message that takes long. Nothing is raised."""
        request_id = message.get("id") if isinstance(message, dict) else None
        self._contexts.add(context)
        if not self._watching:
            self._watching = True
            self.start(self._watch())
        try:
            with self._one_more(caller.user):
                if not _searches(message):
                    return await self._in_thread(dispatcher, message, context)
                async with caller.turn:
                    return await self._in_thread(dispatcher, message, context)
        except RpcError as error:
            refusal = error
        except Problem as problem:
            refusal = RpcError(TOO_BUSY, problem.detail, data={"retryAfter": problem.retry_after})
        except Exception:
            logger.exception("An MCP request failed")
            refusal = RpcError(
                INTERNAL_ERROR, "Something went wrong here. The server's log says more."
            )
        finally:
            self._contexts.discard(context)
        return Done.of(failure(request_id, refusal))

    async def _in_thread(self, dispatcher: Dispatcher, message: Any, context: Context) -> Done:
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[Done] = loop.create_future()

        def settle(done: Done, error: BaseException | None) -> None:
            if answered.cancelled():
                return
            if error is None:
                answered.set_result(done)
            else:
                answered.set_exception(error)

        def run() -> None:
            done = Done()
            failed: BaseException | None = None
            try:
                done = Done.of(None if context.cancelled() else dispatcher.handle(message, context))
            except Exception as error:
                failed = error
            except BaseException as error:  # as SystemExit: it ends the call, never the thread
                failed = RuntimeError(f"A tool ended with {error!r}")
            loop.call_soon_threadsafe(settle, done, failed)

        self._threads.submit(run)  # run_in_executor does the same, with two futures more
        return await answered

    async def _watch(self) -> None:
        """While calls run, look whether the server stops: then those that wait need not."""
        try:
            while self._contexts and not self.service.draining.is_set():
                await asyncio.sleep(TICK)
            if self.service.draining.is_set():
                for context in self._contexts:
                    context.cancel()
        finally:
            self._watching = False

    def _one_more(self, user: str) -> _Counted:
        most, each = LIMITS.mcp_calls, LIMITS.mcp_calls_each_user
        if self._running.total() >= most or self._running[user] >= each:
            raise RpcError(TOO_BUSY, "Too many calls at once. Try again.", data={"retryAfter": 1})
        return _Counted(self._running, user)

    def connection(self, user: str) -> _Counted:
        """Count a connection that stays open. Raises Problem where there are too many."""
        most, each = LIMITS.mcp_connections, LIMITS.mcp_connections_each_user
        if self._connections.total() >= most or self._connections[user] >= each:
            raise Problem(
                429, "Too many MCP connections are open at once; close some.", retry_after=30
            )
        return _Counted(self._connections, user)


class _Counted:
    """One of a number that is bounded; it counts from the beginning to the end of a block."""

    def __init__(self, counter: Counter[str], user: str) -> None:
        self._counter = counter
        self._user = user

    def __enter__(self) -> None:
        self._counter[self._user] += 1

    def __exit__(self, *_: object) -> None:
        self._counter[self._user] -= 1
        if not self._counter[self._user]:
            del self._counter[self._user]


def server_of(app: Starlette) -> Calls:
    """The MCP side of the app that a request came to; made when it is first needed."""
    if not hasattr(app.state, "mcp"):
        app.state.mcp = Calls(app.state.service)
    made: Calls = app.state.mcp
    return made


def takes_long(message: Any) -> bool:
    if isinstance(message, dict):
        return message.get("method") in TAKE_LONG and is_id(message.get("id"))
    return isinstance(message, list)


def _searches(message: Any) -> bool:
    """Whether one of the tools that are asked for searches: then it takes its turn."""
    if isinstance(message, list):
        return any(map(_searches, message))
    params = message.get("params") if isinstance(message, dict) else None
    name = params.get("name") if isinstance(params, dict) else None
    return isinstance(name, str) and name.endswith("search")
