"""Notes, media, characters and prompts beside the chats: how fast everything is searched together, and how fast each
kind is imported.

    python -m bench.knowledge [--items 100000] [--only search|import] [--keep FOLDER]

A library of so many items (six tenths messages, two tenths notes, one tenth media of some chunks each, the rest
prompts and characters) is searched through `knowledge.search`. Beside it, in the same process and with the same
texts, the plain way that the contract describes: one FTS5 table a source, each asked by itself, its scores brought
between 0 and 1, and the lists merged. Times are CPU time of the whole process; twelve queries of each kind, a query
counts with the median of three. Importing reads files that were written before; each kind is a library of its own.
"""

from __future__ import annotations

import argparse
import csv
import json
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import apsw

import recollect
from bench import corpus
from recollect.importers.items import with_cues, with_fields, with_text
from recollect.language.transcript import Cue, write
from recollect.library import Library
from recollect.model.documents import Document
from recollect.model.kinds import CHARACTER, CONVERSATION, MEDIA, NOTE, PROMPT

SHARES = {CONVERSATION: 0.6, NOTE: 0.2, MEDIA: 0.1, PROMPT: 0.05, CHARACTER: 0.05}
QUERIES, ROUNDS, LIMIT, BATCH = 12, 3, 20, 2_000
START = datetime(2024, 1, 1, tzinfo=UTC)


# -- the items ---------------------------------------------------------------


def documents(items: int) -> Iterator[Document]:
    counts = {kind: int(items * share) for kind, share in SHARES.items()}
    yield from corpus.documents(counts[CONVERSATION])
    texts = (turn.text for turn in corpus.messages(items * 4, seed=1))
    for number in range(counts[NOTE]):
        at = START + timedelta(hours=number)
        new = Document(
            "notes", f"note {number}", f"Note {number}", NOTE, created_at=at, updated_at=at
        )
        yield with_text(new, "\n\n".join(islice(texts, 3)))
    for number in range(counts[MEDIA]):
        at = START + timedelta(hours=number)
        about = {"media_type": ("video", "pdf", "article")[number % 3]}
        new = Document(
            "media", f"media {number}", f"Media {number}", MEDIA, created_at=at, metadata=about
        )
        said = list(islice(texts, 5))
        if number % 3:
            yield with_text(new, "\n\n".join(said))
        else:
            yield with_cues(new, [Cue(n * 5.0, n * 5.0 + 5, text) for n, text in enumerate(said)])
    for number in range(counts[PROMPT]):
        name = f"Prompt {number}"
        fields = {
            "name": name,
            "details": next(texts)[:200],
            "system_prompt": next(texts),
            "user_prompt": next(texts),
        }
        yield with_fields(Document("prompts", name, kind=PROMPT), fields)
    for number in range(counts[CHARACTER]):
        name = f"Character {number}"
        yield with_fields(
            Document("characters", name, kind=CHARACTER),
            {"name": name, "description": next(texts)},
        )


def build(items: int, folder: Path) -> tuple[Library, apsw.Connection]:
    """The library, and the plain tables beside it."""
    library = recollect.open(folder, background=False)
    plain = apsw.Connection(str(folder / "plain.db"))
    if library._store.size():
        return library, plain
    for kind in SHARES:
        plain.execute(f"create virtual table {kind} using fts5(title, content, id unindexed)")
    batch: list[Document] = []
    for document in (*documents(items), None):
        if document is not None:
            batch.append(document)
        if document is None or sum(len(d.passages) for d in batch) > BATCH:
            library._store.save(batch)
            with plain:
                for each in batch:
                    whole = [
                        (each.title, "".join(p.content for p in each.passages), each.source_id)
                    ]
                    rows = (
                        [(each.title, p.content, p.id) for p in each.passages]
                        if each.kind == CONVERSATION
                        else whole
                    )
                    plain.executemany(f"insert into {each.kind} values (?, ?, ?)", rows)
            batch = []
    library.index()
    return library, plain


# -- searching ---------------------------------------------------------------


def plainly(plain: apsw.Connection, words: tuple[str, ...]) -> list[Any]:
    """As the contract says: each source by itself, scores between 0 and 1, one list."""
    asked = " OR ".join('"' + word.replace('"', '""') + '"' for word in words)
    merged = []
    for kind in SHARES:
        rows = plain.execute(
            f"select id, title, snippet({kind}, 1, '', '', '…', 40), bm25({kind}) from {kind} where {kind} match ? "
            f"order by rank limit {LIMIT}",
            (asked,),
        ).fetchall()
        scores = [row[3] for row in rows]
        spread = max(scores, default=0.0) - min(scores, default=0.0) + 1e-9
        merged += [(row, (max(scores) - row[3]) / spread) for row in rows]
    return sorted(merged, key=lambda each: -each[1])[:LIMIT]


def cpu(work: Callable[[], Any]) -> float:
    began = time.process_time()
    work()
    return (time.process_time() - began) * 1_000


def typical(work: Callable[[corpus.Asked], Any], asked: list[corpus.Asked]) -> tuple[float, float]:
    """Median and 95th percentile in ms."""
    times = sorted(
        statistics.median(cpu(lambda q=query: work(q)) for _ in range(ROUNDS)) for query in asked
    )
    return statistics.median(times), times[int(len(times) * 0.95) - 1]


def search(items: int, keep: Path | None) -> None:
    folder = keep or Path(tempfile.mkdtemp(prefix="recollect-bench-"))
    library, plain = build(items, folder)
    print(
        f"{items:,} items, {library._store.size():,} passages; ms of CPU, median and 95th percentile\n"
    )
    print(
        "| query | knowledge.search, words | words and meaning | by time | page 26 | plain, merged | plain / words |"
    )
    print("|---|---|---|---|---|---|---|")
    find = library.knowledge.search
    for kind, asked in corpus.many_queries(QUERIES).items():
        if kind not in ("question", "common word", "phrase", "prefix", "rare word"):
            continue
        text = {
            "phrase": lambda q: f'"{" ".join(q.words)}"',
            "prefix": lambda q: f"{q.words[0]}*",
        }.get(kind, lambda q: " ".join(q.words))
        ways: list[Callable[[corpus.Asked], Any]] = [
            lambda q, t=text: find(t(q), limit=LIMIT, mode="text"),
            lambda q, t=text: find(t(q), limit=LIMIT),
            lambda q, t=text: find(t(q), limit=LIMIT, mode="text", order_by="recent"),
            lambda q, t=text: find(t(q), limit=LIMIT, mode="text", offset=500),
            lambda q: plainly(plain, q.words),
        ]
        figures = [typical(way, asked) for way in ways]
        shown = " | ".join(f"{median:.1f}, {tail:.1f}" for median, tail in figures)
        print(f"| {kind} | {shown} | {figures[-1][0] / figures[0][0]:.1f} |", flush=True)
    anchor = find("error", sources=["notes"], limit=1)["results"][0]
    from recollect.knowledge.retrieval import parse_retrieval

    for mode in ("snippet", "chunk", "chunk_with_siblings", "full"):
        wanted = parse_retrieval({"mode": mode, "loc": anchor["loc"], "max_tokens": 2_000}, {})
        times = sorted(
            cpu(lambda w=wanted: library.knowledge.get("notes", anchor["id"], w)) for _ in range(50)
        )
        print(f"\nget, {mode}: {statistics.median(times):.2f} ms", end="")
    print()
    library.close()
    if keep is None:
        shutil.rmtree(folder)


# -- importing ---------------------------------------------------------------


def notes(folder: Path, count: int, texts: Iterator[str]) -> None:
    for number in range(count):
        body = "\n\n".join(islice(texts, 3))
        (folder / f"note {number}.md").write_text(
            f"---\ntags: [a, b{number % 7}]\n---\n# Note {number}\n\n{body} [[note {number + 1}]]\n",
            encoding="utf-8",
        )


def pages(folder: Path, count: int, texts: Iterator[str]) -> None:
    for number in range(count):
        body = "".join(f"<p>{text}</p>" for text in islice(texts, 5))
        (folder / f"page {number}.html").write_text(
            f"<html><head><title>Page {number}</title></head><body><article>{body}</article></body></html>",
            encoding="utf-8",
        )


def subtitles(folder: Path, count: int, texts: Iterator[str]) -> None:
    for number in range(count):
        cues = [
            Cue(n * 4.0, n * 4.0 + 4, text[:80].replace("\n", " "))
            for n, text in enumerate(islice(texts, 60))
        ]
        (folder / f"talk {number}.srt").write_text(str(write(cues, "srt")), encoding="utf-8")


def documents_of_word(folder: Path, count: int, texts: Iterator[str]) -> None:
    from docx import Document as Word

    for number in range(count):
        word = Word()
        for text in islice(texts, 5):
            word.add_paragraph("".join(c for c in text if c.isprintable()))
        word.save(str(folder / f"document {number}.docx"))


def prompts(folder: Path, count: int, texts: Iterator[str]) -> None:
    with (folder / "prompts.csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(("act", "prompt"))
        table.writerows((f"Prompt {number}", next(texts)) for number in range(count))


def characters(folder: Path, count: int, texts: Iterator[str]) -> None:
    for number in range(count):
        data = {
            "name": f"Character {number}",
            "description": next(texts),
            "first_mes": next(texts),
            "tags": ["x"],
        }
        card = {"spec": "chara_card_v2", "spec_version": "2.0", "data": data}
        (folder / f"{number}.json").write_text(json.dumps(card), encoding="utf-8")


KINDS: dict[str, tuple[Callable[[Path, int, Iterator[str]], None], int]] = {
    "notes (Markdown)": (notes, 5_000),
    "media: web pages": (pages, 1_000),
    "media: subtitles": (subtitles, 1_000),
    "media: Word": (documents_of_word, 300),
    "prompts (CSV)": (prompts, 10_000),
    "characters (JSON)": (characters, 3_000),
}


def importing() -> None:
    print("| kind | items | MB | items/s | MB/s | again, items/s |")
    print("|---|---|---|---|---|---|")
    for kind, (make, count) in KINDS.items():
        with tempfile.TemporaryDirectory() as place:
            files = Path(place, "files")
            files.mkdir()
            make(
                files,
                count,
                (
                    turn.text
                    for turn in corpus.messages(10_000_000, seed=Random(kind).randrange(99))
                ),
            )
            size = sum(f.stat().st_size for f in files.iterdir()) / 1e6
            with recollect.open(Path(place, "home"), background=False) as library:
                began = time.perf_counter()
                receipt = library.import_path(files)
                first = time.perf_counter() - began
                new = sum(f.conversations.new for f in receipt.files)
                if new != count:
                    sys.exit(f"{kind}: {new} of {count} were imported: {receipt}"[:2_000])
                began = time.perf_counter()
                library.import_path(files)
                again = time.perf_counter() - began
            print(
                f"| {kind} | {count:,} | {size:.1f} | {count / first:,.0f} | {size / first:.1f} | "
                f"{count / again:,.0f} |",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--only", choices=("search", "import"))
    parser.add_argument("--keep", type=Path)
    given = parser.parse_args()
    if given.only != "import":
        search(given.items, given.keep)
    if given.only != "search":
        importing()


if __name__ == "__main__":
    main()
