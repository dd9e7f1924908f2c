"""What a server remembers between the calls of one MCP client: what it was shown, what it asked, what it prefers.

A session belongs to a user and has a key: the protocol's own session id, the
connection, or a name that the client chose. Whoever else knows the key finds
nothing under it. Everything here is bounded and lost with the process: a
session only spares repetition, nothing depends on it.
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

MOST_SEEN = 1_000
MOST_QUERIES = 10
LONGEST_QUERY = 200
NOTHING: Mapping[str, Any] = MappingProxyType({})
_KEY = re.compile(r"[\x21-\x7e]{1,128}")


# -- one session -----------------------------------------------------------


class Call(Protocol):
    """A request of a session that is not answered yet."""

    def cancel(self) -> None: ...


class Session:
    """One client of one user. Safe to use from any thread."""

    __slots__ = (
        "_lock",
        "_queries",
        "_seen",
        "calls",
        "client",
        "defaults",
        "key",
        "profile",
        "used",
        "version",
    )

    def __init__(
        self, key: str = "", *, client: str = "", version: str = "", profile: str = ""
    ) -> None:
        self.key = key
        self.client = client
        """What the client called itself when the session began."""
        self.version = version
        """The revision of the protocol that was agreed upon; empty where none was."""
        self.profile = profile
        self.defaults: Mapping[str, Any] = NOTHING
        self.calls: dict[Any, Call] = {}
        """By their ids in the protocol; for the transport, which uses it from the event loop alone."""
        self.used = 0.0
        self._seen = array("q")  # hashes: a set of addresses would take twenty times the room
        self._queries: list[str] = []
        self._lock = threading.Lock()

    def prefer(self, config: Mapping[str, Any]) -> None:
        """Remember preferences; see `preferences`."""
        self.defaults = MappingProxyType({**self.defaults, **config})

    def config(self, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """The preferences of one request: its own before the session's."""
        return {**self.defaults, **given}

    def unseen(self, uris: Iterable[str]) -> list[str]:
        """Those that were not returned in this session yet, in their order."""
        with self._lock:
            seen = set(self._seen)
        return [uri for uri in dict.fromkeys(uris) if hash(uri) not in seen]

    def forget(self, uris: Iterable[str]) -> None:
        """Start over with these: they are new again."""
        again = set(map(hash, uris))
        with self._lock:
            self._seen = array("q", [mark for mark in self._seen if mark not in again])

    def returned(self, uris: Iterable[str]) -> None:
        """Remember what an answer held: that alone, not what was found and left out."""
        with self._lock:
            known = set(self._seen)
            self._seen.extend(
                mark for uri in dict.fromkeys(uris) if (mark := hash(uri)) not in known
            )
            if (over := len(self._seen) - MOST_SEEN) > 0:
                del self._seen[:over]

    def asked(self, query: str) -> None:
        with self._lock:
            self._queries = [*self._queries[1 - MOST_QUERIES :], query[:LONGEST_QUERY]]

    @property
    def recent_queries(self) -> list[str]:
        """What was asked last, the oldest first."""
        with self._lock:
            return list(self._queries)


# -- all of them -----------------------------------------------------------


def is_key(text: Any) -> bool:
    """Whether a client may name its session so."""
    return isinstance(text, str) and _KEY.fullmatch(text) is not None


class Sessions:
    """The sessions of a server, by user and key. One that is not used for a while is forgotten; where there are too
    many, of all users or of one, that which was not used for longest is. Safe to use from any thread."""

    def __init__(
        self,
        most: int | None = None,
        each_user: int | None = None,
        seconds: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._most = LIMITS.mcp_sessions if most is None else most
        self._each_user = LIMITS.mcp_sessions_each_user if each_user is None else each_user
        self._seconds = LIMITS.mcp_session_seconds if seconds is None else seconds
        self._clock = clock
        self._by_use: OrderedDict[tuple[str, str], Session] = OrderedDict()
        self._of_user: dict[str, OrderedDict[str, None]] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._by_use)

    def new(self, user: str, key: str = "", **about: str) -> Session:
        """Begin a session, under a key of ours unless one is given; what was there before is forgotten."""
        session = Session(key or secrets.token_hex(16), **about)
        with self._lock:
            self._remove(user, session.key)
            self._add(user, session)
        return session

    def get(self, user: str, key: str) -> Session | None:
        """The user's session of this key, if it goes on."""
        with self._lock:
            self._forget_old()
            return self._use(user, key)

    def named(self, user: str, key: str) -> Session:
        """The user's session of this key, begun if need be: for clients that choose the key."""
        with self._lock:
            self._forget_old()
            session = self._use(user, key)
            if session is None:
                session = Session(key)
                self._add(user, session)
            return session

    def end(self, user: str, key: str) -> bool:
        """Forget a session; whether there was one."""
        with self._lock:
            self._forget_old()
            return self._remove(user, key)

    def _use(self, user: str, key: str) -> Session | None:
        session = self._by_use.get((user, key))
        if session is not None:
            session.used = self._clock()
            self._by_use.move_to_end((user, key))
            self._of_user[user].move_to_end(key)
        return session

    def _add(self, user: str, session: Session) -> None:
        self._forget_old()
        session.used = self._clock()
        self._by_use[user, session.key] = session
        mine = self._of_user.setdefault(user, OrderedDict())
        mine[session.key] = None
        if len(mine) > self._each_user:
            self._remove(user, next(iter(mine)))
        if len(self._by_use) > self._most:
            self._remove(*next(iter(self._by_use)))

    def _remove(self, user: str, key: str) -> bool:
        if self._by_use.pop((user, key), None) is None:
            return False
        mine = self._of_user[user]
        del mine[key]
        if not mine:
            del self._of_user[user]
        return True

    def _forget_old(self) -> None:
        until = self._clock() - self._seconds
        while self._by_use:
            (user, key), session = next(iter(self._by_use.items()))
            if session.used > until:
                return
            self._remove(user, key)
