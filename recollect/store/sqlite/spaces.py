"""The table of vectors: which passages have them, and which wait."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from recollect.store.base import Space, Unembedded
from recollect.store.sqlite.connection import Connection

_DROPPED = 5_000  # rows removed in one transaction


def every(db: Connection) -> list[Space]:
    listed = db.rows("select id, name, version, dimensions, state, done, ready from space where not gone order by id")
    return [
        Space(id_, name, version, dimensions, state, done, bool(ready))
        for id_, name, version, dimensions, state, done, ready in listed
    ]


def add(db: Connection, name: str, version: str, dimensions: int, state: bytes | None) -> Space:
    db.execute("insert or ignore into space (name, version, dimensions, state) values (?, ?, ?, ?)",
               (name, version, dimensions, state))  # fmt: skip
    return next(s for s in every(db) if (s.name, s.version) == (name, version))


def drop_some(db: Connection, space: Space) -> bool:
    """Begin to remove a space. From now on nobody asks for it; `clear_some` removes the rest."""
    db.execute("update space set gone = 1, version = version || ' gone ' || id where id = ? and not gone", (space.id,))
    return clear_some(db)


def clear_some(db: Connection) -> bool:
    """Remove a part of what spaces that are gone have left; False once nothing is."""
    gone: int | None = db.execute("select id from space where gone limit 1").get
    if gone is None:
        return False
    db.execute("delete from vector where row in (select row from vector where space = ? limit ?)", (gone, _DROPPED))
    if not db.changes():
        db.execute("delete from unembedded where space = ?", (gone,))
        db.execute("delete from space where id = ?", (gone,))
    return True


def unembedded(db: Connection, space: Space, limit: int) -> tuple[list[Unembedded], int]:
    done: int = db.execute("select done from space where id = ?", (space.id,)).get or 0
    listed = db.rows(
        """select p.key, case when d.opening = p.key then d.title else '' end, p.author, p.content,
          coalesce((select mark from unembedded where passage = p.key and space = ?1), 0)
        from (select passage as key from unembedded where space = ?1 and passage <= ?2
          union all select key from (select key from passage where key > ?2 order by key limit ?3) limit ?3) k
        cross join passage p on p.key = k.key cross join document d on d.key = p.document""",
        (space.id, done, limit),
    )
    if not listed:
        return [], 0
    waiting: int = db.execute(
        "select (select count(*) from unembedded where space = ?1 and passage <= ?2) "
        "+ (select passage from last_key) - ?2", (space.id, done),
    ).get  # fmt: skip
    return [Unembedded(*row) for row in listed], max(waiting, len(listed))


def embed(db: Connection, space: Space, vectors: Mapping[Unembedded, Sequence[bytes]]) -> None:
    if not vectors:
        return
    unchanged = [passage for passage in vectors if _is_as_it_was(db, space, passage)]
    done: int = db.execute("select done from space where id = ?", (space.id,)).get or 0
    again = [(p.key, space.id) for p in unchanged if p.key <= done]
    db.executemany("delete from vector where passage = ? and space = ?", again)
    db.executemany(
        "insert into vector (space, passage, vector) values (?, ?, ?)",
        ((space.id, p.key, blob) for p in unchanged for blob in vectors[p]),
    )
    changed = [(p.key, space.id) for p in unchanged if p.mark]
    db.executemany("delete from unembedded where passage = ? and space = ?", changed)
    db.execute("update space set done = max(done, ?) where id = ?", (max(p.key for p in vectors), space.id))


def _is_as_it_was(db: Connection, space: Space, passage: Unembedded) -> bool:
    there = db.execute(
        "select coalesce((select mark from unembedded where passage = p.key and space = ?), 0) "
        "from passage p where p.key = ?", (space.id, passage.key),
    ).get  # fmt: skip
    return bool(there == passage.mark)


def finish(db: Connection, space: Space) -> None:
    """Everything was embedded: so was what was deleted after it, unless something newer has come."""
    db.execute(
        """update space set ready = 1, done = case when exists (select 1 from passage where key > done)
        then done else (select passage from last_key) end where id = ?""",
        (space.id,),
    )
