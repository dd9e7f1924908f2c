"""Decrypt the pages of a database without SQLite, which refuses a damaged page.

This is the scheme "chacha20" of SQLite3 Multiple Ciphers. A page ends with a nonce, a counter and
a tag. ChaCha20 with the key of the database makes a key for the page, with which the page is
encrypted. A changed byte changes one byte of the text, so the tag is not checked here: salvage
checks every message by its own digest.
"""

from __future__ import annotations

import struct
from pathlib import Path

from recollect.store.sqlite.files.encryption import data_key

MAGIC = b"SQLite format 3\0"
RESERVED_BYTES = 32
PAGE_SIZE = 8192
"""The size of the pages of every library, in case that the file's header is damaged."""
_NONCE = struct.Struct("<12sI")
_PLAIN_HEADER_BYTES = 24


class PageCipher:
    """Decrypts pages with the key of a database."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def decrypt(self, number: int, page: bytes) -> bytes:
        """The content of a page. The first 24 bytes of a file are not encrypted."""
        end = len(page) - RESERVED_BYTES
        start = 0
        header = b""
        if number == 1:
            start = _PLAIN_HEADER_BYTES
            header = MAGIC + page[len(MAGIC) : start]
        nonce, counter = _NONCE.unpack_from(page, end)
        counter ^= number
        page_key = _chacha20(self._key, nonce, counter, bytes(64))[32:]
        return header + _chacha20(page_key, nonce, counter + 1, page[start:end]) + page[end:]


def page_cipher(path: Path) -> PageCipher | None:
    """The cipher of a database; None if it is not encrypted."""
    key = data_key(path)
    if key is None:
        return None
    return PageCipher(key.for_databases)


def _chacha20(key: bytes, nonce: bytes, counter: int, data: bytes) -> bytes:
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms

    block = struct.pack("<I", counter & 0xFFFFFFFF) + nonce
    return Cipher(algorithms.ChaCha20(key, block), mode=None).encryptor().update(data)
