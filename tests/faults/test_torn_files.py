"""An empty file that was a library is refused. It never becomes a new library."""

from __future__ import annotations

from pathlib import Path

import pytest

import recollect
from recollect.cli import main
from recollect.errors import DamagedLibrary
from recollect.places import library_file


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The file of a library with one message."""
    with recollect.open(tmp_path, "ann", background=False) as library:
        library.add_conversation("c1", messages=[{"id": "m1", "role": "user", "content": "hello"}])
    return library_file(tmp_path, "ann")


@pytest.mark.parametrize(
    "remains", ["library.db-wal", "library.db-shm", "index/volumes", "index/vectors"]
)
@pytest.mark.parametrize("is_missing", [False, True])
def test_an_empty_or_missing_library_with_remains_beside_it_is_refused(
    file: Path, tmp_path: Path, remains: str, is_missing: bool
) -> None:
    remainder = file.parent / remains
    if remains.startswith("index"):
        remainder.mkdir(parents=True)
    else:
        remainder.touch()
    file.write_bytes(b"")
    if is_missing:
        file.unlink()
    with pytest.raises(DamagedLibrary, match=r"is empty, but .*recollect restore"):
        recollect.open(tmp_path, "ann")
    assert file.exists() is not is_missing
    if not is_missing:
        assert file.stat().st_size == 0
    assert remainder.exists()


def test_read_only_mode_says_that_a_library_is_empty(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (file.parent / "index" / "vectors").mkdir(parents=True)
    file.write_bytes(b"")
    monkeypatch.setenv("RECOLLECT_READ_ONLY", "on")
    with pytest.raises(DamagedLibrary, match="is empty, but"):
        recollect.open(tmp_path, "ann")


def test_an_empty_file_alone_becomes_a_library(tmp_path: Path) -> None:
    file = library_file(tmp_path, "ann")
    file.parent.mkdir(parents=True)
    file.touch()
    with recollect.open(tmp_path, "ann", background=False) as library:
        assert library.size() == 0


def test_doctor_explains_an_empty_library(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (file.parent / "library.db-wal").touch()
    file.write_bytes(b"")
    assert main(["doctor", "--home", str(tmp_path)]) == 1
    output = capsys.readouterr().out
    assert "is empty" in output and "recollect restore" in output
    assert file.stat().st_size == 0
