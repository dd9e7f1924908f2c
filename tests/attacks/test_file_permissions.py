"""Other users of the computer cannot read a home, whatever the umask says."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

import recollect
from recollect.store.sqlite.volumes import plan
from recollect.transfer.archive import Stamp


@pytest.fixture(autouse=True)
def generous_umask() -> Iterator[None]:
    before = os.umask(0o000)
    yield
    os.umask(before)


def readable_by_others(home: Path) -> list[str]:
    return [
        f"{path.relative_to(home.parent)} {stat.S_IMODE(path.stat().st_mode):o}"
        for path in (home, *home.rglob("*"))
        if path.stat().st_mode & 0o077
    ]


def fill(home: Path) -> None:
    with recollect.open(home) as library:
        messages = [{"role": "user", "content": f"message {n} in the harbour"} for n in range(30)]
        library.add_conversation("c1", "Harbour", messages=messages)
        library.index()
        library.add_message("c1", "user", "while the library is open")
        assert not readable_by_others(home)


def test_a_new_home_is_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "MIN_VOLUME_PASSAGES", 10)
    home = tmp_path / "deep" / "home"
    fill(home)
    assert (home / "users" / "default" / "index" / "volumes").is_dir()
    assert not readable_by_others(home)


def test_importing_and_watching_keep_a_home_private(tmp_path: Path) -> None:
    home, sessions = tmp_path / "home", tmp_path / "sessions"
    (sessions / "loom").mkdir(parents=True)
    export = {"id": "c", "messages": [{"role": "user", "content": "walrus"}]}
    (sessions / "export.json").write_text(json.dumps([export]))
    with recollect.open(home, background=False) as library:
        library.import_path(sessions / "export.json")
        library.archive.keep(sessions / "export.json", "loom/export.json", [])
        library.archive.note(sessions / "export.json", Stamp(1, 1), "loom/export.json", [], "")
    assert {path.name for path in home.iterdir()} >= {"archive", "importing", "users"}
    assert not readable_by_others(home)


def test_an_older_home_becomes_private_when_it_is_opened(tmp_path: Path) -> None:
    home = tmp_path / "home"
    fill(home)
    make_readable(home)
    recollect.open(home).close()
    assert not readable_by_others(home)


def test_a_home_that_others_may_read_on_purpose_stays_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    fill(home)
    make_readable(home)
    monkeypatch.setenv("RECOLLECT_PERMISSIONS", "keep")
    recollect.open(home).close()
    assert stat.S_IMODE(home.stat().st_mode) == 0o755


def test_a_folder_for_everybody_stays_so(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    with recollect.open(shared) as library:
        library.add_conversation("c1", messages=[{"role": "user", "content": "hello"}])
    recollect.open(shared).close()
    assert stat.S_IMODE(shared.stat().st_mode) == 0o1777
    assert not readable_by_others(shared / "users")


def make_readable(home: Path) -> None:
    for path in (home, *home.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
