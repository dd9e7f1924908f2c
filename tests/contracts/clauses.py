"""The clauses of docs/contracts, and the marker for tests that prove them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGES = Path(__file__).parents[2] / "docs" / "contracts"

proves = pytest.mark.proves
"""`@proves("C0-01", "C0-02")` says which clauses a test proves. See proof.py for what counts."""

_CLAUSE = re.compile(r"^- \*\*(C\d-\d\d)\*\* (.+(?:\n  .+)*)", re.MULTILINE)


def read_clauses(folder: Path) -> list[tuple[str, str]]:
    """Every clause of the pages in a folder: its id and its text on one line."""
    clauses = []
    for page in sorted(folder.glob("*.md")):
        for clause_id, text in _CLAUSE.findall(page.read_text(encoding="utf-8")):
            clauses.append((clause_id, " ".join(text.split())))
    return clauses
