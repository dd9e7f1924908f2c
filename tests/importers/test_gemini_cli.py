"""Gemini CLI: the append log, what it takes back and replaces, the older object, sub-agents and projects."""

import base64
import hashlib
import io
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import recollect
from recollect.importers.chats import gemini_cli
from recollect.importers.entries import Entry, entries
from recollect.importers.registry import detect
from recollect.language.query import ROLES
from recollect.model.documents import PASSAGE_TYPES, Document, Passage, arrange
from recollect.model.receipts import Problem

NAME = "session-2026-03-01T10-00-aaaaaaaa.jsonl"
SAMPLES = Path(__file__).parents[1] / "samples" / "gemini-cli" / "chats"


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


def said(id_: str, words: object, type_: str = "user", **more: object) -> dict[str, object]:
    return {"id": id_, "timestamp": "2026-03-01T10:00:01Z", "type": type_, "content": words, **more}


def document(*lines: object, name: str = NAME) -> Document:
    (found,) = [
        item for item in gemini_cli.read(entry(*lines, name=name)) if isinstance(item, Document)
    ]
    return arrange(found)


def words(passages: tuple[Passage, ...]) -> list[str]:
    return [p.content for p in passages]


def test_a_log_becomes_a_conversation() -> None:
    found = document(
        start(),
        said("m1", [{"text": "why is the loom slow"}]),
        said("m2", "because of the warp", "gemini", model="gemini-2.5-pro", tokens={"total": 9}),
        {"$set": {"lastUpdated": "2026-03-01T10:00:09Z"}},
    )
    assert (found.source, found.source_id, found.title) == (
        "gemini-cli",
        "s1",
        "why is the loom slow",
    )
    assert [(p.id, p.role, p.content, p.model) for p in found.passages] == [
        ("m1", "user", "why is the loom slow", None),
        ("m2", "assistant", "because of the warp", "gemini-2.5-pro"),
    ]
    assert found.passages[1].metadata["usage"] == {"total": 9}
    assert found.updated_at is not None and found.updated_at.second == 9
    assert found.project == "abc"


def test_a_later_line_of_the_same_id_replaces_the_message_where_it_was() -> None:
    found = document(
        start(),
        said("m1", "one"),
        said("m2", "half", "gemini"),
        said("m3", "three"),
        said("m2", "half of it and the rest", "gemini"),
    )
    assert words(found.passages) == ["one", "half of it and the rest", "three"]


def test_what_was_rewound_stays_as_a_branch() -> None:
    found = document(
        start(),
        said("m1", "one"),
        said("m2", "two"),
        said("m3", "three"),
        {"$rewindTo": "m2"},
        said("m4", "four"),
    )
    assert words(found.canonical) == ["one", "four"]
    assert {p.content: p.parent for p in found.passages} == {
        "one": None,
        "two": "m1",
        "three": "m2",
        "four": "m1",
    }


def test_rewinding_to_what_is_not_known_clears_all() -> None:
    found = document(
        start(),
        said("m1", "one"),
        said("m2", "two"),
        {"$rewindTo": "elsewhere"},
        said("m3", "three"),
    )
    assert words(found.canonical) == ["three"]
    assert sorted(words(found.passages)) == ["one", "three", "two"]


def test_a_session_that_ends_with_a_rewind_stands_where_it_went_back_to() -> None:
    found = document(start(), said("m1", "one"), said("m2", "two"), {"$rewindTo": "m2"})
    assert words(found.canonical) == ["one"]
    assert found.head == "m1"


def test_a_list_that_is_set_replaces_the_current_one_but_not_by_masked_results() -> None:
    found = document(
        start(),
        said("m1", "a long story of forty looms"),
        said("m2", "two"),
        {"$set": {"messages": [said("m1", "[masked]"), said("m9", "a summary", "gemini")]}},
        said("m3", "three"),
    )
    assert words(found.canonical) == ["a long story of forty looms", "a summary", "three"]
    assert "two" in words(found.passages)


def test_an_empty_list_changes_nothing() -> None:
    assert words(document(start(), said("m1", "one"), {"$set": {"messages": []}}).canonical) == [
        "one"
    ]


def test_tools_thoughts_and_files_are_parts_of_a_message() -> None:
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
    found = document(
        start(),
        said("m1", [{"text": "look"}, picture]),
        said(
            "m2",
            "done",
            "gemini",
            thoughts=[{"subject": "Plan", "description": "run it"}],
            toolCalls=[call],
        ),
        said("m3", [{"functionResponse": {"id": "c1", "response": {"output": "42 passed"}}}]),
        said("m4", "quota is low", "warning"),
    )
    assert [(p.id, p.role, p.type, p.content) for p in found.passages] == [
        ("m1", "user", "message", "look"),
        ("m2:thought:0", "assistant", "thinking", "Plan\nrun it"),
        ("m2", "assistant", "message", "done"),
        ("m2:c1", "assistant", "tool_call", "command:\nmake\ntest"),
        ("m2:c1:result", "tool", "tool_result", "42 passed"),
        ("m4", "system", "context", "quota is low"),
    ]
    assert found.passages[0].attachments[0]["bytes"] == 7
    assert found.passages[3].tool == "run_shell_command"


def test_the_older_object_is_read_alike() -> None:
    old = entry(
        start(messages=[said("m1", "one"), said("m2", "two", "gemini")]), name="session-x.json"
    )
    (found,) = [item for item in gemini_cli.read(old) if isinstance(item, Document)]
    assert words(found.passages) == ["one", "two"]
    assert detect(old) is gemini_cli


def test_summaries_are_titles() -> None:
    assert document(start(), said("m1", "one"), {"$set": {"summary": "Looms"}}).title == "Looms"


def test_a_half_written_line_is_left_out_until_it_is_whole() -> None:
    items = list(
        gemini_cli.read(entry(start(), said("m1", "one"), end='\n{"id": "m2", "type": "us'))
    )
    assert [words(i.passages) for i in items if isinstance(i, Document)] == [["one"]]
    assert [i.failed for i in items if isinstance(i, Problem)] == [False]


def test_broken_records_do_not_stop_the_rest() -> None:
    items = list(
        gemini_cli.read(
            entry(start(), 7, {"odd": 1}, said("m1", "one"), said("m2", None, "strange"))
        )
    )
    assert [words(i.passages) for i in items if isinstance(i, Document)] == [["one"]]
    assert {i.reason for i in items if isinstance(i, Problem)} == {
        "line without a record",
        "record of an unknown type",
        "message type strange",
    }


def test_a_session_without_messages_is_said_to_be_one() -> None:
    (problem,) = gemini_cli.read(entry(start()))
    assert isinstance(problem, Problem) and problem.reason == "session without messages"


# -- where they lie ------------------------------------------------------------


def lay(folder: Path, *lines: object, name: str = NAME) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / name
    file.write_bytes(entry(*lines).open().read())
    return file


def only(file: Path) -> Document:
    (found,) = [e for e in entries(file) if isinstance(e, Entry)]
    (read,) = [item for item in gemini_cli.read(found) if isinstance(item, Document)]
    return read


def test_projects_are_named_by_their_folders(tmp_path: Path) -> None:
    tmp = tmp_path / ".gemini" / "tmp"
    by_slug, hashed = (
        lay(tmp / "loom" / "chats", start(), said("m1", "one")),
        hashlib.sha256(b"/home/me/c").hexdigest(),
    )
    by_hash = lay(tmp / hashed / "chats", start(projectHash=hashed), said("m1", "one"))
    assert only(by_slug).project == "loom"
    projects = {"projects": {"/home/me/b": "loom", "/home/me/c": "other"}}
    (tmp_path / ".gemini" / "projects.json").write_text(json.dumps(projects))
    assert only(by_slug).project == "/home/me/b"
    assert only(by_hash).project == "/home/me/c"
    (tmp / "loom" / ".project_root").write_text("/home/me/a\n")
    assert only(by_slug).project == "/home/me/a"


def test_sub_agents_name_the_session_that_they_work_for(tmp_path: Path) -> None:
    file = lay(
        tmp_path / "tmp/loom/chats/s1",
        start(sessionId="agent-7", kind="subagent"),
        said("m1", "find looms"),
        name="agent-7.jsonl",
    )
    found = only(file)
    assert (found.source_id, found.metadata["parent_session"], found.project) == (
        "agent-7",
        "s1",
        "loom",
    )


def test_a_resumed_session_in_both_shapes_is_one_conversation(
    tmp_path: Path, library: recollect.Library
) -> None:
    chats = tmp_path / "tmp/loom/chats"
    lay(chats, start(messages=[said("m1", "one")]), name="session-a.json")
    lay(
        chats,
        start(lastUpdated="2026-03-01T11:00:00Z"),
        said("m1", "one"),
        said("m2", "two", "gemini"),
        name="session-a.jsonl",
    )
    library.import_path(chats)
    library.import_path(chats / "session-a.json")
    assert words(library.conversation("s1").passages) == ["one", "two"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "session-2026-01-02T10-00-6e410000.json",
            ["How much salt for a kilo of flour?", "Twenty grams."],
        ),
        (
            "session-2026-05-06T11-00-6e410000.jsonl",
            [
                "Why does my sourdough not rise?",
                "The kitchen is too cold; find a place at 24 degrees.",
            ],
        ),
    ],
)
def test_samples_are_read(name: str, expected: list[str]) -> None:
    (file,) = [e for e in entries(SAMPLES / name) if isinstance(e, Entry)]
    assert detect(file) is gemini_cli
    (document,) = [item for item in gemini_cli.read(file) if isinstance(item, Document)]
    messages = [p.content for p in arrange(document).canonical if p.type == "message"]
    assert messages == expected


# -- anything ------------------------------------------------------------------

NAMES = st.sampled_from(["a", "b", "c", "d"])
RECORDS = st.one_of(
    st.builds(
        said,
        NAMES,
        st.text(min_size=1, max_size=20),
        st.sampled_from(["user", "gemini", "info", "odd"]),
    ),
    st.builds(lambda to: {"$rewindTo": to}, NAMES),
    st.builds(
        lambda ids: {"$set": {"messages": [said(i, f"set {i} " * 99) for i in ids]}},
        st.lists(NAMES, unique=True),
    ),
    st.recursive(
        st.none() | st.integers() | st.text(),
        lambda inner: st.dictionaries(st.text(), inner),
        max_leaves=5,
    ),
)


@given(st.lists(RECORDS, max_size=25))
def test_any_log_gives_a_tree_whose_way_is_what_the_cli_shows(log: list[object]) -> None:
    shown: dict[str, object] = {}
    for record in log:
        if isinstance(record, dict) and "$rewindTo" in record:
            ids = list(shown)
            keep = ids[: ids.index(record["$rewindTo"])] if record["$rewindTo"] in shown else []
            shown = {i: shown[i] for i in keep}
        elif isinstance(record, dict) and isinstance(record.get("id"), str) and "type" in record:
            shown[record["id"]] = record["type"]
        elif (
            isinstance(record, dict)
            and isinstance(record.get("$set"), dict)
            and record["$set"].get("messages")
        ):
            shown = {m["id"]: "user" for m in record["$set"]["messages"]}
    found = [arrange(i) for i in gemini_cli.read(entry(start(), *log)) if isinstance(i, Document)]
    for document_ in found:
        assert len({p.id for p in document_.passages}) == len(document_.passages)
        assert all(p.role in ROLES and p.type in PASSAGE_TYPES for p in document_.passages)
        linked = any(
            p.parent for p in document_.passages
        )  # where nothing is, all of it is one conversation
        if linked and any(type_ != "odd" for type_ in shown.values()):
            known = {p.id for p in document_.passages}
            assert [p.id for p in document_.canonical] == [i for i in shown if i in known]
