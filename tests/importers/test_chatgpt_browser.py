"""ChatGPT Browser databases: both schemas, all column formats, and malicious files."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apsw
import pytest
from builders import (
    DATABASES,
    Entry,
    Problem,
    arrange,
    decode_content,
    documents,
    only,
    passage,
    problems,
)

import recollect
from recollect import Document

CONVERSATIONS = (
    "create table conversations"
    " (id text primary key, create_time text, update_time text, title text)"
)
WORKING = (
    CONVERSATIONS,
    "create table messages (id text primary key, conversation_id text, role text, content text,"
    " create_time text, update_time text, parent_id text)",
    "create table message_metadata (message_id text primary key, message_type text,"
    " model_slug text, citations text, content_references text, finish_details text,"
    " is_complete integer, request_id text, timestamp_ text,"
    " message_source text, serialization_metadata text)",
    "create table message_children"
    " (parent_id text, child_id text, primary key (parent_id, child_id))",
)
CANONICAL = (
    CONVERSATIONS,
    "create table messages (id text primary key, conversation_id text not null, role text,"
    " content text, create_time text, update_time text, position integer not null)",
    "create index idx_canonical_messages_conversation on messages (conversation_id)",
)
THIN = (
    "create table conversations (id text, title text)",
    "create table messages (id text, conversation_id text, role text, content text,"
    " create_time real, position integer)",
)


BROWSER = [database for database in DATABASES if "Browser" in database.DESCRIPTION]


def make(path: Path, schema: tuple[str, ...], **tables: list[tuple[Any, ...]]) -> Entry:
    database = apsw.Connection(str(path))
    for statement in schema:
        database.execute(statement)
    for table, rows in tables.items():
        for row in rows:
            database.execute(f"insert into {table} values ({', '.join('?' * len(row))})", row)
    database.close()
    return on_disk(path)


def claims(entry: Entry) -> bool:
    return any(database.claims(entry) for database in BROWSER)


def read(entry: Entry) -> Iterator[Document | Problem]:
    database = next((d for d in BROWSER if d.claims(entry)), BROWSER[0])
    return database.read(entry)


def on_disk(path: Path) -> Entry:
    def never_opened() -> io.BytesIO:
        raise AssertionError("a database must not be opened except by SQLite")

    return Entry(path.name, path.stat().st_size, never_opened, path)


def working(path: Path) -> Entry:
    return make(
        path,
        WORKING,
        conversations=[("c", "1700000000.5", "1700000100", "Bread")],
        messages=[
            ("sys", "c", "system", '[""]', None, None, "gone"),
            ("ask", "c", "user", '["How?"]', "1700000001.0", None, "sys"),
            ("first", "c", "assistant", '["With yeast."]', "1700000003.0", None, "ask"),
            ("again", "c", "assistant", '["With caf\\u00e9."]', "1700000002.0", None, "ask"),
        ],
        message_metadata=[
            (
                "first",
                None,
                "gpt-4",
                '[{"start_ix": 1}]',
                '[{"type": "web"}]',
                '{"type": "stop"}',
                1,
                "r",
                None,
                None,
                None,
            )
        ],
    )


# -- columns ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ('["one"]', "one"),
        ('["one", "", null, "two"]', "one\ntwo"),
        ('["caf\\u00e9 \\n line"]', "café \n line"),
        ("[]", ""),
        ('[""]', ""),
        ("[null]", ""),
        ('[{"content_type": "audio_transcription", "text": "spoken"}]', "spoken"),
        ('[{"type": "text", "text": "typed"}]', "typed"),
        ('[{"content_type": "image_asset_pointer", "asset_pointer": "file-service://1"}]', ""),
        ("plain text", "plain text"),
        ("[not json", "[not json"),
        ("[1, 2, 3]", "[1, 2, 3]"),
        ('[{"any": "thing"}]', '[{"any": "thing"}]'),
        ('{"parts": ["x"]}', '{"parts": ["x"]}'),
        ("[" * 100_000, "[" * 100_000),
        ("", ""),
        (None, ""),
    ],
)
def test_content_is_a_list_of_parts_or_plain_text(raw: str | None, text: str) -> None:
    assert decode_content(raw) == text


# -- databases -------------------------------------------------------------


def test_a_working_database_is_a_tree(tmp_path: Path) -> None:
    file = working(tmp_path / "chatgpt.db")
    assert claims(file)
    items = list(read(file))
    document = arrange(only(items))
    assert (document.source, document.source_id, document.title) == ("chatgpt", "c", "Bread")
    assert document.partial
    assert document.created_at == datetime(2023, 11, 14, 22, 13, 20, 500000, tzinfo=UTC)
    assert {p.id: p.parent for p in document.passages} == {
        "ask": None,
        "again": "ask",
        "first": "ask",
    }
    assert [p.id for p in document.canonical] == ["ask", "first"]
    assert problems(items) == [Problem("empty message", where="Bread")]


def test_the_metadata_of_a_working_database_is_used(tmp_path: Path) -> None:
    first = passage(only(read(working(tmp_path / "chatgpt.db"))), "first")
    assert first.model == "gpt-4"
    assert first.citations == ({"start_ix": 1}, {"type": "web"})
    assert first.metadata == {
        "finish_details": '{"type": "stop"}',
        "is_complete": 1,
        "request_id": "r",
    }


@pytest.mark.parametrize("start", [0, 1])
@pytest.mark.parametrize("schema", [CANONICAL, THIN], ids=["canonical", "thin"])
def test_a_canonical_database_is_a_chain(
    tmp_path: Path, schema: tuple[str, ...], start: int
) -> None:
    thin = schema is THIN
    rows: list[tuple[Any, ...]] = [
        ("b", "c", "assistant", "Plainly." if thin else '["Plainly."]', 1700000002.0, start + 2),
        ("x", "c", "tool", "[]", None, start + 1),
        ("a", "c", "user", "So?" if thin else '["So?"]', 1700000001.0, start),
    ]
    if not thin:
        rows = [(*row[:5], None, row[5]) for row in rows]
    about: tuple[Any, ...] = ("c", "Talk") if thin else ("c", "", None, "Talk")
    file = make(
        tmp_path / "canonical-export-2026-01-01.db", schema, conversations=[about], messages=rows
    )
    assert claims(file)
    document = arrange(only(read(file)))
    assert [(p.id, p.parent, p.role, p.content) for p in document.canonical] == [
        ("a", None, "user", "So?"),
        ("b", "a", "assistant", "Plainly."),
    ]


def test_conversations_are_read_in_turn_and_empty_ones_are_counted(tmp_path: Path) -> None:
    conversations = [(f"c{n}", None, None, f"Talk {n}") for n in range(4)]
    messages = [(f"m{n}", f"c{n % 2}", "user", f"turn {n}", str(n), None, n) for n in range(10)]
    file = make(tmp_path / "x.db", CANONICAL, conversations=conversations, messages=messages)
    items = list(read(file))
    assert [(d.source_id, len(d.passages)) for d in documents(items)] == [("c0", 5), ("c1", 5)]
    assert problems(items) == [
        Problem("conversation without messages", "x.db", unit="conversations", count=2)
    ]


def test_text_that_is_not_utf_8_is_imported(tmp_path: Path) -> None:
    file = make(tmp_path / "x.db", CANONICAL, messages=[("a", "c", "user", "tea", None, None, 1)])
    database = apsw.Connection(str(tmp_path / "x.db"))
    database.execute(
        "insert into messages values ('b', 'c', 'user', cast(x'636166ff' as text), null, null, 2)"
    )
    database.close()
    assert [p.content for p in only(read(file)).passages] == ["tea", "caf\ufffd"]


# -- malicious files -------------------------------------------------------


def test_the_file_is_not_changed_whatever_its_name(tmp_path: Path) -> None:
    folder = tmp_path / "a #1? 100% ü"
    folder.mkdir()
    file = working(folder / "chat gpt?mode=rw&x#.db")
    assert file.path is not None
    before = file.path.read_bytes()
    assert claims(file)
    assert documents(read(file))
    assert file.path.read_bytes() == before
    assert [p.name for p in folder.iterdir()] == [file.path.name]


def test_a_write_ahead_log_in_a_read_only_folder_is_read(tmp_path: Path) -> None:
    file = working(tmp_path / "x.db")
    database = apsw.Connection(str(tmp_path / "x.db"))
    database.pragma("journal_mode", "wal")
    database.close()
    tmp_path.chmod(0o500)
    try:
        assert claims(file)
        assert documents(read(file))
    finally:
        tmp_path.chmod(0o700)


def test_a_damaged_database_is_read_as_far_as_possible(tmp_path: Path) -> None:
    rows = [(f"m{n:04}", f"c{n:04}", "user", "words " * 200, None, None, 1) for n in range(500)]
    file = make(tmp_path / "x.db", CANONICAL, messages=rows)
    data = bytearray((tmp_path / "x.db").read_bytes())
    data[len(data) // 2 : len(data) // 2 + 20_000] = b"\xff" * 20_000
    (tmp_path / "x.db").write_bytes(data)
    items = list(read(file))
    assert all(isinstance(item, (Document, Problem)) for item in items)
    assert any(problem.failed for problem in problems(items))


def test_a_database_in_an_archive_must_be_unpacked_first(tmp_path: Path) -> None:
    working(tmp_path / "x.db")
    data = (tmp_path / "x.db").read_bytes()
    packed = Entry("export.zip/x.db", len(data), lambda: io.BytesIO(data))
    assert claims(packed)
    (problem,) = read(packed)
    assert isinstance(problem, Problem)
    assert problem.failed
    assert "unpack" in problem.reason
    assert not claims(Entry("export.zip/y.db", 3, lambda: io.BytesIO(b"abc")))


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        (f"{WORKING[1]} without rowid", "the table 'messages' was created WITHOUT ROWID"),
        (
            "create view messages as select 1 as id, 2 as conversation_id",
            "'messages' is a view, and only tables are read",
        ),
    ],
)
def test_a_database_of_another_structure_is_named(
    tmp_path: Path, statement: str, reason: str
) -> None:
    entry = make(tmp_path / "browser.db", (CONVERSATIONS, statement))
    assert claims(entry)
    (problem,) = read(entry)
    assert isinstance(problem, Problem)
    assert problem.failed and problem.where == f"browser.db: {reason}"


@pytest.mark.full
def test_a_large_database_without_an_index_is_imported(
    library: recollect.Library, tmp_path: Path
) -> None:
    path = tmp_path / "browser.db"
    make(path, WORKING)
    database = apsw.Connection(str(path))
    rows = ((f"m{n}", f"c{n % 500}", json.dumps([f"{n} " + "word " * 200])) for n in range(70_000))
    with database:
        sql = "insert into messages (id, conversation_id, role, content) values (?, ?, 'user', ?)"
        database.executemany(sql, rows)
    database.close()
    assert path.stat().st_size > 60_000_000
    receipt = library.import_path(path)
    assert receipt.files[0].messages.new == 70_000
