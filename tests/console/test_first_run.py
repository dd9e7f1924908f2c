"""The first run: an empty library offers the conversations on this computer, to its user only."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from services import Service, make_app, make_service
from starlette.testclient import TestClient

import recollect

PORT = 8765
EXAMPLES = Path(__file__).parents[2] / "examples"
pytestmark = pytest.mark.parametrize("place", ["sqlite"], indirect=True)


def prepare_computer(me: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A home folder with a session of Claude Code and an export in the downloads."""
    sessions = me / ".claude" / "projects" / "garden"
    sessions.mkdir(parents=True)
    shutil.copy(next((EXAMPLES / "claude-code").iterdir()), sessions)
    (me / "Downloads").mkdir()
    shutil.make_archive(str(me / "Downloads" / "chatgpt-export"), "zip", EXAMPLES / "chatgpt")
    monkeypatch.setenv("HOME", str(me))
    for variable in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(variable, raising=False)


@pytest.fixture(autouse=True)
def computer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    prepare_computer(tmp_path / "me", monkeypatch)
    return tmp_path / "me"


@pytest.fixture
def person(service: Service) -> Iterator[TestClient]:
    headers = {"Accept": "text/html"}
    with TestClient(
        make_app(service), f"http://127.0.0.1:{PORT}", headers=headers, client=("127.0.0.1", 5000)
    ) as client:
        yield client


def ids(page: str) -> list[str]:
    return [part.partition('"')[0] for part in page.split('name="id" value="')[1:]]


@pytest.mark.full
def test_an_empty_library_offers_what_is_on_this_computer(
    person: TestClient, service: Service, place: str
) -> None:
    page = person.get("/").text
    assert "Found 1 Claude Code session and chatgpt-export.zip in Downloads. Import all?" in page
    session, export = ids(page)
    response = person.post("/console/import-found", params={"id": [session, export]})
    names = [job["name"] for job in response.json()["imports"]]
    assert names == ["1 Claude Code session", "chatgpt-export.zip in Downloads"]
    while any(job["state"] != "done" for job in person.get("/api/imports").json()["imports"]):
        assert not any(job.error for job in service.imports.list_for("default"))
    with recollect.open(place, background=False) as library:
        assert len(library.receipts()) == 2
        assert {summary.source for summary in library.conversations()} == {"claude-code", "chatgpt"}
    assert "Found 1 Claude Code" not in person.get("/").text


def test_the_start_page_says_that_an_import_was_started(
    person: TestClient, service: Service
) -> None:
    transcripts = ids(person.get("/").text)
    service.drain()  # it stays in the queue
    assert person.post("/console/import-found", params={"id": transcripts}).status_code == 200
    page = person.get("/").text
    assert "<h1>Importing</h1>" in page and not ids(page)


def test_only_what_was_found_can_be_imported(person: TestClient) -> None:
    assert person.post("/console/import-found", params={"id": "/etc/passwd"}).status_code == 400
    assert person.post("/console/import-found").status_code in (400, 422)


def test_a_started_import_survives_a_restart(place: str, computer: Path) -> None:
    paths = [str(computer / ".claude" / "projects")]
    stopped = make_service(place)
    stopped.drain()  # it runs no jobs any more
    stopped.imports.import_local("default", "1 Claude Code session", paths)
    stopped.close()
    resumed = make_service(place)
    resumed.start_jobs()
    while not all(job.is_finished for job in resumed.imports.list_for("default")):
        threading.Event().wait(0.01)
    (job,) = resumed.imports.list_for("default")
    resumed.close()
    assert job.state == "done" and job.paths == tuple(paths)


@pytest.mark.parametrize("header", ["X-Forwarded-For", "Forwarded", "X-Real-IP"])
def test_nothing_is_revealed_through_a_proxy(person: TestClient, header: str) -> None:
    page = person.get("/", headers={header: "192.0.2.7"}).text
    assert "Claude Code session" not in page and "Your library is empty" in page


def test_nothing_is_revealed_to_users_with_keys_or_from_other_computers(
    person: TestClient, service: Service, new_user_key: Callable[..., str]
) -> None:
    address = f"http://127.0.0.1:{PORT}"
    (transcript, _) = ids(person.get("/").text)
    with TestClient(make_app(service), address, client=("192.0.2.7", 5000)) as stranger:
        assert "Claude Code session" not in stranger.get("/").text
        response = stranger.post("/console/import-found", params={"id": transcript})
        assert response.status_code == 403
    key = new_user_key(scopes=("read", "write", "admin"))
    headers = {"Authorization": f"Bearer {key}"}
    assert "Claude Code session" not in person.get("/", headers=headers).text
    response = person.post("/console/import-found", params={"id": transcript}, headers=headers)
    assert response.status_code == 403


def test_nothing_is_revealed_by_a_server_with_a_public_name(place: str) -> None:
    service = make_service(place, base_url="https://notes.example")
    with TestClient(
        make_app(service), f"http://127.0.0.1:{PORT}", client=("127.0.0.1", 5000)
    ) as client:
        assert "Claude Code session" not in client.get("/").text
    service.close()
