"""The SQLite store: one library in one file, with a folder of index files beside it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import apsw

from recollect.errors import DamagedLibrary, ReadOnlyLibrary, StorageFull, StoreBusy
from recollect.language.queries.query_tree import Node, words
from recollect.model.search import Filter
from recollect.store.sql import checking, statistics, transfer
from recollect.store.sql import spaces as space_sql
from recollect.store.sql.database import TextIndex
from recollect.store.sql.encoding import INDEXED_TITLE
from recollect.store.sql.selection import few_documents, resolve_filter
from recollect.store.sql.store import SqlStore, reading, searching
from recollect.store.sqlite import fts, passages, sealing, text_index, verification
from recollect.store.sqlite.connection import Connection, connect
from recollect.store.sqlite.database_errors import (
    READ_ONLY,
    STORAGE_FULL,
    translate_error,
    translate_os_error,
)
from recollect.store.sqlite.encryption import require_encryption
from recollect.store.sqlite.index_folder import IndexFolder
from recollect.store.sqlite.private_files import create_private_folder, protect_file
from recollect.store.sqlite.purging import Purging, request_purge
from recollect.store.sqlite.readers import FileChanged
from recollect.store.sqlite.scans import all_keys, joined, scan_by_key
from recollect.store.sqlite.schema import create, is_created
from recollect.store.sqlite.transactions import Connections
from recollect.store.sqlite.verification import UNINDEXED
from recollect.store.values import (
    Closure,
    Findings,
    MatchGroups,
    Progress,
    Purge,
    Space,
    Unembedded,
)

T = TypeVar("T")

# FTS5 counts matches one by one, so larger counts are lower bounds.
_MAX_COUNTED_MATCHES = 20_000
# Passages indexed in one transaction. Others can write in between.
_PASSAGES_PER_REBUILD_BATCH = 5_000


class SqliteStore(SqlStore[Connection], text=passages):
    def __init__(self, path: Path, read_only: bool = False) -> None:
        """Open a library, and create it if it does not exist. With `read_only`, do neither."""
        self._connections = Connections(path, why_read_only(path, read_only))
        self._index_folder = IndexFolder(self._connections)
        self._purging = Purging(self._connections, self._index_folder.purge)
        if self.read_only:
            self._require_tables()
            return
        try:
            self._prepare(path)
        except StorageFull:
            self._require_tables()  # reading needs no space

    def _prepare(self, path: Path) -> None:
        is_new = not path.exists()
        if is_new:
            require_encryption(path)
        try:
            create_private_folder(path.parent)
        except OSError as error:
            raise translate_os_error(error) from error
        verification.require_complete_copy(path)
        try:
            db = connect(path)
            try:
                if is_new:
                    protect_file(path)
                create(db, path)
                is_behind = verification.is_index_behind(db, self._index_folder.is_encrypted)
            finally:
                db.close()
        except apsw.Error as error:
            raise translate_error(error, path) from error
        if is_behind:
            self._index_missing()
        self.purge()  # what an earlier process could not purge

    def _require_tables(self) -> None:
        verification.require_complete_copy(self.path)
        if not self.path.exists():
            raise StorageFull(STORAGE_FULL)
        with self._connections.read() as db:
            if not is_created(db, self.path):
                raise ReadOnlyLibrary(
                    f"{self.path} is empty, and cannot be written. Open it once where it can be."
                )

    @property
    def path(self) -> Path:
        return self._connections.path

    @property
    def read_only(self) -> str:
        return self._connections.read_only

    @property
    def engine(self) -> str:
        return f"SQLite {apsw.sqlite_lib_version()}"

    def close(self) -> None:
        self._index_folder.close()
        self._connections.close()

    # -- transactions ---

    def snapshot(self) -> AbstractContextManager[None]:
        return self._connections.snapshot()

    def _read(self, work: Callable[[Connection], T], seconds: float | None = None) -> T:
        try:
            with self._connections.read(seconds) as db:
                return work(db)
        except FileChanged:
            with self._connections.read(seconds) as db:
                return work(db)

    def _write(self, work: Callable[[Connection], T]) -> T:
        return self._connections.write(work)

    def _write_text(self, work: Callable[[Connection, TextIndex], T]) -> T:
        return self._connections.write(lambda db: work(db, text_index.FtsIndex(db)))

    # -- deleted text ---

    def _request_purge(self, db: Connection) -> None:
        request_purge(db)

    def purge(self, patience: float | None = 0.0) -> Purge:
        return self._purging.status() if patience is None else self._purging.attempt(patience)

    def _drop_document_copies(self, db: Connection, document: int) -> None:
        """Drop the index volumes that still contain the old text of a document."""
        db.run(
            "delete from volume where exists ("
            "select 1 from stale s join passage p on p.key = s.passage "
            "where s.passage between volume.first and volume.last and p.document = ?)",
            (document,),
        )

    def _drop_outdated_copies(self, db: Connection) -> None:
        db.run(
            "delete from volume where exists "
            "(select 1 from stale s where s.passage between volume.first and volume.last)"
        )

    # -- text search ---

    def match(self, node: Node, filter: Filter, limit: int) -> list[int]:
        def work(db: Connection) -> list[int]:
            resolved_filter = resolve_filter(db, filter)
            if has_volumes(db):
                return self._index_folder.volumes.match(db, node, resolved_filter, limit)
            hits = fts.best_matches(db, node, resolved_filter, all_keys(db), limit)
            return [key for key, _ in hits]

        return self._search(work)

    def count(self, node: Node, filter: Filter) -> tuple[int, bool]:
        def work(db: Connection) -> tuple[int, bool]:
            limit = _MAX_COUNTED_MATCHES
            resolved_filter = resolve_filter(db, filter)
            if has_volumes(db):
                return self._index_folder.volumes.count(db, node, resolved_filter, limit)
            return fts.count_matches(db, node, resolved_filter, all_keys(db), limit)

        return self._search(work)

    def _match_source(
        self, db: Connection, node: Node | None, filter: Filter
    ) -> tuple[str, Sequence[Any]]:
        if node is None:
            return joined(scan_by_key(db, filter, few_documents(db, filter)))
        if has_volumes(db):
            keys = self._index_folder.volumes.matching_keys(db, node, filter)
        else:
            keys = fts.all_matches(db, node, filter, all_keys(db))
        source = "json_each(?) k cross join passage p on p.key = k.value where true"
        return source, [json.dumps(sorted(keys))]

    def _match_groups(self, db: Connection, node: Node | None, filter: Filter) -> MatchGroups:
        # A person who selects one value after another counts the same matches each time.
        groups = super()._match_groups
        return db.memoize(("match groups", node, filter), lambda: groups(db, node, filter))

    title_matches = searching(fts.title_matches)

    def frequencies(self, nodes: Sequence[Node]) -> tuple[list[int], int]:
        def work(db: Connection) -> tuple[list[int], int]:
            limit = _MAX_COUNTED_MATCHES
            key_range = all_keys(db)

            def frequency(node: Node) -> int:
                if has_volumes(db):
                    return self._index_folder.volumes.frequency(db, node, limit)
                return fts.count_matches(db, node, None, key_range, limit)[0]

            counts = [db.memoize(("frequency", n), partial(frequency, n)) for n in nodes]
            return counts, key_range[1]

        return self._search(work)

    def text_scores(self, node: Node, keys: Sequence[int]) -> dict[int, float]:
        query_words = list(words(node))
        counts, size = self.frequencies(query_words)
        frequencies = {word: (count, size) for word, count in zip(query_words, counts, strict=True)}
        return fts.text_scores(frequencies, self.candidates(keys, Filter(hidden=True)))

    # -- vectors ---

    def spaces(self) -> list[Space]:
        return list(self._read(lambda db: db.memoize("spaces", lambda: space_sql.all_spaces(db))))

    def drop_space(self, space: Space) -> None:
        super().drop_space(space)
        self._index_folder.vector_upkeep.refresh()
        self._write(request_purge)
        self.purge()

    unembedded = reading(passages.unembedded)

    def add_vectors(self, space: Space, vectors: Mapping[Unembedded, Sequence[Any]]) -> None:
        from recollect.store.sqlite.vector_rows import insert_vectors, pack

        # Packing all vectors at once is faster.
        blobs = iter(pack([vector for parts in vectors.values() for vector in parts]))
        blobs_by_passage = {
            passage: [next(blobs) for _ in parts] for passage, parts in vectors.items()
        }

        def work(db: Connection) -> None:
            space_sql.add_vectors(
                db, space, blobs_by_passage, lambda rows: insert_vectors(db, space, rows)
            )

        self._write(work)

    def nearest(
        self, space: Space, vector: Any, filter: Filter, limit: int
    ) -> list[tuple[int, float]]:
        return self._search(
            lambda db: self._index_folder.vectors.nearest(db, space, vector, filter, limit)
        )

    def highest_cosines(self, space: Space, vectors: Sequence[Any]) -> list[float]:
        return self._search(
            lambda db: self._index_folder.vectors.highest_cosines(db, space, vectors)
        )

    def cosines(self, space: Space, vector: Any, keys: Sequence[int]) -> dict[int, float]:
        return self._search(lambda db: self._index_folder.vectors.cosines(db, space, vector, keys))

    def vectors(self, space: Space, key: int) -> list[Any]:
        return self._search(lambda db: self._index_folder.vectors.vectors(db, space, key))

    def size(self) -> int:
        return self._read(all_keys)[1]

    # -- transfer ---

    def join_move(self) -> None:
        self._connections.is_mover = True

    def remove_library(self, expected: Closure | None = None) -> None:
        self.close()
        db = connect(self.path)
        try:
            # Leaving WAL mode fails while anybody else has the file open.
            db.execute("pragma journal_mode = delete").fetchall()
            db.execute("begin exclusive")
            transfer.require_closure(db, expected, self.path)
        except apsw.BusyError as error:
            raise StoreBusy(
                f"Another program has {self.path} open, so it was not removed. "
                "Close that program and try again."
            ) from error
        finally:
            db.close(True)
        self._delete_files()

    def _delete_files(self) -> None:
        self._index_folder.delete()
        for suffix in ("", "-journal", "-wal", "-shm"):
            self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)
        with suppress(OSError):  # the folder may contain other files
            self.path.parent.rmdir()

    # -- care ---

    def stats(self) -> dict[str, object]:
        purge = self.purge(None)

        def work(db: Connection) -> dict[str, object]:
            return statistics.library_counts(db) | {
                "indexed_in_part": statistics.long_passages(db),
                "file_bytes": self.path.stat().st_size,
                "purge": purge.state,
                "purge_reason": purge.reason,
                "read_only": self.read_only,
                "path": str(self.path),
                "engine": self.engine,
            }

        return self._read(work)

    def version(self) -> object:
        return self._connections.version()

    def needs_refresh(self) -> bool:
        def work(db: Connection) -> bool:
            if self._index_folder.has_lost_vectors(db):
                return True
            return self._uses_volumes(db) and bool(sealing.ranges_to_seal(db))

        return self._read(work) or self._index_folder.needs_check()

    def refresh(
        self, progress: Progress | None = None, stop: Callable[[], bool] | None = None
    ) -> None:
        if self._read(self._uses_volumes) or self._index_folder.has_volume_files:
            self._index_folder.volumes.refresh(progress, stop)
        self._clear_dropped_spaces()
        if self.spaces() or self._index_folder.has_vector_files:
            self._index_folder.vector_upkeep.refresh()

    def _uses_volumes(self, db: Connection) -> bool:
        return (
            not self._index_folder.is_encrypted and all_keys(db)[1] >= sealing.MIN_VOLUME_PASSAGES
        )

    @contextmanager
    def indexing_lock(self) -> Iterator[bool]:
        if self.read_only:
            raise ReadOnlyLibrary(READ_ONLY.format(reason=self.read_only))
        with ExitStack() as stack:
            try:
                is_held = stack.enter_context(self._index_folder.lock())
            except OSError as error:
                raise translate_os_error(error) from error
            yield is_held

    def verify(self) -> Findings:
        # On a new connection: on a used one, FTS5 checks an older snapshot than it searches.
        try:
            db = self._connections.open_reader()
            try:
                findings = verification.verify(db)
            finally:
                db.close()
            if not findings.damaged:
                findings.damaged_files = self._index_folder.damaged_files()
            findings.events = self._index_folder.damage_events()
            return findings
        except apsw.Error as error:
            raise translate_error(error, self.path) from error

    def repair(self, progress: Progress | None = None) -> None:
        damaged = self.verify().damaged
        if damaged:
            raise DamagedLibrary(
                f"{self.path} is damaged ({damaged[0]}). Nothing was changed: restore a backup "
                "with `recollect restore`, or rescue what can be read with `recollect salvage`."
            )

        def clear(db: Connection, index: TextIndex) -> None:
            checking.remember_lost(db, verification.count_lost(db))
            text_index.clear(db, positions=self._index_folder.is_encrypted)
            space_sql.remove_orphans(db)
            if checking.correct_counts(db):
                statistics.recount(db)

        self._index_folder.drop_damaged()
        self._write_text(clear)
        self._index_missing(progress)

    def _index_missing(self, progress: Progress | None = None) -> None:
        """Index all passages that are not indexed, a batch per transaction. It can be resumed."""
        is_encrypted = self._index_folder.is_encrypted
        if self._read(lambda db: verification.is_index_outdated(db, is_encrypted)):
            self._write_text(lambda db, index: self._clear_index(db))
        total = self._read(lambda db: int(db.get("select count(*) from passage")))
        indexed = 0
        count = self._write_text(index_batch)
        while count:
            indexed += count
            if progress is not None:
                progress(indexed, total)
            count = self._write_text(index_batch)

    def _clear_index(self, db: Connection) -> None:
        text_index.clear(db, positions=self._index_folder.is_encrypted)
        db.run("insert or replace into derived values ('text', ?)", (text_index.VERSION,))


def why_read_only(path: Path, is_requested: bool) -> str:
    """Why nothing may be written to a library; empty if that is allowed."""
    if is_requested:
        return "the setting `read_only` is on"
    if not path.exists():
        return ""
    if not os.access(path, os.W_OK):
        return f"{path.name} is not writable"
    if not os.access(path.parent, os.W_OK):
        return "its folder is not writable"
    return ""


def has_volumes(db: Connection) -> bool:
    sql = "select exists (select 1 from volume where ready)"
    return bool(db.memoize("has volumes", lambda: db.get(sql)))


def index_batch(db: Connection, index: TextIndex) -> int:
    rows = db.rows(
        f"""select p.key, {INDEXED_TITLE}, p.content
        from passage p join document d on d.key = p.document
        where p.key in (select p.key {UNINDEXED} limit ?)""",
        (_PASSAGES_PER_REBUILD_BATCH,),
    )
    index.add([(key, title, content) for key, title, content in rows])
    return len(rows)
