"""Search in a foreign database: the quick checks miss no match, and the file is never changed."""

from __future__ import annotations

import json
import os
import sqlite3
import sys
import unicodedata
from contextlib import closing
from pathlib import Path

import apsw
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from recollect.errors import UnsafeFile
from recollect.language.text import fold
from recollect.search.foreign import ForeignDatabase, Needle

# Letters with unusual case folding: one to many, many to one, composed, without case, and outside
# the Basic Multilingual Plane.
UNUSUAL = "aesßẞſkKﬁﬂﬆİıŉǰẖΣσςΐйЙеёÅÅ日本가각🎉𐐀𐐨_%\\\"\n'.x9 "
texts = st.text(st.sampled_from(UNUSUAL + unicodedata.normalize("NFD", UNUSUAL)), max_size=12)
queries = texts.map(str.strip).filter(bool)


@given(query=queries, before=texts, after=texts, as_json=st.booleans(), swap_case=st.booleans())
@example(query="strasse", before="", after="", as_json=True, swap_case=False)
def test_a_quick_check_never_rejects_a_text_that_matches(
    query: str, before: str, after: str, as_json: bool, swap_case: bool
) -> None:
    occurrence = query.swapcase() if swap_case else query
    text = before + occurrence + after
    needle = Needle(query)
    raw = json.dumps([text]) if as_json else text
    if needle.is_in(text) and raw.isascii():
        assert needle.may_be_in(raw.encode())


@pytest.mark.parametrize(
    "codes",
    [
        range(0x80, 0x20000),
        pytest.param(range(0x20000, sys.maxunicode + 1), marks=pytest.mark.full),
    ],
    ids=["most alphabets", "others"],
)
def test_a_quick_check_accepts_every_character_that_folds_to_ascii(codes: range) -> None:
    for code in codes:
        folded = "".join(c for c in fold(chr(code)) if c.isascii() and c.isalnum())
        if folded:
            text = f"a{chr(code)}z"
            raw = json.dumps([text])
            assert Needle(fold(text)).may_be_in(raw.encode()), hex(code)


def test_a_quick_check_rejects_a_text_that_cannot_match() -> None:
    raw = json.dumps(["Nothing of the kind: “quotes”, кириллица"]).encode()
    assert not Needle("docker").may_be_in(raw)
    assert not Needle("привет").may_be_in(raw)


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
    query: str, text: str, expected: bool
) -> None:
    needle = Needle(query)
    assert (needle.is_in(text) or needle.has_words_in(text)) is expected


def database(folder: Path, journal: str = "delete") -> Path:
    path = folder / "export.db"
    with closing(apsw.Connection(str(path))) as db:
        db.execute(f"pragma journal_mode = {journal}")
        db.execute("create table conversations (id, title)")
        db.execute("insert into conversations values ('c', 'Fruit')")
        db.execute("create table messages (conversation_id, role, content, create_time, position)")
        db.execute("insert into messages values ('c', 'user', 'an apple', 1700000000.5, 0)")
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
