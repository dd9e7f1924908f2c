"""Docs are true: their commands run, their programs run, and nothing is left out of them."""

from __future__ import annotations

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
# Every page with every store, but for those whose commands name the folder that the home is.
FOLDERS = ("moving.md",)
WHERE = [
    *(("sqlite", page) for page in PAGES),
    *(
        pytest.param("postgres", page, marks=pytest.mark.full)
        for page in PAGES
        if page.name not in FOLDERS
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


def exit_code() -> int:
    """Run the command in `sys.argv` in this process; a process for each would take a minute."""
    try:
        return __main__.main()
    except SystemExit as end:
        return int(end.code or 0)


@pytest.mark.usefixtures("place", "folder")
@pytest.mark.parametrize(
    ("place", "page"), WHERE, indirect=["place"], ids=lambda part: getattr(part, "name", part)
)
def test_commands_of_a_page_run_one_after_the_other(
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
        assert exit_code() == 0, f"{line}\n{capsys.readouterr().err}"


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize(("page", "code"), blocks("python"))
def test_programs_in_the_docs_run(page: str, code: str, folder: Path) -> None:
    process = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True
    )
    assert process.returncode == 0, f"{code}\n{process.stdout}\n{process.stderr}"


@pytest.mark.parametrize(("page", "text"), blocks("json"))
def test_json_in_the_docs_is_json(page: str, text: str) -> None:
    assert json.loads(text)


@pytest.mark.parametrize(("page", "text"), blocks("toml"))
def test_toml_in_the_docs_is_toml(page: str, text: str) -> None:
    assert tomllib.loads(text)


# -- requests of the docs ----------------------------------------------------------------


def requests_of(page: str) -> list[tuple[str, str, dict[str, str], str | None]]:
    """The `curl` lines of a page: method, path, headers and body."""
    found = []
    for name, text in blocks("sh"):
        commands = shlex.split(text, comments=True) if name == page else []
        for start in [n for n, word in enumerate(commands) if word == "curl"]:
            end = next(
                (n for n in range(start + 1, len(commands)) if commands[n] == "curl"), len(commands)
            )
            found.append(_request(commands[start + 1 : end]))
    return found


def _request(words: list[str]) -> tuple[str, str, dict[str, str], str | None]:
    method, headers, body, path = "", {}, None, ""
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
    return method or ("POST" if body else "GET"), path, headers, body


def test_requests_in_the_docs_are_answered(place: str) -> None:
    service = Service(settings_place(place))
    try:
        with TestClient(make_app(service), base_url="http://127.0.0.1:8765") as client:
            asked = requests_of("service.md")
            for method, path, headers, body in asked:
                answer = client.request(method, path, headers=headers, content=body)
                assert answer.status_code in (200, 201), f"{method} {path}: {answer.text}"
    finally:
        service.close()
    assert len(asked) > 10


def test_the_careful_way_of_setting_up_a_server_works_as_written(database: str, user: str) -> None:
    """An administrator runs the SQL of the page; the programs' role then does its work, and no more."""
    name = f"docs_{user[-12:]}"
    first, second = (text for page, text in blocks("sql") if page == "postgres.md")
    changed = {"recollect_login": name, "create database recollect ": f"create database {name} "}

    def as_here(text: str) -> str:
        for old, new in changed.items():
            text = text.replace(old, new)
        return text

    parts = psycopg.conninfo.conninfo_to_dict(database)
    with psycopg.connect(database, autocommit=True) as administrator:
        try:
            for statement in as_here(first).split(";"):
                if statement.strip():
                    administrator.execute(statement)
            prepared = postgres.address(parts | {"dbname": name})
            recollect.open(prepared, user="setup", background=False).close()
            administrator.execute(as_here(second))
            programs = postgres.address(
                parts | {"dbname": name, "user": name, "password": "a long secret"}
            )
            with recollect.open(
                programs.replace(" ", "%20"), user="ann", background=False
            ) as library:
                library.add_conversation("c", messages=[{"role": "user", "content": "walrus"}])
                assert library.search("walrus").total == 1
                assert not any(
                    "recollect_search" in line for line in library._store.missing_features
                )
        finally:
            administrator.execute(f"drop database if exists {name} with (force)")
            administrator.execute(f"drop role if exists {name}")


def test_shell_lines_of_the_readme_are_commands_that_exist() -> None:
    known = set(_commands())
    for _, text in blocks("sh"):
        for used in re.findall(r"(?<!/)\brecollect ([a-z]+)\b(?!:)", text):
            assert used in known


def _commands() -> dict[str, object]:
    actions = parser()._subparsers._group_actions  # type: ignore[union-attr]
    return dict(actions[0].choices)  # type: ignore[arg-type]


def test_every_command_is_documented_and_has_examples() -> None:
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    for name, command in _commands().items():
        assert f"recollect {name}" in text, name
        if name != "mcp":
            assert f"recollect {name}" in command.format_help().split("examples:")[1], name  # type: ignore[attr-defined]


def test_every_setting_and_limit_is_documented() -> None:
    page = runpy.run_path(str(ROOT / "tools/settings_page.py"))["page"]()
    text = (ROOT / "docs/settings.md").read_text(encoding="utf-8")
    assert text == page, "run: python tools/settings_page.py"


def test_links_between_pages_lead_somewhere() -> None:
    for page in [*PAGES, ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md"]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_version_is_the_same_everywhere() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert project["version"] == __version__ == re.findall(r"^## (\S+)", changelog, re.MULTILINE)[0]
