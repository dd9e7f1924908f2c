"""The docs are correct: their programs run, and every command and setting is documented."""

from __future__ import annotations

import argparse
import io
import json
import re
import runpy
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import postgres
import psycopg
import pytest
from starlette.testclient import TestClient

import recollect
from recollect import __main__, __version__, cli
from recollect.cli import parser
from recollect.serve.app import make_app
from recollect.serve.http.service import Service
from recollect.settings import place as settings_place

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
# Commands of these pages name the folder of a SQLite library, so they run only there.
SQLITE_ONLY = ("moving.md", "backup.md")
STORES_AND_PAGES = [
    *(("sqlite", page) for page in PAGES),
    *(
        pytest.param("postgres", page, marks=pytest.mark.full)
        for page in PAGES
        if page.name not in SQLITE_ONLY
    ),
]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(language: str) -> list[tuple[str, str]]:
    return [
        (page.name, text)
        for page in PAGES
        for kind, text in BLOCK.findall(page.read_text(encoding="utf-8"))
        if kind == language
    ]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with the examples that the docs use."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    return tmp_path


def run_main() -> int:
    """Run the command in `sys.argv` in this process, and return its exit code.

    A process for each command would take a minute.
    """
    try:
        return __main__.main()
    except SystemExit as end:
        return int(end.code or 0)


@pytest.mark.usefixtures("place", "folder")
@pytest.mark.parametrize(
    ("place", "page"),
    STORES_AND_PAGES,
    indirect=["place"],
    ids=lambda part: getattr(part, "name", part),
)
def test_the_commands_of_a_page_run_in_order(
    page: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [
        line[2:]
        for name, text in blocks("console")
        if name == page.name
        for line in text.splitlines()
        if line.startswith("$ ")
    ]
    if lines and not lines[0].startswith("recollect import"):
        examples = [str(path) for path in (ROOT / "examples").iterdir() if path.is_dir()]
        assert cli.main(["import", *examples]) == 0
    for line in lines:
        program, *arguments = shlex.split(line)
        assert program == "recollect"
        monkeypatch.setattr(sys, "argv", [program, *arguments])
        assert run_main() == 0, f"{line}\n{capsys.readouterr().err}"


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize(("page", "code"), blocks("python"))
def test_the_programs_in_the_docs_run(page: str, code: str, folder: Path) -> None:
    process = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True
    )
    assert process.returncode == 0, f"{code}\n{process.stdout}\n{process.stderr}"


@pytest.mark.parametrize(("page", "text"), blocks("json"))
def test_json_in_the_docs_is_valid(page: str, text: str) -> None:
    assert json.loads(text)


@pytest.mark.parametrize(("page", "text"), blocks("toml"))
def test_toml_in_the_docs_is_valid(page: str, text: str) -> None:
    assert tomllib.loads(text)


# -- requests in the docs -----------------------------------------------------


def requests_of(page: str) -> list[tuple[str, str, dict[str, str], str | None]]:
    """The `curl` commands of a page: method, path, headers and body."""
    commands: list[list[str]] = []
    for name, text in blocks("sh"):
        if name != page:
            continue
        # Words before the first `curl` of a block belong to no request.
        command: list[str] = []
        for word in shlex.split(text, comments=True):
            if word == "curl":
                command = []
                commands.append(command)
            else:
                command.append(word)
    return [_request(command) for command in commands]


def _request(words: list[str]) -> tuple[str, str, dict[str, str], str | None]:
    method, path = "", ""
    headers: dict[str, str] = {}
    body = None
    rest = iter(words)
    for word in rest:
        match word:
            case "-X":
                method = next(rest)
            case "-H":
                name, _, value = next(rest).partition(": ")
                headers[name] = value
            case "-d":
                body = next(rest)
            case _:
                path = word.removeprefix("http://127.0.0.1:8765")
    if not method:
        method = "POST" if body else "GET"
    return method, path, headers, body


def test_the_requests_in_the_docs_succeed(place: str) -> None:
    service = Service(settings_place(place))
    try:
        with TestClient(make_app(service), base_url="http://127.0.0.1:8765") as client:
            requests = requests_of("service.md")
            for method, path, headers, body in requests:
                response = client.request(method, path, headers=headers, content=body)
                assert response.status_code in (200, 201), f"{method} {path}: {response.text}"
    finally:
        service.close()
    assert len(requests) > 10


def test_the_documented_setup_with_two_roles_works(database: str, user: str) -> None:
    """An administrator runs the SQL of the page; then programs can use the role it creates."""
    name = f"docs_{user[-12:]}"
    first, second = (text for page, text in blocks("sql") if page == "postgres.md")

    def rename(sql: str) -> str:
        sql = sql.replace("recollect_login", name)
        return sql.replace("create database recollect ", f"create database {name} ")

    parts = psycopg.conninfo.conninfo_to_dict(database)
    with psycopg.connect(database, autocommit=True) as administrator:
        try:
            for statement in rename(first).split(";"):
                if statement.strip():
                    administrator.execute(statement)
            setup_url = postgres.address(parts | {"dbname": name})
            recollect.open(setup_url, user="setup", background=False).close()
            administrator.execute(rename(second))
            login = {"dbname": name, "user": name, "password": "a long secret"}
            url = postgres.address(parts | login).replace(" ", "%20")
            with recollect.open(url, user="ann", background=False) as library:
                library.add_conversation("c", messages=[{"role": "user", "content": "walrus"}])
                assert library.search("walrus").total == 1
                missing = library._store.missing_features
                assert not any("recollect_search" in line for line in missing)
        finally:
            administrator.execute(f"drop database if exists {name} with (force)")
            administrator.execute(f"drop role if exists {name}")


def test_shell_lines_in_the_docs_use_existing_commands() -> None:
    names = set(_commands())
    for _, text in blocks("sh"):
        for name in re.findall(r"(?<!/)\brecollect ([a-z]+)\b(?!:)", text):
            assert name in names


def _commands() -> dict[str, argparse.ArgumentParser]:
    actions = parser()._subparsers._group_actions  # type: ignore[union-attr]
    return dict(actions[0].choices)  # type: ignore[arg-type]


def test_every_command_is_documented_and_has_examples() -> None:
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    for name, command in _commands().items():
        assert f"recollect {name}" in text, name
        if name != "mcp":
            _, examples = command.format_help().split("examples:")
            assert f"recollect {name}" in examples, name


def test_every_setting_and_limit_is_documented() -> None:
    page = runpy.run_path(str(ROOT / "tools/settings_page.py"))["page"]()
    text = (ROOT / "docs/settings.md").read_text(encoding="utf-8")
    assert text == page, "run: python tools/settings_page.py"


def test_links_between_pages_lead_to_existing_files() -> None:
    for page in [*PAGES, ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md"]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_version_is_the_same_everywhere() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert project["version"] == __version__ == re.findall(r"^## (\S+)", changelog, re.MULTILINE)[0]


def test_every_module_named_in_the_architecture_exists() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    names = set(re.findall(r"`([\w/]+/\w+\.py)`", text))
    assert len(names) > 20
    folders = (ROOT / "recollect", ROOT)
    assert all(any((folder / name).exists() for folder in folders) for name in names), names
