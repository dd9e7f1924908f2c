"""Files to import: a single file, the files in a folder, or the members of a zip archive.

An `Entry` is one file that an importer may read. Archives are read in place and never unpacked to
disk. Declared sizes are not trusted: an archive whose members overlap, expand far beyond its size,
or are too many is rejected (see CVE-2024-0450).
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
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import IO

from recollect.errors import InvalidInput, UnsafeFile
from recollect.model.receipts import Problem
from recollect.settings import LIMITS

HEAD_BYTES = 65_536
UNREADABLE = (OSError, UnsafeFile, zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError)
"""The exceptions that reading a damaged file raises."""
_BUFFER_BYTES = 1 << 16
_ENCRYPTED = 0x41
_PRIVATE_FOLDERS = frozenset({"__MACOSX", ".obsidian", ".trash", ".git"})
"""Folders where programs store data of their own."""
_DATABASES = frozenset({".db", ".sqlite", ".sqlite3", ".vscdb"})
_ZIPPED_DOCUMENTS = frozenset(
    ".docx .docm .dotx .pptx .pptm .ppsx .xlsx .epub .odt .odp .ods .charx .cbz".split()
)
"""Documents that are zip archives inside."""

Neighbours = Callable[[], Mapping[str, "Entry"]]
Visit = Callable[[str, str, int], bool]
"""Called with the name, place and size of a file before it is parsed. If False, it is skipped."""


class Unreadable(ValueError):
    """A file that is damaged, or too long. The message goes into the receipt."""


def visit_all(name: str, place: str, size: int) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Entry:
    """One file. Receipts show its `name`; `path` is set if it is a file on disk."""

    name: str
    size: int
    opener: Callable[[], IO[bytes]]
    path: Path | None = None
    modified: tuple[int, ...] = ()
    """The time of the last change, for sorting: year, month, day, hour, minute, second."""
    place: str = ""
    """The location, which stays the same from one import to the next. Defaults to the name."""
    find_neighbours: Neighbours = field(default=dict, repr=False, compare=False)
    has_checksum: bool = False
    """Whether reading the file to its end fails if its content is damaged."""

    def __post_init__(self) -> None:
        if not self.place:
            object.__setattr__(self, "place", self.name)

    @property
    def neighbours(self) -> Mapping[str, Entry]:
        """The files in the same folder, including this one, by lower-case name."""
        return self.find_neighbours()

    @property
    def modified_at(self) -> datetime | None:
        """The time of the last change, if known. Zip archives have no time zone; UTC is assumed."""
        if not self.modified or self.modified[0] <= 1980:  # a zip archive with an unknown time
            return None
        try:
            year, month, day, hour, minute, second = self.modified
            return datetime(year, month, day, hour, minute, second, tzinfo=UTC)
        except ValueError:
            return None

    @property
    def basename(self) -> str:
        return self.name.replace("\\", "/").rsplit("/", 1)[-1]

    def open(self) -> IO[bytes]:
        return self.opener()

    def with_progress(self, report: Callable[[int], None]) -> Entry:
        """The same file, which reports the number of bytes of every read."""

        def opener() -> IO[bytes]:
            return io.BufferedReader(_ReportingFile(self.open(), report), _BUFFER_BYTES)

        return replace(self, opener=opener)

    def is_damaged(self) -> bool:
        """Whether the content does not match its checksum. Reads the whole file if it has one."""
        if self.has_checksum:
            try:
                with self.open() as file:
                    while file.read(_BUFFER_BYTES):
                        pass
            except UNREADABLE:
                return True
        return False

    def head(self, size: int = HEAD_BYTES) -> bytes:
        """The first bytes, without a byte-order mark."""
        with self.open() as file:
            return file.read(size).removeprefix(b"\xef\xbb\xbf")


# -- files and folders -------------------------------------------------------


def entries(
    path: Path, within: Path | None = None, visit: Visit = visit_all
) -> Iterator[Entry | Problem]:
    """Every file below `path` in a stable order, including the members of zip archives.

    Links and special files are skipped, so nothing outside `path` is read, except for the
    neighbours of a single file. `within` is a folder that holds uploaded files: places are then
    relative to it, a single file has no neighbours, and modification times are unknown. `visit` is
    called before an archive is opened.
    """
    try:
        mode = path.stat().st_mode
        resolved = path.resolve()
        place = str(resolved)
        if within is not None:
            place = resolved.relative_to(within.resolve()).as_posix()
    except OSError as error:
        raise InvalidInput(
            f"Cannot read {path}: {error.strerror}. Give a file or folder that exists."
        ) from error
    if stat.S_ISDIR(mode):
        yield from _folder(path, place, visit)
    elif stat.S_ISREG(mode):
        neighbours = neighbours_of_file(path, place, within)
        yield from _file(path, path.name, place, neighbours, visit, optional=False)
    else:
        raise UnsafeFile(f"{path} is not a regular file (it is a device, pipe or socket).")


def _folder(root: Path, place: str, visit: Visit) -> Iterator[Entry | Problem]:
    for folder, subfolders, names in os.walk(root):
        subfolders[:] = sorted(name for name in subfolders if name not in _PRIVATE_FOLDERS)
        neighbours = neighbours_in_folder(Path(folder), tuple(names), root, place)
        for name in sorted(names):
            file = Path(folder, name)
            if stat.S_ISREG(file.lstat().st_mode):
                relative = file.relative_to(root)
                file_place = join(place, relative)
                yield from _file(file, str(relative), file_place, neighbours, visit, optional=True)


def join(place: str, relative: Path) -> str:
    joined = Path(place, relative)
    return str(joined) if joined.is_absolute() else joined.as_posix()


def neighbours_in_folder(
    folder: Path, names: tuple[str, ...], root: Path, place: str
) -> Neighbours:
    """The regular files of a folder below `root`, looked up once, on first use."""

    @cache
    def neighbours() -> dict[str, Entry]:
        files = {}
        for name in sorted(names):
            file = folder / name
            with suppress(OSError):  # the file may have been deleted meanwhile
                if stat.S_ISREG(file.lstat().st_mode) and not is_ignored(name):
                    relative = file.relative_to(root)
                    files[name.lower()] = _entry(
                        file, str(relative), join(place, relative), neighbours
                    )
        return files

    return neighbours


def neighbours_of_file(path: Path, place: str, within: Path | None) -> Neighbours:
    if within is not None:
        parent = str(Path(place).parent)
        return neighbours_in_folder(path.parent, (path.name,), path.parent, parent)

    @cache
    def neighbours() -> Mapping[str, Entry]:
        folder = path.resolve().parent
        try:
            names = tuple(file.name for file in folder.iterdir())
            return neighbours_in_folder(folder, names, folder, str(folder))()
        except OSError:  # a folder can be readable but not listable
            return {}

    return neighbours


def _entry(path: Path, name: str, place: str, neighbours: Neighbours) -> Entry:
    status = path.stat()
    # An uploaded file has the time of its upload, which means nothing.
    modified = time.gmtime(status.st_mtime)[:6] if Path(place).is_absolute() else ()
    return Entry(name, status.st_size, lambda: path.open("rb"), path, modified, place, neighbours)


def _file(
    path: Path, name: str, place: str, neighbours: Neighbours, visit: Visit, *, optional: bool
) -> Iterator[Entry | Problem]:
    if is_ignored(name):
        return
    if path.suffix.lower() != ".zip" and not is_zip(path):
        yield _entry(path, name, place, neighbours)
        return
    if not visit(name, place, path.stat().st_size):
        return
    try:
        yield from _archive(path, name, place)
    except UnsafeFile as error:
        if not optional:
            raise
        yield Problem(str(error), where=name, failed=True, unit="files")


def is_zip(path: Path) -> bool:
    # Opening and closing a database that SQLite has open would release SQLite's locks on it.
    if path.suffix.lower() in _DATABASES | _ZIPPED_DOCUMENTS:
        return False
    with path.open("rb") as file:
        return file.read(4) == b"PK\x03\x04"


def is_ignored(name: str) -> bool:
    *folders, basename = name.replace("\\", "/").split("/")
    if not _PRIVATE_FOLDERS.isdisjoint(folders):
        return True
    return basename.startswith("._") or basename == ".DS_Store"


# -- zip archives ------------------------------------------------------------


def _archive(path: Path, name: str, place: str) -> Iterator[Entry | Problem]:
    """The files in an archive. Reading one fails if it is damaged or longer than it declares."""
    status = path.stat()
    key = (path, status.st_ino, status.st_mtime_ns, status.st_size)
    try:
        archive = _open_archive(*key)
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
        raise UnsafeFile(
            f"{name} is not a readable zip archive ({error}). Download it again."
        ) from error
    reject_zip_bomb(name, archive.infolist(), status.st_size)
    files: list[Entry] = []
    folders: dict[str, dict[str, Entry]] = {}
    for member in archive.infolist():
        if member.is_dir() or is_ignored(member.filename):
            continue
        reason = unreadable_member(member)
        if reason or member.filename.lower().endswith(".zip"):
            why = reason or "archive inside an archive; unpack it first"
            yield Problem(why, f"{name}/{member.filename}", failed=bool(reason), unit="files")
            continue
        folder = folders.setdefault(member.filename.rpartition("/")[0], {})
        entry = Entry(
            name=f"{name}/{member.filename}",
            size=member.file_size,
            opener=partial(_open_member, member, key),
            modified=member.date_time,
            place=f"{place}!{member.filename}",
            find_neighbours=partial(_same, folder),
            has_checksum=True,
        )
        folder[entry.basename.lower()] = entry
        files.append(entry)
    yield from files


@lru_cache(maxsize=1)  # files are read archive by archive, and the directory may be large
def _open_archive(path: Path, *version: int) -> zipfile.ZipFile:
    return zipfile.ZipFile(path)


def _open_member(member: zipfile.ZipInfo, archive: tuple[Path, int, int, int]) -> IO[bytes]:
    return _open_archive(*archive).open(member)


def _same(folder: Mapping[str, Entry]) -> Mapping[str, Entry]:
    return folder


def unreadable_member(member: zipfile.ZipInfo) -> str:
    """Why a file in an archive cannot be read, or "".

    Only deflated data can be unpacked a little at a time, so that a bomb does no harm.
    """
    if member.flag_bits & _ENCRYPTED:
        return "encrypted file in the archive"
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        return "file with an unusual compression in the archive; pack it again with deflate"
    return ""


def reject_zip_bomb(name: str, members: list[zipfile.ZipInfo], size: int) -> None:
    """Raise UnsafeFile if an archive of `size` bytes with these members could exhaust memory."""
    if len(members) > LIMITS.archive_entries:
        raise UnsafeFile(
            f"{name} has more than {LIMITS.archive_entries:,} files, which is the limit."
        )
    end = 0
    for member in sorted(members, key=lambda m: m.header_offset):
        if member.header_offset < end:
            raise UnsafeFile(f"{name} is a zip bomb: its entries overlap.")
        end = member.header_offset + member.compress_size
        expansion = member.file_size / max(member.compress_size, 1)
        if expansion > LIMITS.archive_ratio and member.file_size > 10_000_000:
            raise UnsafeFile(
                f"{name} is a zip bomb: {member.filename!r} expands to more than"
                f" {LIMITS.archive_ratio} times its size."
            )
    if end > size:
        raise UnsafeFile(f"{name} is damaged: it declares more data than it contains.")
    total = sum(member.file_size for member in members)
    if total > LIMITS.archive_bytes:
        raise UnsafeFile(
            f"{name} expands to {total:,} bytes; at most {LIMITS.archive_bytes:,} are accepted."
        )


class _ReportingFile(io.RawIOBase):
    """A file that reports how much of it is read."""

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
