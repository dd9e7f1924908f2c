"""The files of the archive: parts of logs, their copies as gzip members, and their encryption."""

from __future__ import annotations

import hashlib
import os
import struct
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import orjson

from recollect.errors import DamagedLibrary
from recollect.passphrases import NONCE_BYTES
from recollect.transfer.exclusion import without_private_json

ENCRYPTED_SUFFIX = ".gz.encrypted"
_CHUNK_BYTES = 1 << 20
_GZIP = 31  # for zlib: a gzip header and checksum
_FRAME_BYTES = 1 << 18
_LENGTH = struct.Struct("<I")
_TAG_BYTES = 16


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


def member(file: IO[bytes], start: int, end: int) -> Iterator[bytes]:
    """One gzip member with a part of a file, line by line: a private span never crosses lines."""
    file.seek(start)
    remaining = end - start
    compressor = zlib.compressobj(wbits=_GZIP)
    while line := file.readline(remaining) if remaining > 0 else b"":
        remaining -= len(line)
        yield compressor.compress(without_private_json(line))
    yield compressor.flush()


def read_chunks(path: Path, size: int) -> Iterator[bytes]:
    """The first bytes of a file. An interrupted append may have left more."""
    with path.open("rb") as file:
        while size > 0 and (data := file.read(min(_CHUNK_BYTES, size))):
            size -= len(data)
            yield data


def decompressed(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The text of gzip members, whose checksums are compared. Raises EOFError if one is cut."""
    member = zlib.decompressobj(_GZIP)
    is_complete = True
    for data in chunks:
        while data:
            yield member.decompress(data)
            is_complete = member.eof
            data = member.unused_data
            if is_complete:
                member = zlib.decompressobj(_GZIP)
    if not is_complete:
        raise EOFError("it is incomplete")


def complete_end(file: IO[bytes]) -> int:
    """Where the last complete line of a log ends. A line without a newline is complete if it is
    valid JSON."""
    size = end = os.fstat(file.fileno()).st_size
    tail = b""
    newline = -1
    while end > 0 and newline < 0:
        start = max(0, end - _CHUNK_BYTES)
        file.seek(start)
        tail = file.read(end - start) + tail
        newline = tail.rfind(b"\n")
        end = start
    last_line = tail[newline + 1 :]
    try:
        if last_line:
            orjson.loads(last_line)
    except orjson.JSONDecodeError:
        return end + newline + 1
    return size


def part_digest(
    file: IO[bytes], start: int, end: int, before: hashlib.blake2b | None = None
) -> hashlib.blake2b:
    """The hash of a part of a file, continuing from `before`."""
    digest = before or hashlib.blake2b(digest_size=16)
    file.seek(start)
    while start < end and (chunk := file.read(min(_CHUNK_BYTES, end - start))):
        digest.update(chunk)
        start += len(chunk)
    return digest


# -- encryption --------------------------------------------------------------
#
# Encrypted files consist of frames, so that they can be appended to and read as a stream. A frame
# is its length, a random nonce and the ciphertext. Its position in the file, and the name of the
# file, are authenticated with it, so neither frames nor files can be exchanged.


def encrypt(file: IO[bytes], chunks: Iterable[bytes], cipher: Any, name: str) -> None:
    """Append what is yielded to a file, encrypted."""
    buffer = bytearray()

    def write_frame(size: int) -> None:
        nonce = os.urandom(NONCE_BYTES)
        context = file.tell().to_bytes(8, "little") + name.encode()
        frame = nonce + cipher.encrypt(nonce, bytes(buffer[:size]), context)
        file.write(_LENGTH.pack(len(frame)) + frame)
        del buffer[:size]

    for chunk in chunks:
        buffer += chunk
        while len(buffer) >= _FRAME_BYTES:
            write_frame(_FRAME_BYTES)
    if buffer:
        write_frame(len(buffer))


def decrypt(path: Path, cipher: Any, name: str, end: int | None = None) -> Iterator[bytes]:
    """What `encrypt` has written to a file, up to a position in it. Raises DamagedLibrary."""
    from cryptography.exceptions import InvalidTag

    with path.open("rb") as file:
        while end is None or file.tell() < end:
            position = file.tell()
            header = file.read(_LENGTH.size)
            if not header:
                return
            try:
                (length,) = _LENGTH.unpack(header)
                if length > NONCE_BYTES + _FRAME_BYTES + _TAG_BYTES:
                    raise ValueError("impossible length")
                frame = file.read(length)
                context = position.to_bytes(8, "little") + name.encode()
                yield bytes(cipher.decrypt(frame[:NONCE_BYTES], frame[NONCE_BYTES:], context))
            except (InvalidTag, ValueError, struct.error) as error:
                raise DamagedLibrary(
                    f"{path} is damaged, or was encrypted with another key or name."
                ) from error
