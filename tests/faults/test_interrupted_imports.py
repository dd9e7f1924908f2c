"""Imports of uploads that are slow, that are stopped, or that bring the server down."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import httpx
import pytest

from recollect.errors import StoreUnavailable
from recollect.importers.sandbox import parsing, process
from recollect.importers.sandbox.protocol import Bounds
from recollect.jobs.handlers import ImportHandler
from recollect.serve.http.import_jobs import DONE, QUEUED, RUNNING
from recollect.serve.http.service import Service
from recollect.store.shared.database import SharedDatabase, Tables
from recollect.store.shared.jobs import TABLES, Jobs
from recollect.store.sqlite.connection import connect

ATTACKS = str(Path(__file__).parents[1] / "attacks")
HARMLESS = b"# Walrus"


@pytest.fixture(autouse=True)
def hostile_format(monkeypatch: pytest.MonkeyPatch) -> None:
    """A format that does what a file says, without a limit on its time."""
    monkeypatch.setattr(process, "MODULE", "hostile_worker")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([ATTACKS, os.environ.get("PYTHONPATH", "")]))
    bounds = replace(Bounds(), cpu_seconds=600)
    monkeypatch.setattr(parsing, "Bounds", lambda: bounds)


@pytest.fixture
def services(tmp_path: Path) -> Iterator[Callable[[str], Service]]:
    instances: list[Service] = []

    def open_service(name: str) -> Service:
        instances.append(Service(tmp_path / name))
        return instances[-1]

    yield open_service
    for service in instances:
        service.close()


def upload(service: Service, user: str, name: str, data: bytes) -> str:
    with service.imports.upload(user, name) as upload:
        upload.write(data)
        return upload.accept().id


def wait_until(condition: Callable[[], bool]) -> None:
    for _ in range(6_000):
        if condition():
            return
        threading.Event().wait(0.01)
    pytest.fail("the condition did not become true")


def state(service: Service, id: str) -> str:
    job = service.jobs.get(id)
    assert job is not None
    return job.state


def attempts(service: Service, id: str) -> int:
    job = service.jobs.get(id)
    assert job is not None
    return job.attempts


def has_attempts(service: Service, id: str, number: int) -> bool:
    return attempts(service, id) == number


def has_finished_receipt(service: Service, user: str) -> bool:
    with service.libraries.borrow(user) as library:
        return any(receipt.finished_at for receipt in library.receipts())


def kill(service: Service) -> None:
    """Leave the database as a killed server does: the jobs run, and their leases expire."""
    service.runner._jobs = Jobs(Unreachable())
    service.drain()


class Unreachable(SharedDatabase):
    engine, now = "none", "0"

    def transaction(self, tables: Tables) -> NoReturn:
        raise StoreUnavailable("This server was killed.")

    def execute(self, tables: Tables, sql: str, values: Sequence[Any] = ()) -> NoReturn:
        raise StoreUnavailable("This server was killed.")

    def close(self) -> None:
        pass


def expire_leases(service: Service) -> None:
    service.shared.execute(TABLES, "update job set lease_until = 0 where state = 'running'")


def test_a_hostile_upload_does_not_block_other_users(services: Callable[[str], Service]) -> None:
    service = services("home")
    hostile = upload(service, "mallory", "a.hostile", b"loop")
    upload(service, "mallory", "b.hostile", b"loop")
    harmless = upload(service, "ann", "note.md", HARMLESS)
    wait_until(lambda: state(service, harmless) == DONE)
    wait_until(lambda: state(service, hostile) == RUNNING)


def test_a_shutdown_stops_imports_and_the_next_start_resumes_them(
    services: Callable[[str], Service],
) -> None:
    service = services("home")
    id = upload(service, "ann", "a.hostile", b"loop")
    wait_until(lambda: state(service, id) == RUNNING)
    service.drain()
    assert state(service, id) == QUEUED
    assert attempts(service, id) == 0, "a shutdown is not the fault of the file"
    again = services("home")
    again.start_jobs()
    wait_until(lambda: state(again, id) == RUNNING)


def test_an_upload_that_brings_the_server_down_is_given_up(
    services: Callable[[str], Service], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ImportHandler, "max_attempts", 2)
    service = services("home")
    id = upload(service, "ann", "a.hostile", b"loop")
    for number in (1, 2):
        wait_until(partial(has_attempts, service, id, number))
        kill(service)
        assert state(service, id) == RUNNING
        service = services("home")
        expire_leases(service)
        service.start_jobs()
    wait_until(lambda: state(service, id) == DONE)
    reason = "a.hostile was not imported: the server stopped unexpectedly during each of 2 attempts"
    job = service.imports.get("ann", id)
    assert job.receipt is not None
    assert job.receipt.left_out.failed == {reason: 1}
    with service.libraries.borrow("ann") as library:
        (receipt,) = library.receipts()
    assert receipt.left_out.failed == {reason: 1}


def test_an_import_that_ended_before_the_server_died_is_not_applied_again(
    services: Callable[[str], Service], monkeypatch: pytest.MonkeyPatch
) -> None:
    service = services("home")
    with monkeypatch.context() as patch:
        # The server dies after the import has ended, before the job is marked as done.
        patch.setattr(Jobs, "finish", lambda *arguments: False)
        id = upload(service, "ann", "note.md", HARMLESS)
        wait_until(lambda: has_finished_receipt(service, "ann"))
        service.drain()
    assert state(service, id) == RUNNING
    with service.libraries.borrow("ann") as library:
        (first,) = library.receipts()
        version = library.version()
    again = services("home")
    expire_leases(again)
    again.start_jobs()
    wait_until(lambda: state(again, id) == DONE)
    with again.libraries.borrow("ann") as library:
        assert library.receipts() == [first]
        assert library.version() == version, "nothing was written"
    job = again.imports.get("ann", id)
    assert job.receipt == first and first.job == id


# -- real servers ---

SERVER = """
import sys
from recollect.importers.sandbox import process
process.MODULE = "hostile_worker"
from recollect.cli import main
from recollect.jobs.handlers import ImportHandler
ImportHandler.max_attempts = 2
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
        self.close()
        return status

    def close(self) -> None:
        """Kill it if it still runs."""
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.fixture
def start_server(tmp_path: Path) -> Iterator[Callable[[], Server]]:
    servers: list[Server] = []

    def start() -> Server:
        servers.append(Server(tmp_path / "home"))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


def was_attempted(home: Path, number: int) -> bool:
    """Whether the only job was attempted so often. After a kill, it is still `running`."""
    with closing(connect(home / "server.db")) as db:
        return db.execute("select attempts from job").fetchall() == [(number,)]


@pytest.mark.full
def test_a_server_answers_during_a_hostile_import_and_stops_at_once(
    start_server: Callable[[], Server],
) -> None:
    server = start_server()
    server.upload("a.hostile", b"sleep")
    wait_until(partial(server.has_states, "running"))
    assert httpx.get(f"{server.address}/readyz", timeout=5).status_code == 200
    assert server.stop(signal.SIGTERM) == 0
    again = start_server()
    wait_until(partial(again.has_states, "running"))
    assert again.stop(signal.SIGTERM) == 0


@pytest.mark.full
def test_a_killed_server_tries_an_upload_once_more_and_then_gives_up(
    start_server: Callable[[], Server], tmp_path: Path
) -> None:
    server = start_server()
    server.upload("a.hostile", b"sleep")
    for number in (1, 2):
        wait_until(partial(was_attempted, tmp_path / "home", number))
        server.stop(signal.SIGKILL)
        server = start_server()
    wait_until(partial(server.has_states, "done"))
    receipts = httpx.get(f"{server.address}/api/receipts", timeout=60).json()["receipts"]
    (reason,) = receipts[0]["left_out"]["failed"]
    assert "2 attempts" in reason
    assert server.stop(signal.SIGTERM) == 0
