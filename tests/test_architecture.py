"""Imports point one way, and programs that people wait for start without heavy modules."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

from recollect.cli import COMMANDS

PACKAGE = Path(__file__).parents[1] / "recollect"

# From the bottom up: a module may import from its own layer and from those before it.
LAYERS = [
    {
        "errors",
        "configuration",
        "settings",
        "home_folder",
        "priority",
        "progress",
        "stop_signal",
    },
    {"passphrases"},
    {"language"},
    {"model"},
    {"redact"},
    {"importers", "store"},
    {"models"},
    {"index"},
    {"search"},
    {"knowledge", "memory", "transfer"},
    {"library", "persistence", "places", "asynchronous", "checkup"},
    {"backup"},
    {"encrypting"},
    {"capture"},
    {"jobs"},
    {"serve"},
    {"cli"},
    {"__main__"},
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
# Packages of one layer that must not import each other.
INDEPENDENT = [{"importers", "store"}]


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


FILES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def statements(tree: ast.Module) -> Iterator[ast.AST]:
    """All statements, also nested ones. Expressions contain no imports, and are many more."""
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        yield node
        for name in ("body", "orelse", "finalbody", "handlers", "cases"):
            parts = getattr(node, name, [])
            if isinstance(parts, list):  # a lambda and a conditional expression have one part
                pending += parts


def imported_modules(path: Path) -> set[str]:
    """The modules of this package that a file imports, also inside functions and under
    TYPE_CHECKING."""
    modules = set()
    for node in statements(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                submodule = f"{node.module}.{alias.name}"
                modules.add(submodule if submodule in FILES else node.module)
        elif isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
    return modules & FILES.keys()


@cache
def all_imports() -> dict[str, set[str]]:
    """The modules that each module imports."""
    return {name: imported_modules(path) - {name} for name, path in FILES.items()}


def layer(module: str) -> str:
    return module.split(".")[1]


def test_imports_point_one_way() -> None:
    for module, others in all_imports().items():
        for other in others:
            if "." not in module or "." not in other:
                continue
            mine, theirs = layer(module), layer(other)
            problem = f"{module} must not import {other}"
            assert LEVEL[theirs] <= LEVEL[mine], problem
            assert theirs == mine or {mine, theirs} not in INDEPENDENT, problem


def test_every_module_has_a_layer() -> None:
    assert {layer(module) for module in FILES if "." in module} <= LEVEL.keys()


def reachable(start: str, imports: dict[str, set[str]]) -> set[str]:
    """The modules that a module imports, directly or through others."""
    modules: set[str] = set()
    pending = list(imports[start])
    while pending:
        module = pending.pop()
        if module not in modules:
            modules.add(module)
            pending.extend(imports[module])
    return modules


def import_cycles(imports: dict[str, set[str]]) -> list[set[str]]:
    reach = {module: reachable(module, imports) for module in imports}
    cycles: list[set[str]] = []
    for module in imports:
        if module in reach[module]:
            cycle = {other for other in reach[module] if module in reach[other]}
            if cycle not in cycles:
                cycles.append(cycle)
    return cycles


def test_there_are_no_import_cycles() -> None:
    assert import_cycles(all_imports()) == []


def test_the_parts_of_search_import_one_way() -> None:
    """Its folders are one part each."""
    prefix = "recollect.search."
    parts: dict[str, set[str]] = {}
    for module, others in all_imports().items():
        if module.startswith(prefix):
            name = module.split(".")[2]
            imported = {other.split(".")[2] for other in others if other.startswith(prefix)}
            parts.setdefault(name, set()).update(imported - {name})
    assert import_cycles(parts) == []


INTERFACES = ("rest", "console", "mcp")


def interface(module: str) -> str:
    """The interface a module belongs to, if it belongs to one."""
    parts = module.split(".")
    if len(parts) > 2 and parts[1] == "serve" and parts[2] in INTERFACES:
        return parts[2]
    return ""


def test_interfaces_do_not_import_each_other() -> None:
    for module, others in all_imports().items():
        for other in others:
            theirs = interface(other)
            if interface(module) and theirs:
                assert interface(module) == theirs, f"{module} must not import {other}"


def loaded_modules(code: str) -> set[str]:
    script = f"{code}\nimport sys\nsys.stderr.write(' '.join(sys.modules))"
    command = [sys.executable, "-c", script]
    process = subprocess.run(command, capture_output=True, text=True, check=True)
    return set(process.stderr.split())


# Modules that the stdio server must not load before it has answered `initialize`: agents wait for
# it. The second set is loaded with the first tool call.
HEAVY = {
    "pydantic",
    "starlette",
    "fastapi",
    "uvicorn",
    "httpx",
    "mcp",
    "numpy",
    "asyncio",
    "apsw",
    "ijson",
    "rich",
}
LOADED_LATER = {
    "argparse",
    "dataclasses",
    "datetime",
    "inspect",
    "logging",
    "pathlib",
    "platformdirs",
    "queue",
    "typing",
}
START_SERVER = """
import sys
sys.argv[1:] = {arguments}
from recollect.__main__ import main
main()
sys.stderr.write("\\n".join(sys.modules))
"""
INITIALIZE = json.dumps(
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": "2025-11-25"},
    }
)


@pytest.mark.parametrize(
    "arguments",
    [
        ["mcp"],
        ["--home", "x", "--user=ann", "mcp", "--profile", "letta"],
        [
            "mcp",
            "--home=x",
            "--toolsets",
            "bus",
            "--tools=fetch",
            "--read-only",
            "--rename",
            "fetch=get",
        ],
    ],
    ids=" ".join,
)
def test_the_stdio_server_starts_without_heavy_modules(arguments: list[str]) -> None:
    process = subprocess.run(
        [sys.executable, "-c", START_SERVER.format(arguments=arguments)],
        input=INITIALIZE,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "serverInfo" in process.stdout
    modules = {module.split(".")[0] for module in process.stderr.split()}
    assert not modules & (HEAVY | LOADED_LATER)


def test_importing_the_package_loads_no_submodules_until_they_are_used() -> None:
    assert not any(m.startswith("recollect.") for m in loaded_modules("import recollect"))
    assert "recollect.library" in loaded_modules("import recollect; recollect.open")


@pytest.mark.parametrize("option", ["--version", "--help"])
def test_the_version_and_the_help_load_no_command(option: str) -> None:
    code = f"""
from contextlib import suppress
from recollect.cli import main
with suppress(SystemExit):
    main(["{option}"])
"""
    modules = loaded_modules(code)
    assert not {module.split(".")[0] for module in modules} & HEAVY
    assert not any(module.startswith("recollect.cli.") for module in modules)


def test_every_command_is_declared_by_its_module() -> None:
    from recollect.cli.commands import DECLARATIONS

    for name, (module, _) in COMMANDS.items():
        import_module(f"recollect.cli.{module}")
        assert name in DECLARATIONS


def test_the_server_starts_without_what_only_some_servers_need() -> None:
    modules = {module.split(".")[0] for module in loaded_modules("import recollect.serve.server")}
    assert not modules & {"httpx", "jwt", "cryptography", "numpy", "rich"}


@pytest.mark.full
def test_every_benchmark_can_be_imported() -> None:
    files = sorted((PACKAGE.parent / "bench").glob("[!_]*.py"))
    code = "\n".join(f"import bench.{file.stem}" for file in files)
    subprocess.run([sys.executable, "-c", code], cwd=PACKAGE.parent, check=True)
