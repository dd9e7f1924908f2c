"""MCP sessions: the results a client has seen, its recent queries, and its preferences.

A session belongs to a user and has a key: the protocol's session id, or a key the client chose.
Another user who knows the key finds nothing. Everything here is bounded and expires; sessions only
avoid repetition, and nothing depends on them.

The servers of an installation share their sessions. A call works on a copy of its session, and its
changes are merged into the stored one when it ends.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from recollect.errors import ReadOnlyLibrary, StorageFull
from recollect.settings import LIMITS
from recollect.store.shared.database import SharedDatabase
from recollect.store.shared.sessions import (
    Change,
    SessionLimits,
    SessionState,
    SessionStore,
    stable_hash,
)

MAX_QUERY_LENGTH = 200


class Session:
    """One client of one user. Thread-safe."""

    def __init__(self, key: str = "", state: SessionState | None = None) -> None:
        self.key = key
        """Empty if the session ends with its connection and is never stored."""
        self.state = state or SessionState()
        self.is_new = False
        """Whether the client chose the key and no server has stored the session yet."""
        self._changes: list[Change] = []
        self._lock = threading.Lock()

    def merge_preferences(self, config: Mapping[str, Any]) -> Mapping[str, Any]:
        """The preferences for one request: its own take precedence over the session's."""
        return {**self.state.preferences, **config}

    def unseen(self, uris: Iterable[str]) -> list[str]:
        """The URIs this session has not returned yet, in order."""
        with self._lock:
            seen = set(self.state.seen)
        return [uri for uri in dict.fromkeys(uris) if stable_hash(uri) not in seen]

    def forget(self, uris: Iterable[str]) -> None:
        """Treat these URIs as unseen again."""
        self._apply(("forgotten", [stable_hash(uri) for uri in uris]))

    def returned(self, uris: Iterable[str]) -> None:
        """Remember the URIs of an answer (not the results that were found but left out)."""
        self._apply(("returned", [stable_hash(uri) for uri in dict.fromkeys(uris)]))

    def add_query(self, query: str) -> None:
        self._apply(("query", query[:MAX_QUERY_LENGTH]))

    @property
    def recent_queries(self) -> list[str]:
        """The latest queries, oldest first."""
        with self._lock:
            return list(self.state.queries)

    def take_changes(self) -> list[Change]:
        """The changes since the last call of this method."""
        with self._lock:
            changes, self._changes = self._changes, []
        return changes

    def _apply(self, change: Change) -> None:
        if change[1]:
            with self._lock:
                self.state.apply(change)
                if self.key:
                    self._changes.append(change)


def is_key(text: Any) -> bool:
    """Whether a client may use this as a session key."""
    is_visible = isinstance(text, str) and text.isascii() and text.isprintable()
    return is_visible and 1 <= len(text) <= 128 and " " not in text


class Sessions:
    """The sessions of an installation. The methods wait for the database: call them in threads.

    Idle sessions expire. If there are too many, overall or of one user, the least recently used one
    is dropped. On a full disk and in read-only mode there are none.
    """

    def __init__(self, database: SharedDatabase, limits: SessionLimits | None = None) -> None:
        if limits is None:
            limits = SessionLimits(
                LIMITS.mcp_sessions, LIMITS.mcp_sessions_each_user, LIMITS.mcp_session_seconds
            )
        self.store = SessionStore(database, limits)

    def __len__(self) -> int:
        return self.store.count()

    def create(self, user: str, key: str = "", state: SessionState | None = None) -> Session | None:
        """Start a session, replacing any session with that key. Without a key, generate one.

        Returns None if it cannot be stored.
        """
        session = Session(key or secrets.token_hex(16), state)
        with suppress(StorageFull, ReadOnlyLibrary):
            self.store.create(user, session.key, session.state)
            return session
        return None

    def get(self, user: str, key: str, *, create: bool = False) -> Session | None:
        """The user's session with this key. With `create`, for clients that choose the key, it may
        be new."""
        state = None
        with suppress(StorageFull, ReadOnlyLibrary):
            state = self.store.load(user, key)
        if state is None and not create:
            return None
        session = Session(key, state)
        session.is_new = state is None
        return session

    def save(self, user: str, session: Session) -> None:
        """Store what has changed in a session."""
        changes = session.take_changes()
        if changes:
            with suppress(StorageFull, ReadOnlyLibrary):
                self.store.merge(user, session.key, changes, create=session.is_new)
            session.is_new = False

    def end(self, user: str, key: str) -> None:
        """End a session, if there is one."""
        with suppress(StorageFull, ReadOnlyLibrary):
            self.store.end(user, key)
