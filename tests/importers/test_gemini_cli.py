"""Gemini CLI: the log with its rewinds and replacements, the older format, sub-agents, projects."""

import base64
import hashlib
import io
import json
from pathlib import Path

from builders import (
    FORMATS,
    Entry,
    arrange,
    detect,
    entries,
    read_as,
)

from recollect import Document, Passage

NAME = "session-2026-03-01T10-00-aaaaaaaa.jsonl"


def entry(*lines: object, name: str = NAME, end: str = "\n") -> Entry:
    data = ("\n".join(json.dumps(line) for line in lines) + end).encode()
    return Entry(name, len(data), lambda: io.BytesIO(data))


def start(**more: object) -> dict[str, object]:
    return {
        "sessionId": "s1",
        "projectHash": "abc",
        "startTime": "2026-03-01T10:00:00Z",
        "lastUpdated": "2026-03-01T10:00:00Z",
        "kind": "main",
        **more,
    }


def message_line(id_: str, words: object, type_: str = "user", **more: object) -> dict[str, object]:
    return {"id": id_, "timestamp": "2026-03-01T10:00:01Z", "type": type_, "content": words, **more}


def document(*lines: object, name: str = NAME) -> Document:
    (conversation,) = [
        item
        for item in read_as("gemini_cli", entry(*lines, name=name))
        if isinstance(item, Document)
    ]
    return arrange(conversation)


def words(passages: tuple[Passage, ...]) -> list[str]:
    return [p.content for p in passages]


def test_a_log_becomes_a_conversation() -> None:
    conversation = document(
        start(),
        message_line("m1", [{"text": "why is the loom slow"}]),
        message_line(
            "m2", "because of the warp", "gemini", model="gemini-2.5-pro", tokens={"total": 9}
        ),
        {"$set": {"lastUpdated": "2026-03-01T10:00:09Z"}},
    )
    assert (conversation.source, conversation.source_id, conversation.title) == (
        "gemini-cli",
        "s1",
        "why is the loom slow",
    )
    assert [(p.id, p.role, p.content, p.model) for p in conversation.passages] == [
        ("m1", "user", "why is the loom slow", None),
        ("m2", "assistant", "because of the warp", "gemini-2.5-pro"),
    ]
    assert conversation.passages[1].metadata["usage"] == {"total": 9}
    assert conversation.updated_at is not None and conversation.updated_at.second == 9
    assert conversation.project == "abc"


def test_rewound_messages_stay_as_a_branch() -> None:
    conversation = document(
        start(),
        message_line("m1", "one"),
        message_line("m2", "two"),
        message_line("m3", "three"),
        {"$rewindTo": "m2"},
        message_line("m4", "four"),
    )
    assert words(conversation.canonical) == ["one", "four"]
    assert {p.content: p.parent for p in conversation.passages} == {
        "one": None,
        "two": "m1",
        "three": "m2",
        "four": "m1",
    }


def test_a_new_list_replaces_the_current_one_but_not_longer_versions() -> None:
    conversation = document(
        start(),
        message_line("m1", "a long story of forty looms"),
        message_line("m2", "two"),
        {
            "$set": {
                "messages": [
                    message_line("m1", "[masked]"),
                    message_line("m9", "a summary", "gemini"),
                ]
            }
        },
        message_line("m3", "three"),
    )
    assert words(conversation.canonical) == ["a long story of forty looms", "a summary", "three"]
    assert "two" in words(conversation.passages)


def test_thoughts_tool_calls_and_files_are_parts_of_a_message() -> None:
    call = {
        "id": "c1",
        "name": "run_shell_command",
        "args": {"command": "make\ntest"},
        "status": "success",
        "result": [{"functionResponse": {"id": "c1", "response": {"output": "42 passed"}}}],
    }
    picture = {
        "inlineData": {"mimeType": "image/png", "data": base64.b64encode(b"picture").decode()}
    }
    conversation = document(
        start(),
        message_line("m1", [{"text": "look"}, picture]),
        message_line(
            "m2",
            "done",
            "gemini",
            thoughts=[{"subject": "Plan", "description": "run it"}],
            toolCalls=[call],
        ),
        message_line(
            "m3", [{"functionResponse": {"id": "c1", "response": {"output": "42 passed"}}}]
        ),
        message_line("m4", "quota is low", "warning"),
    )
    assert [(p.id, p.role, p.type, p.content) for p in conversation.passages] == [
        ("m1", "user", "message", "look"),
        ("m2:thought:0", "assistant", "thinking", "Plan\nrun it"),
        ("m2", "assistant", "message", "done"),
        ("m2:c1", "assistant", "tool_call", "command:\nmake\ntest"),
        ("m2:c1:result", "tool", "tool_result", "42 passed"),
        ("m4", "system", "context", "quota is low"),
    ]
    assert conversation.passages[0].attachments[0]["bytes"] == 7
    assert conversation.passages[3].tool == "run_shell_command"


def test_the_older_format_gives_the_same_conversation() -> None:
    old = entry(
        start(messages=[message_line("m1", "one"), message_line("m2", "two", "gemini")]),
        name="session-x.json",
    )
    (conversation,) = [item for item in read_as("gemini_cli", old) if isinstance(item, Document)]
    assert words(conversation.passages) == ["one", "two"]
    assert detect(old) is FORMATS["gemini_cli"]


# -- projects ------------------------------------------------------------------


def lay(folder: Path, *lines: object, name: str = NAME) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / name
    file.write_bytes(entry(*lines).open().read())
    return file


def only(file: Path) -> Document:
    (conversation,) = [e for e in entries(file) if isinstance(e, Entry)]
    (read,) = [item for item in read_as("gemini_cli", conversation) if isinstance(item, Document)]
    return read


def test_the_project_is_its_folder(tmp_path: Path) -> None:
    tmp = tmp_path / ".gemini" / "tmp"
    by_slug, hashed = (
        lay(tmp / "loom" / "chats", start(), message_line("m1", "one")),
        hashlib.sha256(b"/home/me/c").hexdigest(),
    )
    by_hash = lay(tmp / hashed / "chats", start(projectHash=hashed), message_line("m1", "one"))
    assert only(by_slug).project == "loom"
    projects = {"projects": {"/home/me/b": "loom", "/home/me/c": "other"}}
    (tmp_path / ".gemini" / "projects.json").write_text(json.dumps(projects))
    assert only(by_slug).project == "/home/me/b"
    assert only(by_hash).project == "/home/me/c"
    (tmp / "loom" / ".project_root").write_text("/home/me/a\n")
    assert only(by_slug).project == "/home/me/a"


def test_sub_agents_name_their_parent_session(tmp_path: Path) -> None:
    file = lay(
        tmp_path / "tmp/loom/chats/s1",
        start(sessionId="agent-7", kind="subagent"),
        message_line("m1", "find looms"),
        name="agent-7.jsonl",
    )
    conversation = only(file)
    assert (
        conversation.source_id,
        conversation.metadata["parent_session"],
        conversation.project,
    ) == (
        "agent-7",
        "s1",
        "loom",
    )


# -- properties ----------------------------------------------------------------
