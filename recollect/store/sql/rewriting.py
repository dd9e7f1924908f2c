"""Rewrite documents that are not conversations: a new version replaces the whole document."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from recollect.model.documents import Document
from recollect.model.documents import places as arranged
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

    def __bool__(self) -> bool:
        return bool(self.new or self.changed or self.removed or self.moved)


def passage_rows(document: Document) -> tuple[str | None, Rows]:
    """The head of a document, and its passages in reading order."""
    head, order = arranged(document.passages, document.head)
    rows = [
        passage_row(document.passages[n], position, canonical)
        for position, (n, canonical) in enumerate(order)
    ]
    return head, rows


def replace_passages(
    db: Database,
    index: TextIndex,
    key: int,
    rows: Rows,
    receipt: int | None,
    shared: bool = False,
) -> Replacement:
    """Make these the only passages of a document."""
    stored = {
        id_: (passage, digest, (position, canonical))
        for id_, passage, digest, position, canonical in db.rows(
            "select id, key, digest, position, canonical from passage "
            f"where {db.own()} and document = ?",
            (key,),
        )
    }
    new_rows = {row[_ID]: row for row in rows}
    removed_keys = [passage for id_, (passage, *_) in stored.items() if id_ not in new_rows]
    added_rows = [row for id_, row in new_rows.items() if id_ not in stored]
    changed_rows: dict[int, tuple[Any, ...]] = {}
    places: dict[int, tuple[int, bool]] = {}
    same = 0
    for id_, row in new_rows.items():
        if id_ not in stored:
            continue
        passage, digest, place = stored[id_]
        if digest != row[0]:
            changed_rows[passage] = row
            continue
        same += 1
        if place != row[_PLACE]:
            places[passage] = row[_PLACE]
    if removed_keys:
        passages.delete_passages(db, {key: removed_keys}, index)
    if changed_rows:
        passages.replace_passages(db, changed_rows, index)
    passages.renumber(db, places)
    if added_rows:
        add_passages(db, index, key, added_rows, receipt, shared)
    count = len(stored) - len(removed_keys) + len(added_rows)
    db.run(f"update document set passages = ? where {db.own()} and key = ?", (count, key))
    passages.update_opening(db, key, index)
    return Replacement(
        len(added_rows), same, len(changed_rows), len(removed_keys), moved=bool(places)
    )


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
