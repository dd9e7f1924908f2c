"""On a full disk, writes are refused with a reason, reading goes on, and it recovers by itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from disks import Disk, small_disk
from starlette.testclient import TestClient

import recollect
from recollect.cli import main
from recollect.errors import StorageFull
from recollect.places import keys
from recollect.serve.app import make_app
from recollect.serve.http.service import Service, ServiceConfig
from recollect.serve.identity.accounts import new_key
from recollect.store.postgres.server_errors import explain_error

LONG = "harbour crane " * 20_000


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    with small_disk(tmp_path / "disk") as disk:
        with recollect.open(disk.folder / "home") as library:
            add(library, "first", "a crane in the harbour")
        yield disk


def add(library: recollect.Library, id: str, content: str) -> None:
    library.add_conversation(id, messages=[{"role": "user", "content": content}])


def client_of(service: Service) -> TestClient:
    return TestClient(make_app(service), "http://127.0.0.1:8765", client=("127.0.0.1", 50_000))


def test_the_server_refuses_writes_with_507_and_goes_on_reading(disk: Disk) -> None:
    with closing(Service(disk.folder / "home", ServiceConfig(rate_per_minute=0))) as service:
        with client_of(service) as client:
            assert client.get("/api/v1/search?q=crane").json()["total"] == 1
            disk.fill()
            for method, path, body in (
                ("POST", "/conversations/first/messages", {"role": "user", "content": LONG}),
                ("PUT", "/conversations/first?title=Cranes", None),
                ("DELETE", "/conversations/first", None),
                ("POST", "/api/knowledge/notes", {"title": "x", "content": LONG}),
            ):
                response = client.request(method, path, json=body)
                assert response.status_code == 507, (path, response.text)
                assert response.json()["error"]["code"] == "STORAGE_FULL"
                assert "disk is full" in response.json()["detail"]
            assert client.get("/api/v1/search?q=crane").json()["total"] == 1
            assert client.get("/conversations/first").status_code == 200
            disk.free()
            body = {"role": "user", "content": "space again"}
            assert client.post("/conversations/first/messages", json=body).status_code < 300
            assert client.get("/api/v1/search?q=space").json()["total"] == 1
        service.drain()


def test_a_library_on_a_full_disk_is_opened_and_read(disk: Disk) -> None:
    disk.fill()
    with recollect.open(disk.folder / "home", background=True) as library:
        assert library.search("crane").total == 1
        assert library.conversation_page()[1] == 1
        assert library.stats()["messages"] == 1
        assert not library.verify().damaged
        with pytest.raises(StorageFull, match="disk is full"):
            add(library, "second", LONG)
        disk.free()
        add(library, "second", "the second crane")
        assert library.search("crane").total == 2


def test_people_sign_in_and_read_on_a_full_disk(
    disk: Disk, capsys: pytest.CaptureFixture[str]
) -> None:
    home = disk.folder / "home"
    with closing(keys(home)) as api_keys:
        text, _ = new_key(api_keys, "default", scopes=("read", "write"))
    disk.fill()
    assert main(["doctor", "--home", str(home)]) == 0
    assert "API keys" not in capsys.readouterr().out
    assert main(["keys", "add", "laptop", "--home", str(home)]) == 1
    assert "The disk is full, so nothing was written." in capsys.readouterr().err
    with closing(Service(home, ServiceConfig(rate_per_minute=0))) as service:
        with client_of(service) as browser:
            headers = {"Origin": "http://127.0.0.1:8765", "Accept": "text/html"}
            response = browser.post("/login", data={"key": text}, headers=headers)
            assert response.status_code == 200, response.text
            assert "crane" in browser.get("/conversations/first", headers=headers).text
            response = browser.post("/knowledge/notes", data={"title": "x"}, headers=headers)
            assert response.status_code == 507
            assert "disk is full" in response.text
            assert "Sessions" in browser.get("/settings", headers=headers).text
            browser.post("/logout", headers=headers)
            response = browser.get("/imports", headers=headers, follow_redirects=False)
            assert response.status_code == 303
        service.drain()


def test_tools_say_that_the_disk_is_full(disk: Disk) -> None:
    with closing(Service(disk.folder / "home", ServiceConfig(rate_per_minute=0))) as service:
        with client_of(service) as client:
            disk.fill()
            message = call(client, "msg_post", thread_id="first", author="a", content=LONG)
            assert "disk is full" in message
        service.drain()


def call(client: TestClient, tool: str, **arguments: Any) -> str:
    body = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": tool, "arguments": arguments},
    }
    headers = {"Accept": "application/json, text/event-stream"}
    return client.post("/mcp/bus", json=body, headers=headers).text


def test_a_full_disk_of_a_postgresql_server_is_the_same_error() -> None:
    error = explain_error(psycopg.errors.DiskFull("no space left on device"), "host/db")
    assert isinstance(error, StorageFull)
    assert "disk" in str(error)
