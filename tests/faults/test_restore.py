"""A restore brings any backup back, checks it first, and never destroys what is there."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest
from backup_helpers import (
    add_messages,
    back_up,
    files_in,
    messages,
    repository,
    run_json,
    small_disk,
)
from kills import KILLS, run_and_kill

import recollect
from recollect.places import keys

RESTORE_KILLS = max(1, KILLS // 20)

RESTORE = """
import sys
from pathlib import Path
from recollect.backup.repository import open_repository
from recollect.backup.restoring import RestoreOptions, restore
home, folder = Path(sys.argv[1]), Path(sys.argv[2])
with open_repository(folder, None) as repository:
    print("opened", flush=True)
    restore(
        repository, repository.readable_manifests()[0][0], home, RestoreOptions(replace=True),
        lambda *step: print(*step, flush=True), work_home=home,
    )
print("complete", flush=True)
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    add_messages(home, "first")
    return home


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "backups"


def test_any_backup_can_be_restored(
    home: Path, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ids = []
    for text in ("second", "third", "fourth"):
        ids.append(back_up(home, folder).id)
        add_messages(home, text)
    today = f"{ids[0][:4]}-{ids[0][4:6]}-{ids[0][6:8]}"
    picks = {
        ids[0]: ["first"],
        ids[1][:-2]: ["first", "second"],
        "latest": ["first", "second", "third"],
        "2099-01-01": ["first", "second", "third"],
        today: ["first", "second", "third"],
    }
    for n, (pick, texts) in enumerate(picks.items()):
        target = tmp_path / f"restored-{n}"
        run_json(capsys, "restore", pick, "--folder", str(folder), "--to", str(target))
        assert messages(target) == texts
        with recollect.open(target) as library:
            assert library.search(texts[-1]).hits[0].message_id == texts[-1]
    for pick, problem in {"2001-01-01": "or earlier", "nope": "no backup", "20": "matches"}.items():
        arguments = ["restore", pick, "--folder", str(folder), "--to", str(tmp_path / "x")]
        assert problem in run_json(capsys, *arguments, fails=True)


def test_what_a_restore_replaces_is_kept(
    home: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    back_up(home, folder)
    add_messages(home, "newer")
    options = ["--home", str(home), "--folder", str(folder)]
    error = run_json(capsys, "restore", *options, fails=True)
    assert "was changed at" in error
    assert messages(home) == ["first", "newer"]
    result = run_json(capsys, "restore", "--replace", *options)
    assert messages(home) == ["first"]
    assert messages(Path(result["replaced_folder"])) == ["first", "newer"]


def test_an_unchanged_library_is_replaced_without_being_told_to(
    home: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    backup = back_up(home, folder)
    result = run_json(capsys, "restore", "--home", str(home), "--folder", str(folder))
    assert result["id"] == backup.id
    assert messages(home) == messages(Path(result["replaced_folder"])) == ["first"]


def test_a_library_that_lost_its_content_is_replaced(
    home: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    back_up(home, folder)
    (home / "users" / "default" / "library.db").write_bytes(b"")
    run_json(capsys, "restore", "--home", str(home), "--folder", str(folder))
    assert messages(home) == ["first"]


def test_a_library_in_use_is_not_replaced(
    home: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    back_up(home, folder)
    options = ["--replace", "--home", str(home), "--folder", str(folder)]
    with recollect.open(home) as library:
        library.add_message("c1", "user", "newer")
        error = run_json(capsys, "restore", *options, fails=True)
        assert "has" in error and "open" in error
        assert library.conversation("c1").passages[-1].content == "newer"
    run_json(capsys, "restore", *options)
    assert messages(home) == ["first"]


def test_a_damaged_backup_changes_nothing(
    home: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    back_up(home, folder)
    add_messages(home, "newer")
    (pack,) = (folder / "packs").iterdir()
    data = bytearray(pack.read_bytes())
    data[200] ^= 1
    pack.write_bytes(data)
    before = sorted(files_in(home))
    options = ["--home", str(home), "--folder", str(folder)]
    error = run_json(capsys, "restore", "--replace", *options, fails=True)
    assert "is damaged: users/default/library.db: Chunk" in error
    assert "Nothing was restored or changed. `recollect backup verify --all`" in error
    assert sorted(files_in(home)) == before
    assert messages(home) == ["first", "newer"]
    result = run_json(capsys, "backup", "verify", *options, fails=True)
    assert not result["good"]


def test_other_backups_can_be_restored_if_a_manifest_is_damaged(
    home: Path, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = back_up(home, folder)
    second = back_up(home, folder)
    (folder / "backups" / f"{second.id}.manifest").write_bytes(b"damaged")
    options = ["--folder", str(folder), "--to", str(tmp_path / "new")]
    assert "damaged" in run_json(capsys, "restore", second.id, *options, fails=True)
    assert run_json(capsys, "restore", *options)["id"] == first.id


def test_a_backup_on_a_read_only_disk_can_be_restored(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with small_disk(tmp_path / "disk", "2m") as disk:
        back_up(home, disk / "backups")
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        options = ["--folder", str(disk / "backups"), "--to", str(tmp_path / "new")]
        run_json(capsys, "restore", *options)
        run_json(capsys, "backup", "verify", *options[:2])
    assert messages(tmp_path / "new") == ["first"]


def test_the_latest_backup_of_everything_is_not_one_of_a_single_library(
    home: Path, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    add_messages(home, "of ann", user="ann")
    whole = back_up(home, folder)
    single = back_up(home, folder, user="ann")
    options = ["--folder", str(folder), "--to"]
    assert run_json(capsys, "restore", *options, str(tmp_path / "a"))["id"] == whole.id
    for n, words in enumerate((["latest", "--user", "ann"], [single.id])):
        result = run_json(capsys, "restore", *words, *options, str(tmp_path / f"b{n}"))
        assert result["id"] == single.id


def test_read_only_mode_makes_backups_and_restores_nothing(
    home: Path, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECOLLECT_READ_ONLY", "on")
    before = sorted(files_in(home))
    back_up(home, folder)
    options = ["--home", str(home), "--folder", str(folder)]
    assert "read-only mode" in run_json(capsys, "restore", "--replace", *options, fails=True)
    assert sorted(files_in(home)) == before


def test_a_restore_that_is_killed_leaves_a_complete_library(home: Path, folder: Path) -> None:
    rng = random.Random(5)
    back_up(home, folder)
    add_messages(home, "newer")
    for _ in range(RESTORE_KILLS):
        run_and_kill(RESTORE, str(home), str(folder), lines=rng.randint(1, 3))
        present = messages(home)
        assert present in (["first"], ["first", "newer"])
        copies = [messages(path) for path in home.glob("replaced-*") if (path / "users").exists()]
        assert ["first", "newer"] in [present, *copies]


def test_one_library_can_be_restored_for_another_user(
    home: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    add_messages(home, "of ann", user="Ann Smith")
    back_up(home, folder)
    options = ["--home", str(home), "--folder", str(folder)]
    run_json(capsys, "restore", "--user", "Ann Smith", "--to-user", "ben", *options)
    assert messages(home, "ben") == ["of ann"]
    assert messages(home) == ["first"]
    error = run_json(capsys, "restore", "--user", "eve", *options, fails=True)
    assert "no backup here that contains this library" in error


def test_api_keys_are_restored_only_where_there_are_none(
    home: Path, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An older backup must not bring revoked keys back."""
    from recollect.cli import main

    assert main(["keys", "add", "laptop", "--home", str(home)]) == 0
    capsys.readouterr()
    back_up(home, folder)
    key = keys(home).all_keys()[0]
    assert main(["keys", "revoke", key.id, "--home", str(home)]) == 0
    capsys.readouterr()
    options = ["--folder", str(folder), "--home", str(home)]
    result = run_json(capsys, "restore", "--replace", *options)
    assert "keys.db" in result["retained_files"]
    assert all(path.startswith(("keys.db", "audit/")) for path in result["retained_files"])
    assert keys(home).all_keys()[0].revoked_at is not None
    run_json(capsys, "restore", *options, "--to", str(tmp_path / "new"))
    assert keys(tmp_path / "new").all_keys()[0].revoked_at is None


def test_a_backup_of_a_newer_version_is_refused(
    home: Path, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from recollect.backup import restoring

    back_up(home, folder)
    monkeypatch.setattr(restoring, "VERSION", 0)
    options = ["--folder", str(folder), "--to", str(home.with_name("new"))]
    assert "newer Recollect" in run_json(capsys, "restore", *options, fails=True)
    assert not home.with_name("new").exists()


@pytest.mark.full
def test_a_library_in_postgresql_is_backed_up_and_restored(
    on_postgres: str, user: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with recollect.open(on_postgres, user) as library:
        library.add_conversation(
            "c1", messages=[{"id": "m1", "role": "user", "content": "on the server"}]
        )
    options = ["--folder", str(folder), "--user", user]
    assert run_json(capsys, "backup", *options)["engine"] == "postgresql"
    run_json(capsys, "restore", *options, "--to", str(tmp_path / "local"))
    assert messages(tmp_path / "local", user) == ["on the server"]
    run_json(capsys, "restore", *options, "--to", on_postgres, "--to-user", f"{user}-again")
    assert messages(on_postgres, f"{user}-again") == ["on the server"]
    with repository(folder) as backups:
        assert len(backups.ids()) == 1
