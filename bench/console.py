"""Benchmark the console and the lists of a large library: 100,000 short conversations.

    python -m bench.console [--conversations 100000] [--runs 5] [--keep FOLDER] [--postgres]

A server answers requests over loopback, one at a time. For each: the CPU time of the server
(medians of the runs, warm; the first request after the start apart), the time until the first byte
and the bytes of the response, plain and compressed with gzip. Then the weight of the first page
with its styles and scripts.

Conversations have two to four messages, and come from five sources, forty projects, three years and
eight models; some have tags. There are also 300 notes. The library is sealed and embedded, but not
observed: observations are in no list, and making them would take ten minutes. With `--postgres`, it
is stored in a private PostgreSQL server, whose CPU time counts as well. `--keep` reuses what was
built. Linux only.
"""

from __future__ import annotations

import argparse
import gzip
import http.client
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from random import Random
from urllib.parse import urlencode

import recollect
from bench import corpus
from bench.server import QUICK, Server
from bench.speed import folder_for, format_ms, table_head, table_row
from bench.startup import process_cost
from recollect.index.refresh import refresh
from recollect.model.documents import Document, Passage, arrange
from recollect.model.kinds import NOTE
from recollect.models.embeddings import embedding_setting

_SOURCES = {"chatgpt": 40, "claude": 20, "claude-code": 25, "codex": 10, "gemini-cli": 5}
_MODELS = {
    "chatgpt": ("gpt-4o", "gpt-4o-mini", "o3"),
    "claude": ("claude-sonnet-4", "claude-opus-4"),
    "claude-code": ("claude-sonnet-4", "claude-opus-4"),
    "codex": ("gpt-5-codex", "o3"),
    "gemini-cli": ("gemini-2.5-pro", "gemini-2.5-flash"),
}
_PROJECTS = 40
_TAGS = 25
_TAGGED = 0.15
_PINNED = 0.0005
_UNTITLED = 0.03
_NOTES = 300
_FIRST = datetime(2023, 1, 1, tzinfo=UTC)
_SPAN = timedelta(days=3 * 365)
_BATCH = 2_000


# -- the library -----------------------------------------------------------------------------


def documents(count: int) -> Iterator[Document]:
    """Short conversations, oldest first, and some notes."""
    rng = Random(19)
    texts = (turn.text for turn in corpus.messages(4 * count + 2 * _NOTES, 19))
    for number in range(count):
        yield _conversation(rng, texts, _FIRST + _SPAN * (number / count))
    for number in range(_NOTES):
        note_id = f"note-{number}"
        passage = Passage(f"{note_id}-1", None, next(texts), type="chunk")
        yield arrange(
            Document("notes", note_id, _title(rng), kind=NOTE, id=note_id, passages=(passage,))
        )


def _conversation(rng: Random, texts: Iterator[str], start: datetime) -> Document:
    source = rng.choices(list(_SOURCES), list(_SOURCES.values()))[0]
    model = rng.choice(_MODELS[source])
    passages: list[Passage] = []
    parent = None
    for number, text in enumerate(islice(texts, rng.randint(2, 4))):
        start += timedelta(seconds=rng.expovariate(1 / 45))
        role = ("user", "assistant")[number % 2]
        message_model = (None, model)[number % 2]
        passage = Passage(
            corpus.uuid(rng), role, text, parent=parent, created_at=start, model=message_model
        )
        passages.append(passage)
        parent = passage.id
    conversation_id = corpus.uuid(rng)
    metadata: dict[str, object] = {"url": f"https://example.org/{conversation_id}"}
    if rng.random() < _TAGGED:
        metadata["tags"] = sorted({_tag(rng) for _ in range(rng.randint(1, 3))})
    if rng.random() < _PINNED:
        metadata["pinned"] = True
    title = ""
    if rng.random() >= _UNTITLED:
        title = _title(rng)
    return arrange(
        Document(
            source,
            conversation_id,
            title,
            project=f"project-{_skewed(rng, _PROJECTS)}",
            created_at=passages[0].created_at,
            updated_at=passages[-1].created_at,
            passages=tuple(passages),
            metadata=metadata,
            id=conversation_id,
        )
    )


def _title(rng: Random) -> str:
    return corpus._prose(rng, rng.randint(2, 7)).rstrip(".?:\n")


def _tag(rng: Random) -> str:
    return f"tag-{_skewed(rng, _TAGS)}"


def _skewed(rng: Random, count: int) -> int:
    """A number below `count`; small numbers are more frequent."""
    return int(count * rng.random() ** 2)


def build(place: Path | str, count: int) -> None:
    with recollect.open(place, background=False) as library:
        if library.conversation_page(limit=1)[1]:
            return
        all_documents = documents(count)
        while batch := list(islice(all_documents, _BATCH)):
            library._store.save(batch)
        refresh(library._store, embedding_setting())


# -- the server ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Response:
    body: bytes
    first_byte_ms: float
    cpu_ms: float


class Site:
    """A running server, its address, and the CPU time that it has used."""

    def __init__(self, pid: int, port: int, database: Server | None) -> None:
        self._process = Path(f"/proc/{pid}")
        self._port = port
        self._database = database

    def get(self, path: str) -> Response:
        cpu = self._cpu_ms()
        start = time.perf_counter()
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=120)
        connection.request("GET", path)
        response = connection.getresponse()
        first = response.read(1)
        elapsed = time.perf_counter() - start
        body = first + response.read()
        connection.close()
        assert response.status == 200, (path, response.status, body[:300])
        return Response(body, elapsed * 1000, self._cpu_ms() - cpu)

    def _cpu_ms(self) -> float:
        cpu: float = process_cost(self._process).cpu_ms
        if self._database is not None:
            cpu += self._database.cpu() * 1000
        return cpu


@contextmanager
def running(place: Path | str, database: Server | None) -> Iterator[Site]:
    command = [sys.executable, "-m", "recollect", "serve", "--port", "0", "--json"]
    with subprocess.Popen(
        [*command, "--home", str(place)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout
        address = json.loads(process.stdout.readline())["address"]
        try:
            yield Site(process.pid, int(address.rsplit(":", 1)[1]), database)
        finally:
            process.send_signal(signal.SIGTERM)


def paths(site: Site) -> dict[str, list[str]]:
    """The addresses to measure, each with variants, so that no cache answers for another query."""
    words = ("server", "budget", "garden", "migration", "invoice", "docker", "recipe")
    common = ("file", "error", "function", "data", "code", "value", "name")
    questions = [
        f"how do I configure the {word} for a {other}"
        for word, other in zip(words, common, strict=True)
    ]

    def each(path: str, name: str, values: tuple[str, ...] | list[str], **rest: str) -> list[str]:
        return [f"{path}?{urlencode({name: value, **rest})}" for value in values]

    conversations = json.loads(site.get("/conversations?limit=20").body)["conversations"]
    ids = [conversation["id"] for conversation in conversations]
    titles = ("s", "se", "ser", "serv", "serve", "server", "server ")
    return {
        "start page": ["/"],
        "start page, one project": each("/", "project", [f"project-{n}" for n in range(7)]),
        "start page, one tag": each("/", "tag", [f"tag-{n}" for n in range(7)]),
        "search page, a word": each("/", "q", words),
        "results as fragment, a word": each("/console/hits", "q", [f"{w} fix" for w in words]),
        "search page, a question": each("/", "q", questions),
        "facets, a word": each("/console/facets", "q", words),
        "facets, a common word": each("/console/facets", "q", common),
        "facets, a question": each("/console/facets", "q", questions),
        "palette, opened": ["/console/palette"],
        "palette, a key": each("/console/palette", "text", titles),
        "palette, nothing matches": each("/console/palette", "text", [f"{w}zzz" for w in words]),
        "completion of in:": each("/console/completions", "text", ["in:", "in:p", "tag:", "role:"]),
        "sidebar rows, next page": each("/console/rows", "offset", ["50", "100", "150"]),
        "sidebar rows, far": each("/console/rows", "offset", ["50000", "90000", "70000"]),
        "conversation page": [f"/c/{id_}" for id_ in ids[:7]],
        "activity page": ["/activity"],
        "REST: GET /conversations": ["/conversations", "/conversations?limit=100"],
        "REST: GET /conversations, by tag": each("/conversations", "tag", ["tag-1", "tag-2"]),
        "REST: GET /conversations, a title": each("/conversations", "search", words),
        "REST: /api/v1/stats": ["/api/v1/stats"],
    }


def measure_requests(site: Site, runs: int) -> None:
    table_head("request", "first CPU ms", "CPU ms", "first byte ms", "bytes", "gzip")
    for name, variants in paths(site).items():
        first = site.get(variants[0])
        responses = [site.get(variants[n % len(variants)]) for n in range(1, runs + 1)]
        table_row(
            name,
            format_ms(first.cpu_ms),
            format_ms(statistics.median(response.cpu_ms for response in responses)),
            format_ms(statistics.median(response.first_byte_ms for response in responses)),
            f"{len(first.body):,}",
            f"{len(gzip.compress(first.body)):,}",
        )


def measure_weight(site: Site) -> None:
    """What a browser loads for the first page; styles and scripts only once."""
    page = site.get("/").body
    parts: dict[str, list[bytes]] = {"HTML": [page], "CSS": [], "JavaScript": [], "icons": []}
    waiting = re.findall(rb'(?:href|src)="(/static/[^"]+)"', page)
    paths: set[str] = set()
    while waiting:
        path = waiting.pop().decode()
        if path in paths:
            continue
        paths.add(path)
        kind = {".css": "CSS", ".js": "JavaScript"}.get(Path(path).suffix, "icons")
        body = site.get(path).body
        parts[kind].append(body)
        if kind == "JavaScript":
            folder = path.rpartition("/")[0].encode()
            waiting += [folder + name for name in re.findall(rb'from "\.(/[^"]+)"', body)]
    table_head("weight of the start page", "files", "bytes", "gzip")
    for kind, bodies in parts.items():
        compressed = sum(len(gzip.compress(body)) for body in bodies)
        table_row(kind, len(bodies), f"{sum(map(len, bodies)):,}", f"{compressed:,}")


# -- the whole run ---------------------------------------------------------------------------


def main(arguments: argparse.Namespace, folder: Path) -> None:
    with ExitStack() as stack:
        database = None
        place: Path | str = folder / "library"
        if arguments.postgres:
            database = stack.enter_context(Server(folder / "postgres", QUICK))
            place = database.database("console")
        build(place, arguments.conversations)
        with running(place, database) as site:
            measure_requests(site, arguments.runs)
            measure_weight(site)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--conversations", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--keep", type=Path, help="a folder to reuse")
    parser.add_argument("--postgres", action="store_true")
    options = parser.parse_args()
    os.environ["RECOLLECT_INDEXING"] = "manual"
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has bytecode
    with folder_for(options.keep) as folder:
        main(options, folder)
