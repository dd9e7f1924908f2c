"""What a tool is given: whose library it may use, for whom, and the way back to the client while it works.

Who asks is settled by the transport before a tool is called: from the process
over stdio, from the credential over HTTP and WebSocket. Nothing in a message's
arguments can change it.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from types import MappingProxyType

TYPE_CHECKING = False  # typing itself is not imported before `initialize` is answered
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager
    from pathlib import Path
    from typing import Any, TypeAlias

    from recollect.library import Library
    from recollect.model.audience import Audience
    from recollect.serve.mcp.sessions import Session

READ, WRITE = "read", "write"
NO_CONFIG: Mapping[str, Any] = MappingProxyType({})
Notify: TypeAlias = "Callable[[str, dict[str, Any]], None]"
"""Sends a notification (method, params) to the client that waits for this call's answer; from any thread."""


class ToolError(Exception):
    """A call that failed for a reason which the caller may read: the whole text of the answer."""


class TooManyCalls(Exception):
    """A call over the user's limit; the client is told to come again in so many seconds."""

    def __init__(self, retry_after: int) -> None:
        super().__init__(f"Too many calls. Try again in {retry_after} seconds.")
        self.retry_after = retry_after


class Answer:
    """What a tool returns where a text alone does not do. `structured` is the same as JSON, for programs."""

    __slots__ = ("structured", "text")

    def __init__(self, text: str, structured: Any = None) -> None:
        self.text = text
        self.structured = structured


class Context:
    """One call. A transport makes one for each request, of a subclass that says where libraries come from."""

    def __init__(
        self,
        user: str | None = None,
        *,
        client: str = "",
        agent: bool = True,
        scopes: frozenset[str] = frozenset((READ, WRITE)),
        base_url: str = "",
        session: Session | None = None,
        config: Mapping[str, Any] = NO_CONFIG,
        notify: Notify | None = None,
    ) -> None:
        self.user = user
        self.client = client
        """What the client calls itself: good for choosing a shape, never for granting anything."""
        self.agent = agent
        """Whether contents that only people may see are masked."""
        self.scopes = scopes
        self.base_url = base_url
        self.session = session
        """What is remembered between calls; None means that nothing is, and nothing is left out as seen before."""
        self.config = config
        self._notify = notify
        self._token: str | int | None = None
        self._ended: list[bool] = []
        """Holds something once nobody waits for the answer; the contexts of one message share it."""

    def library(self, *, create: bool = False) -> AbstractContextManager[Library]:
        """The user's library, for as long as the call needs it. Without one, and not told to make it: ToolError."""
        raise LookupError("this context has no library")

    @property
    def place(self) -> Path | str | None:
        """Where the libraries are, where a process serves its own user alone: that user's other databases, too, may
        be searched."""
        return None

    def admit(self, tool: str, *, writes: bool) -> None:
        """Count a call against the user's limits. Raises TooManyCalls."""

    @property
    def hides(self) -> bool:
        """Whether contents that only people may see are left out, where otherwise they are masked."""
        from recollect.settings import HUMAN_ONLY

        return HUMAN_ONLY.get() == "hide"

    @property
    def audience(self) -> Audience:
        from recollect.model.audience import Audience

        if not self.agent:
            return Audience.PERSON
        if self.hides:
            return Audience.AGENT_HIDDEN
        return Audience.AGENT_MASKED

    # -- while it works ---

    def progress(self, done: float, total: float | None = None, message: str = "") -> None:
        """Tell the client how far the call is, if it wants to know. `done` must grow."""
        if self._token is None or self._notify is None or self._ended:
            return
        params: dict[str, Any] = {"progressToken": self._token, "progress": done}
        if total is not None:
            params["total"] = total
        if message:
            params["message"] = message
        self._notify("notifications/progress", params)

    def cancelled(self) -> bool:
        """Whether nobody waits for the answer any more."""
        return bool(self._ended)

    def cancel(self) -> None:
        self._ended.append(True)

    def of_request(self, token: str | int | None, client: str = "") -> Context:
        """This context for one request: with its progress token. Cancelling either cancels both."""
        mine = object.__new__(type(self))
        mine.__dict__.update(self.__dict__, _token=token, client=client or self.client)
        return mine


class LocalLibrary:
    """The library of a process that serves one user: opened on first need, kept until the end."""

    def __init__(self, home: str | None = None, user: str | None = None) -> None:
        self.home = home
        self.user = user
        self._library: Library | None = None
        self._session: Session | None = None
        """What is remembered between the calls of the connection, of which such a process has one."""
        self._lock = threading.Lock()

    def context(self, config: Any = None, *, notify: Notify | None = None) -> Context:
        """The context of one call: of an agent, since who starts such a process is one. `config` is what the client
        prefers, unchecked."""
        from recollect.knowledge.preferences import parse_preferences
        from recollect.serve.mcp.sessions import Session

        with self._lock:
            session = self._session = self._session or Session()
        return LocalContext(self, session=session, config=parse_preferences(config), notify=notify)

    def open(self, *, create: bool = False) -> Library:
        from recollect import places
        from recollect.settings import place

        with self._lock:
            if self._library is None:
                opened = places.open if create else places.open_existing
                self._library = opened(self.home, self.user)
            if self._library is None:
                home = place(self.home)
                where = (
                    "that database" if isinstance(home, str) else home
                )  # its address has a password
                raise ToolError(
                    f"Database not found: no library in {where}. Make one with: recollect import PATH"
                )
            return self._library

    def close(self) -> None:
        with self._lock:
            if self._library is not None:
                self._library.close()
                self._library = None


class LocalContext(Context):
    """A call of the process's own user."""

    def __init__(self, local: LocalLibrary, **settled: Any) -> None:
        super().__init__(local.user, **settled)
        self._local = local

    @contextmanager
    def library(self, *, create: bool = False) -> Iterator[Library]:
        yield self._local.open(create=create)

    @property
    def place(self) -> Path | str:
        from recollect.settings import place

        return place(self._local.home)
