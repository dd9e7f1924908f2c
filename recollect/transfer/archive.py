"""Copies of the files that conversations were taken from, for when the tool that wrote them cleans up.

Each is one gzip file under `archive/<user>/<tool>/`, which any program reads. A
file that has grown gets what is new appended as another member; one that was
cut short or written anew gets a new copy, and the older one stays beside it. A
small database says what was copied, what was taken in, and which conversations
a file holds: deleting one deletes the copies, and what follows the file leaves
it out from then on. Spans marked private are not copied.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import threading
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, TypeVar

import apsw
import orjson

from recollect.errors import InvalidInput, NotFound
from recollect.language.text import truncate
from recollect.store.sqlite.connection import Connection, connect, explained
from recollect.transfer.exclusion import without_private_json

T = TypeVar("T")

_SCHEMA = """
create table if not exists file (
  id integer primary key,
  source text not null unique,
  path text not null unique,
  size integer not null default 0,
  digest blob,
  stored integer not null default 0,
  members integer not null default 0,
  copies integer not null default 0,
  archived_at integer,
  seen_size integer,
  seen_at integer,
  excluded text not null default ''
);
create table if not exists holds (
  file integer not null references file (id),
  origin text not null,
  origin_id text not null,
  deleted integer not null default 0,
  primary key (file, origin, origin_id)
) without rowid;
create index if not exists holds_of on holds (origin, origin_id);
"""
_MEMBERS = 64  # appended pieces compress less well, so now and then they are put together
_COPIES = 20  # older ones of a file; a tool that writes it anew each time must not fill the disk
_CHUNK = 1 << 20

Name = tuple[str, str]
"""A conversation, as its origin knows it: (origin, origin id)."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """By what it is seen that a file has changed."""

    size: int
    modified: int
    """In nanoseconds."""

    @classmethod
    def of(cls, file: Path) -> Stamp:
        about = file.stat(follow_symlinks=False)
        return cls(about.st_size, about.st_mtime_ns)


@dataclass(frozen=True, slots=True)
class Archived:
    """One file of the archive."""

    id: int
    source: str
    path: Path
    size: int
    """Of the original, as far as it was copied."""
    bytes: int
    copies: int
    archived_at: datetime
    conversations: tuple[Name, ...]


class Archive:
    """The archive of one user. Nothing is created before the first file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._db: Connection | None = None
        self._turn = threading.Lock()

    def close(self) -> None:
        with self._turn:
            if self._db is not None:
                self._db.close()
                self._db = None

    # -- what was taken in --

    def seen(self) -> dict[str, tuple[Stamp, tuple[Name, ...]]]:
        """The files that were taken in, as they were then, and what they hold; without those that were excluded."""
        if not self._exists():
            return {}

        def work(db: Connection) -> dict[str, tuple[Stamp, tuple[Name, ...]]]:
            held: dict[int, list[Name]] = {}
            for file, origin, origin_id in db.rows(
                "select file, origin, origin_id from holds where not deleted"
            ):
                held.setdefault(file, []).append((origin, origin_id))
            rows = db.rows(
                "select id, source, seen_size, seen_at from file where excluded = '' and seen_at > 0"
            )
            return {
                source: (Stamp(size, at), tuple(held.get(id_, ())))
                for id_, source, size, at in rows
            }

        return self._with(work)

    def note(
        self, source: Path, stamp: Stamp, path: str, holds: Collection[Name], excluded: str = ""
    ) -> None:
        """Remember that a file was taken in, or why not."""

        def work(db: Connection) -> None:
            id_ = self._row(db, str(source), path)
            db.run(
                "update file set seen_size = ?, seen_at = ?, excluded = ? where id = ?",
                (stamp.size, stamp.modified, excluded, id_),
            )
            self._hold(db, id_, holds)

        self._with(work, create=True)

    def left_out(self) -> list[Name]:
        """The conversations of files that were excluded."""
        if not self._exists():
            return []
        wanted = "select h.origin, h.origin_id from holds h join file f on f.id = h.file where f.excluded <> ''"
        return self._with(lambda db: [(origin, id_) for origin, id_ in db.rows(wanted)])

    def deleted(self, names: Iterable[Name]) -> set[Name]:
        """Those of these conversations that a person deleted from the library."""
        if not self._exists():
            return set()
        asked = "select 1 from holds where origin = ? and origin_id = ? and deleted limit 1"
        return self._with(lambda db: {name for name in names if db.get(asked, name)})

    # -- copies --

    def keep(self, source: Path, path: str, holds: Collection[Name]) -> bool:
        """Copy a file, or what is new in it, to `path` in the archive; says whether there was anything to copy."""

        def work(db: Connection) -> bool:
            id_ = self._row(db, str(source), path)
            self._hold(db, id_, holds)
            if db.get("select 1 from holds where file = ? and deleted", (id_,)):
                return False
            with source.open("rb") as file:
                return self._copy(db, id_, file, log=source.suffix == ".jsonl")

        return self._with(work, create=True)

    def _copy(self, db: Connection, id_: int, file: IO[bytes], *, log: bool) -> bool:
        ((path, size, digest, stored, members, copies),) = db.rows(
            "select path, size, digest, stored, members, copies from file where id = ?", (id_,)
        )
        target = self._target(path)
        end = _end(file) if log else os.fstat(file.fileno()).st_size
        there = stored > 0 and target.exists() and target.stat().st_size >= stored
        known = _digest(file, 0, size if there and end >= size else 0)
        goes_on = there and end >= size and known.digest() == digest
        if (goes_on and end == size) or end == 0:
            return False
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if goes_on and members < _MEMBERS:
            with _private(target, "r+b") as archived:
                archived.truncate(stored)  # a copy that was broken off left more
                archived.seek(stored)
                _write(archived, file, size, end)
            members += 1
        else:
            if there and not goes_on and (log or end < size):
                copies += 1
                target.replace(_older(target, copies))
                _older(target, copies - _COPIES).unlink(missing_ok=True)
            part = target.with_name(target.name + ".part")
            with _private(part, "wb") as archived:
                _write(archived, file, 0, end)
            part.replace(target)
            members = 1
        now = int(datetime.now(UTC).timestamp())
        known = _digest(file, size, end, known) if goes_on else _digest(file, 0, end)
        columns = ("size", "digest", "stored", "members", "copies", "archived_at")
        db.run(
            f"update file set {', '.join(f'{c} = ?' for c in columns)} where id = ?",  # noqa: S608 - columns
            (end, known.digest(), target.stat().st_size, members, copies, now, id_),
        )
        return True

    def forget(self, name: Name) -> int:
        """Delete every copy of the files that hold a conversation, and have it left out from now on; says how many."""
        if not self._exists():
            return 0

        def work(db: Connection) -> int:
            rows = db.rows(
                "select f.id, f.path, f.stored from file f join holds h on h.file = f.id "
                "where h.origin = ? and h.origin_id = ?",
                name,
            )
            for id_, path, _ in rows:
                self._remove(db, id_, path)
            db.run("update holds set deleted = 1 where origin = ? and origin_id = ?", name)
            return sum(stored > 0 for _, _, stored in rows)

        return self._with(work)

    def welcome(self, names: Iterable[Name]) -> None:
        """Follow again what was deleted: somebody has imported or restored it."""
        if self._exists():
            again = "update holds set deleted = 0 where origin = ? and origin_id = ? and deleted"
            self._with(lambda db: db.run_many(again, list(names)))

    # -- looking and restoring --

    def files(self) -> list[Archived]:
        if not self._exists():
            return []
        return self._with(
            lambda db: [
                Archived(
                    id_,
                    source,
                    self._target(path),
                    size,
                    stored,
                    copies,
                    datetime.fromtimestamp(at, UTC),
                    tuple(db.rows("select origin, origin_id from holds where file = ?", (id_,))),
                )
                for id_, source, path, size, stored, copies, at in db.rows(
                    "select id, source, path, size, stored, copies, archived_at from file where stored > 0 order by id"
                )
            ]
        )

    def find(self, wanted: str) -> list[Archived]:
        """The files of a number, a conversation or an original's name. Raises NotFound."""
        found = [
            file
            for file in self.files()
            if wanted
            in (
                str(file.id),
                file.source,
                Path(file.source).name,
                *(n[1] for n in file.conversations),
            )
        ]
        if not found:
            raise NotFound(
                f"There is no {truncate(wanted, 80)!r} in the archive. `recollect archive list` shows it."
            )
        return found

    def restore(self, archived: Archived, to: Path | None = None) -> list[Path]:
        """Write a file where it was, or with all older copies of it into a folder; nothing is overwritten."""
        target = Path(archived.source) if to is None else to / Path(archived.source).name
        pairs = [(archived.path, target)]
        if to is not None:
            pairs += [
                (older, target.with_name(f"{target.stem}.{n}{target.suffix}"))
                for n in range(1, archived.copies + 1)
                if (older := _older(archived.path, n)).exists()
            ]
        for _, goal in pairs:
            if goal.exists():
                raise InvalidInput(f"{goal} is there already. Say another folder with --to.")
        for copy, goal in pairs:
            goal.parent.mkdir(parents=True, exist_ok=True)
            part = goal.with_name(goal.name + ".part")
            with gzip.open(copy) as packed, _private(part, "wb") as plain:
                while chunk := packed.read(_CHUNK):
                    plain.write(chunk)
            part.replace(goal)
        return [goal for _, goal in pairs]

    # -- inside --

    def _exists(self) -> bool:
        return (self.folder / "catalogue.db").exists()

    def _target(self, path: str) -> Path:
        return self.folder / f"{path}.gz"

    def _row(self, db: Connection, source: str, path: str) -> int:
        """The row of a file; where another file has the name, it gets one with a number."""
        while (id_ := db.get("select id from file where source = ?", (source,))) is None:
            number, name = 1, path
            while db.get("select 1 from file where path = ?", (name,)):
                number += 1
                name = f"{path}~{number}"
            db.run("insert into file (source, path) values (?, ?)", (source, name))
        return int(id_)

    def _hold(self, db: Connection, id_: int, holds: Collection[Name]) -> None:
        """What a conversation was once found in holds it still: nothing that was copied is taken back."""
        gone = "select 1 from holds where origin = ? and origin_id = ? and deleted"
        for name in holds:
            db.run(
                "insert into holds values (?, ?, ?, ?) on conflict do nothing",
                (id_, *name, int(db.get(gone, name) is not None)),
            )

    def _remove(self, db: Connection, id_: int, path: str) -> None:
        target = self._target(path)
        copies = db.get("select copies from file where id = ?", (id_,))
        for file in (
            target,
            target.with_name(target.name + ".part"),
            *(_older(target, n) for n in range(1, copies + 1)),
        ):
            file.unlink(missing_ok=True)
        db.run(
            "update file set size = 0, digest = null, stored = 0, members = 0, copies = 0 where id = ?",
            (id_,),
        )

    def _with(self, work: Callable[[Connection], T], *, create: bool = False) -> T:
        """Do something alone: other processes that follow the same files wait."""
        path = self.folder / "catalogue.db"
        with self._turn:
            try:
                if self._db is None:
                    if create:
                        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                    self._db = connect(path)
                    self._db.run(_SCHEMA)
                with _transaction(self._db):
                    return work(self._db)
            except apsw.Error as error:
                raise explained(error, path) from error


@contextmanager
def _transaction(db: Connection) -> Iterator[None]:
    db.run("begin immediate")
    try:
        yield
    except BaseException:
        db.run("rollback")
        raise
    db.run("commit")


def _older(target: Path, number: int) -> Path:
    return target.with_name(f"{target.name.removesuffix('.gz')}.{number}.gz")


@contextmanager
def _private(path: Path, mode: str) -> Iterator[IO[bytes]]:
    """A file that only its owner may read, on the disk when it is closed."""
    with open(path, mode, opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


def _write(archived: IO[bytes], file: IO[bytes], start: int, end: int) -> None:
    """One member of what lies from start to end, by lines, since no private span goes over one."""
    file.seek(start)
    left = end - start
    with gzip.GzipFile(fileobj=archived, mode="wb", mtime=0) as packed:
        while left > 0 and (line := file.readline(left)):
            left -= len(line)
            packed.write(without_private_json(line))


def _end(file: IO[bytes]) -> int:
    """Where the last whole line of a log ends; one without an end is whole if it can be read."""
    size = end = os.fstat(file.fileno()).st_size
    tail = b""
    while end > 0:
        start = max(0, end - _CHUNK)
        file.seek(start)
        tail = file.read(end - start) + tail
        if (newline := tail.rfind(b"\n")) >= 0:
            return (
                size
                if newline == len(tail) - 1 or _is_json(tail[newline + 1 :])
                else start + newline + 1
            )
        end = start
    return size if _is_json(tail) else 0


def _is_json(data: bytes) -> bool:
    try:
        orjson.loads(data)
    except orjson.JSONDecodeError:
        return False
    return True


def _digest(
    file: IO[bytes], start: int, end: int, before: hashlib.blake2b | None = None
) -> hashlib.blake2b:
    """The hash of a stretch of a file, or of that and what came before it."""
    digest = before or hashlib.blake2b(digest_size=16)
    file.seek(start)
    while start < end and (chunk := file.read(min(_CHUNK, end - start))):
        digest.update(chunk)
        start += len(chunk)
    return digest
