"""Following transcripts: files that grow, shrink, go back, come and go, and those that nobody wants taken in."""

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
from recollect.capture.transcripts import watch
from recollect.capture.transcripts.watch import Event, Folder, Watcher
from recollect.errors import InvalidInput, StoreBusy
from recollect.model.search import SearchOptions

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


class Desk:
    """A folder of transcripts, and somebody who follows it."""

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
        with (file or self.file).open("a" if append else "w") as opened:
            opened.write("".join(turns))
        self.tell(file or self.file)

    def append(self, *turns: str) -> None:
        self.write(*turns, append=True)

    def tell(self, *paths: Path) -> None:
        self.now += 100
        self.watcher.follow([paths])

    def kinds(self) -> list[str]:
        return [event.kind for event in self.events]

    def words(self, id_: str = SESSION) -> list[str]:
        return [p.content for p in self.library.conversation(id_).passages]


@pytest.fixture
def desk(tmp_path: Path, library: recollect.Library) -> Desk:
    return Desk(tmp_path / "projects", library)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "me"))
    (tmp_path / "me").mkdir()
    return tmp_path / "me"


# -- changes -----------------------------------------------------------------


def test_appended_turns_are_taken_in(desk: Desk) -> None:
    desk.write(turn(1, "walrus"))
    desk.append(turn(2, "penguin"))
    assert desk.words() == ["walrus", "penguin"]
    assert [(e.kind, e.conversations, e.messages) for e in desk.events] == [
        ("taken", 1, 1),
        ("taken", 0, 1),
    ]
    assert desk.library.receipts() == []


def test_a_half_written_line_waits_for_its_end(desk: Desk) -> None:
    whole = turn(2, "penguin")
    desk.write(turn(1, "walrus"), whole[:40])
    assert desk.words() == ["walrus"]
    assert desk.kinds() == ["taken"]
    desk.append(whole[40:])
    assert desk.words() == ["walrus", "penguin"]


def test_what_a_truncated_file_no_longer_has_stays(desk: Desk) -> None:
    desk.write(turn(1, "walrus"), turn(2, "penguin"), turn(3, "seal"))
    desk.write(turn(1, "walrus"))
    assert desk.words() == ["walrus", "penguin", "seal"]
    desk.append(turn(2, "penguin"), turn(3, "seal"), turn(4, "otter"))
    assert desk.words() == ["walrus", "penguin", "seal", "otter"]


def test_a_rewritten_file_is_read_whole(desk: Desk) -> None:
    desk.write(turn(1, "walrus"), turn(2, "penguin"))
    desk.write(turn(1, "walrus and seal"), turn(2, "penguin"), turn(3, "otter"))
    assert desk.words() == ["walrus and seal", "penguin", "otter"]


def test_a_rewound_session_keeps_both_ways(desk: Desk) -> None:
    desk.write(turn(1, "walrus"), turn(2, "penguin"), turn(3, "seal"))
    desk.append(turn(5, "otter", parentUuid=uuid(2)))
    document = desk.library.conversation(SESSION)
    assert [p.content for p in document.canonical] == ["walrus", "penguin", "otter"]
    assert "seal" in desk.words()


def test_a_file_replaced_by_renaming_is_recognised(desk: Desk) -> None:
    desk.write(turn(1, "walrus"))
    draft = desk.file.with_suffix(".tmp")
    draft.write_text(turn(1, "walrus") + turn(2, "penguin"))
    draft.replace(desk.file)
    desk.tell(draft, desk.file)
    assert desk.words() == ["walrus", "penguin"]


def test_a_deleted_file_leaves_what_was_taken_in(desk: Desk) -> None:
    desk.write(turn(1, "walrus"))
    desk.file.unlink()
    desk.tell(desk.file)
    desk.tell(desk.file)
    assert desk.words() == ["walrus"]
    assert desk.kinds() == ["taken", "gone"]


def test_sub_agents_come_along(desk: Desk) -> None:
    agent = desk.file.parent / SESSION / "subagents" / "agent-7.jsonl"
    agent.parent.mkdir(parents=True)
    desk.write(turn(1, "walrus"))
    desk.write(turn(51, "look for seals", isSidechain=True, agentId="7"), file=agent)
    assert desk.words(f"{SESSION}:7") == ["look for seals"]


def test_a_folder_that_appears_is_looked_through(desk: Desk) -> None:
    new = desk.root / "-nowhere-other"
    new.mkdir()
    (new / f"{SESSION}.jsonl").write_text(turn(1, "walrus"))
    desk.tell(new)
    assert desk.words() == ["walrus"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_tried_again(desk: Desk) -> None:
    desk.file.write_text(turn(1, "walrus"))
    desk.file.chmod(0)
    desk.tell(desk.file)
    assert desk.kinds() == ["failed"]
    desk.file.chmod(0o600)
    desk.tell()
    assert desk.words() == ["walrus"]


def test_one_bad_file_never_stops_the_others(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    other = desk.file.with_name("other.jsonl")
    other.write_text(turn(31, "seal", session="other"))
    desk.file.write_text(turn(1, "walrus"))
    (desk.root / "link.jsonl").symlink_to("/etc/passwd")
    (desk.root / "empty.jsonl").write_text("")
    (desk.root / "odd.jsonl").write_bytes(b"\x00\xff" * 50)
    read = watch._detect

    def broken(path: Path, folder: Folder) -> object:
        if path == other:
            raise OSError("Input/output error")
        return read(path, folder)

    monkeypatch.setattr(watch, "_detect", broken)
    desk.watcher.follow([None])
    assert desk.words() == ["walrus"]
    assert sorted(desk.kinds()) == ["failed", "taken"]
    monkeypatch.setattr(watch, "_detect", read)
    desk.tell()
    assert desk.words("other") == ["seal"]


def test_a_file_that_takes_long_to_read_is_not_read_for_every_line(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_in = desk.library.import_file

    def slow(*given: object) -> object:
        desk.now += 5
        return take_in(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(desk.library, "import_file", slow)
    desk.file.write_text(turn(1, "walrus"))
    desk.watcher.follow([[desk.file]])
    for number in range(2, 9):
        with desk.file.open("a") as file:
            file.write(turn(number, f"word {number}"))
        desk.now += 1
        desk.watcher.follow([[desk.file]])
    assert desk.watcher.read == 1
    desk.now += 10
    desk.watcher.follow([[]])
    assert desk.watcher.read == 2
    assert len(desk.words()) == 8


# -- starting ----------------------------------------------------------------


def test_a_new_watcher_reads_only_what_changed_since_the_last_one(desk: Desk) -> None:
    other = desk.file.with_name("other.jsonl")
    desk.write(turn(1, "walrus"))
    desk.write(turn(31, "seal", session="other"), file=other)
    with desk.file.open("a") as file:
        file.write(turn(2, "penguin"))
    watcher = desk.another()
    watcher.once()
    assert (watcher.read, desk.words()) == (1, ["walrus", "penguin"])


def test_what_is_not_in_the_library_is_read_whatever_the_archive_says(
    desk: Desk, user: str, place: str
) -> None:
    desk.write(turn(1, "walrus"))
    desk.library._store.delete(SESSION)  # not by a person, so nothing says that it is not wanted
    watcher = desk.another()
    watcher.once()
    assert desk.words() == ["walrus"]


def test_changes_that_nobody_told_of_are_found_by_looking(desk: Desk) -> None:
    desk.watcher.follow([None])
    desk.file.write_text(turn(1, "walrus"))
    desk.now += 60
    desk.watcher.follow([[]])
    assert desk.words() == ["walrus"]


def test_several_watchers_of_one_library_do_no_harm(desk: Desk) -> None:
    watchers = [desk.another() for _ in range(3)]
    desk.file.write_text(turn(1, "walrus"))
    for number in range(2, 6):
        threads = [threading.Thread(target=w.follow, args=([[desk.file]],)) for w in watchers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with desk.file.open("a") as file:
            file.write(turn(number, f"word {number}"))
        desk.now += 100
    desk.tell(desk.file)
    assert desk.words() == ["walrus", "word 2", "word 3", "word 4", "word 5"]
    (archived,) = desk.library.archive.files()
    (copy,) = desk.library.archive.restore(archived, desk.root.parent / "restored")
    assert copy.read_bytes() == desk.file.read_bytes()
    assert "failed" not in desk.kinds()


# -- what is not wanted --------------------------------------------------------


def test_a_deleted_conversation_does_not_come_back_by_itself(desk: Desk, tmp_path: Path) -> None:
    desk.write(turn(1, "walrus"))
    (archived,) = desk.library.archive.files()
    desk.library.delete_conversation(SESSION)
    assert not archived.path.exists()
    desk.append(turn(2, "penguin"))
    assert desk.library.search("walrus").total == 0
    assert desk.kinds() == ["taken", "deleted"]
    assert desk.library.archive.files() == []
    desk.library.import_path(desk.file)
    desk.append(turn(3, "seal"))
    assert desk.words() == ["walrus", "penguin", "seal"]
    assert len(desk.library.archive.files()) == 1


def test_what_is_deleted_and_put_back_is_followed_again(desk: Desk) -> None:
    desk.write(turn(1, "walrus"))
    desk.library.restore_document(desk.library.delete_conversation(SESSION))
    desk.append(turn(2, "penguin"))
    assert desk.words() == ["walrus", "penguin"]


def test_deleting_by_the_other_door_deletes_the_archive_too(desk: Desk) -> None:
    desk.write(turn(1, "walrus"))
    desk.library.delete_conversation(SESSION)
    assert desk.library.archive.files() == []


def test_a_session_with_a_marker_is_left_out_with_its_sub_agents(desk: Desk) -> None:
    agent = desk.file.with_name("agent-7.jsonl")
    desk.file.write_text(turn(1, "DO NOT INDEX THIS CHAT, please"))
    agent.write_text(turn(51, "look for seals", isSidechain=True, agentId="7"))
    os.utime(agent, (1, 1))
    desk.watcher.follow([None])
    assert desk.library.conversations()[1] == 0
    assert desk.kinds() == ["excluded", "excluded"]
    assert desk.library.archive.files() == []
    with agent.open("a") as file:
        file.write(turn(52, "found one", isSidechain=True, agentId="7"))
    desk.another().once()
    assert desk.library.conversations()[1] == 0


def test_an_excluded_project_is_left_out(desk: Desk, tmp_path: Path) -> None:
    project = tmp_path / "clients" / "loom"
    project.mkdir(parents=True)
    (tmp_path / "clients" / ".no-recollect").touch()
    desk.write(turn(1, "walrus", cwd=str(project)))
    assert desk.library.conversations()[1] == 0
    (tmp_path / "clients" / ".no-recollect").unlink()
    desk.another().once()
    assert desk.words() == ["walrus"]


def test_what_was_taken_in_before_it_was_excluded_is_reported_and_stays(desk: Desk) -> None:
    desk.write(turn(1, "walrus"))
    desk.append(turn(3, "DO NOT INDEX THIS CONVERSATION", parentUuid=uuid(1)))
    assert desk.words() == ["walrus"]
    assert desk.events[-1].kind == "excluded"
    assert "imported earlier" in desk.events[-1].reason


def test_private_spans_are_neither_stored_nor_archived(desk: Desk, tmp_path: Path) -> None:
    desk.write(turn(1, "my <private>walrus</private> seal"))
    assert desk.words() == ["my [private] seal"]
    (archived,) = desk.library.archive.files()
    (copy,) = desk.library.archive.restore(archived, tmp_path / "restored")
    assert json.loads(copy.read_text())["message"]["content"] == "my [private] seal"


# -- the tools -----------------------------------------------------------------


def test_the_folders_of_each_tool(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [f.root for f in watch.folders()] == [
        home / ".claude/projects",
        home / ".codex/sessions",
        home / ".codex/archived_sessions",
        home / ".gemini/tmp",
    ]
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(home / "c"))
    monkeypatch.setenv("CODEX_HOME", str(home / "x"))
    assert [f.root for f in watch.folders(["claude-code", "codex"])][:2] == [
        home / "c/projects",
        home / "x/sessions",
    ]
    assert [f.tool for f in watch.folders(paths=[home])] == ["folder"]
    with pytest.raises(InvalidInput, match="emacs"):
        watch.folders(["emacs"])


def test_every_tool_is_followed(home: Path, library: recollect.Library) -> None:
    claude = home / ".claude/projects/-nowhere" / f"{SESSION}.jsonl"
    codex = home / ".codex/sessions/2026/03/01" / f"rollout-2026-03-01T10-00-00-{uuid(7)}.jsonl"
    gemini = home / ".gemini/tmp/loom/chats/session-2026-03-01T10-00-aaaaaaaa.jsonl"
    other = home / ".gemini/tmp/loom/logs.json"
    said = {
        "type": "message",
        "role": "user",
        "content": [{"type": "input_text", "text": "penguin"}],
    }
    lines = {
        claude: turn(1, "walrus"),
        codex: json.dumps({"type": "session_meta", "payload": {"id": uuid(7)}})
        + "\n"
        + json.dumps({"type": "response_item", "payload": said})
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
    assert {s.source for s in library.conversations()[0]} == {"claude-code", "codex", "gemini-cli"}
    assert [
        f.path.relative_to(library.archive.folder).as_posix() for f in library.archive.files()
    ] == [
        f"claude-code/-nowhere/{SESSION}.jsonl.gz",
        f"codex/sessions/2026/03/01/{codex.name}.gz",
        f"gemini-cli/loom/chats/{gemini.name}.gz",
    ]


def test_a_hook_hands_over_one_transcript(home: Path, library: recollect.Library) -> None:
    file = home / ".claude/projects/-nowhere" / f"{SESSION}.jsonl"
    file.parent.mkdir(parents=True)
    file.write_text(turn(1, "walrus"))
    (event,) = watch.import_transcript(library, file)
    assert (event.kind, event.tool, event.messages) == ("taken", "claude-code", 1)
    assert library.search("walrus").total == 1


# -- with the real thing -------------------------------------------------------


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_changes_are_told_by_the_system(desk: Desk) -> None:
    stop = threading.Event()
    late = desk.root.parent / "late"
    watcher = Watcher(desk.library, [Folder("folder", root, root) for root in (desk.root, late)])
    follow = threading.Thread(target=lambda: watcher.follow(watch.changes([desk.root, late], stop)))
    desk.file.write_text(turn(1, "walrus"))
    follow.start()
    try:
        until(lambda: desk.library.search("walrus", options=SearchOptions(mode="text")).total == 1)
        with desk.file.open("a") as file:
            file.write(turn(2, "penguin"))
        until(lambda: desk.library.search("penguin", options=SearchOptions(mode="text")).total == 1)
        late.mkdir()
        (late / "other.jsonl").write_text(turn(31, "seal", session="other"))
        until(lambda: desk.library.search("seal", options=SearchOptions(mode="text")).total == 1)
    finally:
        stop.set()
        follow.join()


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_the_command_follows_until_it_is_ended(place: str, desk: Desk, end: signal.Signals) -> None:
    desk.file.write_text(turn(1, "walrus"))
    command = [sys.executable, "-m", "recollect", "watch", "--folder", str(desk.root), "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        taken = json.loads(running.stdout.readline())
        assert (taken["kind"], taken["messages"], taken["archived"]) == ("taken", 1, True)
        with desk.file.open("a") as file:
            file.write(turn(2, "penguin"))
        assert json.loads(running.stdout.readline())["messages"] == 1
        running.send_signal(end)
        assert running.wait(60) == 0
    assert desk.words() == ["walrus", "penguin"]


def test_what_is_written_now_comes_before_what_was_found(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_in = desk.library.import_file

    def slow(*given: object) -> object:
        desk.now += 0.9
        return take_in(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(desk.library, "import_file", slow)
    for number in range(9):
        (desk.root / f"old{number}.jsonl").write_text(
            turn(number * 2 + 31, f"old{number}", session=f"old{number}")
        )
        os.utime(desk.root / f"old{number}.jsonl", (number, number))
    desk.watcher.follow([None])
    assert [Path(e.path).stem for e in desk.events] == ["old0", "old1"]
    desk.file.write_text(turn(1, "walrus"))
    desk.watcher.follow([[desk.file], []])
    assert [Path(e.path).stem for e in desk.events][2:] == [SESSION, "old2", "old3", "old4"]


def test_a_rewound_session_of_gemini_stands_where_it_went_back_to(
    tmp_path: Path, library: recollect.Library
) -> None:
    root = tmp_path / "tmp"
    file = root / "loom" / "chats" / "session-2026-03-01T10-00-aaaaaaaa.jsonl"
    file.parent.mkdir(parents=True)
    watcher = Watcher(library, [Folder("gemini-cli", root, root)])

    def append(*records: dict[str, object]) -> list[str]:
        with file.open("a") as opened:
            opened.writelines(json.dumps(record) + "\n" for record in records)
        watcher.follow([[file]])
        return [p.content for p in library.conversation("g").canonical]

    def said(id_: str, words: str) -> dict[str, object]:
        return {"id": id_, "type": "user", "content": words, "timestamp": "2026-03-01T10:00:01Z"}

    start = {"sessionId": "g", "projectHash": "h", "startTime": "2026-03-01T10:00:00Z"}
    assert append(start, said("m1", "walrus"), said("m2", "penguin"), said("m3", "seal")) == [
        "walrus",
        "penguin",
        "seal",
    ]
    assert append({"$rewindTo": "m2"}) == ["walrus"]
    assert append(said("m4", "otter")) == ["walrus", "otter"]
    assert len(library.conversation("g").passages) == 4
    assert append(said("m4", "otter and seal")) == ["walrus", "otter and seal"]


def test_files_of_other_folders_are_nobodys_business(desk: Desk, tmp_path: Path) -> None:
    desk.write(turn(1, "walrus"))
    other = tmp_path / "other"
    other.mkdir()
    watcher = Watcher(
        desk.library, [Folder("folder", other, other)], desk.events.append, clock=lambda: desk.now
    )
    watcher.follow([None])
    desk.file.unlink()
    watcher.follow([None, [desk.file]])
    assert desk.kinds() == ["taken"]


def test_a_busy_catalogue_is_waited_for(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def busy() -> None:
        raise StoreBusy("Another program has been writing.")

    with monkeypatch.context() as patched:
        patched.setattr(desk.library.archive, "left_out", busy)
        desk.write(turn(1, "walrus"))
        assert desk.kinds() == ["failed"]
    desk.tell()
    assert desk.words() == ["walrus"]
