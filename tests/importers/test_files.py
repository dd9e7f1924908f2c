"""Single files, folders and zip archives; and archives that are rejected."""

from __future__ import annotations

import os
import struct
import zipfile
from pathlib import Path

import pytest
from builders import Entry, Problem, entries

from recollect.errors import UnsafeFile


def names(path: Path) -> list[str]:
    return [e.name for e in entries(path) if isinstance(e, Entry)]


def problems(path: Path) -> list[str]:
    return [e.reason for e in entries(path) if isinstance(e, Problem)]


def archive(path: Path, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in members.items():
            file.writestr(name, data)
    return path


def test_a_file_is_one_entry(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(b"\xef\xbb\xbf[1]")
    (entry,) = entries(tmp_path / "a.json")
    assert isinstance(entry, Entry)
    assert (entry.name, entry.size, entry.head(), entry.path) == (
        "a.json",
        6,
        b"[1]",
        tmp_path / "a.json",
    )


def test_a_zip_is_read_in_place(tmp_path: Path) -> None:
    path = archive(
        tmp_path / "export.zip", **{"sub/conversations.json": b"[]", "__MACOSX/._c": b"", "d/": b""}
    )
    (entry,) = entries(path)
    assert isinstance(entry, Entry)
    with entry.open() as file:
        assert file.read() == b"[]"
    assert (entry.name, entry.basename) == (
        "export.zip/sub/conversations.json",
        "conversations.json",
    )
    assert sorted(p.name for p in tmp_path.iterdir()) == ["export.zip"]


def test_links_and_special_files_in_a_folder_are_skipped(tmp_path: Path) -> None:
    (tmp_path / "outside.json").write_text("secret")
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "link.json").symlink_to(tmp_path / "outside.json")
    os.mkfifo(folder / "pipe.json")
    assert names(folder) == []


def test_a_pipe_is_rejected(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UnsafeFile, match="not a regular file"):
        list(entries(tmp_path / "pipe"))


def test_a_zip_bomb_is_rejected_by_its_ratio(tmp_path: Path) -> None:
    path = archive(tmp_path / "bomb.zip", **{"conversations.json": b"0" * 50_000_000})
    with pytest.raises(UnsafeFile, match="zip bomb"):
        list(entries(path))


def test_a_zip_with_overlapping_entries_is_rejected(tmp_path: Path) -> None:
    path = archive(tmp_path / "overlap.zip", **{"a": b"same data", "b": b"same data"})
    data = bytearray(path.read_bytes())
    second = data.rindex(b"PK\x01\x02")
    data[second + 42 : second + 46] = struct.pack("<L", 0)
    path.write_bytes(data)
    with pytest.raises(UnsafeFile, match="overlap"):
        list(entries(path))


def test_a_member_larger_than_it_declares_is_stopped(tmp_path: Path) -> None:
    path = archive(tmp_path / "liar.zip", **{"a.json": os.urandom(5_000)})
    data = bytearray(path.read_bytes())
    central = data.rindex(b"PK\x01\x02")
    data[central + 24 : central + 28] = struct.pack("<L", 100)
    path.write_bytes(data)
    (entry,) = entries(path)
    assert isinstance(entry, Entry)
    with pytest.raises(zipfile.BadZipFile), entry.open() as file:
        file.read()


def test_a_truncated_zip_is_rejected_with_a_clear_message(tmp_path: Path) -> None:
    path = archive(tmp_path / "cut.zip", **{"a.json": os.urandom(5_000)})
    path.write_bytes(path.read_bytes()[:3_000])
    with pytest.raises(UnsafeFile, match="not a readable zip"):
        list(entries(path))


def test_paths_that_leave_an_archive_write_nothing(tmp_path: Path) -> None:
    path = archive(tmp_path / "slip.zip", **{"../../PWNED.json": b"[]", "/PWNED.json": b"[]"})
    for entry in entries(path):
        assert isinstance(entry, Entry)
        with entry.open() as file:
            file.read()
    assert not list(tmp_path.rglob("PWNED*"))


def test_an_archive_inside_an_archive_is_reported_and_skipped(tmp_path: Path) -> None:
    inner = archive(tmp_path / "inner.zip", **{"a.json": b"[]"}).read_bytes()
    path = archive(tmp_path / "outer.zip", **{"inner.zip": inner, "b.json": b"[]"})
    assert names(path) == ["outer.zip/b.json"]
    assert problems(path) == ["archive inside an archive; unpack it first"]


# -- places and neighbours -------------------------------------------------


def make_files(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    return folder


def entries_by_name(path: Path, within: Path | None = None) -> dict[str, Entry]:
    return {e.name: e for e in entries(path, within) if isinstance(e, Entry)}


def test_the_place_of_a_file_does_not_depend_on_the_path_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_files(tmp_path / "vault", "sub/a.md")
    (tmp_path / "link").symlink_to(folder)
    monkeypatch.chdir(folder)
    ways = [
        folder,
        folder / "sub",
        folder / "sub/a.md",
        Path("sub"),
        Path(),
        tmp_path / "link",
        Path("sub/../sub/a.md"),
    ]
    assert {e.place for way in ways for e in entries_by_name(way).values()} == {
        str(folder / "sub/a.md")
    }


def test_places_may_be_relative_to_a_folder(tmp_path: Path) -> None:
    make_files(tmp_path / "job", "a.md", "sub/b.md")
    archive(tmp_path / "job/v.zip", **{"sub/a.md": b"x"})
    assert {e.place for e in entries_by_name(tmp_path / "job", tmp_path / "job").values()} == {
        "a.md",
        "sub/b.md",
        "v.zip!sub/a.md",
    }
    assert [e.place for e in entries_by_name(tmp_path / "job/sub", tmp_path / "job").values()] == [
        "sub/b.md"
    ]
    assert [e.place for e in entries_by_name(tmp_path / "job/a.md", tmp_path / "job").values()] == [
        "a.md"
    ]
    assert [
        e.place for e in entries_by_name(tmp_path / "job/v.zip", tmp_path / "job").values()
    ] == ["v.zip!sub/a.md"]


def test_neighbours_are_the_files_of_the_same_folder(tmp_path: Path) -> None:
    folder = make_files(tmp_path, "Talk.MP4", "talk.srt", ".DS_Store", "sub/other.srt")
    archive(tmp_path / "v.zip", **{"Talk.MP4": b"x", "talk.srt": b"y", "sub/other.srt": b"z"})
    beside = entries_by_name(folder)["Talk.MP4"].neighbours
    assert set(beside) == {"talk.mp4", "talk.srt", "v.zip"}
    assert beside["talk.srt"].place == entries_by_name(folder)["talk.srt"].place
    assert beside["talk.srt"].neighbours is beside
    inside = entries_by_name(tmp_path / "v.zip")["v.zip/Talk.MP4"].neighbours
    assert {name: e.place for name, e in inside.items()} == {
        "talk.mp4": f"{tmp_path}/v.zip!Talk.MP4",
        "talk.srt": f"{tmp_path}/v.zip!talk.srt",
    }
    with inside["talk.srt"].open() as file:
        assert file.read() == b"y"


def test_a_single_file_has_neighbours_unless_it_was_uploaded(
    tmp_path: Path,
) -> None:
    folder = make_files(tmp_path, "talk.mp4", "talk.srt")
    (entry,) = entries_by_name(folder / "talk.mp4").values()
    assert entry.neighbours["talk.srt"].place == str(folder / "talk.srt")
    (entry,) = entries_by_name(folder / "talk.mp4", folder).values()
    assert {name: e.place for name, e in entry.neighbours.items()} == {"talk.mp4": "talk.mp4"}


def test_private_folders_of_programs_are_skipped(tmp_path: Path) -> None:
    make_files(
        tmp_path,
        ".obsidian/a.json",
        ".trash/b.md",
        ".git/c",
        "notes/.obsidian/d.json",
        "notes/e.md",
    )
    archive(tmp_path / "v.zip", **{".obsidian/a.json": b"{}", "x/.trash/b.md": b"", "c.md": b""})
    assert names(tmp_path) == ["v.zip/c.md", "notes/e.md"]
