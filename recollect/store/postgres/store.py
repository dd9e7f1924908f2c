"""The PostgreSQL store: one database with a library for each user."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, ClassVar, TypeVar

from recollect.errors import DamagedLibrary, InvalidInput
from recollect.language.query import Node
from recollect.language.text import storable
from recollect.model.search import Filter
from recollect.store.postgres import bm25, text
from recollect.store.postgres.connection import Connection, Connections, has_account
from recollect.store.sql import spaces as space_sql
from recollect.store.sql import statistics, transfer
from recollect.store.sql.database import TextIndex
from recollect.store.sql.selection import resolve_filter
from recollect.store.sql.store import SqlStore, TextQueries
from recollect.store.values import Contents, Findings, Progress, Space, Unembedded

T = TypeVar("T")
_REBUILD_BATCH = 2_000
# The tables of a user, each after the tables that refer to it.
_TABLES = (
    "receipt_revision",
    "receipt_document",
    "vector",
    "unembedded",
    "space",
    "passage_text",
    "word",
    "derived",
    "passage",
    "document",
    "receipt",
    "last_key",
)
_MISSING = """from passage p where not exists
  (select from passage_text t where t.owner = p.owner and t.key = p.key)"""
_ORPHANED = """from passage_text t where not exists
  (select from passage p where p.owner = t.owner and p.key = t.key)"""


class PostgresStore(SqlStore[Connection]):
    _text: ClassVar[TextQueries] = text

    def __init__(self, url: str, user: str) -> None:
        self._connections = Connections(url, _validate_user(user))
        self._known = text.Vocabulary()
        self._counts = text.Counts()
        try:
            self._prepare()
        except BaseException:
            self.close()
            raise

    @staticmethod
    def exists(url: str, user: str) -> bool:
        """Whether the user has a library in the database. Creates nothing."""
        return has_account(url, _validate_user(user))

    def _prepare(self) -> None:
        if self.get_marker("text") != text.VERSION:
            if self.size():
                self._rebuild(None)
            self.set_marker("text", text.VERSION)
        self._by_bm25 = bm25.TABLE in self._connections.server.types
        if self._by_bm25 and self.get_marker("bm25") != bm25.VERSION:
            while self._write(text.add_some_to_bm25):
                pass
            self.set_marker("bm25", bm25.VERSION)

    @property
    def path(self) -> str:
        return f"postgresql://{self._connections.place}, user {self._connections.user}"

    @property
    def engine(self) -> str:
        server = self._connections.server
        names = [f"PostgreSQL {server.version}"]
        if server.pgvector:
            names.append(f"pgvector {server.pgvector}")
        if server.bm25:
            names.append(f"BM25 {server.bm25}")
        return ", ".join(names)

    @property
    def missing_features(self) -> tuple[str, ...]:
        return self._connections.server.lacks

    def close(self) -> None:
        self._connections.close()

    # -- transactions ---

    def _read(self, work: Callable[[Connection], T], seconds: float | None = None) -> T:
        return self._connections.read(work, seconds)

    def _write(self, work: Callable[[Connection], T]) -> T:
        return self._connections.write(work)

    def _write_text(self, work: Callable[[Connection, TextIndex], T]) -> T:
        """A write that changes the index. Its words count as known once it is committed."""
        indexes: list[text.Index] = []

        def attempt(db: Connection) -> T:
            indexes.append(text.Index(db, self._known))  # a new one for every attempt
            return work(db, indexes[-1])

        value = self._connections.write(attempt)
        self._known.learn(indexes[-1].noted, indexes[-1].removed)
        return value

    # -- text search ---

    def match(self, node: Node, filter: Filter, limit: int) -> list[int]:
        return self._search(
            lambda db: text.best(
                db, node, resolve_filter(db, filter), limit, self._counts, self._by_bm25
            )
        )

    def count(self, node: Node, filter: Filter) -> tuple[int, bool]:
        return self._search(
            lambda db: text.count(db, node, resolve_filter(db, filter), self._counts)
        )

    def frequencies(self, nodes: Sequence[Node]) -> tuple[list[int], int]:
        return self._search(lambda db: text.frequencies(db, nodes, self._counts))

    def text_scores(self, node: Node, keys: Sequence[int]) -> dict[int, float]:
        return self._search(lambda db: text.scores(db, node, keys))

    # -- vectors ---

    def add_vectors(self, space: Space, vectors_: Mapping[Unembedded, Sequence[Any]]) -> None:
        from recollect.store.postgres import vectors

        prepared = iter(vectors.prepared([v for parts in vectors_.values() for v in parts]))
        by_passage = {
            passage: [next(prepared) for _ in parts] for passage, parts in vectors_.items()
        }
        self._write(
            lambda db: space_sql.add_vectors(
                db, space, by_passage, lambda rows: vectors.insert(db, space, rows)
            )
        )

    def nearest(
        self, space: Space, vector: Any, filter: Filter, limit: int
    ) -> list[tuple[int, float]]:
        from recollect.store.postgres import vectors

        return self._search(
            lambda db: vectors.nearest(db, space, vector, resolve_filter(db, filter), limit)
        )

    def cosines(self, space: Space, vector: Any, keys: Sequence[int]) -> dict[int, float]:
        from recollect.store.postgres import vectors

        return vectors.near(self._search(lambda db: vectors.of(db, space, keys)), space, vector)

    def vectors(self, space: Space, key: int) -> list[Any]:
        from recollect.store.postgres import vectors

        return list(vectors.vectors(self._search(lambda db: vectors.of(db, space, [key])), space))

    def size(self) -> int:
        return self._read(text.size)

    def sample(self, limit: int) -> Iterator[str]:
        yield from self._read(lambda db: text.sample(db, limit))

    # -- transfer ---

    def remove_library(self, expected: Contents | None = None) -> None:
        def work(db: Connection) -> None:
            transfer.require_contents(db, expected, self.path)
            for table in _TABLES:
                db.run(f"delete from {table}")

        self._write(work)
        self.close()

    # -- care ---

    def stats(self) -> dict[str, object]:
        def work(db: Connection) -> dict[str, object]:
            partly_indexed = db.get("select count(*) from passage_text where not whole")
            return statistics.library_counts(db) | {
                "indexed_in_part": partly_indexed,
                "path": self.path,
                "engine": self.engine,
            }

        return self._read(work)

    def version(self) -> object:
        return self._read(
            lambda db: db.get("select marks[1] from last_key where owner = ?", (db.owner,))
        )

    def needs_refresh(self) -> bool:
        return False  # the GIN index is always complete

    def refresh(
        self, progress: Progress | None = None, stop: Callable[[], bool] | None = None
    ) -> None:
        self._clear_dropped_spaces()
        if self._connections.server.pgvector:
            self._make_graphs()

    def _make_graphs(self) -> None:
        from recollect.store.postgres import vectors

        if self.size() < vectors.GRAPH_FROM:
            return
        for space in self.spaces():
            if space.ready and not self._read(partial(vectors.has_graph, space=space)):
                name = self._read(partial(vectors.graph_of, space=space))
                with self._connections.as_login() as connection:
                    vectors.make_graph(connection, self._connections.server, name, space)

    def indexing_lock(self) -> AbstractContextManager[bool]:
        return self._connections.alone()

    def verify(self) -> Findings:
        return self._read(_verify)

    def repair(self, progress: Progress | None = None) -> None:
        damaged = self.verify().damaged
        if damaged:
            raise DamagedLibrary(
                f"{self.path} is damaged ({damaged[0]}). Nothing was changed: restore a backup, or "
                "export what can still be read with `recollect export`."
            )
        self._rebuild(progress)

    def _rebuild(self, progress: Progress | None) -> None:
        """Index everything again, a batch per transaction. It can be interrupted and restarted."""
        total = self._write(_clear_index)
        done = 0
        count = self._write_text(_index_batch)
        while count:
            done += count
            if progress is not None:
                progress(done, total)
            count = self._write_text(_index_batch)
        self.set_marker("text", text.VERSION)


def _validate_user(user: str) -> str:
    if storable(user) != user:
        raise InvalidInput("A user's name may hold neither NUL nor half a surrogate pair.")
    return user


def _clear_index(db: Connection) -> int:
    """Empty the index, and return the number of passages to index."""
    db.run("delete from passage_text")
    if bm25.is_indexed(db):
        db.run(f"delete from {bm25.TABLE}")
    db.run("delete from word")
    db.run("delete from derived where name = 'text'")
    space_sql.remove_orphans(db)
    db.run("update last_key set removed = removed + 1")
    return int(db.get("select count(*) from passage"))


def _index_batch(db: Connection, index: TextIndex) -> int:
    rows = db.rows(
        f"""select p.key, case when d.opening = p.key then d.title else '' end, p.content
        from passage p join document d on d.owner = p.owner and d.key = p.document
        where p.key in (select p.key {_MISSING} limit ?)""",
        (_REBUILD_BATCH,),
    )
    if rows:
        index.add([(key, title, content) for key, title, content in rows])
    return len(rows)


def _verify(db: Connection) -> Findings:
    version = db.get("select version from derived where name = 'text'")
    findings = Findings(outdated=version != text.VERSION)
    lost = db.get(
        "select count(*) from passage p where not exists "
        "(select from document d where d.owner = p.owner and d.key = p.document)"
    )
    if lost == 1:
        findings.damaged.append("1 message belongs to no conversation")
    elif lost:
        findings.damaged.append(f"{lost} messages belong to no conversation")
    findings.unindexed = db.get(f"select count(*) {_MISSING}")
    findings.orphaned = db.get(f"select count(*) {_ORPHANED}")
    findings.orphaned_in_queue = space_sql.count_orphans(db)
    return findings
