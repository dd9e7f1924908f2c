"""Codex: rollouts with forks and rollbacks."""

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

THREAD = "0199a000-0000-7000-8000-00000000000a"
FORK = "0199a000-0000-7000-8000-00000000000b"
TURNS = [f"0199a000-0000-7000-8000-0000000001{n:02}" for n in range(10)]
NAME = f"rollout-2026-03-01T10-00-00-{THREAD}.jsonl"


# -- builders ------------------------------------------------------------------


def entry(*lines: object, name: str = NAME) -> Entry:
    return lines_entry(lines, name)


def line(type_: str, at: str = "2026-03-01T10:00:00.000Z", **payload: object) -> dict[str, object]:
    return {"timestamp": at, "type": type_, "payload": payload}


def meta(id_: str = THREAD, **more: object) -> dict[str, object]:
    return line(
        "session_meta", id=id_, timestamp="2026-03-01T09:59:59Z", cwd="/home/me/loom", **more
    )


def item(type_: str, **more: object) -> dict[str, object]:
    return line("response_item", **{"type": type_, **more})


def event(type_: str, **more: object) -> dict[str, object]:
    return line("event_msg", **{"type": type_, **more})


def message(role: str, *texts: str, **more: object) -> dict[str, object]:
    kind = "output_text" if role == "assistant" else "input_text"
    return item("message", role=role, content=[{"type": kind, "text": t} for t in texts], **more)


def ask(words: str) -> dict[str, object]:
    return message("user", words)


def answer(words: str) -> dict[str, object]:
    return message("assistant", words)


def read(*lines: object, name: str = NAME) -> tuple[list[Document], list[Problem]]:
    items = list(read_as("codex", entry(*lines, name=name)))
    return [f for f in items if isinstance(f, Document)], [
        f for f in items if isinstance(f, Problem)
    ]


def only(*lines: object, name: str = NAME) -> Document:
    (document,), _ = read(*lines, name=name)
    return document


def passages(*lines: object) -> tuple[Passage, ...]:
    return only(meta(), *lines).passages


def visible_parts(*lines: object) -> list[tuple[str | None, str, str, str]]:
    return [(p.role, p.type, p.visibility, p.content) for p in passages(*lines)]


def path(document: Document) -> list[str]:
    return [p.content for p in arrange(document).canonical]


# -- detection ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "first"),
    [
        (NAME, meta()),
        ("renamed.jsonl", ask("hello")),
        ("old.jsonl", {"id": "x", "timestamp": "2025-05-01T00:00:00Z", "instructions": None}),
        ("rollout-old.jsonl", {"type": "message", "role": "user", "content": []}),
        ("long.jsonl", meta(base_instructions={"text": "weave " * 20_000})),
    ],
)
def test_files_of_codex_are_detected_by_their_first_lines(name, first):
    assert claimed_by("codex", entry(first, name=name))


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("session_index.jsonl", {"id": "x", "thread_name": "Loom", "updated_at": "2026-03-01"}),
        ("notes.txt", meta()),
        ("claude.jsonl", {"type": "user", "sessionId": "s", "uuid": "u", "message": {}}),
        ("chat.jsonl", {"type": "message", "role": "user", "content": "x"}),
        ("manifest.json", {"families": {"payload": "response_item"}}),
        ("empty.jsonl", b""),
    ],
)
def test_other_files_are_not_claimed(name, line):
    assert not claimed_by("codex", entry(line, name=name))


# -- the document --------------------------------------------------------------


def test_a_thread_is_a_document_with_its_project_and_git():
    git = {"branch": "main", "commit_hash": "abc"}
    context = line("turn_context", model="gpt-x", cwd="/home/me/loom")
    document = only(
        meta(git=git, session_id="other", cli_version="1"),
        context,
        ask("Warp the loom\nnow"),
        answer("Ok"),
    )
    assert (document.source, document.source_id, document.shared_ids) == ("codex", THREAD, True)
    assert (document.project, document.title) == ("/home/me/loom", "Warp the loom")
    assert document.metadata["git"] == git
    assert document.created_at is not None
    assert document.created_at.isoformat() == "2026-03-01T09:59:59+00:00"
    assert [p.model for p in document.passages] == [None, "gpt-x"]


# -- authors --------------------------------------------------------------------


def test_events_that_repeat_items_are_skipped():
    assert visible_parts(
        event("user_message", message="Warp"),
        ask("Warp"),
        event("agent_reasoning", text="Hm"),
        item("reasoning", summary=[{"type": "summary_text", "text": "Hm"}]),
        event("agent_message", message="Weft"),
        answer("Weft"),
    ) == [
        ("user", "message", "all", "Warp"),
        ("assistant", "thinking", "all", "Hm"),
        ("assistant", "message", "all", "Weft"),
    ]


def test_old_files_with_only_events_are_read():
    assert visible_parts(
        event("user_message", message="<environment_context>x</environment_context>"),
        event("user_message", message="Warp"),
        event("agent_reasoning", text="Hm"),
        event("agent_message", message="Weft"),
    ) == [
        ("user", "context", "hidden", "<environment_context>x</environment_context>"),
        ("user", "message", "all", "Warp"),
        ("assistant", "thinking", "all", "Hm"),
        ("assistant", "message", "all", "Weft"),
    ]


@pytest.mark.parametrize(
    ("role", "words", "expected"),
    [
        ("user", "<environment_context>\n<cwd>/x</cwd>", ("user", "context", "hidden")),
        ("user", "<user_instructions>be kind", ("user", "context", "hidden")),
        (
            "user",
            "# AGENTS.md instructions for /x\n\n<INSTRUCTIONS>",
            ("user", "context", "hidden"),
        ),
        ("user", "<user_shell_command><command>ls</command>", ("user", "context", "all")),
        ("developer", "Sandboxed", ("system", "context", "hidden")),
        ("system", "Rules", ("system", "context", "hidden")),
        ("user", "A real question", ("user", "message", "all")),
    ],
)
def test_not_every_user_message_was_written_by_the_user(role, words, expected):
    (passage,) = passages(message(role, words))
    assert (passage.role, passage.type, passage.visibility) == expected
    assert passage.content == words


def test_a_compaction_is_a_summary_and_its_history_is_not_repeated():
    document = only(
        meta(),
        ask("Warp"),
        line("compacted", message="So far: warp", replacement_history=[ask("Warp")]),
    )
    assert [(p.type, p.role, p.content) for p in document.passages] == [
        ("message", "user", "Warp"),
        ("summary", "system", "So far: warp"),
    ]


# -- tools ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "tool", "content"),
    [
        (
            item(
                "function_call",
                name="shell",
                arguments='{"cmd":["bash","-lc","ls"],"workdir":"/x"}',
                call_id="c",
            ),
            "shell",
            "cmd: bash -lc ls\nworkdir: /x",
        ),
        (item("function_call", name="f", arguments="{broken", call_id="c"), "f", "{broken"),
        (
            item("custom_tool_call", name="apply_patch", input="*** Begin", call_id="c"),
            "apply_patch",
            "*** Begin",
        ),
        (
            item("local_shell_call", call_id="c", action={"type": "exec", "command": ["ls", "-l"]}),
            "local_shell",
            "type: exec\ncommand: ls -l",
        ),
        (
            item(
                "web_search_call", status="completed", action={"type": "search", "query": "indigo"}
            ),
            "web_search",
            "type: search\nquery: indigo",
        ),
    ],
)
def test_tool_calls_are_readable(call, tool, content):
    (message,) = passages(call)
    assert (message.role, message.type, message.tool, message.content) == (
        "assistant",
        "tool_call",
        tool,
        content,
    )


@pytest.mark.parametrize(
    ("output", "content"),
    [
        ("Exit code: 0\nOutput:\nspun", "Exit code: 0\nOutput:\nspun"),
        ('{"output":"spun\\nyarn","metadata":{"exit_code":0}}', "spun\nyarn"),
        ('{"output":"spun","metadata":{"seconds":1e999,"exit_code":NaN}}', "spun"),
        ('{"output":"spun"', '{"output":"spun"'),
        ('{"output":"spun","other":"words"}', '{"output":"spun","other":"words"}'),
        (
            [{"type": "input_text", "text": "spun"}, {"type": "input_text", "text": "yarn"}],
            "spun\nyarn",
        ),
        ({"content": "spun", "success": True}, "spun"),
        (None, "null"),
    ],
)
def test_the_output_of_a_tool_has_several_shapes(output, content):
    _, message = passages(
        item("function_call", name="spin", arguments="{}", call_id="c"),
        item("function_call_output", call_id="c", output=output),
    )
    assert (message.role, message.type, message.tool, message.content) == (
        "tool",
        "tool_result",
        "spin",
        content,
    )
    assert message.metadata["call_id"] == "c"
    json.dumps(message.metadata, allow_nan=False)


# -- rollbacks -----------------------------------------------------------------


def test_rolled_back_turns_become_a_branch():
    document = only(
        meta(),
        ask("1"),
        answer("one"),
        ask("2"),
        answer("two"),
        ask("3"),
        answer("three"),
        event("thread_rolled_back", num_turns=2),
        ask("2b"),
        answer("two b"),
    )
    assert path(document) == ["1", "one", "2b", "two b"]
    assert [p.content for p in document.passages] == [
        "1",
        "one",
        "2",
        "two",
        "3",
        "three",
        "2b",
        "two b",
    ]


# -- ids and forks -------------------------------------------------------------


def fork_of(*copied: object, own: tuple[object, ...] = (), **more: object) -> Document:
    """Copy lines as Codex does: with new times, and with ids if they had none."""
    later = [x | {"timestamp": "2026-03-02T00:00:00Z"} for x in copied if isinstance(x, dict)]
    for x in later:
        if x["type"] == "response_item":
            x["payload"] = x["payload"] | {"id": "filled-in"}
    return only(meta(FORK, **more), *later, *own)


def ids(document: Document) -> list[str]:
    return [p.id for p in document.passages]


@pytest.mark.parametrize("started", [[], [event("task_started", turn_id=TURNS[0])]])
def test_the_copied_start_of_a_fork_has_its_parents_ids(started):
    opening = [*started, message("developer", "Rules"), ask("Warp"), answer("Ok"), answer("Ok")]
    parent = only(meta(), *opening, ask("Parent goes on"), answer("Ok"))
    for more in ({"forked_from_id": THREAD}, {}):
        fork = fork_of(meta(), *opening, own=(ask("Fork goes on"), answer("Ok")), **more)
        assert fork.source_id == FORK
        assert ids(fork)[:4] == ids(parent)[:4]
        if not started:
            assert set(ids(fork)[4:]).isdisjoint(ids(parent))


# -- other files ----------------------------------------------------------------


def test_flat_lines_of_the_first_versions_are_read():
    (document,), problems = read(
        {
            "id": THREAD,
            "timestamp": "2025-05-01T00:00:00Z",
            "instructions": "Be kind",
            "git": {"branch": "b"},
        },
        {"record_type": "state"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Warp"}]},
        {"type": "ghost_snapshot", "ghost_commit": {}},
        {"type": "reasoning", "summary": [{"text": "Hm"}]},
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "Weft"}],
        },
        name="rollout-x.jsonl",
    )
    assert (document.source_id, path(document)) == (THREAD, ["Warp", "Hm", "Weft"])
    assert document.metadata["git"] == {"branch": "b"}
    assert problems == []


def test_bad_lines_are_reported_and_the_rest_is_imported():
    documents, problems = read(
        meta(), ask("Warp"), b"{broken", 5, line("response_item") | {"payload": 1}, answer("Weft")
    )
    assert path(documents[0]) == ["Warp", "Weft"]
    assert [p.where.split(":")[0] for p in problems if p.failed] == ["line 3", "line 4", "line 5"]


# -- properties ----------------------------------------------------------------

ROLLOUT = [
    meta(source={"subagent": {"thread_spawn": {"parent_thread_id": FORK}}}, git={"branch": "b"}),
    line("turn_context", model="gpt-x", cwd="/home/me/loom"),
    message("developer", "Rules"),
    message("user", "<environment_context><cwd>/x</cwd>", "Warp"),
    event("user_message", message="Warp", images=["data:image/png;base64,AAAA"]),
    item("reasoning", summary=[{"text": "Hm"}], encrypted_content="x"),
    item("function_call", name="shell", arguments='{"command":["ls"]}', call_id="c"),
    item(
        "function_call_output",
        call_id="c",
        output=[{"type": "input_text", "text": "yarn"}, {"type": "input_image"}],
    ),
    answer("Ok"),
    event("task_started", turn_id=TURNS[0]),
    ask("Again"),
    answer("Ok"),
    event("thread_rolled_back", num_turns=1),
    ask("Rather not"),
    line("compacted", message="So far"),
    item("web_search_call", action={"query": "indigo"}),
    {"type": "message", "role": "assistant", "content": "flat"},
]
EXEC = [
    {"type": "thread.started", "thread_id": THREAD},
    {"type": "item.started", "item": {"id": "i0", "type": "command_execution", "command": "ls"}},
    {
        "type": "item.completed",
        "item": {"id": "i0", "type": "command_execution", "aggregated_output": "x"},
    },
    {"type": "item.completed", "item": {"id": "i1", "type": "agent_message", "text": "Woven"}},
    {"type": "error", "message": "Torn"},
]
HISTORY = [
    {"session_id": "a", "ts": 1, "text": "Warp"},
    {"session_id": "a", "ts": 1, "text": "Warp"},
]


@pytest.mark.parametrize("whole", [ROLLOUT, EXEC, HISTORY], ids=["rollout", "exec", "history"])
@given(data=st.data())
def test_no_record_stops_the_import(whole, data):
    lines = with_junk(data, whole)
    assert_sound(list(read_as("codex", entry(*lines))))


@pytest.mark.parametrize("whole", [ROLLOUT, EXEC, HISTORY], ids=["rollout", "exec", "history"])
@given(data=st.data())
def test_a_file_that_grows_keeps_its_ids(whole, data):
    length = data.draw(st.integers(1, len(whole)))
    before, _ = read(*whole[:length])
    after, _ = read(*whole)
    for document in before:
        assert ids(after[0])[: len(document.passages)] == ids(document)


# -- samples -------------------------------------------------------------------
