"""Exports: the formats of the Persistence API, and JSON that is restored without loss."""

import io
import json
import os
import threading
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import recollect
from recollect import Document, Passage
from recollect.errors import InvalidInput
from recollect.importers.chats import own
from recollect.importers.entries import Entry
from recollect.language.queries.query_tokens import ROLES
from recollect.model.documents import PASSAGE_TYPES, VISIBILITIES, arrange
from recollect.transfer.export import as_json, as_markdown, as_text, write_json

HELLO = Passage(
    "msg-uuid", "user", "Hello", created_at=datetime(2025, 10, 9, 19, 37, 47, 783681, UTC)
)
ANSWER = Passage(
    "msg-uuid-2",
    "assistant",
    "Hi there!",
    model="gemini-2.0-flash-001",
    tool="idle",
    parent="msg-uuid",
    created_at=datetime(2025, 10, 9, 19, 37, 48, 123456, UTC),
)
CONVERSATION = arrange(
    Document(
        "recollect",
        "uuid",
        "My Conversation",
        created_at=HELLO.created_at,
        updated_at=HELLO.created_at,
        passages=(HELLO, ANSWER),
        metadata={"session_id": "session-uuid"},
        id="uuid",
    )
)


# -- formats of the Persistence API --------------------------------------------


def test_text_has_the_exact_format_of_the_persistence_api():
    assert as_text(CONVERSATION) == (
        "Conversation: My Conversation\n"
        "Created: 2025-10-09T19:37:47.783681+00:00\n"
        "Namespace: default\n"
        "==================================================\n"
        "\n"
        "USER: Hello\n"
        "\n"
        "ASSISTANT: Hi there!\n"
        "  (Model: gemini-2.0-flash-001)\n"
    )


def test_markdown_has_the_exact_format_of_the_persistence_api():
    assert as_markdown(CONVERSATION) == (
        "# My Conversation\n"
        "\n"
        "**Created:** 2025-10-09T19:37:47.783681+00:00\n"
        "**Namespace:** default\n"
        "**Messages:** 2\n"
        "\n"
        "---\n"
        "\n"
        "### 👤 User\n"
        "\n"
        "Hello\n"
        "\n"
        "### 🤖 Assistant\n"
        "*Model: gemini-2.0-flash-001*\n"
        "\n"
        "Hi there!\n"
    )


def test_json_has_every_key_of_the_persistence_api():
    exported = as_json(CONVERSATION)
    first, second = exported.pop("messages")
    assert exported == {
        "id": "uuid",
        "session_id": "session-uuid",
        "title": "My Conversation",
        "namespace": "default",
        "created_at": "2025-10-09T19:37:47.783681+00:00",
        "updated_at": "2025-10-09T19:37:47.783681+00:00",
        "message_count": 2,
        "metadata": {"session_id": "session-uuid"},
        "source": "recollect",
        "source_id": "uuid",
        "head": "msg-uuid-2",
    }
    assert first == {
        "id": "msg-uuid",
        "conversation_id": "uuid",
        "role": "user",
        "content": "Hello",
        "model": None,
        "tool_used": None,
        "attachments": [],
        "citations": [],
        "timestamp": "2025-10-09T19:37:47.783681+00:00",
        "parent_id": None,
    }
    assert (second["model"], second["tool_used"], second["parent_id"]) == (
        "gemini-2.0-flash-001",
        "idle",
        "msg-uuid",
    )


def test_unknown_times_are_null_in_json_and_unknown_in_text():
    timeless = replace(CONVERSATION, created_at=None, updated_at=None)
    assert as_json(timeless)["created_at"] is None
    assert "Created: unknown\n" in as_text(timeless)
    assert "**Created:** unknown\n" in as_markdown(timeless)


# -- for people ------------------------------------------------------------------


def test_text_and_markdown_contain_the_canonical_path_without_hidden_messages_and_thinking():
    passages = (
        Passage("system", "system", "Be brief.", visibility="hidden"),
        Passage("question", "user", "Why?", parent="system"),
        Passage("abandoned", "assistant", "No idea.", parent="question"),
        Passage("thought", "assistant", "Let me look.", parent="question", type="thinking"),
        Passage("call", "assistant", "look()", parent="thought", type="tool_call"),
        Passage("result", "tool", "found it", parent="call", type="tool_result"),
        Passage("answer", "assistant", "Because.", parent="result"),
    )
    branched = arrange(Document("test", "1", "Why", passages=passages, head="answer"))
    text = as_text(branched)
    assert text.endswith(
        "USER: Why?\n\nASSISTANT: look()\n\nTOOL: found it\n\nASSISTANT: Because.\n"
    )
    assert "**Messages:** 4\n" in as_markdown(branched)
    for exported in (text, as_markdown(branched)):
        for text in ("Be brief", "No idea", "Let me look"):
            assert text not in exported
    assert len(as_json(branched)["messages"]) == 7


# -- round trip ------------------------------------------------------------------


def export_text(documents: list[Document]) -> str:
    file = io.StringIO()
    write_json(documents, file)
    return file.getvalue()


def read_back(text: str) -> list[Document]:
    data = text.encode("ascii")
    entry = Entry("export.json", len(data), lambda: io.BytesIO(data))
    assert own.claims(entry)
    return [arrange(document) for document in own.read(entry)]


def test_numbers_that_json_cannot_write_become_null():
    odd = replace(CONVERSATION, metadata={"scores": [1.5, float("nan"), {"deep": float("-inf")}]})
    exported = json.loads(export_text([odd]), parse_constant=lambda name: 1 / 0)
    metadata = exported["conversations"][0]["metadata"]
    assert metadata == {"scores": [1.5, None, {"deep": None}]}


# Any text. JSON cannot distinguish a surrogate pair from its character, hence the round trip.
texts = st.text(st.characters(), max_size=30).map(lambda text: json.loads(json.dumps(text)))
names = texts.filter(bool)
times = st.none() | st.datetimes(timezones=st.just(UTC))
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
mappings = st.dictionaries(texts, values, max_size=3)


@st.composite
def passages(draw: st.DrawFn) -> tuple[Passage, ...]:
    ids = draw(st.lists(names, unique=True, max_size=6))
    parents = st.none() | names | (st.sampled_from(ids) if ids else st.nothing())
    return tuple(
        Passage(
            id=identity,
            role=draw(st.none() | st.sampled_from(ROLES)),
            content=draw(texts),
            type=draw(st.sampled_from(PASSAGE_TYPES)),
            author=draw(st.none() | texts),
            model=draw(st.none() | texts),
            tool=draw(st.none() | texts),
            parent=draw(parents),
            created_at=draw(times),
            updated_at=draw(times),
            visibility=draw(st.sampled_from(VISIBILITIES)),
            attachments=tuple(draw(st.lists(values, max_size=2))),
            citations=tuple(draw(st.lists(values, max_size=2))),
            metadata=draw(mappings),
        )
        for identity in ids
    )


@st.composite
def documents(draw: st.DrawFn) -> Document:
    messages = draw(passages())
    heads = st.none() | (st.sampled_from([p.id for p in messages]) if messages else st.nothing())
    return Document(
        source=draw(names),
        source_id=draw(names),
        title=draw(texts),
        kind=draw(st.sampled_from(["conversation", "note"])),
        project=draw(names),
        created_at=draw(times),
        updated_at=draw(times),
        head=draw(heads),
        passages=messages,
        metadata=draw(mappings | st.builds(lambda session: {"session_id": session}, texts)),
        id=draw(names),
        partial=draw(st.booleans()),
        shared_ids=draw(st.booleans()),
    )


@given(st.lists(documents().map(arrange), max_size=3))
def test_every_document_is_restored_exactly(originals):
    assert read_back(export_text(originals)) == originals


def test_a_pipe_or_device_is_written_and_not_replaced(
    library: recollect.Library, run: Any, tmp_path: Path
) -> None:
    library.add_conversation("c1", messages=[{"role": "user", "content": "hello"}])
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    texts: list[str] = []
    reader = threading.Thread(target=lambda: texts.append(pipe.read_text()))
    reader.start()
    run("export", "--output", str(pipe))
    reader.join()
    assert pipe.is_fifo()
    assert "hello" in texts[0]


@pytest.mark.parametrize("name", ["missing/export.json", "folder", "file/export.json"])
def test_a_path_that_cannot_be_written_is_an_error(
    library: recollect.Library, tmp_path: Path, name: str
) -> None:
    downloads = tmp_path / "downloads"
    (downloads / "folder").mkdir(parents=True)
    (downloads / "file").write_text("mine")
    library.add_conversation(messages=[{"role": "user", "content": "hello"}])
    with pytest.raises(InvalidInput, match="cannot be written"):
        library.export(downloads / name)
    assert sorted(path.name for path in downloads.rglob("*")) == ["file", "folder"]


def test_markdown_names_a_model_only_under_assistants() -> None:
    passages = [Passage(f"m{n}", role, "x", model="m-1") for n, role in enumerate(("user", "tool"))]
    document = Document("chatgpt", "c1", "Title", passages=tuple(passages))
    assert "Model:" not in as_markdown(document)
