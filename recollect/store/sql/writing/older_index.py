"""Index passages again whose words older versions indexed differently.

Codes of terminals, such as colours, were parts of words, and C++ was the letter C. The marker
`older_index` is the key up to which passages may be indexed like that; 0 if none are. Each batch
starts there and moves it down in the same transaction, so the work can be interrupted at any time.
Without a marker, the library was written by an older version.
"""

from __future__ import annotations

from collections.abc import Sequence

from recollect.language.symbol_names import has_symbol_name
from recollect.language.terminal_codes import has_terminal_codes
from recollect.store.sql.database import Database, IndexRow, TextIndex
from recollect.store.sql.markers import get_marker, set_marker
from recollect.store.sql.writing import passages

_MARKER = "older_index"
# Keys whose passages are read in one transaction. Others can write in between.
_KEYS_PER_BATCH = 1_000
# Passages indexed again in one transaction. SQLite needs 5 ms for each, to wipe its old words.
_PASSAGES_PER_BATCH = 20


def is_complete(db: Database) -> bool:
    """Whether all passages are indexed as this version does it."""
    return get_marker(db, _MARKER) == 0


def mark_complete(db: Database) -> None:
    """Note that the index was made by this version."""
    set_marker(db, _MARKER, 0)


def index_batch(db: Database, index: TextIndex) -> bool:
    """Index some passages again, the newest first. False if there are no more."""
    last = get_marker(db, _MARKER)
    if last is None:
        last = db.get(f"select passage from {db.own_rows('last_key')}") or 0
    if last <= 0:
        mark_complete(db)
        return False
    first = max(1, last - _KEYS_PER_BATCH + 1)
    rows = _rows_to_index(db, first, last)
    if len(rows) == _PASSAGES_PER_BATCH:  # there may be more
        first = rows[-1][0]
    if rows:
        index.replace(rows, rows)
        db.mark_reindexed([key for key, _, _ in rows])
        _update_titles(db, rows)
    set_marker(db, _MARKER, first - 1)
    return True


def _rows_to_index(db: Database, first: int, last: int) -> list[IndexRow]:
    """The newest passages of a range that are now indexed differently."""
    keys = db.rows(
        f"select p.key from passage p where {db.own('p')} and p.key between ? and ?", (first, last)
    )
    rows = passages.index_rows(db, [key for (key,) in keys])
    changed = [row for row in rows if has_other_words(row)]
    return sorted(changed, reverse=True)[:_PASSAGES_PER_BATCH]


def has_other_words(row: IndexRow) -> bool:
    """Whether older versions indexed other words of a passage or of its title."""
    return any(has_terminal_codes(text) or has_symbol_name(text) for text in row[1:])


def _update_titles(db: Database, rows: Sequence[IndexRow]) -> None:
    """Compute the columns again that are made from titles."""
    openings = [key for key, title, _ in rows if title]
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
