"""The baseline for bench.service: a minimal FastAPI service on one SQLite file.

    python -m bench.plain_service FILE PORT

It has the three endpoints that the benchmark uses: full-text search ranked by FTS5, a page of
conversations, and an append. One connection per thread, write-ahead log, durable commits; no limits
and no accounts.
"""

from __future__ import annotations

import sqlite3
import sys
import threading
import uuid
from typing import Any

import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

SCHEMA = """
create table conversation (id text primary key, title text, updated_at real, messages integer);
create index conversation_updated on conversation (updated_at desc);
create table message (
  key integer primary key, id text unique, conversation text, role text, content text, at real
);
create index message_conversation on message (conversation);
create virtual table words using fts5 (content, content='message', content_rowid='key');
"""
SEARCH = """
select m.id, m.conversation, c.title, m.role, snippet(words, 0, '', '', '…', 20)
from words join message m on m.key = words.rowid join conversation c on c.id = m.conversation
where words match ? order by words.rank limit 20
"""


class Message(BaseModel):
    role: str
    content: str


def create_app(path: str) -> FastAPI:
    app = FastAPI()
    here = threading.local()

    def db() -> sqlite3.Connection:
        if not hasattr(here, "db"):
            here.db = sqlite3.connect(path, timeout=30)
            here.db.execute("pragma journal_mode = wal")
            here.db.execute("pragma synchronous = full")
        connection: sqlite3.Connection = here.db
        return connection

    @app.get("/search")
    def search(q: str) -> dict[str, Any]:
        rows = db().execute(SEARCH, [" OR ".join(f'"{word}"' for word in q.split())]).fetchall()
        return {
            "hits": [
                dict(zip(("id", "conversation", "title", "role", "snippet"), r, strict=True))
                for r in rows
            ]
        }

    @app.get("/conversations")
    def conversations(offset: int = 0) -> dict[str, Any]:
        rows = (
            db()
            .execute(
                "select id, title, updated_at, messages from conversation "
                "order by updated_at desc limit 50 offset ?",
                [offset],
            )
            .fetchall()
        )
        total = db().execute("select count(*) from conversation").fetchone()[0]
        return {
            "conversations": [
                dict(zip(("id", "title", "updated_at", "messages"), r, strict=True)) for r in rows
            ],
            "total": total,
        }

    @app.post("/conversations/{conversation}/messages")
    def append(conversation: str, message: Message) -> dict[str, str]:
        id_ = str(uuid.uuid4())
        connection = db()
        with connection:
            connection.execute("begin immediate")
            key = connection.execute(
                "insert into message (id, conversation, role, content, at) "
                "values (?, ?, ?, ?, unixepoch('subsec'))",
                [id_, conversation, message.role, message.content],
            ).lastrowid
            connection.execute(
                "insert into words (rowid, content) values (?, ?)", [key, message.content]
            )
            connection.execute(
                "update conversation set updated_at = unixepoch('subsec'), "
                "messages = messages + 1 where id = ?",
                [conversation],
            )
        return {"id": id_}

    return app


if __name__ == "__main__":
    uvicorn.run(
        create_app(sys.argv[1]),
        host="127.0.0.1",
        port=int(sys.argv[2]),
        log_level="warning",
        access_log=False,
    )
