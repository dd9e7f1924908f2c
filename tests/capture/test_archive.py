"""Copies of transcripts: they grow with the file and are deleted with the conversation."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

import recollect
from recollect.cli import main
from recollect.errors import InvalidInput, NotFound
from recollect.transfer.archive import Archive, Archived

NAME = ("claude-code", "s1")


def line(words: str) -> bytes:
    return json.dumps({"said": words}).encode() + b"\n"


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    return Archive(tmp_path / "archive")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return tmp_path / "s1.jsonl"


def keep(archive: Archive, source: Path, data: bytes) -> bool:
    source.write_bytes(data)
    return archive.keep(source, "claude-code/p/s1.jsonl", [NAME])


def only(archive: Archive) -> Archived:
    (file,) = archive.files()
    return file


def test_a_copy_grows_with_its_file(archive: Archive, source: Path) -> None:
    one, two = line("walrus"), line("penguin")
    assert keep(archive, source, one)
    assert not keep(archive, source, one)
    assert keep(archive, source, one + two)
    file = only(archive)
    assert gzip.decompress(file.path.read_bytes()) == one + two
    assert (file.copies, file.size, file.conversations) == (0, len(one + two), (NAME,))
    assert file.path.stat().st_mode & 0o77 == 0


def test_the_longer_copy_of_a_truncated_file_is_kept(archive: Archive, source: Path) -> None:
    one, two = line("walrus"), line("penguin")
    keep(archive, source, one + two)
    keep(archive, source, one)
    file = only(archive)
    assert file.copies == 1
    assert gzip.decompress(file.path.read_bytes()) == one
    assert gzip.decompress(file.path.with_name("s1.jsonl.1.gz").read_bytes()) == one + two
    keep(archive, source, b"")
    assert gzip.decompress(only(archive).path.read_bytes()) == one


def test_forget_deletes_every_copy(archive: Archive, source: Path) -> None:
    keep(archive, source, line("walrus") + line("seal"))
    keep(archive, source, line("walrus"))
    assert archive.forget(NAME) == 1
    assert [p for p in archive.folder.rglob("*.gz*")] == []
    assert archive.deleted([NAME, ("codex", "x")]) == {NAME}
    assert not keep(archive, source, line("walrus") + line("otter"))
    archive.undelete([NAME])
    assert keep(archive, source, line("walrus") + line("otter"))


def test_a_deleted_conversation_is_not_archived_from_another_file(
    archive: Archive, source: Path, tmp_path: Path
) -> None:
    keep(archive, source, line("walrus"))
    archive.forget(NAME)
    moved = tmp_path / "archived_sessions" / "s1.jsonl"
    moved.parent.mkdir()
    moved.write_bytes(line("walrus"))
    assert not archive.keep(moved, "claude-code/archived/s1.jsonl", [NAME])


def test_files_are_restored_to_their_place_or_to_a_folder(
    archive: Archive, source: Path, tmp_path: Path
) -> None:
    keep(archive, source, line("walrus") + line("seal"))
    keep(archive, source, line("walrus"))
    (file,) = archive.find("s1")
    with pytest.raises(InvalidInput, match="already exists"):
        archive.restore(file)
    source.unlink()
    assert archive.restore(file) == [source]
    assert source.read_bytes() == line("walrus")
    assert [p.name for p in archive.restore(file, tmp_path / "to")] == ["s1.jsonl", "s1.1.jsonl"]
    with pytest.raises(NotFound, match="archive list"):
        archive.find("nobody")


# -- the command -----------------------------------------------------------------


def test_the_archive_is_listed_and_restored(
    place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "transcripts"
    folder.mkdir()
    example = next((Path(__file__).parents[2] / "examples" / "claude-code").glob("*.jsonl"))
    (folder / example.name).write_bytes(example.read_bytes())
    assert main(["archive", "list"]) == 1
    assert main(["watch", "--once", "--folder", str(folder), "--no-index"]) == 0
    assert "new messages" in capsys.readouterr().out
    assert main(["watch", "--once", "--folder", str(folder)]) == 0
    assert "Nothing has changed" in capsys.readouterr().out
    assert main(["archive", "list", "--json"]) == 0
    (file,) = json.loads(capsys.readouterr().out)["files"]
    assert file["source"] == str(folder / example.name)
    assert main(["archive", "list"]) == 0
    assert main(["archive", "restore"]) == 1
    assert main(["archive", "restore", "1"]) == 1
    assert main(["archive", "restore", "all", "--to", str(tmp_path / "to")]) == 0
    assert (tmp_path / "to" / example.name).read_bytes() == example.read_bytes()
    with recollect.open(place) as library:
        library.delete_conversation(example.stem)
        assert library.archive.files() == []
    assert main(["watch", "--once", "--folder", str(tmp_path / "nowhere")]) == 1


@pytest.mark.parametrize("damage", [lambda data: data[:-9], lambda data: data[:12] + b"x" * 30])
def test_a_damaged_copy_is_named_and_the_others_are_restored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], damage: Callable[[bytes], bytes]
) -> None:
    sources = [tmp_path / "s1.jsonl", tmp_path / "s2.jsonl"]
    with recollect.open(tmp_path / "home", background=False) as library:
        for source in sources:
            source.write_bytes(line("walrus" * 20))
            library.archive.keep(source, f"t/{source.name}", [("t", source.stem)])
        damaged = library.archive.files()[0].path
    damaged.write_bytes(damage(damaged.read_bytes()))
    to = tmp_path / "to"
    home = ["--home", str(tmp_path / "home")]
    assert main(["archive", "restore", "all", "--to", str(to), *home]) == 1
    assert str(damaged) in capsys.readouterr().err.replace("\n", "")
    assert [path.name for path in to.iterdir()] == ["s2.jsonl"]
    assert main(["doctor", *home]) == 1
    assert str(damaged) in capsys.readouterr().out.replace("\n", "")
