"""Claude Code transcripts: authors, order, and skipped records."""

import base64
import io
import json

import pytest
from builders import (
    Entry,
    Problem,
    arrange,
    assert_sound,
    claimed_by,
    lines_entry,
    read_as,
    with_junk,
)
from hypothesis import given
from hypothesis import strategies as st

from recollect import Document, Passage

SESSION = "11111111-2222-4333-8444-555555555555"


# -- builders ----------------------------------------------------------------


def entry(*lines: object, name: str = f"{SESSION}.jsonl") -> Entry:
    return lines_entry(lines, name)


def record(type_: str, uuid: str, parent: str | None, **more: object) -> dict[str, object]:
    second = sum(map(ord, uuid)) % 60
    return {
        "type": type_,
        "uuid": uuid,
        "parentUuid": parent,
        "sessionId": SESSION,
        "cwd": "/home/me/kiln",
        "gitBranch": "glaze",
        "version": "2.1.0",
        "isSidechain": False,
        "timestamp": f"2026-03-01T10:00:{second:02}.000Z",
        **more,
    }


def user(uuid: str, parent: str | None, content: object, **more: object) -> dict[str, object]:
    return record("user", uuid, parent, message={"role": "user", "content": content}, **more)


def assistant(
    uuid: str, parent: str | None, *blocks: object, id: str = "", **more: object
) -> dict[str, object]:
    message = {
        "id": id or f"msg_{uuid}",
        "role": "assistant",
        "model": "claude-opus",
        "content": list(blocks),
    }
    return record("assistant", uuid, parent, message=message, **more)


def text(words: str) -> dict[str, object]:
    return {"type": "text", "text": words}


def call(id_: str, name: str = "Bash", **arguments: object) -> dict[str, object]:
    return {"type": "tool_use", "id": id_, "name": name, "input": arguments}


def result(id_: str, content: object = "done", **more: object) -> dict[str, object]:
    return {"type": "tool_result", "tool_use_id": id_, "content": content, **more}


def read(*lines: object, name: str = f"{SESSION}.jsonl") -> tuple[list[Document], list[Problem]]:
    items = list(read_as("claude_code", entry(*lines, name=name)))
    return [f for f in items if isinstance(f, Document)], [
        f for f in items if isinstance(f, Problem)
    ]


def only(*lines: object, name: str = f"{SESSION}.jsonl") -> Document:
    (document,), _ = read(*lines, name=name)
    return document


def passages(*lines: object) -> dict[str, Passage]:
    return {p.id: p for p in only(*lines).passages}


def path(document: Document) -> list[str]:
    return [p.id for p in arrange(document).canonical]


HELLO = user("u1", None, "Mix the celadon glaze\nwith ash")
REPLY = assistant("a1", "u1", text("Stirring it now."))


# -- detection ------------------------------------------------------------------


@pytest.mark.parametrize(
    "first",
    [
        HELLO,
        {"type": "summary", "summary": "Glazes", "leafUuid": "u1"},
        {"type": "file-history-snapshot", "messageId": "u1", "snapshot": {}},
        {"type": "queue-operation", "operation": "enqueue", "sessionId": SESSION, "content": "x"},
        {
            "type": "user",
            "sessionId": "s",
            "message": {"role": "user", "content": "old and without uuid"},
        },
    ],
)
def test_transcripts_are_detected_by_their_first_lines(first):
    assert claimed_by("claude_code", entry(first, name="anything.JSONL"))


def test_the_web_export_is_one_session_with_numbered_records():
    lines = [
        {"type": r["type"], "message": r["message"], "timestamp": r["timestamp"]}
        for r in (HELLO, REPLY)
    ]
    data = json.dumps({"loglines": lines}).encode()
    file = Entry("export.json", len(data), lambda: io.BytesIO(data))
    assert claimed_by("claude_code", file)
    (document,) = read_as("claude_code", file)
    assert isinstance(document, Document)
    assert document.source_id.startswith("export-")
    assert [p.id for p in document.passages] == [
        f"{document.source_id}:1",
        f"{document.source_id}:2",
    ]
    assert [p.content for p in document.passages] == [
        "Mix the celadon glaze\nwith ash",
        "Stirring it now.",
    ]


# -- the document --------------------------------------------------------------


def test_a_session_is_a_document_with_its_project_and_branch():
    document = only(HELLO, REPLY)
    assert (document.source, document.source_id, document.shared_ids) == (
        "claude-code",
        SESSION,
        True,
    )
    assert document.project == "/home/me/kiln"
    assert document.metadata == {"cwd": "/home/me/kiln", "gitBranch": "glaze", "version": "2.1.0"}
    assert document.title == "Mix the celadon glaze"
    assert document.created_at is not None and document.updated_at is not None
    assert document.created_at <= document.updated_at
    assert [(p.id, p.role, p.model) for p in document.passages] == [
        ("u1", "user", None),
        ("a1", "assistant", "claude-opus"),
    ]


def test_the_last_title_is_used():
    titles = [{"type": "ai-title", "aiTitle": t, "sessionId": SESSION} for t in ("First", "Last")]
    summary = {"type": "summary", "summary": "Summed up", "leafUuid": "a1"}
    foreign = {"type": "summary", "summary": "Of another file", "leafUuid": "elsewhere"}
    custom_title = {"type": "custom-title", "customTitle": "Mine", "sessionId": SESSION}
    assert only(foreign, HELLO, REPLY).title == "Mix the celadon glaze"
    assert only(summary, foreign, HELLO, REPLY).title == "Summed up"
    assert only(summary, titles[0], HELLO, REPLY, titles[1]).title == "Last"
    assert only(custom_title, HELLO, REPLY, titles[1]).title == "Mine"


# -- authors --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "role", "kind", "visibility"),
    [
        ("Fire it to cone 6", "user", "message", "all"),
        ("<command-name>/model</command-name>", "user", "context", "all"),
        ("<bash-input>ls kiln</bash-input>", "user", "context", "all"),
        ("<task-notification>done</task-notification>", "user", "context", "all"),
        (
            "<bash-stdout>shelf.txt</bash-stdout><bash-stderr></bash-stderr>",
            "tool",
            "tool_result",
            "all",
        ),
        ("<local-command-stdout>set</local-command-stdout>", "tool", "tool_result", "all"),
        ("<system-reminder>be brief</system-reminder>", "user", "context", "hidden"),
        ("Caveat: The messages below were made by a command.", "user", "context", "hidden"),
        ("[Request interrupted by user]", "user", "context", "hidden"),
    ],
)
def test_not_every_user_record_was_written_by_the_user(words, role, kind, visibility):
    for content in (words, [text(words)]):
        passage = passages(user("u1", None, content))["u1"]
        assert (passage.role, passage.type, passage.visibility) == (role, kind, visibility)
        assert passage.content == words


# -- messages, tools, files -----------------------------------------------------


def test_the_records_of_one_message_become_one_passage():
    messages = only(
        HELLO,
        assistant(
            "a1", "u1", {"type": "thinking", "thinking": "Ash fluxes.", "signature": "s"}, id="m"
        ),
        assistant("a2", "a1", text("First"), id="m"),
        assistant("a3", "a2", text("second"), id="m"),
        assistant("a4", "a3", call("t1", command="stir"), id="m"),
    ).passages
    assert [(p.id, p.type, p.content) for p in messages[1:]] == [
        ("a1", "thinking", "Ash fluxes."),
        ("a2", "message", "First\n\nsecond"),
        ("a4", "tool_call", "command: stir"),
    ]
    assert [p.parent for p in messages] == [None, "u1", "a1", "a2"]


def test_a_tool_call_is_readable_and_its_result_names_the_tool():
    edits = [{"old_string": "cone 6\nslow", "new_string": "cone 10"}]
    by_id = passages(
        HELLO,
        assistant(
            "a1", "u1", text("Editing"), call("t1", "MultiEdit", file_path="/kiln.txt", edits=edits)
        ),
        user(
            "r1",
            "a1",
            [result("t1", [text("Applied"), text("twice")], is_error=True)],
            toolUseResult={"x": "again"},
        ),
    )
    assert (
        by_id["a1:1"].content
        == "file_path: /kiln.txt\nedits:\nold_string:\ncone 6\nslow\nnew_string: cone 10"
    )
    assert (by_id["a1:1"].role, by_id["a1:1"].type, by_id["a1:1"].tool) == (
        "assistant",
        "tool_call",
        "MultiEdit",
    )
    answer = by_id["r1"]
    assert (answer.role, answer.type, answer.tool, answer.content) == (
        "tool",
        "tool_result",
        "MultiEdit",
        "Applied\ntwice",
    )
    assert answer.metadata == {"tool_use_id": "t1", "is_error": True}
    assert "again" not in str(by_id)


def test_embedded_files_are_described_but_not_stored():
    data = base64.b64encode(b"pixels" * 100).decode()
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}
    broken = {
        "type": "document",
        "source": {"type": "base64", "media_type": "application/pdf", "data": "abcde"},
    }
    by_id = passages(
        user("u1", None, [image, text("What is this?"), broken]), user("u2", "u1", [image])
    )
    picture, document = by_id["u1"].attachments
    assert (picture["type"], picture["media_type"], picture["bytes"]) == ("image", "image/png", 600)
    assert len(picture["sha256"]) == 64
    assert document == {"type": "document", "media_type": "application/pdf", "bytes": 3}
    assert (by_id["u1"].content, by_id["u2"].content) == ("What is this?", "")
    assert data not in str(by_id)


# -- the tree ------------------------------------------------------------------


def test_parallel_tool_calls_do_not_branch():
    document = only(
        HELLO,
        assistant("a1", "u1", call("t1"), id="m"),
        assistant("a2", "a1", call("t2"), id="m"),
        user("r1", "a1", [result("t1")]),
        user("r2", "a2", [result("t2")]),
        assistant("a3", "r2", text("Both are done.")),
    )
    assert path(document) == ["u1", "a1", "a2", "r1", "r2", "a3"]


def test_a_second_prompt_under_the_same_parent_is_a_branch():
    document = only(
        HELLO,
        REPLY,
        user("u2", "a1", "Use iron"),
        assistant("a2", "u2", text("Brown.")),
        record("progress", "p1", "a1", data={}),
        user("u3", "p1", "Use copper"),
        assistant("a3", "u3", text("Green.")),
    )
    assert path(document) == ["u1", "a1", "u3", "a3"]
    assert [p.id for p in arrange(document).passages] == ["u1", "a1", "u2", "a2", "u3", "a3"]


def test_compaction_does_not_split_the_session():
    document = only(
        HELLO,
        REPLY,
        record(
            "system",
            "b1",
            None,
            subtype="compact_boundary",
            logicalParentUuid="a1",
            content="Compacted",
        ),
        user("u2", "b1", "So far: ash glaze", isCompactSummary=True),
        user("u3", "u2", "Go on"),
    )
    assert path(document) == ["u1", "a1", "u2", "u3"]


def test_records_replayed_by_compaction_are_imported_once():
    documents, problems = read(
        HELLO,
        REPLY,
        user("u2", "a1", "Use iron"),
        assistant("a2", "u2", text("Brown.")),
        user("u2b", "a1", "Use iron", timestamp=user("u2", "a1", "")["timestamp"]),
        assistant("a2b", "u2b", text("Brown."), timestamp=assistant("a2", "u2")["timestamp"]),
        user("u3", "a2b", "And copper?"),
    )
    assert path(documents[0]) == ["u1", "a1", "u2", "a2", "u3"]
    assert [(p.reason, p.count) for p in problems] == [("record replayed by compaction", 2)]


def test_a_copy_of_a_record_in_another_session_has_the_same_id():
    resumed = [
        HELLO | {"sessionId": "s2"},
        REPLY | {"sessionId": "s2"},
        user("u2", "a1", "Again", sessionId="s2"),
    ]
    first, second = only(HELLO, REPLY), only(*resumed, name="s2.jsonl")
    assert first.source_id != second.source_id
    assert [p.id for p in second.passages][:2] == [p.id for p in first.passages]


# -- sub-agents ----------------------------------------------------------------


def test_inline_sub_agents_become_documents():
    side = {"isSidechain": True}
    documents, _ = read(
        HELLO,
        user("x1", None, "Look for feldspar", agentId="ab", **side),
        assistant("a1", "u1", text("Waiting")),
        assistant("x2", "x1", text("Found feldspar"), agentId="ab", **side),
        user("y1", None, "Look for kaolin", **side),
        assistant("y2", "y1", text("Found kaolin"), **side),
    )
    assert [d.source_id for d in documents] == [SESSION, f"{SESSION}:ab", f"{SESSION}:y1"]
    assert [path(d) for d in documents] == [["u1", "a1"], ["x1", "x2"], ["y1", "y2"]]
    assert documents[1].metadata["parent_session"] == SESSION
    assert documents[1].title == "Look for feldspar"
    assert {d.project for d in documents} == {"/home/me/kiln"}


# -- the queue -----------------------------------------------------------------


def queue_record(words: object) -> dict[str, object]:
    return {
        "type": "queue-operation",
        "operation": "enqueue",
        "sessionId": SESSION,
        "content": words,
        "timestamp": "2026-03-01T10:00:30Z",
    }


def test_a_prompt_that_is_only_in_the_queue_is_imported():
    attachment = record(
        "attachment", "q1", "a1", attachment={"type": "queued_command", "prompt": "Mind the lid"}
    )
    document = only(
        HELLO, REPLY, queue_record("Mind the lid"), attachment, assistant("a2", "q1", text("Yes"))
    )
    assert [(p.id, p.role, p.type) for p in document.passages][2] == ("q1", "user", "message")
    assert path(document) == ["u1", "a1", "q1", "a2"]


def test_a_queued_prompt_that_was_delivered_is_imported_once():
    document = only(HELLO, REPLY, queue_record("Mind the lid"), user("u2", "a1", "Mind the lid"))
    assert [p.id for p in document.passages] == ["u1", "a1", "u2"]


# -- skipped records ------------------------------------------------------------


def test_bad_lines_are_reported_and_the_rest_is_imported():
    document_lines = [HELLO, b"{broken", 5, {"type": "user", "uuid": "x"}, {"no": "type"}, REPLY]
    documents, problems = read(*document_lines)
    assert [p.id for p in documents[0].passages] == ["u1", "a1"]
    assert [p.where.split(":")[0] for p in problems if p.failed] == [
        "line 2",
        "line 3",
        "line 4",
        "line 5",
    ]


# -- properties ----------------------------------------------------------------

SIDE = {"isSidechain": True, "agentId": "ab"}
SESSION_LINES = [
    {"type": "summary", "summary": "Of another file", "leafUuid": "zz"},
    HELLO,
    assistant("a1", "u1", {"type": "thinking", "thinking": "Hm"}, id="m"),
    assistant("a2", "a1", text("Well"), call("t1", command=["ls", "-l"]), id="m"),
    user("x1", None, "Look", **SIDE),
    user(
        "r1",
        "a2",
        [result("t1", [text("x"), {"type": "image", "source": {"data": "AA=="}}])],
        toolUseResult={},
    ),
    record("progress", "p1", "a2", data={}),
    assistant("x2", "x1", text("Seen"), **SIDE),
    user(
        "u2",
        "r1",
        [text("First try"), {"type": "document", "source": {"type": "url", "url": "http://x"}}],
    ),
    user("u3", "r1", "Second try"),
    record("system", "b1", None, subtype="compact_boundary", logicalParentUuid="u3"),
    user("u4", "b1", "Summed up", isCompactSummary=True),
    record("attachment", "q1", "u4", attachment={"type": "queued_command", "prompt": "Quick"}),
    {"type": "ai-title", "aiTitle": "Glaze", "sessionId": SESSION},
]


def assert_sound_session(items: list[Document | Problem]) -> None:
    assert_sound(items)
    ids = [p.id for d in items if isinstance(d, Document) for p in d.passages]
    assert len(ids) == len(set(ids))


@given(st.data())
def test_no_record_stops_the_import(data):
    lines = with_junk(data, SESSION_LINES)
    items = list(read_as("claude_code", entry(*lines)))
    assert_sound_session(items)
    assert any(isinstance(f, Document) for f in items)


# -- samples -------------------------------------------------------------------
