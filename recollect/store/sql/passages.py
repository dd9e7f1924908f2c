"""Change, rewrite, renumber and delete stored passages, and update the text index."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from recollect.language.text import from_micros
from recollect.model.documents import Document, Passage, places
from recollect.model.kinds import CONVERSATION
from recollect.store.sql import statistics
from recollect.store.sql.database import Database, IndexRow, TextIndex
from recollect.store.sql.encoding import HEADING, INDEXED_TITLE, PASSAGE_COLUMNS, passage_row

COLUMNS = ("key", "document", "receipt", "shared", *PASSAGE_COLUMNS)
_FIRST_COLUMN = len(COLUMNS) - len(PASSAGE_COLUMNS)
# Bounds the memory for the texts of passages.
_PASSAGES_PER_STATEMENT = 1_000
# Columns of a document that never change.
_IDENTITY_COLUMNS = ("id", "source", "source_id", "kind")
# A change of these columns makes the vectors of a passage outdated.
_EMBEDDED_COLUMNS = ("content", "role", "author", "created_at", "visibility")
_EMBEDDED_INDEXES = tuple(PASSAGE_COLUMNS.index(name) for name in _EMBEDDED_COLUMNS)


def insert_passages(
    db: Database,
    rows: Sequence[tuple[Any, ...]],
    may_be_human_only: Sequence[tuple[Any, ...]] | None = None,
) -> None:
    """Insert passages, given with all COLUMNS. Their documents must be stored already."""
    db.insert_passages(rows, may_be_human_only)
    owners = statistics.owners(db, sorted({row[1] for row in rows}))
    statistics.add_passages(db, ((owners[row[1]], row[_FIRST_COLUMN:]) for row in rows))


def load_outline(db: Database, key: int) -> tuple[dict[str, Passage], dict[str, int]]:
    """The passages of a document by id, in reading order, and their keys.

    The passages have only parents, dates and positions.
    """
    rows = db.rows(
        "select id, parent, created_at, position, canonical, key from passage "
        f"where {db.own()} and document = ? order by position",
        (key,),
    )
    outline = {
        id_: Passage(
            id_,
            None,
            "",
            parent=parent,
            created_at=from_micros(created_at),
            position=position,
            canonical=bool(canonical),
        )
        for id_, parent, created_at, position, canonical, _ in rows
    }
    return outline, {row[0]: row[-1] for row in rows}


def renumber(db: Database, positions: Mapping[int, tuple[int, bool]]) -> None:
    """Set position and canonical flag of passages, given by their keys."""
    db.run_many(
        f"update passage set position = ?, canonical = ? where {db.own()} and key = ?",
        [(position, canonical, key) for key, (position, canonical) in positions.items()],
    )


def reorder(db: Database, key: int, index: TextIndex) -> None:
    """Renumber all passages of a document after some were deleted."""
    outline, keys = load_outline(db, key)
    passages = list(outline.values())
    head, order = places(
        passages, db.get(f"select head from document where {db.own()} and key = ?", (key,))
    )
    positions = {}
    for position, (n, canonical) in enumerate(order):
        passage = passages[n]
        if (passage.position, passage.canonical) != (position, canonical):
            positions[keys[passage.id]] = (position, canonical)
    renumber(db, positions)
    db.run(f"update document set head = ? where {db.own()} and key = ?", (head, key))
    ensure_opening(db, key, index)


def increment_version(db: Database, key: int) -> None:
    db.run(f"update document set version = version + 1 where {db.own()} and key = ?", (key,))


# -- titles in the index ---
# The title of a document, with the keywords of an item, is indexed with its opening passage.


def update_document(db: Database, key: int, row: Mapping[str, Any], index: TextIndex) -> None:
    """Write the columns of a document, except those that identify it."""
    changes = {name: value for name, value in row.items() if name not in _IDENTITY_COLUMNS}
    changes |= db.derived_columns(row)
    ((opening, title, project),) = db.rows(
        f"select d.opening, {HEADING}, d.project from document d where {db.own('d')} and d.key = ?",
        (key,),
    )
    new_title = changes["heading"] or row["title"]
    before: list[IndexRow] = []
    if opening is not None and new_title != title:
        before = list(index_rows(db, [opening]))
    db.run(
        f"update document set {', '.join(f'{name} = ?' for name in changes)} "
        f"where {db.own()} and key = ?",
        (*changes.values(), key),
    )
    if row["project"] != project:
        statistics.move_messages(db, key, project, row["project"])
    if before:
        index.replace(before, list(index_rows(db, [opening])))
        db.mark_outdated([opening])


def ensure_opening(db: Database, key: int, index: TextIndex) -> None:
    """Index the title with the first passage if the document has no opening passage."""
    ((title, opening),) = db.rows(
        f"select {HEADING}, d.opening from document d where {db.own('d')} and d.key = ?", (key,)
    )
    if opening is not None:
        return
    first = db.rows(
        f"select key, content from passage where {db.own()} and document = ? "
        "order by position limit 1",
        (key,),
    )
    for passage, content in first:
        db.run(f"update document set opening = ? where {db.own()} and key = ?", (passage, key))
        index.replace([(passage, "", content)], [(passage, title, content)])
        db.mark_outdated([passage])


def update_opening(db: Database, key: int, index: TextIndex) -> None:
    """Index the title with the first passage, even if another one was the opening passage."""
    ((title, opening),) = db.rows(
        f"select {HEADING}, d.opening from document d where {db.own('d')} and d.key = ?", (key,)
    )
    first = db.get(
        f"select key from passage where {db.own()} and document = ? order by position limit 1",
        (key,),
    )
    if opening is None or first == opening:
        ensure_opening(db, key, index)
        return
    before = list(index_rows(db, [opening, first]))
    db.run(f"update document set opening = ? where {db.own()} and key = ?", (first, key))
    if title:
        index.replace(before, list(index_rows(db, [opening, first])))
    db.mark_outdated([opening, first])


# -- texts ---


def index_rows(db: Database, passages: Sequence[int]) -> Iterator[IndexRow]:
    """The passages as they are in the text index."""
    for start in range(0, len(passages), _PASSAGES_PER_STATEMENT):
        keys, value = db.in_list(passages[start : start + _PASSAGES_PER_STATEMENT])
        yield from db.rows(
            f"select p.key, {INDEXED_TITLE}, p.content "
            "from passage p join document d on d.key = p.document "
            f"where {db.own('p', 'd')} and p.key in ({keys})",
            (value,),
        )


def replace_passage(db: Database, key: int, row: tuple[Any, ...], index: TextIndex) -> None:
    replace_passages(db, {key: row}, index)


def replace_passages(db: Database, rows: Mapping[int, tuple[Any, ...]], index: TextIndex) -> None:
    """Replace passages, given by their keys, in few statements."""
    keys = list(rows)
    members, value = db.in_list(keys)
    embedded = ", ".join(f"p.{name}" for name in _EMBEDDED_COLUMNS)
    stored = db.rows(
        f"select p.key, p.document, {embedded} from passage p "
        f"where {db.own('p')} and p.key in ({members})",
        (value,),
    )
    before = {key: (document, columns) for key, document, *columns in stored}
    owners = statistics.owners(db, sorted({document for document, _ in before.values()}))
    indexed_rows = list(index_rows(db, keys))
    statistics.remove_passages(db, keys)
    for key, row in rows.items():
        db.update_passage(key, row)
    statistics.add_passages(db, [(owners[before[key][0]], row) for key, row in rows.items()])
    changed = [
        (key, title, content) for key, title, content in indexed_rows if rows[key][-1] != content
    ]
    if changed:
        index.replace(changed, [(key, title, rows[key][-1]) for key, title, _ in changed])
    outdated_keys = [
        key for key in keys if before[key][1] != [rows[key][n] for n in _EMBEDDED_INDEXES]
    ]
    if outdated_keys:
        db.mark_outdated(outdated_keys)


def delete_passages(db: Database, passages: Mapping[int, Sequence[int]], index: TextIndex) -> None:
    """Delete passages, given by document, with everything derived from them."""
    delete_rows(db, [key for some in passages.values() for key in some], index)
    db.run_many(
        # Not counted again: if messages were lost, this count shows it.
        "update document set passages = passages - ?, "
        "opening = (select p.key from passage p "
        f"where {db.own('p')} and p.key = document.opening) where {db.own()} and key = ?",
        [(len(some), document) for document, some in passages.items()],
    )


def delete_rows(db: Database, keys: Sequence[int], index: TextIndex) -> None:
    """Delete passages with everything derived from them. Their documents stay as they are."""
    index.remove(index_rows(db, keys), len(keys))
    for start in range(0, len(keys), _PASSAGES_PER_STATEMENT):
        some_keys = keys[start : start + _PASSAGES_PER_STATEMENT]
        statistics.remove_passages(db, some_keys)
        members, value = db.in_list(some_keys)
        db.run(f"delete from passage where {db.own()} and key in ({members})", (value,))
    db.delete_derived(keys)


# -- rewriting: a new version of a document that is not a conversation replaces it as a whole ---

_ID = PASSAGE_COLUMNS.index("id")
_PLACE = slice(PASSAGE_COLUMNS.index("position"), PASSAGE_COLUMNS.index("canonical") + 1)

Rows = Sequence[tuple[Any, ...]]
"""Rows of passages with PASSAGE_COLUMNS."""


def is_rewritable(*kinds: str) -> bool:
    """Whether documents of these kinds are rewritten; conversations only grow."""
    return CONVERSATION not in kinds


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
    head, order = places(document.passages, document.head)
    rows = [
        passage_row(document.passages[n], position, canonical)
        for position, (n, canonical) in enumerate(order)
    ]
    return head, rows


def rewrite_passages(
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
    new_places: dict[int, tuple[int, bool]] = {}
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
            new_places[passage] = row[_PLACE]
    if removed_keys:
        delete_passages(db, {key: removed_keys}, index)
    if changed_rows:
        replace_passages(db, changed_rows, index)
    renumber(db, new_places)
    if added_rows:
        add_passages(db, index, key, added_rows, receipt, shared)
    count = len(stored) - len(removed_keys) + len(added_rows)
    db.run(f"update document set passages = ? where {db.own()} and key = ?", (count, key))
    update_opening(db, key, index)
    return Replacement(
        len(added_rows), same, len(changed_rows), len(removed_keys), moved=bool(new_places)
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
    insert_passages(db, [(passage, key, receipt, shared, *row) for passage, row in pairs])
    index.add([(passage, "", row[-1]) for passage, row in pairs])
