"""The store on SQLite: one file, one library."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import apsw

from recollect.errors import DamagedLibrary, NotFound, StoreBusy
from recollect.language.query import Node, Word, words
from recollect.model.documents import Bone, Document, Passage, Summary
from recollect.model.kinds import CONVERSATION
from recollect.model.receipts import Receipt
from recollect.model.search import Filter
from recollect.settings import LIMITS
from recollect.store.base import (
    Activity,
    Batch,
    Candidate,
    Contents,
    Findings,
    Placed,
    Saved,
    Space,
    Store,
    Unembedded,
)
from recollect.store.sql import (
    documents,
    receipts,
    rewriting,
    spaces,
    statistics,
    transfer,
)
from recollect.store.sql import (
    observations as observing,
)
from recollect.store.sql.encoding import Progress
from recollect.store.sql.selection import exact
from recollect.store.sqlite import text
from recollect.store.sqlite.connection import Connection, Connections, connect, explained
from recollect.store.sqlite.migrations import migrate

if TYPE_CHECKING:
    from recollect.store.sqlite.sealed import Sealed
    from recollect.store.sqlite.vectors import Vectors

T = TypeVar("T")
SMALLEST = 16_384  # passages from which searching needs more than FTS5
_COUNTED = 20_000  # matches that FTS5 counts one by one
_REBUILD_BATCH = 5_000


class SqliteStore(Store):
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
                    os.chmod(path, 0o600)  # noqa: PTH101 - by name: a descriptor's close would drop SQLite's locks
                migrate(db, path)
                behind = _behind(db)
            finally:
                db.close()
        except apsw.Error as error:
            raise explained(error, path) from error
        if behind:
            self._backfill()

    @property
    def path(self) -> Path:
        return self._connections.path

    @property
    def engine(self) -> str:
        return f"SQLite {apsw.sqlite_lib_version()}"

    def close(self) -> None:
        for part in ("_sealed", "_vectors"):
            if part in self.__dict__:
                self.__dict__[part].close()
        self._connections.close()

    # Loaded on first need: most processes that open a library never ask them.

    @cached_property
    def _sealed(self) -> Sealed:
        from recollect.store.sqlite.sealed import Sealed

        return Sealed(self._index / "volumes", self._connections)

    @cached_property
    def _vectors(self) -> Vectors:
        from recollect.store.sqlite.vectors import Vectors

        return Vectors(self._index / "vectors", self._connections)

    # -- writing ---

    def save(
        self, documents_: Sequence[Document], receipt: int | None = None, by_id: bool = False
    ) -> list[Saved]:
        saved = self._write(
            lambda db: documents.save(db, text.Index(db, self._words), documents_, receipt, by_id)
        )
        if receipt is None:
            self._list_words()
        if any(one.removed for one in saved):
            self._purge()
        return saved

    def rewrite(self, document: str, given: Document, version: int | None = None) -> Saved:
        def work(db: Connection) -> Saved:
            saved = documents.rewrite(db, text.Index(db, self._words), document, given, version)
            _drop_volumes(db, documents.key_of(db, saved.id))
            return saved

        saved = self._write(work)
        self._list_words()
        self._purge()
        return saved

    def revise(self, document: str, change: Callable[[Document], Document]) -> int:
        def work(db: Connection) -> int:
            changed = documents.revise(db, document, change, text.Index(db, self._words))
            _drop_volumes(db, documents.key_of(db, document))
            return changed

        changed = self._write(work)
        self._list_words()
        self._purge()
        return changed

    def forget_states(self, unwanted: Callable[[str], bool]) -> int:
        forgotten = self._write(lambda db: rewriting.forget_states(db, unwanted))
        self._purge()
        return forgotten

    def cut(self, document: str, passage: str) -> Passage:
        removed = self._write(
            lambda db: documents.cut(db, document, passage, text.Index(db, self._words))
        )
        self._purge()
        return removed

    def append(self, document: str, passage: Passage) -> Placed:
        return self._write(
            lambda db: documents.append(db, document, passage, text.Index(db, self._words))
        )

    def extend(self, document: str, passages: Sequence[Passage]) -> int:
        return self._write(
            lambda db: documents.extend(db, document, passages, text.Index(db, self._words))
        )

    def amend(
        self,
        document: str,
        title: str | None = None,
        project: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        self._write(
            lambda db: documents.amend(
                db, document, text.Index(db, self._words), title, project, metadata
            )
        )

    def unobserved(self, limit: int) -> tuple[list[tuple[str, int]], int]:
        with self._connections.read() as db:
            return observing.unobserved(db, limit)

    def observe(
        self, conversation: str, version: int, given: Document | None, complete: bool = True
    ) -> None:
        self._write(
            lambda db: observing.observe(
                db, text.Index(db, self._words), conversation, version, given, complete
            )
        )

    def observe_again(self, incomplete: bool = False) -> None:
        self._write(lambda db: observing.begin_again(db, incomplete))

    def delete(self, document: str) -> None:
        self._write(
            lambda db: documents.delete(
                db, documents.key_of(db, document), text.Index(db, self._words)
            )
        )
        self._purge()

    def take(self, document: str) -> Document:
        taken: Document = self._write(
            lambda db: documents.take(db, document, text.Index(db, self._words))
        )
        self._purge()
        return taken

    def _purge(self) -> None:
        """Leave nothing of what was deleted in any file."""
        if (self._index / "volumes").exists():
            self._sealed.sweep()
        if (self._index / "vectors").exists():
            self._vectors.wipe()
        self._connections.purge_log()

    def _write(self, work: Callable[[Connection], T]) -> T:
        try:
            return self._connections.write(work)
        except BaseException:
            self._words.forget()  # the words of a transaction that was rolled back are not in the table
            raise

    # -- reading ---

    def document(self, id: str) -> Document:
        with self._connections.read() as db:
            return documents.read(db, documents.key_of(db, id))

    def head(self, id: str) -> Document:
        with self._connections.read() as db:
            return documents.read_head(db, documents.key_of(db, id))

    def summary(self, id: str) -> Summary:
        with self._connections.read() as db:
            return documents.summary(db, id)

    def find(self, source: str, source_id: str) -> str | None:
        with self._connections.read() as db:
            return documents.find(db, source, source_id)

    def bones(self, id: str) -> list[Bone]:
        with self._connections.read() as db:
            return documents.bones(db, id)

    def contents(self, keys: Sequence[int]) -> dict[int, tuple[str, Passage]]:
        with self._connections.read() as db:
            return documents.contents(db, keys)

    def changed(self, keys: Sequence[int]) -> list[tuple[int, str, datetime | None]]:
        with self._connections.read() as db:
            return documents.changed(db, keys)

    def part(self, id: str, position: int, limit: int) -> tuple[list[Passage], int]:
        with self._connections.read() as db:
            return documents.part(db, id, position, limit)

    def holding(self, source: str, passages: Sequence[str]) -> list[tuple[str, str]]:
        with self._connections.read() as db:
            return documents.holding(db, source, passages)

    def documents(
        self, filter: Filter, search: str, limit: int, offset: int
    ) -> tuple[list[Summary], int]:
        with self._connections.read(LIMITS.search_seconds) as db:
            return documents.summaries(db, filter, search, limit, offset)

    def every(self, filter: Filter) -> Iterator[Document]:
        with self._connections.read() as db:
            keys = documents.keys(db, filter)
        for key in keys:
            with suppress(NotFound):  # it may have been deleted meanwhile
                with self._connections.read() as db:
                    document = documents.read(db, key)
                yield document

    # -- finding ---

    def match(self, node: Node, filter: Filter, limit: int) -> list[int]:
        with self._searching() as db:
            filter = exact(db, filter)
            if self._is_sealed(db):
                return self._sealed.best(db, node, filter, limit)
            few = text.keys_of_few(db, filter)
            return [key for key, _ in text.best(db, node, filter, text.everything(db), limit, few)]

    def openings(self, words_: Sequence[Word]) -> list[int]:
        with self._searching() as db:
            return documents.openings(db, words_)

    def count(self, node: Node, filter: Filter) -> tuple[int, bool]:
        with self._searching() as db:
            filter = exact(db, filter)
            if self._is_sealed(db):
                return self._sealed.count(db, node, filter, _COUNTED)
            counted = text.count(
                db, node, filter, text.everything(db), _COUNTED, text.keys_of_few(db, filter)
            )
            return counted, counted < _COUNTED

    def frequencies(self, nodes: Sequence[Node]) -> tuple[list[int], int]:
        with self._searching() as db:
            everything = text.everything(db)
            if self._is_sealed(db):
                counts = self._sealed.frequencies(db, nodes, _COUNTED)
            else:
                counts = [text.count(db, node, None, everything, _COUNTED) for node in nodes]
            return counts, everything[1]

    def variants(self, words: Sequence[str]) -> list[tuple[str, ...]]:
        with self._searching() as db:
            return text.variants(db, words)

    def passages(self, keys: Sequence[int], filter: Filter) -> list[Candidate]:
        with self._searching() as db:
            return text.passages(db, keys, exact(db, filter))

    def text_scores(self, node: Node, keys: Sequence[int]) -> dict[int, float]:
        each = list(words(node))
        counts, size = self.frequencies(each)
        found = self.passages(keys, Filter(hidden=True))
        return text.scores({word: (n, size) for word, n in zip(each, counts, strict=True)}, found)

    def preceding(self, keys: Sequence[int]) -> list[Candidate]:
        with self._searching() as db:
            return text.preceding(db, keys)

    def key(self, document: str, passage: str) -> int:
        with self._searching() as db:
            return documents.passage_key(db, document, passage)

    def _searching(self) -> AbstractContextManager[Connection]:
        return self._connections.read(LIMITS.search_seconds)

    def _is_sealed(self, db: Connection) -> bool:
        return bool(db.execute("select exists (select 1 from volume where ready)").get)

    def find_literal(
        self, text_: str, filter: Filter, limit: int, offset: int
    ) -> tuple[list[Candidate], int]:
        with self._connections.read(LIMITS.search_seconds) as db:
            return text.find_literal(db, text_, exact(db, filter), limit, offset)

    def newest(
        self, filter: Filter, limit: int, offset: int, by_document: bool = False
    ) -> tuple[list[Candidate], int]:
        with self._searching() as db:
            return text.newest(db, exact(db, filter), limit, offset, by_document)

    def recent(self, text_: str | None, filter: Filter, limit: int) -> list[Candidate]:
        with self._connections.read(LIMITS.search_seconds) as db:
            return text.recent(db, text_, exact(db, filter), limit)

    # -- vectors ---

    def spaces(self) -> list[Space]:
        with self._connections.read() as db:
            return spaces.every(db)

    def add_space(self, name: str, version: str, dimensions: int, state: bytes | None) -> Space:
        return self._connections.write(lambda db: spaces.add(db, name, version, dimensions, state))

    def drop_space(self, space: Space) -> None:
        self._connections.write(lambda db: spaces.drop_some(db, space))
        self._clear_spaces()
        self._vectors.refresh()
        self._connections.purge_log()

    def _clear_spaces(self) -> None:
        while self._connections.write(spaces.clear_some):
            pass

    def unembedded(self, space: Space, limit: int) -> tuple[list[Unembedded], int]:
        with self._connections.read() as db:
            return spaces.unembedded(db, space, limit)

    def vectorless(self, space: Space, after: int, limit: int) -> list[Unembedded]:
        with self._connections.read() as db:
            return spaces.vectorless(db, space, after, limit)

    def queue(self, space: Space, passages: Sequence[int]) -> None:
        self._connections.write(lambda db: spaces.queue(db, space, passages))

    def embed(self, space: Space, vectors: Mapping[Unembedded, Sequence[Any]]) -> None:
        from recollect.store.sqlite.vectors import packed

        made = iter(packed([v for parts in vectors.values() for v in parts]))
        blobs = {passage: [next(made) for _ in parts] for passage, parts in vectors.items()}

        def work(db: Connection) -> None:
            def insert(rows: list[tuple[int, bytes]]) -> None:
                db.insert(
                    "vector",
                    ("space", "passage", "vector"),
                    [(space.id, key, blob) for key, blob in rows],
                )

            spaces.embed(db, space, blobs, insert)

        self._connections.write(work)

    def finish_space(self, space: Space) -> None:
        self._connections.write(lambda db: spaces.finish(db, space))

    def nearest(
        self, space: Space, vector: Any, filter: Filter, limit: int
    ) -> list[tuple[int, float]]:
        with self._searching() as db:
            return self._vectors.nearest(db, space, vector, exact(db, filter), limit)

    def cosines(self, space: Space, vector: Any, keys: Sequence[int]) -> dict[int, float]:
        with self._searching() as db:
            return self._vectors.cosines(db, space, vector, keys)

    def vectors(self, space: Space, key: int) -> list[Any]:
        with self._searching() as db:
            return list(self._vectors.of(db, space, key))

    def size(self) -> int:
        with self._connections.read() as db:
            return text.everything(db)[1]

    def sample(self, limit: int) -> Iterator[str]:
        with self._connections.read() as db:
            yield from text.sample(db, limit)

    def alone(self) -> AbstractContextManager[bool]:
        from recollect.store.sqlite.sealed import locked

        return locked(self._index / "lock")

    def refresh(
        self, progress: Progress | None = None, stop: Callable[[], bool] | None = None
    ) -> None:
        with self._connections.read() as db:
            open_keys = text.everything(db)[1]
        if open_keys >= SMALLEST or (self._index / "volumes").exists():
            self._sealed.refresh(progress, stop)
        self._clear_spaces()
        if self.spaces() or (self._index / "vectors").exists():
            self._vectors.refresh()

    def unsealed(self) -> bool:
        with self._connections.read() as db:
            if text.everything(db)[1] < SMALLEST:
                return False
            return self._sealed.waiting(db) > 0

    # -- receipts ---

    def begin(self, path: str) -> Receipt:
        return self._connections.write(lambda db: receipts.begin(db, path))

    def finish(self, receipt: Receipt) -> None:
        self._connections.write(lambda db: receipts.finish(db, receipt))
        self._list_words()

    def receipts(self) -> list[Receipt]:
        with self._connections.read() as db:
            return receipts.every(db)

    def undo(self, receipt: int) -> Receipt:
        undone: Receipt = self._write(
            lambda db: receipts.undo(db, receipt, text.Index(db, self._words))
        )
        self._purge()
        return undone

    # -- moving ---

    def outgoing(self, receive: Callable[[Batch], None] | None = None) -> Contents:
        with self._connections.read() as db:
            return transfer.hand_over(db, receive)

    def incoming(self, batch: Batch) -> str | None:
        corrected = self._write(lambda db: transfer.take_in(db, batch, text.Index(db, self._words)))
        if batch.last:
            self._list_words()
        return corrected

    def noted(self, name: str) -> int | None:
        with self._connections.read() as db:
            return transfer.noted(db, name)

    def note(self, name: str, number: int | None) -> None:
        self._connections.write(lambda db: transfer.note(db, name, number))

    def remove(self, known: Contents | None = None) -> None:
        self.close()
        db = connect(self.path)
        try:
            db.execute(
                "pragma journal_mode = delete"
            ).fetchall()  # refused while anybody else has the file open
            db.execute("begin exclusive")
            transfer.expect(db, known, self.path)
        except apsw.BusyError as error:
            raise StoreBusy(
                f"Another program has {self.path} open, so it was not removed. Close that program and try again."
            ) from error
        finally:
            db.close(True)
        for file in sorted(self._index.rglob("*"), reverse=True):
            file.rmdir() if file.is_dir() else file.unlink()
        if self._index.exists():
            self._index.rmdir()
        for end in ("", "-journal", "-wal", "-shm"):
            self.path.with_name(self.path.name + end).unlink(missing_ok=True)
        with suppress(OSError):  # something else lies there too
            self.path.parent.rmdir()

    # -- care ---

    def stats(self) -> dict[str, object]:
        with self._connections.read() as db:
            part = db.get(
                "select count(*) from passage where length(content) > ?",
                (LIMITS.indexed_characters,),
            )
            return statistics.counted(db) | {
                "indexed_in_part": part,
                "file_bytes": self.path.stat().st_size,
                "path": str(self.path),
                "engine": self.engine,
            }

    def facets(self, kind: str = CONVERSATION) -> dict[str, list[tuple[str, int]]]:
        with self._connections.read() as db:
            return statistics.facets(db, kind)

    def media_types(self) -> list[tuple[str, int]]:
        with self._connections.read() as db:
            return statistics.media_types(db)

    def activity(self) -> Activity:
        with self._connections.read() as db:
            return statistics.activity(db)

    def version(self) -> object:
        return self._connections.version()

    def verify(self) -> Findings:
        # On a connection of its own: FTS5 checks an older picture of the index than it searches.
        db = connect(self.path)
        try:
            return _verify(db)
        except apsw.Error as error:
            raise explained(error, self.path) from error
        finally:
            db.close()

    def repair(self, progress: Progress | None = None) -> None:
        if damaged := self.verify().damaged:
            raise DamagedLibrary(
                f"{self.path} is damaged ({damaged[0]}). Nothing was changed: restore a backup, or export what can "
                "still be read with `recollect export`."
            )

        def clear(db: Connection) -> None:
            db.execute("insert into passage_text (passage_text) values ('delete-all')")
            db.execute("delete from word")
            spaces.remove_orphans(db)

        self._write(clear)
        self._words.forget()
        self._backfill(progress)

    def _list_words(self) -> None:
        with self._connections.read() as db:
            behind = text.words_are_behind(db)
        if behind:
            self._write(text.list_words)

    def _backfill(self, progress: Progress | None = None) -> None:
        """Index what is not indexed, a batch a transaction; safe to be killed and begun again."""
        with self._connections.read() as db:
            outdated = _outdated(db)
            total: int = db.execute("select count(*) from passage").get
        if outdated:
            self._write(
                lambda db: db.execute(
                    "insert into passage_text (passage_text) values ('delete-all'); delete from word; "
                    "insert or replace into derived values ('text', ?)",
                    (text.VERSION,),
                ).fetchall()
            )
        done = 0
        while count := self._write(lambda db: _index_some(db, self._words)):
            done += count
            if progress is not None:
                progress(done, total)
        self._list_words()


_MISSING = (
    "from passage p where not exists (select 1 from passage_text_docsize s where s.id = p.key)"
)


def _index_some(db: Connection, words: text.Words) -> int:
    missing = db.rows(
        f"""select p.key, case when d.opening = p.key then d.title else '' end, p.content
        from passage p join document d on d.key = p.document
        where p.key in (select p.key {_MISSING} limit ?)""",
        (_REBUILD_BATCH,),
    )
    text.Index(db, words).add([(key, title, content) for key, title, content in missing])
    return len(missing)


def _outdated(db: Connection) -> bool:
    return bool(db.execute("select version from derived where name = 'text'").get != text.VERSION)


def _behind(db: Connection) -> bool:
    """Whether the index lacks something, judged by its newest row: cheap enough for every open."""
    newest = db.execute("select max(key) from passage").get or 0
    newest_indexed = db.execute("select max(id) from passage_text_docsize").get or 0
    return _outdated(db) or text.words_are_behind(db) or bool(newest_indexed < newest)


def _verify(db: Connection) -> Findings:
    found = Findings(outdated=_outdated(db))
    for (line,) in db.rows("pragma integrity_check(20)"):
        if line != "ok":
            (found.damaged_index if "passage_text" in line else found.damaged).append(line)
    found.damaged += [
        f"{r[0]} row {r[1]} refers to a missing {r[2]}" for r in db.rows("pragma foreign_key_check")
    ]
    found.unindexed = db.execute(f"select count(*) {_MISSING}").get
    found.orphaned = db.execute(
        "select count(*) from passage_text_docsize s where not exists (select 1 from passage p where p.key = s.id)"
    ).get
    found.orphaned_in_queue = spaces.count_orphans(db)
    try:  # integrity_check does not see all damage inside the index; a ranked search over it may
        db.rows(
            "select rowid from passage_text where passage_text match 'the OR a OR of' order by rank limit 1"
        )
    except apsw.CorruptError as error:
        found.damaged_index.append(str(error))
    return found


def _drop_volumes(db: Connection, document: int) -> None:
    """What a document said must be in no file, so volumes that still have it go."""
    db.run(
        "delete from volume where exists (select 1 from stale s join passage p on p.key = s.passage "
        "where s.passage between volume.first and volume.last and p.document = ?)",
        (document,),
    )
