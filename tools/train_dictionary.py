"""Train `texts-1.zdict`, the zstd dictionary in `store/sqlite` that compresses messages.

    python -m tools.train_dictionary [--folder FOLDER] [--check]

A dictionary contains fragments of the texts it was trained on, so it is never trained on what users
store: a deleted message must not survive in it. The texts are those sources of the reranker
(`tools/reranker/sources.py`) that may be copied with attribution: meetings, small talk, answers,
documentation, a textbook. The metadata is made up, in the form in which importers store it.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import io
import json
import random
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID
from xml.etree import ElementTree

import zstandard

from tools.reranker.sources import SOURCES, read_source

FOLDER = Path(__file__).parents[1] / "build" / "reranker" / "sources"
DICTIONARY = Path(__file__).parents[1] / "recollect" / "store" / "sqlite" / "texts-1.zdict"
SEED = 7
SIZE = 110 * 1024  # a larger one is slower and saves less than two percent
LONGEST_SAMPLE = 1_600  # characters
# Shares of the samples. With more metadata, the dictionary expects too many digits in texts.
WITH_METADATA = 0.10
OBSERVATIONS = 0.03

Files = dict[str, bytes]


# -- texts ---


def qmsum(files: Files) -> Iterator[str]:
    for data in files.values():
        for turn in json.loads(data)["meeting_transcripts"]:
            yield re.sub(r"\s*\{\w+\}", "", turn["content"])


def selfdialogue(files: Files) -> Iterator[str]:
    for data in files.values():
        for row in csv.DictReader(io.StringIO(data.decode("utf-8", "ignore"))):
            for name, value in row.items():
                if name and name.startswith("Answer.sentence") and value:
                    yield value


def medquad(files: Files) -> Iterator[str]:
    for data in files.values():
        for name in ("Question", "Answer"):
            for element in ElementTree.fromstring(data).iter(name):  # noqa: S314
                yield (element.text or "").strip()


def markdown(files: Files) -> Iterator[str]:
    for data in files.values():
        text = re.sub(r"^---\n.*?\n---\n", "", data.decode("utf-8", "ignore"), flags=re.S)
        text = re.sub(r"\{[%{<].*?[>%}]\}|<!--.*?-->", "", text, flags=re.S)
        yield from re.split(r"\n(?=#+ )", text)


def textbook(files: Files) -> Iterator[str]:
    for data in files.values():
        root = ElementTree.fromstring(data)  # noqa: S314
        for paragraph in root.iter("{http://cnx.rice.edu/cnxml}para"):
            yield " ".join("".join(paragraph.itertext()).split())


READERS: dict[str, tuple[Callable[[Files], Iterator[str]], int]] = {
    "qmsum": (qmsum, 2_000_000),
    "selfdialogue": (selfdialogue, 4_000_000),
    "medquad": (medquad, 2_000_000),
    "kubernetes": (markdown, 1_500_000),
    "githubdocs": (markdown, 4_000_000),
    "collegesuccess": (textbook, 2_400_000),
}
"""How each source is read, and how many characters of it are used."""


def read_texts(folder: Path, rng: random.Random) -> list[str]:
    texts: list[str] = []
    for source in SOURCES:
        if source.name not in READERS:
            continue
        read, budget = READERS[source.name]
        some = [text for text in read(read_source(source, folder)) if len(text) > 20]
        rng.shuffle(some)
        for text in some:
            if budget <= 0:
                break
            texts.append(text[:LONGEST_SAMPLE])
            budget -= len(texts[-1])
    rng.shuffle(texts)
    return texts


# -- metadata ---


def make_metadata(rng: random.Random) -> dict[str, Any]:
    """Metadata of a message as an importer stores it."""
    makers = (_from_chatgpt, _from_chatgpt, _from_claude, _from_claude_code, _from_codex)
    return rng.choice(makers)(rng)


def _uuid(rng: random.Random) -> str:
    return str(UUID(int=rng.getrandbits(128), version=4))


def _from_chatgpt(rng: random.Random) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "content_type": "text",
        "recipient": "all",
        "status": "finished_successfully",
        "weight": 1.0,
    }
    details: dict[str, Any] = {"request_id": _uuid(rng), "timestamp_": "absolute"}
    if rng.random() < 0.5:
        fields["end_turn"] = True
        details |= {
            "default_model_slug": rng.choice(("gpt-4o", "gpt-4", "gpt-5", "o3")),
            "finish_details": {"stop_tokens": [200002], "type": "stop"},
            "is_complete": True,
            "parent_id": _uuid(rng),
        }
    elif rng.random() < 0.3:
        details |= {"message_source": None, "serialization_metadata": {"custom_symbol_offsets": []}}
    return {**fields, "metadata": details}


def _from_claude(rng: random.Random) -> dict[str, Any]:
    start = f"2025-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}T{rng.randint(0, 23):02}:"
    fields: dict[str, Any] = {
        "start_timestamp": f"{start}{rng.randint(0, 59):02}:24.150212Z",
        "stop_timestamp": f"{start}{rng.randint(0, 59):02}:41.732110Z",
    }
    if rng.random() < 0.3:
        fields |= {"message": "web_search", "integration_name": None, "is_error": False}
    return fields


def _from_claude_code(rng: random.Random) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "message_id": f"msg_01{rng.getrandbits(88):022x}",
        "requestId": f"req_011{rng.getrandbits(84):021x}",
    }
    if rng.random() < 0.3:
        fields["usage"] = {
            "cache_creation_input_tokens": rng.randint(0, 40_000),
            "cache_read_input_tokens": rng.randint(0, 90_000),
            "input_tokens": rng.randint(1, 9_000),
            "output_tokens": rng.randint(1, 3_000),
            "service_tier": "standard",
        }
    elif rng.random() < 0.6:
        fields["tool_use_id"] = f"toolu_01{rng.getrandbits(88):022x}"
        fields["input"] = {"command": "git status", "description": "Show the state of the tree"}
        fields["is_error"] = False
    return fields


def _from_codex(rng: random.Random) -> dict[str, Any]:
    return {
        "call_id": f"call_{rng.getrandbits(96):024x}",
        "cwd": rng.choice(("/home/user/project", "/Users/user/project")),
        "status": "completed",
        "turn_id": _uuid(rng),
    }


def observe(text: str, rng: random.Random) -> tuple[str, dict[str, Any]]:
    """A text as an observation: its metadata repeats its sentences."""
    facts = [line for line in re.split(r"(?<=[.!?])\s+", text) if line][:4]
    title = facts[0][:80]
    concepts = sorted({word for word in re.findall(r"[A-Za-z]{6,}", text)})[:5]
    metadata = {
        "asked": [3, 4],
        "concepts": concepts,
        "conversation": _uuid(rng),
        "facts": facts[1:],
        "files_modified": [],
        "files_read": [],
        "lines": [3, 9],
        "maker": "rules-1",
        "narrative": facts[-1],
        "passages": [_uuid(rng), _uuid(rng)],
        "subtitle": facts[0],
        "title": title,
    }
    lines = [title, *facts, f"Concepts: {', '.join(concepts)}"]
    return "\n".join(lines), metadata


# -- the dictionary ---


def _join(content: str, metadata: dict[str, Any]) -> str:
    """A content and its metadata as they are compressed."""
    return f"{content}\0{json.dumps(metadata, separators=(',', ':'), sort_keys=True)}"


def train(folder: Path) -> bytes:
    rng = random.Random(SEED)  # noqa: S311
    samples = []
    for text in read_texts(folder, rng):
        draw = rng.random()
        if draw < WITH_METADATA:
            text = _join(text, make_metadata(rng))
        elif draw < WITH_METADATA + OBSERVATIONS:
            text = _join(*observe(text, rng))
        samples.append(text.encode())
    return zstandard.train_dictionary(SIZE, samples, level=3).as_bytes()


def main() -> None:
    parser = argparse.ArgumentParser(description="Train the dictionary that compresses messages.")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="for the downloaded sources")
    parser.add_argument("--check", action="store_true", help="only compare with the shipped file")
    arguments = parser.parse_args()
    data = train(arguments.folder)
    sys.stderr.write(f"sha256 {hashlib.sha256(data).hexdigest()}, {len(data):,} bytes\n")
    if not arguments.check:
        DICTIONARY.write_bytes(data)
    elif data != DICTIONARY.read_bytes():
        sys.exit(f"{DICTIONARY} is another dictionary.")


if __name__ == "__main__":
    main()
