"""Packs: files of many chunks each, because a disk handles one large file better than many.

A pack consists of a magic number, the chunks, an index (name, offset and length of each), and a
trailer with the size and the checksum of the index. It is written under a temporary name, and never
changed once it is complete.
"""

from __future__ import annotations

import hashlib
import os
import struct
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from recollect.backup.durable import TEMPORARY, create_file
from recollect.errors import DamagedBackup
from recollect.store.durability import sync_folder

SUFFIX = ".pack"
MAX_PACK_BYTES = 16 << 20
_MAGIC = b"rclpack1"
_ENTRY = struct.Struct(">32sQI")
_TRAILER = struct.Struct(">I16s8s")
_MAX_OPEN_PACKS = 16


@dataclass(frozen=True, slots=True)
class Location:
    """Where a chunk is."""

    pack: Path
    offset: int
    length: int


class PackWriter:
    """Writes chunks into packs, one after the other."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file: BinaryIO | None = None
        self._entries: list[tuple[bytes, int, int]] = []
        self._size = 0
        self.bytes = 0
        """Bytes of all packs written."""

    def add(self, name: bytes, data: bytes) -> dict[bytes, Location]:
        """Write a chunk. Returns the chunks of a pack that became complete, if one did."""
        if self._file is None:
            self._temporary = self._folder / f"{uuid.uuid4().hex}{TEMPORARY}"
            self._file = create_file(self._temporary)
            self._size = self._file.write(_MAGIC)
        self._entries.append((name, self._size, len(data)))
        self._size += self._file.write(data)
        if self._size >= MAX_PACK_BYTES:
            return self.finish()
        return {}

    def finish(self) -> dict[bytes, Location]:
        """Complete the current pack, and return its chunks."""
        if self._file is None:
            return {}
        index = b"".join(_ENTRY.pack(*entry) for entry in self._entries)
        self._file.write(index)
        self._file.write(_TRAILER.pack(len(self._entries), _index_checksum(index), _MAGIC))
        self._file.flush()
        os.fsync(self._file.fileno())
        _drop_from_cache(self._file.fileno())
        self._file.close()
        self._file = None
        path = self._temporary.with_suffix(SUFFIX)
        self._temporary.rename(path)
        sync_folder(self._folder)
        self.bytes += path.stat().st_size
        locations = {name: Location(path, start, size) for name, start, size in self._entries}
        self._entries = []
        return locations

    def abandon(self) -> None:
        """Delete the pack that is not complete."""
        if self._file is not None:
            with suppress(OSError):
                self._file.close()
            self._file = None
            with suppress(OSError):
                self._temporary.unlink()


def _drop_from_cache(file: int) -> None:
    """Let the next read come from the disk, so that it proves that the disk has the data."""
    if hasattr(os, "posix_fadvise"):
        with suppress(OSError):
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)


def read_index(pack: Path) -> Iterator[tuple[bytes, Location]]:
    """The chunks of a pack. Raises DamagedBackup if its index cannot be trusted."""
    with pack.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        start = size - _TRAILER.size
        if start < len(_MAGIC):
            raise DamagedBackup(f"{pack} is cut off.")
        file.seek(start)
        count, checksum, magic = _TRAILER.unpack(file.read(_TRAILER.size))
        start -= count * _ENTRY.size
        if magic != _MAGIC or start < len(_MAGIC):
            raise DamagedBackup(f"{pack} is damaged or cut off.")
        file.seek(start)
        index = file.read(count * _ENTRY.size)
    if _index_checksum(index) != checksum:
        raise DamagedBackup(f"The index of {pack} is damaged.")
    for name, offset, length in _ENTRY.iter_unpack(index):
        if offset + length > start:
            raise DamagedBackup(f"The index of {pack} is damaged.")
        yield name, Location(pack, offset, length)


def _index_checksum(index: bytes) -> bytes:
    return hashlib.blake2b(index, digest_size=16).digest()


class PackReader:
    """Reads chunks, and keeps the packs it used last open."""

    def __init__(self) -> None:
        self._files: dict[Path, BinaryIO] = {}

    def read(self, location: Location) -> bytes:
        file = self._files.pop(location.pack, None)
        if file is None:
            file = location.pack.open("rb", buffering=0)
        self._files[location.pack] = file
        if len(self._files) > _MAX_OPEN_PACKS:
            oldest = next(iter(self._files))
            self._files.pop(oldest).close()
        file.seek(location.offset)
        data = file.read(location.length)
        if len(data) != location.length:
            raise DamagedBackup(f"{location.pack} is cut off.")
        return data

    def close(self) -> None:
        for file in self._files.values():
            file.close()
        self._files.clear()
