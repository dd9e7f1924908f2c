"""Other users of the computer cannot read a home, whatever the umask says."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

import recollect
from recollect.home_folder import has_other_entries
from recollect.store.sqlite import sealing
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
    monkeypatch.setattr(sealing, "MIN_VOLUME_PASSAGES", 10)
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
    assert not has_other_entries(home)
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


def test_a_folder_with_other_files_stays_as_it_is_except_for_the_libraries(tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / "src").mkdir(parents=True)
    (project / "models").mkdir()
    (project / "app.db").write_bytes(b"somebody else's")
    make_readable(project)
    fill_shared(project)
    fill_shared(project)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in project.iterdir()}
    assert stat.S_IMODE(project.stat().st_mode) == 0o755
    assert (modes["src"], modes["models"]) == (0o755, 0o755)
    assert (modes["app.db"], modes["users"]) == (0o644, 0o700)
    assert not readable_by_others(project / "users")


def fill_shared(folder: Path) -> None:
    with recollect.open(folder) as library:
        library.add_conversation(messages=[{"role": "user", "content": "hello"}])


def test_a_file_is_not_taken_for_a_home(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("mine")
    file.chmod(0o644)
    with pytest.raises(recollect.RecollectError, match="is not a folder"):
        recollect.open(file)
    assert (file.read_text(), stat.S_IMODE(file.stat().st_mode)) == ("mine", 0o644)


def make_readable(home: Path) -> None:
    for path in (home, *home.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
