"""A library is copied before its schema changes, and not migrated if it cannot be copied."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from backup_helpers import add_messages, fill, messages, small_disk

import recollect
from recollect.store.sqlite.schema import migrations

FOLDER = "before-migration"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    add_messages(home, "older")
    return home


def publish_new_schema(patch: pytest.MonkeyPatch, script: str = "create table extra (x)") -> None:
    """Make the schema of all libraries one version old."""
    number = migrations.VERSION + 1
    name = f"m{number:03}_extra"
    script = script.replace("extra", f"extra_{number}")
    patch.setattr(migrations, "MIGRATIONS", (*migrations.MIGRATIONS, (name, script)))
    patch.setattr(migrations, "VERSION", number)


def copies(home: Path) -> list[Path]:
    return sorted((home / "users/default" / FOLDER).glob("*"))


def test_a_migration_begins_with_a_copy_that_can_be_used(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = migrations.VERSION
    publish_new_schema(monkeypatch)
    add_messages(home, "newer")
    (copy,) = copies(home)
    assert copy.name.startswith(f"schema-{schema}-to-{schema + 1}-")
    monkeypatch.undo()
    library = tmp_path / "used/users/default/library.db"
    library.parent.mkdir(parents=True)
    shutil.copyfile(copy, library)
    assert messages(tmp_path / "used") == ["older"]


def test_new_and_empty_libraries_are_not_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recollect.open(tmp_path / "home").close()
    publish_new_schema(monkeypatch)
    recollect.open(tmp_path / "home").close()
    assert copies(tmp_path / "home") == []


def test_the_two_newest_copies_are_kept_for_thirty_days(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(4):
        publish_new_schema(monkeypatch)
        messages(home)
    assert len(copies(home)) == 2
    os.utime(copies(home)[0], (0, 0))
    messages(home)
    assert len(copies(home)) == 1


def test_a_deletion_deletes_the_copies(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    publish_new_schema(monkeypatch)
    messages(home)
    assert len(copies(home)) == 1
    with recollect.open(home) as library:
        library.delete_conversation("c1")
    assert not (home / "users/default" / FOLDER).exists()


def test_an_interrupted_migration_keeps_its_first_copy(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish_new_schema(monkeypatch)
    publish_new_schema(monkeypatch, "create table broken (")
    for _ in range(3):
        with pytest.raises(recollect.RecollectError):
            recollect.open(home)
    (copy,) = copies(home)
    assert copy.name.startswith(f"schema-{migrations.VERSION - 2}-")


def test_without_a_copy_the_library_is_not_migrated(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = migrations.VERSION
    blocked = home / "users/default" / FOLDER
    blocked.write_text("a file where the folder should be")
    publish_new_schema(monkeypatch)
    with pytest.raises(recollect.RecollectError, match="was not migrated"):
        recollect.open(home)
    monkeypatch.undo()
    monkeypatch.setenv("RECOLLECT_INDEXING", "manual")
    assert schema == migrations.VERSION
    assert messages(home) == ["older"]
    publish_new_schema(monkeypatch)
    monkeypatch.setenv("RECOLLECT_MIGRATION_BACKUP", "off")
    assert messages(home) == ["older"]


def test_a_full_disk_leaves_the_library_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with small_disk(tmp_path / "disk", "2m") as disk:
        home = disk / "home"
        add_messages(home, "older")
        filler = fill(disk, 200_000)
        with monkeypatch.context() as patch:
            publish_new_schema(patch)
            with pytest.raises(recollect.RecollectError, match="was not migrated"):
                recollect.open(home)
        filler.unlink()
        assert copies(home) == []
        assert messages(home) == ["older"]
        publish_new_schema(monkeypatch)
        assert messages(home) == ["older"]
        assert len(copies(home)) == 1
