"""Rewrite documents that are not conversations, and keep their earlier states for undo.

A new version replaces such a document as a whole, so undoing an import restores the whole document.
The imports of a document form a chain: the `before` of a receipt is the whole document as it was
when the import changed it, NEW if the import created it, and null if the import changed nothing.
Once a person has rewritten a document it no longer belongs to any import.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from recollect.model.documents import Document, places
from recollect.model.kinds import CONVERSATION
from recollect.store.sql import passages
from recollect.store.sql.database import Database, TextIndex
from recollect.store.sql.encoding import PASSAGE_COLUMNS, passage_row

_ID = PASSAGE_COLUMNS.index("id")
_PLACE = slice(PASSAGE_COLUMNS.index("position"), PASSAGE_COLUMNS.index("canonical") + 1)

Rows = Sequence[tuple[Any, ...]]
"""Rows of passages with PASSAGE_COLUMNS."""


def is_rewritable(*kinds: str) -> bool:
    """Whether documents of these kinds are rewritten; conversations only grow."""
    return CONVERSATION not in kinds


# -- passages ---


@dataclass(slots=True)
class Replacement:
    """What replacing the passages of a document changed."""

    new: int = 0
    same: int = 0
    changed: int = 0
    removed: int = 0
    moved: bool = False
    is_complete: bool = True
    """False if there was more to change than the limit allowed."""

    def __bool__(self) -> bool:
        return bool(self.new or self.changed or self.removed or self.moved)


def passage_rows(document: Document) -> tuple[str | None, Rows]:
    """The head of a document, and its passages in reading order."""
    head, order = places(document.passages, document.head)
    rows = [
        passage_row(document.passages[n], position, canonical)
        for position, (n, canonical) in enumerate(order)
    ]
    return head, rows


@dataclass(slots=True)
class _Changes:
    """How the passages of a document differ from those that it shall have."""

    removed_keys: list[int]
    added_rows: Rows
    changed_rows: dict[int, tuple[Any, ...]] = field(default_factory=dict)
    """Passages with another content, by key."""
    positions: dict[int, tuple[int, bool]] = field(default_factory=dict)
    """The new places of passages with the same content, by key."""
    same: int = 0

    @property
    def count(self) -> int:
        return len(self.removed_keys) + len(self.changed_rows) + len(self.added_rows)

    def truncate(self, limit: int) -> None:
        """Keep only the first changes."""
        self.removed_keys = self.removed_keys[:limit]
        limit -= len(self.removed_keys)
        self.changed_rows = dict(list(self.changed_rows.items())[:limit])
        limit -= len(self.changed_rows)
        self.added_rows = self.added_rows[:limit]


def compare(stored: Mapping[str, Sequence[Any]], rows: Rows) -> _Changes:
    """Compare stored passages, by id, with the rows that shall be stored."""
    new_rows = {row[_ID]: row for row in rows}
    changes = _Changes(
        removed_keys=[key for id_, (key, *_) in stored.items() if id_ not in new_rows],
        added_rows=[row for id_, row in new_rows.items() if id_ not in stored],
    )
    for id_, row in new_rows.items():
        if id_ not in stored:
            continue
        key, digest, *place = stored[id_]
        if digest != row[0]:
            changes.changed_rows[key] = row
            continue
        changes.same += 1
        if tuple(place) != row[_PLACE]:
            changes.positions[key] = row[_PLACE]
    return changes


def replace_passages(
    db: Database,
    index: TextIndex,
    key: int,
    rows: Rows,
    receipt: int | None,
    shared: bool = False,
    limit: int | None = None,
) -> Replacement:
    """Make these the only passages of a document.

    With a limit, at most that many passages in all are removed, changed or added. The next call
    continues.
    """
    stored = stored_passages(db, key)
    changes = compare(stored, rows)
    result = Replacement(same=changes.same)
    if limit is not None:
        result.is_complete = changes.count <= limit
        changes.truncate(limit)
    if changes.removed_keys:
        passages.delete_passages(db, {key: changes.removed_keys}, index)
        result.removed = len(changes.removed_keys)
    if changes.changed_rows:
        passages.replace_passages(db, changes.changed_rows, index)
        result.changed = len(changes.changed_rows)
    if result.is_complete:
        passages.renumber(db, changes.positions)
        result.moved = bool(changes.positions)
    if changes.added_rows:
        add_passages(db, index, key, changes.added_rows, receipt, shared)
        result.new = len(changes.added_rows)
    count = len(stored) - len(changes.removed_keys) + len(changes.added_rows)
    db.run(f"update document set passages = ? where {db.own()} and key = ?", (count, key))
    passages.update_opening(db, key, index)
    return result


def stored_passages(db: Database, document: int) -> dict[str, list[Any]]:
    """The key, digest, position and canonical flag of each passage, by its id."""
    rows = db.rows(
        "select id, key, digest, position, canonical from passage "
        f"where {db.own()} and document = ?",
        (document,),
    )
    return {id_: row for id_, *row in rows}


def add_passages(
    db: Database, index: TextIndex, key: int, rows: Rows, receipt: int | None, shared: bool
) -> None:
    last: int = db.get(
        f"update last_key set passage = passage + ? where {db.own()} returning passage",
        (len(rows),),
    )
    keys = range(last - len(rows) + 1, last + 1)
    pairs = list(zip(keys, rows, strict=True))
    passages.insert_passages(db, [(passage, key, receipt, shared, *row) for passage, row in pairs])
    index.add([(passage, "", row[-1]) for passage, row in pairs])
