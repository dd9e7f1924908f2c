"""Measure how many bytes a message takes on disk, part by part, and the speed of an import.

    python -m bench.disk [--messages 100000] [--text synthetic|real] [--keep FOLDER] [--data FOLDER]

The messages are a ChatGPT export, imported and indexed as a user would do it. Synthetic text is
that of `bench.speed`. Real text is every message of the question files in `shared/bench` (see
`bench.quality`), with new ids for every round through the files. A library in FOLDER is reused.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from random import Random

import apsw

from bench import corpus
from bench.quality import FOLDER, libraries
from bench.speed import (
    Cost,
    folder_for,
    folder_size,
    in_own_process,
    log,
    run_import,
    run_indexing,
    table_head,
    table_row,
)

PARTS = {
    "passage": "messages",
    "passage_text_": "FTS5",
    "word": "vocabulary",
    "vector": "vectors in the database",
}
SYNTHETIC = "synthetic"
OTHER_PART = "everything else in the database"


# -- text ------------------------------------------------------------------------


def real_chats(folder: Path, messages: int) -> Iterator[corpus.Chat]:
    """The conversations of the question files, again and again, with `messages` messages."""
    conversations = [
        conversation
        for path in sorted(folder.glob("*.json.gz"))
        for some, _ in libraries(path)
        for conversation in some
    ]
    if not conversations:
        sys.exit(f"There are no *.json.gz files in {folder}. Name their folder with --data.")
    rng = Random(0)
    remaining = messages
    for conversation in itertools.cycle(conversations):
        turns: list[corpus.Turn] = []
        at = datetime.fromisoformat(conversation["created_at"]).timestamp()
        for message in conversation["messages"][:remaining]:
            at += rng.expovariate(1 / 45)
            parent = None
            if turns:
                parent = turns[-1].id
            id_, role, text = corpus.uuid(rng), message["role"], message["content"]
            turns.append(corpus.Turn(id_, parent, role, text, at))
        yield corpus.Chat(corpus.uuid(rng), conversation["title"] or "", tuple(turns))
        remaining -= len(turns)
        if not remaining:
            return


def chats(source: str, messages: int) -> Iterator[corpus.Chat]:
    """Synthetic conversations, or those in a folder."""
    if source == SYNTHETIC:
        return corpus.chats(messages)
    return real_chats(Path(source), messages)


# -- measuring -------------------------------------------------------------------


def database(home: Path) -> Path:
    return home / "users" / "default" / "library.db"


def sizes(home: Path) -> dict[str, int]:
    """The bytes of each part of a library."""
    db = apsw.Connection(str(database(home)))
    parts: dict[str, int] = {}
    tables = (
        "select s.tbl_name, s.name, s.type, d.bytes "
        "from (select name, sum(pgsize) as bytes from dbstat group by name) d "
        "join sqlite_schema s on s.name = d.name"
    )
    for table, name, type_, size in db.execute(tables):
        part = next((p for start, p in reversed(PARTS.items()) if table.startswith(start)), None)
        if part == "messages" and type_ == "index":
            part = f"index {name}"
        part = part or OTHER_PART
        parts[part] = parts.get(part, 0) + size
    parts["free pages"] = db.pragma("freelist_count") * db.pragma("page_size")
    db.close()
    index = database(home).with_name("index")
    parts["volumes"] = folder_size(index / "volumes")
    parts["vector files"] = folder_size(index / "vectors")
    return parts


def text_bytes(home: Path) -> tuple[int, int]:
    """The bytes of the texts and of the metadata of all messages."""
    import recollect

    texts = metadata = 0
    with recollect.open(home, background=False) as library:
        for document in library.documents():
            for passage in document.passages:
                texts += len(passage.content.encode("utf-8", "surrogatepass"))
                if passage.metadata:
                    metadata += len(json.dumps(passage.metadata, separators=(",", ":")))
    return texts, metadata


def build(folder: Path, messages: int, source: str) -> dict[str, Cost]:
    costs_file = folder / "built.json"
    if costs_file.exists():
        return {name: Cost(*cost) for name, cost in json.loads(costs_file.read_text()).items()}
    folder.mkdir(parents=True, exist_ok=True)
    export = folder / "conversations.json"
    log(f"Writing an export of {messages:,} messages")
    corpus.write_chats(export, chats(source, messages))
    log("Importing")
    costs = {"import": in_own_process(run_import, folder / "library", export)}
    export.unlink()
    log("Indexing")
    costs |= in_own_process(run_indexing, folder / "library")
    costs_file.write_text(json.dumps(costs))
    return costs


def show(folder: Path, messages: int, source: str) -> None:
    name = "real"
    if source == SYNTHETIC:
        name = source
    folder = folder / f"{name}-{messages}"
    costs = build(folder, messages, source)
    home = folder / "library"
    print(f"\n## {messages:,} messages, {name} text")
    table_head("building", "CPU s", "wall s", "messages / CPU s")
    for name, cost in costs.items():
        rate = f"{messages / cost.cpu:,.0f}"
        table_row(name, f"{cost.cpu:.1f}", f"{cost.wall:.1f}", rate)
    parts = sizes(home)
    table_head("on disk", "bytes per message")
    for part, size in parts.items():
        table_row(part, f"{size / messages:,.1f}")
    table_row("**total**", f"**{sum(parts.values()) / messages:,.0f}**")
    texts, metadata = text_bytes(home)
    table_row("for comparison: the texts themselves", f"{texts / messages:,.1f}")
    table_row("for comparison: their metadata as JSON", f"{metadata / messages:,.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--text", choices=(SYNTHETIC, "real"), help="default: both")
    parser.add_argument("--data", type=Path, default=FOLDER, help="the folder of the real texts")
    parser.add_argument("--observations", action="store_true", help="make observations, too")
    parser.add_argument("--keep", type=Path, help="keep the libraries in this folder")
    arguments = parser.parse_args()
    os.environ["RECOLLECT_INDEXING"] = "manual"
    if not arguments.observations:
        os.environ["RECOLLECT_OBSERVER"] = "off"
    sources = {SYNTHETIC: SYNTHETIC, "real": str(arguments.data)}
    with folder_for(arguments.keep) as folder:
        for name, source in sources.items():
            if arguments.text in (None, name):
                show(folder, arguments.messages, source)


if __name__ == "__main__":
    main()
