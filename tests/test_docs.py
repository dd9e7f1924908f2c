"""The docs are correct: their programs run, and every command and setting is documented."""

from __future__ import annotations

import argparse
import importlib
import io
import json
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import postgres
import psycopg
import pytest
from starlette.testclient import TestClient

import recollect
from recollect import __main__, __version__, cli
from recollect.cli import main, parser
from recollect.serve.app import make_app
from recollect.serve.http.service import Service
from recollect.serve.mcp.toolsets import all_tools
from recollect.settings import place as settings_place

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
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
COMMAND = re.compile(r"(?<![\w/])recollect (?=[a-z])(?!http)([^;#>|\n]*)")
"""A command in a line of shell code, also after variables, in loops and behind other programs."""
SERVERS = ("serve", "worker", "mcp", "watch")
ELSEWHERE = re.compile(
    r"\b(FROM|FILE)\b|postgresql://|/mnt/|/media/|~/.local|\b[0-9a-f]{12}\b|2026|…"
    r"|crypt|phrase|gte-small|--user ann|service install|postgres (prepare|status|spread|move-user)"
)
"""Commands that name other computers, disks, keys or backups, need more packages, or change the
computer."""
EMPTY = re.compile(
    r"^(No (messages?|conversations|more|results|observations)\b|Nothing )"
    r'|^  "(hits|results)": \[\]',
    re.MULTILINE,
)
"""What commands print if they find nothing. An example that finds nothing says so in a comment."""
FINDS_NOTHING = "# finds nothing"


def name_of(page: Path) -> str:
    """The path of a page below `docs`; the README of the repository is `README`."""
    if page == ROOT / "README.md":
        return "README"
    return page.relative_to(DOCS).as_posix()


def page_text(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def blocks(language: str) -> list[tuple[str, str]]:
    return [
        (name_of(page), text)
        for page in PAGES
        for kind, text in BLOCK.findall(page.read_text(encoding="utf-8"))
        if kind == language
    ]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with the examples that the docs use, and a person's files in `~`."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    person = tmp_path / "person"
    (person / "Downloads").mkdir(parents=True)
    with zipfile.ZipFile(person / "Downloads/chatgpt-export.zip", "w") as archive:
        archive.write(ROOT / "examples/chatgpt/conversations.json", "conversations.json")
    shutil.copytree(ROOT / "examples/claude-code", person / ".claude/projects/garden")
    shutil.copytree(ROOT / "examples/codex", person / ".codex/sessions")
    monkeypatch.setenv("HOME", str(person))
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


def words_of(line: str) -> list[str]:
    """The words of a command, as a shell passes them on."""
    words = shlex.split(line, comments=True)
    return [os.path.expanduser(word) for word in words]  # noqa: PTH111 - not always a path


def run_line(line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    """Run a command of the docs and return its output."""
    program, *arguments = words_of(line)
    assert program == "recollect"
    monkeypatch.setattr(sys, "argv", [program, *arguments])
    code = run_main()
    output, errors = capsys.readouterr()
    is_preview = "Add --yes" in errors  # where nobody can be asked, it counts as a failure
    assert code == 0 or is_preview, f"{line}\n{errors}"
    return output


def import_examples() -> None:
    examples = [str(path) for path in (ROOT / "examples").iterdir() if path.is_dir()]
    assert cli.main(["import", *examples]) == 0


@pytest.mark.usefixtures("place", "folder")
@pytest.mark.parametrize(
    ("place", "page"),
    STORES_AND_PAGES,
    indirect=["place"],
    ids=lambda part: name_of(part) if isinstance(part, Path) else part,
)
def test_the_commands_of_a_page_run_in_order(
    page: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [
        line[2:]
        for name, text in blocks("console")
        if name == name_of(page)
        for line in text.splitlines()
        if line.startswith("$ ")
    ]
    if lines and not lines[0].startswith("recollect import"):
        import_examples()
    for line in lines:
        capsys.readouterr()
        output = run_line(line, monkeypatch, capsys)
        if "search" in line or "forget" in line or "related" in line:
            is_empty = EMPTY.search(output) is not None
            assert is_empty == (FINDS_NOTHING in line), f"{line}\n{output}"


def shell_commands() -> list[tuple[str, str]]:
    """Every command of Recollect in shell code, with its page."""
    return [
        (page, f"recollect {words.rstrip()}")
        for page, text in blocks("sh")
        for words in COMMAND.findall(text)
    ]


def test_shell_commands_in_the_docs_have_valid_arguments(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for page, line in shell_commands():
        words = words_of(line)[1:]
        if words[0] == "mcp":
            continue  # has a parser of its own, which the commands of agents.md use
        try:
            parser(words[0]).parse_args(words)
        except SystemExit:
            pytest.fail(f"{page}: {line}\n{capsys.readouterr().err}")


@pytest.mark.full
@pytest.mark.usefixtures("place", "folder")
@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
@pytest.mark.parametrize("page", sorted({page for page, _ in shell_commands()}))
def test_shell_commands_in_the_docs_run(
    page: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import_examples()
    for name, line in shell_commands():
        if name == page and line.split()[1] not in SERVERS and not ELSEWHERE.search(line):
            run_line(line, monkeypatch, capsys)


@pytest.mark.full
@pytest.mark.usefixtures("place", "folder")
@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    "line", sorted({line for _, line in shell_commands() if line.split()[1] == "serve"})
)
def test_servers_in_the_docs_start(line: str, place: str) -> None:
    if "--host" in line or "--base-url" in line:
        cli.main(["keys", "add", "laptop", "--home", place])
    command = [sys.executable, "-m", "recollect", *words_of(line)[1:], "--home", place]
    command += ["--json", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            address = json.loads(server.stdout.readline())["address"]
            if "--base-url" in line:
                assert address in line  # the address of the proxy
            else:
                assert httpx.get(f"{address}/healthz").status_code == 200
        finally:
            server.terminate()


def programs() -> list[Any]:
    """Those of `agents-sdk.md` import large packages, so only `make test-all` runs them."""
    return [
        pytest.param(page, code, marks=[pytest.mark.full] if page == "agents-sdk.md" else [])
        for page, code in blocks("python")
    ]


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize(("page", "code"), programs())
def test_the_programs_in_the_docs_run(page: str, code: str, folder: Path) -> None:
    program = folder / "program.py"
    program.write_text(code, encoding="utf-8")
    runpy.run_path(str(program), run_name="__main__")


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


@pytest.mark.full
def test_the_documented_setup_with_two_roles_works(database: str, user: str) -> None:
    """An administrator runs the SQL and the command; then programs can use the role."""
    name = f"docs_{user[-12:]}"
    (script,) = (text for page, text in blocks("sql") if page == "postgres.md")

    def rename(sql: str) -> str:
        sql = sql.replace("recollect_login", name)
        return sql.replace("create database recollect ", f"create database {name} ")

    parts = psycopg.conninfo.conninfo_to_dict(database)
    with psycopg.connect(database, autocommit=True) as administrator:
        try:
            for statement in rename(script).split(";"):
                if statement.strip():
                    administrator.execute(statement)
            setup_url = postgres.address(parts | {"dbname": name})
            pattern = r"recollect (postgres prepare .*) --home postgresql:"
            (command,) = re.findall(pattern, page_text("postgres.md"))
            assert main([*rename(command).split(), "--home", setup_url]) == 0
            login = {"dbname": name, "user": name, "password": "a long secret"}
            url = postgres.address(parts | login).replace(" ", "%20")
            with recollect.open(url, user="ann", background=False) as library:
                library.add_conversation("c", messages=[{"role": "user", "content": "walrus"}])
                assert library.search("walrus").total == 1
        finally:
            administrator.execute(f"drop database if exists {name} with (force)")
            administrator.execute(f"drop role if exists {name}")


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


def test_every_page_is_in_the_table_of_contents() -> None:
    index = (DOCS / "README.md").read_text(encoding="utf-8")
    for page in DOCS.rglob("*.md"):
        name = name_of(page)
        is_part = page.parent != DOCS and (page.parent / "README.md").exists()
        assert f"]({name})" in index or is_part or name == "README.md", name


def anchors(page: Path) -> set[str]:
    """The names of a page's headings in links, as GitHub and the site make them."""
    text = re.sub(r"(?ms)^```.*?^```", "", page.read_text(encoding="utf-8"))
    headings = re.findall(r"(?m)^#+ (.*)$", text)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in headings}


def test_links_lead_to_existing_files_and_headings() -> None:
    for page in [*PAGES, *ROOT.glob("*.md"), ROOT / "bench/README.md"]:
        text = page.read_text(encoding="utf-8")
        for name, fragment in re.findall(r"\]\(([^)#:]*)#?([^):]*)\)", text):
            target = page
            if name:
                target = page.parent / name
            assert target.exists(), f"{page.name}: {name}"
            if fragment:
                assert fragment in anchors(target), f"{page.name}: {name}#{fragment}"


# -- the site -----------------------------------------------------------------


@pytest.fixture(scope="module")
def reference() -> ModuleType:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "tools")
        return importlib.import_module("docs_reference")


def test_the_reference_has_every_command_tool_and_name(reference: ModuleType) -> None:
    commands = reference.cli_page()
    for name in reference.commands():
        assert f"# recollect {name}\n" in commands
    assert "--profile" in commands
    tools = reference.mcp_page()
    assert all(f"### `{tool.name}`\n" in tools for tool in all_tools())
    names = reference.python_page()
    assert all(f"}} {name}" in names for name in recollect.__all__)
    assert "{py:method} search(" in names


@pytest.mark.full
@pytest.mark.skipif(
    not (ROOT / "build/tools/bin/sphinx-build").exists(), reason="`make tools` installs Sphinx"
)
def test_the_site_builds_without_warnings(tmp_path: Path) -> None:
    command = [sys.executable, ROOT / "tools/docs.py", tmp_path / "site"]
    process = subprocess.run(command, capture_output=True, text=True)
    assert process.returncode == 0, process.stdout + process.stderr
    site = tmp_path / "site"
    for page in PAGES[1:]:
        name = name_of(page).removesuffix(".md") if name_of(page) != "README.md" else "index"
        assert (site / f"{name}.html").exists(), name
    routes = (site / "reference/rest.html").read_text(encoding="utf-8")
    for path in json.loads((site / "openapi.json").read_text(encoding="utf-8"))["paths"]:
        assert path.replace("&", "&amp;") in routes
    assert "tomato" in (site / "getting-started.html").read_text(encoding="utf-8")
    assert "tomato" in (site / "searchindex.js").read_text(encoding="utf-8")
    html = "".join(file.read_text(encoding="utf-8") for file in site.rglob("*.html"))
    loaded = re.findall(r'<(?:script|link|img)[^>]+(?:src|href)="(https?://[^"]+)"', html)
    assert not loaded, "the site loads nothing from other servers"


def test_the_version_is_the_same_everywhere() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    releases = re.findall(r"^## (\d\S*)", changelog, re.MULTILINE)  # without "Unreleased"
    assert project["version"] == __version__ == releases[0]


def test_every_module_named_in_the_docs_exists() -> None:
    pages = [ROOT / "ARCHITECTURE.md", ROOT / "bench/README.md", *(ROOT / "docs").rglob("*.md")]
    names = {
        name
        for page in pages
        for name in re.findall(r"`([\w/]+/\w+\.py)`", page.read_text(encoding="utf-8"))
    }
    assert len(names) > 20
    folders = (ROOT / "recollect", ROOT)
    missing = [n for n in names if not any((folder / n).exists() for folder in folders)]
    assert missing == []
