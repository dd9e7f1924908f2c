"""Run the stdio server in its own process, as an agent does."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

START = """
import sys
from recollect.serve.mcp.stdio import main
sys.exit(main(sys.argv[1:]))
"""


def command(*options: str, start: str = START) -> list[str]:
    return [sys.executable, "-c", start, *options]


class Server:
    """A running server: `send` lines, `receive` answers."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process

    def send(self, *messages: Any) -> None:
        assert self.process.stdin
        for message in messages:
            if not isinstance(message, bytes):
                message = json.dumps(message).encode()
            self.process.stdin.write(message + b"\n")
        self.process.stdin.flush()

    def receive(self) -> Any:
        assert self.process.stdout
        return json.loads(self.process.stdout.readline())

    def finish(self) -> list[Any]:
        """Close the server's input, wait until it exits, and return its remaining answers."""
        output, _ = self.process.communicate(timeout=60)
        return [json.loads(line) for line in output.splitlines()]


@contextmanager
def running(*options: str, start: str = START) -> Iterator[Server]:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command(*options, start=start), **pipes) as process:
        try:
            yield Server(process)
        finally:
            if process.poll() is None:
                process.kill()


def request(request_id: Any, method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}


def call(request_id: Any, **arguments: Any) -> dict[str, Any]:
    return request(request_id, "tools/call", name="conversation_search", arguments=arguments)
