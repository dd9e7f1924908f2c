"""A backup folder that somebody else wrote cannot write elsewhere, fill the disk, or use it up."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import orjson
import pytest

import recollect
from recollect import passphrases
from recollect.backup.making import make_backup, verify
from recollect.backup.manifest import FileRecord, Manifest
from recollect.backup.repository import (
    CONFIG,
    Repository,
    create_repository,
    open_repository,
)
from recollect.backup.restoring import RestoreOptions, restore
from recollect.errors import DamagedBackup


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    with recollect.open(home) as library:
        library.add_conversation("c1", messages=[{"role": "user", "content": "the castle"}])
    return home


@pytest.fixture
def backup(home: Path, tmp_path: Path) -> Manifest:
    with create_repository(tmp_path / "backups", None) as repository:
        return make_backup(repository, home, work_home=home)


def write(repository: Repository, backup: Manifest) -> None:
    """Write a manifest without reading it back."""
    data = repository._protect(backup.to_json(), b"manifest " + backup.id.encode())
    repository._manifest_file(backup.id).write_bytes(data)


@pytest.mark.parametrize(
    "path",
    [
        "../outside",
        "users/../../outside",
        "/etc/outside",
        "users//outside",
        "C:/outside",
        "users\\..\\outside",
        "",
        "./users/default/library.db",
    ],
)
def test_a_path_outside_of_the_home_folder_is_refused(
    path: str, backup: Manifest, tmp_path: Path
) -> None:
    with open_repository(tmp_path / "backups", None) as repository:
        files = (replace(backup.files[0], path=path),)
        write(repository, replace(backup, files=files))
        with pytest.raises(DamagedBackup, match="not a path below a home folder"):
            repository.manifest(backup.id)
        assert not verify(repository, backup.id, tmp_path, lambda *_: None).is_good


@pytest.mark.parametrize("size", [1, -1])
def test_a_file_larger_than_it_says_is_refused_before_it_fills_the_disk(
    size: int, backup: Manifest, tmp_path: Path
) -> None:
    with open_repository(tmp_path / "backups", None) as repository:
        chunk = repository.add_chunk(bytes(65_536))
        names = repository.add_chunk(chunk * 2_048)
        repository.flush()
        huge = FileRecord("huge", size, "0" * 64, (names.hex(),) * 1_000)
        write(repository, replace(backup, files=(huge,)))
        target = tmp_path / "new"
        with pytest.raises(DamagedBackup):
            manifest = repository.manifest(backup.id)
            restore(
                repository, manifest, target, RestoreOptions(), lambda *_: None, work_home=target
            )
    assert not (target / "huge").exists()


@pytest.mark.parametrize("cost", [{"n": 1 << 30}, {"p": 1 << 20}, {"n": 3}, {"r": "x"}, {"n": 0}])
def test_the_cost_of_a_passphrase_is_bounded(
    cost: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passphrases, "SCRYPT", {"n": 16, "r": 8, "p": 1})
    folder = tmp_path / "backups"
    create_repository(folder, "a long passphrase").close()
    record = orjson.loads((folder / CONFIG).read_bytes())
    record["encryption"] |= cost
    (folder / CONFIG).write_bytes(orjson.dumps(record))
    with pytest.raises(DamagedBackup):
        open_repository(folder, "a long passphrase")
