"""MCP sessions: the results a client has seen, its recent queries, and its preferences.

A session belongs to a user and has a key: the protocol's session id, or a key the client chose.
Another user who knows the key finds nothing. Everything here is bounded and expires; sessions only
avoid repetition, and nothing depends on them.

The servers of an installation share their sessions. A call works on a copy of its session, and its
changes are merged into the stored one when it ends.
"""

from __future__ import annotations

import re
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from recollect.errors import ReadOnlyLibrary, StorageFull
from recollect.settings import LIMITS
from recollect.store.shared.database import SharedDatabase
from recollect.store.shared.sessions import (
    Change,
    SessionLimits,
    SessionState,
    SessionStore,
    session_id,
    stable_hash,
)

MAX_QUERY_LENGTH = 200
_KEY = re.compile(r"[\x21-\x7e]{1,128}")
_CANNOT_WRITE = (StorageFull, ReadOnlyLibrary)


# -- one session ---


class Session:
    """One client of one user. Thread-safe."""

    __slots__ = ("_changes", "_lock", "is_new", "key", "last_use", "state")

    def __init__(self, key: str = "", state: SessionState | None = None) -> None:
        self.key = key
        self.state = state or SessionState()
        self.is_new = False
        """Whether the client chose the key and no server has stored the session yet."""
        self.last_use = 0.0
        self._changes: list[Change] = []
        self._lock = threading.Lock()

    @property
    def client(self) -> str:
        return self.state.client

    @property
    def version(self) -> str:
        return self.state.version

    @property
    def profile(self) -> str:
        return self.state.profile

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
        hashes = [stable_hash(uri) for uri in dict.fromkeys(uris)]
        if hashes:
            self._apply(("returned", hashes))

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
        with self._lock:
            self.state.apply(change)
            if self.key:  # others are never stored
                self._changes.append(change)


# -- all sessions ---


def is_key(text: Any) -> bool:
    """Whether a client may use this as a session key."""
    return isinstance(text, str) and _KEY.fullmatch(text) is not None


def _configured_limits() -> SessionLimits:
    return SessionLimits(
        LIMITS.mcp_sessions, LIMITS.mcp_sessions_each_user, LIMITS.mcp_session_seconds
    )


class Sessions:
    """The sessions of an installation. The methods wait for the database: call them in threads.

    Idle sessions expire. If there are too many, overall or of one user, the least recently used one
    is dropped. On a full disk and in read-only mode, new sessions are kept in memory. Then only
    this server knows them, and they end with it.
    """

    def __init__(self, database: SharedDatabase, limits: SessionLimits | None = None) -> None:
        if limits is None:
            limits = _configured_limits()
        self.store = SessionStore(database, limits)
        self.in_memory = SessionsInMemory(limits)

    def __len__(self) -> int:
        return self.store.count() + len(self.in_memory)

    def create(self, user: str, key: str = "", state: SessionState | None = None) -> Session:
        """Start a session, replacing any session with that key. Without a key, generate one."""
        session = Session(key or secrets.token_hex(16), state)
        try:
            self.store.create(user, session.key, session.state)
        except _CANNOT_WRITE:
            self.in_memory.add(user, session)
        return session

    def get(self, user: str, key: str) -> Session | None:
        """The user's session with this key, if it has not ended."""
        session = self.in_memory.get(user, key)
        if session is not None:
            return session
        try:
            state = self.store.load(user, key)
        except _CANNOT_WRITE:
            return None
        if state is None:
            return None
        return Session(key, state)

    def get_or_create(self, user: str, key: str) -> Session:
        """The user's session with this key, for clients that choose the key."""
        session = self.get(user, key)
        if session is None:
            session = Session(key)
            session.is_new = True
        return session

    def save(self, user: str, session: Session) -> None:
        """Store what has changed in a session."""
        changes = session.take_changes()
        if not changes or self.in_memory.get(user, session.key) is not None:
            return
        try:
            self.store.merge(user, session.key, changes, create=session.is_new)
        except _CANNOT_WRITE:
            self.in_memory.add(user, session)
        session.is_new = False

    def end(self, user: str, key: str) -> bool:
        """End a session; return whether there was one."""
        if self.in_memory.end(user, key):
            return True
        try:
            return self.store.end(user, key)
        except _CANNOT_WRITE:
            return False

    def ended(self, pairs: Iterable[tuple[str, str]]) -> set[tuple[str, str]]:
        """Which of these users and keys have a session that ended. The others stay alive."""
        by_id = {}
        for user, key in pairs:
            if self.in_memory.get(user, key) is None:
                by_id[session_id(user, key)] = (user, key)
        if not by_id:
            return set()
        try:
            live_ids = self.store.keep(list(by_id))
        except _CANNOT_WRITE:
            return set()
        return {pair for id, pair in by_id.items() if id not in live_ids}


class SessionsInMemory:
    """Sessions that could not be stored, by user and key. Thread-safe."""

    def __init__(
        self,
        limits: SessionLimits | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if limits is None:
            limits = _configured_limits()
        self._limits = limits
        self._clock = clock
        self._sessions: OrderedDict[tuple[str, str], Session] = OrderedDict()
        self._keys_by_user: dict[str, OrderedDict[str, None]] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._sessions)

    def add(self, user: str, session: Session) -> None:
        """Add a session, replacing any session with its key."""
        with self._lock:
            self._remove(user, session.key)
            self._add(user, session)

    def get(self, user: str, key: str) -> Session | None:
        """The user's session with this key, if it has not ended."""
        if not self._sessions:
            return None
        with self._lock:
            self._remove_expired()
            session = self._sessions.get((user, key))
            if session is not None:
                session.last_use = self._clock()
                self._sessions.move_to_end((user, key))
                self._keys_by_user[user].move_to_end(key)
            return session

    def end(self, user: str, key: str) -> bool:
        """End a session; return whether there was one."""
        with self._lock:
            self._remove_expired()
            return self._remove(user, key)

    def _add(self, user: str, session: Session) -> None:
        self._remove_expired()
        session.last_use = self._clock()
        self._sessions[user, session.key] = session
        keys = self._keys_by_user.setdefault(user, OrderedDict())
        keys[session.key] = None
        if len(keys) > self._limits.each_user:
            self._remove(user, next(iter(keys)))
        if len(self._sessions) > self._limits.total:
            self._remove(*next(iter(self._sessions)))

    def _remove(self, user: str, key: str) -> bool:
        if self._sessions.pop((user, key), None) is None:
            return False
        keys = self._keys_by_user[user]
        del keys[key]
        if not keys:
            del self._keys_by_user[user]
        return True

    def _remove_expired(self) -> None:
        oldest = self._clock() - self._limits.seconds
        while self._sessions:
            (user, key), session = next(iter(self._sessions.items()))
            if session.last_use > oldest:
                return
            self._remove(user, key)
