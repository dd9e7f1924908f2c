"""The archive: copies of transcripts, for when the tool that wrote them deletes them.

Each copy is a gzip file under `archive/<user>/<tool>/`, which any program can read. When a file
has grown, the new part is appended as another gzip member. When it was truncated or replaced, a new
copy is made and the older one is kept. A small database records what was copied, what was imported,
and which conversations each file contains. Deleting a conversation deletes the copies, and watching
skips the file from then on. Private spans are not copied. In an encrypted home, the copies are
encrypted.
"""

from __future__ import annotations

import os
import threading
import zlib
from collections.abc import Collection, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

import apsw

from recollect.errors import DamagedLibrary, InvalidInput, NotFound, RecollectError
from recollect.language.text import truncate
from recollect.store.sqlite.connection import Connection, connect
from recollect.store.sqlite.database_errors import translate_error
from recollect.store.sqlite.encryption import cipher, is_encrypted
from recollect.store.sqlite.private_files import create_private_folder, protect_file
from recollect.store.sqlite.verification import check_small_database
from recollect.transfer.archive_files import (
    ENCRYPTED_SUFFIX,
    complete_end,
    decompressed,
    decrypt,
    encrypt,
    member,
    older_copy,
    part_digest,
    private_file,
    read_chunks,
)

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
  source text not null,
  source_id text not null,
  deleted integer not null default 0,
  primary key (file, source, source_id)
) without rowid;
create index if not exists holds_of on holds (source, source_id);
"""
_MEMBERS = 64  # appended members compress less well, so after this many the copy is rewritten
_COPIES = 20  # older copies of a file; a tool that rewrites it every time must not fill the disk

# The states of a conversation in the column `deleted`; 0 if nothing of it was deleted.
_DELETED = 1
_UNCOPIED = 2  # a part of it was forgotten

Name = tuple[str, str]
"""A conversation: (source, source id)."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """The size and time of a file, by which changes are detected."""

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
    """Bytes of the original that were copied."""
    bytes: int
    copies: int
    archived_at: datetime
    conversations: tuple[Name, ...]

    def is_named(self, name: str) -> bool:
        """Whether `name` is its number, its original path or name, or one of its conversations."""
        names = {str(self.id), self.source, Path(self.source).name}
        return name in names or any(name == id_ for _, id_ in self.conversations)


class Archive:
    """The archive of one user. Nothing is created until the first file is archived."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._db: Connection | None = None
        self._turn = threading.Lock()

    def close(self) -> None:
        with self._turn:
            if self._db is not None:
                self._db.close()
                self._db = None

    # -- what was imported --

    def seen(self) -> dict[str, tuple[Stamp, tuple[Name, ...]]]:
        """The imported files as they were then, and their conversations; without excluded files."""
        names: dict[int, list[Name]] = {}
        query = (
            "select id, source, seen_size, seen_at from file where excluded = '' and seen_at > 0"
        )
        with self._catalogue() as db:
            for file, *name in db.rows(
                "select file, source, source_id from holds where deleted <> 1"
            ):
                names.setdefault(file, []).append((name[0], name[1]))
            return {
                source: (Stamp(size, at), tuple(names.get(id_, ())))
                for id_, source, size, at in db.rows(query)
            }

    def note(
        self, source: Path, stamp: Stamp, path: str, holds: Collection[Name], excluded: str = ""
    ) -> None:
        """Record that a file was imported, or why not."""
        with self._catalogue(create=True) as db:
            id_ = self._row(db, str(source), path)
            db.run(
                "update file set seen_size = ?, seen_at = ?, excluded = ? where id = ?",
                (stamp.size, stamp.modified, excluded, id_),
            )
            self._hold(db, id_, holds)

    def left_out(self) -> list[Name]:
        """The conversations of files that were excluded."""
        query = (
            "select h.source, h.source_id from holds h join file f on f.id = h.file "
            "where f.excluded <> ''"
        )
        with self._catalogue() as db:
            return [(source, id_) for source, id_ in db.rows(query)]

    def deleted(self, names: Iterable[Name]) -> set[Name]:
        """Which of the conversations were deleted from the library."""
        query = "select 1 from holds where source = ? and source_id = ? and deleted = 1 limit 1"
        with self._catalogue() as db:
            return {name for name in names if db.get(query, name)}

    # -- copies --

    def keep(self, source: Path, path: str, holds: Collection[Name]) -> bool:
        """Copy a file, or its new part, to `path` in the archive. Returns whether there was any."""
        with self._catalogue(create=True) as db:
            id_ = self._row(db, str(source), path)
            self._hold(db, id_, holds)
            if db.get("select 1 from holds where file = ? and deleted", (id_,)):
                return False
            with source.open("rb") as file:
                return self._copy(db, id_, file, log=source.suffix == ".jsonl")

    def _copy(self, db: Connection, id_: int, file: IO[bytes], *, log: bool) -> bool:
        """Copy a file, or what was appended since the last time. False if there is nothing new."""
        ((path, size, digest, stored, members, copies),) = db.rows(
            "select path, size, digest, stored, members, copies from file where id = ?", (id_,)
        )
        target = self._target(path)
        end = os.fstat(file.fileno()).st_size
        if log:
            end = complete_end(file)
        exists = stored > 0 and target.exists() and target.stat().st_size >= stored
        is_longer = exists and end >= size
        start_digest = part_digest(file, 0, size if is_longer else 0)
        is_continued = is_longer and start_digest.digest() == digest
        if end == 0 or (is_continued and end == size):
            return False
        create_private_folder(target.parent)
        if is_continued and members < _MEMBERS:
            with private_file(target, "r+b") as copy:
                copy.truncate(stored)  # an interrupted append may have left more
                copy.seek(stored)
                self._write(copy, path, file, size, end)
            members += 1
        else:
            if exists and not is_continued and (log or end < size):
                copies += 1
                target.replace(older_copy(target, copies))
                older_copy(target, copies - _COPIES).unlink(missing_ok=True)
            part = target.with_name(target.name + ".part")
            with private_file(part, "wb") as copy:
                self._write(copy, path, file, 0, end)
            part.replace(target)  # the old one is there until the new one is complete
            members = 1
        start, before = (size, start_digest) if is_continued else (0, None)
        new_digest = part_digest(file, start, end, before)
        now = int(datetime.now(UTC).timestamp())
        db.run(
            "update file set size = ?, digest = ?, stored = ?, members = ?, copies = ?, "
            "archived_at = ? where id = ?",
            (end, new_digest.digest(), target.stat().st_size, members, copies, now, id_),
        )
        return True

    def forget(self, name: Name) -> int:
        """Delete every copy of the files that contain a conversation, and skip it from now on.

        Returns the number of files.
        """
        return self._delete_copies(name, _DELETED)

    def stop_copying(self, name: Name) -> int:
        """Delete every copy of the files that contain a conversation, and make no new ones.

        For a conversation of which a part was forgotten: it is still imported, but the file at its
        source has the forgotten part. Returns the number of files.
        """
        return self._delete_copies(name, _UNCOPIED)

    def _delete_copies(self, name: Name, state: int) -> int:
        with self._catalogue() as db:
            rows = db.rows(
                "select f.id, f.path, f.stored, f.copies from file f "
                "join holds h on h.file = f.id where h.source = ? and h.source_id = ?",
                name,
            )
            for id_, path, _, copies in rows:
                target = self._target(path)
                older = [older_copy(target, number) for number in range(1, copies + 1)]
                for file in (target, target.with_name(target.name + ".part"), *older):
                    file.unlink(missing_ok=True)
                db.run(
                    "update file set size = 0, digest = null, stored = 0, members = 0, copies = 0 "
                    "where id = ?",
                    (id_,),
                )
            db.run(
                "update holds set deleted = ? where source = ? and source_id = ? and deleted <> ?",
                (state, *name, _DELETED),
            )
            return sum(row[2] > 0 for row in rows)

    def undelete(self, names: Iterable[Name]) -> None:
        """Watch conversations again that were deleted and then imported or restored."""
        update = "update holds set deleted = 0 where source = ? and source_id = ? and deleted = 1"
        with self._catalogue() as db:
            db.run_many(update, list(names))

    # -- listing and restoring --

    def files(self) -> list[Archived]:
        query = (
            "select id, source, path, size, stored, copies, archived_at from file "
            "where stored > 0 order by id"
        )
        names = "select source, source_id from holds where file = ?"
        files = []
        with self._catalogue() as db:
            for id_, source, path, size, stored, copies, at in db.rows(query):
                copy, when = self._target(path), datetime.fromtimestamp(at, UTC)
                holds = tuple(db.rows(names, (id_,)))
                files.append(Archived(id_, source, copy, size, stored, copies, when, holds))
        return files

    def find(self, name: str) -> list[Archived]:
        """Files by number, conversation id or original name. Raises NotFound."""
        files = [file for file in self.files() if file.is_named(name)]
        if not files:
            raise NotFound(
                f"There is no {truncate(name, 80)!r} in the archive. "
                "`recollect archive list` shows what there is."
            )
        return files

    def restore(self, archived: Archived, to: Path | None = None) -> list[Path]:
        """Restore a file to its original place, or with its older copies to a folder.

        Nothing is overwritten. Raises DamagedLibrary after the intact copies were restored.
        """
        target = Path(archived.source)
        pairs = [((archived.path, archived.bytes), target)]
        if to is not None:
            target = to / target.name
            older = [f"{target.stem}.{n}{target.suffix}" for n in self._older(archived)]
            targets = [target, *map(target.with_name, older)]
            pairs = list(zip(self.copies(archived), targets, strict=True))
        for _, path in pairs:
            if path.exists():
                raise InvalidInput(f"{path} already exists. Choose another folder with --to.")
        problems = []
        for (copy, size), path in pairs:
            path.parent.mkdir(parents=True, exist_ok=True)
            part = path.with_name(path.name + ".part")
            try:
                with private_file(part, "wb") as file:
                    for text in self.read_copy(archived, copy, size):
                        file.write(text)
                part.replace(path)
            except DamagedLibrary as error:
                part.unlink()
                problems.append(str(error))
        if problems:
            raise DamagedLibrary(f"The copy of {archived.source} {' '.join(problems)}")
        return [path for _, path in pairs]

    def copies(self, archived: Archived) -> list[tuple[Path, int]]:
        """The copy of a file and its older ones, with their sizes. The first may be missing."""
        older = [older_copy(archived.path, number) for number in self._older(archived)]
        return [(archived.path, archived.bytes), *((copy, copy.stat().st_size) for copy in older)]

    def _older(self, archived: Archived) -> list[int]:
        numbers = range(1, archived.copies + 1)
        return [number for number in numbers if older_copy(archived.path, number).exists()]

    def read_copy(self, archived: Archived, copy: Path, size: int) -> Iterator[bytes]:
        """The text of a copy of a file. Raises DamagedLibrary if it is missing or damaged."""
        try:
            if copy.stat().st_size < size:
                raise EOFError("it is incomplete")
            chunks = read_chunks(copy, size)
            aes = cipher(self.folder)
            if aes is not None:
                name = archived.path.relative_to(self.folder).as_posix()
                chunks = decrypt(copy, aes, name.removesuffix(ENCRYPTED_SUFFIX), size)
            yield from decompressed(chunks)
        except FileNotFoundError as error:
            raise DamagedLibrary(f"is missing: {copy}") from error
        except (EOFError, zlib.error, DamagedLibrary) as error:
            raise DamagedLibrary(f"is damaged ({error}): {copy}") from error

    # -- the catalogue --

    def _target(self, path: str) -> Path:
        if is_encrypted(self.folder):
            return self.folder / f"{path}{ENCRYPTED_SUFFIX}"
        return self.folder / f"{path}.gz"

    def _write(self, copy: IO[bytes], name: str, file: IO[bytes], start: int, end: int) -> None:
        aes, chunks = cipher(self.folder), member(file, start, end)
        if aes is not None:
            encrypt(copy, chunks, aes, name)
            return
        for chunk in chunks:
            copy.write(chunk)

    def _row(self, db: Connection, source: str, path: str) -> int:
        """The id of a file. If another file already has the name, a number is appended to it."""
        id_ = db.get("select id from file where source = ?", (source,))
        if id_ is None:
            number, name = 1, path
            while db.get("select 1 from file where path = ?", (name,)):
                number += 1
                name = f"{path}~{number}"
            db.run("insert into file (source, path) values (?, ?)", (source, name))
            id_ = db.get("select id from file where source = ?", (source,))
        return int(id_)

    def _hold(self, db: Connection, id_: int, holds: Collection[Name]) -> None:
        """Record the conversations in a file. One that was there once stays recorded, since copies
        keep it."""
        state = "select max(deleted) from holds where source = ? and source_id = ?"
        for name in holds:
            db.run(
                "insert into holds values (?, ?, ?, ?) on conflict do nothing",
                (id_, *name, db.get(state, name) or 0),
            )

    @contextmanager
    def _catalogue(self, *, create: bool = False) -> Iterator[Connection]:
        """A transaction. Other processes that watch the same files wait.

        If there is no catalogue, and none is to be created, this is an empty one in memory.
        """
        path = self.folder / "catalogue.db"
        with self._turn, ExitStack() as stack:
            try:
                db = self._db
                if db is None and not create and not path.exists():
                    db = stack.enter_context(closing(Connection(":memory:")))
                    db.run(_SCHEMA)
                elif db is None:
                    create_private_folder(self.folder)
                    is_new = not path.exists()
                    self._db = db = connect(path)
                    if is_new:
                        protect_file(path)
                    db.run(_SCHEMA)
                db.run("begin immediate")
                try:
                    yield db
                except BaseException:  # whatever happened, nothing is committed
                    db.run("rollback")
                    raise
                db.run("commit")
            except apsw.Error as error:
                raise translate_error(error, path) from error


def check_archive(archive: Archive) -> list[str]:
    """A description of each problem. Every copy is decompressed, which checks its checksum."""
    problems = check_small_database(archive.folder / "catalogue.db", "file")
    if problems:
        return problems
    try:
        files = archive.files()
    except RecollectError as error:
        return [str(error)]
    for file in files:
        for copy, size in archive.copies(file):
            try:
                for _ in archive.read_copy(file, copy, size):
                    pass
            except (OSError, DamagedLibrary) as error:
                problems.append(f"the copy of {file.source} {error}")
    return problems
