"""What an installation of Recollect contains: packages, versions, licences and sizes.

python tools/dependencies.py [EXTRA ...]

Prints one line for each package that these extras install, and what is wrong with any of them: a
licence that is not on the list, or a version that a known advisory is about. Exits with 1 if
something is.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[1]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
ADVISORIES: dict[str, dict[str, Any]] = tomllib.loads((ROOT / "tools/advisories.toml").read_text())
BASE = ""
"""What is installed without an extra."""
EXTRAS = ("documents", "encryption", "onnx", "postgres", "server", "tui")

LICENCES = frozenset(
    """
0BSD Apache-2.0 BSD-2-Clause BSD-3-Clause CC0-1.0 CNRI-Python MIT MIT-0 MIT-CMU MPL-1.1 MPL-2.0
PSF-2.0 Zlib any-OSI LGPL-3.0-only
""".split()
)
"""Licences that let everyone use, change and pass on Recollect under its own."""
STATED_LICENCES = {
    "google-re2": "BSD-3-Clause",
    "httpx": "BSD-3-Clause",
    "jinja2": "BSD-3-Clause",
    "justext": "BSD-2-Clause",
    "pypdfium2": "BSD-3-Clause AND Apache-2.0",
    "pystemmer": "MIT AND BSD-3-Clause",
    "tld": "MPL-1.1",  # the choice among the three that it offers
    "uvloop": "MIT AND Apache-2.0",
}
"""Licences from the files of packages whose metadata is vague, or offers a choice."""
_CLASSIFIERS = {
    "Apache Software License": "Apache-2.0",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
}
_FREE_TEXT = {
    "3-Clause BSD License": "BSD-3-Clause",
    "Apache 2.0": "Apache-2.0",
    "MIT License": "MIT",
}
_OPERATORS = frozenset({"AND", "OR", "WITH"})


def requirements(*extras: str) -> list[Requirement]:
    """What pyproject.toml asks for: the base, and each extra that is named."""
    lines = list(PROJECT["dependencies"])
    for extra in extras:
        lines += _extra_lines(extra)
    return [Requirement(line) for line in lines]


def _extra_lines(extra: str) -> Iterator[str]:
    for line in PROJECT["optional-dependencies"][extra]:
        requirement = Requirement(line)
        if requirement.name == PROJECT["name"]:
            for other in sorted(requirement.extras):
                yield from _extra_lines(other)
        else:
            yield line


def direct_dependencies() -> dict[str, str]:
    """The packages that users install, each with its extra, or "" for the base."""
    extras = {canonicalize_name(r.name): BASE for r in requirements()}
    for extra in EXTRAS:
        for line in _extra_lines(extra):
            extras.setdefault(canonicalize_name(Requirement(line).name), extra)
    return extras


def installation(*extras: str) -> dict[str, Distribution]:
    """The packages that these extras install here, directly and through others, by name."""
    packages: dict[str, Distribution] = {}
    pending = requirements(*extras)
    visited: set[str] = set()
    while pending:
        requirement = pending.pop()
        if str(requirement) in visited:
            continue
        visited.add(str(requirement))
        if requirement.marker and not requirement.marker.evaluate({"extra": ""}):
            continue
        name = canonicalize_name(requirement.name)
        packages[name] = distribution(name)
        pending += _needed_by(packages[name], requirement.extras)
    return dict(sorted(packages.items()))


def _needed_by(package: Distribution, extras: Iterable[str]) -> Iterator[Requirement]:
    for line in package.requires or ():
        requirement = Requirement(line)
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            requirement.marker = None
            yield requirement


def licence(name: str, package: Distribution) -> str:
    """The licence of a package as an SPDX expression, or what its metadata says instead."""
    if name in STATED_LICENCES:
        return STATED_LICENCES[name]
    metadata = package.metadata
    expression = metadata.get("License-Expression")
    if expression:
        return expression
    for classifier in metadata.get_all("Classifier") or ():
        spdx = _CLASSIFIERS.get(classifier.rpartition(" :: ")[2])
        if spdx:
            return spdx
    text = str(metadata.get("License") or "").strip()
    return _FREE_TEXT.get(text, text)


def is_allowed(expression: str) -> bool:
    """Whether every licence in an expression is on the list."""
    names = [word for word in re.findall(r"[\w.+-]+", expression) if word not in _OPERATORS]
    return bool(names) and LICENCES.issuperset(names)


def size(package: Distribution) -> int:
    """The bytes of a package's files on disk."""
    paths = (Path(str(file.locate())) for file in package.files or ())
    return sum(path.stat().st_size for path in paths if path.is_file())


def has_advisory(name: str, version: str) -> bool:
    entry = ADVISORIES.get(name)
    return entry is not None and Version(version) < Version(entry["version"])


def problems(packages: dict[str, Distribution]) -> Iterator[str]:
    for name, package in packages.items():
        expression = licence(name, package)
        if not is_allowed(expression):
            yield f"{name}: the licence {expression!r} is not on the list"
        if has_advisory(name, package.version):
            advisories = ", ".join(ADVISORIES[name]["advisories"])
            yield f"{name} {package.version}: {advisories}; use {ADVISORIES[name]['version']}"


def main(extras: list[str]) -> int:
    packages = installation(*extras)
    for name, package in packages.items():
        megabytes = size(package) / 1e6
        print(f"{name:22} {package.version:14} {megabytes:6.1f} MB  {licence(name, package)}")
    total = sum(map(size, packages.values())) / 1e6
    print(f"{len(packages)} packages, {total:.0f} MB")
    reports = list(problems(packages))
    for report in reports:
        print(report, file=sys.stderr)
    return int(bool(reports))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
