"""What SQLite leaves in unused space when it moves rows, and its removal."""

from __future__ import annotations

import random
from contextlib import closing
from pathlib import Path

from recollect.store.sqlite.connection import connect
from recollect.store.sqlite.free_space import clear_free_space


def test_copies_of_rows_that_were_moved_are_cleared(tmp_path: Path) -> None:
    path = tmp_path / "some.db"
    numbers = list(range(5_000))
    random.Random(1).shuffle(numbers)
    with closing(connect(path)) as db:
        db.run("create table word (term text primary key, stem text) without rowid")
        db.execute("begin")
        db.run_many("insert into word values (?, ?)", [(f"word-{n:05}", "x" * 20) for n in numbers])
        db.execute("commit")
        deleted = [f"word-{n:05}" for n in numbers[::10]]
        db.run_many("delete from word where term = ?", [(term,) for term in deleted])
    assert words_in(path, deleted)
    clear_free_space(path)
    assert not words_in(path, deleted)
    with closing(connect(path)) as db:
        assert db.get("pragma integrity_check") == "ok"
        assert db.get("select count(*) from word") == 4_500


def words_in(path: Path, words: list[str]) -> list[str]:
    data = path.read_bytes()
    return [word for word in words if word.encode() in data]
