"""How the parts of a backup folder are named, protected and checked.

Without a passphrase, every part carries a checksum. With one, every part is encrypted by
AES-256-GCM with a random nonce. The name of a part is authenticated with it, so a part cannot be
exchanged for another. Names of chunks are keyed hashes: without the key, nobody can test whether a
backup contains a text they know.

A random key encrypts the parts. The passphrase encrypts that key.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from abc import ABC, abstractmethod
from typing import Any

from recollect.errors import DamagedBackup, InvalidInput
from recollect.passphrases import (
    KEY_BYTES,
    NONCE_BYTES,
    UnusableRecord,
    WrongPassphrase,
    aes,
    unwrap_key,
    wrap_key,
)

NAME_BYTES = 32
_CHECKSUM_BYTES = 16


class Cipher(ABC):
    """Protects the parts of a backup folder."""

    @abstractmethod
    def name(self, data: bytes) -> bytes:
        """The name of a chunk, which depends on nothing but its content and the key."""

    @abstractmethod
    def encrypt(self, data: bytes, context: bytes) -> bytes:
        """Protect a part. `context` says which part it is."""

    @abstractmethod
    def decrypt(self, data: bytes, context: bytes) -> bytes:
        """The part, if it is intact and the one that `context` says. Raises DamagedBackup."""


class Checksums(Cipher):
    """The cipher of a folder without a passphrase."""

    def name(self, data: bytes) -> bytes:
        return hashlib.blake2b(data, digest_size=NAME_BYTES).digest()

    def encrypt(self, data: bytes, context: bytes) -> bytes:
        return _checksum(data, context) + data

    def decrypt(self, data: bytes, context: bytes) -> bytes:
        content = data[_CHECKSUM_BYTES:]
        if data[:_CHECKSUM_BYTES] != _checksum(content, context):
            raise DamagedBackup("A checksum is wrong.")
        return content


def _checksum(data: bytes, context: bytes) -> bytes:
    digest = hashlib.blake2b(context, digest_size=_CHECKSUM_BYTES)
    digest.update(data)
    return digest.digest()


class AesGcm(Cipher):
    """The cipher of a folder with a passphrase."""

    def __init__(self, key: bytes) -> None:
        self._name_key = _derive(key, b"names")
        self._aes = aes(_derive(key, b"parts"))

    def name(self, data: bytes) -> bytes:
        return hashlib.blake2b(data, digest_size=NAME_BYTES, key=self._name_key).digest()

    def encrypt(self, data: bytes, context: bytes) -> bytes:
        nonce = os.urandom(NONCE_BYTES)
        ciphertext: bytes = self._aes.encrypt(nonce, data, context)
        return nonce + ciphertext

    def decrypt(self, data: bytes, context: bytes) -> bytes:
        from cryptography.exceptions import InvalidTag

        try:
            content: bytes = self._aes.decrypt(data[:NONCE_BYTES], data[NONCE_BYTES:], context)
        except (InvalidTag, ValueError) as error:
            raise DamagedBackup("An encrypted part was changed.") from error
        return content


def new_key(passphrase: str, context: bytes) -> tuple[Cipher, dict[str, Any]]:
    """A cipher with a new random key, and the record from which the passphrase recovers it."""
    key = os.urandom(KEY_BYTES)
    return AesGcm(key), wrap_key(key, passphrase, context)


def recover_key(passphrase: str, record: dict[str, Any], context: bytes) -> Cipher:
    """The cipher of a record that `new_key` made. Raises InvalidInput for a wrong passphrase."""
    try:
        return AesGcm(unwrap_key(passphrase, record, context))
    except WrongPassphrase as error:
        raise InvalidInput(
            "The passphrase is wrong: it does not open this backup folder."
        ) from error
    except UnusableRecord as error:
        raise DamagedBackup(f"The backup folder cannot be opened. {error}") from error


def _derive(key: bytes, purpose: bytes) -> bytes:
    return hmac.digest(key, b"recollect backup " + purpose, "sha256")
