"""Count what a store sends to PostgreSQL, from the messages that libpq traces.

A statement reads or changes rows. `begin`, `set`, `commit` and `rollback` are not counted. A round
trip is a message that the server answers: it can contain several statements. Preparing statements,
which happens once for each connection, and forgetting them after an error is not counted.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from psycopg.pq import Trace

from recollect.store.postgres.pool import Pool, Session

_MESSAGE = re.compile(
    r"^F\t\d+\t(Query|Parse|Bind|Execute|Sync)\t?(.*?)(?=^[FB]\t|\Z)", re.M | re.S
)
_QUOTED = re.compile(r'"(.*?)"', re.S)
_FORGET = "DEALLOCATE ALL"  # psycopg sends it after a rollback, perhaps one of another test
_IS_CONTROL = re.compile(r"(begin|set|commit|rollback)\b")


@dataclass
class Traffic:
    statements: list[str] = field(default_factory=list)
    transactions: int = 0
    round_trips: int = 0

    def add(self, sql: str) -> None:
        for statement in sql.split(";"):
            statement = " ".join(statement.split())
            self.transactions += statement.startswith("begin")
            if statement and not _IS_CONTROL.match(statement):
                self.statements.append(statement)


class Tap:
    """Traces connections."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        self._prepared: dict[str, str] = {}
        self._sessions: list[Session] = []

    def attach(self, session: Session) -> None:
        if session not in self._sessions:
            self._sessions.append(session)
            session.pgconn.trace(self._descriptor)
            session.pgconn.set_trace_flags(Trace.SUPPRESS_TIMESTAMPS)

    def close(self) -> None:
        for session in self._sessions:
            if not session.closed:
                session.pgconn.untrace()
        os.close(self._descriptor)

    def take(self) -> Traffic:
        """What was sent since the last call."""
        traffic = Traffic()
        text = self._path.read_text(errors="replace")
        os.ftruncate(self._descriptor, 0)
        portal = ""
        for kind, content in _MESSAGE.findall(text):
            names = _QUOTED.findall(content)
            if kind == "Query":
                if names[0] == _FORGET:
                    continue
                traffic.add(names[0])
            elif kind == "Parse":
                self._prepared[names[0]] = names[1]
            elif kind == "Bind":
                portal = self._prepared.get(names[1], names[1])
            elif kind == "Execute":
                traffic.add(portal)
            traffic.round_trips += kind in ("Query", "Execute")
        return traffic


@contextmanager
def tap(path: Path) -> Iterator[Tap]:
    """Count what stores send in this block. `path` is that of a new file."""
    traces = Tap(path)
    get_connection = Pool._get_connection

    def get_traced_connection(pool: Pool, deadline: float) -> Session:
        session = get_connection(pool, deadline)
        traces.attach(session)
        return session

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Pool, "_get_connection", get_traced_connection)
        yield traces
    traces.close()
