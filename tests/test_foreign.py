"""Search in a foreign database: what matches, and that the file is never changed."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from recollect.errors import UnsafeFile
from recollect.search.foreign import ForeignDatabase


@pytest.mark.parametrize(
    ("query", "text", "expected"),
    [
        ("is art", "this start", False),
        ("is art", "art is long", True),
        ("art", "start", True),
        ("世界 你好", "你好世界", True),
        ("snake_case one", "one_snake_case", True),
        ("C#", "vitamin C", False),
        ("C++", "c++ code", True),
        ("—", "a — b", True),
        ("—", "a - b", False),
    ],
)
def test_a_text_matches_as_a_substring_or_by_whole_words(
    tmp_path: Path, query: str, text: str, expected: bool
) -> None:
    path = database(tmp_path, text=text)
    assert bool(ForeignDatabase(path).recent(query)) is expected


def database(folder: Path, journal: str = "delete", text: str = "an apple") -> Path:
    path = folder / "export.db"
    with closing(apsw.Connection(str(path))) as db:
        db.execute(f"pragma journal_mode = {journal}")
        db.execute("create table conversations (id, title)")
        db.execute("insert into conversations values ('c', 'Fruit')")
        db.execute("create table messages (conversation_id, role, content, create_time, position)")
        db.execute("insert into messages values ('c', 'user', ?, 1700000000.5, 0)", (text,))
    return path


@pytest.mark.parametrize("journal", ["delete", "wal"])
def test_a_search_does_not_change_the_file(tmp_path: Path, journal: str) -> None:
    path = database(tmp_path, journal)
    before = path.read_bytes(), path.stat().st_mtime_ns
    assert [match.content for match in ForeignDatabase(path).recent("apple")] == ["an apple"]
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="needs POSIX permissions")
@pytest.mark.parametrize("journal", ["delete", "wal"])
def test_a_database_in_a_read_only_folder_can_be_searched(
    tmp_path: Path, journal: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = database(tmp_path, journal)
    connection = apsw.Connection

    def refuse_shared_access(uri: str, **options: int) -> apsw.Connection:
        if journal == "wal" and "immutable" not in uri:
            raise apsw.CantOpenError("unable to open database file")
        return connection(uri, **options)

    monkeypatch.setattr("apsw.Connection", refuse_shared_access)
    assert [match.content for match in ForeignDatabase(path).recent(None)] == ["an apple"]


def test_a_write_ahead_log_beside_the_file_is_never_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = database(tmp_path, "wal")
    (tmp_path / "export.db-wal").write_bytes(b"unread")

    def refuse(uri: str, **_: int) -> None:
        raise apsw.CantOpenError(uri)

    monkeypatch.setattr("apsw.Connection", refuse)
    with pytest.raises(UnsafeFile, match=r"export\.db cannot be opened") as refusal:
        ForeignDatabase(path).recent(None)
    assert "immutable" not in str(refusal.value.__cause__)


def test_text_that_is_not_utf8_is_shown_with_replacements(tmp_path: Path) -> None:
    path = database(tmp_path)
    with closing(sqlite3.connect(path)) as db, db:
        content = "cast(x'6170706c65ff' as text)"
        db.execute(f"insert into messages values ('c', 'user', {content}, 1700000001, 1)")
    assert [match.content for match in ForeignDatabase(path).recent("apple")] == [
        "apple\ufffd",
        "an apple",
    ]
