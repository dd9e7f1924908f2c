"""ChatGPT Browser databases of each kind: two canonical exports and the working database."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

SHAPES = ("canonical-plain", "canonical-json", "working")

# The original tool tests with few columns, plain text, numeric times, and positions from 0.
CANONICAL_PLAIN = """
create table conversations (id text primary key, title text);
create table messages (id text, conversation_id text, role text, content text,
  create_time real, position integer);
"""
# The browser exports text columns only, content as a JSON list of parts, positions from 1.
CANONICAL_JSON = """
create table conversations (id text primary key, create_time text, update_time text, title text);
create table messages (id text primary key, conversation_id text not null, role text, content text,
  create_time text, update_time text, position integer not null);
create index idx_canonical_messages_conversation on messages (conversation_id);
"""
# The browser itself works on a tree without positions.
WORKING = """
create table conversations (id text primary key, create_time text, update_time text, title text);
create table messages (id text primary key, conversation_id text, role text, content text,
  create_time text, update_time text, parent_id text);
create table message_children (parent_id text, child_id text, primary key (parent_id, child_id));
"""


class Message(NamedTuple):
    role: str | None
    content: str
    at: str | None = "2025-02-10T14:30:00+00:00"


def create(path: Path, shape: str) -> None:
    schema = {
        "canonical-plain": CANONICAL_PLAIN,
        "canonical-json": CANONICAL_JSON,
        "working": WORKING,
    }[shape]
    with closing(sqlite3.connect(path)) as db:
        db.executescript(schema)


def add(
    path: Path, shape: str, conversation: str, title: str | None, messages: list[Message]
) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("insert into conversations (id, title) values (?, ?)", (conversation, title))
        for number, message in enumerate(messages):
            row: dict[str, Any] = {
                "id": f"{conversation}-{number}",
                "conversation_id": conversation,
                "role": message.role,
                "content": message.content,
                "create_time": _store_time(message.at, shape),
            }
            if shape != "canonical-plain":
                row["content"] = json.dumps([message.content])
            if shape == "working":
                row["parent_id"] = f"{conversation}-{number - 1}"
            else:
                row["position"] = number + (shape == "canonical-json")
            names, places = ", ".join(row), ", ".join(f":{name}" for name in row)
            db.execute(f"insert into messages ({names}) values ({places})", row)


def _store_time(at: str | None, shape: str) -> float | str | None:
    if at is None:
        return None
    seconds = datetime.fromisoformat(at).timestamp()
    if shape == "canonical-plain":
        return seconds
    return str(seconds)
