"""What `make dist` writes, and whether it can be installed. Needs a package registry."""

from __future__ import annotations

import hashlib
import json
import re
import runpy
import shutil
import subprocess
import sys
import venv
import zipfile
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


@pytest.fixture(scope="module")
def wheel(dist: Path) -> Path:
    (wheel,) = dist.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Python in an empty environment, into which the wheel was installed without extras."""
    environment = tmp_path_factory.mktemp("installation")
    venv.create(environment)
    python = environment / "bin/python"
    install = run(PROGRAMS / "uv", "pip", "install", "--quiet", "--python", python, wheel)
    assert install.returncode == 0, install.stderr
    return python


def test_the_wheel_is_typed_and_has_every_licence(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert "recollect/py.typed" in names
    notices = [
        path.relative_to(ROOT).as_posix() for path in (ROOT / "recollect").rglob("NOTICE.md")
    ]
    licences = [name.partition(".dist-info/licenses/")[2] for name in names]
    assert sorted(filter(None, licences)) == sorted(["LICENSE", *notices])


def test_the_wheel_alone_imports_and_searches(python: Path, tmp_path: Path) -> None:
    recollect = [python, "-I", "-m", "recollect", "--home", tmp_path / "home"]
    imported = run(*recollect, "import", ROOT / "examples/claude", cwd=tmp_path)
    assert imported.returncode == 0, imported.stderr
    assert "Kyoto" in run(*recollect, "search", "Kyoto", cwd=tmp_path).stdout
    refusal = run(*recollect, "serve", cwd=tmp_path)
    assert "pip install 'recollect[server]'" in refusal.stderr


def test_the_demo_runs_from_the_wheel(python: Path, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    demo = run(python, "-I", tmp_path / "examples/demo.py", cwd=tmp_path)
    assert demo.returncode == 0, demo.stdout + demo.stderr
    assert "waters the tomatoes" in demo.stdout
    assert str(python.with_name("recollect")) in demo.stdout
    assert python.with_name("recollect").exists()


def test_the_wheel_runs_without_an_installation(wheel: Path, tmp_path: Path) -> None:
    """As `uvx --from WHEEL recollect` does."""
    process = run(PROGRAMS / "uv", "tool", "run", "--from", wheel, "recollect", "--version")
    assert process.returncode == 0, process.stderr
    assert process.stdout.startswith("recollect ")


def test_programs_that_use_the_wheel_are_type_checked(python: Path, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import recollect\n\nreveal_type(recollect.open().search('x').hits[0].score)\n"
    )
    command = [sys.executable, "-m", "mypy", "--strict", "--python-executable", python, program]
    process = run(*command, cwd=tmp_path)
    assert 'Revealed type is "float"' in process.stdout, process.stdout


def test_an_audit_that_could_not_ask_says_so() -> None:
    code = "import sys; sys.path.insert(0, 'tools'); import audit; "
    code += "audit.ask = lambda file: ([], 'no route to host'); sys.exit(audit.main())"
    process = run(PROGRAMS / "python", "-c", code)
    assert process.returncode == 0, process.stderr
    assert "SKIPPED" in process.stdout
    assert "no route to host" in process.stdout
