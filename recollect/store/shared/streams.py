"""Event streams of MCP answers, stored for a few minutes so that another server can resume them.

The server that computes an answer appends the messages of its stream, and says every few seconds
that it is alive. If it stops doing so, the stream is abandoned, and ends with an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from recollect.errors import StoreBusy
from recollect.store.shared.database import Rows, SharedDatabase, Tables

MAX_STREAMS = 1_000
MAX_BYTES = 16_000_000
STREAM_SECONDS = 300
"""A stream is deleted when nothing was added to it for so long."""
ABANDONED_SECONDS = 15
"""The server of an incomplete stream has died if it was silent for so long."""

TABLES = Tables(
    "streams",
    (
        """create table stream (
          id text primary key,
          session text not null,
          server text not null,
          request text not null,
          is_complete bigint not null,
          bytes bigint not null,
          created_at bigint not null,
          alive_at bigint not null
        )""",
        "create index stream_alive_at on stream (alive_at)",
        "create index stream_session on stream (session)",
        """create table stream_message (
          stream text not null references stream (id) on delete cascade,
          number bigint not null,
          content {bytes} not null,
          primary key (stream, number)
        )""",
    ),
    is_durable=False,
)
_DROP = """
delete from stream where id in (
  select id from (
    select id, alive_at, row_number() over newest_first as position,
      sum(bytes) over newest_first as total
    from stream window newest_first as (order by created_at desc, id)
  ) as s where alive_at < {now} - ? or position > ? or total > ?
)
"""


@dataclass(frozen=True, slots=True)
class StoredMessages:
    """The messages of a stream after those that the client has."""

    messages: list[bytes]
    is_complete: bool
    is_abandoned: bool
    request: str
    """The id of the request that the stream answers, as JSON."""


class StreamLog:
    """The stored streams of all servers. The methods wait for the database."""

    def __init__(self, database: SharedDatabase, server: str) -> None:
        self._database = database
        self._server = server
        """Names this server."""

    def begin(self, id: str, session: str, request: str) -> None:
        """Add a stream, and drop those that expired or are too many."""
        now = self._database.now
        self._execute(
            "insert into stream "
            "(id, session, server, request, is_complete, bytes, created_at, alive_at) "
            f"values (?, ?, ?, ?, 0, 0, {now}, {now})",
            (id, session, self._server, request),
        )
        self.drop_old()

    def append(self, id: str, count: int, messages: Sequence[bytes], *, is_last: bool) -> None:
        """Add messages after the first `count`. Does nothing if the stream has ended."""
        with self._database.transaction(TABLES) as db:
            rows = db.rows(
                "update stream set bytes = bytes + ?, is_complete = ?, "
                f"alive_at = {db.now} where id = ? and is_complete = 0 returning id",
                (sum(map(len, messages)), int(is_last), id),
            )
            if not rows:
                return
            numbered = enumerate(messages, count + 1)
            db.run_many(
                "insert into stream_message (stream, number, content) values (?, ?, ?)",
                [(id, number, message) for number, message in numbered],
            )

    def read(self, id: str, session: str, count: int) -> StoredMessages | None:
        """The messages after the first `count`; None if the session has no such stream."""
        rows = self._execute(
            f"select is_complete, {self._database.now} - alive_at, request from stream "
            "where id = ? and session = ?",
            (id, session),
        )
        if not rows:
            return None
        messages = self._execute(
            "select content from stream_message where stream = ? and number > ? order by number",
            (id, count),
        )
        ((is_complete, silence, request),) = rows
        return StoredMessages(
            [bytes(content) for (content,) in messages],
            bool(is_complete),
            not is_complete and silence > ABANDONED_SECONDS * 1_000_000,
            request,
        )

    def end_abandoned(self, id: str, message: bytes) -> None:
        """End a stream whose server died, with an error message."""
        with self._database.transaction(TABLES) as db:
            rows = db.rows(
                f"update stream set is_complete = 1, alive_at = {db.now} "
                f"where id = ? and is_complete = 0 and alive_at < {db.now} - ? returning id",
                (id, ABANDONED_SECONDS * 1_000_000),
            )
            if rows:
                db.run(
                    "insert into stream_message (stream, number, content) "
                    "select ?, coalesce(max(number), 0) + 1, ? from stream_message "
                    "where stream = ?",
                    (id, message, id),
                )

    def keep_alive(self) -> None:
        """Say that this server still works on its streams."""
        self._execute(
            f"update stream set alive_at = {self._database.now} "
            "where server = ? and is_complete = 0",
            (self._server,),
        )

    def remove_session(self, session: str) -> None:
        self._execute("delete from stream where session = ?", (session,))

    def drop_old(self) -> None:
        values = (STREAM_SECONDS * 1_000_000, MAX_STREAMS, MAX_BYTES)
        with suppress(StoreBusy):  # another server is doing the same
            self._execute(_DROP.format(now=self._database.now), values)

    def _execute(self, sql: str, values: Sequence[Any] = ()) -> Rows:
        return self._database.execute(TABLES, sql, values)
