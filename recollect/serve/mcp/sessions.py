"""MCP sessions: the results a client has seen, its recent queries, and its preferences.

A session belongs to a user and has a key: the protocol's session id, or a key the client chose.
Another user who knows the key finds nothing. Everything here is bounded and lost when the process
ends; sessions only avoid repetition, and nothing depends on them.
"""

from __future__ import annotations

import re
import secrets
import threading
import time
from array import array
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Protocol

from recollect.settings import LIMITS

MAX_SEEN = 1_000
MAX_QUERIES = 10
MAX_QUERY_LENGTH = 200
NO_PREFERENCES: Mapping[str, Any] = MappingProxyType({})
_KEY = re.compile(r"[\x21-\x7e]{1,128}")


# -- one session ---


class Call(Protocol):
    """A request of a session that has not been answered yet."""

    def cancel(self) -> None: ...


class Session:
    """One client of one user. Thread-safe."""

    __slots__ = (
        "_lock",
        "_queries",
        "_seen",
        "calls",
        "client",
        "key",
        "last_use",
        "preferences",
        "profile",
        "version",
    )

    def __init__(
        self, key: str = "", *, client: str = "", version: str = "", profile: str = ""
    ) -> None:
        self.key = key
        self.client = client
        """What the client called itself in `initialize`."""
        self.version = version
        """The negotiated protocol version; empty if none was negotiated."""
        self.profile = profile
        self.preferences: Mapping[str, Any] = NO_PREFERENCES
        self.calls: dict[Any, Call] = {}
        """By request id. Only the transport uses it, from the event loop."""
        self.last_use = 0.0
        self._seen = array("q")  # hashes: a set of URIs would take twenty times the memory
        self._queries: list[str] = []
        self._lock = threading.Lock()

    def add_preferences(self, config: Mapping[str, Any]) -> None:
        """Remember preferences, validated by `recollect.knowledge.preferences`."""
        self.preferences = MappingProxyType({**self.preferences, **config})

    def merge_preferences(self, config: Mapping[str, Any]) -> Mapping[str, Any]:
        """The preferences for one request: its own take precedence over the session's."""
        return {**self.preferences, **config}

    def unseen(self, uris: Iterable[str]) -> list[str]:
        """The URIs this session has not returned yet, in order."""
        with self._lock:
            seen = set(self._seen)
        return [uri for uri in dict.fromkeys(uris) if hash(uri) not in seen]

    def forget(self, uris: Iterable[str]) -> None:
        """Treat these URIs as unseen again."""
        hashes = set(map(hash, uris))
        with self._lock:
            self._seen = array("q", [value for value in self._seen if value not in hashes])

    def returned(self, uris: Iterable[str]) -> None:
        """Remember the URIs of an answer (not the results that were found but left out)."""
        with self._lock:
            seen = set(self._seen)
            hashes = [hash(uri) for uri in dict.fromkeys(uris)]
            self._seen.extend(value for value in hashes if value not in seen)
            del self._seen[: max(0, len(self._seen) - MAX_SEEN)]

    def add_query(self, query: str) -> None:
        with self._lock:
            self._queries = [*self._queries[1 - MAX_QUERIES :], query[:MAX_QUERY_LENGTH]]

    @property
    def recent_queries(self) -> list[str]:
        """The latest queries, oldest first."""
        with self._lock:
            return list(self._queries)


# -- all sessions ---


def is_key(text: Any) -> bool:
    """Whether a client may use this as a session key."""
    return isinstance(text, str) and _KEY.fullmatch(text) is not None


class Sessions:
    """The sessions of a server, by user and key. Thread-safe.

    Idle sessions expire. If there are too many, overall or of one user, the least recently used one
    is dropped.
    """

    def __init__(
        self,
        limit: int | None = None,
        limit_each_user: int | None = None,
        seconds: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if limit is None:
            limit = LIMITS.mcp_sessions
        if limit_each_user is None:
            limit_each_user = LIMITS.mcp_sessions_each_user
        if seconds is None:
            seconds = LIMITS.mcp_session_seconds
        self._limit = limit
        self._limit_each_user = limit_each_user
        self._seconds = seconds
        self._clock = clock
        self._sessions: OrderedDict[tuple[str, str], Session] = OrderedDict()
        self._keys_by_user: dict[str, OrderedDict[str, None]] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._sessions)

    def create(self, user: str, key: str = "", **attributes: str) -> Session:
        """Start a session, replacing any session with that key. Without a key, generate one."""
        session = Session(key or secrets.token_hex(16), **attributes)
        with self._lock:
            self._remove(user, session.key)
            self._add(user, session)
        return session

    def get(self, user: str, key: str) -> Session | None:
        """The user's session with this key, if it has not ended."""
        with self._lock:
            self._remove_expired()
            return self._use(user, key)

    def get_or_create(self, user: str, key: str) -> Session:
        """The user's session with this key, for clients that choose the key."""
        with self._lock:
            self._remove_expired()
            session = self._use(user, key)
            if session is None:
                session = Session(key)
                self._add(user, session)
            return session

    def end(self, user: str, key: str) -> bool:
        """End a session; return whether there was one."""
        with self._lock:
            self._remove_expired()
            return self._remove(user, key)

    def _use(self, user: str, key: str) -> Session | None:
        session = self._sessions.get((user, key))
        if session is not None:
            session.last_use = self._clock()
            self._sessions.move_to_end((user, key))
            self._keys_by_user[user].move_to_end(key)
        return session

    def _add(self, user: str, session: Session) -> None:
        self._remove_expired()
        session.last_use = self._clock()
        self._sessions[user, session.key] = session
        keys = self._keys_by_user.setdefault(user, OrderedDict())
        keys[session.key] = None
        if len(keys) > self._limit_each_user:
            self._remove(user, next(iter(keys)))
        if len(self._sessions) > self._limit:
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
        oldest = self._clock() - self._seconds
        while self._sessions:
            (user, key), session = next(iter(self._sessions.items()))
            if session.last_use > oldest:
                return
            self._remove(user, key)
