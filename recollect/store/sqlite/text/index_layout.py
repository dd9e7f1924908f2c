"""The layout of the text index: a contentless FTS5 table, with or without positions.

Positions are needed for phrases only, and take 60 % of the index. Volumes have them too. So in a
large library, the index has none: phrases in the few messages that are in no volume are verified
against the text (`verified_matches.py`). An encrypted library has no volumes, so its index always
has positions.
"""

from __future__ import annotations

from recollect.store.sqlite.connections.connection import Connection

INDEX = "passage_text"
# Verifying takes 15 µs per message, in Chinese 70 µs, and all messages of a small library may be in
# no volume.
_MIN_PASSAGES_WITHOUT_POSITIONS = 50_000
_SETTINGS = "('secure-delete', 1), ('hashsize', 16777216), ('automerge', 16)"


def create_index(db: Connection, table: str, positions: bool) -> None:
    """Create an empty index with the layout of this version."""
    detail = ""
    if not positions:
        detail = ", detail=none"
    # In an index with positions, the words of every column but the first have to name their column.
    db.execute(
        f"create virtual table {table} using fts5("
        f"content, title, content='', tokenize='unicode61 remove_diacritics 0'{detail}); "
        f"insert into {table} ({table}, rank) values {_SETTINGS}"
    ).fetchall()


def drop_index(db: Connection, table: str) -> None:
    db.execute(f"drop table if exists {table}").fetchall()


def needs_positions(db: Connection, is_encrypted: bool) -> bool:
    """Whether the index of a library should have positions."""
    newest_key: int = db.get("select passage from last_key")
    return is_encrypted or newest_key < _MIN_PASSAGES_WITHOUT_POSITIONS


def has_positions(db: Connection) -> bool:
    """Whether the index knows where in a passage each word is."""
    return bool(db.memo.small_value("positions", lambda: _has_positions(db, INDEX)))


def has_layout(db: Connection, table: str, positions: bool) -> bool:
    """Whether an index has the layout that this version creates."""
    return _has_positions(db, table) == positions


def _has_positions(db: Connection, table: str) -> bool:
    sql: str = db.get("select sql from sqlite_schema where name = ?", (table,))
    return "detail=none" not in sql
