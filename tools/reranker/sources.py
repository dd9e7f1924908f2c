"""The data the reranker is trained on: pinned public repositories with clean licences.

Every repository has a licence file that allows this use. None of the data is part of the question
files that `bench/` measures with, or derived from them.
"""

from __future__ import annotations

import fnmatch
import hashlib
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Source:
    """Files of a GitHub repository at one commit. `sha256` covers their paths and contents."""

    name: str
    repository: str
    commit: str
    licence: str
    patterns: tuple[str, ...]
    sha256: str


SOURCES = (
    Source(
        "qmsum",
        "Yale-LILY/QMSum",
        "83d7768c1f2b4dfeb091385d3dc7e239b8e5bb7e",
        "MIT",
        ("data/ALL/train/*.json", "data/ALL/val/*.json", "data/ALL/test/*.json"),
        "1ceb47e01f77746954d28a7a028c1df2d5b948c69666d7ce13eb64b2160a3a18",
    ),
    Source(
        "friendsqa",
        "emorynlp/FriendsQA",
        "9ce6c98a6acf13c87d96b6811e4409b5de43bdfe",
        "Apache-2.0",
        ("dat/friendsqa_dev.json", "dat/friendsqa_tst.json"),
        "a7c4d348be5576f934335a1e0f6944a948127dad3f6d30b5f6bac9a446471137",
    ),
    Source(
        "molweni",
        "HIT-SCIR/Molweni",
        "2eb681d7e610ee3fda4ab3b4cc364554bd17ee67",
        "Apache-2.0",
        ("MRC(withDiscourse)/test.json",),
        "dc10b698b49e0561504bd749ae2c4fd70382a4bbe9dfa4f18c665128b45d80ca",
    ),
    Source(
        "xquad",
        "google-deepmind/xquad",
        "7d30520c717524000f0d9d2f9c10a069acd9d285",
        "CC BY-SA 4.0",
        ("xquad.en.json",),
        "ec84e6f6a7809baf1fa26f970eb2e60c04f4212129b5d16e4bf9f55f1789aa0c",
    ),
    Source(
        "covidqa",
        "deepset-ai/COVID-QA",
        "fb2eb5e249618457e5359806601086c635c8eb8f",
        "Apache-2.0",
        ("data/question-answering/200423_covidQA.json",),
        "69a3507a4c1454d3b0e5ff426c2b0e25cde87d8accc32070f274dc7e3cafc934",
    ),
    Source(
        "medquad",
        "abachaa/MedQuAD",
        "577bd37b96c02d1833b2c9eed2de9f96964e96cb",
        "CC BY 4.0",
        ("*_QA/*.xml",),
        "e20f048caa8eb4a98a8b0375df8a7c8a77dde8be26ec8a6c003c1bf9ac2b0b75",
    ),
    Source(
        "sgd",
        "google-research-datasets/dstc8-schema-guided-dialogue",
        "e852981ae34990f4358979625854259302feaa78",
        "CC BY-SA 4.0",
        (
            "train/schema.json",
            "train/dialogues_0[0-2]?.json",
            "train/dialogues_09[0-2].json",
            "train/dialogues_10[5-9].json",
            "train/dialogues_11[0-6].json",
        ),
        "36434432f930ed2c75cdaf1663b6372e625a5e1ffdacd24e8e86da9a1cf26731",
    ),
    Source(
        "selfdialogue",
        "jfainberg/self_dialogue_corpus",
        "113a1b0ff10308f1227c13a4aaded9bc85577816",
        "BSD-3-Clause",
        ("corpus/*/*.csv",),
        "9704bd5a6aee98fa499440322ad8361f4b8bb0ea9d6b70faf76363a4fb0b5e00",
    ),
    Source(
        "changelog",
        "thechangelog/transcripts",
        "44a0e16c5919d332e05de481919fbfca90a2c90b",
        "CC BY-SA 4.0",
        (
            "afk/*.md",
            "brainscience/*.md",
            "founderstalk/*.md",
            "friends/*.md",
            "spotlight/*.md",
            "backstage/*.md",
            "podcast/*-3??.md",
            "jsparty/*-1??.md",
            "practicalai/*-1??.md",
        ),
        "d6c65143f65530cdd2be903f6dc8b16972d435a044dd2723937c10076c67f3fa",
    ),
    Source(
        "kubernetes",
        "kubernetes/website",
        "56464fe6c846523da555b49fbb012f0e270871ae",
        "CC BY 4.0",
        (
            "content/en/docs/concepts/*.md",
            "content/en/docs/tasks/*.md",
            "content/en/docs/tutorials/*.md",
            "content/en/docs/setup/*.md",
            "content/en/docs/reference/access-authn-authz/*.md",
        ),
        "c595d72295d04dcb46ee4448973e2ff525036a33f3cf4485745ac999271a1d7a",
    ),
    Source(
        "githubdocs",
        "github/docs",
        "60321755e16a2252417e95479ac5faaf854c660a",
        "CC BY 4.0",
        ("content/*.md",),
        "34d6fdf53a0bbdd6a9346b680f29663c3a65145456e52e96b44b49843cba5508",
    ),
    Source(
        "collegesuccess",
        "openstax/osbooks-college-success-bundle",
        "4c04b87eb2753872c2d442fe9736859ddb27bb72",
        "CC BY 4.0",
        ("modules/*/index.cnxml",),
        "10f2bf5bc0cae715ad2ecfe95aa36234f1767445ccf509b67529386b6ced8efc",
    ),
)


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
