"""A pytest plugin that fails a run of the contract suites in which a clause was not proved.

A clause is proved when at least one test marked with it ran and passed. A test that was skipped,
deselected, failed or is expected to fail proves nothing. The check applies only if the run selected
every test of the contract suites, apart from the `full` matrix, which is deselected by default.

Under pytest-xdist the workers collect and run the tests. They attach the clauses to their reports
and tell the controller whether they selected everything; the controller checks.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from contracts.clauses import read_clauses

_PROPERTY = "proves"
_COMPLETE = "contract_suites_complete"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("contract_pages", "folder of the pages with clauses", default="docs/contracts")
    parser.addini(
        "contract_tests", "folder of the tests that prove them", default="tests/contracts"
    )


def pytest_configure(config: pytest.Config) -> None:
    marker = "proves(*clauses): the test proves these clauses of docs/contracts"
    config.addinivalue_line("markers", marker)
    config.pluginmanager.register(Proof(config), "contract-proof")


class Proof:
    """The outcomes of one run."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._pages = config.rootpath / config.getini("contract_pages")
        self._tests = config.rootpath / config.getini("contract_tests")
        self._deselected = False
        self._selections: list[bool] = []
        self._outcomes: dict[str, set[str]] = {}
        self._missing: list[str] = []

    # -- selection ---

    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        for item in items:
            if self._is_contract_test(item.path) and item.get_closest_marker("full") is None:
                self._deselected = True

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Attach the clauses to the tests that will run."""
        files = set()
        for item in session.items:
            if self._is_contract_test(item.path):
                files.add(item.path)
            for marker in item.iter_markers("proves"):
                item.user_properties += [(_PROPERTY, clause) for clause in marker.args]
        all_files = files == set(self._tests.rglob("test_*.py"))
        by_name = any("::" in argument for argument in self._config.args)
        complete = bool(files) and all_files and not by_name and not self._deselected
        if hasattr(self._config, "workeroutput"):
            self._config.workeroutput[_COMPLETE] = complete
        elif session.items:
            self._selections.append(complete)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """A worker of pytest-xdist has finished."""
        self._selections.append(getattr(node, "workeroutput", {}).get(_COMPLETE, False))

    def _is_contract_test(self, path: Path) -> bool:
        return path.is_relative_to(self._tests)

    # -- outcomes ---

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when != "call" and report.passed:
            return
        outcome = "xfailed" if hasattr(report, "wasxfail") else report.outcome
        for name, clause in report.user_properties:
            if name == _PROPERTY:
                self._outcomes.setdefault(str(clause), set()).add(outcome)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if hasattr(self._config, "workerinput") or self._config.option.collectonly:
            return
        if not self._selections or not all(self._selections):
            return
        for clause, text in read_clauses(self._pages):
            outcomes = self._outcomes.get(clause, set())
            if "passed" not in outcomes:
                reason = ", ".join(sorted(outcomes)) or "no test ran"
                self._missing.append(f"{clause} ({reason}): {text}")
        if self._missing and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._missing:
            terminalreporter.section("clauses without a passing test", red=True)
            for line in self._missing:
                terminalreporter.write_line(line)
