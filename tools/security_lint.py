"""Run bandit, with the exceptions that ruff has: `noqa: S603` on a line, or in pyproject.toml.

python tools/security_lint.py [FOLDER ...]

Ruff's rules that begin with S are bandit's under the same number. So an exception and its reason
are written once. Exits with 1 if there is a finding.
"""

from __future__ import annotations

import gc
import logging
import re
import sys
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

from bandit.core.config import BanditConfig
from bandit.core.issue import Issue
from bandit.core.manager import BanditManager

ROOT = Path(__file__).parents[1]
NO_FINDINGS = frozenset(
    {"B404"}  # importing subprocess; each use of it is a finding of its own
)
_LINT = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["ruff"]["lint"]
_EXCEPTION = re.compile(r"# noqa: ([A-Z0-9, ]+)")


def findings(folders: list[str]) -> Iterator[Issue]:
    manager = BanditManager(BanditConfig(), "file")
    manager.discover_files(folders, recursive=True)
    manager.run_tests()
    for name, reason in manager.skipped:
        raise SystemExit(f"{name} was not checked: {reason}")
    for issue in manager.get_issue_list():
        if issue.test_id not in NO_FINDINGS and not _is_exception(issue):
            yield issue


def _is_exception(issue: Issue) -> bool:
    rule = issue.test_id.replace("B", "S")
    path = Path(issue.fname).resolve().relative_to(ROOT)
    if rule in _LINT["ignore"]:
        return True
    for pattern, rules in _LINT["per-file-ignores"].items():
        if fnmatch(str(path), pattern) and {rule, "S"} & set(rules):
            return True
    return rule in _rules_on(path, issue.linerange)


def _rules_on(path: Path, numbers: list[int]) -> set[str]:
    """The rules that a comment on one of these lines switches off."""
    lines = (ROOT / path).read_text(encoding="utf-8").splitlines()
    rules: set[str] = set()
    for number in numbers:
        for codes in _EXCEPTION.findall(lines[number - 1]):
            rules.update(re.findall(r"[A-Z]+\d+", codes))
    return rules


def main(folders: list[str]) -> int:
    gc.disable()
    logging.disable(logging.WARNING)  # remarks about comments
    issues = list(findings(folders or [str(ROOT / "recollect")]))
    for issue in issues:
        print(f"{issue.fname}:{issue.lineno}: {issue.test_id} {issue.text}")
    return int(bool(issues))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
