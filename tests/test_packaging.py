"""What is installed: every dependency is justified, freely licensed, and has no known advisory."""

from __future__ import annotations

import re
import runpy
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path
from types import SimpleNamespace

import pytest
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/dependencies.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def dependencies() -> SimpleNamespace:
    return SimpleNamespace(**runpy.run_path(str(ROOT / "tools/dependencies.py")))


def documented() -> Iterator[tuple[str, str, str]]:
    """The extra, the name and the licence of every package in the docs."""
    for section in PAGE.split("\n## ")[1:]:
        extra = section.splitlines()[0].replace("Base", "")
        for name, licence in re.findall(
            r"^\| ([a-z0-9-]+) \|.*\| ([^|]+) \| [\d.]+ \|$", section, re.M
        ):
            yield extra, name, licence


def test_every_dependency_is_documented(dependencies: SimpleNamespace) -> None:
    pages = {name: extra for extra, name, _ in documented()}
    assert pages == dependencies.direct_dependencies()


def test_the_documented_licences_are_those_of_the_packages(dependencies: SimpleNamespace) -> None:
    packages = dependencies.installation("all")
    for _, name, licence in documented():
        assert licence == dependencies.licence(name, packages[name]), name


def test_every_package_has_an_allowed_licence_and_no_known_advisory(
    dependencies: SimpleNamespace,
) -> None:
    assert list(dependencies.problems(dependencies.installation("all"))) == []


def test_what_the_tests_use_has_no_known_advisory(dependencies: SimpleNamespace) -> None:
    packages = dependencies.installation("dev")
    versions = {name: package.version for name, package in packages.items()}
    assert [name for name in versions if dependencies.has_advisory(name, versions[name])] == []


def test_no_accepted_version_has_a_known_advisory(dependencies: SimpleNamespace) -> None:
    for requirement in dependencies.requirements("all"):
        name = canonicalize_name(requirement.name)
        (lowest,) = [part.version for part in requirement.specifier if part.operator == ">="]
        assert not dependencies.has_advisory(name, lowest), f"{name}>={lowest}"


@pytest.mark.parametrize(
    ("expression", "allowed"),
    [
        ("MIT", True),
        ("MPL-2.0 AND (Apache-2.0 OR MIT)", True),
        ("GPL-3.0-only", False),
        ("MIT AND AGPL-3.0-or-later", False),
        ("Proprietary, see LICENSE", False),
        ("", False),
    ],
)
def test_a_licence_that_is_not_on_the_list_is_noticed(
    dependencies: SimpleNamespace, expression: str, allowed: bool
) -> None:
    assert dependencies.is_allowed(expression) is allowed


def test_a_version_with_a_known_advisory_is_noticed(dependencies: SimpleNamespace) -> None:
    floor = dependencies.ADVISORIES["starlette"]["version"]
    assert dependencies.has_advisory("starlette", "0.49.0")
    assert not dependencies.has_advisory("starlette", floor)
    assert all(Version(entry["version"]) for entry in dependencies.ADVISORIES.values())


def imported_modules() -> set[str]:
    """The first words of all imports in the package, except in the adapters of agent frameworks."""
    words = set()
    for path in (ROOT / "recollect").rglob("*.py"):
        if "agents" not in path.parts:
            text = path.read_text(encoding="utf-8")
            words.update(re.findall(r"^ *(?:from|import) (\w+)", text, re.MULTILINE))
    return words


def test_every_package_that_is_imported_is_a_dependency_and_the_reverse(
    dependencies: SimpleNamespace,
) -> None:
    owners = packages_distributions()
    modules = imported_modules() & owners.keys() - {"recollect"}
    packages = {canonicalize_name(owners[module][0]) for module in modules}
    packages.discard("pydantic-core")  # a part of pydantic
    assert packages == dependencies.direct_dependencies().keys() - LOADED_BY_OTHERS


# Packages that another package imports if they are installed.
LOADED_BY_OTHERS = {
    "httptools",
    "lxml-html-clean",
    "onnx",
    "python-multipart",
    "uvloop",
}


# -- the index that packages come from ---
