"""Imports of uploads that are slow, that are stopped, or that bring the server down."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import httpx
import pytest

from recollect.importers.sandbox import files, process
from recollect.importers.sandbox.bounds import Bounds
from recollect.serve.http.jobs import DONE, QUEUED, RUNNING, Job
from recollect.serve.http.service import Service

ATTACKS = str(Path(__file__).parents[1] / "attacks")
HARMLESS = b"# Walrus"


@pytest.fixture(autouse=True)
def hostile_format(monkeypatch: pytest.MonkeyPatch) -> None:
    """A format that does what a file says, without a limit on its time."""
    monkeypatch.setattr(process, "MODULE", "hostile_worker")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([ATTACKS, os.environ.get("PYTHONPATH", "")]))
    bounds = replace(Bounds(), cpu_seconds=600)
    monkeypatch.setattr(files, "Bounds", lambda: bounds)


@pytest.fixture
def services(tmp_path: Path) -> Iterator[Callable[[str], Service]]:
    instances: list[Service] = []

    def open_service(name: str) -> Service:
        instances.append(Service(tmp_path / name))
        return instances[-1]

    yield open_service
    for service in instances:
        service.close()


def upload(service: Service, user: str, name: str, data: bytes) -> Job:
    with service.jobs.upload(user, name) as upload:
        upload.write(data)
        return upload.accept()


def wait_until(condition: Callable[[], bool]) -> None:
    for _ in range(6_000):
        if condition():
            return
        threading.Event().wait(0.01)
    pytest.fail("the condition did not become true")


def has_attempts(service: Service, job: Job, number: int) -> bool:
    note = json.loads((service.jobs.folder / job.id / "upload.json").read_text())
    return bool(note["attempts"] == number)


def test_a_hostile_upload_does_not_block_other_users(services: Callable[[str], Service]) -> None:
    service = services("home")
    hostile = upload(service, "mallory", "a.hostile", b"loop")
    upload(service, "mallory", "b.hostile", b"loop")
    harmless = upload(service, "ann", "note.md", HARMLESS)
    wait_until(lambda: harmless.is_finished)
    assert harmless.state == DONE
    wait_until(lambda: hostile.state == RUNNING)


def test_a_shutdown_stops_imports_and_the_next_start_resumes_them(
    services: Callable[[str], Service],
) -> None:
    service = services("home")
    job = upload(service, "ann", "a.hostile", b"loop")
    wait_until(lambda: job.state == RUNNING)
    wait_until(lambda: has_attempts(service, job, 1))
    service.drain()
    assert job.state == QUEUED
    assert has_attempts(service, job, 0), "a shutdown is not the fault of the file"
    replace_upload(service.jobs.folder / job.id, "note.md", HARMLESS)
    again = services("home")
    again.jobs.resume()
    wait_until(lambda: again.jobs.get("ann", job.id).is_finished)
    assert again.jobs.get("ann", job.id).state == DONE


def replace_upload(folder: Path, name: str, data: bytes) -> None:
    note = json.loads((folder / "upload.json").read_text())
    (folder / "upload.json").write_text(json.dumps(note | {"name": name}))
    (folder / name).write_bytes(data)


def test_an_upload_that_brings_the_server_down_is_given_up(
    services: Callable[[str], Service], tmp_path: Path
) -> None:
    service = services("home0")
    job = upload(service, "ann", "a.hostile", b"loop")
    for number in (1, 2):
        wait_until(partial(has_attempts, service, job, number))
        # What a killed server leaves behind.
        shutil.copytree(service.jobs.folder, tmp_path / f"home{number}" / "uploads")
        service.drain()
        service = services(f"home{number}")
        service.jobs.resume()
    job = service.jobs.get("ann", job.id)
    wait_until(lambda: job.is_finished)
    reason = "a.hostile was not imported: the server stopped unexpectedly during each of 2 attempts"
    assert job.receipt is not None
    assert job.receipt.left_out.failed == {reason: 1}
    with service.libraries.borrow("ann") as library:
        assert library.receipts()[0].left_out.failed == {reason: 1}
    assert not any(service.jobs.folder.iterdir())


# -- real servers ---

SERVER = """
import sys
from recollect.importers.sandbox import process
process.MODULE = "hostile_worker"
from recollect.cli import main
sys.exit(main(["serve", "--home", sys.argv[1], "--port", "0", "--json"]))
"""


class Server:
    def __init__(self, home: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", SERVER, str(home)], stdout=subprocess.PIPE
        )
        assert self.process.stdout is not None
        self.address = json.loads(self.process.stdout.readline())["address"]

    def upload(self, name: str, data: bytes) -> None:
        url = f"{self.address}/api/imports"
        assert httpx.post(url, params={"name": name}, content=data, timeout=60).status_code == 202

    def has_states(self, *states: str) -> bool:
        imports = httpx.get(f"{self.address}/api/imports", timeout=60).json()["imports"]
        return [job["state"] for job in imports] == list(states)

    def stop(self, number: int) -> int:
        self.process.send_signal(number)
        status = self.process.wait(10)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return status


@pytest.mark.full
def test_a_server_answers_during_a_hostile_import_and_stops_at_once(tmp_path: Path) -> None:
    server = Server(tmp_path / "home")
    server.upload("a.hostile", b"sleep")
    wait_until(partial(server.has_states, "running"))
    assert httpx.get(f"{server.address}/readyz", timeout=5).status_code == 200
    assert server.stop(signal.SIGTERM) == 0
    again = Server(tmp_path / "home")
    wait_until(partial(again.has_states, "running"))
    assert again.stop(signal.SIGTERM) == 0


@pytest.mark.full
def test_a_killed_server_tries_an_upload_once_more_and_then_gives_up(tmp_path: Path) -> None:
    server = Server(tmp_path / "home")
    server.upload("a.hostile", b"sleep")
    for _ in range(2):
        wait_until(partial(server.has_states, "running"))
        server.stop(signal.SIGKILL)
        server = Server(tmp_path / "home")
    wait_until(partial(server.has_states, "done"))
    receipts = httpx.get(f"{server.address}/api/receipts", timeout=60).json()["receipts"]
    (reason,) = receipts[0]["left_out"]["failed"]
    assert "2 attempts" in reason
    assert server.stop(signal.SIGTERM) == 0
