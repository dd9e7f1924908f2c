"""Every clause of a contract has a test, and every test names clauses that exist."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from clauses import CLAUSES

TESTS = Path(__file__).parents[1]
KNOWN = {clause for group in CLAUSES.values() for clause in group}


def marks(path: Path) -> Iterator[tuple[str, str]]:
    """Each test function of a file with each clause that its `@proves(...)` names."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            for decorator in node.decorator_list:
                if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "proves":
                    yield from (
                        (node.name, ast.literal_eval(argument)) for argument in decorator.args
                    )


PROVED = {(test, clause) for path in TESTS.rglob("test_*.py") for test, clause in marks(path)}


def test_every_clause_is_proved_by_a_test() -> None:
    assert sorted(KNOWN - {clause for _, clause in PROVED}) == []


def test_every_test_names_clauses_that_exist() -> None:
    assert sorted((test, clause) for test, clause in PROVED if clause not in KNOWN) == []


def test_no_clause_is_listed_twice() -> None:
    assert len(KNOWN) == sum(len(group) for group in CLAUSES.values())
