"""Benchmark search across all kinds of items.

    python -m bench.knowledge [--items 100000] [--keep FOLDER]

A library with `--items` items (60 % messages, 20 % notes, 10 % media with several chunks
each, the rest prompts and characters) is searched with `knowledge.search`. The baseline runs in the
same process on the same texts and follows the Knowledge API to the letter: one FTS5 table per
source, searched separately, with scores normalized to 0..1 and the lists merged. Times are CPU time
of the whole process. Each column has queries of its own, which run once, because a repeated query
is answered from memory.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import apsw

import recollect
from bench import corpus
from recollect.importers.items import with_cues, with_fields, with_text
from recollect.knowledge.options import KnowledgeOptions
from recollect.knowledge.retrieval import parse_retrieval
from recollect.language.transcript import Cue
from recollect.library import Library
from recollect.model.documents import Document
from recollect.model.kinds import CHARACTER, CONVERSATION, MEDIA, NOTE, PROMPT

SHARES = {CONVERSATION: 0.6, NOTE: 0.2, MEDIA: 0.1, PROMPT: 0.05, CHARACTER: 0.05}
QUERIES, WARM_UP, LIMIT, BATCH = 20, 6, 20, 2_000
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
        texts_of_item = list(islice(texts, 5))
        if number % 3:
            yield with_text(new, "\n\n".join(texts_of_item))
        else:
            yield with_cues(
                new, [Cue(n * 5.0, n * 5.0 + 5, text) for n, text in enumerate(texts_of_item)]
            )
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
    """The library, and the database with the baseline's tables."""
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
                    insert = f"insert into {each.kind} values (?, ?, ?)"
                    plain.executemany(insert, plain_rows(each))
            batch = []
    library.index()
    return library, plain


def plain_rows(document: Document) -> list[tuple[str, str, str]]:
    """One row per message of a conversation; one row for any other item."""
    if document.kind == CONVERSATION:
        return [(document.title, p.content, p.id) for p in document.passages]
    content = "".join(p.content for p in document.passages)
    return [(document.title, content, document.source_id)]


# -- searching ---------------------------------------------------------------


def search_plain_tables(plain: apsw.Connection, words: tuple[str, ...]) -> list[Any]:
    """Search each table separately, normalize the scores to 0..1 and merge the lists."""
    match_expression = " OR ".join('"' + word.replace('"', '""') + '"' for word in words)
    merged = []
    for kind in SHARES:
        rows = plain.execute(
            f"select id, title, snippet({kind}, 1, '', '', '…', 40), bm25({kind}) "
            f"from {kind} where {kind} match ? order by rank limit {LIMIT}",
            (match_expression,),
        ).fetchall()
        scores = [row[3] for row in rows]
        score_range = max(scores, default=0.0) - min(scores, default=0.0) + 1e-9
        merged += [(row, (max(scores) - row[3]) / score_range) for row in rows]
    return sorted(merged, key=lambda each: -each[1])[:LIMIT]


def cpu(work: Callable[[], Any]) -> float:
    """CPU milliseconds."""
    start = time.process_time()
    work()
    return (time.process_time() - start) * 1_000


def spread(
    work: Callable[[corpus.SampleQuery], Any], queries: list[corpus.SampleQuery]
) -> tuple[float, float]:
    """Median and 95th percentile in milliseconds."""
    times = sorted(cpu(partial(work, query)) for query in queries)
    return statistics.median(times), times[int(len(times) * 0.95) - 1]


def search(items: int, keep: Path | None) -> None:
    folder = keep or Path(tempfile.mkdtemp(prefix="recollect-bench-"))
    library, plain = build(items, folder)
    print(
        f"{items:,} items, {library._store.size():,} passages; CPU ms, median and 95th percentile\n"
    )
    show_searches(library, plain)
    show_reads(library)
    library.close()
    if keep is None:
        shutil.rmtree(folder)


def show_searches(library: Library, plain: apsw.Connection) -> None:
    print(
        "| query | knowledge.search, text | text and vectors | by time | page 26 "
        "| separate FTS5 tables | FTS5 / text |"
    )
    print("|---|---|---|---|---|---|---|")
    by_text = KnowledgeOptions(limit=LIMIT, mode="text")
    variants = (
        by_text,
        KnowledgeOptions(limit=LIMIT),
        replace(by_text, order_by="recent"),
        replace(by_text, offset=500),
    )
    engines: list[Callable[[corpus.SampleQuery], Any]] = [
        lambda query, options=options: library.knowledge.search(query_text(query), options)
        for options in variants
    ]
    engines.append(lambda query: search_plain_tables(plain, query.words))
    for kind, queries in corpus.many_queries(WARM_UP + QUERIES * len(engines)).items():
        if kind not in ("question", "common word", "phrase", "prefix", "rare word"):
            continue
        for query in queries[:WARM_UP]:
            for engine in engines:
                engine(query)
        # There are fewer common words than queries of other kinds.
        size = (len(queries) - WARM_UP) // len(engines)
        figures = [
            spread(engine, queries[start : start + size])
            for start, engine in zip(range(WARM_UP, len(queries), size), engines, strict=False)
        ]
        cells = " | ".join(f"{median:.1f}, {tail:.1f}" for median, tail in figures)
        print(f"| {kind} | {cells} | {figures[-1][0] / figures[0][0]:.1f} |", flush=True)


def query_text(query: corpus.SampleQuery) -> str:
    if query.kind == "phrase":
        return f'"{" ".join(query.words)}"'
    if query.kind == "prefix":
        return f"{query.words[0]}*"
    return " ".join(query.words)


def show_reads(library: Library) -> None:
    options = KnowledgeOptions(sources=["notes"], limit=1)
    anchor = library.knowledge.search("error", options)["results"][0]
    for mode in ("snippet", "chunk", "chunk_with_siblings", "full"):
        retrieval = parse_retrieval({"mode": mode, "loc": anchor["loc"], "max_tokens": 2_000}, {})
        read = partial(library.knowledge.get, "notes", anchor["id"], retrieval)
        times = [cpu(read) for _ in range(50)]
        print(f"\nget, {mode}: {statistics.median(times):.2f} ms", end="")
    print()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--keep", type=Path)
    arguments = parser.parse_args()
    search(arguments.items, arguments.keep)


if __name__ == "__main__":
    main()
