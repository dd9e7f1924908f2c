"""Uploads over REST: progress, receipts and undo."""

from __future__ import annotations

import json
import shutil
import socket
import stat
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sites import Site
from starlette.testclient import TestClient

import recollect
from recollect.jobs.handlers import ImportHandler
from recollect.serve.app import make_app
from recollect.serve.http import import_jobs as jobs
from recollect.serve.http.import_jobs import DONE, FAILED, QUEUED, ImportJob, safe_name
from recollect.serve.http.service import Service, ServiceConfig
from recollect.serve.rest import import_routes
from recollect.settings import LIMITS, default_user
from recollect.settings import place as library_place
from recollect.store.shared import uploads
from recollect.store.shared.uploads import UploadFolder

EXPORT = json.dumps(
    {
        "conversations": [
            {
                "id": "up",
                "title": "Uploaded",
                "messages": [{"id": "1", "role": "user", "content": "from a file"}],
            },
            {"id": "bad", "title": "Broken"},
        ]
    }
).encode()


uploads_are_files = pytest.mark.parametrize("place", ["sqlite"], indirect=True)
"""On PostgreSQL, uploads are rows, so that every server has them."""


def send(client: TestClient, name: str, data: bytes, headers: dict[str, str] | None = None) -> Any:
    return client.post(
        "/api/imports",
        params={"name": name},
        content=data,
        headers={"Content-Type": "application/octet-stream", "Accept": "*/*", **(headers or {})},
    )


def finish_job(service: Service, id: str) -> ImportJob:
    """Wait for an import to finish. Returns it."""
    job = service.jobs.get(id)
    while job is None or not job.is_finished:
        threading.Event().wait(0.01)
        job = service.jobs.get(id)
    return service.imports.get(job.user, id)


def files(service: Service) -> list[str]:
    """What is left of uploads: names of files, or ids of jobs in the database."""
    storage = service.imports.uploads
    if not isinstance(storage, uploads.UploadTable):
        if not storage.folder.exists():
            return []
        return [file.name for file in storage.folder.iterdir()]
    rows = service.shared.execute(uploads.TABLES, "select distinct job from upload_chunk")
    return [job for (job,) in rows]


def wait_for_removal(service: Service) -> None:
    while files(service):
        threading.Event().wait(0.01)


def test_an_upload_is_imported_and_has_a_receipt(
    client: TestClient, service: Service, library: recollect.Library
) -> None:
    answer = send(client, "conversations.json", EXPORT)
    assert answer.status_code == 202
    job = finish_job(service, answer.json()["id"])
    assert job.state == DONE
    shape = client.get(f"/api/imports/{job.id}").json()
    assert shape["state"] == "done"
    assert shape["done"] == shape["total"] == len(EXPORT)
    (file,) = shape["receipt"]["files"]
    assert file["conversations"]["new"] == 1
    assert sum(file["conversations"]["failed"].values()) == 1
    assert library.conversation("up").title == "Uploaded"
    wait_for_removal(service)
    assert [j["id"] for j in client.get("/api/imports").json()["imports"]] == [job.id]


@uploads_are_files
def test_an_interrupted_upload_leaves_no_file(site: Site) -> None:
    host, port = site.url.removeprefix("http://").split(":")
    head = (
        f"POST /api/imports?name=a.json HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Length: 1000\r\n"
        "Content-Type: application/octet-stream\r\n\r\n"
    )
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(head.encode() + b"[1, 2")
        while not files(site.service):
            threading.Event().wait(0.01)
    wait_for_removal(site.service)
    assert site.service.imports.list_for(default_user()) == []


def test_an_import_can_be_undone(
    client: TestClient, service: Service, library: recollect.Library
) -> None:
    receipt = finish_job(service, send(client, "conversations.json", EXPORT).json()["id"]).receipt
    assert receipt
    answer = client.post(
        f"/api/receipts/{receipt.id}/undo", headers={"Content-Type": "application/json"}
    )
    assert answer.status_code == 200
    assert answer.json()["undone_at"]
    assert library.conversation_page() == ([], 0)
    assert "undone" in client.get("/imports").text
    assert client.post("/api/receipts/999/undo").status_code == 404


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("notes.xyz", b"just text", "no known format"),
        ("export.zip", b"not a zip", "not a readable zip"),
    ],
)
def test_a_file_that_cannot_be_read_fails_with_a_reason(
    client: TestClient, service: Service, name: str, data: bytes, reason: str
) -> None:
    job = finish_job(service, send(client, name, data).json()["id"])
    assert job.state == FAILED
    assert reason in job.error
    assert "uploads" not in job.error and "recollect-import" not in job.error
    assert name in job.error
    wait_for_removal(service)


def test_an_empty_file_is_rejected(client: TestClient, service: Service) -> None:
    answer = send(client, "conversations.json", b"")
    assert answer.status_code == 400
    assert "empty" in answer.json()["detail"]
    wait_for_removal(service)
    assert send(client, "", b"x").status_code == 400


def test_a_file_over_the_limit_is_rejected_and_leaves_no_file(
    client: TestClient, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Small:
        upload_bytes = 10

    monkeypatch.setattr(import_routes, "LIMITS", Small)

    def pieces() -> Iterator[bytes]:
        yield b"x" * 8
        yield b"y" * 8

    answer = client.post("/api/imports?name=a.json", content=pieces(), headers={"Accept": "*/*"})
    assert answer.status_code == 413
    wait_for_removal(service)


@uploads_are_files
def test_a_full_disk_is_reported_before_anything_is_written(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Full:
        free = 1_000

    monkeypatch.setattr(shutil, "disk_usage", lambda folder: Full)
    assert send(client, "a.json", EXPORT).status_code == 507


def test_a_job_belongs_to_its_user(
    client: TestClient, service: Service, user: str, new_user_key: Callable[..., str]
) -> None:
    ann = {"Authorization": f"Bearer {new_user_key(user=f'{user}-ann')}", "Accept": "*/*"}
    bob = {"Authorization": f"Bearer {new_user_key(user=f'{user}-bob')}", "Accept": "*/*"}
    id = send(client, "conversations.json", EXPORT, ann).json()["id"]
    finish_job(service, id)
    assert client.get(f"/api/imports/{id}", headers=ann).status_code == 200
    assert client.get(f"/api/imports/{id}", headers=bob).status_code == 404
    assert client.get("/api/imports", headers=bob).json() == {"imports": []}
    assert client.get("/api/receipts", headers=bob).json()["receipts"] == []
    assert client.post("/api/receipts/1/undo", headers=bob).status_code == 404
    reader = {"Authorization": f"Bearer {new_user_key(user=f'{user}-ann', scopes=('read',))}"}
    assert send(client, "conversations.json", EXPORT, reader).status_code == 403
    assert client.post("/api/receipts/1/undo", headers=reader).status_code == 403


def test_the_number_of_waiting_imports_per_user_is_limited(
    client: TestClient, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "LIMITS", replace(LIMITS, waiting_imports=0))
    answer = send(client, "conversations.json", EXPORT)
    assert answer.status_code == 429
    assert answer.headers["retry-after"] == "30"


@uploads_are_files
def test_uploads_are_readable_by_the_server_only(service: Service) -> None:
    with service.imports.upload("ann", "../../etc/passwd.json") as upload:
        upload.write(b"[]")
        assert isinstance(service.imports.uploads, UploadFolder)
        (folder,) = service.imports.uploads.folder.iterdir()
        (file,) = folder.iterdir()
        assert file.name == "passwd.json"
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    wait_for_removal(service)


@pytest.mark.full
def test_imports_of_one_user_run_one_after_the_other(
    service: Service, user: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    go, started, running, highest = threading.Event(), threading.Event(), [0], [0]
    real = ImportHandler.run

    def slow(*arguments: Any) -> Any:
        running[0] += 1
        highest[0] = max(highest[0], running[0])
        started.set()
        go.wait()
        try:
            return real(*arguments)
        finally:
            running[0] -= 1

    monkeypatch.setattr(ImportHandler, "run", slow)
    queue = []
    for _ in range(3):
        with service.imports.upload(user, "a.json") as upload:
            upload.write(EXPORT)
            queue.append(upload.accept())
    started.wait()
    states = [service.imports.get(user, job.id).state for job in queue[1:]]
    assert states == [QUEUED, QUEUED]
    go.set()
    assert [finish_job(service, job.id).state for job in queue] == [DONE] * 3
    assert highest[0] == 1


def test_an_accepted_upload_survives_a_restart(
    place: str, user: str, library: recollect.Library
) -> None:
    first = Service(library_place(place), ServiceConfig())
    first.drain()  # the server stops before the import begins
    with first.imports.upload(default_user(), "conversations.json") as upload:
        upload.write(EXPORT)
        id = upload.accept().id
    assert first.imports.get(default_user(), id).state == QUEUED
    first.close()
    again = Service(library_place(place), ServiceConfig(rate_per_minute=0))
    with TestClient(make_app(again), "http://127.0.0.1:8765"):
        assert finish_job(again, id).state == DONE
        wait_for_removal(again)
    again.close()
    assert library.conversation("up").title == "Uploaded"


def test_unfinished_uploads_are_removed_after_a_day(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = service.imports.uploads.create("leftover", "half.json")
    writer.write(b"{" * uploads.CHUNK_BYTES)  # and then the server is killed
    service.imports.uploads.remove_stale(set())
    assert files(service) == ["leftover"]
    monkeypatch.setattr(uploads, "_STALE_SECONDS", -1)
    service.imports.uploads.remove_stale({"leftover"})
    assert files(service) == ["leftover"], "its job is not finished"
    service.imports.uploads.remove_stale(set())
    assert not files(service)
    writer.close()


@given(st.text())
def test_file_names_are_made_safe(name: str) -> None:
    clean = safe_name(name)
    assert clean == safe_name(clean)
    assert clean not in ("", ".", "..", "upload.json")
    assert "/" not in clean
    assert len(clean.encode()) <= 145


def test_file_extensions_are_kept() -> None:
    assert safe_name("a/b\\My export.ZIP") == "My export.ZIP"
    assert safe_name("x" * 500 + ".jsonl").endswith("x.jsonl")
    assert safe_name("..") == "upload"
