"""Imports point one way, and the light parts stay light."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "recollect"

# From the bottom up: a module may import from its own layer and from those before it.
LAYERS = [
    {"errors", "settings"},
    {"language"},
    {"model"},
    {"redact"},
    {"importers", "store"},
    {"models"},
    {"index"},
    {"search"},
    {"knowledge", "memory", "transfer"},
    {"library", "persistence", "places"},
    {"capture"},
    {"serve"},
    {"cli"},
    {"__main__"},
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
# Parts of one layer that must not know each other.
STRANGERS = [{"importers", "store"}]


def part(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        found |= {
            n.split(".")[1]
            for n in names
            if n.startswith("recollect.") and n.split(".")[1] in LEVEL
        }
    return found


MODULES = sorted(p for p in PACKAGE.rglob("*.py") if p != PACKAGE / "__init__.py")


def test_imports_point_one_way() -> None:
    for path in MODULES:
        mine = part(path)
        for other in imports(path):
            problem = f"{path}: {mine} must not import {other}"
            assert LEVEL[other] <= LEVEL[mine], problem
            assert other == mine or {mine, other} not in STRANGERS, problem


def test_every_module_has_a_layer() -> None:
    assert {part(p) for p in MODULES} <= LEVEL.keys()


def loaded(code: str) -> set[str]:
    script = f"{code}\nimport sys\nprint('\\n'.join(sys.modules))"
    return set(
        subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=True
        ).stdout.split()
    )


# What the stdio server must not load before it has answered `initialize`: agents wait for it.
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
LATE = {
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
STARTED = """
import sys
sys.argv[1:] = {arguments}
from recollect.__main__ import main
main()
sys.stderr.write("\\n".join(sys.modules))
"""
INITIALIZE = '{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25"}}'


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
def test_the_stdio_server_starts_without_anything_heavy(arguments: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", STARTED.format(arguments=arguments)],
        input=INITIALIZE,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "serverInfo" in done.stdout
    modules = {module.split(".")[0] for module in done.stderr.split()}
    assert not modules & (HEAVY | LATE)


def test_importing_the_package_loads_nothing_until_it_is_used() -> None:
    assert not any(m.startswith("recollect.") for m in loaded("import recollect"))
    assert "recollect.library" in loaded("import recollect; recollect.open")
