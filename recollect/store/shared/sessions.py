"""MCP sessions.

A session is stored under a digest of its user and key, so that the database contains no keys.
Calls of one session may run at the same time, also on several servers. So a call does not replace
the session: its changes are applied to the session as it is when the call ends.
"""

from __future__ import annotations

import hashlib
import json
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from recollect.store.shared.database import Rows, SharedDatabase, Tables, Transaction

MAX_SEEN = 1_000
MAX_QUERIES = 10
_EVERYTHING = 1_000_000_000
_JSON_FIELDS = ("client", "version", "profile", "preferences", "queries")
_COLUMNS = "data, seen"

TABLES = Tables(
    "sessions",
    (
        """create table session (
          id text primary key,
          owner text not null,
          data text not null,
          seen {bytes} not null,
          used_at bigint not null
        )""",
        "create index session_owner on session (owner, used_at)",
        "create index session_used_at on session (used_at)",
    ),
    is_durable=False,
)

Change = tuple[str, Any]
"""A change of a session: what it is (`returned`, `forgotten` or `query`), and its value."""


@dataclass(slots=True)
class SessionState:
    """What is remembered between the calls of a session."""

    client: str = ""
    """What the client called itself in `initialize`."""
    version: str = ""
    """The negotiated protocol version; empty if none was negotiated."""
    profile: str = ""
    preferences: dict[str, Any] = field(default_factory=dict)
    """What the client asked for in `initialize`; see `recollect.knowledge.retrieval`."""
    # Hashes: a set of URIs would take twenty times the memory.
    seen: array[int] = field(default_factory=lambda: array("q"))
    """The results that were returned, oldest first."""
    queries: list[str] = field(default_factory=list)
    """The latest queries, oldest first."""

    def apply(self, change: Change) -> None:
        match change:
            case ("returned", hashes):
                seen = set(self.seen)
                self.seen.extend(value for value in hashes if value not in seen)
                del self.seen[: max(0, len(self.seen) - MAX_SEEN)]
            case ("forgotten", hashes):
                forgotten = set(hashes)
                self.seen = array("q", [value for value in self.seen if value not in forgotten])
            case ("query", query):
                self.queries = [*self.queries[1 - MAX_QUERIES :], query]


def stable_hash(text: str) -> int:
    """A hash of 64 bits that is the same in every process."""
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def session_id(user: str, key: str) -> str:
    """The id under which a session is stored. Another user who knows the key finds nothing."""
    return _digest(f"{len(user)} {user} {key}")


@dataclass(frozen=True, slots=True)
class SessionLimits:
    total: int
    each_user: int
    seconds: float
    """Until an unused session expires."""

    @property
    def lifetime(self) -> int:
        """In microseconds."""
        return int(self.seconds * 1_000_000)

    @property
    def touch_interval(self) -> int:
        """How often the last use of a session is stored, in microseconds."""
        return min(self.lifetime // 10, 60_000_000)


class SessionStore:
    """The sessions of all servers. The methods wait for the database."""

    def __init__(self, database: SharedDatabase, limits: SessionLimits) -> None:
        self._database = database
        self._limits = limits

    def count(self) -> int:
        ((count,),) = self._execute(
            f"select count(*) from session where used_at > {self._database.now} - ?",
            (self._limits.lifetime,),
        )
        return int(count)

    def create(self, user: str, key: str, state: SessionState) -> None:
        """Store a session, replacing any session of this key."""
        with self._database.transaction(TABLES) as db:
            db.run("delete from session where id = ?", (session_id(user, key),))
            self._insert(db, user, key, state)

    def load(self, user: str, key: str) -> SessionState | None:
        """A session, if it has not ended."""
        id = session_id(user, key)
        now = self._database.now
        rows = self._execute(
            f"select {now} - used_at, {_COLUMNS} from session where id = ? and used_at > {now} - ?",
            (id, self._limits.lifetime),
        )
        for age, *columns in rows:
            if age > self._limits.touch_interval:
                self._execute(f"update session set used_at = {now} where id = ?", (id,))
            return decode(columns)
        return None

    def merge(self, user: str, key: str, changes: Sequence[Change], *, create: bool) -> None:
        """Apply the changes of a call. With `create`, store the session if there is none."""
        id = session_id(user, key)
        with self._database.transaction(TABLES) as db:
            rows = db.rows(f"select {_COLUMNS} from session where id = ? {db.for_update}", (id,))
            if not rows and not create:
                return  # it has ended
            if not rows:
                self._insert(db, user, key, SessionState())
                # Another server may have been faster.
                rows = db.rows(
                    f"select {_COLUMNS} from session where id = ? {db.for_update}", (id,)
                )
            state = decode(rows[0])
            for change in changes:
                state.apply(change)
            db.run(
                f"update session set data = ?, seen = ?, used_at = {db.now} where id = ?",
                (*encode(state), id),
            )

    def end(self, user: str, key: str) -> bool:
        """End a session. Returns whether there was one."""
        statement = "delete from session where id = ? returning id"
        return bool(self._execute(statement, (session_id(user, key),)))

    # -- bounds ---

    def _insert(self, db: Transaction, user: str, key: str, state: SessionState) -> None:
        """Insert a session, and drop those that expired or exceed the limits."""
        owner = _digest(user)
        db.run(
            f"insert into session (id, owner, {_COLUMNS}, used_at) "
            f"values (?, ?, ?, ?, {db.now}) on conflict do nothing",
            (session_id(user, key), owner, *encode(state)),
        )
        db.run(
            "delete from session where id in "
            f"(select id from session where used_at <= {db.now} - ? {db.skip_locked})",
            (self._limits.lifetime,),
        )
        db.run(drop_oldest(db, "where owner = ?"), (owner, self._limits.each_user))
        db.run(drop_oldest(db, ""), (self._limits.total,))

    def _execute(self, sql: str, values: Sequence[Any] = ()) -> Rows:
        return self._database.execute(TABLES, sql, values)


def drop_oldest(db: Transaction, condition: str) -> str:
    """Delete all but the most recently used sessions. Its last value is their number."""
    return f"""
        delete from session where id in (
          select id from session {condition} order by used_at desc, id
          limit {_EVERYTHING} offset ? {db.skip_locked}
        )"""


def encode(state: SessionState) -> tuple[str, bytes]:
    data = {name: getattr(state, name) for name in _JSON_FIELDS}
    return json.dumps(data), state.seen.tobytes()


def decode(columns: Iterable[Any]) -> SessionState:
    data, seen = columns
    state = SessionState(**json.loads(data))
    state.seen.frombytes(seen)
    return state


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
