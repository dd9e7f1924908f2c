"""Markers: numbers that a library stores under a name, such as the version of its text index."""

from __future__ import annotations

from recollect.store.sql.database import Database


def get_marker(db: Database, name: str) -> int | None:
    number: int | None = db.get(
        f"select version from derived where {db.own()} and name = ?", (name,)
    )
    return number


def set_marker(db: Database, name: str, number: int | None) -> None:
    db.run(f"delete from derived where {db.own()} and name = ?", (name,))
    if number is not None:
        db.insert("derived", ("name", "version"), [(name, number)])
