"""The data the reranker is trained on: pinned public repositories with clean licences.

None of it is part of the question files that `bench/` measures with, or derived from them.
"""

from __future__ import annotations

import fnmatch
import hashlib
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple


class Source(NamedTuple):
    """Files of a GitHub repository at one commit."""

    name: str
    repository: str
    commit: str
    licence: str
    patterns: tuple[str, ...]
    sha256: str


_TABLES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
SOURCES = tuple(Source(name, **fields) for name, fields in _TABLES.items())


def read_source(source: Source, folder: Path) -> dict[str, bytes]:
    """The files of a source by path, downloaded into `folder` if they are not there."""
    checkout = folder / source.name
    if not checkout.exists():
        _download(source, checkout)
    files = {}
    for path in sorted(checkout.rglob("*")):
        name = path.relative_to(checkout).as_posix()
        if path.is_file() and matches(name, source.patterns):
            files[name] = path.read_bytes()
    if digest(files) != source.sha256:
        sys.exit(
            f"The files of {source.repository} in {checkout} have the checksum {digest(files)}, "
            f"not {source.sha256}. Delete the folder and run this again."
        )
    return files


def matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def digest(files: Mapping[str, bytes]) -> str:
    total = hashlib.sha256()
    for name in sorted(files):
        total.update(name.encode() + b"\0" + hashlib.sha256(files[name]).digest())
    return total.hexdigest()


def _download(source: Source, checkout: Path) -> None:
    """Check out the files of one commit. Only these files are transferred."""
    sys.stderr.write(f"Downloading {source.repository}\n")
    checkout.mkdir(parents=True)
    address = f"https://github.com/{source.repository}"
    for arguments in (
        ["init", "--quiet"],
        ["sparse-checkout", "set", "--no-cone", *map(_folder, source.patterns)],
        ["fetch", "--quiet", "--depth=1", "--filter=blob:none", address, source.commit],
        ["config", "extensions.partialClone", address],
        ["checkout", "--quiet", source.commit],
    ):
        subprocess.run(["git", "-C", str(checkout), *arguments], check=True)


def _folder(pattern: str) -> str:
    """The folder that contains all matches of a pattern, or the file it names."""
    prefix = re.split(r"[*?\[]", pattern)[0]
    if prefix == pattern:
        return f"/{pattern}"
    folder = prefix.rpartition("/")[0]
    if folder:
        return f"/{folder}/"
    return "/*"
