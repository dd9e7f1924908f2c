"""The stdio transport: a server process on pipes, with well-behaved and misbehaving clients."""

from __future__ import annotations

import io
import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest
from mcp_server import START, call, command, request, running

from recollect.serve.mcp import stdio
from recollect.serve.mcp.catalog import Catalog
from recollect.serve.mcp.context import Context
from recollect.serve.mcp.protocol import Dispatcher
from recollect.serve.mcp.stdio import Connection, main, read_lines
from recollect.settings import LIMITS

# A server whose tool calls never return, and print a line that must not reach the client.
STUCK = """
import sys, threading
from recollect.serve.mcp import catalog
from recollect.serve.mcp import stdio
def wait(self, name, context, arguments):
    print("a stray line")
    threading.Event().wait()
catalog.Catalog.call = wait
sys.exit(stdio.main(sys.argv[1:]))
"""

# A server whose tool calls fail. Only the log may contain the reason.
BROKEN = """
import sys
from recollect.serve.mcp import catalog
from recollect.serve.mcp import stdio
def fail(self, name, context, arguments):
    raise LookupError("the reason")
catalog.Catalog.call = fail
sys.exit(stdio.main(sys.argv[1:]))
"""

# The server as the console script starts it.
COMMAND = "from recollect.__main__ import main; import sys; sys.exit(main())"

# -- in a process -------------------------------------------------------------


def test_a_session_from_initialize_to_exit(place: str, tmp_path: Path) -> None:
    with running("--home", place) as server:
        server.send(request(1, "initialize", protocolVersion="2025-11-25"))
        assert server.receive()["result"]["protocolVersion"] == "2025-11-25"
        server.send(
            {"jsonrpc": "2.0", "method": "notifications/initialized"}, request("two", "tools/list")
        )
        assert server.receive()["result"]["tools"][0]["name"] == "recall_search"
        server.send(call(3, query="x"))
        assert server.receive()["result"]["content"][0]["text"].startswith("Database not found: ")
        assert server.finish() == []
    assert server.process.returncode == 0
    assert not list(tmp_path.iterdir())


def test_everything_sent_before_the_end_of_input_is_answered(place: str) -> None:
    messages = [request(n, "ping") for n in range(50)] + [call(n) for n in range(50, 60)]
    # The last line does not end with a line break.
    lines = "\n".join(map(json.dumps, messages))
    process = subprocess.run(
        command("--home", place), input=lines, capture_output=True, text=True, check=True
    )
    answers = [json.loads(line) for line in process.stdout.splitlines()]
    assert sorted(answer["id"] for answer in answers) == list(range(60))


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("start", [STUCK, pytest.param(START, marks=pytest.mark.full)])
def test_a_signal_stops_the_server(start: str) -> None:
    with running(start=start) as server:
        server.send(call(1), request(2, "ping"))
        while server.receive()["id"] != 2:
            pass
        server.process.send_signal(signal.SIGTERM)
        server.process.wait(timeout=60)
    assert server.process.returncode == 0


def test_the_server_stops_when_the_client_closes_its_output() -> None:
    with running() as server:
        server.send(request(1, "ping"))
        server.receive()
        assert server.process.stdout
        server.process.stdout.close()
        server.send(request(2, "ping"))
        server.process.wait(timeout=60)
    assert server.process.returncode == 0


def test_a_cancelled_call_does_not_keep_the_server_running() -> None:
    cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
    with running(start=STUCK) as server:
        server.send(call(1), cancelled, request(2, "ping"))
        assert server.receive()["id"] == 2
        assert server.finish() == []


def test_an_invalid_line_is_an_error_and_the_next_line_is_read(tmp_path: Path) -> None:
    with running("--home", str(tmp_path)) as server:
        server.send(b"\xff\xfe nonsense", b"{", b"", b"   ", request(1, "ping"))
        codes = [server.receive().get("error", {}).get("code") for _ in range(3)]
        assert codes == [-32700, -32700, None]
        server.send(b'{"x": "' + b"a" * LIMITS.mcp_line_bytes + b'"}', request(2, "ping"))
        answer = server.receive()
        assert (answer["id"], answer["error"]["code"]) == (None, -32600)
        assert f"{LIMITS.mcp_line_bytes:,}" in answer["error"]["message"]
        assert server.receive()["id"] == 2


def test_stray_output_goes_to_standard_error() -> None:
    with running(start=STUCK) as server:
        server.send(call(1))
        assert server.process.stderr
        assert server.process.stderr.readline() == b"a stray line\n"


def test_the_log_goes_to_standard_error() -> None:
    with running(start=BROKEN) as server:
        server.send(call(1))
        assert server.receive()["result"]["isError"] is True
        assert server.process.stderr
        line = server.process.stderr.readline()
        assert line == b"ERROR recollect.serve.mcp.protocol: Tool conversation_search failed\n"


def test_an_invalid_option_is_reported_before_the_server_starts(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["--rename", "nothing=x"]) == 2
    assert "there is no tool 'nothing'" in capsys.readouterr().err
    assert main(["--toolsets", "nothing"]) == 2
    assert "there is no toolset 'nothing'" in capsys.readouterr().err
    for options in ("--rename conversation_search", "--unknown", "--profile x", "--names x"):
        with pytest.raises(SystemExit) as exit:
            main(options.split())
        assert exit.value.code == 2


def test_help_shows_examples(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit:
        main(["--help"])
    assert exit.value.code == 0
    assert "recollect mcp --rename conversation_search=" in capsys.readouterr().out


def test_a_renamed_tool_is_listed_under_its_new_name() -> None:
    options = "--rename conversation_search=history --user ann"
    with running(*options.split()) as server:
        server.send(request(1, "tools/list"))
        assert server.receive()["result"]["tools"][-1]["name"] == "history"


@pytest.mark.parametrize(
    "options",
    [
        ["--home", "x", "--user", "ann", "mcp", "--profile", "letta"],
        ["--home=x", "--user=ann", "mcp", "--profile=letta"],
        ["mcp", "--home", "x", "--profile", "letta"],
    ],
    ids=" ".join,
)
def test_global_options_can_come_before_or_after_the_command(options: list[str]) -> None:
    with running(*options, start=COMMAND) as server:
        server.send(request(1, "tools/list"))
        (tool,) = server.receive()["result"]["tools"]
        assert tool["name"] == "conversation_search"


def test_agents_in_separate_processes_exchange_messages(place: str) -> None:
    with running("--home", place) as ann, running("--home", place) as bob:
        ann.send(request(1, "tools/call", name="bus_connect", arguments={"thread_name": "plans"}))
        thread = ann.receive()["result"]["structuredContent"]["thread"]["thread_id"]
        message = {"thread_id": thread, "author": "ann", "content": "the plan is ready"}
        ann.send(request(2, "tools/call", name="msg_post", arguments=message))
        assert ann.receive()["result"]["structuredContent"]["seq"] == 1
        since = {"thread_id": thread, "after_seq": 0}
        bob.send(request(1, "tools/call", name="msg_wait", arguments=since))
        answer = bob.receive()["result"]
        assert json.loads(answer["content"][0]["text"]) == answer["structuredContent"]
        assert answer["structuredContent"]["messages"][0]["content"] == "the plan is ready"
        bob.send(call(2, query="plan is"))
        assert "the plan is ready" in bob.receive()["result"]["content"][0]["text"]


# -- options ------------------------------------------------------------------


# -- the connection -----------------------------------------------------------


class PausedCatalog(Catalog):
    """A catalog whose calls wait: `started` has the calls that began, `cue` lets one go on."""

    def __init__(self) -> None:
        super().__init__()
        self.started: SimpleQueue[str] = SimpleQueue()
        self.cue: SimpleQueue[str] = SimpleQueue()
        self.contexts: SimpleQueue[Context] = SimpleQueue()

    def call(self, name: str, context: Context, arguments: dict[str, Any]) -> str:
        if "quick" in arguments:
            return "quick"
        self.contexts.put(context)
        self.started.put(arguments["n"])
        cue = self.cue.get()
        context.progress(1, 2, cue)
        return cue


@pytest.fixture
def catalog() -> PausedCatalog:
    return PausedCatalog()


@pytest.fixture
def answers() -> SimpleQueue[Any]:
    return SimpleQueue()


@pytest.fixture
def connection(catalog: PausedCatalog, answers: SimpleQueue[Any]) -> Connection:
    return Connection(Dispatcher(catalog), answers.put, lambda notify: Context(notify=notify))


def send(connection: Connection, *messages: Any) -> None:
    for message in messages:
        connection.receive(json.dumps(message).encode())


def cancel(request_id: Any) -> dict[str, Any]:
    return {
        "jsonrpc": "2.0",
        "method": "notifications/cancelled",
        "params": {"requestId": request_id},
    }


def test_a_cancelled_call_is_not_answered(
    connection: Connection,
    catalog: PausedCatalog,
    answers: SimpleQueue[Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The second call starts only when the first has ended.
    monkeypatch.setattr(stdio, "WORKERS", 1)
    send(connection, call(1, n="first"))
    catalog.started.get()
    send(
        connection,
        call(2, n="never"),
        call(3, quick=True),
        cancel(1),
        cancel(2),
        cancel(99),
        cancel(None),
    )
    catalog.cue.put("too late")
    assert answers.get()["id"] == 3
    assert connection.drain(60)
    assert answers.empty() and catalog.started.empty()


def test_progress_is_sent_before_the_answer(
    connection: Connection, catalog: PausedCatalog, answers: SimpleQueue[Any]
) -> None:
    message = call(1, n="first")
    message["params"]["_meta"] = {"progressToken": "p"}
    send(connection, message)
    catalog.started.get()
    catalog.cue.put("half done")
    assert answers.get() == {
        "jsonrpc": "2.0",
        "method": "notifications/progress",
        "params": {"progressToken": "p", "progress": 1, "total": 2, "message": "half done"},
    }
    assert answers.get()["id"] == 1


def test_an_id_of_a_running_call_is_refused(
    connection: Connection, catalog: PausedCatalog, answers: SimpleQueue[Any]
) -> None:
    send(connection, call(1, n="first"), call(1, n="second"), call("1", quick=True))
    first = [answers.get(), answers.get()]
    assert sorted((str(a["id"]), a.get("error", {}).get("code", 0)) for a in first) == [
        ("1", -32600),
        ("1", 0),
    ]
    catalog.cue.put("done")
    assert answers.get()["result"]["content"][0]["text"] == "done"


def test_too_many_calls_at_once_are_refused(
    connection: Connection, catalog: PausedCatalog, answers: SimpleQueue[Any]
) -> None:
    send(connection, *(call(n, n="x") for n in range(stdio.MAX_CALLS + 1)))
    answer = answers.get()
    assert (answer["id"], answer["error"]["code"]) == (stdio.MAX_CALLS, -32000)
    for _ in range(stdio.MAX_CALLS):
        catalog.cue.put("done")
    assert connection.drain(60)


def test_calls_without_a_valid_id_are_not_run(
    connection: Connection, catalog: PausedCatalog, answers: SimpleQueue[Any]
) -> None:
    send(
        connection,
        call(None),
        call(1.5),
        call([1]),
        {"jsonrpc": "2.0", "method": "tools/call"},
        request(5, "ping"),
    )
    assert [answers.get()["id"] for _ in range(4)] == [None, None, None, 5]
    assert catalog.started.empty()


# -- lines --------------------------------------------------------------------


def lines_of(*parts: bytes) -> Iterator[bytes | None]:
    pending = [*parts, b""]
    return read_lines(lambda size: pending.pop(0))


def test_lines_are_joined_from_pieces_of_any_size() -> None:
    assert [*lines_of(b"a", b"b\nc", b"\n\n \nd\r\n", b"e")] == [b"ab", b"c", b"d\r", b"e"]
    assert [*read_lines(io.BytesIO(b"x" * 200_000 + b"\ny").read)] == [b"x" * 200_000, b"y"]


def test_a_line_over_the_limit_is_dropped_and_the_next_one_is_kept() -> None:
    long = b"x" * (LIMITS.mcp_line_bytes // 4)
    assert [*lines_of(long, long, long, long, b"x", b"x\nnext\n")] == [None, b"next"]
    assert [*lines_of(long, long, long, long, b"\nnext\n")] == [long * 4, b"next"]
    assert [*lines_of(*[long] * 40)] == [None]
