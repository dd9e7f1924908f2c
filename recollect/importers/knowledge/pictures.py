"""Texts that programs put into pictures: PNG's text chunks, the comment in a WEBP.

Checksums are not believed, since programs that write such texts get them wrong.
What a text unpacks to is bounded.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterator
from typing import IO, NamedTuple

from recollect.settings import LIMITS

PNG = b"\x89PNG\r\n\x1a\n"
_TEXTS = (b"tEXt", b"zTXt", b"iTXt")
_KEYWORD = 80
_CHUNK = re.compile(rb"[A-Za-z]{4}")
_COMMENT = b"ASCII\0\0\0"
_SKIP = 1 << 16


class Chunk(NamedTuple):
    kind: bytes
    data: bytes
    """Of a chunk that is no text: nothing."""
    start: int
    end: int


def texts(file: IO[bytes], longest: int | None = None) -> Iterator[tuple[str, bytes, Chunk]]:
    """The texts of a PNG by their keyword in lower case. With `longest` they are cut there, and not unpacked."""
    for chunk in _chunks(file, longest):
        keyword, zero, value = chunk.data.partition(b"\0")
        if zero and len(keyword) < _KEYWORD:
            name = keyword.decode("latin-1").strip().lower()
            yield name, value if longest is not None else _unpacked(chunk.kind, value), chunk


def without(data: bytes, chunks: list[Chunk]) -> bytes:
    """A PNG without some of its chunks."""
    kept, at = [], 0
    for chunk in chunks:
        kept.append(data[at : chunk.start])
        at = chunk.end
    return b"".join([*kept, data[at:]])


def comment(data: bytes) -> str:
    """What the EXIF of a WEBP says as the user's comment; old programs wrote it as a list of numbers."""
    at = 12
    while at + 8 <= len(data):
        kind, size = struct.unpack_from("<4sI", data, at)
        if kind == b"EXIF":
            exif = data[at + 8 : at + 8 + size]
            found = exif[exif.find(_COMMENT) + len(_COMMENT) :] if _COMMENT in exif else b""
            text = found.rstrip(b"\0").strip()
            if re.fullmatch(rb"[0-9]{1,3}(?:,[0-9]{1,3})*+", text):
                numbers = [int(number) for number in text.split(b",")]
                text = bytes(number for number in numbers if number < 256)
            return text.decode("utf-8", "replace")
        at += 8 + size + (size & 1)
    return ""


def _chunks(file: IO[bytes], longest: int | None) -> Iterator[Chunk]:
    if file.read(8) != PNG:
        return
    at = 8
    while len(head := file.read(8)) == 8:
        size, kind = struct.unpack(">I4s", head)
        if not _CHUNK.fullmatch(kind) or kind == b"IEND":
            return
        data = b""
        if kind in _TEXTS and size <= LIMITS.card_bytes:
            data = file.read(min(size, longest) if longest is not None else size)
        if not _skip(file, size - len(data) + 4) and not data:
            return
        yield Chunk(kind, data, at, at + size + 12)
        at += size + 12


def _skip(file: IO[bytes], size: int) -> bool:
    if file.seekable():
        file.seek(size, 1)
        return True
    while size > 0:
        passed = len(file.read(min(size, _SKIP)))
        if not passed:
            return False
        size -= passed
    return True


def _unpacked(kind: bytes, value: bytes) -> bytes:
    if kind == b"zTXt":
        return _inflated(value[1:])
    if kind == b"iTXt":
        packed = value[:1] == b"\1"
        text = value[2:].split(b"\0", 2)[-1]
        return _inflated(text) if packed else text
    return value


def _inflated(data: bytes) -> bytes:
    """The text, or nothing where it is broken or too long."""
    unpacker = zlib.decompressobj()
    try:
        text = unpacker.decompress(data, LIMITS.card_bytes)
    except zlib.error:
        return b""
    return b"" if unpacker.unconsumed_tail else text
