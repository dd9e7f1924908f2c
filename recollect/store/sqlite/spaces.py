"""The table of vectors: which passages have them, and which wait."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import apsw

from recollect.store.base import Space, Unembedded
from recollect.store.sqlite.connection import rows

_COLUMNS = "id, name, version, dimensions, state, done, ready"
_DROPPED = 5_000  # rows removed in one transaction


def every(db: apsw.Connection) -> list[Space]:
    listed = rows(db, f"select {_COLUMNS} from space order by id")
    return [
        Space(id_, name, version, dimensions, state, done, bool(ready))
        for id_, name, version, dimensions, state, done, ready in listed
    ]


def add(db: apsw.Connection, name: str, version: str, dimensions: int, state: bytes | None) -> Space:
    db.execute("insert or ignore into space (name, version, dimensions, state) values (?, ?, ?, ?)",
               (name, version, dimensions, state))  # fmt: skip
    return next(s for s in every(db) if (s.name, s.version) == (name, version))


def drop_some(db: apsw.Connection, space: Space) -> bool:
    """Remove a part of a space; False once nothing is left. Without its row nobody asks for it."""
    db.execute("delete from space where id = ?", (space.id,))
    db.execute("delete from vector where row in (select row from vector where space = ? limit ?)",
               (space.id, _DROPPED))  # fmt: skip
    return db.changes() > 0


def unembedded(db: apsw.Connection, space: Space, limit: int) -> tuple[list[Unembedded], int]:
    done: int = db.execute("select done from space where id = ?", (space.id,)).get
    waiting: int = db.execute(
        "select (select count(*) from unembedded where passage <= ?1) + (select passage from last_key) - ?1",
        (done,),
    ).get
    listed = rows(
        db,
        """select p.key, case when d.opening = p.key then d.title else '' end, p.author, p.content
        from (select passage as key from unembedded where passage <= ?1
          union all select key from (select key from passage where key > ?1 order by key limit ?2) limit ?2) k
        cross join passage p on p.key = k.key cross join document d on d.key = p.document""",
        (done, limit),
    )
    return [Unembedded(*row) for row in listed], waiting


def embed(db: apsw.Connection, space: Space, vectors: Mapping[int, Sequence[bytes]]) -> None:
    if not vectors:
        return
    here = {key for key in vectors if db.execute("select 1 from passage where key = ?", (key,)).get}
    db.executemany("delete from vector where passage = ? and space = ?", ((key, space.id) for key in here))
    db.executemany(
        "insert into vector (space, passage, vector) values (?, ?, ?)",
        ((space.id, key, blob) for key, blobs in vectors.items() if key in here for blob in blobs),
    )
    db.executemany("delete from unembedded where passage = ?", ((key,) for key in vectors))
    db.execute("update space set done = max(done, ?) where id = ?", (max(vectors), space.id))


def finish(db: apsw.Connection, space: Space) -> None:
    """Everything was embedded: so was what was deleted after it, unless something newer has come."""
    db.execute(
        """update space set ready = 1, done = case when exists (select 1 from passage where key > done)
        then done else (select passage from last_key) end where id = ?""",
        (space.id,),
    )
