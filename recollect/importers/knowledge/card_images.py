"""Text embedded in images: the text chunks of PNG, and the comment of WEBP.

Checksums are ignored, because many programs write wrong ones. The size of decompressed text is
limited.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterator
from typing import IO, NamedTuple

from recollect.settings import LIMITS

PNG = b"\x89PNG\r\n\x1a\n"
_TEXT_CHUNKS = (b"tEXt", b"zTXt", b"iTXt")
_KEYWORD_BYTES = 80
_MAX_TEXT_BYTES = 16_000_000
"""The limit for all texts in an image together."""
_CHUNK_TYPE = re.compile(rb"[A-Za-z]{4}")
_ASCII_COMMENT = b"ASCII\0\0\0"
_NUMBERS = re.compile(rb"[0-9]{1,3}(?:,[0-9]{1,3})*+")
_SKIP_BYTES = 1 << 16


class Chunk(NamedTuple):
    type: bytes
    data: bytes
    """Empty unless it is a text chunk."""
    start: int
    end: int


def png_texts(file: IO[bytes], limit: int | None = None) -> Iterator[tuple[str, bytes, Chunk]]:
    """The texts in a PNG with their keywords in lower case.

    With `limit`, texts are truncated and not decompressed.
    """
    budget = _MAX_TEXT_BYTES
    for chunk in _chunks(file, limit):
        keyword, separator, value = chunk.data.partition(b"\0")
        if separator and len(keyword) < _KEYWORD_BYTES:
            if limit is None:
                value = decompress(chunk.type, value, budget)
                budget -= len(value)
            yield keyword.decode("latin-1").strip().lower(), value, chunk


def remove_chunks(data: bytes, chunks: list[Chunk]) -> bytes:
    """A PNG without some of its chunks."""
    parts = []
    position = 0
    for chunk in chunks:
        parts.append(data[position : chunk.start])
        position = chunk.end
    parts.append(data[position:])
    return b"".join(parts)


def webp_comment(data: bytes) -> str:
    """The user comment in the EXIF data of a WEBP image."""
    position = 12
    while position + 8 <= len(data):
        type_, size = struct.unpack_from("<4sI", data, position)
        if type_ == b"EXIF":
            return exif_comment(data[position + 8 : position + 8 + size])
        position += 8 + size + (size & 1)
    return ""


def exif_comment(exif: bytes) -> str:
    _, _, comment = exif.partition(_ASCII_COMMENT)
    text = comment.rstrip(b"\0").strip()
    if _NUMBERS.fullmatch(text):  # old programs wrote the bytes as a list of numbers
        numbers = [int(number) for number in text.split(b",")]
        text = bytes(number for number in numbers if number < 256)
    return text.decode("utf-8", "replace")


def _chunks(file: IO[bytes], limit: int | None) -> Iterator[Chunk]:
    if file.read(8) != PNG:
        return
    start = 8
    while True:
        header = file.read(8)
        if len(header) < 8:
            return
        size, type_ = struct.unpack(">I4s", header)
        if not _CHUNK_TYPE.fullmatch(type_) or type_ == b"IEND":
            return
        data = b""
        if type_ in _TEXT_CHUNKS and size <= LIMITS.card_bytes:
            length = size if limit is None else min(size, limit)
            data = file.read(length)
        rest = size - len(data) + 4  # a checksum follows
        if file.seekable():
            file.seek(rest, 1)
        while rest > 0 and not file.seekable():
            skipped = len(file.read(min(rest, _SKIP_BYTES)))
            if not skipped:
                return
            rest -= skipped
        end = start + size + 12
        yield Chunk(type_, data, start, end)
        start = end


def decompress(type_: bytes, value: bytes, limit: int) -> bytes:
    if type_ == b"zTXt":
        return inflate(value[1:], limit)
    if type_ == b"iTXt":
        is_compressed = value[:1] == b"\1"
        text = value[2:].split(b"\0", 2)[-1]
        return inflate(text, limit) if is_compressed else text
    return value


def inflate(data: bytes, limit: int) -> bytes:
    """The text; empty if it is damaged or longer than `limit`."""
    if limit <= 0:
        return b""
    decompressor = zlib.decompressobj()
    try:
        text = decompressor.decompress(data, limit)
    except zlib.error:
        return b""
    return b"" if decompressor.unconsumed_tail else text
