"""The store on PostgreSQL: one database, a library for each user."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from recollect.errors import DamagedLibrary, InvalidInput
from recollect.model import Document, Filter, Passage, Receipt, Summary
from recollect.query import Node
from recollect.settings import LIMITS
from recollect.store import documents, receipts, spaces, statistics
from recollect.store.base import Candidate, Findings, Saved, Space, Store, Unembedded
from recollect.store.encoding import Progress
from recollect.store.postgres import text
from recollect.store.postgres.connection import Connection, Connections, has_account
from recollect.text import storable

T = TypeVar("T")
_REBUILD_BATCH = 2_000
_MISSING = """from passage p where not exists
  (select from passage_text t where t.owner = p.owner and t.key = p.key)"""
_LEFT = """from passage_text t where not exists (select from passage p where p.owner = t.owner and p.key = t.key)"""


class PostgresStore(Store):
    def __init__(self, url: str, user: str) -> None:
        if storable(user) != user:
            raise InvalidInput("A user's name may hold neither NUL nor half a surrogate pair.")
        self._connections = Connections(url, user)
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
        return has_account(url, user)

    def _prepare(self) -> None:
        version = self._read(lambda db: db.get("select version from derived where name = 'text'"))
        if version == text.VERSION:
            return
        if self._read(text.size):
            self._rebuild(None)
        self._write(_note_version)

    @property
    def path(self) -> str:
        return f"postgresql://{self._connections.place}, user {self._connections.user}"

    @property
    def engine(self) -> str:
        server = self._connections.server
        extensions = [f"{name} {version}" for name, version in (("pgvector", server.pgvector), ("BM25", server.bm25))
                      if version]  # fmt: skip
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
        try:
            return self._connections.write(work)
        except BaseException:
            self._known.forget()  # the words of a transaction that was rolled back are not in the table
            raise

    def _index(self, db: Connection) -> text.Index:
        return text.Index(db, self._known)

    # -- writing ---

    def save(self, documents_: Sequence[Document], receipt: int | None = None) -> list[Saved]:
        return self._write(lambda db: documents.save(db, self._index(db), documents_, receipt))

    def append(self, document: str, passage: Passage) -> bool:
        return self._write(lambda db: documents.append(db, document, passage, self._index(db)))

    def retitle(self, document: str, title: str) -> None:
        self._write(lambda db: documents.rename(db, documents.key_of(db, document), title, self._index(db)))

    def delete(self, document: str) -> None:
        self._write(lambda db: documents.delete(db, documents.key_of(db, document), self._index(db)))

    # -- reading ---

    def document(self, id: str) -> Document:
        return self._read(lambda db: documents.read(db, documents.key_of(db, id)))

    def documents(self, filter: Filter, search: str, limit: int, offset: int) -> tuple[list[Summary], int]:
        return self._search(lambda db: documents.summaries(db, filter, search, limit, offset))

    def every(self, filter: Filter) -> Iterator[Document]:
        for key in self._read(lambda db: documents.keys(db, filter)):
            yield self._read(lambda db, key=key: documents.read(db, key))  # type: ignore[misc]

    # -- finding ---

    def match(self, node: Node, filter: Filter, limit: int) -> list[int]:
        return self._search(lambda db: text.best(db, node, filter, limit, self._counts))

    def count(self, node: Node, filter: Filter) -> tuple[int, bool]:
        return self._search(lambda db: text.count(db, node, filter, self._counts))

    def frequencies(self, nodes: Sequence[Node]) -> tuple[list[int], int]:
        return self._search(lambda db: text.frequencies(db, nodes, self._counts))

    def variants(self, words: Sequence[str]) -> list[tuple[str, ...]]:
        return self._search(lambda db: text.variants(db, words))

    def passages(self, keys: Sequence[int], filter: Filter) -> list[Candidate]:
        return self._search(lambda db: text.passages(db, keys, filter))

    def text_scores(self, node: Node, keys: Sequence[int]) -> dict[int, float]:
        return self._search(lambda db: text.scores(db, node, keys))

    def preceding(self, keys: Sequence[int]) -> list[Candidate]:
        return self._search(lambda db: text.preceding(db, keys))

    def key(self, document: str, passage: str) -> int:
        return self._search(lambda db: documents.passage_key(db, document, passage))

    def find_literal(self, text_: str, filter: Filter, limit: int, offset: int) -> tuple[list[Candidate], int]:
        return self._search(lambda db: text.find_literal(db, text_, filter, limit, offset))

    def newest(self, filter: Filter, limit: int, offset: int, by_document: bool = False) -> tuple[list[Candidate], int]:
        return self._search(lambda db: text.newest(db, filter, limit, offset, by_document))

    def recent(self, text_: str | None, filter: Filter, limit: int) -> list[Candidate]:
        return self._search(lambda db: text.recent(db, text_, filter, limit))

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

    def embed(self, space: Space, vectors_: Mapping[Unembedded, Sequence[Any]]) -> None:
        from recollect.store.postgres import vectors

        made = iter(vectors.prepared([v for parts in vectors_.values() for v in parts]))
        ready = {passage: [next(made) for _ in parts] for passage, parts in vectors_.items()}
        self._write(lambda db: spaces.embed(db, space, ready, lambda rows: vectors.insert(db, space, rows)))

    def finish_space(self, space: Space) -> None:
        self._write(lambda db: spaces.finish(db, space))

    def nearest(self, space: Space, vector: Any, filter: Filter, limit: int) -> list[tuple[int, float]]:
        from recollect.store.postgres import vectors

        return self._search(lambda db: vectors.nearest(db, space, vector, filter, limit))

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

    def refresh(self, progress: Progress | None = None, stop: Callable[[], bool] | None = None) -> None:
        self._clear_spaces()

    # -- receipts ---

    def begin(self, path: str) -> Receipt:
        return self._write(lambda db: receipts.begin(db, storable(path)))

    def finish(self, receipt: Receipt) -> None:
        self._write(lambda db: receipts.finish(db, receipt))

    def receipts(self) -> list[Receipt]:
        return self._read(receipts.every)

    def undo(self, receipt: int) -> Receipt:
        return self._write(lambda db: receipts.undo(db, receipt, self._index(db)))

    # -- care ---

    def stats(self) -> dict[str, object]:
        def work(db: Connection) -> dict[str, object]:
            part = db.get("select count(*) from passage_text where not whole")
            return statistics.counted(db) | {"indexed_in_part": part, "path": self.path, "engine": self.engine}

        return self._read(work)

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
            db.run("delete from word")
            db.run("delete from derived where name = 'text'")
            db.run("update last_key set removed = removed + 1")
            return int(db.get("select count(*) from passage"))

        total = self._write(clear)
        self._known.forget()
        done = 0
        while count := self._write(self._index_some):
            done += count
            if progress is not None:
                progress(done, total)
        self._write(_note_version)

    def _index_some(self, db: Connection) -> int:
        missing = db.rows(
            f"""select p.key, case when d.opening = p.key then d.title else '' end, p.content
            from passage p join document d on d.owner = p.owner and d.key = p.document
            where p.key in (select p.key {_MISSING} limit ?)""",
            (_REBUILD_BATCH,),
        )
        if missing:
            self._index(db).add([(key, title, content) for key, title, content in missing])
        return len(missing)


def _note_version(db: Connection) -> None:
    db.run("delete from derived where name = 'text'")
    db.run("insert into derived (name, version) values ('text', ?)", (text.VERSION,))


def _verify(db: Connection) -> Findings:
    found = Findings(outdated=db.get("select version from derived where name = 'text'") != text.VERSION)
    lost = db.get(
        "select count(*) from passage p where not exists "
        "(select from document d where d.owner = p.owner and d.key = p.document)"
    )
    if lost:
        found.damaged.append(f"{lost} messages belong to no conversation")
    found.unindexed = db.get(f"select count(*) {_MISSING}")
    found.orphaned = db.get(f"select count(*) {_LEFT}")
    return found
