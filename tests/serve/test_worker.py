"""Jobs of several servers and workers: who runs them, and what every server knows about them."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import recollect
from recollect.errors import StoreUnavailable
from recollect.jobs.handlers import INDEX, SECRETS, IndexHandler
from recollect.jobs.runner import HOST, Lane, Runner
from recollect.serve.http.import_jobs import DONE, QUEUED
from recollect.serve.http.service import Service, ServiceConfig
from recollect.settings import default_user
from recollect.settings import place as library_place
from recollect.store.shared.jobs import TABLES

EXPORT = json.dumps(
    {
        "conversations": [
            {
                "id": "tram",
                "title": "Trams",
                "messages": [{"id": "1", "role": "user", "content": "Line 22 goes to the castle"}],
            }
        ]
    }
).encode()


@pytest.fixture(autouse=True)
def restored_logging() -> Iterator[None]:
    """A worker logs to the standard error of its test."""
    root, jobs = logging.getLogger(), logging.getLogger("recollect.jobs")
    handlers, level = list(root.handlers), jobs.level
    yield
    root.handlers[:] = handlers
    jobs.setLevel(level)


@pytest.fixture
def servers(place: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Service]]:
    """Servers of one installation. They leave jobs to workers, unless they are told otherwise."""
    monkeypatch.setenv("RECOLLECT_INDEXING", "background")
    instances: list[Service] = []

    def start(runs_jobs: bool = False) -> Service:
        config = ServiceConfig(rate_per_minute=0, runs_jobs=runs_jobs)
        instances.append(Service(library_place(place), config))
        return instances[-1]

    yield start
    for service in instances:
        service.close()


def upload(service: Service, data: bytes = EXPORT) -> str:
    with service.imports.upload(default_user(), "conversations.json") as upload:
        upload.write(data)
        return upload.accept().id


def wait_until(condition: Callable[[], Any]) -> None:
    for _ in range(6_000):
        if condition():
            return
        threading.Event().wait(0.01)
    pytest.fail("the condition did not become true")


@pytest.mark.both_stores
def test_a_worker_imports_and_indexes_what_a_server_received(
    servers: Callable[..., Service], run: Callable[..., str], place: str
) -> None:
    first, second = servers(), servers()
    first.start_jobs()
    id = upload(first)
    assert second.imports.get(default_user(), id).state == QUEUED
    assert json.loads(run("worker", "--once", "--json"))["jobs"] >= 2
    job = second.imports.get(default_user(), id)
    assert job.state == DONE and job.receipt is not None
    assert [each.id for each in first.imports.list_for(default_user())] == [id]
    with second.libraries.borrow(default_user()) as library:
        assert library.index_status().share == 1.0
        assert library.search("castle").hits[0].conversation_id == "tram"


@pytest.mark.both_stores
def test_a_scan_that_was_started_on_one_server_is_seen_on_another(
    servers: Callable[..., Service], run: Callable[..., str]
) -> None:
    first, second = servers(), servers()
    first.tasks.start(default_user(), SECRETS)
    task = second.tasks.get(default_user(), SECRETS)
    assert task is not None and task.is_running
    run("worker", "--once")
    task = second.tasks.get(default_user(), SECRETS)
    assert task is not None and task.result == {"messages": 0, "kinds": []}
    second.tasks.start(default_user(), SECRETS)
    task = first.tasks.get(default_user(), SECRETS)
    assert task is not None and task.is_running


@pytest.mark.both_stores
def test_a_message_stored_by_a_server_that_died_is_indexed_when_the_library_is_used(
    servers: Callable[..., Service],
    run: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The server dies between storing the message and asking for it to be indexed."""
    service = servers()
    requests = service._job_system._requests
    assert requests is not None
    with monkeypatch.context() as patch:
        patch.setattr(type(requests), "add", lambda self, user: None)
        with service.libraries.borrow(default_user()) as library:
            library.add_conversation("c", messages=[{"role": "user", "content": "hello castle"}])
    assert service.jobs.list_for(INDEX, default_user()) == []
    with service.libraries.borrow(default_user()) as library:
        assert library.search("castle").total == 1
    service._job_system.flush()
    (job,) = service.jobs.list_for(INDEX, default_user())
    assert job.state == QUEUED
    run("worker", "--once", "--jobs", "index")
    with service.libraries.borrow(default_user()) as library:
        assert library.index_status().share == 1.0


def no_library(user: str) -> Any:
    raise AssertionError("it opens no library")


@pytest.mark.both_stores
def test_a_failed_index_job_is_reported_and_runs_again_after_the_next_change(
    servers: Callable[..., Service], monkeypatch: pytest.MonkeyPatch, run: Callable[..., str]
) -> None:
    service = servers()
    with service.libraries.borrow(default_user()) as library:
        library.add_conversation("c", messages=[{"role": "user", "content": "hello"}])
        service._job_system.flush()
        with monkeypatch.context() as patch:
            patch.setenv("RECOLLECT_EMBEDDINGS", "unknown-model")
            run("worker", "--once", "--jobs", "index")
        assert "unknown-model" in library.index_status().problem
        library.add_messages("c", [])
        service._job_system.flush()
        run("worker", "--once", "--jobs", "index")
        assert library.index_status().problem == ""


@pytest.mark.both_stores
def test_a_server_without_jobs_runs_what_only_its_machine_can(
    servers: Callable[..., Service],
) -> None:
    service = servers()
    service.start_jobs()
    service.jobs.add("import", default_user(), {"name": "gone", "size": 0}, host=HOST)
    wait_until(
        lambda: (
            [job.error for job in service.imports.list_for(default_user())]
            == ["The uploaded file gone is gone. Upload it again."]
        )
    )


@pytest.mark.both_stores
def test_options_of_the_worker_are_checked(run: Callable[..., str]) -> None:
    problem = run("worker", "--jobs", "music", fails=True)
    assert "'music' is none of imports, index, tasks" in problem
    assert "at least one" in run("worker", "--jobs", ",", fails=True)
    assert "at least 1" in run("worker", "--concurrency", "0", fails=True)


@pytest.mark.both_stores
def test_a_runner_survives_a_database_that_is_away(
    servers: Callable[..., Service], monkeypatch: pytest.MonkeyPatch
) -> None:
    service = servers(runs_jobs=True)
    failures: list[int] = []
    claim = type(service.jobs).claim

    def fail_once(*arguments: Any) -> Any:
        if not failures:
            failures.append(1)
            raise StoreUnavailable("The server is away.")
        return claim(*arguments)

    monkeypatch.setattr("recollect.jobs.runner._RETRY_SECONDS", 0.01)
    monkeypatch.setattr(type(service.jobs), "claim", fail_once)
    id = upload(service)
    wait_until(lambda: service.imports.get(default_user(), id).state == DONE)
    assert failures


@pytest.mark.both_stores
def test_a_job_whose_lease_was_lost_is_stopped_and_records_nothing(
    servers: Callable[..., Service], place: str
) -> None:
    service = servers()
    began, ended = threading.Event(), threading.Event()

    class Slow(IndexHandler):
        kind = "slow"

        def run(self, run: Any) -> Any:
            began.set()
            run.stop.wait()
            ended.set()

    handler = Slow(no_library)
    runner = Runner(service.jobs, [Lane("index", [handler], 1)])
    service.jobs.add("slow", "ann")
    runner.start()
    assert began.wait(60)
    service.shared.execute(TABLES, "update job set lease_until = 0 where kind = 'slow'")
    other = service.jobs.claim(["slow"])
    assert other is not None
    for run in runner._runs.values():
        run.renewed_at = 0.0
    runner.wake()
    assert ended.wait(60)
    runner.close()
    job = service.jobs.get(other.id)
    assert job is not None and job.token == other.token


@pytest.mark.full
def test_a_worker_stops_on_a_signal_and_puts_its_job_back(
    servers: Callable[..., Service], place: str, tmp_path: Path
) -> None:
    service = servers()
    ready = tmp_path / "ready"
    environment = {**os.environ, "RECOLLECT_USER": default_user()}
    command = [sys.executable, "-m", "recollect", "worker", "--home", place]
    worker = subprocess.Popen(
        [*command, "--ready-file", str(ready)], env=environment, stdout=subprocess.DEVNULL
    )
    wait_until(ready.exists)
    id = upload(service)
    wait_until(lambda: service.imports.get(default_user(), id).state == DONE)
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(30) == 0
    assert not ready.exists()


@pytest.mark.full
def test_an_import_that_was_killed_in_the_middle_is_counted_as_one(
    servers: Callable[..., Service], place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker is killed after the first batch. Another one finishes the import."""
    service = servers()
    conversations = [
        {"id": f"c{n}", "messages": [{"id": f"m{n}", "role": "user", "content": f"word{n}"}]}
        for n in range(40)
    ]
    id = upload(service, json.dumps({"conversations": conversations}).encode())
    killed = subprocess.run(
        [sys.executable, "-c", KILLED_AFTER_THREE_BATCHES, place],
        env={**os.environ, "RECOLLECT_USER": default_user()},
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL
    with recollect.open(place, background=False) as library:
        assert len(list(library.conversations())) == 30
    service.shared.execute(TABLES, "update job set lease_until = 0")
    again = servers(runs_jobs=True)
    again.start_jobs()
    wait_until(lambda: again.imports.get(default_user(), id).state == DONE)
    with recollect.open(place, background=False) as library:
        (receipt,) = library.receipts()
        assert len(list(library.conversations())) == 40
        (file,) = receipt.files
        assert (file.conversations.new, file.conversations.same) == (40, 0)
        assert (file.messages.new, file.messages.same) == (40, 0)
        library.undo_import(receipt.id)
        assert list(library.conversations()) == []


KILLED_AFTER_THREE_BATCHES = """
import os, signal, sys
from recollect.cli import main
from recollect.transfer import importing
importing.BATCH = 10
save = importing._Run.save
count = 0
def kill(run):
    global count
    save(run)
    count += 1
    if count == 3:
        os.kill(os.getpid(), signal.SIGKILL)
importing._Run.save = kill
main(["worker", "--once", "--jobs", "imports", "--home", sys.argv[1]])
"""
