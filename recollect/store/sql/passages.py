"""The passages of a document as they lie in a database: changed, numbered and removed, with the index in step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from recollect.language.text import from_micros
from recollect.model.documents import Passage, places
from recollect.store.sql.database import Database, IndexRow, TextIndex
from recollect.store.sql.encoding import PASSAGE_COLUMNS

COLUMNS = ("key", "document", "receipt", "shared", *PASSAGE_COLUMNS)
_FIXED = (
    "id",
    "source",
    "source_id",
    "kind",
)  # what a stored document keeps whatever its source says
_UPDATE_PASSAGE = (
    f"update passage set {', '.join(f'{c} = ?' for c in PASSAGE_COLUMNS)} where key = ?"
)
_SEEN = tuple(
    PASSAGE_COLUMNS.index(name)
    for name in ("content", "role", "author", "created_at", "visibility")
)


def stored_bones(db: Database, key: int) -> dict[str, Passage]:
    rows = db.rows(
        "select id, parent, created_at, position, canonical from passage where document = ? order by position",
        (key,),
    )
    return {
        i: Passage(
            i,
            None,
            "",
            parent=parent,
            created_at=from_micros(at),
            position=position,
            canonical=bool(canonical),
        )
        for i, parent, at, position, canonical in rows
    }


def renumber(db: Database, key: int, places: Mapping[str, tuple[int, bool]]) -> None:
    db.run_many(
        "update passage set position = ?, canonical = ? where document = ? and id = ?",
        [(position, canonical, key, i) for i, (position, canonical) in places.items()],
    )


def change_document(db: Database, key: int, row: Mapping[str, Any], index: TextIndex) -> None:
    """Let a document say what the row says, but for what it is known by."""
    changes = {name: value for name, value in row.items() if name not in _FIXED}
    changes |= db.derived(row)
    opening, old, content = db.rows(
        "select d.opening, d.title, p.content from document d left join passage p on p.key = d.opening where d.key = ?",
        (key,),
    )[0]
    db.run(
        f"update document set {', '.join(f'{name} = ?' for name in changes)} where key = ?",
        (*changes.values(), key),
    )
    if opening is not None and old != row["title"]:
        index.remove([(opening, old, content)])
        index.add([(opening, row["title"], content)])
        db.outdated([opening])


def give_opening(db: Database, key: int, index: TextIndex) -> None:
    """Let the first passage carry the title in the index, if none does."""
    ((title, opening),) = db.rows("select title, opening from document where key = ?", (key,))
    if opening is not None:
        return
    first = db.rows(
        "select key, content from passage where document = ? order by position limit 1", (key,)
    )
    for passage, content in first:
        db.run("update document set opening = ? where key = ?", (passage, key))
        index.remove([(passage, "", content)])
        index.add([(passage, title, content)])
        db.outdated([passage])


def lead(db: Database, key: int, index: TextIndex) -> None:
    """Let the first passage carry the title, whichever did before."""
    ((title, opening),) = db.rows("select title, opening from document where key = ?", (key,))
    first = db.get("select key from passage where document = ? order by position limit 1", (key,))
    if opening is None or first == opening:
        return give_opening(db, key, index)
    before = list(in_index(db, [opening, first]))
    db.run("update document set opening = ? where key = ?", (first, key))
    if title:
        index.remove(before)
        index.add(list(in_index(db, [opening, first])))
    db.outdated([opening, first])


def count_up(db: Database, key: int) -> None:
    """The document has changed."""
    db.run("update document set version = version + 1 where key = ?", (key,))


def replace_passage(db: Database, key: int, row: tuple[Any, ...], index: TextIndex) -> None:
    ((_, title, content),) = in_index(db, [key])
    ((*seen,),) = db.rows(
        "select content, role, author, created_at, visibility from passage where key = ?", (key,)
    )
    db.run(_UPDATE_PASSAGE, (*row, key))
    if row[-1] != content:
        index.remove([(key, title, content)])
        index.add([(key, title, row[-1])])
    if seen != [row[at] for at in _SEEN]:
        db.outdated([key])


def in_index(db: Database, passages: Sequence[int]) -> Iterator[IndexRow]:
    """The passages as they stand in the index."""
    for start in range(0, len(passages), 1_000):
        listed, value = db.among(passages[start : start + 1_000])
        yield from db.rows(
            "select p.key, case when d.opening = p.key then d.title else '' end, p.content "
            f"from passage p join document d on d.key = p.document where p.key in ({listed})",
            (value,),
        )


def replace_order(db: Database, key: int, index: TextIndex) -> None:
    """Number the passages anew after some were removed."""
    bones = list(stored_bones(db, key).values())
    head, order = places(bones, db.get("select head from document where key = ?", (key,)))
    renumber(
        db,
        key,
        {
            bones[n].id: (position, canonical)
            for position, (n, canonical) in enumerate(order)
            if (bones[n].position, bones[n].canonical) != (position, canonical)
        },
    )
    db.run("update document set head = ? where key = ?", (head, key))
    give_opening(db, key, index)


def remove_passages(db: Database, passages: Mapping[int, Sequence[int]], index: TextIndex) -> None:
    """Delete passages of some documents: from the truth and from the index."""
    keys = [key for some in passages.values() for key in some]
    index.remove(in_index(db, keys), len(keys))
    for start in range(0, len(keys), 1_000):
        listed, value = db.among(keys[start : start + 1_000])
        db.run(f"delete from passage where key in ({listed})", (value,))
    db.forgotten(keys)
    db.run_many(
        "update document set passages = (select count(*) from passage p where p.document = document.key), "
        "opening = (select p.key from passage p where p.key = document.opening) where key = ?",
        [(document,) for document in passages],
    )
