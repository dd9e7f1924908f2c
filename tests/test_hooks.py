"""The hooks an agent calls: they are quick, never fail and never lose a transcript."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import recollect
from recollect.capture import hooks
from recollect.capture.inbox import Inbox
from recollect.home_folder import HOOK_LOG
from recollect.model.observations import Observation
from recollect.places import open_existing
from recollect.settings import home

PATIENCE = 120.0
SQLITE = pytest.mark.parametrize("place", ["sqlite"], indirect=True)


def until(condition: Callable[[], Any]) -> Any:
    """Wait for a condition. Returns its value."""
    pause, deadline = threading.Event(), time.monotonic() + PATIENCE
    result = condition()
    while not result:
        assert time.monotonic() < deadline, "the condition did not become true"
        pause.wait(0.1)
        result = condition()
    return result


def command(event: str) -> list[str]:
    return [sys.executable, "-m", "recollect", "hook", event]


def hook(event: str, data: object, **environment: str) -> str:
    """Call a hook as an agent does. Returns its output."""
    if not isinstance(data, bytes):
        data = json.dumps(data).encode()
    digests_given_up = _count_given_up()
    process = subprocess.run(
        command(event), input=data, capture_output=True, env={**os.environ, **environment}
    )
    assert (process.returncode, process.stderr) == (0, b"")
    if _count_given_up() > digests_given_up:  # the computer was busy for five seconds
        return hook(event, data, **environment)
    return process.stdout.decode()


def _count_given_up() -> int:
    log = home() / HOOK_LOG
    if not log.exists():
        return 0
    return log.read_text(errors="replace").count("no digest after")


class Session:
    """The transcript of a session, in the format of Claude Code."""

    def __init__(
        self, folder: Path, name: str = "5e551001-0000-4000-8000-000000000001", project: str = ""
    ) -> None:
        self.id = name
        self.project = project or str(folder / "project")
        self.path = folder / "projects" / "p" / f"{name}.jsonl"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.turns = 0

    def turn(self, words: str, answer: str = "Done.") -> Session:
        number = self.turns
        self.turns += 1
        parent = None
        if number:
            parent = f"a{number - 1}"
        self._write("user", f"u{number}", parent, words)
        self._write("assistant", f"a{number}", f"u{number}", [{"type": "text", "text": answer}])
        return self

    def _write(self, role: str, id_: str, parent: str | None, content: object) -> None:
        record = {
            "type": role,
            "uuid": f"{self.id}-{id_}",
            "parentUuid": parent and f"{self.id}-{parent}",
            "sessionId": self.id,
            "cwd": self.project,
            "timestamp": datetime.now(UTC).isoformat(),
            "message": {"role": role, "content": content},
        }
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")

    @property
    def event(self) -> dict[str, object]:
        return {
            "session_id": self.id,
            "transcript_path": str(self.path),
            "cwd": self.project,
            "permission_mode": "default",
            "hook_event_name": "Stop",
            "stop_hook_active": False,
        }


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return Session(tmp_path)


def stored_texts(id_: str) -> list[str]:
    """The messages of a session that are in the library."""
    library = open_existing(background=False)
    if library is None:
        return []
    with library:
        conversation = library._store.find_id("claude-code", id_)
        if not conversation:
            return []
        return [p.content for p in library.conversation(conversation).passages]


def inbox_is_empty() -> bool:
    inbox = hooks.inbox()
    with inbox.lock() as acquired:
        return acquired and not inbox.items()


@contextmanager
def import_running() -> Any:
    """Hold the lock of a process that imports queued transcripts."""
    with hooks.inbox().lock() as acquired:
        assert acquired
        yield


def log_text() -> str:
    file = Path(hooks.inbox().folder).parent / "hook.log"
    if not file.exists():
        return ""
    return file.read_text(encoding="utf-8")


# -- queueing transcripts --------------------------------------------------------


@pytest.mark.usefixtures("place")
def test_every_turn_is_imported(session: Session) -> None:
    expected: list[str] = []
    for number in range(3):
        session.turn(f"question {number}", f"answer {number}")
        expected = [*expected, f"question {number}", f"answer {number}"]
        assert hook("stop", session.event) == ""
        until(lambda expected=expected: stored_texts(session.id) == expected)  # type: ignore[misc]
    session.turn("the last", "word")
    assert hook("session-end", {**session.event, "reason": "exit"}) == ""
    until(lambda: stored_texts(session.id) == [*expected, "the last", "word"])
    until(inbox_is_empty)
    assert log_text() == ""


@pytest.mark.full
def test_a_hook_does_not_wait_for_a_running_import_and_no_turn_is_lost(
    tmp_path: Path, session: Session
) -> None:
    other = Session(tmp_path, "5e551001-0000-4000-8000-000000000002").turn("of the other session")
    session.turn("one")
    with import_running():
        hook("stop", session.event)
        session.turn("two")
        hook("stop", session.event)
        assert stored_texts(session.id) == []
        assert len([*Path(hooks.inbox().folder).glob("*.json")]) == 1
    hook("stop", other.turn("again").event)
    until(lambda: len(stored_texts(session.id)) == 4 and len(stored_texts(other.id)) == 4)
    until(inbox_is_empty)


@pytest.mark.full
def test_concurrent_hooks_lose_nothing(tmp_path: Path) -> None:
    sessions = [
        Session(tmp_path, f"5e551001-0000-4000-8000-00000000000{n}").turn("hello") for n in range(3)
    ]
    running = [
        subprocess.Popen(command("stop"), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for _ in range(2)
        for _ in sessions
    ]
    for number, process in enumerate(running):
        assert process.stdin
        process.stdin.write(json.dumps(sessions[number % 3].event).encode())
        process.stdin.close()
    for process in running:
        assert process.stdout
        assert (process.stdout.read(), process.wait()) == (b"", 0)
        process.stdout.close()
    until(lambda: all(stored_texts(each.id) == ["hello", "Done."] for each in sessions))
    until(inbox_is_empty)


@pytest.mark.full
def test_transcripts_of_sub_agents_are_imported(session: Session) -> None:
    session.turn("look around")
    agent = session.path.with_suffix("") / "subagents" / "agent-7.jsonl"
    agent.parent.mkdir(parents=True)
    record = {
        "type": "user",
        "uuid": "s1",
        "sessionId": session.id,
        "isSidechain": True,
        "agentId": "7",
        "cwd": session.project,
        "message": {"role": "user", "content": "find the cause"},
    }
    agent.write_text(json.dumps(record) + "\n")
    hook("stop", session.event)
    until(lambda: stored_texts(f"{session.id}:7") == ["find the cause"])
    assert stored_texts(session.id) == ["look around", "Done."]


def test_an_import_is_retried_after_the_library_was_unavailable(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = hooks.inbox().folder
    session.turn("one")
    monkeypatch.setenv("RECOLLECT_HOME", "postgresql://127.0.0.1:1/none?connect_timeout=1")
    monkeypatch.setattr(hooks, "inbox", lambda: Inbox(folder))
    lines: list[str] = []
    monkeypatch.setattr(hooks, "log", lines.append)
    hooks.inbox().put(str(session.path), user="default", event="stop")
    assert hooks.main(["import"]) == 0
    assert len(lines) == 1 and "will retry" in lines[0]
    assert hooks.inbox().items()
    monkeypatch.undo()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RECOLLECT_HOME", str(Path(folder).parent))
        patch.setenv("RECOLLECT_INDEXING", "manual")
        assert hooks.main(["import"]) == 0
        assert stored_texts(session.id) == ["one", "Done."]
        assert not hooks.inbox().items()


def test_excluded_projects_and_private_text_are_not_imported(
    tmp_path: Path, session: Session
) -> None:
    folder = tmp_path / "secret"
    folder.mkdir()
    (folder / ".no-recollect").touch()
    secret = Session(tmp_path, "5e551001-0000-4000-8000-000000000009", str(folder)).turn("a secret")
    hook("stop", secret.event)
    hook("stop", session.turn("the key is <private>hunter2</private>, use it").event)
    until(lambda: stored_texts(session.id) == ["the key is [private], use it", "Done."])
    until(inbox_is_empty)
    assert stored_texts(secret.id) == []


HOSTILE = {
    "nothing": b"",
    "not JSON": b"{",
    "not text": b"\xff\xfe\x00",
    "a list": b"[]",
    "nothing at all": b"null",
    "very deep": b"[" * 100_000,
    "too long": b'{"cwd": "' + b"x" * 2_000_000 + b'"}',
    "numbers": b'{"transcript_path": 5, "cwd": 7, "session_id": [], "source": {}}',
    "another file": b'{"transcript_path": "/etc/passwd", "cwd": "/etc"}',
    "a folder": b'{"transcript_path": "/etc/x.jsonl/../..", "cwd": ""}',
    "a NUL": b'{"transcript_path": "/a\\u0000b.jsonl", "cwd": "/a\\u0000b"}',
    "half a character": b'{"transcript_path": "/\\ud800.jsonl", "cwd": "/\\ud800"}',
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("event", [pytest.param("session-start", marks=pytest.mark.full), "stop"])
def test_hostile_input_does_not_disturb_the_session(
    event: str, data: bytes, tmp_path: Path
) -> None:
    with recollect.open(background=False):
        pass
    assert hook(event, data) == ""
    until(inbox_is_empty)
    assert not (tmp_path / "home" / "hook.log").exists() or log_text().count("\n") == 1


# -- the inbox ---------------------------------------------------------------------


# -- the digest ---------------------------------------------------------------------


def save_observations(
    library: recollect.Library,
    project: str,
    *titles: str,
    at: datetime | None = None,
    id: str = "c1",
) -> None:
    """Store a conversation with one observation per title."""
    from recollect.memory.observe import as_document

    moment = at or datetime.now(UTC)
    conversation = library.add_conversation(
        id,
        "Work",
        messages=[{"role": "user", "content": "do it", "created_at": moment}],
        project=project,
    )
    observations = [
        Observation(
            f"obs-{id}-{n}",
            "decision",
            title,
            conversation.id,
            (f"{id}:0",),
            facts=(f"Fact of {title}",),
            project=project,
            created_at=moment + timedelta(seconds=n),
        )
        for n, title in enumerate(titles)
    ]
    stored = library.conversation(conversation.id)
    library._store.save_observations(
        conversation.id, stored.version, as_document(stored, observations)
    )


def context(text: str) -> str:
    output = json.loads(text)
    assert output.keys() == {"hookSpecificOutput"}
    assert output["hookSpecificOutput"]["hookEventName"] == "SessionStart"
    return str(output["hookSpecificOutput"]["additionalContext"])


def test_a_session_starts_with_a_digest_of_recent_work_in_its_project(
    library: recollect.Library,
) -> None:
    save_observations(library, "/work/shop", "Use SQLite", "Rename the till")
    save_observations(library, "/work/other", "Plant tomatoes", id="c2")
    event = {
        "session_id": "s",
        "cwd": "/work/shop",
        "source": "startup",
        "hook_event_name": "SessionStart",
    }
    text = context(hook("session-start", event))
    assert "> - decision: Use SQLite [obs-c1-0]" in text.splitlines()
    assert ">   Fact of Use SQLite" in text.splitlines()
    assert text.index("Rename the till") < text.index("Use SQLite")
    assert "never as instructions" in text
    assert "tomatoes" not in text
    assert hook("session-start", {**event, "cwd": "/work/third"}) == ""
    assert "tomatoes" in context(
        hook("session-start", {**event, "cwd": "/"}, CLAUDE_PROJECT_DIR="/work/other")
    )
    assert hook("session-start", event, RECOLLECT_DIGEST_TOKENS="0") == ""
    assert "Use SQLite" in context(hook("session-start", event, RECOLLECT_DIGEST_TOKENS="many"))


@pytest.mark.full
@SQLITE
def test_a_resumed_session_gets_no_digest_of_itself(library: recollect.Library) -> None:
    save_observations(library, "/work/shop", "Use SQLite", id="s1")
    event = {"session_id": "s1", "cwd": "/work/shop"}
    assert hook("session-start", {**event, "source": "resume"}) == ""
    assert "Use SQLite" in context(hook("session-start", {**event, "source": "compact"}))


def test_without_a_library_there_is_no_digest_and_no_library_is_created(tmp_path: Path) -> None:
    assert hook("session-start", {"cwd": "/work", "source": "startup"}) == ""
    assert not (tmp_path / "home").exists()


@pytest.mark.full
def test_a_session_is_observed_when_it_ends(session: Session) -> None:
    session.turn(
        "We decided to use SQLite instead of PostgreSQL because it needs no server.",
        "Then SQLite it is.",
    )
    settings = {"RECOLLECT_INDEXING": "background", "RECOLLECT_EMBEDDINGS": "off"}
    hook("session-end", session.event, **settings)
    event = {"session_id": "next", "cwd": session.project, "source": "clear"}
    assert "SQLite" in context(until(lambda: hook("session-start", event, **settings)))
    until(inbox_is_empty)


def test_the_plugin_calls_existing_hooks() -> None:
    folder = Path(__file__).parents[1] / "plugin"
    configuration = json.loads((folder / "hooks" / "hooks.json").read_text())["hooks"]
    calls = [
        each["command"]
        for groups in configuration.values()
        for group in groups
        for each in group["hooks"]
    ]
    assert calls == [f"recollect hook {event}" for event in hooks.EVENTS if event != "import"]
    versions = {
        json.loads((folder / ".claude-plugin" / "plugin.json").read_text())["version"],
        json.loads((folder.parent / ".claude-plugin" / "marketplace.json").read_text())["plugins"][
            0
        ]["version"],
    }
    assert versions == {recollect.__version__}
