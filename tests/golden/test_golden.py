"""The answers to about 2,000 calls are those in tests/golden/answers.

If a change of them is meant, `make golden` writes them anew; review the diff like code.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator
from pathlib import Path

import golden
import pytest
from starlette.testclient import TestClient

import recollect
from recollect.serve.app import make_app
from recollect.serve.http.service import Service, ServiceConfig
from recollect.settings import place

WRITE = os.environ.get("RECOLLECT_GOLDEN") == "write"
FULL = Path(__file__).parents[2] / "build" / "golden"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("golden") / "home"
    golden.fill(home)
    return home


@pytest.fixture
def library(home: Path) -> Iterator[recollect.Library]:
    with recollect.open(home, background=False) as library:
        yield library


@pytest.fixture
def client(home: Path) -> Iterator[TestClient]:
    service = Service(place(str(home)), ServiceConfig(rate_per_minute=0))
    address = ("127.0.0.1", 50_000)
    with TestClient(make_app(service), "http://127.0.0.1:8765", client=address) as client:
        yield client
    service.drain()
    service.close()


def test_answers_of_the_library(home: Path, library: recollect.Library) -> None:
    check("library", golden.library_calls(library), home)


@pytest.mark.full
def test_answers_of_rest(library: recollect.Library, home: Path, client: TestClient) -> None:
    check("rest", golden.rest_calls(client, library), home)


@pytest.mark.full
def test_answers_of_mcp(library: recollect.Library, home: Path, client: TestClient) -> None:
    check("mcp", golden.mcp_calls(client, library), home)


@pytest.mark.full
def test_answers_of_the_command_line(
    home: Path, library: recollect.Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECOLLECT_HOME", str(home))
    monkeypatch.setenv("COLUMNS", "100")
    check("cli", golden.cli_calls(golden.run_command, library), home)


def check(name: str, calls: Iterator[golden.Call], home: Path) -> None:
    with recollect.open(home, background=False) as library:
        names = golden.message_names(library)
    answers = {call: golden.stable(call.answer(), home, names) for call in calls}
    text = "\n".join(golden.entry(call, answer) for call, answer in answers.items())
    answers_file = golden.ANSWERS / f"{name}.txt"
    if WRITE:
        FULL.mkdir(parents=True, exist_ok=True)
        whole = "\n".join(f"> {call.name}\n{answer}\n" for call, answer in answers.items())
        (FULL / answers_file.name).write_text(whole, encoding="utf-8")
        answers_file.parent.mkdir(exist_ok=True)
        answers_file.write_text(text, encoding="utf-8")
    difference = difflib.unified_diff(
        answers_file.read_text(encoding="utf-8").splitlines(),
        text.splitlines(),
        "answers",
        "now",
        n=4,
    )
    assert not (lines := list(difference)), "\n".join(lines[:60])
