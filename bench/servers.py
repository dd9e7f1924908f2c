"""Kill servers and a worker at random under load, and check that nothing is lost or done twice.

    python -m bench.servers [--seconds 300] [--seed 1]

Two servers and a worker share a PostgreSQL database. One of the servers also runs jobs. Each of the
three is killed with SIGKILL again and again, and started anew. Meanwhile every user posts messages,
uploads exports, searches for what was acknowledged, and uses one MCP session. A request that fails
because its server died is repeated at the other one, as a proxy and a client would do. At the end:

- every acknowledged message is there, once
- every accepted import is done, with one receipt, and the numbers in it are exact
- every search found the message that had been acknowledged before
- every MCP session of the start still works

It exits with status 1 if any of that is not so.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

import recollect
from bench.server import QUICK, Server
from recollect.places import keys, shared_database
from recollect.serve.identity.accounts import new_key
from recollect.store.postgres.administration import prepare_database
from recollect.store.shared.jobs import Jobs

USERS = ("ann", "bob", "cem")
CONVERSATIONS, MESSAGES = 4, 3  # of an uploaded export
PAUSE = 0.05  # seconds between two requests of one thread
KILL_PAUSE = (2.0, 6.0)
SETTLE_SECONDS = 180
_MCP = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}


class Process:
    """A server or worker that can be killed and started again."""

    def __init__(
        self, name: str, arguments: list[str], url: str, folder: Path, address: str = ""
    ) -> None:
        self.name = name
        self._address = address
        self._ready_file = folder / f"{name}.ready"
        self._command = [sys.executable, "-m", "recollect", *arguments, "--home", url]
        if not address:
            self._command += ["--ready-file", str(self._ready_file)]
        self._environment = {
            **os.environ,
            "RECOLLECT_HOME": url,
            "XDG_DATA_HOME": str(folder / name),
            "RECOLLECT_RERANK": "never",
        }
        self._log = (folder / f"{name}.log").open("ab")
        self._process: subprocess.Popen[bytes] | None = None
        self.kills = 0

    def is_ready(self) -> bool:
        """Whether it has started, and works."""
        if not self._address:
            return self._ready_file.exists()
        try:
            return httpx.get(f"{self._address}/readyz", timeout=5).is_success
        except httpx.TransportError:
            return False

    def start(self) -> None:
        self._ready_file.unlink(missing_ok=True)
        self._process = subprocess.Popen(
            self._command, env=self._environment, stdout=subprocess.DEVNULL, stderr=self._log
        )

    def kill(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        self.kills += 1

    def stop(self) -> int:
        assert self._process is not None
        self._process.terminate()
        try:
            return self._process.wait(60)
        finally:
            self._log.close()


@dataclass
class Results:
    """What one user's requests achieved."""

    acknowledged: list[str] = field(default_factory=list)
    imports: dict[str, int] = field(default_factory=dict)
    """The id of each accepted job, with the number of its export."""
    searches: int = 0
    calls: int = 0
    problems: list[str] = field(default_factory=list)


class User:
    def __init__(self, name: str, key: str, addresses: list[str], stop: threading.Event) -> None:
        self.name = name
        self.results = Results()
        self._addresses = addresses
        self._stop = stop
        self._random = random.Random(name)
        self._headers = {"Authorization": f"Bearer {key}"}
        self._http = httpx.Client(timeout=60)

    def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Send a request to any server, and repeat it at others while they are down."""
        headers = {**self._headers, **options.pop("headers", {})}
        while True:
            address = self._random.choice(self._addresses)
            with suppress(httpx.TransportError):
                response = self._http.request(method, address + path, headers=headers, **options)
                if response.status_code not in (429, 503):
                    return response
            time.sleep(0.1)

    def post_messages(self) -> None:
        number = 0
        while not self._stop.wait(PAUSE):
            number += 1
            id = f"{self.name}-{number}"
            message = {"id": id, "role": "user", "content": f"note{number} {id} about trams"}
            body = {"session_id": f"visit-{number // 20}", "messages": [message]}
            response = self.request("POST", "/conversations/messages", json=body)
            if response.is_success:
                self.results.acknowledged.append(id)
            else:
                self.results.problems.append(f"post: {response.status_code} {response.text[:200]}")

    def upload(self) -> None:
        """Upload exports. One whose reply is lost may have been accepted, so it is not repeated."""
        number = 0
        while not self._stop.wait(4 * PAUSE):
            number += 1
            address = self._random.choice(self._addresses)
            try:
                response = self._http.post(
                    f"{address}/api/imports",
                    params={"name": f"export-{number}.json"},
                    content=export(self.name, number),
                    headers={**self._headers, "Content-Type": "application/octet-stream"},
                )
            except httpx.TransportError:
                time.sleep(0.1)
                continue
            if response.status_code == 202:
                self.results.imports[response.json()["id"]] = number
            elif response.status_code not in (429, 503):
                self.results.problems.append(f"import: {response.status_code} {response.text}")

    def search(self) -> None:
        while not self._stop.wait(4 * PAUSE):
            if not self.results.acknowledged:
                continue
            id = self._random.choice(self.results.acknowledged)
            response = self.request("GET", "/api/v1/search", params={"q": f'"{id}"'})
            self.results.searches += 1
            if not response.is_success or id not in response.text:
                self.results.problems.append(f"search: {id} was not found: {response.text[:200]}")

    def call_tools(self) -> None:
        initialize = {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "bench", "version": "1"},
        }
        response = self._call("initialize", initialize, {})
        session = {"Mcp-Session-Id": response.headers["mcp-session-id"]}
        while not self._stop.wait(4 * PAUSE):
            response = self._call("tools/list", {}, session)
            self.results.calls += 1
            if not response.is_success:
                self.results.problems.append(f"mcp: {response.status_code} {response.text[:200]}")
                return

    def _call(self, method: str, params: dict[str, Any], headers: dict[str, str]) -> httpx.Response:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return self.request("POST", "/mcp", json=body, headers={**_MCP, **headers})

    def activities(self) -> list[Callable[[], None]]:
        return [self.post_messages, self.upload, self.search, self.call_tools]


def export(user: str, number: int) -> bytes:
    conversations = [
        {
            "id": f"import-{user}-{number}-{index}",
            "title": f"Import {number}",
            "messages": [
                {"id": f"{user}-{number}-{index}-{n}", "role": "user", "content": f"text {n}"}
                for n in range(MESSAGES)
            ],
        }
        for index in range(CONVERSATIONS)
    ]
    return json.dumps({"conversations": conversations}).encode()


def free_port() -> int:
    with closing(socket.socket()) as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def kill_at_random(processes: list[Process], seconds: float, generator: random.Random) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        time.sleep(generator.uniform(*KILL_PAUSE))
        # A slow machine needs longer to start a server than the pause.
        ready = [process for process in processes if process.is_ready()]
        if not ready:
            continue
        process = generator.choice(ready)
        process.kill()
        time.sleep(generator.uniform(0, 1))
        process.start()


def wait_for_jobs(jobs: Jobs) -> None:
    deadline = time.monotonic() + SETTLE_SECONDS
    while time.monotonic() < deadline:
        counts = jobs.counts().get("import")
        if counts is None or not counts.waiting + counts.running:
            return
        time.sleep(0.5)


def verify(url: str, user: User, jobs: Jobs) -> list[str]:
    """What is wrong with the library of a user."""
    results = user.results
    problems = list(results.problems)
    with recollect.open(url, user.name, background=False) as library:
        conversations = {summary.id: summary for summary in library.conversations()}
        stored: list[str] = []
        for id in conversations:
            if not id.startswith("import-"):
                stored += [message.id for message in library.conversation(id).passages]
        receipts = library.receipts()
    lost = set(results.acknowledged) - set(stored)
    if lost:
        problems.append(f"{len(lost)} acknowledged messages are lost")
    if len(stored) != len(set(stored)):
        problems.append("a message is stored twice")
    for id, number in results.imports.items():
        problems += verify_import(user.name, number, jobs.get(id), receipts, conversations)
    by_job = [receipt.job for receipt in receipts]
    if len(by_job) != len(set(by_job)):
        problems.append("a job has two receipts")
    return problems


def verify_import(
    user: str, number: int, job: Any, receipts: list[Any], conversations: dict[str, Any]
) -> list[str]:
    if job is None or job.state != "done":
        return [f"import {number} is {job and job.state}: {job and job.error}"]
    own = [receipt for receipt in receipts if receipt.job == job.id]
    if len(own) != 1:
        return [f"import {number} has {len(own)} receipts"]
    if not own[0].files:
        return [f"import {number} was given up: {own[0].left_out.failed}"]
    (file,) = own[0].files
    counts = (file.conversations.new, file.messages.new, file.messages.same)
    problems = []
    if counts != (CONVERSATIONS, CONVERSATIONS * MESSAGES, 0):
        problems.append(f"import {number} counted {counts}")
    missing = [
        index
        for index in range(CONVERSATIONS)
        if f"import-{user}-{number}-{index}" not in conversations
    ]
    if missing:
        problems.append(f"import {number} lacks {missing}")
    return problems


def run(seconds: float, seed: int, folder: Path) -> int:
    with Server(folder / "postgres", QUICK) as server:
        url = server.database("servers")
        prepare_database(url)  # which takes longer than a process lives here
        with closing(keys(url)) as api_keys:
            texts = {name: new_key(api_keys, name, "bench")[0] for name in USERS}
        ports = [free_port(), free_port()]
        addresses = [f"http://127.0.0.1:{port}" for port in ports]
        options = [["serve", "--port", str(port), "--rate-limit", "0"] for port in ports]
        processes = [
            Process("server-a", options[0], url, folder, addresses[0]),
            Process("server-b", [*options[1], "--no-jobs"], url, folder, addresses[1]),
            Process("worker", ["worker"], url, folder),
        ]
        stop = threading.Event()
        users = [User(name, texts[name], addresses, stop) for name in USERS]
        for process in processes:
            process.start()
        threads = [
            threading.Thread(target=activity) for user in users for activity in user.activities()
        ]
        for thread in threads:
            thread.start()
        kill_at_random(processes, seconds, random.Random(seed))
        stop.set()
        for thread in threads:
            thread.join()
        with closing(shared_database(url)) as database:
            jobs = Jobs(database)
            wait_for_jobs(jobs)
            statuses = [process.stop() for process in processes]
            problems = {user.name: verify(url, user, jobs) for user in users}
    return report(users, processes, statuses, problems)


def report(
    users: list[User],
    processes: list[Process],
    statuses: list[int],
    problems: dict[str, list[str]],
) -> int:
    for process, status in zip(processes, statuses, strict=True):
        print(f"{process.name}: killed {process.kills} times, stopped with status {status}")
    for user in users:
        results = user.results
        print(
            f"{user.name}: {len(results.acknowledged)} messages and {len(results.imports)} imports "
            f"acknowledged, {results.searches} searches, {results.calls} calls in one MCP session, "
            f"{len(problems[user.name])} problems"
        )
        for problem in problems[user.name][:20]:
            print(f"  {problem}")
    return int(any(problems.values()) or any(statuses))


def main() -> int:
    parser = argparse.ArgumentParser(description="Kill servers and a worker at random under load.")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="keep the logs and the database in this folder")
    arguments = parser.parse_args()
    if arguments.keep is not None:
        arguments.keep.mkdir(parents=True, exist_ok=True)
        return run(arguments.seconds, arguments.seed, arguments.keep)
    with tempfile.TemporaryDirectory(prefix="recollect-servers-") as folder:
        return run(arguments.seconds, arguments.seed, Path(folder))


if __name__ == "__main__":
    sys.exit(main())
