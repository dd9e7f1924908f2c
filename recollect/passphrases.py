"""Passphrases, and random keys that a passphrase protects.

A random key encrypts the data. The passphrase encrypts that key, so it can be changed without
encrypting the data again. A passphrase is never an argument of a command: other users of the
computer can see those.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from recollect.errors import InvalidInput, RecollectError

KEY_BYTES = 32
NONCE_BYTES = 12
MIN_CHARACTERS = 8
SCRYPT = {"n": 1 << 15, "r": 8, "p": 3}
"""The cost of a guess: 32 MiB of memory and a fraction of a second."""
# A record that somebody else wrote must not make us use any amount of memory.
_MAX_SCRYPT = {"n": 1 << 20, "r": 32, "p": 16}

prompt: Callable[[str], str] | None = None
"""Asks a person for the passphrase of an encrypted home. Only the command line sets it."""


class WrongPassphrase(InvalidInput):
    """The passphrase does not decrypt the key."""


class UnusableRecord(RecollectError):
    """The record of a key is incomplete, or asks for an absurd amount of work."""


def read_passphrase(file: Path) -> str:
    """The first line of a file."""
    try:
        lines = file.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError as error:
        raise InvalidInput(
            f"The passphrase cannot be read from {file} ({error.strerror})."
        ) from error
    if not lines or not lines[0]:
        raise InvalidInput(f"{file} is empty. Its first line must be the passphrase.")
    return lines[0]


def require_strength(passphrase: str) -> None:
    """Refuse a new passphrase that is too short."""
    if len(passphrase) < MIN_CHARACTERS:
        raise InvalidInput(
            f"The passphrase must have at least {MIN_CHARACTERS} characters; several random words "
            "are better."
        )


def wrap_key(key: bytes, passphrase: str, context: bytes) -> dict[str, Any]:
    """The record from which the passphrase recovers a key. `context` says what the key is for."""
    salt = os.urandom(16)
    nonce = os.urandom(NONCE_BYTES)
    ciphertext = aes(stretch(passphrase, salt, SCRYPT)).encrypt(nonce, key, context)
    return {
        "cipher": "aes-256-gcm",
        "kdf": "scrypt",
        **SCRYPT,
        "salt": salt.hex(),
        "key": (nonce + ciphertext).hex(),
    }


def unwrap_key(passphrase: str, record: dict[str, Any], context: bytes) -> bytes:
    """The key of a record that `wrap_key` made. Raises WrongPassphrase or UnusableRecord."""
    try:
        salt = bytes.fromhex(record["salt"])
        data = bytes.fromhex(record["key"])
        cost = {name: int(record[name]) for name in SCRYPT}
    except (KeyError, TypeError, ValueError) as error:
        raise UnusableRecord("The key cannot be read.") from error
    if any(not 1 <= cost[name] <= _MAX_SCRYPT[name] for name in cost):
        raise UnusableRecord("The key has impossible parameters.")
    protection = aes(stretch(passphrase, salt, cost))
    from cryptography.exceptions import InvalidTag

    try:
        key: bytes = protection.decrypt(data[:NONCE_BYTES], data[NONCE_BYTES:], context)
    except (InvalidTag, ValueError) as error:
        raise WrongPassphrase("The passphrase is wrong.") from error
    return key


def stretch(passphrase: str, salt: bytes, cost: dict[str, int]) -> bytes:
    import hashlib

    memory = 128 * cost["r"] * (cost["n"] + cost["p"] + 2)
    try:
        return hashlib.scrypt(
            passphrase.encode("utf-8", "surrogateescape"),
            salt=salt,
            maxmem=memory + (1 << 20),
            dklen=KEY_BYTES,
            **cost,
        )
    except ValueError as error:
        raise UnusableRecord("The key has impossible parameters.") from error


def aes(key: bytes) -> Any:
    """AES-256-GCM with this key."""
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError as error:
        raise RecollectError(
            "Encryption needs more packages: pip install 'recollect[encryption]'"
        ) from error
    return AESGCM(key)
