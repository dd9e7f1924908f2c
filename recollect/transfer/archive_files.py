"""The files of the archive: parts of logs, and the gzip members that are copies of them."""

from __future__ import annotations

import gzip
import hashlib
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import orjson

from recollect.transfer.exclusion import without_private_json

CHUNK_BYTES = 1 << 20
_GZIP = 31  # for zlib: a gzip header and checksum


def older_copy(target: Path, number: int) -> Path:
    """The path of an older copy of the same file."""
    name, _, rest = target.name.rpartition(".gz")
    return target.with_name(f"{name}.{number}.gz{rest}")


@contextmanager
def private_file(path: Path, mode: str) -> Iterator[IO[bytes]]:
    """A file that only its owner may read. It is on disk when it is closed."""
    with open(path, mode, opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


def write_member(copy: IO[bytes], file: IO[bytes], start: int, end: int) -> None:
    """Write one gzip member, line by line: a private span never crosses lines."""
    file.seek(start)
    remaining = end - start
    with gzip.GzipFile(fileobj=copy, mode="wb", mtime=0) as member:
        while remaining > 0:
            line = file.readline(remaining)
            if not line:
                break
            remaining -= len(line)
            member.write(without_private_json(line))


def decompressed(members: IO[bytes], size: int) -> Iterator[bytes]:
    """The text of the gzip members in the first bytes of a file, whose checksums are compared.

    An interrupted append may have left more bytes. Raises EOFError if a member is cut.
    """
    member = zlib.decompressobj(_GZIP)
    is_complete = True
    data = members.read(min(CHUNK_BYTES, size))
    while data:
        size -= len(data)
        while data:
            yield member.decompress(data)
            is_complete = member.eof
            data = member.unused_data
            if is_complete:
                member = zlib.decompressobj(_GZIP)
        data = members.read(min(CHUNK_BYTES, size))
    if not is_complete:
        raise EOFError("it is incomplete")


def complete_end(file: IO[bytes]) -> int:
    """Where the last complete line of a log ends. A line without a newline is complete if it is
    valid JSON."""
    size = os.fstat(file.fileno()).st_size
    end = size
    tail = b""
    while end > 0:
        start = max(0, end - CHUNK_BYTES)
        file.seek(start)
        tail = file.read(end - start) + tail
        newline = tail.rfind(b"\n")
        if newline >= 0:
            rest = tail[newline + 1 :]
            if not rest or _is_json(rest):
                return size
            return start + newline + 1
        end = start
    if _is_json(tail):
        return size
    return 0


def _is_json(data: bytes) -> bool:
    try:
        orjson.loads(data)
    except orjson.JSONDecodeError:
        return False
    return True


def part_digest(
    file: IO[bytes], start: int, end: int, before: hashlib.blake2b | None = None
) -> hashlib.blake2b:
    """The hash of a part of a file, continuing from `before`."""
    digest = before or hashlib.blake2b(digest_size=16)
    file.seek(start)
    while start < end:
        chunk = file.read(min(CHUNK_BYTES, end - start))
        if not chunk:
            break
        digest.update(chunk)
        start += len(chunk)
    return digest
