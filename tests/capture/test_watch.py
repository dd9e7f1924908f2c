"""Watching transcripts: files that grow, shrink, appear and disappear, and excluded ones."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import recollect
from recollect import SearchOptions
from recollect.capture import watch
from recollect.capture.watch import Event, Folder, Watcher
from recollect.importers.sandbox.process import POOL

SESSION = "0a4c0000-0000-4000-8000-00000000000a"


def uuid(number: int) -> str:
    return f"0a4c0000-0000-4000-8000-{number:012}"


def turn(
    number: int, words: str, *, session: str = SESSION, cwd: str = "/nowhere/loom", **more: object
) -> str:
    role = "user" if number % 2 else "assistant"
    record = {
        "type": role,
        "uuid": uuid(number),
        "parentUuid": uuid(number - 1) if number > 1 else None,
        "sessionId": session,
        "cwd": cwd,
        "timestamp": f"2026-03-01T10:{number:02}:00.000Z",
        "message": {"role": role, "content": words},
        **more,
    }
    return json.dumps(record) + "\n"


class Workspace:
    """A folder of transcripts and a watcher that follows it."""

    def __init__(self, folder: Path, library: recollect.Library) -> None:
        self.root = folder
        self.file = folder / "-nowhere-loom" / f"{SESSION}.jsonl"
        self.file.parent.mkdir(parents=True)
        self.events: list[Event] = []
        self.library = library
        self.now = 0.0
        self.watcher = self.another()

    def another(self) -> Watcher:
        folder = Folder("claude-code", self.root, self.root)
        return Watcher(self.library, [folder], self.events.append, clock=lambda: self.now)

    def write(self, *turns: str, file: Path | None = None, append: bool = False) -> None:
        with (file or self.file).open("a" if append else "w") as stream:
            stream.write("".join(turns))
        self.notify(file or self.file)

    def append(self, *turns: str) -> None:
        self.write(*turns, append=True)

    def notify(self, *paths: Path) -> None:
        self.now += 100
        self.watcher.follow([paths])

    def kinds(self) -> list[str]:
        return [event.kind for event in self.events]

    def words(self, id_: str = SESSION) -> list[str]:
        return [p.content for p in self.library.conversation(id_).passages]


@pytest.fixture(autouse=True)
def shared_process(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One process parses the files of all tests, because starting one takes 0.2 s."""
    take, folder = POOL.take, tmp_path_factory.getbasetemp().resolve()
    monkeypatch.setattr(POOL, "take", lambda _, bounds: take([folder], bounds))


@pytest.fixture
def workspace(tmp_path: Path, library: recollect.Library) -> Workspace:
    return Workspace(tmp_path / "projects", library)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "me"))
    (tmp_path / "me").mkdir()
    return tmp_path / "me"


# -- changes -----------------------------------------------------------------


def test_appended_turns_are_imported(workspace: Workspace) -> None:
    workspace.write(turn(1, "walrus"))
    workspace.append(turn(2, "penguin"))
    assert workspace.words() == ["walrus", "penguin"]
    assert [(e.kind, e.conversations, e.messages) for e in workspace.events] == [
        ("taken", 1, 1),
        ("taken", 0, 1),
    ]
    assert workspace.library.receipts() == []


def test_messages_removed_from_a_file_stay_in_the_library(workspace: Workspace) -> None:
    workspace.write(turn(1, "walrus"), turn(2, "penguin"), turn(3, "seal"))
    workspace.write(turn(1, "walrus"))
    assert workspace.words() == ["walrus", "penguin", "seal"]
    workspace.append(turn(2, "penguin"), turn(3, "seal"), turn(4, "otter"))
    assert workspace.words() == ["walrus", "penguin", "seal", "otter"]


def test_files_of_sub_agents_are_imported(workspace: Workspace) -> None:
    agent = workspace.file.parent / SESSION / "subagents" / "agent-7.jsonl"
    agent.parent.mkdir(parents=True)
    workspace.write(turn(1, "walrus"))
    workspace.write(turn(51, "look for seals", isSidechain=True, agentId="7"), file=agent)
    assert workspace.words(f"{SESSION}:7") == ["look for seals"]


def test_one_bad_file_does_not_affect_the_others(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = workspace.file.with_name("other.jsonl")
    other.write_text(turn(31, "seal", session="other"))
    workspace.file.write_text(turn(1, "walrus"))
    (workspace.root / "link.jsonl").symlink_to("/etc/passwd")
    (workspace.root / "empty.jsonl").write_text("")
    (workspace.root / "odd.jsonl").write_bytes(b"\x00\xff" * 50)
    import_file = workspace.library.import_file

    def fail_for_other(path: Path, *arguments: object) -> object:
        if path == other:
            raise OSError("Input/output error")
        return import_file(path, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(workspace.library, "import_file", fail_for_other)
    workspace.watcher.follow([None])
    assert workspace.words() == ["walrus"]
    assert sorted(workspace.kinds()) == ["failed", "taken"]
    monkeypatch.setattr(workspace.library, "import_file", import_file)
    workspace.notify()
    assert workspace.words("other") == ["seal"]


# -- starting ----------------------------------------------------------------


def test_a_new_watcher_reads_only_changed_files(workspace: Workspace) -> None:
    other = workspace.file.with_name("other.jsonl")
    workspace.write(turn(1, "walrus"))
    workspace.write(turn(31, "seal", session="other"), file=other)
    with workspace.file.open("a") as file:
        file.write(turn(2, "penguin"))
    watcher = workspace.another()
    watcher.once()
    assert (watcher.read, workspace.words()) == (1, ["walrus", "penguin"])


# -- deleted and excluded conversations ----------------------------------------


def test_a_deleted_conversation_is_not_imported_again_until_a_user_imports_it(
    workspace: Workspace, tmp_path: Path
) -> None:
    workspace.write(turn(1, "walrus"))
    (archived,) = workspace.library.archive.files()
    workspace.library.delete_conversation(SESSION)
    assert not archived.path.exists()
    workspace.append(turn(2, "penguin"))
    assert workspace.library.search("walrus").total == 0
    assert workspace.kinds() == ["taken", "deleted"]
    assert workspace.library.archive.files() == []
    workspace.library.import_path(workspace.file)
    workspace.append(turn(3, "seal"))
    assert workspace.words() == ["walrus", "penguin", "seal"]
    assert len(workspace.library.archive.files()) == 1


def test_a_session_with_a_marker_is_excluded_with_its_sub_agents(workspace: Workspace) -> None:
    agent = workspace.file.with_name("agent-7.jsonl")
    workspace.file.write_text(turn(1, "DO NOT INDEX THIS CHAT, please"))
    agent.write_text(turn(51, "look for seals", isSidechain=True, agentId="7"))
    os.utime(agent, (1, 1))
    workspace.watcher.follow([None])
    assert workspace.library.conversation_page()[1] == 0
    assert workspace.kinds() == ["excluded", "excluded"]
    assert workspace.library.archive.files() == []
    with agent.open("a") as file:
        file.write(turn(52, "found one", isSidechain=True, agentId="7"))
    workspace.another().once()
    assert workspace.library.conversation_page()[1] == 0


def test_private_spans_are_neither_stored_nor_archived(
    workspace: Workspace, tmp_path: Path
) -> None:
    workspace.write(turn(1, "my <private>walrus</private> seal"))
    assert workspace.words() == ["my [private] seal"]
    (archived,) = workspace.library.archive.files()
    (copy,) = workspace.library.archive.restore(archived, tmp_path / "restored")
    assert json.loads(copy.read_text())["message"]["content"] == "my [private] seal"


# -- the tools -----------------------------------------------------------------


def test_every_tool_is_followed(home: Path, library: recollect.Library) -> None:
    claude = home / ".claude/projects/-nowhere" / f"{SESSION}.jsonl"
    codex = home / ".codex/sessions/2026/03/01" / f"rollout-2026-03-01T10-00-00-{uuid(7)}.jsonl"
    gemini = home / ".gemini/tmp/loom/chats/session-2026-03-01T10-00-aaaaaaaa.jsonl"
    other = home / ".gemini/tmp/loom/logs.json"
    message = {
        "type": "message",
        "role": "user",
        "content": [{"type": "input_text", "text": "penguin"}],
    }
    lines = {
        claude: turn(1, "walrus"),
        codex: json.dumps({"type": "session_meta", "payload": {"id": uuid(7)}})
        + "\n"
        + json.dumps({"type": "response_item", "payload": message})
        + "\n",
        gemini: '{"sessionId": "g", "projectHash": "h", "startTime": "2026-03-01T10:00:00Z"}\n'
        '{"id": "m1", "type": "user", "content": "seal"}\n',
        other: "[]",
    }
    for path, text in lines.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    watcher = Watcher(library, watch.folders())
    watcher.once()
    assert {s.source for s in library.conversation_page()[0]} == {
        "claude-code",
        "codex",
        "gemini-cli",
    }
    assert [
        f.path.relative_to(library.archive.folder).as_posix() for f in library.archive.files()
    ] == [
        f"claude-code/-nowhere/{SESSION}.jsonl.gz",
        f"codex/sessions/2026/03/01/{codex.name}.gz",
        f"gemini-cli/loom/chats/{gemini.name}.gz",
    ]


# -- with the file system's events ---------------------------------------------


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "the condition did not become true"
        time.sleep(0.02)


@pytest.mark.full
@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_file_system_events_trigger_imports(workspace: Workspace) -> None:
    stop = threading.Event()
    late = workspace.root.parent / "late"
    watcher = Watcher(
        workspace.library, [Folder("folder", root, root) for root in (workspace.root, late)]
    )
    follow = threading.Thread(
        target=lambda: watcher.follow(watch.changes([workspace.root, late], stop))
    )
    workspace.file.write_text(turn(1, "walrus"))
    follow.start()
    try:
        until(
            lambda: (
                workspace.library.search("walrus", options=SearchOptions(mode="text")).total == 1
            )
        )
        with workspace.file.open("a") as file:
            file.write(turn(2, "penguin"))
        until(
            lambda: (
                workspace.library.search("penguin", options=SearchOptions(mode="text")).total == 1
            )
        )
        late.mkdir()
        (late / "other.jsonl").write_text(turn(31, "seal", session="other"))
        until(
            lambda: workspace.library.search("seal", options=SearchOptions(mode="text")).total == 1
        )
    finally:
        stop.set()
        follow.join()


@pytest.mark.full
@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    "end", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.full)]
)
def test_the_watch_command_runs_until_a_signal(
    place: str, workspace: Workspace, end: signal.Signals
) -> None:
    workspace.file.write_text(turn(1, "walrus"))
    command = [
        sys.executable,
        "-m",
        "recollect",
        "watch",
        "--folder",
        str(workspace.root),
        "--json",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        event = json.loads(process.stdout.readline())
        assert (event["kind"], event["messages"], event["archived"]) == ("taken", 1, True)
        with workspace.file.open("a") as file:
            file.write(turn(2, "penguin"))
        assert json.loads(process.stdout.readline())["messages"] == 1
        process.send_signal(end)
        assert process.wait(60) == 0
    assert workspace.words() == ["walrus", "penguin"]
