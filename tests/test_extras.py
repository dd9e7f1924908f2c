"""What works without extras, and what the rest says about the extra it needs."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest
from lazy_import import LazyModule
from mcp_server import Server, request
from packaging.utils import canonicalize_name

docx: Any = LazyModule("docx")

ROOT = Path(__file__).parents[1]
# Runs when an interpreter starts, also in the processes that it starts itself.
START = """
import sys
hidden = {modules}
class Finder:
    def __init__(self, finder):
        self.finder = finder
    def __getattr__(self, name):
        return getattr(self.finder, name)
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in hidden:
            return None
        return self.finder.find_spec(name, path, target)
sys.meta_path[:] = map(Finder, sys.meta_path)
"""


@pytest.fixture(scope="module")
def base_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A PYTHONPATH on which every installed module that does not belong to the base is hidden."""
    dependencies = runpy.run_path(str(ROOT / "tools/dependencies.py"))
    base = {"recollect", *dependencies["installation"]()}
    modules = {
        module
        for module, owners in packages_distributions().items()
        if not base.intersection(map(canonicalize_name, owners))
    }
    assert {"fastapi", "uvicorn", "lxml", "PIL", "psycopg", "onnxruntime"} <= modules
    folder = tmp_path_factory.mktemp("path")
    (folder / "sitecustomize.py").write_text(START.format(modules=modules))
    return os.pathsep.join([str(folder), str(ROOT)])


def base_environment(base_path: str) -> dict[str, str]:
    return os.environ | {"PYTHONPATH": base_path}


def run_base(base_path: str, *words: str, home: Path | str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "recollect", *words, "--home", str(home)]
    environment = base_environment(base_path)
    return subprocess.run(command, capture_output=True, text=True, env=environment)


@pytest.fixture(scope="module")
def home(base_path: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library with the examples, imported without extras."""
    place = tmp_path_factory.mktemp("base")
    examples = [str(path) for path in (ROOT / "examples").iterdir() if path.is_dir()]
    result = run_base(base_path, "import", *examples, home=place)
    assert result.returncode == 0, result.stderr
    return place


@pytest.mark.full
def test_chats_notes_and_transcripts_need_no_extra(base_path: str, home: Path) -> None:
    result = run_base(base_path, "search", "Kyoto", "--json", home=home)
    assert json.loads(result.stdout)["hits"], result.stderr


@pytest.mark.full
def test_agents_need_no_extra(base_path: str, home: Path) -> None:
    search = {"name": "recall_search", "arguments": {"query": "Kyoto"}}
    command = [sys.executable, "-m", "recollect", "mcp", "--home", str(home)]
    pipes = {
        "stdin": subprocess.PIPE,
        "stdout": subprocess.PIPE,
        "env": base_environment(base_path),
    }
    # The input stays open until the answers have come: a server whose client leaves waits for
    # seconds only, which is not enough on a busy machine.
    with subprocess.Popen(command, **pipes) as process:
        server = Server(process)
        server.send(request(1, "initialize", protocolVersion="2025-11-25"))
        server.send(request(2, "tools/call", **search))
        answers = [server.receive(), server.receive()]
        assert server.finish() == []
    assert [answer["id"] for answer in answers] == [1, 2]
    assert "Packing for Kyoto" in str(answers[1]["result"])


@pytest.mark.full
def test_a_document_without_its_extra_is_a_problem_and_the_rest_is_imported(
    base_path: str, tmp_path: Path
) -> None:
    files = tmp_path / "files"
    files.mkdir()
    document = docx.Document()
    document.add_paragraph("The lease ends in May.")
    document.save(str(files / "lease.docx"))
    (files / "shopping.md").write_text("Buy bread and olives.")
    library = tmp_path / "library"
    result = run_base(base_path, "import", str(files), "--json", home=library)
    assert "needs more packages: pip install 'recollect[documents]'" in result.stdout
    answer = run_base(base_path, "knowledge", "search", "olives", "--json", home=library)
    assert "shopping" in answer.stdout, answer.stderr


@pytest.mark.parametrize(
    ("command", "place", "extra"),
    [
        ("serve", "library", "server"),
        ("stats", "postgresql://localhost/recollect", "postgres"),
    ],
)
def test_a_command_without_its_extra_names_it(
    base_path: str,
    tmp_path: Path,
    command: str,
    place: str,
    extra: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run_base(base_path, command, home=place)
    assert result.returncode == 1
    assert f"pip install 'recollect[{extra}]'" in result.stderr
    assert "Traceback" not in result.stderr
