"""Databases of AgentKit, AgentChatBus and tldw_server, as their programs create them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apsw
import pytest
from builders import DATABASES, MASK, Entry

import recollect
from recollect import Document, Filter, PersistenceApi

TIME = "2025-03-01T10:00:0{}+00:00"
AGENTKIT = """
create table conversations (id text primary key, title text not null, namespace text not null,
  session_id text unique not null, created_at timestamp, updated_at timestamp,
  message_count integer default 0, metadata text);
create table messages (id text primary key, conversation_id text not null, role text not null,
  content text not null, model text, tool_used text, attachments text, citations text,
  timestamp timestamp not null);
"""
AGENTCHATBUS = """
create table threads (id text primary key, topic text not null, status text not null,
  created_at text not null, updated_at text, closed_at text, summary text, metadata text,
  system_prompt text);
create table messages (id text primary key, thread_id text not null, author text not null,
  role text not null, content text not null, seq integer not null, created_at text not null,
  metadata text, author_id text, author_name text, reply_to_msg_id text, edited_at text);
create table human_only_messages (id text primary key, thread_id text not null,
  anchor_seq integer not null, anchor_order integer not null, priority text, author text not null,
  author_id text, author_name text, role text not null, content text not null, metadata text,
  created_at text not null, edited_at text);
"""
TLDW_COLUMNS = (
    "created_at datetime default '2025-03-01 10:00:00',"
    " last_modified datetime default '2025-03-02 10:00:00', deleted boolean default 0"
)
CHACHANOTES = f"""
create table character_cards (id integer primary key, name text, description text, first_message
  text, alternate_greetings text, tags text, image blob, extensions text, {TLDW_COLUMNS});
create table conversations (id text primary key, root_id text, character_id integer, title text,
  rating integer, {TLDW_COLUMNS});
create table messages (id text primary key, conversation_id text, parent_message_id text,
  sender text, content text, image_data blob, image_mime_type text,
  timestamp datetime, deleted boolean default 0);
create table notes (id text primary key, title text, content text, {TLDW_COLUMNS});
create table keywords (id integer primary key, keyword text, deleted boolean default 0);
create table note_keywords (note_id text, keyword_id integer);
"""
MEDIA = """
create table Media (id integer primary key, url text, title text, type text, content text,
  author text, ingestion_date datetime, is_trash boolean default 0, uuid text,
  last_modified datetime, deleted boolean default 0);
create table Keywords (id integer primary key, keyword text, deleted boolean default 0);
create table MediaKeywords (id integer primary key, media_id integer, keyword_id integer);
"""
PROMPTS = """
create table Prompts (id integer primary key, name text, author text, details text,
  system_prompt text, user_prompt text, uuid text, last_modified datetime,
  deleted boolean default 0);
create table PromptKeywordsTable (id integer primary key, keyword text, deleted boolean default 0);
create table PromptKeywordLinks (id integer primary key, prompt_id integer, keyword_id integer);
"""


def make(path: Path, schema: str, **tables: list[dict[str, Any]]) -> Path:
    database = apsw.Connection(str(path))
    database.execute(schema)
    for table, rows in tables.items():
        for row in rows:
            places = ", ".join("?" * len(row))
            database.execute(
                f"insert into {table} ({', '.join(row)}) values ({places})", tuple(row.values())
            )
    database.close()
    return path


def documents(library: recollect.Library) -> dict[str, Document]:
    return {d.title: library._store.document(d.id) for d in library._store.iter_documents(Filter())}


def says(id: str, conversation: str, role: str, content: str, second: int, **more: Any) -> Any:
    return {
        "id": id,
        "conversation_id": conversation,
        "role": role,
        "content": content,
        "timestamp": TIME.format(second),
        **more,
    }


@pytest.fixture
def agentkit(tmp_path: Path) -> Path:
    conversation = {
        "id": "c1",
        "title": "Trams",
        "namespace": "work",
        "session_id": "s1",
        "created_at": TIME.format(0),
        "updated_at": TIME.format(3),
        "metadata": '{"mood": "calm"}',
    }
    return make(
        tmp_path / "conversations.db",
        AGENTKIT,
        conversations=[conversation],
        messages=[
            says("m2", "c1", "assistant", "Line 4", 2, model="g", citations='[{"url": "u"}]'),
            says("m1", "c1", "user", "Which tram?", 1),
            says("m9", "gone", "user", "Of a deleted conversation", 1),
        ],
    )


def test_agentkit_is_imported_once_and_its_sessions_continue(
    library: recollect.Library, agentkit: Path
) -> None:
    receipt = library.import_path(agentkit)
    assert receipt.files[0].messages.new == 2
    document = library.conversation("c1")
    assert (document.title, document.project, document.metadata) == (
        "Trams",
        "work",
        {"mood": "calm"},
    )
    question, answer = document.passages
    assert (question.id, answer.parent, answer.model, answer.citations) == (
        "m1",
        "m1",
        "g",
        ({"url": "u"},),
    )
    conversation = PersistenceApi(library).get_conversation_by_session("s1")
    assert conversation is not None and conversation["id"] == "c1"
    assert not library.find_text("deleted conversation").messages
    again = library.import_path(agentkit)
    assert again.files[0].messages.same == 2
    library.undo_import(again.id)
    library.undo_import(receipt.id)
    assert library.conversation_page()[1] == 0


def test_messages_for_people_only_stay_so(library: recollect.Library, tmp_path: Path) -> None:
    marks = [
        '{"visibility": "human_only"}',
        '{"audience": "human"}',
        '{"visibility": "human_only"',  # damaged
        '{"priority": 1}',
    ]
    post = {"thread_id": "t1", "role": "user", "author": "a-1", "author_name": "Ann"}
    messages = [
        {**post, "id": f"m{n}", "seq": n, "content": f"Word{n}", "created_at": TIME.format(n)}
        | {"metadata": mark}
        for n, mark in enumerate(marks)
    ]
    aside = {**post, "id": "h", "content": "Aside", "created_at": TIME.format(9)}
    path = make(
        tmp_path / "bus.db",
        AGENTCHATBUS,
        threads=[{"id": "t1", "topic": "Plan", "status": "done", "created_at": TIME.format(0)}],
        messages=messages,
        human_only_messages=[{**aside, "anchor_seq": 1, "anchor_order": 0}],
    )
    library.import_path(path)
    thread = library.thread("Plan")
    assert (thread.id, thread.metadata) == ("t1", {"status": "done"})
    passages = library.conversation("t1").passages
    assert [(p.id, p.visibility) for p in passages] == [
        ("m0", "human_only"),
        ("m1", "human_only"),
        ("h", "human_only"),
        ("m2", "human_only"),
        ("m3", "all"),
    ]
    assert {p.author for p in passages} == {"Ann"}
    assert MASK not in passages[0].content


def test_tldw_chats_notes_and_characters_are_imported(
    library: recollect.Library, tmp_path: Path
) -> None:
    fields = {"conversation_id": "c1"}
    path = make(
        tmp_path / "ChaChaNotes.db",
        CHACHANOTES,
        character_cards=[
            {"id": 3, "name": "Ada", "description": "Dry.", "first_message": "Hello!"}
            | {"tags": '["math"]', "alternate_greetings": '["Hi!"]', "image": b"\x89PNG..."},
        ],
        conversations=[
            {"id": "c1", "root_id": "c1", "character_id": 3, "title": "Engines"},
            {"id": "c2", "root_id": "c2", "title": "Gone", "deleted": 1},
            {"id": "c3", "root_id": "c3", "title": "Gears"},
        ],
        messages=[
            {**fields, "id": "m1", "sender": "User", "content": "Hello", "timestamp": "2025-03-01"},
            {
                **fields,
                "id": "m2",
                "sender": "Ada",
                "content": "Good day",
                "timestamp": "2025-03-02",
            }
            | {"parent_message_id": "m1", "image_data": b"abc", "image_mime_type": "image/png"},
            {**fields, "id": "m3", "sender": "user", "content": "Secret", "timestamp": "2025-03-03"}
            | {"deleted": 1},
            {"conversation_id": "c3", "id": "m5", "sender": "user", "content": "Cogs?"}
            | {"timestamp": "2025-03-03"},
            {"conversation_id": "c2", "id": "m4", "sender": "user", "content": "Gone too"}
            | {"timestamp": "2025-03-03"},
        ],
        notes=[
            {"id": "n1", "title": "Loom", "content": "Warp and weft."},
            {"id": "n2", "title": "Old", "content": "Thrown away.", "deleted": 1},
        ],
        keywords=[{"id": 1, "keyword": "weaving"}],
        note_keywords=[{"note_id": "n1", "keyword_id": 1}],
    )
    receipt = library.import_path(path)
    assert receipt.files[0].conversations.skipped == {"deleted in the program": 2}
    assert receipt.files[0].messages.skipped == {"deleted in the program": 2}
    stored = documents(library)
    assert sorted(stored) == ["Ada", "Engines", "Gears", "Loom"]
    chat = stored["Engines"]
    assert [(p.role, p.author, p.content, p.parent) for p in chat.passages] == [
        ("user", None, "Hello", None),
        ("assistant", "Ada", "Good day", "m1"),
    ]
    assert chat.passages[1].attachments[0]["bytes"] == 3
    assert chat.metadata["character_id"] == 3
    assert (stored["Loom"].kind, stored["Loom"].metadata["tags"]) == ("note", ["weaving"])
    ada = stored["Ada"]
    assert (ada.kind, ada.source, ada.id) == ("character", "tldw", "character-3")
    assert {p.role: p.content for p in ada.passages}["alternate_greetings"] == "Hi!"
    assert ada.passages[0].attachments[0]["media_type"] == "image/png"
    again = library.import_path(path)
    assert (again.files[0].conversations.new, again.files[0].conversations.changed) == (0, 0)
    library.undo_import(again.id)
    library.undo_import(receipt.id)
    assert documents(library) == {}


def test_tldw_media_and_prompts_are_imported(library: recollect.Library, tmp_path: Path) -> None:
    item = {"type": "pdf", "ingestion_date": "2025-03-01", "last_modified": "2025-03-02"}
    media = make(
        tmp_path / "Media_DB_v2.db",
        MEDIA,
        Media=[
            {
                **item,
                "id": 1,
                "uuid": "u1",
                "title": "Looms",
                "content": "Warp.",
                "url": "http://x",
            },
            {**item, "id": 2, "uuid": "u2", "title": "Bin", "content": "No.", "is_trash": 1},
        ],
        Keywords=[{"id": 5, "keyword": "craft"}],
        MediaKeywords=[{"media_id": 1, "keyword_id": 5}],
    )
    prompts = make(
        tmp_path / "prompts.sqlite",
        PROMPTS,
        Prompts=[
            {
                "id": 1,
                "uuid": "p1",
                "name": "Review",
                "system_prompt": "You review.",
                "author": "Bo",
            }
            | {"system_prompt": "You review.", "user_prompt": "Review this."}
            | {"last_modified": "2025-03-02"},
        ],
        PromptKeywordsTable=[{"id": 7, "keyword": "code"}],
        PromptKeywordLinks=[{"prompt_id": 1, "keyword_id": 7}],
    )
    library.import_path(media, prompts)
    stored = documents(library)
    assert sorted(stored) == ["Looms", "Review"]
    looms = stored["Looms"]
    assert (looms.kind, looms.id, looms.passages[0].content) == ("media", "u1", "Warp.")
    assert looms.metadata == {"media_type": "pdf", "url": "http://x", "tags": ["craft"]}
    review = {p.role: p.content for p in stored["Review"].passages}
    assert (review["user_prompt"], review["keywords"]) == ("Review this.", "code")


def test_views_and_other_databases_are_not_claimed(tmp_path: Path) -> None:
    views = AGENTKIT.replace("create table messages", "create table hidden")
    views += "create view messages as select * from hidden;"
    for number, schema in enumerate((views, "create table conversations (id, title)")):
        path = make(tmp_path / f"{number}.db", schema)
        entry = Entry(path.name, path.stat().st_size, lambda: path.open("rb"), path)  # noqa: B023
        assert not any(database.claims(entry) for database in DATABASES[:5])
