"""Measure how much a reader has to hold, and compare it with what we want.

python tools/house.py [--walk]

Each gauge has a ceiling, which a change may lower and never raise, and the target. Those over REST
also count what other threads of the server do meanwhile, so they vary. `--walk` prints
the functions that one search runs, in order. Exits with 1 if a gauge is above its ceiling.
"""

from __future__ import annotations

import ast
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from statistics import median
from types import CodeType, FrameType
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "recollect"
TESTS = ROOT / "tests"
EXAMPLE = ROOT / "examples" / "chatgpt" / "conversations.json"
QUESTION = "what did I ask about the event loop?"
PUBLIC = ("recollect.cli", "recollect.errors")
"""What a test of the public surface may import of Recollect, apart from the package itself."""
ADAPTERS = "recollect.capture.agents"
"""Where users import the adapters of agent frameworks from (docs/agents-sdk.md)."""

Trees = dict[Path, ast.Module]
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


class Gauge(NamedTuple):
    name: str
    value: float
    ceiling: float
    target: float


def gauges() -> list[Gauge]:
    package, tests = trees(PACKAGE), trees(TESTS)
    lengths = [line_count(path) for path in package]
    functions = [
        node for tree in package.values() for node in ast.walk(tree) if isinstance(node, FUNCTIONS)
    ]
    sizes = sorted((node.end_lineno or 0) - node.lineno + 1 for node in functions)
    names = Counter(path.stem for path in package if path.stem != "__init__")
    test_lines = {path: line_count(path) for path in tests}
    public = sum(test_lines[path] for path, tree in tests.items() if uses_public_surface(tree))
    side_lines = sum(map(line_count, [*trees(ROOT / "bench"), *trees(ROOT / "tools")]))
    walks = Walks()
    return [
        Gauge("lines of recollect/", sum(lengths), 90_300, 75_000),
        Gauge("files", len(package), 412, 420),
        Gauge("folders", len({path.parent for path in package}), 37, 50),
        Gauge("lines of a file, median (at least)", -median(lengths), -199, -150),
        Gauge("lines of the longest file", max(lengths), 660, 700),
        Gauge("functions of one search", len(walks.search.functions), 348, 250),
        Gauge("files of one search", len(walks.search.files), 55, 60),
        Gauge("functions of one search over REST", len(walks.rest.functions), 490, 330),
        Gauge("files of one search over REST", len(walks.rest.files), 92, 80),
        Gauge("functions of importing a conversation", len(walks.importing.functions), 187, 330),
        Gauge("files of importing a conversation", len(walks.importing.files), 35, 80),
        Gauge("frames between search and SQL", walks.search.depth, 18, 12),
        Gauge("methods of a store", method_count("recollect.store.base", "Store"), 82, 70),
        Gauge("methods of a library", method_count("recollect.library", "Library"), 67, 60),
        Gauge("file names of several files", sum(n > 1 for n in names.values()), 36, 15),
        Gauge("private functions, percent", 100 * share(is_private, functions), 16, 25),
        Gauge("regular expressions", pattern_count(package), 261, 180),
        Gauge("lines of a function, median", sizes[len(sizes) // 2], 9, 9),
        Gauge("lines of a function, 90th percentile", sizes[len(sizes) * 9 // 10], 35, 35),
        Gauge("lines of the longest function", sizes[-1], 72, 80),
        Gauge("lines of tests", sum(test_lines.values()), 72_300, 65_000),
        Gauge("tests of the public surface, percent (at least)",
              -100 * public / sum(test_lines.values()), -40, -40),
        Gauge("lines of bench/ and tools/", side_lines, 9_520, 7_500),
        Gauge("lines of ARCHITECTURE.md", line_count(ROOT / "ARCHITECTURE.md"), 200, 200),
    ]  # fmt: skip


def trees(root: Path) -> Trees:
    """The modules below a folder, without those of npm packages that `make clients` installs."""
    paths = sorted(path for path in root.rglob("*.py") if "node_modules" not in path.parts)
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in paths}


def line_count(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def share(is_counted: Callable[[Any], bool], values: Iterable[Any]) -> float:
    counted = [is_counted(value) for value in values]
    return sum(counted) / len(counted)


def is_private(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return function.name.startswith("_") and not function.name.endswith("__")


def pattern_count(package: Trees) -> int:
    return sum(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "re"
        for tree in package.values()
        for node in ast.walk(tree)
    )


def uses_public_surface(tree: ast.Module) -> bool:
    """Whether a test imports nothing of Recollect but what users import."""
    modules = [name for node in ast.walk(tree) for name in imported_modules(node)]
    return all(
        name in ("recollect", *PUBLIC) or name.startswith(ADAPTERS)
        for name in modules
        if name.startswith("recollect")
    )


def imported_modules(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module:
        yield node.module


def method_count(module: str, name: str) -> int:
    owner = getattr(__import__(module, fromlist=[name]), name)
    return sum(
        callable(getattr(owner, method)) for method in dir(owner) if not method.startswith("_")
    )


class Walk:
    """The functions of the package that run while something is done, in order."""

    def __init__(self) -> None:
        self.functions: dict[CodeType, None] = {}
        self.depth = 0

    @property
    def files(self) -> set[str]:
        return {code.co_filename for code in self.functions}

    def profile(self, frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and is_own(frame) and not frame.f_code.co_name.startswith("<"):
            self.functions[frame.f_code] = None
        elif event == "c_call" and getattr(argument, "__name__", "") in ("execute", "executemany"):
            self.depth = max(self.depth, own_depth(frame))


def is_own(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith(str(PACKAGE))


def own_depth(frame: FrameType | None) -> int:
    depth = 0
    while frame:
        depth += is_own(frame)
        frame = frame.f_back
    return depth


class Walks:
    """A warm search in Python and over REST, and an import."""

    def __init__(self) -> None:
        from starlette.testclient import TestClient

        import recollect
        from recollect.serve.app import make_app
        from recollect.serve.http.service import Service, ServiceConfig
        from recollect.settings import place

        self._walk = Walk()
        threading.setprofile(self._profile)
        with tempfile.TemporaryDirectory() as home:
            with recollect.open(home, background=False) as library:
                library.import_path(EXAMPLE.parent.with_name("claude"))
                self.importing = self._record(lambda: library.import_path(EXAMPLE))
                library.index()
                library.search("a warm library")
                self.search = self._record(lambda: library.search(QUESTION))
            service = Service(place(home), ServiceConfig(rate_per_minute=0))
            address = ("127.0.0.1", 50_000)
            with TestClient(make_app(service), "http://127.0.0.1", client=address) as client:
                client.get("/api/v1/search?q=warm")
                self.rest = self._record(lambda: client.get(f"/api/v1/search?q={QUESTION}"))
            service.drain()
            service.close()
        threading.setprofile(None)

    def _profile(self, frame: FrameType, event: str, argument: object) -> None:
        self._walk.profile(frame, event, argument)

    def _record(self, action: Callable[[], object]) -> Walk:
        self._walk = walk = Walk()
        sys.setprofile(self._profile)
        try:
            action()
        finally:
            sys.setprofile(None)
            self._walk = Walk()
        return walk


def main() -> int:
    if "--walk" in sys.argv:
        for code in Walks().search.functions:
            print(f"{Path(code.co_filename).relative_to(ROOT)}  {code.co_qualname}")
        return 0
    measured = gauges()
    for gauge in measured:
        mark = "✓" if gauge.value <= gauge.target else "·" if gauge.value <= gauge.ceiling else "✗"
        value, target = abs(gauge.value), abs(gauge.target)
        print(f"{mark} {gauge.name:48} {value:10,.0f}   target {target:,.0f}")
    return int(any(gauge.value > gauge.ceiling for gauge in measured))


if __name__ == "__main__":
    sys.exit(main())
