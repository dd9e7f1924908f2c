"""Encryption at rest: the key of an encrypted home, and what is encrypted with it.

A home is encrypted if it contains a key file. It protects a random key with a passphrase. Every
database in the home is then encrypted by SQLite3 Multiple Ciphers (ChaCha20 and Poly1305 for each
page), and the archive by AES-256-GCM, each with a key that is derived from the random one. The
passphrase is stretched once in a process.

A key file also applies to the folders below it. The nearest one counts, so that a folder with a
copy from another home has a key file of its own.
"""

from __future__ import annotations

import hmac
import json
import os
import secrets
import shutil
import threading
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from recollect import passphrases
from recollect.configuration import expand_path
from recollect.errors import LockedLibrary, RecollectError
from recollect.home_folder import KEY_FILE
from recollect.passphrases import (
    KEY_BYTES,
    WrongPassphrase,
    aes,
    read_passphrase,
    unwrap_key,
    wrap_key,
)
from recollect.settings import PASSPHRASE, PASSPHRASE_FILE
from recollect.store.durability import sync_folder

ENCRYPTED, ENCRYPTING, DECRYPTING, PLAIN = "encrypted", "encrypting", "decrypting", "plain"
"""The states of a home. `plain` is for copies of a plain library inside of an encrypted home."""
_FORMAT = 1
# The deepest file is in a copy that is being restored: .backup/ID/users/NAME/library.db.
_LEVELS = 6


class DataKey(NamedTuple):
    """The random key of a home."""

    id: str
    secret: bytes

    @property
    def for_databases(self) -> bytes:
        return hmac.digest(self.secret, b"recollect databases", "sha256")

    @property
    def for_files(self) -> bytes:
        return hmac.digest(self.secret, b"recollect files", "sha256")


class KeyFile(NamedTuple):
    """The key of a home as it is stored."""

    path: Path
    state: str
    id: str
    record: dict[str, Any]

    def write(self) -> None:
        """Write the file. It is complete or as before, also after a power cut."""
        content = {"format": _FORMAT, "state": self.state, "id": self.id, "record": self.record}
        draft = self.path.with_name(f"{self.path.name}.{secrets.token_hex(4)}.tmp")
        file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.write(file, json.dumps(content, indent=1).encode())
            os.fsync(file)
        finally:
            os.close(file)
        draft.replace(self.path)
        sync_folder(self.path.parent)

    def change_state(self, state: str) -> KeyFile:
        changed = self._replace(state=state)
        changed.write()
        return changed


_unlocked_keys: dict[str, DataKey] = {}
_unlock_lock = threading.Lock()


# -- key files ---


def find_key_file(path: Path) -> Path | None:
    """The key file that applies to a file or folder, or None."""
    for folder in (path, *path.absolute().parents[:_LEVELS]):
        file = folder / KEY_FILE
        if file.exists():
            return file
    return None


def read_key_file(file: Path) -> KeyFile:
    try:
        content = json.loads(file.read_bytes())
        if content["format"] > _FORMAT:
            raise RecollectError(f"{file} was written by a newer Recollect. Upgrade Recollect.")
        return KeyFile(file, content["state"], content["id"], content["record"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise LockedLibrary(
            f"{file} cannot be read ({error}), so nothing here can be decrypted. Restore this file "
            "from a backup."
        ) from error


def new_key_file(home: Path, passphrase: str, state: str) -> KeyFile:
    """Create the key of a home."""
    key = DataKey(secrets.token_hex(8), os.urandom(KEY_BYTES))
    record = wrap_key(key.secret, passphrase, key_context(key.id))
    key_file = KeyFile(home / KEY_FILE, state, key.id, record)
    key_file.write()
    with _unlock_lock:
        _unlocked_keys[key.id] = key
    return key_file


def write_plain_mark(folder: Path) -> None:
    """Mark what is in a folder as not encrypted, even if the home around it is."""
    KeyFile(folder / KEY_FILE, PLAIN, "", {}).write()


def copy_key_file(home: Path, folder: Path) -> None:
    """Encrypt what is written to a folder with the key of a home, if the home is encrypted."""
    if (home / KEY_FILE).exists():
        shutil.copyfile(home / KEY_FILE, folder / KEY_FILE)


def is_encrypted(path: Path) -> bool:
    """Whether a file or folder is in an encrypted home."""
    file = find_key_file(path)
    return file is not None and read_key_file(file).state != PLAIN


# -- keys ---


def data_key(path: Path) -> DataKey | None:
    """The key of the home that a file or folder is in; None if the home is not encrypted."""
    file = find_key_file(path)
    if file is None:
        return None
    key_file = read_key_file(file)
    if key_file.state == PLAIN:
        return None
    if key_file.state != ENCRYPTED:
        command = {ENCRYPTING: "encrypt", DECRYPTING: "decrypt"}.get(key_file.state, "encrypt")
        raise LockedLibrary(
            f"`recollect {command}` of {file.parent} was interrupted, or is still running. Run it "
            "again to complete it."
        )
    return unlock(key_file)


def unlock(key_file: KeyFile, passphrase: str | None = None) -> DataKey:
    """The key in a key file. Without a passphrase, the one in the settings is used."""
    with _unlock_lock:
        key = _unlocked_keys.get(key_file.id)
        if key is None or passphrase is not None:
            key = decrypt_key(key_file, passphrase)
            _unlocked_keys[key_file.id] = key
        return key


def decrypt_key(key_file: KeyFile, passphrase: str | None) -> DataKey:
    home = key_file.path.parent
    if passphrase is None:
        passphrase = configured_passphrase()
    if passphrase is None and passphrases.prompt is not None:
        passphrase = passphrases.prompt(f"Passphrase of {home}: ")
    if passphrase is None:
        raise LockedLibrary(
            f"{home} is encrypted. Put its passphrase into a file that only you can read, and set "
            f"{PASSPHRASE_FILE.name} to the name of that file."
        )
    try:
        secret = unwrap_key(passphrase, key_file.record, key_context(key_file.id))
    except WrongPassphrase as error:
        raise LockedLibrary(f"The passphrase is wrong: it does not open {home}.") from error
    return DataKey(key_file.id, secret)


def key_context(id: str) -> bytes:
    """What is authenticated with the key of a home."""
    return b"recollect home " + id.encode()


def configured_passphrase() -> str | None:
    """The passphrase in the settings, or None."""
    file = PASSPHRASE_FILE.get()
    if file:
        return read_passphrase(expand_path(file))
    return PASSPHRASE.get() or None


# -- what is encrypted ---


def require_encryption(path: Path) -> None:
    """Refuse to create a plain library although a passphrase is configured."""
    if find_key_file(path) is None and configured_passphrase() is not None:
        raise LockedLibrary(
            f"{path} would not be encrypted, although a passphrase is configured: {KEY_FILE} is "
            "missing. Restore it from a backup. To start an encrypted home, run `recollect "
            f"encrypt`; for a plain one, remove the setting {PASSPHRASE_FILE.name}."
        )


def require_support() -> None:
    """Raise an error if SQLite was built without encryption."""
    if not hasattr(apsw, "mc_version"):
        raise LockedLibrary(
            "Encryption needs another build of SQLite. Install apsw-sqlite3mc instead of apsw: "
            "pip uninstall apsw; pip install --force-reinstall apsw-sqlite3mc"
        )


def apply_key(db: apsw.Connection, key: DataKey | None) -> None:
    """Set the key of a new connection, before anything else is done with it."""
    if key is not None:
        require_support()
        db.pragma("cipher", "chacha20")
        db.pragma("key", f"raw:{key.for_databases.hex()}")


def cipher(folder: Path) -> Any | None:
    """AES-GCM for files in a folder; None if the home is not encrypted."""
    key = data_key(folder)
    if key is None:
        return None
    return aes(key.for_files)
