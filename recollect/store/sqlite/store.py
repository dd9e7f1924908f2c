"""The SQLite store: one library in one file, with a folder of index files beside it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import apsw

from recollect.errors import DamagedLibrary, StoreBusy
from recollect.language.query import Node, words
from recollect.model.search import Filter
from recollect.settings import LIMITS
from recollect.store.sql import spaces as space_sql
from recollect.store.sql import statistics, transfer
from recollect.store.sql.database import TextIndex
from recollect.store.sql.selection import resolve_filter
from recollect.store.sql.store import SqlStore, TextQueries
from recollect.store.sqlite import text
from recollect.store.sqlite.connection import Connection, Connections, connect, explained
from recollect.store.sqlite.migrations import migrate
from recollect.store.values import Contents, Findings, Progress, Space, Unembedded

if TYPE_CHECKING:
    from recollect.store.sqlite.sealed import Sealed
    from recollect.store.sqlite.vectors import Vectors

T = TypeVar("T")
SMALLEST = 16_384  # passages from which search needs more than FTS5
_COUNTED = 20_000  # matches that FTS5 counts one by one
_REBUILD_BATCH = 5_000


class SqliteStore(SqlStore[Connection]):
    _text: ClassVar[TextQueries] = text

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._connections = Connections(path)
        self._words = text.Words()
        self._index = path.with_name("index")
        self._prepare(path)

    def _prepare(self, path: Path) -> None:
        existed = path.exists()
        try:
            db = connect(path)
            try:
                if not existed:
                    # By name: closing a file descriptor would drop SQLite's locks.
                    os.chmod(path, 0o600)  # noqa: PTH101
                migrate(db, path)
                behind = _is_index_behind(db)
            finally:
                db.close()
        except apsw.Error as error:
            raise explained(error, path) from error
        if behind:
            self._index_missing()

    @property
    def path(self) -> Path:
        return self._connections.path

    @property
    def engine(self) -> str:
        return f"SQLite {apsw.sqlite_lib_version()}"

    def close(self) -> None:
        for name in ("_sealed", "_vectors"):
            if name in self.__dict__:
                self.__dict__[name].close()
        self._connections.close()

    # Loaded on first use, because most processes that open a library never need them.

    @cached_property
    def _sealed(self) -> Sealed:
        from recollect.store.sqlite.sealed import Sealed

        return Sealed(self._index / "volumes", self._connections)

    @cached_property
    def _vectors(self) -> Vectors:
        from recollect.store.sqlite.vectors import Vectors

        return Vectors(self._index / "vectors", self._connections)

    # -- transactions ---

    def _read(self, work: Callable[[Connection], T], seconds: float | None = None) -> T:
        with self._connections.read(seconds) as db:
            return work(db)

    def _write(self, work: Callable[[Connection], T]) -> T:
        return self._connections.write(work)

    def _write_text(self, work: Callable[[Connection, TextIndex], T]) -> T:
        try:
            return self._connections.write(lambda db: work(db, text.Index(db, self._words)))
        except BaseException:
            self._words.forget()  # words of a rolled back transaction are not in the vocabulary
            raise

    def _complete_vocabulary(self) -> None:
        if self._read(text.words_are_behind):
            self._write_text(lambda db, index: text.list_words(db))

    def _purge(self) -> None:
        """Remove deleted text from the index files and from the write-ahead log."""
        if (self._index / "volumes").exists():
            self._sealed.sweep()
        if (self._index / "vectors").exists():
            self._vectors.wipe()
        self._connections.purge_log()

    def _forget_document(self, db: Connection, document: int) -> None:
        """Drop the index volumes that still contain the old text of a document."""
        db.run(
            "delete from volume where exists ("
            "select 1 from stale s join passage p on p.key = s.passage "
            "where s.passage between volume.first and volume.last and p.document = ?)",
            (document,),
        )

    # -- text search ---

    def match(self, node: Node, filter: Filter, limit: int) -> list[int]:
        def work(db: Connection) -> list[int]:
            narrowed = resolve_filter(db, filter)
            if _is_sealed(db):
                return self._sealed.best(db, node, narrowed, limit)
            few = text.keys_of_few(db, narrowed)
            scored = text.best(db, node, narrowed, text.everything(db), limit, few)
            return [key for key, _ in scored]

        return self._search(work)

    def count(self, node: Node, filter: Filter) -> tuple[int, bool]:
        def work(db: Connection) -> tuple[int, bool]:
            narrowed = resolve_filter(db, filter)
            if _is_sealed(db):
                return self._sealed.count(db, node, narrowed, _COUNTED)
            few = text.keys_of_few(db, narrowed)
            count = text.count(db, node, narrowed, text.everything(db), _COUNTED, few)
            return count, count < _COUNTED

        return self._search(work)

    def frequencies(self, nodes: Sequence[Node]) -> tuple[list[int], int]:
        def work(db: Connection) -> tuple[list[int], int]:
            everything = text.everything(db)
            if _is_sealed(db):
                counts = self._sealed.frequencies(db, nodes, _COUNTED)
            else:
                counts = [text.count(db, node, None, everything, _COUNTED) for node in nodes]
            return counts, everything[1]

        return self._search(work)

    def text_scores(self, node: Node, keys: Sequence[int]) -> dict[int, float]:
        query_words = list(words(node))
        counts, size = self.frequencies(query_words)
        frequencies = {word: (count, size) for word, count in zip(query_words, counts, strict=True)}
        return text.scores(frequencies, self.candidates(keys, Filter(hidden=True)))

    # -- vectors ---

    def drop_space(self, space: Space) -> None:
        super().drop_space(space)
        self._vectors.refresh()
        self._connections.purge_log()

    def add_vectors(self, space: Space, vectors: Mapping[Unembedded, Sequence[Any]]) -> None:
        from recollect.store.sqlite.vectors import packed

        blobs = iter(packed([vector for parts in vectors.values() for vector in parts]))
        packed_vectors = {
            passage: [next(blobs) for _ in parts] for passage, parts in vectors.items()
        }

        def work(db: Connection) -> None:
            def insert(rows: list[tuple[int, bytes]]) -> None:
                columns = ("space", "passage", "vector")
                db.insert("vector", columns, [(space.id, key, blob) for key, blob in rows])

            space_sql.add_vectors(db, space, packed_vectors, insert)

        self._write(work)

    def nearest(
        self, space: Space, vector: Any, filter: Filter, limit: int
    ) -> list[tuple[int, float]]:
        return self._search(
            lambda db: self._vectors.nearest(db, space, vector, resolve_filter(db, filter), limit)
        )

    def cosines(self, space: Space, vector: Any, keys: Sequence[int]) -> dict[int, float]:
        return self._search(lambda db: self._vectors.cosines(db, space, vector, keys))

    def vectors(self, space: Space, key: int) -> list[Any]:
        return self._search(lambda db: list(self._vectors.of(db, space, key)))

    def size(self) -> int:
        return self._read(text.everything)[1]

    def sample(self, limit: int) -> Iterator[str]:
        with self._connections.read() as db:
            yield from text.sample(db, limit)

    # -- transfer ---

    def remove_library(self, expected: Contents | None = None) -> None:
        self.close()
        db = connect(self.path)
        try:
            # Leaving WAL mode fails while anybody else has the file open.
            db.execute("pragma journal_mode = delete").fetchall()
            db.execute("begin exclusive")
            transfer.require_contents(db, expected, self.path)
        except apsw.BusyError as error:
            raise StoreBusy(
                f"Another program has {self.path} open, so it was not removed. "
                "Close that program and try again."
            ) from error
        finally:
            db.close(True)
        self._delete_files()

    def _delete_files(self) -> None:
        for file in sorted(self._index.rglob("*"), reverse=True):
            if file.is_dir():
                file.rmdir()
            else:
                file.unlink()
        if self._index.exists():
            self._index.rmdir()
        for suffix in ("", "-journal", "-wal", "-shm"):
            self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)
        with suppress(OSError):  # the folder may hold other files
            self.path.parent.rmdir()

    # -- care ---

    def stats(self) -> dict[str, object]:
        def work(db: Connection) -> dict[str, object]:
            partly_indexed = db.get(
                "select count(*) from passage where length(content) > ?",
                (LIMITS.indexed_characters,),
            )
            return statistics.library_counts(db) | {
                "indexed_in_part": partly_indexed,
                "file_bytes": self.path.stat().st_size,
                "path": str(self.path),
                "engine": self.engine,
            }

        return self._read(work)

    def version(self) -> object:
        return self._connections.version()

    def needs_refresh(self) -> bool:
        def work(db: Connection) -> bool:
            if text.everything(db)[1] < SMALLEST:
                return False
            return self._sealed.waiting(db) > 0

        return self._read(work)

    def refresh(
        self, progress: Progress | None = None, stop: Callable[[], bool] | None = None
    ) -> None:
        if self.size() >= SMALLEST or (self._index / "volumes").exists():
            self._sealed.refresh(progress, stop)
        self._clear_dropped_spaces()
        if self.spaces() or (self._index / "vectors").exists():
            self._vectors.refresh()

    def indexing_lock(self) -> AbstractContextManager[bool]:
        from recollect.store.sqlite.sealed import locked

        return locked(self._index / "lock")

    def verify(self) -> Findings:
        # On a new connection: on a used one, FTS5 checks an older snapshot than it searches.
        db = connect(self.path)
        try:
            return _verify(db)
        except apsw.Error as error:
            raise explained(error, self.path) from error
        finally:
            db.close()

    def repair(self, progress: Progress | None = None) -> None:
        damaged = self.verify().damaged
        if damaged:
            raise DamagedLibrary(
                f"{self.path} is damaged ({damaged[0]}). Nothing was changed: restore a backup, or "
                "export what can still be read with `recollect export`."
            )

        def clear(db: Connection, index: TextIndex) -> None:
            db.execute("insert into passage_text (passage_text) values ('delete-all')")
            db.execute("delete from word")
            space_sql.remove_orphans(db)

        self._write_text(clear)
        self._words.forget()
        self._index_missing(progress)

    def _index_missing(self, progress: Progress | None = None) -> None:
        """Index every passage that is not indexed, a batch per transaction; can be interrupted."""
        if self._read(_is_index_outdated):
            self._write_text(lambda db, index: _clear_index(db))
        total = self._read(lambda db: int(db.get("select count(*) from passage")))
        done = 0
        count = self._write_text(_index_batch)
        while count:
            done += count
            if progress is not None:
                progress(done, total)
            count = self._write_text(_index_batch)
        self._complete_vocabulary()


_MISSING = (
    "from passage p where not exists (select 1 from passage_text_docsize s where s.id = p.key)"
)
_ORPHANED = (
    "from passage_text_docsize s where not exists (select 1 from passage p where p.key = s.id)"
)


def _is_sealed(db: Connection) -> bool:
    return bool(db.get("select exists (select 1 from volume where ready)"))


def _clear_index(db: Connection) -> None:
    db.execute(
        "insert into passage_text (passage_text) values ('delete-all'); delete from word; "
        "insert or replace into derived values ('text', ?)",
        (text.VERSION,),
    ).fetchall()


def _index_batch(db: Connection, index: TextIndex) -> int:
    rows = db.rows(
        f"""select p.key, case when d.opening = p.key then d.title else '' end, p.content
        from passage p join document d on d.key = p.document
        where p.key in (select p.key {_MISSING} limit ?)""",
        (_REBUILD_BATCH,),
    )
    index.add([(key, title, content) for key, title, content in rows])
    return len(rows)


def _is_index_outdated(db: Connection) -> bool:
    return bool(db.get("select version from derived where name = 'text'") != text.VERSION)


def _is_index_behind(db: Connection) -> bool:
    """Whether the index is incomplete, judged by its newest row: cheap enough for every start."""
    newest = db.get("select max(key) from passage") or 0
    newest_indexed = db.get("select max(id) from passage_text_docsize") or 0
    if _is_index_outdated(db) or text.words_are_behind(db):
        return True
    return bool(newest_indexed < newest)


def _verify(db: Connection) -> Findings:
    findings = Findings(outdated=_is_index_outdated(db))
    for (line,) in db.rows("pragma integrity_check(20)"):
        if line == "ok":
            continue
        if "passage_text" in line:
            findings.damaged_index.append(line)
        else:
            findings.damaged.append(line)
    for table, row, parent, *_ in db.rows("pragma foreign_key_check"):
        findings.damaged.append(f"{table} row {row} refers to a missing {parent}")
    findings.unindexed = db.get(f"select count(*) {_MISSING}")
    findings.orphaned = db.get(f"select count(*) {_ORPHANED}")
    findings.orphaned_in_queue = space_sql.count_orphans(db)
    # integrity_check misses some damage inside the index that a ranked search runs into.
    try:
        db.rows(
            "select rowid from passage_text where passage_text match 'the OR a OR of' "
            "order by rank limit 1"
        )
    except apsw.CorruptError as error:
        findings.damaged_index.append(str(error))
    return findings
