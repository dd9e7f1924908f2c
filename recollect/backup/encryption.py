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

from recollect.errors import DamagedBackup, InvalidInput, RecollectError

NAME_BYTES = 32
_CHECKSUM_BYTES = 16
_NONCE_BYTES = 12
_KEY_BYTES = 32
SCRYPT = {"n": 1 << 15, "r": 8, "p": 3}
"""The cost of a guess: 32 MiB of memory and a fraction of a second."""
# A folder that somebody else wrote must not make us use any amount of memory.
_MAX_SCRYPT = {"n": 1 << 20, "r": 32, "p": 16}


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
        self._aes = _aes(_derive(key, b"parts"))

    def name(self, data: bytes) -> bytes:
        return hashlib.blake2b(data, digest_size=NAME_BYTES, key=self._name_key).digest()

    def encrypt(self, data: bytes, context: bytes) -> bytes:
        nonce = os.urandom(_NONCE_BYTES)
        ciphertext: bytes = self._aes.encrypt(nonce, data, context)
        return nonce + ciphertext

    def decrypt(self, data: bytes, context: bytes) -> bytes:
        from cryptography.exceptions import InvalidTag

        try:
            content: bytes = self._aes.decrypt(data[:_NONCE_BYTES], data[_NONCE_BYTES:], context)
        except (InvalidTag, ValueError) as error:
            raise DamagedBackup("An encrypted part was changed.") from error
        return content


def new_key(passphrase: str, context: bytes) -> tuple[Cipher, dict[str, Any]]:
    """A cipher with a new random key, and the record from which the passphrase recovers it."""
    key = os.urandom(_KEY_BYTES)
    salt = os.urandom(16)
    nonce = os.urandom(_NONCE_BYTES)
    protection = _aes(_stretch(passphrase, salt, SCRYPT))
    ciphertext = protection.encrypt(nonce, key, context)
    record = {
        "cipher": "aes-256-gcm",
        "kdf": "scrypt",
        **SCRYPT,
        "salt": salt.hex(),
        "key": (nonce + ciphertext).hex(),
    }
    return AesGcm(key), record


def recover_key(passphrase: str, record: dict[str, Any], context: bytes) -> Cipher:
    """The cipher of a record that `new_key` made. Raises InvalidInput for a wrong passphrase."""
    try:
        salt = bytes.fromhex(record["salt"])
        data = bytes.fromhex(record["key"])
        cost = {name: int(record[name]) for name in SCRYPT}
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedBackup("The key of the backup folder cannot be read.") from error
    if any(not 1 <= cost[name] <= _MAX_SCRYPT[name] for name in cost):
        raise DamagedBackup("The key of the backup folder has impossible parameters.")
    protection = _aes(_stretch(passphrase, salt, cost))
    from cryptography.exceptions import InvalidTag

    try:
        key = protection.decrypt(data[:_NONCE_BYTES], data[_NONCE_BYTES:], context)
    except (InvalidTag, ValueError) as error:
        raise InvalidInput(
            "The passphrase is wrong: it does not open this backup folder."
        ) from error
    return AesGcm(key)


def _stretch(passphrase: str, salt: bytes, cost: dict[str, int]) -> bytes:
    memory = 128 * cost["r"] * (cost["n"] + cost["p"] + 2)
    try:
        return hashlib.scrypt(
            passphrase.encode("utf-8", "surrogateescape"),
            salt=salt,
            maxmem=memory + (1 << 20),
            dklen=_KEY_BYTES,
            **cost,
        )
    except ValueError as error:
        raise DamagedBackup("The key of the backup folder has impossible parameters.") from error


def _derive(key: bytes, purpose: bytes) -> bytes:
    return hmac.digest(key, b"recollect backup " + purpose, "sha256")


def _aes(key: bytes) -> Any:
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError as error:
        raise RecollectError(
            "Encrypted backups need more packages: pip install 'recollect[encryption]'"
        ) from error
    return AESGCM(key)
