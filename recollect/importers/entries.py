"""Files to import, wherever they lie: alone, in a folder, or in a zip.

An `Entry` is one file that an importer may read. Archives are read in place,
never unpacked to disk, and their declared sizes are not believed: a zip whose
entries overlap, that unpacks to far more than it holds, or that has absurdly
many entries is refused (CVE-2024-0450 and its relatives).
"""

from __future__ import annotations

import io
import os
import stat
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from typing import IO

from recollect.errors import InvalidInput, UnsafeFile
from recollect.model.receipts import Problem
from recollect.settings import LIMITS

HEAD_BYTES = 65_536
_OF_PROGRAMS = frozenset({"__MACOSX", ".obsidian", ".trash", ".git"})
"""Folders in which programs keep things for themselves."""
_ZIPPED_DOCUMENTS = frozenset(
    {
        ".docx",
        ".docm",
        ".dotx",
        ".pptx",
        ".pptm",
        ".ppsx",
        ".xlsx",
        ".epub",
        ".odt",
        ".odp",
        ".ods",
        ".charx",
        ".cbz",
    }
)
"""What is a zip inside, but one document to a person."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One file: `name` is what receipts show, `path` is set when it lies on disk by itself."""

    name: str
    size: int
    opener: Callable[[], IO[bytes]]
    path: Path | None = None
    modified: tuple[int, ...] = ()
    """When it was last written, for putting files in order."""
    place: str = ""
    """Where it lies, by a name that stays the same from one import to the next; the name where nothing else is said."""
    around: Callable[[], Mapping[str, Entry]] = field(default=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.place:
            object.__setattr__(self, "place", self.name)

    @property
    def neighbours(self) -> Mapping[str, Entry]:
        """The files of the same folder, this one among them, by their names in lower case; looked up when asked for."""
        return self.around()

    @property
    def written(self) -> datetime | None:
        """When it was last written. An archive does not say in which zone; 1980 is its way of saying nothing."""
        try:
            year, month, day, hour, minute, second = self.modified
            return (
                datetime(year, month, day, hour, minute, second, tzinfo=UTC)
                if year > 1980
                else None
            )
        except ValueError:
            return None

    @property
    def basename(self) -> str:
        return self.name.replace("\\", "/").rsplit("/", 1)[-1]

    def open(self) -> IO[bytes]:
        return self.opener()

    def watched(self, report: Callable[[int], None]) -> Entry:
        """The same file, which tells how many bytes of it were read."""
        return replace(
            self, opener=lambda: io.BufferedReader(_Watched(self.open(), report), 1 << 16)
        )

    def head(self, size: int = HEAD_BYTES) -> bytes:
        """The first bytes, without a byte-order mark."""
        with self.open() as file:
            return file.read(size).removeprefix(b"\xef\xbb\xbf")


def entries(path: Path, within: Path | None = None) -> Iterator[Entry | Problem]:
    """Every file below `path` in a stable order, zips opened one level deep.

    Links and special files are left out, so nothing outside `path` is read, but for the neighbours of a file that is
    given alone. With `within` (a folder into which the files were put for the import) places are relative to it, a file
    alone has no neighbours, and when a file was written is not known.
    """
    try:
        mode = path.stat().st_mode
        placed = _placed(path, within)
    except OSError as error:
        raise InvalidInput(
            f"Cannot read {path}: {error.strerror}. Give a file or folder that exists."
        ) from error
    if stat.S_ISDIR(mode):
        for folder, subfolders, names in os.walk(path):
            subfolders[:] = sorted(s for s in subfolders if s not in _OF_PROGRAMS)
            beside = _beside(Path(folder), tuple(names), path, placed)
            for name in sorted(names):
                file = Path(folder, name)
                if stat.S_ISREG(file.lstat().st_mode):
                    below = file.relative_to(path)
                    yield from _file(
                        file, str(below), _joined(placed, below), beside, optional=True
                    )
    elif stat.S_ISREG(mode):
        yield from _file(path, path.name, placed, _alone(path, placed, within), optional=False)
    else:
        raise UnsafeFile(f"{path} is not a regular file (it is a device, pipe or socket).")


Around = Callable[[], Mapping[str, Entry]]


def _placed(path: Path, within: Path | None) -> str:
    resolved = path.resolve()
    return str(resolved) if within is None else resolved.relative_to(within.resolve()).as_posix()


def _joined(place: str, below: Path) -> str:
    return str(Path(place, below)) if Path(place).is_absolute() else Path(place, below).as_posix()


def _beside(folder: Path, names: tuple[str, ...], root: Path, placed: str) -> Around:
    """The plain files of a folder below `root`, looked at once and not before somebody asks."""

    @cache
    def around() -> dict[str, Entry]:
        found = {}
        for name in sorted(names):
            file = folder / name
            with suppress(OSError):  # it may be gone since
                if stat.S_ISREG(file.lstat().st_mode) and not _ignorable(name):
                    below = file.relative_to(root)
                    found[name.lower()] = _plain(file, str(below), _joined(placed, below), around)
        return found

    return around


def _alone(path: Path, placed: str, within: Path | None) -> Around:
    if within is not None:
        return _beside(path.parent, (path.name,), path.parent, str(Path(placed).parent))

    @cache
    def around() -> Mapping[str, Entry]:
        folder = path.resolve().parent
        try:
            names = tuple(file.name for file in folder.iterdir())
            return _beside(folder, names, folder, str(folder))()
        except OSError:  # a folder may be searched through by name but not be listed
            return {}

    return around


def _plain(path: Path, name: str, place: str, around: Around) -> Entry:
    about = path.stat()
    # What was sent to a server was written there when it came, which says nothing.
    modified = time.gmtime(about.st_mtime)[:6] if Path(place).is_absolute() else ()
    return Entry(name, about.st_size, lambda: path.open("rb"), path, modified, place, around)


def _file(
    path: Path, name: str, place: str, around: Around, *, optional: bool
) -> Iterator[Entry | Problem]:
    if _ignorable(name):
        return
    if path.suffix.lower() == ".zip" or _is_zip(path):
        try:
            yield from _archive(path, name, place)
        except UnsafeFile as error:
            if not optional:
                raise
            yield Problem(str(error), where=name, failed=True, unit="files")
    else:
        yield _plain(path, name, place, around)


def _is_zip(path: Path) -> bool:
    # A SQLite library must never be opened with open() while SQLite has it (its locks would drop),
    # so only names without a database's ending are looked into.
    if path.suffix.lower() in {".db", ".sqlite", ".sqlite3", ".vscdb"} | _ZIPPED_DOCUMENTS:
        return False
    with path.open("rb") as file:
        return file.read(4) == b"PK\x03\x04"


def _ignorable(name: str) -> bool:
    parts = name.replace("\\", "/").split("/")
    return (
        not _OF_PROGRAMS.isdisjoint(parts[:-1])
        or parts[-1].startswith("._")
        or parts[-1] == ".DS_Store"
    )


def _archive(path: Path, name: str, place: str) -> Iterator[Entry | Problem]:
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
        raise UnsafeFile(
            f"{name} is not a readable zip archive ({error}). Download it again."
        ) from error
    refuse_bombs(name, members, path.stat().st_size)
    found: list[Entry] = []
    folders: dict[str, dict[str, Entry]] = {}
    for member in members:
        inside = f"{name}/{member.filename}"
        if member.is_dir() or _ignorable(member.filename):
            continue
        if member.flag_bits & 1:
            yield Problem("encrypted file in the archive", where=inside, failed=True, unit="files")
        elif member.filename.lower().endswith(".zip"):
            yield Problem("archive inside an archive; unpack it first", where=inside, unit="files")
        else:
            opener, inner = _member_opener(path, member), f"{place}!{member.filename}"
            folder = folders.setdefault(member.filename.rpartition("/")[0], {})
            entry = Entry(
                inside,
                member.file_size,
                opener,
                None,
                member.date_time,
                inner,
                partial(_itself, folder),
            )
            folder[entry.basename.lower()] = entry
            found.append(entry)
    yield from found


def _itself(folder: dict[str, Entry]) -> dict[str, Entry]:
    return folder


def _member_opener(path: Path, member: zipfile.ZipInfo) -> Callable[[], IO[bytes]]:
    def opener() -> IO[bytes]:
        archive = zipfile.ZipFile(path)
        try:
            return io.BufferedReader(_Bounded(archive, member), 1 << 16)
        except BaseException:
            archive.close()
            raise

    return opener


def refuse_bombs(name: str, members: list[zipfile.ZipInfo], size: int) -> None:
    if len(members) > LIMITS.archive_entries:
        raise UnsafeFile(
            f"{name} holds {len(members):,} files; at most {LIMITS.archive_entries:,} are accepted."
        )
    end = 0
    for member in sorted(members, key=lambda m: m.header_offset):
        if member.header_offset < end:
            raise UnsafeFile(f"{name} is a zip bomb: its entries overlap.")
        end = member.header_offset + member.compress_size
        if (
            member.file_size > LIMITS.archive_ratio * max(member.compress_size, 1)
            and member.file_size > 10_000_000
        ):
            raise UnsafeFile(
                f"{name} is a zip bomb: {member.filename!r} unpacks to more than {LIMITS.archive_ratio} times its size."
            )
    if end > size:
        raise UnsafeFile(f"{name} is damaged: it declares more data than it holds.")
    total = sum(m.file_size for m in members)
    if total > LIMITS.archive_bytes:
        raise UnsafeFile(
            f"{name} unpacks to {total:,} bytes; at most {LIMITS.archive_bytes:,} are accepted."
        )


class _Watched(io.RawIOBase):
    def __init__(self, file: IO[bytes], report: Callable[[int], None]) -> None:
        self._file = file
        self._report = report

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        view = memoryview(buffer)  # type: ignore[arg-type]
        data = self._file.read(len(view))
        view[: len(data)] = data
        self._report(len(data))
        return len(data)

    def close(self) -> None:
        self._file.close()
        super().close()


class _Bounded(io.RawIOBase):
    """A zip member that ends with an error where it inflates past its declared size."""

    def __init__(self, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> None:
        self._archive = archive
        self._name = member.filename
        self._left = member.file_size
        self._file = archive.open(member)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        view = memoryview(buffer)  # type: ignore[arg-type]
        try:
            data = self._file.read(len(view))
        except (zipfile.BadZipFile, zlib.error, EOFError, OSError) as error:
            raise UnsafeFile(f"{self._name!r} in the archive is damaged ({error}).") from error
        self._left -= len(data)
        if self._left < 0:
            raise UnsafeFile(f"{self._name!r} in the archive is larger than it declares.")
        view[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._file.close()
            self._archive.close()
        super().close()
