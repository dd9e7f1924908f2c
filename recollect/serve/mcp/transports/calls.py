"""MCP calls in a server with many users: who calls, which tools they see, and where calls run.

Calls run in threads of their own, so that a call that waits for messages delays nobody. Searches
take turns with those of other routes. HTTP and WebSocket share all of this; each has its own way to
send the answer.
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
from recollect.serve.mcp.transports.streams import StreamStore
from recollect.settings import LIMITS
from recollect.store.audit_log import current_actor

if TYPE_CHECKING:
    from pathlib import Path

    from recollect.library import Library
    from recollect.model.documents import Summary
    from recollect.serve.http.service import Service

logger = logging.getLogger(__name__)

THREADS = 48
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
        self.actor = current_actor()

    @property
    def home(self) -> Path | str:
        return self._service.place

    @property
    def place(self) -> Path | str | None:
        """Without authentication, the server belongs to one local user, like `recollect mcp`."""
        if self._is_local:
            return self._service.place
        return None

    def library(self, *, create: bool = False) -> AbstractContextManager[Library]:
        assert self.user is not None
        return self._service.libraries.borrow(self.user)

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
        self.session_key = self.headers.get(SESSION_HEADER) or query.get(SESSION_HEADER)
        if self.session_key is not None and not is_key(self.session_key):
            raise Problem(400, "A session id must have 1 to 128 visible ASCII characters.")

    @property
    def user(self) -> str:
        return self.principal.user

    def context(self, notify: Notify | None = None) -> ServiceContext:
        config: Mapping[str, Any] = self.config
        if self.session is not None:
            config = self.session.merge_preferences(config)
        return ServiceContext(
            self.service, self.principal, session=self.session, config=config, notify=notify
        )

    def take_session_argument(self, message: Any) -> None:
        """Remove `session_id` from a call's arguments. Clients without another session key may
        name their session there."""
        if not isinstance(message, dict) or message.get("method") != "tools/call":
            return
        arguments = params_of(message).get("arguments")
        if isinstance(arguments, dict) and is_key(arguments.get("session_id")):
            key = arguments.pop("session_id")
            if self.session is None:
                self.session = self.server.sessions.get_or_create(self.user, key)


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
    """The MCP side of one server: its sessions, streams, catalogs and running calls."""

    def __init__(self, service: Service) -> None:
        self.sessions = Sessions()
        self.streams = StreamStore()
        self.service = service
        self._catalog = Catalog()
        self._threads = ThreadPoolExecutor(THREADS, "recollect-mcp")
        self._running: Counter[str] = Counter()
        self._connections: Counter[str] = Counter()
        self._contexts: set[Context] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_watching = False

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

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
        self, caller: Caller, dispatcher: Dispatcher, message: Any, context: Context
    ) -> Reply:
        """Answer a message that may take long. Never raises."""
        self._contexts.add(context)
        if not self._is_watching:
            self._is_watching = True
            self.start(self._cancel_on_shutdown())
        try:
            with self._count_call(caller.user):
                if not _is_search(message):
                    return await self._run_in_thread(dispatcher, message, context)
                async with caller.turn:
                    return await self._run_in_thread(dispatcher, message, context)
        except RpcError as error:
            rpc_error = error
        except Problem as problem:
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

    async def _run_in_thread(self, dispatcher: Dispatcher, message: Any, context: Context) -> Reply:
        def run() -> Reply:
            if context.is_cancelled():
                return Reply()
            try:
                return Reply.from_answer(dispatcher.handle(message, context))
            except Exception:
                raise
            except BaseException as error:  # such as SystemExit: it must not end the server
                raise RuntimeError(f"A tool raised {error!r}") from error

        return await asyncio.get_running_loop().run_in_executor(self._threads, run)

    async def _cancel_on_shutdown(self) -> None:
        """While calls run, watch for a shutdown, and then cancel them."""
        try:
            while self._contexts and not self.service.draining.is_set():
                await asyncio.sleep(TICK_SECONDS)
            if self.service.draining.is_set():
                for context in self._contexts:
                    context.cancel()
        finally:
            self._is_watching = False

    def _count_call(self, user: str) -> _Count:
        is_full = self._running.total() >= LIMITS.mcp_calls
        if is_full or self._running[user] >= LIMITS.mcp_calls_each_user:
            raise RpcError(
                TOO_BUSY, "Too many concurrent calls. Try again.", data={"retryAfter": 1}
            )
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
