"""Vector spaces: which passages have vectors and which do not, the same for both databases."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from recollect.store.sql.database import Database
from recollect.store.sql.encoding import INDEXED_TITLE
from recollect.store.values import Space, Unembedded

T = TypeVar("T")

# Vectors deleted in one transaction. Others can write in between.
_MAX_DELETED_VECTORS = 5_000


def all_spaces(db: Database) -> list[Space]:
    rows = db.rows(
        "select id, name, version, dimensions, state, done, ready, noise_floor, calibrated_size "
        f"from space where {db.own()} and not gone order by id"
    )
    return [
        Space(id_, name, version, dimensions, state, last_key, bool(ready), floor, size)
        for id_, name, version, dimensions, state, last_key, ready, floor, size in rows
    ]


def add(db: Database, name: str, version: str, dimensions: int, model_state: bytes | None) -> Space:
    identity = (name, version)
    for space in all_spaces(db):
        if (space.name, space.version) == identity:
            return space
    columns = ("id", "name", "version", "dimensions", "state")
    db.insert("space", columns, [(db.new_space_number(), name, version, dimensions, model_state)])
    return next(s for s in all_spaces(db) if (s.name, s.version) == identity)


def calibrate(db: Database, space: Space, noise_floor: float, size: int) -> None:
    db.run(
        f"update space set noise_floor = ?, calibrated_size = ? where {db.own()} and id = ?",
        (noise_floor, size, space.id),
    )


def drop(db: Database, space: Space) -> bool:
    """Mark a space as dropped and delete a part of it; `clear_dropped` deletes the rest."""
    db.run(
        "update space set gone = true, version = version || ' gone ' || id "
        f"where {db.own()} and id = ? and not gone",
        (space.id,),
    )
    return clear_dropped(db)


def clear_dropped(db: Database) -> bool:
    """Delete some vectors of dropped spaces. False if there is nothing left to delete."""
    dropped: int | None = db.get(f"select id from space where {db.own()} and gone limit 1")
    if dropped is None:
        return False
    rows = db.rows(
        f"select passage from vector where {db.own()} and space = ? limit ?",
        (dropped, _MAX_DELETED_VECTORS),
    )
    passages = {key for (key,) in rows}
    if passages:
        members, value = db.in_list(sorted(passages))
        db.run(
            f"delete from vector where {db.own()} and passage in ({members}) and space = ?",
            (value, dropped),
        )
    else:
        db.run(f"delete from unembedded where {db.own()} and space = ?", (dropped,))
        db.run(f"delete from space where {db.own()} and id = ?", (dropped,))
    return True


# -- passages without vectors ---
# New passages have keys after the last embedded one (`done`). Changed ones are in `unembedded`.

_HEAD = f"p.key, {INDEXED_TITLE}, p.author"


def queued(db: Database) -> str:
    return f"""from unembedded q where {db.own("q")} and q.space = ? and q.passage <= ?
      and exists (select 1 from passage p where {db.own("p")} and p.key = q.passage)"""


def unembedded(
    db: Database,
    space: Space,
    limit: int,
    after: int | None = None,
    content: str = "p.content",
) -> tuple[list[Unembedded], int]:
    """See Store.unembedded. `content` is the column that the text is read from."""
    if after is not None:
        passages = vectorless(db, space, after, limit)
        return passages, len(passages)
    last: int = db.get(f"select done from space where {db.own()} and id = ?", (space.id,)) or 0
    rows = db.rows(
        f"""select {_HEAD}, {content}, coalesce(u.mark, 0)
        from (select q.passage as key {queued(db)}
          union all select key from
            (select key from passage where {db.own()} and key > ? order by key limit ?) n
          limit ?) k
        {db.by_key("passage", "p", "k.key")} {db.by_key("document", "d", "p.document")}
        left join unembedded u on {db.own("u")} and u.passage = p.key and u.space = ?
        order by p.key""",
        (space.id, last, last, limit, limit, space.id),
    )
    if not rows:
        return [], 0
    total: int = db.get(
        f"select (select count(*) {queued(db)}) "
        f"+ (select passage from {db.own_rows('last_key')}) - ?",
        (space.id, last, last),
    )
    return [Unembedded(*row) for row in rows], max(total, len(rows))


def vectorless(db: Database, space: Space, after: int, limit: int) -> list[Unembedded]:
    """The passages that were embedded and have no vector."""
    rows = db.rows(
        f"""select {_HEAD}, p.content, 0
        from passage p {db.by_key("document", "d", "p.document")}
        where {db.own("p")} and p.key > ?
          and p.key <= (select s.done from space s where {db.own("s")} and s.id = ?)
          and not exists (select 1 from vector v
            where {db.own("v")} and v.passage = p.key and v.space = ?)
          and not exists (select 1 from unembedded u
            where {db.own("u")} and u.passage = p.key and u.space = ?)
        order by p.key limit ?""",
        (after, space.id, space.id, space.id, limit),
    )
    return [Unembedded(*row) for row in rows]


def queue(db: Database, space: Space, passages: Sequence[int]) -> None:
    """See Store.queue."""
    members, value = db.in_list(passages)
    rows = db.rows(
        f"select p.key from passage p where {db.own('p')} and p.key in ({members}) and exists "
        f"(select 1 from space s where {db.own('s')} and s.id = ?) and not exists "
        f"(select 1 from unembedded u where {db.own('u')} and u.passage = p.key and u.space = ?)",
        (value, space.id, space.id),
    )
    db.queue_passages(space.id, [key for (key,) in rows])


def orphans(db: Database) -> str:
    return (
        f"from unembedded where {db.own()} and not exists "
        f"(select 1 from passage p where {db.own('p')} and p.key = unembedded.passage)"
    )


def count_orphans(db: Database) -> int:
    """How many entries of the embedding queue name a passage that does not exist."""
    count: int = db.get(f"select count(*) {orphans(db)}")
    return count


def remove_orphans(db: Database) -> None:
    db.run(f"delete {orphans(db)}")


# -- vectors ---


def add_vectors(
    db: Database,
    space: Space,
    vectors: Mapping[Unembedded, Sequence[T]],
    insert: Callable[[list[tuple[int, T]]], None],
) -> None:
    """See Store.add_vectors. `insert` writes vectors, each with the key of its passage."""
    if not vectors:
        return
    unchanged = _unchanged(db, space, list(vectors))
    last: int = db.get(f"select done from space where {db.own()} and id = ?", (space.id,)) or 0
    db.run_many(
        f"delete from vector where {db.own()} and passage = ? and space = ?",
        [(passage.key, space.id) for passage in unchanged if passage.key <= last],
    )
    rows = [(passage.key, vector) for passage in unchanged for vector in vectors[passage]]
    if rows:
        insert(rows)
    db.run_many(
        f"delete from unembedded where {db.own()} and passage = ? and space = ?",
        [(passage.key, space.id) for passage in unchanged if passage.revision],
    )
    newest = max(passage.key for passage in vectors)
    db.run(
        f"update space set done = ? where {db.own()} and id = ? and done < ?",
        (newest, space.id, newest),
    )


def _unchanged(db: Database, space: Space, passages: Sequence[Unembedded]) -> list[Unembedded]:
    """The passages that still exist and have not changed since they were read."""
    members, value = db.in_list([passage.key for passage in passages])
    rows = db.rows(
        "select p.key, coalesce(u.mark, 0) from passage p "
        f"left join unembedded u on {db.own('u')} and u.passage = p.key and u.space = ? "
        f"where {db.own('p')} and p.key in ({members})",
        (space.id, value),
    )
    revisions = dict(rows)
    return [passage for passage in passages if revisions.get(passage.key) == passage.revision]


def mark_ready(db: Database, space: Space) -> None:
    """Mark a space as ready. Unless there are newer passages, it is embedded up to the last key.

    The last key may belong to a passage that was deleted before it was embedded.
    """
    db.run(
        f"""update space set ready = true, done =
          case when exists (select 1 from passage p
            where {db.own("p")} and p.key > space.done) then done
          else (select k.passage from last_key k where {db.own("k")}) end
        where {db.own()} and id = ?""",
        (space.id,),
    )
