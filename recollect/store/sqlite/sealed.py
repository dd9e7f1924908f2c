"""The volumes of a library: what they cover, and how they are made, asked and dropped.

The table `volume` says which ranges of keys are sealed, so every search of one
snapshot sees the same ones. What no volume covers, and what changed since its
volume was made, FTS5 is asked. A volume that is missing or damaged is simply
not there: it costs time, never an answer.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeGuard, TypeVar

from recollect.language.query import Node, Or, Word
from recollect.language.text import micros
from recollect.model.search import Filter
from recollect.store.sql.selection import document_filter, matching_documents
from recollect.store.sqlite import text
from recollect.store.sqlite.connection import Connection, Connections
from recollect.store.sqlite.text import Span
from recollect.store.sqlite.volume import (
    NotAVolume,
    Row,
    Selection,
    Stopped,
    Unsupported,
    Volume,
    clear_unfinished,
    supports,
    write,
)
from recollect.store.values import Progress

T = TypeVar("T")

SMALLEST = 16_384  # passages that are worth a volume; fewer FTS5 answers as fast
LARGEST = 131_072  # so that what a deletion drops is soon made again
_STALE = 1_000  # changes from which a volume is made again
_FANOUT = 4  # small volumes beside each other that become one
_BATCH = 2_000


@dataclass(frozen=True, slots=True)
class Seen:
    """What one snapshot of the library has sealed."""

    volumes: tuple[tuple[Span, Volume], ...]
    gaps: tuple[Span, ...]
    """What no volume covers."""
    stale: tuple[int, ...]


class Sealed:
    def __init__(self, folder: Path, connections: Connections) -> None:
        self._folder = folder
        self._connections = connections
        self._open: dict[str, Volume] = {}
        self._lock = threading.Lock()

    # -- searching ---

    def seen(self, db: Connection) -> Seen:
        volumes, gaps, reached = [], [], 1
        listed = db.rows("select name, first, last from volume where ready order by first")
        for name, first, last in listed:
            volume = self._volume(name)
            if volume is None:
                continue
            volumes.append(((first, last), volume))
            if reached < first:
                gaps.append((reached, first - 1))
            reached = last + 1
        newest: int = db.execute("select passage from last_key").get
        if reached <= newest:
            gaps.append((reached, newest))
        self._forget({name for name, _, _ in listed})
        stale = tuple(key for (key,) in db.execute("select passage from stale")) if volumes else ()
        return Seen(tuple(volumes), tuple(gaps), stale)

    def best(self, db: Connection, node: Node, filter: Filter, limit: int) -> list[int]:
        """The keys of passages that match, best first by the engines' own measure."""
        selection = self._selections(db, filter)
        answers, rest = self._ask(
            db, node, lambda volume, seen: volume.best(node, selection(seen), limit)
        )
        hits = [hit for hits in answers for hit in hits]
        few = text.keys_of_few(db, filter) if rest else None
        for span in rest:
            hits += text.best(db, node, filter, span, limit, few)
        hits.sort(key=lambda hit: (-hit[1], -hit[0]))
        return [key for key, _ in hits[:limit]]

    def count(
        self, db: Connection, node: Node, filter: Filter | None, at_most: int
    ) -> tuple[int, bool]:
        """How many passages match, and whether that is all: FTS5 counts no further than
        `at_most`. Without a filter everything is counted, hidden or not."""
        selection = self._selections(db, filter or Filter(hidden=True))
        answers, rest = self._ask(
            db, node, lambda volume, seen: volume.count(node, selection(seen))
        )
        few = text.keys_of_few(db, filter) if filter and rest else None
        counted = [text.count(db, node, filter, span, at_most, few) for span in rest]
        return sum(answers) + sum(counted), all(n < at_most for n in counted)

    def frequencies(self, db: Connection, nodes: Sequence[Node], at_most: int) -> list[int]:
        """How many passages have each of several words. A volume knows that of a single word at
        once; where a word has several forms, passages with more than one count more than once."""
        return [self._frequency(db, node, at_most) for node in nodes]

    def _frequency(self, db: Connection, node: Node, at_most: int) -> int:
        forms = node.parts if isinstance(node, Or) else (node,)
        words = [form.text for form in forms if _single(form)]
        if len(words) < len(forms):
            return self.count(db, node, None, at_most)[0]
        answers, rest = self._ask(
            db, node, lambda volume, _: sum(volume.frequency(words, True)), stale=False
        )
        return sum(answers) + sum(text.count(db, node, None, span, at_most) for span in rest)

    def _ask(
        self, db: Connection, node: Node, ask: Callable[[Volume, Seen], T], stale: bool = True
    ) -> tuple[list[T], list[Span]]:
        """What the volumes say, and the ranges of keys for which FTS5 must be asked: where there is
        no volume, where one cannot tell, and what is stale in those that could."""
        seen = self.seen(db)
        if not supports(node):
            return [], [text.everything(db)]
        answers, answered, rest = [], [], list(seen.gaps)
        for span, volume in seen.volumes:
            try:
                answers.append(ask(volume, seen))
                answered.append(span)
            except (Unsupported, NotAVolume):
                rest.append(span)
        if stale:
            rest += [
                (key, key)
                for key in seen.stale
                if any(first <= key <= last for first, last in answered)
            ]
        return answers, rest

    def _selections(self, db: Connection, filter: Filter) -> Callable[[Seen], Selection]:
        @cache
        def selection(stale: tuple[int, ...]) -> Selection:
            documents = db.remembered(
                document_filter(filter), lambda: matching_documents(db, filter)
            )
            return Selection(
                roles=filter.roles,
                authors=filter.authors,
                senders=filter.senders,
                not_roles=filter.not_roles,
                not_authors=filter.not_authors,
                after=micros(filter.after),
                before=micros(filter.before),
                documents=documents.only,
                not_documents=documents.without,
                hidden=filter.hidden,
                without=stale,
            )

        return lambda seen: selection(seen.stale)

    # -- open volumes ---

    def _volume(self, name: str) -> Volume | None:
        with self._lock:
            if name not in self._open:
                try:
                    self._open[name] = Volume(self._folder / name)
                except NotAVolume:
                    return None
            return self._open[name]

    def _forget(self, listed: set[str]) -> None:
        with self._lock:
            for name in self._open.keys() - listed:
                del self._open[name]

    def close(self) -> None:
        self._forget(set())

    # -- making ---

    def refresh(
        self, progress: Progress | None = None, stop: Callable[[], bool] | None = None
    ) -> None:
        """Seal what has come together, and seal anew what has changed much. One process at a time;
        a kill at any point leaves the library as it was, or with one more volume."""
        with self._alone(wait=True) as alone:  # somebody may be sweeping, which is soon done
            if not alone:
                return
            self._connections.write(
                lambda db: db.execute("delete from volume where not ready").fetchall()
            )
            self._drop_damaged()
            self._sweep(clear=True)
            plan = self._plan()
            total = sum(last - first + 1 for first, last in plan)
            done = 0
            for span in plan:
                if stop is not None and stop():
                    return
                try:
                    self._seal(span, stop)
                except Stopped:
                    return
                done += span[1] - span[0] + 1
                if progress is not None:
                    progress(done, total)

    def waiting(self, db: Connection) -> int:
        """How many passages wait to be sealed."""
        return sum(last - first + 1 for first, last in _plan(db))

    def _plan(self) -> list[Span]:
        with self._connections.read() as db:
            return _plan(db)

    def _seal(self, span: Span, stop: Callable[[], bool] | None) -> None:
        """Make one volume. The row that claims its range comes first, so that what changes or is
        deleted while it is written is noticed, and takes the place of older volumes there. It is
        made ready last, if a deletion has not dropped it."""
        name = uuid.uuid4().hex[:12]

        def claim(db: Connection) -> None:
            db.execute("delete from volume where first >= ? and last <= ?", span)
            db.execute("delete from stale where passage between ? and ?", span)
            db.execute("insert into volume values (?, ?, ?, 0)", (name, *span))

        def settle(sql: str) -> None:
            self._connections.write(lambda db: db.execute(sql, (name,)).fetchall())

        self._connections.write(claim)
        try:
            write(self._folder / name, self._rows(span), stop)
        except BaseException:
            settle("delete from volume where name = ?")
            raise
        settle("update volume set ready = 1 where name = ?")
        self._sweep()

    def _rows(self, span: Span) -> Iterator[Row]:
        at, last = span
        while at <= last:
            with self._connections.read() as db:
                batch = db.rows(
                    """select p.key, p.document, case when d.opening = p.key then d.title else '' end, p.content,
                      p.role, p.author, p.created_at, p.visibility = 'hidden'
                    from passage p join document d on d.key = p.document
                    where p.key between ? and ? order by p.key limit ?""",
                    (at, last, _BATCH),
                )
            yield from map(Row._make, batch)
            if len(batch) < _BATCH:
                return
            at = batch[-1][0] + 1

    # -- dropping ---

    def sweep(self) -> None:
        """Remove the folders of volumes that are no more."""
        if self._folder.is_dir():
            with self._alone() as alone:
                self._sweep(clear=alone)  # else whoever is sealing does it when done

    def _sweep(self, clear: bool = False) -> None:
        with self._connections.read() as db:
            listed = {name for (name,) in db.execute("select name from volume")}
        self._forget(listed)
        if clear:
            clear_unfinished(self._folder)
        for folder in self._folder.iterdir():
            if folder.is_dir() and "." not in folder.name and folder.name not in listed:
                shutil.rmtree(folder, ignore_errors=True)

    def _drop_damaged(self) -> None:
        with self._connections.read() as db:
            listed = [name for (name,) in db.execute("select name from volume where ready")]
        damaged = [(name,) for name in listed if not self._is_whole(name)]
        self._connections.write(
            lambda db: db.executemany("delete from volume where name = ?", damaged).fetchall()
        )

    def _is_whole(self, name: str) -> bool:
        volume = self._volume(name)
        with suppress(NotAVolume):
            return volume is not None and volume.frequency([""], True) is not None
        self._forget(self._open.keys() - {name})
        return False

    @contextmanager
    def _alone(self, wait: bool = False) -> Iterator[bool]:
        """True while no other process, nor another thread, seals this library."""
        with locked(self._folder / "lock", wait) as alone:
            yield alone


def _single(node: Node) -> TypeGuard[Word]:
    return isinstance(node, Word) and not node.prefix and node.text.isalnum()


def _plan(db: Connection) -> list[Span]:
    """Which ranges to seal: what lies open, small volumes that lie together, and volumes with many changes."""
    newest: int = db.execute("select passage from last_key").get
    plan: list[Span] = []
    together: list[Span] = []

    def settle() -> None:
        if len(together) >= _FANOUT:
            plan.append((together[0][0], together[-1][1]))
        together.clear()

    reached = 1
    for first, last in db.rows("select first, last from volume where ready order by first"):
        if first - reached >= SMALLEST:
            settle()
            plan += _cut(reached, first - 1)
        if (
            db.execute(
                "select count(*) from stale where passage between ? and ?", (first, last)
            ).get
            > _STALE
        ):
            settle()
            plan.append((first, last))
        else:
            if together and last - together[0][0] >= LARGEST:
                settle()
            together.append((first, last))
        reached = last + 1
    settle()
    return plan + _cut(reached, newest)


def _cut(first: int, last: int) -> list[Span]:
    spans = ((at, min(at + LARGEST - 1, last)) for at in range(first, last + 1, LARGEST))
    return [span for span in spans if span[1] - span[0] + 1 >= SMALLEST]


@contextmanager
def locked(path: Path, wait: bool = False) -> Iterator[bool]:
    """An advisory lock on a file, held until the end of the block or of the process; False where
    somebody else has it, unless told to wait."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            _lock(file, wait)
        except OSError:
            yield False
            return
        yield True
    finally:
        with suppress(OSError):
            os.close(file)


def _lock(file: int, wait: bool) -> None:
    if sys.platform == "win32":
        import msvcrt

        msvcrt.locking(file, msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
