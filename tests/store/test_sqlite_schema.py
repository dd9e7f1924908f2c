"""New libraries are created in one step, and are the same as those that were migrated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from recollect.store.sqlite.care import verification
from recollect.store.sqlite.connections.connection import connect
from recollect.store.sqlite.schema import migrations
from recollect.store.sqlite.schema.migrations import MIGRATIONS, migrate, run_migrations
from recollect.store.sqlite.store import SqliteStore

Contents = dict[str, list[tuple[Any, ...]]]


def contents(path: Path, is_created: bool) -> Contents:
    """The objects of a new library, its numbers, and the columns and rows of every table."""
    if not is_created:
        db = connect(path)
        run_migrations(db, path)
        db.close()
    SqliteStore(path).close()
    db = connect(path)
    objects = db.rows("select type, name, tbl_name, sql from sqlite_schema order by name")
    numbers = [(db.pragma("user_version"), db.pragma("application_id"))]
    result = {"objects": objects, "numbers": numbers}
    for type_, name, _, _ in objects:
        if type_ == "table":
            result[f"columns of {name}"] = db.rows(f"pragma table_xinfo({name})")
            result[f"rows of {name}"] = sorted(db.rows(f"select * from {name}"))
    db.close()
    return result


def test_a_new_library_is_the_same_as_a_migrated_one(tmp_path: Path) -> None:
    created = contents(tmp_path / "created.db", is_created=True)
    migrated = contents(tmp_path / "migrated.db", is_created=False)
    assert created.keys() == migrated.keys()
    for name, rows in migrated.items():
        assert created[name] == rows, name


def test_a_new_library_needs_no_repair(tmp_path: Path) -> None:
    db = connect(tmp_path / "library.db")
    migrate(db, tmp_path)
    assert not verification.is_index_behind(db)
    db.close()


def test_migrations_that_the_schema_lacks_run_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    added = ("m999_added", "create table added (x)")
    monkeypatch.setattr(migrations, "MIGRATIONS", (*MIGRATIONS, added))
    monkeypatch.setattr(migrations, "VERSION", len(MIGRATIONS) + 1)
    db = connect(tmp_path / "library.db")
    assert migrate(db, tmp_path) == [name for name, _ in (*MIGRATIONS, added)]
    assert db.pragma("user_version") == len(MIGRATIONS) + 1
    assert db.rows("select * from added") == []
    db.close()
