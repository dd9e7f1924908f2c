"""The context of a tool call: who calls, which library they may use, and how to report progress.

The transport decides who calls before a tool runs: from the process over stdio, from the credential
over HTTP and WebSocket. Nothing in a message can change it.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager

TYPE_CHECKING = False  # typing itself is not imported before `initialize` is answered
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager
    from pathlib import Path
    from typing import Any, TypeAlias

    from recollect.library import Library
    from recollect.model.audience import Audience, Labelled
    from recollect.model.documents import Summary
    from recollect.serve.mcp.client_sessions import Session
    from recollect.store.audit_log import Actor
    from recollect.store.shared.changes import ChangeWaiter

READ, WRITE = "read", "write"
Notify: TypeAlias = "Callable[[str, dict[str, Any]], None]"
"""Sends a notification (method, params) to the waiting client, from any thread."""


class ToolError(Exception):
    """A tool call failed. The message is the whole answer to the caller."""


class NoLibrary(ToolError):
    """Nothing was imported yet."""


class TooManyCalls(ToolError):
    """The user exceeded a rate limit."""

    def __init__(self, retry_after: int) -> None:
        unit = "second" if retry_after == 1 else "seconds"
        super().__init__(f"Too many calls. Try again in {retry_after} {unit}.")
        self.retry_after = retry_after


class Answer:
    """A tool's answer with structured content: the same data as text and as JSON."""

    def __init__(self, text: str, structured: Any = None) -> None:
        self.text = text
        self.structured = structured


class Context:
    """One call. Each transport has a subclass that knows where libraries come from."""

    def __init__(
        self,
        user: str | None = None,
        *,
        client: str = "",
        agent: bool = True,
        scopes: frozenset[str] = frozenset((READ, WRITE)),
        base_url: str = "",
        session: Session | None = None,
        config: Mapping[str, Any] | None = None,
        notify: Notify | None = None,
    ) -> None:
        self.user = user
        self.client = client
        """What the client calls itself. Use it to shape answers, never to grant access."""
        self.agent = agent
        """Whether the caller is an agent; see `audience`."""
        self.scopes = scopes
        self.base_url = base_url
        self.session = session
        """What is remembered between calls. Without a session, no result is skipped as seen."""
        self.config: Mapping[str, Any] = config or {}
        self.actor: Actor | None = None
        """Who calls, for the audit log; None if the process serves one local user."""
        self._notify = notify
        self._progress_token: str | int | None = None
        # Set once nobody waits for the answer. A list, so that copies for single requests share it.
        self._cancellations: list[bool] = []

    def library(self, *, create: bool = False) -> AbstractContextManager[Library]:
        """The user's library, for as long as the call needs it. Raises ToolError if there is none,
        unless `create`."""
        raise LookupError("this context has no library")

    @property
    def home(self) -> Path | str | None:
        """Where the libraries of all users are."""
        return self.place

    @property
    def place(self) -> Path | str | None:
        """Where the libraries are, if the process serves one local user: that user's other
        databases may be searched, too."""
        return None

    def can_use(self, toolset: str) -> bool:
        """Whether the caller's API key allows a toolset, offered or not."""
        return True

    def can_reach(self, document: Summary) -> bool:
        """Whether tools for conversations may show a document to the caller's API key."""
        return True

    def admit(self, tool: str, *, writes: bool) -> None:
        """Count a call against the user's rate limits. Raises TooManyCalls."""

    @property
    def audience(self) -> Audience:
        """Who reads the answer: a person, or an agent that may not see human-only messages."""
        from recollect.serve.masking import audience_of

        return audience_of(is_agent=self.agent)

    def can_find(self, message: Labelled) -> bool:
        """Whether the caller may know that a message exists. It may still have to be masked."""
        from recollect.serve.masking import can_find

        return can_find(message, self.audience)

    def changes(self) -> AbstractContextManager[ChangeWaiter]:
        """For a call that waits until something in the user's library changes."""
        from recollect.store.shared.changes import ChangeSignals

        return ChangeSignals().waiter("")

    def progress(self, progress: float, total: float | None = None, message: str = "") -> None:
        """Report progress if the client asked for it. `progress` must increase."""
        if self._progress_token is None or self._notify is None or self._cancellations:
            return
        params: dict[str, Any] = {"progressToken": self._progress_token, "progress": progress}
        if total is not None:
            params["total"] = total
        if message:
            params["message"] = message
        self._notify("notifications/progress", params)

    def is_cancelled(self) -> bool:
        """Whether nobody is waiting for the answer."""
        return bool(self._cancellations)

    def cancel(self) -> None:
        self._cancellations.append(True)

    def for_request(self, progress_token: str | int | None, client: str = "") -> Context:
        """A copy for one request, with its progress token. Cancelling either cancels both."""
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__)
        copy._progress_token = progress_token
        copy.client = client or self.client
        return copy


class LocalLibrary:
    """The library of a process that serves one user: opened on first use, open until `close`."""

    def __init__(self, home: str | None = None, user: str | None = None) -> None:
        self.home = home
        self.user = user
        self._library: Library | None = None
        # Such a process has one connection, and so one session.
        self._session: Session | None = None
        self._lock = threading.Lock()

    def context(self, config: Any = None, *, notify: Notify | None = None) -> Context:
        """The context of one call. The caller is an agent, because agents start such processes.

        `config` holds the client's preferences, not yet validated.
        """
        from recollect.knowledge.retrieval import parse_preferences
        from recollect.serve.mcp.client_sessions import Session

        with self._lock:
            if self._session is None:
                self._session = Session()
        config = parse_preferences(config)
        return LocalContext(self, session=self._session, config=config, notify=notify)

    def open(self, *, create: bool = False) -> Library:
        from recollect import places
        from recollect.settings import place

        with self._lock:
            if self._library is None:
                open_library = places.open if create else places.open_existing
                self._library = open_library(self.home, self.user)
            if self._library is None:
                home = place(self.home)
                # The address of a database contains a password.
                where = "that database" if isinstance(home, str) else home
                raise NoLibrary(
                    f"Database not found: no library in {where}. "
                    "Create one with: recollect import PATH"
                )
            return self._library

    def close(self) -> None:
        with self._lock:
            if self._library is not None:
                self._library.close()
                self._library = None


class LocalContext(Context):
    """A call by the process's own user."""

    def __init__(self, local: LocalLibrary, **options: Any) -> None:
        super().__init__(local.user, **options)
        self._local = local

    @contextmanager
    def library(self, *, create: bool = False) -> Iterator[Library]:
        yield self._local.open(create=create)

    @property
    def place(self) -> Path | str:
        from recollect.settings import place

        return place(self._local.home)
