"""What `make dist` writes, and whether it can be installed. Needs a package registry."""

from __future__ import annotations

import hashlib
import json
import re
import runpy
import subprocess
import venv
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PROGRAMS = ROOT / "build/tools/bin"

pytestmark = [
    pytest.mark.full,
    pytest.mark.xdist_group("dist"),
    pytest.mark.skipif(not (PROGRAMS / "uv").exists(), reason="`make tools` installs the programs"),
]


def run(*command: str | Path, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(list(map(str, command)), cwd=cwd, capture_output=True, text=True)


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    process = run(PROGRAMS / "python", ROOT / "tools/dist.py", folder)
    assert process.returncode == 0, process.stderr
    return folder


def locked_versions(dist: Path) -> dict[str, set[str]]:
    """The versions in the locked requirements. A package may have one for each Python."""
    versions: dict[str, set[str]] = {}
    text = (dist / "requirements.txt").read_text()
    for name, version in re.findall(r"^([\w.-]+)==([^ ;\\]+)", text, re.MULTILINE):
        versions.setdefault(canonicalize_name(name), set()).add(version)
    return versions


def components(dist: Path) -> dict[str, str]:
    (sbom,) = dist.glob("*.cdx.json")
    content = json.loads(sbom.read_text())
    assert content["bomFormat"] == "CycloneDX"
    assert content["metadata"]["component"]["name"] == "recollect"
    return {canonicalize_name(part["name"]): part["version"] for part in content["components"]}


def test_the_sbom_lists_what_is_installed(dist: Path) -> None:
    dependencies = runpy.run_path(str(ROOT / "tools/dependencies.py"))
    versions = components(dist)
    assert versions.keys() == dependencies["installation"]("all").keys()
    locked = locked_versions(dist)
    assert all(versions[name] in locked[name] for name in versions)


def test_no_locked_version_has_a_known_advisory(dist: Path) -> None:
    dependencies = runpy.run_path(str(ROOT / "tools/dependencies.py"))
    for name, versions in locked_versions(dist).items():
        assert not any(dependencies["has_advisory"](name, version) for version in versions), name


def test_every_file_has_its_checksum(dist: Path) -> None:
    lines = (dist / "SHA256SUMS").read_text().splitlines()
    checksums = {name: digest for digest, name in (line.split("  ") for line in lines)}
    files = {file.name: file for file in dist.iterdir() if file.name != "SHA256SUMS"}
    assert checksums.keys() == files.keys()
    for name, file in files.items():
        assert hashlib.sha256(file.read_bytes()).hexdigest() == checksums[name]


def test_a_second_build_is_the_same(dist: Path, tmp_path: Path) -> None:
    code = "import sys, pathlib, dist; a, b = map(pathlib.Path, sys.argv[1:]); "
    code += "dist.export_commit(a); dist.build(a, b)"
    again = tmp_path / "again"
    process = run(PROGRAMS / "python", "-c", code, tmp_path / "source", again, cwd=ROOT / "tools")
    assert process.returncode == 0, process.stderr
    for file in again.iterdir():
        assert file.read_bytes() == (dist / file.name).read_bytes(), file.name
    assert len(list(again.iterdir())) == 2


def test_the_wheel_alone_imports_and_searches(dist: Path, tmp_path: Path) -> None:
    """The base, in an environment of its own, which has nothing else."""
    (wheel,) = dist.glob("*.whl")
    environment = tmp_path / "environment"
    venv.create(environment)
    python = environment / "bin/python"
    install = run(PROGRAMS / "uv", "pip", "install", "--quiet", "--python", python, wheel)
    assert install.returncode == 0, install.stderr
    recollect = [python, "-I", "-m", "recollect", "--home", tmp_path / "home"]
    imported = run(*recollect, "import", ROOT / "examples/claude", cwd=tmp_path)
    assert imported.returncode == 0, imported.stderr
    assert "Kyoto" in run(*recollect, "search", "Kyoto", cwd=tmp_path).stdout
    refusal = run(*recollect, "serve", cwd=tmp_path)
    assert "pip install 'recollect[server]'" in refusal.stderr


def test_an_audit_that_could_not_ask_says_so() -> None:
    code = "import sys; sys.path.insert(0, 'tools'); import audit; "
    code += "audit.ask = lambda file: ([], 'no route to host'); sys.exit(audit.main())"
    process = run(PROGRAMS / "python", "-c", code)
    assert process.returncode == 0, process.stderr
    assert "SKIPPED" in process.stdout
    assert "no route to host" in process.stdout


def test_bandit_finds_nothing() -> None:
    process = run(PROGRAMS / "python", ROOT / "tools/security_lint.py")
    assert process.returncode == 0, process.stdout
