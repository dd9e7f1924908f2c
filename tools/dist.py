"""Make what is released, in `dist/`, from the last commit.

python tools/dist.py [FOLDER]

- the wheel and the source archive, which are the same bytes whenever a commit is built
- `requirements.txt`: every dependency of every extra, with version and hashes
- `recollect-VERSION.cdx.json`: the components of an installation (SBOM, CycloneDX). It is made
  from a virtual environment into which the other files were installed with their hashes checked.
- `SHA256SUMS`

Needs the programs of `make tools`: uv and cyclonedx-py.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from io import BytesIO
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROGRAMS = Path(sys.executable).parent
REQUIREMENTS = "requirements.txt"
CHECKSUMS = "SHA256SUMS"


def run(*command: str | Path, **environment: str) -> None:
    subprocess.run(list(map(str, command)), check=True, env=os.environ | environment)


def git(*arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout


def export_commit(folder: Path) -> None:
    """The files of the last commit; nothing else that lies in the working tree is released."""
    with tarfile.open(fileobj=BytesIO(git("archive", "HEAD"))) as archive:
        archive.extractall(folder, filter="data")


def build(source: Path, target: Path) -> Path:
    """Build both archives, and return the wheel."""
    commit_time = git("log", "-1", "--format=%ct").decode().strip()
    command = ["build", "--quiet", "--no-create-gitignore", "--out-dir", target, source]
    run(PROGRAMS / "uv", *command, SOURCE_DATE_EPOCH=commit_time)
    (wheel,) = target.glob("*.whl")
    return wheel


def lock(source: Path, requirements: Path) -> None:
    """Write all dependencies with hashes, for every system and every supported Python."""
    project = tomllib.loads((source / "pyproject.toml").read_text())["project"]
    oldest_python = project["requires-python"].removeprefix(">=")
    run(
        PROGRAMS / "uv",
        *("pip", "compile", "--quiet", "--universal", "--generate-hashes"),
        *("--no-annotate", "--no-header", "--python-version", oldest_python, "--extra", "all"),
        *("--output-file", requirements),
        source / "pyproject.toml",
    )


def write_sbom(source: Path, requirements: Path, wheel: Path, sbom: Path, folder: Path) -> None:
    uv = PROGRAMS / "uv"
    python = folder / "environment/bin/python"
    run(uv, "venv", "--quiet", "--python", sys.executable, folder / "environment")
    run(uv, "pip", "install", "--quiet", "--python", python, "--require-hashes", "-r", requirements)
    run(uv, "pip", "install", "--quiet", "--python", python, "--no-deps", wheel)
    run(
        PROGRAMS / "cyclonedx-py",
        *("environment", "--pyproject", source / "pyproject.toml", "--mc-type", "application"),
        *("--output-reproducible", "--output-format", "JSON", "--output-file", sbom, python),
    )


def write_checksums(folder: Path) -> None:
    lines = []
    for file in sorted(folder.iterdir()):
        if file.name != CHECKSUMS:
            digest = hashlib.sha256(file.read_bytes()).hexdigest()
            lines.append(f"{digest}  {file.name}\n")
    (folder / CHECKSUMS).write_text("".join(lines))


def main(target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    for file in target.iterdir():
        file.unlink()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source = folder / "source"
        export_commit(source)
        wheel = build(source, target)
        lock(source, target / REQUIREMENTS)
        sbom = target / f"{'-'.join(wheel.name.split('-')[:2])}.cdx.json"
        write_sbom(source, target / REQUIREMENTS, wheel, sbom, folder)
    write_checksums(target)
    print((target / CHECKSUMS).read_text(), end="")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "dist")
