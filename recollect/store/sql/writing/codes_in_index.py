"""Index passages again that older versions indexed with the codes of terminals.

Codes such as colours became parts of words. The marker `terminal_codes` is the key up to which
passages may be indexed like that; 0 if none are. Each batch starts there and moves it down in the
same transaction, so the work can be interrupted at any time. Without a marker, the library was
written by an older version.
"""

from __future__ import annotations

from collections.abc import Sequence

from recollect.language.terminal_codes import CODE_STARTS, has_terminal_codes
from recollect.store.sql.database import Database, IndexRow, TextIndex
from recollect.store.sql.encoding import HEADING
from recollect.store.sql.markers import get_marker, set_marker
from recollect.store.sql.writing import passages

_MARKER = "terminal_codes"
# Keys whose passages are read in one transaction. Others can write in between.
_KEYS_PER_BATCH = 1_000
# Passages indexed again in one transaction. SQLite needs 5 ms for each, to wipe its old words.
_PASSAGES_PER_BATCH = 20


def is_complete(db: Database) -> bool:
    """Whether no passage is indexed with codes."""
    return get_marker(db, _MARKER) == 0


def mark_complete(db: Database) -> None:
    """Note that the index was made by this version."""
    set_marker(db, _MARKER, 0)


def index_batch(db: Database, index: TextIndex) -> bool:
    """Index some passages without codes, the newest first. False if there are no more."""
    last = get_marker(db, _MARKER)
    if last is None:
        last = db.get(f"select passage from {db.own_rows('last_key')}") or 0
    if last <= 0:
        mark_complete(db)
        return False
    first = max(1, last - _KEYS_PER_BATCH + 1)
    keys = _keys_with_codes(db, first, last)
    if len(keys) == _PASSAGES_PER_BATCH:  # there may be more
        first = keys[-1]
    rows = [row for row in passages.index_rows(db, keys) if any(map(has_terminal_codes, row[1:]))]
    if rows:
        index.replace(rows, rows)
        db.mark_reindexed([key for key, _, _ in rows])
        _update_titles(db, rows)
    set_marker(db, _MARKER, first - 1)
    return True


def _keys_with_codes(db: Database, first: int, last: int) -> list[int]:
    """The newest passages of a range that may have codes in their text or title."""
    patterns = [f"%{start}%" for start in CODE_STARTS]
    in_content = " or ".join(["p.content like ?"] * len(patterns))
    in_title = " or ".join([f"{HEADING} like ?"] * len(patterns))
    rows = db.rows(
        "select p.key from passage p join document d on d.key = p.document "
        f"where {db.own('p', 'd')} and p.key between ? and ? "
        f"and ({in_content} or d.opening = p.key and ({in_title})) order by p.key desc limit ?",
        (first, last, *patterns, *patterns, _PASSAGES_PER_BATCH),
    )
    return [key for (key,) in rows]


def _update_titles(db: Database, rows: Sequence[IndexRow]) -> None:
    """Compute the columns again that are made from titles."""
    openings = [key for key, title, _ in rows if has_terminal_codes(title)]
    if not openings:
        return
    members, value = db.in_list(openings)
    documents = db.rows(
        "select d.key, d.id, d.kind, d.title, d.metadata from document d "
        "join passage p on p.key = d.opening "
        f"where {db.own('d', 'p')} and p.key in ({members})",
        (value,),
    )
    for key, id_, kind, title, metadata in documents:
        row = {"id": id_, "kind": kind, "title": title, "metadata": metadata}
        columns = db.derived_columns(row)
        assignments = ", ".join(f"{name} = ?" for name in columns)
        db.run(
            f"update document set {assignments} where {db.own()} and key = ?",
            (*columns.values(), key),
        )
