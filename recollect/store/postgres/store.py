"""The store on PostgreSQL: one database, a library for each user."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

from recollect.errors import DamagedLibrary, InvalidInput, NotFound
from recollect.language.query import Node, Word
from recollect.language.text import storable
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
from recollect.store.postgres import bm25, text
from recollect.store.postgres.connection import Connection, Connections, has_account
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

T = TypeVar("T")
_REBUILD_BATCH = 2_000
_MISSING = """from passage p where not exists
  (select from passage_text t where t.owner = p.owner and t.key = p.key)"""
# Everything of a user's, each after what refers to it.
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
_LEFT = """from passage_text t where not exists (select from passage p where p.owner = t.owner and p.key = t.key)"""


class PostgresStore(Store):
    def __init__(self, url: str, user: str) -> None:
        self._connections = Connections(url, _checked(user))
        self._known = text.Known()
        self._counts = text.Counts()
        try:
            self._prepare()
        except BaseException:
            self.close()
            raise

    @staticmethod
    def exists(url: str, user: str) -> bool:
        """Whether the user has a library there; nothing is created."""
        return has_account(url, _checked(user))

    def _prepare(self) -> None:
        if self._version("text") != text.VERSION:
            if self._read(text.size):
                self._rebuild(None)
            self._write(partial(_note_version, name="text", version=text.VERSION))
        self._by_bm25 = bm25.TABLE in self._connections.server.types
        if self._by_bm25 and self._version("bm25") != bm25.VERSION:
            while self._write(text.add_some_to_bm25):
                pass
            self._write(partial(_note_version, name="bm25", version=bm25.VERSION))

    def _version(self, name: str) -> int | None:
        version: int | None = self._read(
            lambda db: db.get("select version from derived where name = ?", (name,))
        )
        return version

    @property
    def path(self) -> str:
        return f"postgresql://{self._connections.place}, user {self._connections.user}"

    @property
    def engine(self) -> str:
        server = self._connections.server
        extensions = [
            f"{name} {version}"
            for name, version in (("pgvector", server.pgvector), ("BM25", server.bm25))
            if version
        ]
        return ", ".join([f"PostgreSQL {server.version}", *extensions])

    @property
    def lacks(self) -> tuple[str, ...]:
        return self._connections.server.lacks

    def close(self) -> None:
        self._connections.close()

    def _read(self, work: Callable[[Connection], T]) -> T:
        return self._connections.read(work)

    def _search(self, work: Callable[[Connection], T]) -> T:
        return self._connections.read(work, LIMITS.search_seconds)

    def _write(self, work: Callable[[Connection], T]) -> T:
        return self._connections.write(work)

    def _write_words(self, work: Callable[[Connection, text.Index], T]) -> T:
        """A write that changes the index: the words it added are known once it is committed."""
        used: list[text.Index] = []

        def attempt(db: Connection) -> T:
            used[:] = [text.Index(db, self._known)]  # a new one each time it is tried
            return work(db, used[0])

        value = self._connections.write(attempt)
        self._known.learn(used[0].noted, used[0].removed)
        return value

    # -- writing ---

    def save(
        self, documents_: Sequence[Document], receipt: int | None = None, by_id: bool = False
    ) -> list[Saved]:
        return self._write_words(
            lambda db, index: documents.save(db, index, documents_, receipt, by_id)
        )

    def rewrite(self, document: str, given: Document, version: int | None = None) -> Saved:
        return self._write_words(
            lambda db, index: documents.rewrite(db, index, document, given, version)
        )

    def revise(self, document: str, change: Callable[[Document], Document]) -> int:
        return self._write_words(lambda db, index: documents.revise(db, document, change, index))

    def forget_states(self, unwanted: Callable[[str], bool]) -> int:
        return self._write(lambda db: rewriting.forget_states(db, unwanted))

    def cut(self, document: str, passage: str) -> Passage:
        return self._write_words(lambda db, index: documents.cut(db, document, passage, index))

    def append(self, document: str, passage: Passage) -> Placed:
        return self._write_words(lambda db, index: documents.append(db, document, passage, index))

    def extend(self, document: str, passages: Sequence[Passage]) -> int:
        return self._write_words(lambda db, index: documents.extend(db, document, passages, index))

    def amend(
        self,
        document: str,
        title: str | None = None,
        project: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        self._write_words(
            lambda db, index: documents.amend(db, document, index, title, project, metadata)
        )

    def unobserved(self, limit: int) -> tuple[list[tuple[str, int]], int]:
        return self._read(lambda db: observing.unobserved(db, limit))

    def observe(
        self, conversation: str, version: int, given: Document | None, complete: bool = True
    ) -> None:
        self._write_words(
            lambda db, index: observing.observe(db, index, conversation, version, given, complete)
        )

    def observe_again(self, incomplete: bool = False) -> None:
        self._write_words(lambda db, index: observing.begin_again(db, incomplete))

    def delete(self, document: str) -> None:
        self._write_words(
            lambda db, index: documents.delete(db, documents.key_of(db, document), index)
        )

    def take(self, document: str) -> Document:
        return self._write_words(lambda db, index: documents.take(db, document, index))

    # -- reading ---

    def document(self, id: str) -> Document:
        return self._read(lambda db: documents.read(db, documents.key_of(db, id)))

    def head(self, id: str) -> Document:
        return self._read(lambda db: documents.read_head(db, documents.key_of(db, id)))

    def summary(self, id: str) -> Summary:
        return self._read(lambda db: documents.summary(db, id))

    def find(self, source: str, source_id: str) -> str | None:
        return self._read(lambda db: documents.find(db, source, source_id))

    def bones(self, id: str) -> list[Bone]:
        return self._read(lambda db: documents.bones(db, id))

    def contents(self, keys: Sequence[int]) -> dict[int, tuple[str, Passage]]:
        return self._read(lambda db: documents.contents(db, keys))

    def changed(self, keys: Sequence[int]) -> list[tuple[int, str, datetime | None]]:
        return self._read(lambda db: documents.changed(db, keys))

    def part(self, id: str, position: int, limit: int) -> tuple[list[Passage], int]:
        return self._read(lambda db: documents.part(db, id, position, limit))

    def holding(self, source: str, passages: Sequence[str]) -> list[tuple[str, str]]:
        return self._read(lambda db: documents.holding(db, source, passages))

    def documents(
        self, filter: Filter, search: str, limit: int, offset: int
    ) -> tuple[list[Summary], int]:
        return self._search(lambda db: documents.summaries(db, filter, search, limit, offset))

    def every(self, filter: Filter) -> Iterator[Document]:
        for key in self._read(lambda db: documents.keys(db, filter)):
            with suppress(NotFound):  # it may have been deleted meanwhile
                yield self._read(partial(documents.read, key=key))

    # -- finding ---

    def match(self, node: Node, filter: Filter, limit: int) -> list[int]:
        return self._search(
            lambda db: text.best(db, node, exact(db, filter), limit, self._counts, self._by_bm25)
        )

    def openings(self, words: Sequence[Word]) -> list[int]:
        return self._search(lambda db: documents.openings(db, words))

    def count(self, node: Node, filter: Filter) -> tuple[int, bool]:
        return self._search(lambda db: text.count(db, node, exact(db, filter), self._counts))

    def frequencies(self, nodes: Sequence[Node]) -> tuple[list[int], int]:
        return self._search(lambda db: text.frequencies(db, nodes, self._counts))

    def variants(self, words: Sequence[str]) -> list[tuple[str, ...]]:
        return self._search(lambda db: text.variants(db, words))

    def passages(self, keys: Sequence[int], filter: Filter) -> list[Candidate]:
        return self._search(lambda db: text.passages(db, keys, exact(db, filter)))

    def text_scores(self, node: Node, keys: Sequence[int]) -> dict[int, float]:
        return self._search(lambda db: text.scores(db, node, keys))

    def preceding(self, keys: Sequence[int]) -> list[Candidate]:
        return self._search(lambda db: text.preceding(db, keys))

    def key(self, document: str, passage: str) -> int:
        return self._search(lambda db: documents.passage_key(db, document, passage))

    def find_literal(
        self, text_: str, filter: Filter, limit: int, offset: int
    ) -> tuple[list[Candidate], int]:
        return self._search(
            lambda db: text.find_literal(db, text_, exact(db, filter), limit, offset)
        )

    def newest(
        self, filter: Filter, limit: int, offset: int, by_document: bool = False
    ) -> tuple[list[Candidate], int]:
        return self._search(
            lambda db: text.newest(db, exact(db, filter), limit, offset, by_document)
        )

    def recent(self, text_: str | None, filter: Filter, limit: int) -> list[Candidate]:
        return self._search(lambda db: text.recent(db, text_, exact(db, filter), limit))

    # -- vectors ---

    def spaces(self) -> list[Space]:
        return self._read(spaces.every)

    def add_space(self, name: str, version: str, dimensions: int, state: bytes | None) -> Space:
        return self._write(lambda db: spaces.add(db, name, version, dimensions, state))

    def drop_space(self, space: Space) -> None:
        self._write(lambda db: spaces.drop_some(db, space))
        self._clear_spaces()

    def _clear_spaces(self) -> None:
        while self._write(spaces.clear_some):
            pass

    def unembedded(self, space: Space, limit: int) -> tuple[list[Unembedded], int]:
        return self._read(lambda db: spaces.unembedded(db, space, limit))

    def vectorless(self, space: Space, after: int, limit: int) -> list[Unembedded]:
        return self._read(lambda db: spaces.vectorless(db, space, after, limit))

    def queue(self, space: Space, passages: Sequence[int]) -> None:
        self._write(lambda db: spaces.queue(db, space, passages))

    def embed(self, space: Space, vectors_: Mapping[Unembedded, Sequence[Any]]) -> None:
        from recollect.store.postgres import vectors

        made = iter(vectors.prepared([v for parts in vectors_.values() for v in parts]))
        ready = {passage: [next(made) for _ in parts] for passage, parts in vectors_.items()}
        self._write(
            lambda db: spaces.embed(db, space, ready, lambda rows: vectors.insert(db, space, rows))
        )

    def finish_space(self, space: Space) -> None:
        self._write(lambda db: spaces.finish(db, space))

    def nearest(
        self, space: Space, vector: Any, filter: Filter, limit: int
    ) -> list[tuple[int, float]]:
        from recollect.store.postgres import vectors

        return self._search(lambda db: vectors.nearest(db, space, vector, exact(db, filter), limit))

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

    def alone(self) -> AbstractContextManager[bool]:
        return self._connections.alone()

    def unsealed(self) -> bool:
        return False  # GIN holds everything from the start

    def refresh(
        self, progress: Progress | None = None, stop: Callable[[], bool] | None = None
    ) -> None:
        self._clear_spaces()
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

    # -- receipts ---

    def begin(self, path: str) -> Receipt:
        return self._write(lambda db: receipts.begin(db, path))

    def finish(self, receipt: Receipt) -> None:
        self._write(lambda db: receipts.finish(db, receipt))

    def receipts(self) -> list[Receipt]:
        return self._read(receipts.every)

    def undo(self, receipt: int) -> Receipt:
        return self._write_words(lambda db, index: receipts.undo(db, receipt, index))

    # -- moving ---

    def outgoing(self, receive: Callable[[Batch], None] | None = None) -> Contents:
        return self._read(lambda db: transfer.hand_over(db, receive))

    def incoming(self, batch: Batch) -> str | None:
        return self._write_words(lambda db, index: transfer.take_in(db, batch, index))

    def noted(self, name: str) -> int | None:
        return self._read(lambda db: transfer.noted(db, name))

    def note(self, name: str, number: int | None) -> None:
        self._write(lambda db: transfer.note(db, name, number))

    def remove(self, known: Contents | None = None) -> None:
        def work(db: Connection) -> None:
            transfer.expect(db, known, self.path)
            for table in _TABLES:
                db.run(f"delete from {table}")

        self._write(work)
        self.close()

    # -- care ---

    def stats(self) -> dict[str, object]:
        def work(db: Connection) -> dict[str, object]:
            part = db.get("select count(*) from passage_text where not whole")
            return statistics.counted(db) | {
                "indexed_in_part": part,
                "path": self.path,
                "engine": self.engine,
            }

        return self._read(work)

    def facets(self, kind: str = CONVERSATION) -> dict[str, list[tuple[str, int]]]:
        return self._read(lambda db: statistics.facets(db, kind))

    def media_types(self) -> list[tuple[str, int]]:
        return self._read(statistics.media_types)

    def activity(self) -> Activity:
        return self._read(statistics.activity)

    def version(self) -> object:
        return self._read(
            lambda db: db.get("select marks[1] from last_key where owner = ?", (db.owner,))
        )

    def verify(self) -> Findings:
        return self._read(_verify)

    def repair(self, progress: Progress | None = None) -> None:
        if damaged := self.verify().damaged:
            raise DamagedLibrary(
                f"{self.path} is damaged ({damaged[0]}). Nothing was changed: restore a backup, or export what can "
                "still be read with `recollect export`."
            )
        self._rebuild(progress)

    def _rebuild(self, progress: Progress | None) -> None:
        """Index everything anew, a batch a transaction; safe to be killed and begun again."""

        def clear(db: Connection) -> int:
            db.run("delete from passage_text")
            if bm25.kept(db):
                db.run(f"delete from {bm25.TABLE}")
            db.run("delete from word")
            db.run("delete from derived where name = 'text'")
            spaces.remove_orphans(db)
            db.run("update last_key set removed = removed + 1")
            return int(db.get("select count(*) from passage"))

        total = self._write(clear)
        done = 0
        while count := self._write_words(_index_some):
            done += count
            if progress is not None:
                progress(done, total)
        self._write(partial(_note_version, name="text", version=text.VERSION))


def _index_some(db: Connection, index: text.Index) -> int:
    missing = db.rows(
        f"""select p.key, case when d.opening = p.key then d.title else '' end, p.content
        from passage p join document d on d.owner = p.owner and d.key = p.document
        where p.key in (select p.key {_MISSING} limit ?)""",
        (_REBUILD_BATCH,),
    )
    if missing:
        index.add([(key, title, content) for key, title, content in missing])
    return len(missing)


def _checked(user: str) -> str:
    if storable(user) != user:
        raise InvalidInput("A user's name may hold neither NUL nor half a surrogate pair.")
    return user


def _note_version(db: Connection, name: str, version: int) -> None:
    db.run("delete from derived where name = ?", (name,))
    db.run("insert into derived (name, version) values (?, ?)", (name, version))


def _verify(db: Connection) -> Findings:
    found = Findings(
        outdated=db.get("select version from derived where name = 'text'") != text.VERSION
    )
    lost = db.get(
        "select count(*) from passage p where not exists "
        "(select from document d where d.owner = p.owner and d.key = p.document)"
    )
    if lost:
        found.damaged.append(f"{lost} messages belong to no conversation")
    found.unindexed = db.get(f"select count(*) {_MISSING}")
    found.orphaned = db.get(f"select count(*) {_LEFT}")
    found.orphaned_in_queue = spaces.count_orphans(db)
    return found
