"""Every clause of docs/contracts has a test, and a full run fails if no test of a clause passed."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from clauses import PAGES, read_clauses

TESTS = Path(__file__).parents[1]
CLAUSES = [clause for clause, _ in read_clauses(PAGES)]


def marks(path: Path) -> Iterator[tuple[str, str]]:
    """Each test function of a file with each clause that its `@proves(...)` names."""
    text = path.read_text(encoding="utf-8")
    if "@proves(" not in text:
        return
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.FunctionDef):
            continue
        for decorator in node.decorator_list:
            if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "proves":
                for argument in decorator.args:
                    yield node.name, ast.literal_eval(argument)


@pytest.fixture(scope="module")
def all_marks() -> set[tuple[str, str]]:
    return {mark for path in TESTS.rglob("test_*.py") for mark in marks(path)}


def test_every_clause_has_a_test(all_marks: set[tuple[str, str]]) -> None:
    assert sorted(set(CLAUSES) - {clause for _, clause in all_marks}) == []


def test_every_test_names_clauses_that_exist(all_marks: set[tuple[str, str]]) -> None:
    assert sorted((test, clause) for test, clause in all_marks if clause not in CLAUSES) == []


def test_clauses_are_numbered_without_gaps_and_every_id_is_used_once() -> None:
    sizes = {"C0": 45, "C1": 41, "C2": 45, "C3": 52, "C4": 39}
    expected = [f"{name}-{n:02}" for name, size in sizes.items() for n in range(1, size + 1)]
    assert sorted(CLAUSES) == expected


# -- the plugin, with a small suite ---

PAGE = """# Fruit

- **C0-01** Apples are red,
  or green.
- **C0-02** Pears are green.
- **C0-03** Plums are blue.
- **C0-04** Figs are brown.
- **C0-05** Limes are green.
- **C0-06** Dates are sweet.
- **C0-07** Olives are bitter.
"""
SETUP = f"""
import sys
sys.path.insert(0, {str(TESTS)!r})
pytest_plugins = ["contracts.proof"]
"""
SUITE = """
import pytest
proves = pytest.mark.proves

@proves("C0-01")
@pytest.mark.parametrize("broken", [True, False])
def test_apples(broken):
    if broken:
        pytest.skip("not this one")

@proves("C0-02")
@pytest.mark.skip
def test_pears(): pass

@proves("C0-03")
@pytest.mark.xfail(strict=True)
def test_plums(): assert False

@proves("C0-04")
@pytest.mark.full
def test_figs(): pass

@proves("C0-05")
def test_limes(): assert {limes}

@pytest.fixture
def broken(): raise RuntimeError

@proves("C0-06")
def test_dates({dates}): pass
"""
INI = """[pytest]
addopts = -m "not full" -p no:cacheprovider -p xdist
markers = full
contract_pages = pages
contract_tests = suite
"""
UNPROVED = [
    "C0-02 (skipped): Pears are green.",
    "C0-03 (xfailed): Plums are blue.",
    "C0-04 (no test ran): Figs are brown.",
    "C0-05 (failed): Limes are green.",
    "C0-06 (failed): Dates are sweet.",
    "C0-07 (no test ran): Olives are bitter.",
]


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    for name in ("pages", "suite", "other"):
        (tmp_path / name).mkdir()
    (tmp_path / "pages" / "fruit.md").write_text(PAGE)
    (tmp_path / "conftest.py").write_text(SETUP)
    (tmp_path / "pytest.ini").write_text(INI)
    failing = SUITE.format(limes="False", dates="broken")
    (tmp_path / "suite" / "test_fruit.py").write_text(failing)
    (tmp_path / "other" / "test_other.py").write_text("def test_other(): pass\n")
    return tmp_path


def run(folder: Path, *arguments: str) -> tuple[int, list[str]]:
    """The exit status of pytest in a folder, and the clauses that it reports."""
    command = [sys.executable, "-m", "pytest", *arguments]
    settings = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # most plugins load slowly
    process = subprocess.run(command, cwd=folder, env=settings, capture_output=True, text=True)
    lines = process.stdout.splitlines()
    return process.returncode, [line for line in lines if line.startswith("C0-")]


@pytest.mark.parametrize("workers", ["0", pytest.param("2", marks=pytest.mark.full)])
def test_a_run_reports_clauses_whose_tests_did_not_pass(suite: Path, workers: str) -> None:
    assert run(suite, "-n", workers) == (1, UNPROVED)


@pytest.mark.full
def test_a_run_without_failures_fails_if_a_clause_is_not_proved(suite: Path) -> None:
    passing = SUITE.format(limes="True", dates="")
    (suite / "suite" / "test_fruit.py").write_text(passing)
    unproved = [line for line in UNPROVED if "failed)" not in line or "xfailed" in line]
    assert run(suite, "suite") == (1, unproved)
    proofs = "".join(f'@proves("C0-0{n}")\ndef test_{n}(): pass\n' for n in (2, 3, 4, 7))
    (suite / "suite" / "test_fruit.py").write_text(f"{passing}\n{proofs}")
    assert run(suite) == (0, [])


@pytest.mark.parametrize(
    "selection",
    [
        ["suite/test_fruit.py::test_apples"],
        ["-k", "apples"],
        *(
            pytest.param(selection, marks=pytest.mark.full)
            for selection in (
                ["--deselect", "suite/test_fruit.py::test_limes", "suite"],
                ["other"],
                ["--collect-only"],
            )
        ),
    ],
    ids=lambda selection: selection[0].partition(":")[0],
)
def test_a_run_of_some_tests_reports_nothing(suite: Path, selection: list[str]) -> None:
    _, clauses = run(suite, *selection)
    assert clauses == []
