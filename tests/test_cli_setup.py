"""The first minutes: setup, services, completion, opening the console."""

from __future__ import annotations

import json
import os
import plistlib
import shutil
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from selection import few

import recollect

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.fixture
def computer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder with sessions of two agents, and a download."""
    sessions = tmp_path / "me" / ".claude" / "projects" / "garden"
    (sessions / "e135" / "subagents").mkdir(parents=True)
    shutil.copy(next((EXAMPLES / "claude-code").iterdir()), sessions)
    (sessions / "e135" / "subagents" / "agent-1.jsonl").touch()
    rollouts = tmp_path / "me" / ".codex" / "sessions" / "2026"
    rollouts.mkdir(parents=True)
    for name in ("rollout-1.jsonl", "rollout-2.jsonl", "other.jsonl"):
        (rollouts / name).touch()
    downloads = tmp_path / "me" / "Downloads"
    downloads.mkdir()
    for name in ("chatgpt-export.zip", "data-2026-01-15-09-00-00-batch-0000.zip", "photos.zip"):
        (downloads / name).touch()
    monkeypatch.setenv("HOME", str(tmp_path / "me"))
    for variable in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(variable, raising=False)
    return tmp_path / "me"


# -- setup -----------------------------------------------------------------------


def test_setup_finds_sessions_and_exports_by_their_names_and_opens_none(
    run: Any, computer: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_path = Path.open

    def refuse(path: Path, *arguments: Any, **options: Any) -> Any:
        assert not path.name.endswith((".zip", ".jsonl")), "a file was opened"
        return open_path(path, *arguments, **options)

    monkeypatch.setattr(Path, "open", refuse)
    output = run("setup")
    assert "2  2 Codex sessions" in output and "recollect setup --yes" in output
    offers = json.loads(run("setup", "--json"))["found"]
    assert [each["label"] for each in offers] == [
        "1 Claude Code session",
        "2 Codex sessions",
        "chatgpt-export.zip in Downloads",
        "data-2026-01-15-09-00-00-batch-0000.zip in Downloads",
    ]
    assert [each["source"] for each in offers] == ["claude-code", "codex", "chatgpt", "claude"]
    assert "recollect setup" in run("import", fails=True)


def test_setup_imports_what_the_user_selects(
    run: Any, computer: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    for answer in ("5", "0", "maybe", "1 maybe"):
        monkeypatch.setattr("builtins.input", lambda prompt, answer=answer: answer)
        assert "Nothing was imported" in run("setup", fails=True)
    monkeypatch.setattr("builtins.input", lambda prompt: "n")
    assert "Nothing was imported" in run("setup")
    monkeypatch.setattr("builtins.input", lambda prompt: "1")
    output = run("setup")
    assert "Receipt 1" in output and "recollect service install watch" in output
    listing = json.loads(run("list", "--json"))["conversations"]
    assert [conversation["source"] for conversation in listing] == ["claude-code"]


def test_without_anything_to_import_setup_says_how_to_export(run: Any, tmp_path: Path) -> None:
    assert "Export data" in run("setup", "--downloads", str(tmp_path))


# -- services --------------------------------------------------------------------


def test_a_unit_of_systemd_runs_this_program_with_this_library(
    run: Any, computer: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    (computer / "bin").mkdir()
    systemctl = computer / "bin" / "systemctl"
    systemctl.write_text("#!/bin/sh\n")
    systemctl.chmod(0o755)
    monkeypatch.setenv("PATH", f"{computer / 'bin'}:{os.environ['PATH']}")
    assert "http://127.0.0.1:9000" in run("service", "install", "--port", "9000")
    file = computer / ".config/systemd/user/recollect-serve.service"
    assert file.stat().st_mode & 0o077 == 0
    unit = file.read_text()
    assert f'"{sys.executable}" "-m" "recollect" "serve"' in unit and '"--port" "9000"' in unit
    assert f'Environment="RECOLLECT_HOME={place}"'.replace("%", "%%") in unit
    states = json.loads(run("service", "status", "--json"))["services"]
    assert [each["state"] for each in states] == ["running", "not installed"]
    run("service", "uninstall")
    assert not file.exists()
    assert "not installed" in run("service", "uninstall", fails=True)


def test_a_service_can_have_several_workers(run: Any, computer: Path) -> None:
    unit = run("service", "install", "--workers", "4", "--dry-run")
    assert '"serve" "--log-format" "text" "--workers" "4"' in unit
    assert "from 1 to 256" in run("service", "install", "--workers", "0", fails=True)
    error = run("service", "install", "watch", "--workers", "4", fails=True)
    assert "--host, --port and --workers apply to serve only" in error


def test_a_service_that_cannot_start_says_how_to_start_it_later(
    run: Any, computer: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(computer))
    error = run("service", "install", "watch", fails=True)
    assert "systemctl is not installed" in error
    assert "systemctl --user enable --now recollect-watch" in error


def test_special_characters_in_a_unit_are_escaped(run: Any, computer: Path) -> None:
    unit = run("service", "install", "--host", 'a b%$"\\', "--dry-run")
    assert '"--host" "a b%%$$\\"\\\\"' in unit


@pytest.mark.full
@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd")
def test_systemd_accepts_the_unit(run: Any, computer: Path) -> None:
    file = computer / "recollect-serve.service"
    file.write_text(run("service", "install", "--dry-run"))
    process = subprocess.run(
        ["systemd-analyze", "--user", "verify", str(file)], capture_output=True, text=True
    )
    assert str(file) not in process.stderr, process.stderr


def test_an_agent_of_launchd_runs_this_program(
    run: Any, computer: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    text = run("service", "install", "watch", "--dry-run", "--user", "<b&c>")
    agent = plistlib.loads(text[text.index("<?xml") :].encode())
    assert agent["ProgramArguments"] == [sys.executable, "-m", "recollect", "watch"]
    environment = agent["EnvironmentVariables"]
    assert (environment["RECOLLECT_HOME"], environment["RECOLLECT_USER"]) == (place, "<b&c>")
    assert agent["RunAtLoad"]


# -- completion ------------------------------------------------------------------


@pytest.fixture
def tagged_library(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECOLLECT_HOME", place)
    with recollect.open(place) as library:
        library.add_conversation(
            "talk", "About roses", project="my garden", metadata={"tags": ["idea", "summer"]}
        )


@pytest.mark.usefixtures("tagged_library")
@pytest.mark.parametrize(
    ("line", "expected"),
    few(
        [
            ("se", ["search", "serve", "service", "setup"]),
            ("list --pr", ["--project "]),
            ("list --project ", ["my\\ garden "]),
            ("list --project=my", ["--project=my\\ garden "]),
            ("search --tag i", ["idea "]),
            ("search --source r", ["recollect "]),
            ("search --role a", ["assistant "]),
            ("search --mode t", ["text "]),
            ("--user nobody list --tag ", []),
            ("read ", ["talk "]),
            ("tag talk s", ["summer "]),
            ("knowledge li", ["list "]),
            ("knowledge list n", ["notes "]),
            ("completion ", ["bash", "fish", "zsh"]),
            ("import ./nothing", []),
        ],
        5,
    ),
)
def test_completion_offers_what_fits(line: str, expected: list[str], tmp_path: Path) -> None:
    found = tmp_path / "found"
    line = f"recollect {line}"
    environment = {
        **os.environ,
        "_ARGCOMPLETE": "1",
        "_ARGCOMPLETE_STDOUT_FILENAME": str(found),
        "COMP_LINE": line,
        "COMP_POINT": str(len(line)),
    }
    subprocess.run([sys.executable, "-m", "recollect"], env=environment, check=True)
    assert sorted(filter(None, found.read_text().split("\v"))) == expected


def test_every_shell_has_a_completion_script(run: Any) -> None:
    for shell in ("bash", "zsh", "fish"):
        assert "_ARGCOMPLETE" in run("completion", shell)


# -- opening the console ---------------------------------------------------------


@pytest.fixture
def web_server() -> Iterator[tuple[str, list[str]]]:
    """The address of a server that has one conversation, and the paths that were requested."""
    paths: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            paths.append(self.path)
            self.send_response(200 if self.path.startswith("/c/talk") else 404)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", paths
    server.shutdown()
    server.server_close()


@pytest.mark.usefixtures("tagged_library")
def test_open_shows_a_conversation_in_the_browser(
    run: Any, web_server: tuple[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    address, paths = web_server
    pages: list[str] = []
    run("list")
    for variable in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    assert f"is at {address}/c/talk" in run("open", "1", "--url", address), "without a screen"
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr("webbrowser.open", lambda url: pages.append(url) or True)
    assert "Opened About roses" in run("open", "1", "--url", address)
    assert pages == [f"{address}/c/talk"] and paths == ["/c/talk"] * 2


@pytest.mark.usefixtures("tagged_library")
def test_open_says_if_the_console_does_not_run_or_has_another_library(
    run: Any, place: str, web_server: tuple[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    address, _ = web_server
    with recollect.open(place) as library:
        library.add_conversation("elsewhere")
    assert "another library" in run("open", "elsewhere", "--url", address, fails=True)
    monkeypatch.setenv("RECOLLECT_PORT", "9")
    assert "recollect serve" in run("open", "talk", fails=True)
    assert "not a web address" in run("open", "talk", "--url", "file:///etc", fails=True)
