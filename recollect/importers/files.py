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
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

from recollect.errors import InvalidInput, UnsafeFile
from recollect.model import Problem
from recollect.settings import LIMITS

HEAD_BYTES = 65_536


@dataclass(frozen=True, slots=True)
class Entry:
    """One file: `name` is what receipts show, `path` is set when it lies on disk by itself."""

    name: str
    size: int
    opener: Callable[[], IO[bytes]]
    path: Path | None = None
    modified: tuple[int, ...] = ()
    """When it was last written, for putting files in order."""

    @property
    def basename(self) -> str:
        return self.name.replace("\\", "/").rsplit("/", 1)[-1]

    def open(self) -> IO[bytes]:
        return self.opener()

    def watched(self, report: Callable[[int], None]) -> Entry:
        """The same file, which tells how many bytes of it were read."""
        return replace(self, opener=lambda: io.BufferedReader(_Watched(self.open(), report), 1 << 16))

    def head(self, size: int = HEAD_BYTES) -> bytes:
        """The first bytes, without a byte-order mark."""
        with self.open() as file:
            return file.read(size).removeprefix(b"\xef\xbb\xbf")


def entries(path: Path) -> Iterator[Entry | Problem]:
    """Every file below `path` in a stable order, zips opened one level deep.

    Links and special files are left out, so nothing outside `path` is read.
    """
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise InvalidInput(f"Cannot read {path}: {error.strerror}. Give a file or folder that exists.") from error
    if stat.S_ISDIR(mode):
        for folder, subfolders, names in os.walk(path):
            subfolders[:] = sorted(s for s in subfolders if s != "__MACOSX")
            for name in sorted(names):
                file = Path(folder, name)
                if stat.S_ISREG(file.lstat().st_mode):
                    yield from _file(file, str(file.relative_to(path)), optional=True)
    elif stat.S_ISREG(mode):
        yield from _file(path, path.name, optional=False)
    else:
        raise UnsafeFile(f"{path} is not a regular file (it is a device, pipe or socket).")


def _file(path: Path, name: str, *, optional: bool) -> Iterator[Entry | Problem]:
    if _ignorable(name):
        return
    if path.suffix.lower() == ".zip" or _is_zip(path):
        try:
            yield from _archive(path, name)
        except UnsafeFile as error:
            if not optional:
                raise
            yield Problem(str(error), where=name, failed=True, unit="files")
    else:
        about = path.stat()
        yield Entry(name, about.st_size, lambda: path.open("rb"), path, time.gmtime(about.st_mtime)[:6])


def _is_zip(path: Path) -> bool:
    # A SQLite library must never be opened with open() while SQLite has it (its locks would drop),
    # so only names without a database's ending are looked into.
    if path.suffix.lower() in {".db", ".sqlite", ".sqlite3", ".vscdb"}:
        return False
    with path.open("rb") as file:
        return file.read(4) == b"PK\x03\x04"


def _ignorable(name: str) -> bool:
    parts = name.replace("\\", "/").split("/")
    return "__MACOSX" in parts or parts[-1].startswith("._") or parts[-1] == ".DS_Store"


def _archive(path: Path, name: str) -> Iterator[Entry | Problem]:
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
        raise UnsafeFile(f"{name} is not a readable zip archive ({error}). Download it again.") from error
    _refuse_bombs(name, members, path.stat().st_size)
    for member in members:
        inside = f"{name}/{member.filename}"
        if member.is_dir() or _ignorable(member.filename):
            continue
        if member.flag_bits & 1:
            yield Problem("encrypted file in the archive", where=inside, failed=True, unit="files")
        elif member.filename.lower().endswith(".zip"):
            yield Problem("archive inside an archive; unpack it first", where=inside, unit="files")
        else:
            yield Entry(inside, member.file_size, _member_opener(path, member), None, member.date_time)


def _member_opener(path: Path, member: zipfile.ZipInfo) -> Callable[[], IO[bytes]]:
    def opener() -> IO[bytes]:
        archive = zipfile.ZipFile(path)
        try:
            return io.BufferedReader(_Bounded(archive, member), 1 << 16)
        except BaseException:
            archive.close()
            raise

    return opener


def _refuse_bombs(name: str, members: list[zipfile.ZipInfo], size: int) -> None:
    if len(members) > LIMITS.archive_entries:
        raise UnsafeFile(f"{name} holds {len(members):,} files; at most {LIMITS.archive_entries:,} are accepted.")
    end = 0
    for member in sorted(members, key=lambda m: m.header_offset):
        if member.header_offset < end:
            raise UnsafeFile(f"{name} is a zip bomb: its entries overlap.")
        end = member.header_offset + member.compress_size
        if member.file_size > LIMITS.archive_ratio * max(member.compress_size, 1) and member.file_size > 10_000_000:
            raise UnsafeFile(
                f"{name} is a zip bomb: {member.filename!r} unpacks to more than {LIMITS.archive_ratio} times its size."
            )
    if end > size:
        raise UnsafeFile(f"{name} is damaged: it declares more data than it holds.")
    total = sum(m.file_size for m in members)
    if total > LIMITS.archive_bytes:
        raise UnsafeFile(f"{name} unpacks to {total:,} bytes; at most {LIMITS.archive_bytes:,} are accepted.")


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
