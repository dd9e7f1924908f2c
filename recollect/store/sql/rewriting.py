"""Documents that are rewritten, which are all but conversations: what replaces one is all that it then has.

Taking back an import of one is putting back the state before. Imports of a
document are a chain: the `before` of a receipt is the whole document as it was
when the import changed it, NEW where the import brought it, and nothing where it
was the same already. Once a person has rewritten a document it is theirs, and no
import that came before can be told from it any more.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from recollect.model.documents import Document, places
from recollect.model.kinds import CONVERSATION
from recollect.store.sql import passages
from recollect.store.sql.database import Database, TextIndex
from recollect.store.sql.encoding import PASSAGE_COLUMNS, current_row, document_row, passage_row

NEW = "null"
"""What was before a document came in, as JSON."""
_ID = PASSAGE_COLUMNS.index("id")
_PLACE = slice(PASSAGE_COLUMNS.index("position"), PASSAGE_COLUMNS.index("canonical") + 1)

Rows = Sequence[tuple[Any, ...]]
"""Passages as PASSAGE_COLUMNS says."""


def is_rewritten(*kinds: str) -> bool:
    return CONVERSATION not in kinds


@dataclass(slots=True)
class Put:
    """What putting passages into a document did."""

    keys: set[int]
    """Of all passages that it now has."""
    new: int = 0
    same: int = 0
    changed: int = 0
    removed: int = 0
    moved: bool = False

    def __bool__(self) -> bool:
        return bool(self.new or self.changed or self.removed or self.moved)


def rows_of(document: Document) -> tuple[str | None, Rows]:
    """The head of a document and its passages in reading order."""
    head, order = places(document.passages, document.head)
    return head, [
        passage_row(document.passages[n], at, canonical) for at, (n, canonical) in enumerate(order)
    ]


def put(
    db: Database, index: TextIndex, key: int, rows: Rows, receipt: int | None, shared: bool = False
) -> Put:
    """Let a document have these passages and no others."""
    stored = db.rows(
        "select id, key, digest, position, canonical from passage where document = ?", (key,)
    )
    there = {id_: row for id_, *row in stored}
    wanted = {row[_ID]: row for row in rows}
    done = Put({there[i][0] for i in wanted if i in there})
    if gone := [passage for i, (passage, *_) in there.items() if i not in wanted]:
        passages.remove_passages(db, {key: gone}, index)
        done.removed = len(gone)
    moved = {}
    for id_, row in wanted.items():
        if id_ not in there:
            continue
        passage, digest, *place = there[id_]
        if digest != row[0]:
            passages.replace_passage(db, passage, row, index)
            done.changed += 1
        else:
            done.same += 1
            if tuple(place) != row[_PLACE]:
                moved[id_] = row[_PLACE]
    passages.renumber(db, key, moved)
    done.moved = bool(moved)
    if new := [row for id_, row in wanted.items() if id_ not in there]:
        done.keys |= _add(db, index, key, new, receipt, shared)
        done.new = len(new)
    db.run("update document set passages = ? where key = ?", (len(wanted), key))
    passages.lead(db, key, index)
    return done


def _add(
    db: Database, index: TextIndex, key: int, rows: Rows, receipt: int | None, shared: bool
) -> set[int]:
    last: int = db.get("update last_key set passage = passage + ? returning passage", (len(rows),))
    keys = range(last - len(rows) + 1, last + 1)
    db.insert(
        "passage",
        passages.COLUMNS,
        [(at, key, receipt, shared, *row) for at, row in zip(keys, rows, strict=True)],
    )
    index.add([(at, "", row[-1]) for at, row in zip(keys, rows, strict=True)])
    return set(keys)


def kept(document: Document) -> str:
    """A whole document, as a receipt keeps it."""
    _, rows = rows_of(document)
    return json.dumps(
        {"document": document_row(document), "passages": [[row[0].hex(), *row[1:]] for row in rows]}
    )


def is_kept(before: Mapping[str, Any] | None) -> bool:
    """Whether a receipt says the state of a whole document; those of older versions say less."""
    return before is None or "passages" in before


def restore(db: Database, index: TextIndex, key: int, before: Mapping[str, Any]) -> None:
    """Let a document be as a receipt kept it."""
    row = current_row(before["document"])
    put(
        db,
        index,
        key,
        [(bytes.fromhex(digest), *rest) for digest, *rest in before["passages"]],
        None,
    )
    passages.change_document(db, key, row, index)
    passages.count_up(db, key)


def claim(db: Database, key: int) -> None:
    """The document is a person's from now on: what imports knew of it is no matter any more, and not kept."""
    db.run(
        "update receipt_document set before = null where document = ? and before is not null",
        (key,),
    )
    db.run(
        "delete from receipt_revision where passage in (select key from passage where document = ?)",
        (key,),
    )
    db.run("update passage set receipt = null where document = ? and receipt is not null", (key,))


def forget(db: Database, key: int) -> None:
    """Keep no earlier state of a document or its passages; what imports brought is still known."""
    if db.get(
        "select 1 from receipt_document where document = ? and before <> ? limit 1", (key, NEW)
    ):
        _forget_before(db, key)
    db.run(
        "delete from receipt_revision where passage in (select key from passage where document = ?)",
        (key,),
    )


def delete_undo_states(db: Database, unwanted: Callable[[str], bool]) -> int:
    """See Store.delete_undo_states."""
    states = db.rows("select document, before from receipt_document where before <> ?", (NEW,))
    gone = [document for document, before in states if unwanted(before)]
    for document in sorted(set(gone)):
        _forget_before(db, document)
    revisions = db.rows("select receipt, passage, before from receipt_revision")
    said = [(receipt, passage) for receipt, passage, before in revisions if unwanted(before)]
    db.run_many("delete from receipt_revision where receipt = ? and passage = ?", said)
    return len(gone) + len(said)


def _forget_before(db: Database, key: int) -> None:
    """Imports of a document then have nothing to put back; one that brought it still takes it away."""
    db.run(
        "update receipt_document set before = null where document = ? and before <> ?", (key, NEW)
    )
    if is_rewritten(db.get("select kind from document where key = ?", (key,))):
        db.run(
            "update passage set receipt = null where document = ? and receipt is not null", (key,)
        )
