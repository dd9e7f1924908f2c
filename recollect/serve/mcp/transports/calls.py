"""MCP calls in a server with many users: who calls, which tools they see, and where calls run.

Calls run in threads of their own, so that a call that waits for messages delays nobody. Searches
take turns with those of other routes. HTTP and WebSocket share all of this; each has its own way to
send the answer.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from starlette.applications import Starlette
from starlette.datastructures import Headers, QueryParams
from starlette.types import Scope

from recollect.errors import RecollectError, StoreBusy
from recollect.knowledge.preferences import parse_preferences
from recollect.serve.http.checks import limits
from recollect.serve.http.error_responses import Problem
from recollect.serve.http.json_response import encode_json
from recollect.serve.identity.principal import LOCAL, WRITE, Principal
from recollect.serve.mcp.catalog import Catalog
from recollect.serve.mcp.context import Context, Notify, TooManyCalls
from recollect.serve.mcp.jsonrpc import (
    INTERNAL_ERROR,
    TOO_BUSY,
    RpcError,
    error_response,
    params_of,
    request_id_of,
)
from recollect.serve.mcp.protocol import Dispatcher
from recollect.serve.mcp.sessions import Session, Sessions, is_key
from recollect.serve.mcp.transports.shared_calls import SharedCalls
from recollect.settings import LIMITS
from recollect.store.audit_log import current_actor

if TYPE_CHECKING:
    from pathlib import Path

    from recollect.library import Library
    from recollect.model.documents import Summary
    from recollect.serve.http.service import Service
    from recollect.store.shared.changes import ChangeWaiter

logger = logging.getLogger(__name__)
T = TypeVar("T")

THREADS = 48
DATABASE_THREADS = 8
"""For sessions and streams. Calls that wait for messages may occupy all of the other threads."""
SESSION_HEADER = "mcp-session-id"
CONFIG_HEADER = "mcp-config"
TICK_SECONDS = 1.0


class ServiceContext(Context):
    """A call by an authenticated user."""

    def __init__(self, service: Service, principal: Principal, **options: Any) -> None:
        super().__init__(
            principal.user,
            agent=principal.agent or principal.credential == LOCAL,
            scopes=principal.scopes,
            base_url=service.config.base_url,
            **options,
        )
        self._service = service
        self._principal = principal
        self._is_local = principal.credential == LOCAL
        self.refusal: str | None = None
        """Why the server is too busy for this call. Its tool gets this instead of a library."""
        self.actor = current_actor()

    def use_session(self, session: Session) -> None:
        """Remember the call in a session, and prefer what the session prefers."""
        self.session = session
        self.config = session.merge_preferences(self.config)

    @property
    def home(self) -> Path | str:
        return self._service.place

    @property
    def place(self) -> Path | str | None:
        """Without authentication, the server belongs to one local user, like `recollect mcp`."""
        if self._is_local and self.refusal is None:
            return self._service.place
        return None

    def library(self, *, create: bool = False) -> AbstractContextManager[Library]:
        assert self.user is not None
        if self.refusal is not None:
            raise StoreBusy(self.refusal)
        return self._service.libraries.borrow(self.user)

    def changes(self) -> AbstractContextManager[ChangeWaiter]:
        assert self.user is not None
        return self._service.changes.waiter(self.user)

    def can_use(self, toolset: str) -> bool:
        return self._principal.has_toolset(toolset)

    def can_reach(self, document: Summary) -> bool:
        return self._principal.can_reach(document)

    def admit(self, tool: str, *, writes: bool) -> None:
        group = limits.SEARCH
        if writes:
            group = limits.WRITE
        retry_after = self._service.limiter.take((self.user, tool), group)
        if retry_after:
            self._service.metrics.rate_limited.labels(group).inc()
            raise TooManyCalls(retry_after)


class Caller:
    """Who uses a connection or sends a request: their identity, session and preferences."""

    def __init__(self, scope: Scope) -> None:
        state = scope["state"]
        self.server = server_of(scope["app"])
        self.service = self.server.service
        self.headers = Headers(scope=scope)
        self.principal: Principal = state["principal"]
        self.turn: AbstractAsyncContextManager[None] = state["turn"]
        self.catalog = self.server.catalog_for(scope["path_params"].get("profile"), self.principal)
        query = QueryParams(scope["query_string"])
        self.config = parse_preferences(query.get("config") or self.headers.get(CONFIG_HEADER))
        self.session: Session | None = None
        self.own_key: str | None = None
        """The key of a session that the client named itself. Such a session may be new."""
        self.session_key = self.headers.get(SESSION_HEADER) or query.get(SESSION_HEADER)
        if self.session_key is not None and not is_key(self.session_key):
            raise Problem(400, "A session id must have 1 to 128 visible ASCII characters.")

    @property
    def user(self) -> str:
        return self.principal.user

    def context(self, notify: Notify | None = None) -> ServiceContext:
        context = ServiceContext(self.service, self.principal, config=self.config, notify=notify)
        if self.session is not None:
            context.use_session(self.session)
        return context

    def take_session_argument(self, message: Any) -> None:
        """Remove `session_id` from a call's arguments. Clients without another session key may
        name their session there."""
        if not isinstance(message, dict) or message.get("method") != "tools/call":
            return
        arguments = params_of(message).get("arguments")
        if isinstance(arguments, dict) and is_key(arguments.get("session_id")):
            key = arguments.pop("session_id")
            if self.session is None and self.own_key is None:
                self.own_key = key


class Reply(NamedTuple):
    """An answer as JSON, without a body if none is due; for an error also its code, and when to
    retry."""

    body: bytes | None = None
    error_code: int | None = None
    retry_after: int | None = None

    @classmethod
    def from_answer(cls, answer: Any) -> Reply:
        if answer is None:
            return cls()
        error: dict[str, Any] = {}
        if isinstance(answer, dict):
            error = answer.get("error", {})
        retry_after = None
        if isinstance(error.get("data"), dict):
            retry_after = error["data"].get("retryAfter")
        return cls(encode_json(answer), error.get("code"), retry_after)


class CallServer:
    """The MCP side of one server: sessions, catalogs and running calls."""

    def __init__(self, service: Service) -> None:
        self.sessions = Sessions(service.shared)
        self.service = service
        self._catalog = Catalog()
        self._threads = ThreadPoolExecutor(THREADS, "recollect-mcp")
        self._database_threads = ThreadPoolExecutor(DATABASE_THREADS, "recollect-mcp-database")
        self.shared_calls = SharedCalls(self.sessions, service, self.in_database_thread)
        self._running: Counter[str] = Counter()
        self._connections: Counter[str] = Counter()
        self._contexts: set[Context] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_watching = False

    async def close(self) -> None:
        await self.shared_calls.finish()
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._database_threads.shutdown(wait=False, cancel_futures=True)

    async def in_database_thread(self, work: Callable[..., T], *arguments: Any) -> T:
        """Run something that waits for the shared database."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._database_threads, work, *arguments)

    def catalog_for(self, profile: str | None, principal: Principal) -> Catalog:
        """The tools of a profile that a credential may use. Raises Problem if there is no such
        profile."""
        try:
            return self._catalog.variant(
                profile=profile, read_only=WRITE not in principal.scopes, allowed=principal.toolsets
            )
        except ValueError:
            raise Problem(404, "There is no such tool profile.") from None

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Run something in the background that may outlive its request."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def work(
        self, caller: Caller, dispatcher: Dispatcher, message: Any, context: ServiceContext
    ) -> Reply:
        """Answer a message that may take long. Never raises."""
        self._contexts.add(context)
        self.watch()
        try:
            with self._count_call(caller.user):
                if not _is_search(message):
                    return await self._run_in_thread(caller, dispatcher, message, context)
                async with caller.turn:
                    return await self._run_in_thread(caller, dispatcher, message, context)
        except Problem as problem:
            if isinstance(message, dict) and message.get("method") == "tools/call":
                # SDKs throw protocol errors. So the tool answers, in the words of its contract.
                context.refusal = problem.detail
                return Reply.from_answer(dispatcher.handle(message, context))
            data = {"retryAfter": problem.retry_after}
            rpc_error = RpcError(TOO_BUSY, problem.detail, data=data)
        except Exception:  # the client must get a response to every request
            logger.exception("An MCP request failed")
            rpc_error = RpcError(
                INTERNAL_ERROR, "An internal error occurred. See the server log for details."
            )
        finally:
            self._contexts.discard(context)
        return Reply.from_answer(error_response(request_id_of(message), rpc_error))

    async def _run_in_thread(
        self, caller: Caller, dispatcher: Dispatcher, message: Any, context: ServiceContext
    ) -> Reply:
        def run() -> Reply:
            if context.is_cancelled():
                return Reply()
            if caller.own_key is not None and context.session is None:
                context.use_session(self.sessions.get_or_create(caller.user, caller.own_key))
            try:
                return Reply.from_answer(dispatcher.handle(message, context))
            except Exception:  # an ordinary error is handled by the caller
                raise
            except BaseException as error:  # such as SystemExit: it must not end the server
                raise RuntimeError(f"A tool raised {error!r}") from error
            finally:
                self._save_session(caller.user, context.session)

        return await asyncio.get_running_loop().run_in_executor(self._threads, run)

    def _save_session(self, user: str, session: Session | None) -> None:
        """Store what the session is to remember. The answer does not depend on it."""
        if session is None or not session.key:
            return
        try:
            self.sessions.save(user, session)
        except RecollectError as error:
            logger.warning("An MCP session was not saved: %s", error)

    def watch(self) -> None:
        """While calls run or clients listen, watch for a shutdown and for what other servers do."""
        if not self._is_watching:
            self._is_watching = True
            self.start(self._watch())

    async def _watch(self) -> None:
        try:
            while self._contexts or self.shared_calls.are_watched:
                if self.service.draining.is_set():
                    break
                await asyncio.sleep(TICK_SECONDS)
                await self.shared_calls.check()
            if self.service.draining.is_set():
                for context in self._contexts:
                    context.cancel()
        finally:
            self._is_watching = False

    def _count_call(self, user: str) -> _Count:
        is_full = self._running.total() >= LIMITS.mcp_calls
        if is_full or self._running[user] >= LIMITS.mcp_calls_each_user:
            raise Problem(429, "Too many concurrent calls. Try again.", retry_after=1)
        return _Count(self._running, user)

    def count_connection(self, user: str) -> _Count:
        """Count a connection that stays open. Raises Problem if there are too many."""
        is_full = self._connections.total() >= LIMITS.mcp_connections
        if is_full or self._connections[user] >= LIMITS.mcp_connections_each_user:
            raise Problem(429, "Too many MCP connections are open. Close some.", retry_after=30)
        return _Count(self._connections, user)


class _Count:
    """Counts one call or connection for the duration of a `with` block."""

    def __init__(self, counter: Counter[str], user: str) -> None:
        self._counter = counter
        self._user = user

    def __enter__(self) -> None:
        self._counter[self._user] += 1

    def __exit__(self, *_: object) -> None:
        self._counter[self._user] -= 1
        if not self._counter[self._user]:
            del self._counter[self._user]


def server_of(app: Starlette) -> CallServer:
    """The app's call server, created on first use."""
    if not hasattr(app.state, "mcp"):
        app.state.mcp = CallServer(app.state.service)
    server: CallServer = app.state.mcp
    return server


def _is_search(message: Any) -> bool:
    """Whether one of the called tools searches. Searches take turns."""
    if isinstance(message, list):
        return any(map(_is_search, message))
    name = params_of(message).get("name")
    return isinstance(name, str) and name.endswith("search")
