"""The files of the archive: parts of logs, their copies as gzip members, and their encryption."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import struct
import zlib
from collections.abc import Iterator
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


def write_member(copy: IO[bytes], file: IO[bytes], start: int, end: int) -> None:
    """Write one gzip member, line by line: a private span never crosses lines."""
    file.seek(start)
    remaining = end - start
    with gzip.GzipFile(fileobj=copy, mode="wb", mtime=0) as member:
        while line := file.readline(remaining) if remaining > 0 else b"":
            remaining -= len(line)
            member.write(without_private_json(line))


def decompressed(members: IO[bytes], size: int) -> Iterator[bytes]:
    """The text of the gzip members in the first bytes of a file, whose checksums are compared.

    An interrupted append may have left more bytes. Raises EOFError if a member is cut.
    """
    member = zlib.decompressobj(_GZIP)
    is_complete = True
    while data := members.read(min(_CHUNK_BYTES, size)):
        size -= len(data)
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


class EncryptedWriter(io.RawIOBase):
    """Encrypts what is written, and appends it to a file. Closing it does not close the file."""

    def __init__(self, file: IO[bytes], cipher: Any, name: str) -> None:
        self._file = file
        self._name = name.encode()
        self._cipher = cipher
        self._buffer = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._buffer += data
        while len(self._buffer) >= _FRAME_BYTES:
            self._write_frame(_FRAME_BYTES)
        return len(data)

    def close(self) -> None:
        if not self.closed and self._buffer:
            self._write_frame(len(self._buffer))
        super().close()

    def _write_frame(self, size: int) -> None:
        nonce = os.urandom(NONCE_BYTES)
        context = self._file.tell().to_bytes(8, "little") + self._name
        frame = nonce + self._cipher.encrypt(nonce, bytes(self._buffer[:size]), context)
        self._file.write(_LENGTH.pack(len(frame)) + frame)
        del self._buffer[:size]


class EncryptedReader(io.RawIOBase):
    """Reads what an `EncryptedWriter` has written, up to the position `end` of the file.

    Closing it closes the file.
    """

    def __init__(self, file: IO[bytes], cipher: Any, name: str, end: int | None = None) -> None:
        self._file = file
        self._name = name.encode()
        self._cipher = cipher
        self._end = end
        self._buffer = b""

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any) -> int:
        if not self._buffer:
            self._buffer = self._read_frame()
        data = self._buffer[: len(target)]
        target[: len(data)] = data
        self._buffer = self._buffer[len(data) :]
        return len(data)

    def close(self) -> None:
        self._file.close()
        super().close()

    def _read_frame(self) -> bytes:
        """The next frame, or nothing at the end of the file."""
        from cryptography.exceptions import InvalidTag

        position = self._file.tell()
        if self._end is not None and position >= self._end:
            return b""
        header = self._file.read(_LENGTH.size)
        if not header:
            return b""
        try:
            (length,) = _LENGTH.unpack(header)
            if length > NONCE_BYTES + _FRAME_BYTES + _TAG_BYTES:
                raise ValueError("impossible length")
            frame = self._file.read(length)
            context = position.to_bytes(8, "little") + self._name
            nonce, text = frame[:NONCE_BYTES], frame[NONCE_BYTES:]
            return bytes(self._cipher.decrypt(nonce, text, context))
        except (InvalidTag, ValueError, struct.error) as error:
            raise DamagedLibrary(
                f"{self._file.name} is damaged, or was encrypted with another key or name."
            ) from error
