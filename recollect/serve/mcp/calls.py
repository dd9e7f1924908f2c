"""MCP calls in a server with many users: who calls, which tools they see, and where calls run.

Calls run in threads of their own, so that a call that waits for messages delays nobody. Searches
take turns with those of other routes. HTTP and WebSocket share all of this; each has its own way to
send the answer.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.datastructures import Headers, QueryParams
from starlette.types import Scope

from recollect.errors import RecollectError, StoreBusy
from recollect.knowledge.retrieval import parse_preferences
from recollect.serve.http import limits
from recollect.serve.http.responses import Problem
from recollect.serve.identity.principal import LOCAL, WRITE, Principal
from recollect.serve.mcp.catalog import Catalog
from recollect.serve.mcp.client_sessions import Session, Sessions, is_key
from recollect.serve.mcp.context import Context, Notify, TooManyCalls
from recollect.serve.mcp.protocol import (
    INTERNAL_ERROR,
    TOO_BUSY,
    Dispatcher,
    Json,
    RpcError,
    error_response,
    params_of,
    request_id_of,
)
from recollect.settings import LIMITS
from recollect.store.audit_log import current_actor

if TYPE_CHECKING:
    from pathlib import Path

    from recollect.library import Library
    from recollect.model.documents import Summary
    from recollect.serve.http.service import Service
    from recollect.store.shared.changes import ChangeWaiter

logger = logging.getLogger(__name__)

THREADS = 48
"""Calls that wait for messages may occupy most of them (see the bus tools)."""
SESSION_HEADER = "mcp-session-id"
CONFIG_HEADER = "mcp-config"


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
        is_local = self._principal.credential == LOCAL and self.refusal is None
        return self._service.place if is_local else None

    def library(self, *, create: bool = False) -> AbstractContextManager[Library]:
        if self.refusal is not None:
            raise StoreBusy(self.refusal)
        return self._service.libraries.borrow(self._principal.user)

    def changes(self) -> AbstractContextManager[ChangeWaiter]:
        return self._service.changes.waiter(self._principal.user)

    def can_use(self, toolset: str) -> bool:
        return self._principal.has_toolset(toolset)

    def can_reach(self, document: Summary) -> bool:
        return self._principal.can_reach(document)

    def is_cancelled(self) -> bool:
        return super().is_cancelled() or self._service.draining.is_set()

    def admit(self, tool: str, *, writes: bool) -> None:
        group = limits.WRITE if writes else limits.SEARCH
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
        self.user = self.principal.user
        self.search_turn: Callable[[], AbstractAsyncContextManager[None]] = state["search_turn"]
        try:
            self.catalog = self.server.catalog.variant(
                profile=scope["path_params"].get("profile"),
                read_only=WRITE not in self.principal.scopes,
                allowed=self.principal.toolsets,
            )
        except ValueError:
            raise Problem(404, "There is no such tool profile.") from None
        query = QueryParams(scope["query_string"])
        self.config = parse_preferences(query.get("config") or self.headers.get(CONFIG_HEADER))
        self.session: Session | None = None
        self.own_key: str | None = None
        """The key of a session that the client named itself. Such a session may be new."""
        self.session_key = self.headers.get(SESSION_HEADER) or query.get(SESSION_HEADER)
        if self.session_key is not None and not is_key(self.session_key):
            raise Problem(400, "A session id must have 1 to 128 visible ASCII characters.")

    def context(self, notify: Notify | None = None) -> ServiceContext:
        context = ServiceContext(self.service, self.principal, config=self.config, notify=notify)
        if self.session is not None:
            context.use_session(self.session)
        return context

    def take_session_argument(self, message: Any) -> None:
        """Remove `session_id` from a call's arguments. Clients without another session key may
        name their session there."""
        if isinstance(message, dict) and message.get("method") == "tools/call":
            arguments = params_of(message).get("arguments")
            if isinstance(arguments, dict) and is_key(arguments.get("session_id")):
                key = arguments.pop("session_id")
                if self.session is None and self.own_key is None:
                    self.own_key = key


class CallServer:
    """The MCP side of one server: sessions, catalogs and running calls."""

    def __init__(self, service: Service) -> None:
        self.sessions = Sessions(service.shared)
        self.service = service
        self.running: dict[tuple[str, str, Any], Callable[[], None]] = {}
        """How to cancel the calls of sessions, by user, session and request id."""
        self.catalog = Catalog()
        self._threads = ThreadPoolExecutor(THREADS, "recollect-mcp")
        self._calls: Counter[str] = Counter()
        self._connections: Counter[str] = Counter()
        self._tasks: set[asyncio.Task[None]] = set()

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Run something in the background that may outlive its request."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def work(
        self, caller: Caller, dispatcher: Dispatcher, message: Any, context: ServiceContext
    ) -> Json | None:
        """Answer a message that may take long, or None if no answer is due. Never raises."""
        most = (LIMITS.mcp_calls, LIMITS.mcp_calls_each_user)
        loop = asyncio.get_running_loop()
        arguments = (caller, dispatcher, message, context)
        name = params_of(message).get("name")
        try:
            with counted(self._calls, caller.user, *most, "Too many concurrent calls. Try again."):
                if isinstance(name, str) and name.endswith("search"):
                    async with caller.search_turn():
                        return await loop.run_in_executor(self._threads, self._run, *arguments)
                return await loop.run_in_executor(self._threads, self._run, *arguments)
        except Problem as problem:
            if isinstance(message, dict) and message.get("method") == "tools/call":
                # SDKs throw protocol errors. So the tool answers, in the words of its contract.
                context.refusal = problem.detail
                return dispatcher.handle(message, context)
            data = {"retryAfter": problem.retry_after}
            error = RpcError(TOO_BUSY, problem.detail, data=data)
        except Exception:  # the client must get a response to every request
            logger.exception("An MCP request failed")
            error = RpcError(
                INTERNAL_ERROR, "An internal error occurred. See the server log for details."
            )
        return error_response(request_id_of(message), error)

    def _run(
        self, caller: Caller, dispatcher: Dispatcher, message: Any, context: ServiceContext
    ) -> Json | None:
        """In a thread."""
        if context.is_cancelled():
            return None
        if caller.own_key is not None and context.session is None:
            session = self.sessions.get(caller.user, caller.own_key, create=True)
            assert session is not None
            context.use_session(session)
        try:
            return dispatcher.handle(message, context)
        except Exception:  # an ordinary error is handled by the caller
            raise
        except BaseException as error:  # such as SystemExit: it must not end the server
            raise RuntimeError(f"A tool raised {error!r}") from error
        finally:
            if context.session is not None and context.session.key:
                try:
                    self.sessions.save(caller.user, context.session)
                except RecollectError as error:  # the answer does not depend on it
                    logger.warning("An MCP session was not saved: %s", error)

    def connected(self, user: str) -> AbstractContextManager[None]:
        """Count a connection that stays open. Raises Problem if there are too many."""
        most = (LIMITS.mcp_connections, LIMITS.mcp_connections_each_user)
        problem = "Too many MCP connections are open. Close some."
        return counted(self._connections, user, *most, problem, 30)


@contextmanager
def counted(
    counter: Counter[str], user: str, total: int, each: int, problem: str, retry_after: int = 1
) -> Iterator[None]:
    """Count something of a user meanwhile. Raises Problem if there are too many."""
    if counter.total() >= total or counter[user] >= each:
        raise Problem(429, problem, retry_after=retry_after)
    counter[user] += 1
    try:
        yield
    finally:
        counter[user] -= 1
        if not counter[user]:
            del counter[user]


def server_of(app: Starlette) -> CallServer:
    """The app's call server, created on first use."""
    if not hasattr(app.state, "mcp"):
        app.state.mcp = CallServer(app.state.service)
    server: CallServer = app.state.mcp
    return server
