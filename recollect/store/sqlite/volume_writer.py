"""Write a volume."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import tantivy

from recollect.model.kinds import CONVERSATION
from recollect.store.sqlite.checksums import file_checksum
from recollect.store.sqlite.text_index import prepare_text
from recollect.store.sqlite.volume import FORMAT, MANIFEST, IndexContents
from recollect.store.sqlite.volume_queries import schema, split_words, truncate_word

_DRAFT_SUFFIX = ".part"
# Memory that Tantivy fills before it writes a segment. 125,000 messages of sixty words need half of
# it, so they become one segment. Several segments give the same results, but slower.
_HEAP_BYTES = 96_000_000
_HEAP_BYTES_OF_OTHERS = 32_000_000
"""For other passages than visible messages. Most libraries have fewer of them."""
_ROWS_PER_STOP_CHECK = 256


class WriteStopped(Exception):
    """A write was stopped on request. It left nothing behind."""


class Row(NamedTuple):
    """What is indexed of a passage."""

    key: int
    document: int
    title: str
    """Empty unless this is the opening passage of its document."""
    content: str
    role: str | None = None
    author: str | None = None
    created_at: int | None = None
    """Microseconds since 1970."""
    hidden: bool = False
    kind: str = CONVERSATION
    """The kind of its document."""


def write_volume(folder: Path, rows: Iterable[Row], stop: Callable[[], bool] | None = None) -> int:
    """Write a volume to `folder`, which must not exist, and return its number of rows.

    The volume is written beside `folder`, flushed to disk and then renamed, so `folder` is complete
    or does not exist. If the process is killed, `clear_unfinished` removes the remains. Raises
    WriteStopped once `stop` returns true.
    """
    if folder.exists():
        raise FileExistsError(f"{folder} already exists.")
    draft = Path(tempfile.mkdtemp(_DRAFT_SUFFIX, f"{folder.name}.", folder.parent))
    try:
        manifest = write_indexes(draft, rows, stop or (lambda: False))
        (draft / MANIFEST).write_text(json.dumps(manifest), encoding="utf-8")
        flush_folder(draft)
        draft.rename(folder)
    except BaseException:  # also Ctrl-C: half a volume is useless
        shutil.rmtree(draft, ignore_errors=True)
        raise
    flush(folder.parent)
    return int(manifest["rows"])


def clear_unfinished(parent: Path) -> None:
    """Remove the remains of interrupted writes. Call it only while nobody writes to `parent`."""
    for folder in parent.glob(f"*{_DRAFT_SUFFIX}"):
        shutil.rmtree(folder, ignore_errors=True)


def write_indexes(folder: Path, rows: Iterable[Row], stop: Callable[[], bool]) -> dict[str, Any]:
    """Write the indexes and return the manifest."""
    writers: dict[IndexContents, _IndexWriter] = {}
    keys: list[int] = []
    documents: list[int] = []
    try:
        for row in rows:
            if len(keys) % _ROWS_PER_STOP_CHECK == 0 and stop():
                raise WriteStopped
            contents = IndexContents(row.kind, row.hidden)
            if contents not in writers:
                writers[contents] = _IndexWriter(folder / str(len(writers)), contents)
            writers[contents].add(row)
            keys.append(row.key)
            documents.append(row.document)
        if stop():
            raise WriteStopped
        for writer in writers.values():
            writer.commit()
    finally:
        for writer in writers.values():
            writer.close()
    files = {
        path.relative_to(folder).as_posix(): path
        for path in folder.rglob("[!.]*")
        if path.is_file()
    }
    return {
        "format": FORMAT,
        "rows": len(keys),
        "keys": [min(keys, default=1), max(keys, default=0)],
        "documents": [min(documents, default=1), max(documents, default=0)],
        "indexes": [contents._asdict() for contents in writers],
        "files": {name: path.stat().st_size for name, path in files.items()},
        "checksums": {name: file_checksum(path) for name, path in files.items()},
    }


class _IndexWriter:
    """Writes one Tantivy index of a volume."""

    def __init__(self, folder: Path, contents: IndexContents) -> None:
        folder.mkdir()
        heap_bytes = _HEAP_BYTES_OF_OTHERS
        if contents == IndexContents(CONVERSATION, hidden=False):
            heap_bytes = _HEAP_BYTES
        index = tantivy.Index(schema(), path=str(folder))
        index.config_reader("manual")
        self._writer: tantivy.IndexWriter | None = index.writer(heap_bytes, 1)

    def add(self, row: Row) -> None:
        assert self._writer is not None
        entry = tantivy.Document()
        if row.title:
            # A separate value, so that no phrase runs from the title into the content.
            entry.add_text("text", split_words(prepare_text(row.title)))
        entry.add_text("text", split_words(prepare_text(row.content)))
        entry.add_unsigned("key", row.key)
        entry.add_unsigned("document", row.document)
        if row.role is not None:
            entry.add_text("role", truncate_word(row.role))
        if row.author is not None:
            entry.add_text("author", truncate_word(row.author))
        if row.created_at is not None:
            entry.add_integer("created_at", row.created_at)
        self._writer.add_document(entry)

    def commit(self) -> None:
        assert self._writer is not None
        self._writer.commit()
        self._writer.wait_merging_threads()

    def close(self) -> None:
        """Release the folder, committed or not. This also ends Tantivy's threads."""
        self._writer = None


def flush_folder(folder: Path) -> None:
    for path in folder.rglob("*"):
        flush(path)
    flush(folder)


def flush(path: Path) -> None:
    """Flush a file or folder to disk."""
    flags = os.O_RDWR
    if path.is_dir():
        # Windows cannot flush folders, and need not.
        if os.name == "nt":
            return
        flags = os.O_RDONLY
    file = os.open(path, flags)
    try:
        os.fsync(file)
    finally:
        os.close(file)
