"""Names are nouns and verbs of the trade, never bare participles (`hits`, not `found`)."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PARTICIPLES = {
    *("asked", "found", "given", "kept", "known", "left"),
    *("made", "said", "shown", "taken", "told", "wanted"),
}


@pytest.mark.full
@pytest.mark.parametrize("folder", ["recollect", "tests", "bench", "tools", "examples"])
def test_no_name_is_a_bare_participle(folder: str) -> None:
    paths = [p for p in (ROOT / folder).rglob("*.py") if "node_modules" not in p.parts]
    assert [f"{path}: {name}" for path in paths for name in participles(path.read_text())] == []


def test_a_participle_is_noticed_wherever_a_name_is_introduced() -> None:
    source = "import os as said\nfound = 1\n\nclass Shown: ...\n\ndef told(given, *, hits): ...\n"
    assert sorted(participles(source)) == ["Shown", "found", "given", "said", "told"]


def participles(source: str) -> list[str]:
    names = (name for node in ast.walk(ast.parse(source)) for name in names_of(node))
    return [name for name in names if name.strip("_").lower() in PARTICIPLES]


def names_of(node: ast.AST) -> Iterator[str]:
    """The names that a node introduces."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    elif isinstance(node, ast.arg):
        yield node.arg
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.alias) and node.asname:
        yield node.asname
