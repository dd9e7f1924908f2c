"""Which passages have vectors and which wait, the same in every database."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from recollect.store.sql.database import Database
from recollect.store.values import Space, Unembedded

T = TypeVar("T")

_DROPPED = 5_000  # passages whose vectors are removed in one transaction


def all_spaces(db: Database) -> list[Space]:
    listed = db.rows(
        "select id, name, version, dimensions, state, done, ready from space where not gone order by id"
    )
    return [
        Space(id_, name, version, dimensions, state, done, bool(ready))
        for id_, name, version, dimensions, state, done, ready in listed
    ]


def add(db: Database, name: str, version: str, dimensions: int, state: bytes | None) -> Space:
    db.run(
        "insert into space (name, version, dimensions, state) values (?, ?, ?, ?) on conflict do nothing",
        (name, version, dimensions, state),
    )
    return next(s for s in all_spaces(db) if (s.name, s.version) == (name, version))


def drop(db: Database, space: Space) -> bool:
    """Begin to remove a space. From now on nobody asks for it; `clear_dropped` removes the rest."""
    db.run(
        "update space set gone = true, version = version || ' gone ' || id where id = ? and not gone",
        (space.id,),
    )
    return clear_dropped(db)


def clear_dropped(db: Database) -> bool:
    """Remove a part of what spaces that are gone have left; False once nothing is."""
    gone: int | None = db.get("select id from space where gone limit 1")
    if gone is None:
        return False
    some = {
        key
        for (key,) in db.rows(
            "select passage from vector where space = ? limit ?", (gone, _DROPPED)
        )
    }
    if some:
        listed, value = db.among(sorted(some))
        db.run(f"delete from vector where passage in ({listed}) and space = ?", (value, gone))
    else:
        db.run("delete from unembedded where space = ?", (gone,))
        db.run("delete from space where id = ?", (gone,))
    return True


_QUEUED = """from unembedded q where q.space = ? and q.passage <= ?
  and exists (select 1 from passage p where p.key = q.passage)"""


def unembedded(db: Database, space: Space, limit: int) -> tuple[list[Unembedded], int]:
    done: int = db.get("select done from space where id = ?", (space.id,)) or 0
    listed = db.rows(
        f"""select p.key, case when d.opening = p.key then d.title else '' end, p.author, p.content, coalesce(u.mark, 0)
        from (select q.passage as key {_QUEUED}
          union all select key from (select key from passage where key > ? order by key limit ?) n limit ?) k
        join passage p on p.key = k.key join document d on d.key = p.document
        left join unembedded u on u.passage = p.key and u.space = ? order by p.key""",
        (space.id, done, done, limit, limit, space.id),
    )
    if not listed:
        return [], 0
    waiting: int = db.get(
        f"select (select count(*) {_QUEUED}) + (select passage from last_key) - ?",
        (space.id, done, done),
    )
    return [Unembedded(*row) for row in listed], max(waiting, len(listed))


def vectorless(db: Database, space: Space, after: int, limit: int) -> list[Unembedded]:
    """See Store.vectorless."""
    rows = db.rows(
        """select p.key, case when d.opening = p.key then d.title else '' end, p.author, p.content, 0
        from passage p join document d on d.key = p.document
        where p.key > ? and p.key <= (select done from space where id = ?)
          and not exists (select 1 from vector v where v.passage = p.key and v.space = ?)
          and not exists (select 1 from unembedded u where u.passage = p.key and u.space = ?)
        order by p.key limit ?""",
        (after, space.id, space.id, space.id, limit),
    )
    return [Unembedded(*row) for row in rows]


def queue(db: Database, space: Space, passages: Sequence[int]) -> None:
    """See Store.queue."""
    listed, value = db.among(passages)
    db.run(
        "insert into unembedded (passage, space) select p.key, s.id from passage p, space s "
        f"where p.key in ({listed}) and s.id = ? and not exists "
        "(select 1 from unembedded u where u.passage = p.key and u.space = s.id)",
        (value, space.id),
    )


_ORPHANS = (
    "from unembedded where not exists (select 1 from passage p where p.key = unembedded.passage)"
)


def count_orphans(db: Database) -> int:
    """How many entries of the embedding queue name a passage that does not exist."""
    count: int = db.get(f"select count(*) {_ORPHANS}")
    return count


def remove_orphans(db: Database) -> None:
    db.run(f"delete {_ORPHANS}")


def add_vectors(
    db: Database,
    space: Space,
    vectors: Mapping[Unembedded, Sequence[T]],
    insert: Callable[[list[tuple[int, T]]], None],
) -> None:
    """Keep vectors; `insert` writes them, each with the key of its passage."""
    if not vectors:
        return
    listed, value = db.among([p.key for p in vectors])
    marks = dict(
        db.rows(
            "select p.key, coalesce(u.mark, 0) from passage p left join unembedded u on u.passage = p.key and u.space = ? "
            f"where p.key in ({listed})",
            (space.id, value),
        )
    )
    unchanged = [passage for passage in vectors if marks.get(passage.key) == passage.revision]
    done: int = db.get("select done from space where id = ?", (space.id,)) or 0
    again = [(p.key, space.id) for p in unchanged if p.key <= done]
    db.run_many("delete from vector where passage = ? and space = ?", again)
    if made := [(p.key, one) for p in unchanged for one in vectors[p]]:
        insert(made)
    changed = [(p.key, space.id) for p in unchanged if p.revision]
    db.run_many("delete from unembedded where passage = ? and space = ?", changed)
    newest = max(p.key for p in vectors)
    db.run("update space set done = ? where id = ? and done < ?", (newest, space.id, newest))


def mark_ready(db: Database, space: Space) -> None:
    """Everything was embedded: so was what was deleted after it, unless something newer has come."""
    db.run(
        """update space set ready = true, done = case when exists (select 1 from passage p where p.key > space.done)
        then done else (select k.passage from last_key k) end where id = ?""",
        (space.id,),
    )
