"""Files in a backup folder: cut into chunks, put together again, and checked."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import BinaryIO

from recollect.backup.encryption import NAME_BYTES
from recollect.backup.manifest import FileRecord
from recollect.backup.repository import CHUNK_BYTES, Repository
from recollect.errors import DamagedBackup

Advance = Callable[[int], None]
"""Called with the number of bytes processed."""

_NAMES_PER_LIST = CHUNK_BYTES // NAME_BYTES


def store_file(repository: Repository, path: str, stream: BinaryIO, advance: Advance) -> FileRecord:
    """Store what a stream contains."""
    digest = hashlib.blake2b(digest_size=NAME_BYTES)
    names: list[bytes] = []
    size = 0
    while True:
        data = _read_chunk(stream)
        if not data:
            break
        digest.update(data)
        size += len(data)
        names.append(repository.add_chunk(data))
        advance(len(data))
    lists = [
        repository.add_chunk(b"".join(names[start : start + _NAMES_PER_LIST]))
        for start in range(0, len(names), _NAMES_PER_LIST)
    ]
    return FileRecord(path, size, digest.hexdigest(), tuple(name.hex() for name in lists))


def _read_chunk(stream: BinaryIO) -> bytes:
    """The next chunk. A stream may return less than is asked for before it ends."""
    data = stream.read(CHUNK_BYTES)
    while data and len(data) < CHUNK_BYTES:
        more = stream.read(CHUNK_BYTES - len(data))
        if not more:
            break
        data += more
    return data


def chunk_names(repository: Repository, file: FileRecord) -> Iterator[bytes]:
    """The names of the chunks of a file."""
    for list_name in file.lists:
        names = repository.chunk(bytes.fromhex(list_name))
        for start in range(0, len(names), NAME_BYTES):
            yield names[start : start + NAME_BYTES]


def read_file(repository: Repository, file: FileRecord) -> Iterator[bytes]:
    """The content of a file. Raises DamagedBackup, at the latest at its end."""
    digest = hashlib.blake2b(digest_size=NAME_BYTES)
    size = 0
    for name in chunk_names(repository, file):
        data = repository.chunk(name)
        digest.update(data)
        size += len(data)
        if size > file.size:
            break  # a list that names one chunk many times must not fill the disk
        yield data
    if size != file.size or digest.hexdigest() != file.digest:
        raise DamagedBackup(f"{file.path} differs from the file that was backed up.")


def unreadable_chunks(
    repository: Repository, file: FileRecord, advance: Advance
) -> dict[bytes, str]:
    """The chunks of a file that cannot be read, each with the reason.

    Raises DamagedBackup if all of them can be read but do not make up the file.
    """
    problems: dict[bytes, str] = {}
    digest = hashlib.blake2b(digest_size=NAME_BYTES)

    def read(name: bytes) -> bytes:
        try:
            return repository.chunk(name)
        except DamagedBackup as error:
            problems[name] = str(error)
            return b""

    for list_name in file.lists:
        names = read(bytes.fromhex(list_name))
        for start in range(0, len(names), NAME_BYTES):
            data = read(names[start : start + NAME_BYTES])
            digest.update(data)
            advance(len(data))
    if not problems and digest.hexdigest() != file.digest:
        raise DamagedBackup(f"{file.path} differs from the file that was backed up.")
    return problems
