"""Measure how the code reads, and compare the figures with their targets.

python tools/house.py [FOLDER]

Exits with 1 if a figure misses its target.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

PARTICIPLES = frozenset(
    [
        "asked",
        "found",
        "given",
        "kept",
        "known",
        "left",
        "made",
        "said",
        "shown",
        "taken",
        "told",
        "wanted",
    ]
)
"""Names that do not say what a value is. A noun (`hits`, `candidates`) does."""
COLUMNS = 100
SIBLINGS = 17


NAMING = (ast.Name, ast.arg, ast.alias, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
"""The nodes that can introduce a name."""


@dataclass
class House:
    """The counts for a tree of Python files."""

    lines: int = 0
    long_lines: int = 0
    unformatted: int = 0
    ternaries: int = 0
    walruses: int = 0
    participles: list[str] = field(default_factory=list)
    functions: list[int] = field(default_factory=list)
    parameters: list[str] = field(default_factory=list)

    def add(self, path: Path) -> None:
        text = path.read_text(encoding="utf-8")
        rows = text.splitlines()
        self.lines += len(rows)
        self.long_lines += sum(len(row) > COLUMNS for row in rows)
        self.unformatted += text.count("# fmt" + ": skip")
        for node in ast.walk(ast.parse(text)):
            self.ternaries += isinstance(node, ast.IfExp)
            self.walruses += isinstance(node, ast.NamedExpr)
            if not isinstance(node, NAMING):
                continue
            for name in names(node):
                if name.strip("_").lower() in PARTICIPLES:
                    line = getattr(node, "lineno", 0)
                    self.participles.append(f"{path}:{line} {name}")
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                self.functions.append((node.end_lineno or 0) - node.lineno + 1)
                if parameter_count(node) > 8:
                    self.parameters.append(f"{path}:{node.lineno} {node.name}")

    def per_thousand(self, count: int) -> float:
        return 1_000 * count / max(self.lines, 1)

    def length(self, share: float) -> int:
        lengths = sorted(self.functions) or [0]
        return lengths[min(int(len(lengths) * share), len(lengths) - 1)]


def names(node: ast.AST) -> Iterator[str]:
    """The names that a node introduces."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    elif isinstance(node, ast.arg):
        yield node.arg
    elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield node.name
    elif isinstance(node, ast.alias) and node.asname:
        yield node.asname


def parameter_count(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    arguments = node.args
    parameters = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return sum(parameter.arg not in ("self", "cls") for parameter in parameters)


def modules(root: Path) -> list[Path]:
    """The modules below a folder, without those of npm packages that `make clients` installs."""
    return sorted(path for path in root.rglob("*.py") if "node_modules" not in path.parts)


def measure(root: Path) -> House:
    house = House()
    for path in modules(root):
        house.add(path)
    return house


def crowded_folders(root: Path) -> list[str]:
    """Folders with too many modules side by side."""
    folders: dict[Path, int] = defaultdict(int)
    for path in modules(root):
        if path.name != "__init__.py":
            folders[path.parent] += 1
    return sorted(f"{folder}: {count}" for folder, count in folders.items() if count > SIBLINGS)


def figures(root: Path) -> list[tuple[str, float, float]]:
    """Each figure by name, with its target."""
    house = measure(root)
    return [
        ("function length, median", house.length(0.5), 13),
        ("function length, 90th percentile", house.length(0.9), 25),
        ("function length, longest", house.length(1.0), 149),
        ("functions with more than 8 parameters", len(house.parameters), 0),
        ("ternaries per 1,000 lines", house.per_thousand(house.ternaries), 12),
        ("walrus operators per 1,000 lines", house.per_thousand(house.walruses), 1),
        ("lines over 100 columns, percent", 100 * house.long_lines / max(house.lines, 1), 1),
        ("fmt: skip", house.unformatted, 0),
        ("participles per 1,000 lines", house.per_thousand(len(house.participles)), 2),
        ("crowded folders", len(crowded_folders(root)), 0),
    ]


def main() -> int:
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[1] / "recollect"
    misses = 0
    print(f"{root.name}: {measure(root).lines:,} lines")
    for name, value, target in figures(root):
        mark = "✓"
        if value > target:
            mark = "✗"
            misses += 1
        print(f"{mark} {name:40} {value:8.1f}   target ≤ {target:g}")
    for folder in crowded_folders(root):
        print(f"  crowded: {folder}")
    return int(misses > 0)


if __name__ == "__main__":
    sys.exit(main())
