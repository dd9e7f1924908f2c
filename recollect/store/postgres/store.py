"""The PostgreSQL store: one database with a library for each user."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from recollect.errors import DamagedLibrary, InvalidInput
from recollect.language.queries.query_tree import Node
from recollect.language.text import storable
from recollect.model.documents import Passage
from recollect.model.search import Filter
from recollect.store.postgres import appending, listing, text_search
from recollect.store.postgres.connection import Connection
from recollect.store.postgres.filters import OWNER
from recollect.store.postgres.transactions import Transactions, has_account
from recollect.store.postgres.words import VERSION, IndexWriter
from recollect.store.sql import changes, checking, database, statistics, transfer
from recollect.store.sql import spaces as space_sql
from recollect.store.sql.database import TextIndex
from recollect.store.sql.encoding import INDEXED_TITLE
from recollect.store.sql.selection import resolve_filter
from recollect.store.sql.store import SqlStore, reading, searching
from recollect.store.values import (
    Appended,
    Closure,
    Findings,
    Progress,
    Space,
    Unembedded,
)

# The module `vectors` is imported where it is used: it imports numpy, which takes a while.

T = TypeVar("T")
_REBUILD_BATCH = 2_000
# The tables with the data of a user, each after the tables that refer to it.
_TABLES = (
    "receipt_document",
    "vector",
    "unembedded",
    "space",
    "passage_text",
    "word",
    "tally",
    "derived",
    "passage",
    "document",
    "receipt",
    "forgotten",
    "undo",
    "last_key",
)
_UNINDEXED_PASSAGES = f"""from passage p where p.owner = {OWNER} and not exists
  (select from passage_text t where t.owner = {OWNER} and t.key = p.key)"""
_ORPHANED_ROWS = f"""from passage_text t where t.owner = {OWNER} and not exists
  (select from passage p where p.owner = {OWNER} and p.key = t.key)"""


class PostgresStore(SqlStore[Connection], text=listing):
    def __init__(self, url: str, user: str, read_only: bool = False) -> None:
        self._transactions = Transactions(url, validate_user(user), read_only)
        try:
            if not read_only:
                self._prepare()
        except BaseException:  # nobody else would close the pool
            self.close()
            raise

    @staticmethod
    def exists(url: str, user: str) -> bool:
        """Whether the user has a library in the database. Creates nothing."""
        return has_account(url, validate_user(user))

    def _prepare(self) -> None:
        if self.get_marker("text") == VERSION:
            return
        if self.size():
            self._rebuild(None)
        else:
            self._write(mark_current)

    @property
    def path(self) -> str:
        return f"postgresql://{self._transactions.location}, user {self._transactions.user}"

    @property
    def read_only(self) -> str:
        if self._transactions.read_only:
            return "the setting `read_only` is on"
        return ""

    @property
    def engine(self) -> str:
        return f"PostgreSQL {self._transactions.server.version}"

    def close(self) -> None:
        self._transactions.close()

    # -- transactions ---

    def _read(self, work: Callable[[Connection], T], seconds: float | None = None) -> T:
        return self._transactions.read(work, seconds)

    def _write(self, work: Callable[[Connection], T]) -> T:
        return self._transactions.write(work)

    def _write_text(self, work: Callable[[Connection, TextIndex], T]) -> T:
        return self._transactions.write(lambda db: work(db, IndexWriter(db)))

    def append(
        self, document: str, passage: Passage, expected_passages: int | None = None
    ) -> Appended:
        def work(db: Connection) -> Appended:
            appended = appending.append(db, document, passage, expected_passages)
            if appended is None:
                index = IndexWriter(db)
                appended = changes.append(db, document, passage, index, expected_passages)
            return appended

        lock_query = appending.lock_query(self._transactions.owner, document, passage)
        return self._transactions.write(work, lock_query=lock_query)

    # -- text search ---

    def _match_source(
        self, db: Connection, node: Node | None, filter: Filter
    ) -> tuple[str, Sequence[Any]]:
        return text_search.match_source(db, node, filter)

    match = searching(text_search.best)
    count = searching(text_search.count)
    frequencies = searching(text_search.frequencies)
    text_scores = searching(listing.scores)
    size = reading(text_search.size)

    # -- vectors ---

    def add_vectors(self, space: Space, vectors: Mapping[Unembedded, Sequence[Any]]) -> None:
        from recollect.store.postgres.vectors import add, quantise_all

        quantised = iter(quantise_all([v for parts in vectors.values() for v in parts]))
        by_passage = {
            passage: [next(quantised) for _ in parts] for passage, parts in vectors.items()
        }
        self._write(lambda db: add(db, space, by_passage))

    def nearest(
        self, space: Space, vector: Any, filter: Filter, limit: int
    ) -> list[tuple[int, float]]:
        from recollect.store.postgres.vectors import nearest

        return self._search(
            lambda db: nearest(db, space, vector, resolve_filter(db, filter), limit)
        )

    def highest_cosines(self, space: Space, vectors: Sequence[Any]) -> list[float]:
        neighbours = [self.nearest(space, vector, Filter(), 1) for vector in vectors]
        return [cosine for hits in neighbours for _, cosine in hits]

    def cosines(self, space: Space, vector: Any, keys: Sequence[int]) -> dict[int, float]:
        from recollect.store.postgres.vectors import best_cosines, rows_of

        rows = self._search(lambda db: rows_of(db, space, keys))
        return best_cosines(rows, space, vector)

    def vectors(self, space: Space, key: int) -> list[Any]:
        from recollect.store.postgres.vectors import rows_of, unit_vectors

        rows = self._search(lambda db: rows_of(db, space, [key]))
        return list(unit_vectors(rows, space))

    # -- transfer ---

    def join_move(self) -> None:
        self._transactions.is_mover = True

    def remove_library(self, expected: Closure | None = None) -> None:
        def work(db: Connection) -> None:
            transfer.require_closure(db, expected, self.path)
            for table in _TABLES:
                db.run(f"delete from {db.own_rows(table)}")

        self._write(work)
        self.close()

    # -- care ---

    def stats(self) -> dict[str, object]:
        def work(db: Connection) -> dict[str, object]:
            partly_indexed = db.get(
                f"select count(*) from passage_text where {db.own()} and not whole"
            )
            return statistics.library_counts(db) | {
                "indexed_in_part": partly_indexed,
                "purge": self.purge(None).state,
                "read_only": self.read_only,
                "path": self.path,
                "engine": self.engine,
            }

        return self._read(work)

    def snapshot(self) -> AbstractContextManager[None]:
        return self._transactions.snapshot()

    def version(self) -> object:
        return self._read(_version)

    def needs_refresh(self) -> bool:
        return False  # a GIN index is always complete

    def refresh(
        self, progress: Progress | None = None, stop: Callable[[], bool] | None = None
    ) -> None:
        self._clear_dropped_spaces()

    def indexing_lock(self) -> AbstractContextManager[bool]:
        return self._transactions.indexing_lock()

    def verify(self) -> Findings:
        return self._read(_verify)

    def repair(self, progress: Progress | None = None) -> None:
        damage = self.verify().damaged
        if damage:
            raise DamagedLibrary(
                f"{self.path} is damaged ({damage[0]}). Nothing was changed: restore a backup, or "
                "export what can be read with `recollect export --skip-damaged`."
            )
        self._write(correct_counts)
        self._rebuild(progress)

    def _rebuild(self, progress: Progress | None) -> None:
        """Index everything again, a batch per transaction. It can be interrupted and restarted."""
        total = self._write(clear_index)
        indexed_count = 0
        count = self._write_text(index_batch)
        while count:
            indexed_count += count
            if progress is not None:
                progress(indexed_count, total)
            count = self._write_text(index_batch)
        self.set_marker("text", VERSION)


def validate_user(user: str) -> str:
    if storable(user) != user:
        raise InvalidInput("A user name must not contain NUL or unpaired surrogates.")
    return user


def _version(db: Connection) -> object:
    return db.library_state()[1]


def correct_counts(db: Connection) -> None:
    checking.remember_lost(db, count_lost(db))
    if checking.correct_counts(db):
        statistics.recount(db)


def count_lost(db: Connection) -> int:
    """The number of indexed messages that the library had and does not have any more."""
    return int(
        db.get(
            f"select count(*) {_ORPHANED_ROWS} "
            f"and t.key <= (select passage from {db.own_rows('last_key')})"
        )
    )


def mark_current(db: Connection) -> None:
    """Note that the index was made by this version."""
    database.set_marker(db, "text", VERSION)


def clear_index(db: Connection) -> int:
    """Empty the index, and return the number of passages to index."""
    db.run(f"delete from {db.own_rows('passage_text')}")
    db.run(f"delete from {db.own_rows('word')}")
    database.set_marker(db, "text", None)
    space_sql.remove_orphans(db)
    return int(db.get(f"select count(*) from {db.own_rows('passage')}"))


def index_batch(db: Connection, index: TextIndex) -> int:
    rows = db.rows(
        f"""select p.key, {INDEXED_TITLE}, p.content
        from passage p join document d on d.owner = p.owner and d.key = p.document
        where {db.own("p", "d")} and p.key in (select p.key {_UNINDEXED_PASSAGES} limit ?)""",
        (_REBUILD_BATCH,),
    )
    if rows:
        index.add([(key, title, content) for key, title, content in rows])
    return len(rows)


def _verify(db: Connection) -> Findings:
    # All rows of the user are compared. The server might expect one row; see `Connection.by_key`.
    db.set_local({"enable_nestloop": "off"})
    findings = Findings(outdated=database.get_marker(db, "text") != VERSION)
    orphans = db.get(
        f"select count(*) from passage p where {db.own('p')} and not exists "
        f"(select from document d where {db.own('d')} and d.key = p.document)"
    )
    if orphans == 1:
        findings.damaged.append("1 message belongs to no conversation")
    elif orphans:
        findings.damaged.append(f"{orphans} messages belong to no conversation")
    findings.unindexed = db.get(f"select count(*) {_UNINDEXED_PASSAGES}")
    findings.orphaned = db.get(f"select count(*) {_ORPHANED_ROWS}")
    findings.orphaned_in_queue = space_sql.count_orphans(db)
    checking.check_digests(db, findings)
    checking.check_counts(db, findings, count_lost(db))
    return findings
