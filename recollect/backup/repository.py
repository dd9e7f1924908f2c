"""A backup folder: chunks, each stored once, and the manifests of the backups made of them.

    folder/
      recollect-backups.json   the format and, if encrypted, the key behind the passphrase
      packs/                   the chunks, many in a file
      backups/                 a manifest for each backup
      lock

A chunk is named by the hash of its content. Packs are written before the manifest that needs them,
and a manifest is deleted before its packs. So whatever is interrupted, every manifest is complete.

A pack consists of a magic number, the chunks, an index (name, offset and length of each), and a
trailer with the size and the checksum of the index. It never changes once it is complete.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import struct
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import orjson
import zstandard

from recollect.backup.files import TEMPORARY, explain_disk_errors, make_folder, write_file
from recollect.backup.manifest import FileRecord, Manifest
from recollect.errors import DamagedBackup, InvalidInput, NotFound, StoreBusy
from recollect.passphrases import (
    KEY_BYTES,
    NONCE_BYTES,
    UnusableRecord,
    WrongPassphrase,
    aes,
    unwrap_key,
    wrap_key,
)
from recollect.store.durability import sync_folder
from recollect.store.sqlite.private_files import file_lock

CONFIG = "recollect-backups.json"
FORMAT = 1
CHUNK_BYTES = 65_536
"""A multiple of the page size of a database, so that a page that did not change is in a chunk that
did not change."""
PACK_BYTES = 8 << 20
NAME_BYTES = 32
MAX_MANIFEST_BYTES = 1 << 30
_CHECKSUM_BYTES = 16
_MAGIC = b"rclpack1"
_ENTRY = struct.Struct(">32sQI")
_TRAILER = struct.Struct(">I16s8s")
_ID = re.compile(r"\d{8}-\d{6}-[0-9a-f]{6}")

Advance = Callable[[int], None]
"""Called with the number of bytes processed."""


class Cipher:
    """How the parts of a folder are named, protected and checked.

    Without a key, every part carries a checksum. With one, every part is encrypted by AES-256-GCM
    with a random nonce. `context` says which part it is, and is authenticated with it, so a part
    cannot be exchanged for another. Names of chunks are keyed hashes then: without the key, nobody
    can test whether a backup contains a text they know.
    """

    def __init__(self, key: bytes | None = None) -> None:
        self._name_key, self._aes = b"", None
        if key is not None:
            self._name_key = hmac.digest(key, b"recollect backup names", "sha256")
            self._aes = aes(hmac.digest(key, b"recollect backup parts", "sha256"))

    def name(self, data: bytes) -> bytes:
        """The name of a chunk, which depends on nothing but its content and the key."""
        return hashlib.blake2b(data, digest_size=NAME_BYTES, key=self._name_key).digest()

    def protect(self, data: bytes, context: bytes) -> bytes:
        if self._aes is None:
            return _checksum(data, context) + data
        nonce = os.urandom(NONCE_BYTES)
        ciphertext: bytes = self._aes.encrypt(nonce, data, context)
        return nonce + ciphertext

    def unprotect(self, data: bytes, context: bytes) -> bytes:
        """The part, if it is intact and the one that `context` says. Raises DamagedBackup."""
        if self._aes is None:
            content = data[_CHECKSUM_BYTES:]
            if data[:_CHECKSUM_BYTES] != _checksum(content, context):
                raise DamagedBackup("A checksum is wrong.")
            return content
        from cryptography.exceptions import InvalidTag

        try:
            content = bytes(self._aes.decrypt(data[:NONCE_BYTES], data[NONCE_BYTES:], context))
        except (InvalidTag, ValueError) as error:
            raise DamagedBackup("An encrypted part was changed.") from error
        return content


def _checksum(data: bytes, context: bytes = b"") -> bytes:
    digest = hashlib.blake2b(context, digest_size=_CHECKSUM_BYTES)
    digest.update(data)
    return digest.digest()


class Location(NamedTuple):
    """Where a chunk is."""

    pack: Path
    offset: int
    length: int

    def read(self) -> bytes:
        with self.pack.open("rb", buffering=0) as file:
            file.seek(self.offset)
            data = file.read(self.length)
        if len(data) != self.length:
            raise DamagedBackup(f"{self.pack} is cut off.")
        return data


class Repository:
    """An open backup folder. Use `open_repository` or `create_repository`."""

    def __init__(self, folder: Path, cipher: Cipher, *, is_encrypted: bool) -> None:
        self.folder = folder
        self.is_encrypted = is_encrypted
        self.damaged_packs: list[str] = []
        """Why some packs cannot be used."""
        self.written = 0
        """The bytes of all packs written since the folder was opened."""
        self._cipher = cipher
        self._packs = folder / "packs"
        self._backups = folder / "backups"
        self._new_chunks: dict[bytes, bytes] = {}
        """Chunks that are in no pack yet, protected, by their names."""
        self._new_bytes = 0
        self._locations: dict[bytes, list[Location]] = {}
        self._compressor = zstandard.ZstdCompressor(level=6)
        self._read_indexes()

    def __enter__(self) -> Repository:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """What was not flushed is forgotten."""
        self._new_chunks.clear()

    def _read_indexes(self) -> None:
        self._locations.clear()
        self.damaged_packs.clear()
        for pack in sorted(self._packs.glob("*.pack")):
            try:
                for name, location in read_index(pack):
                    self._locations.setdefault(name, []).append(location)
            except (DamagedBackup, OSError) as error:
                self.damaged_packs.append(str(error))

    @contextmanager
    def lock(self, *, for_reading: bool = False) -> Iterator[None]:
        """Hold the folder, so that nobody else writes or deletes here.

        A folder on a read-only disk can be read without the lock.
        """
        with ExitStack() as stack:
            try:
                is_held = stack.enter_context(file_lock(self.folder / "lock"))
            except OSError:
                if not for_reading:
                    raise
                is_held = True
            if not is_held:
                raise StoreBusy(
                    f"Another backup, verification or restore is using {self.folder}. "
                    "Try again when it has finished."
                )
            self._read_indexes()
            yield

    def sweep(self) -> None:
        """Delete what an interrupted backup left. Only with the lock."""
        for folder in (self.folder, self._packs, self._backups):
            for file in folder.glob(f"*{TEMPORARY}"):
                file.unlink(missing_ok=True)

    # -- chunks ---

    def add_chunk(self, data: bytes) -> bytes:
        """Store a chunk, unless there is one like it. Returns its name."""
        name = self._cipher.name(data)
        if name not in self._locations and name not in self._new_chunks:
            self._pack(name, data)
        return name

    def _pack(self, name: bytes, data: bytes) -> None:
        part = self._protect(data, name)
        self._new_chunks[name] = part
        self._new_bytes += len(part)
        if self._new_bytes >= PACK_BYTES:
            self.flush()

    def flush(self) -> None:
        """Make all chunks durable."""
        if not self._new_chunks:
            return
        path = self._packs / f"{uuid.uuid4().hex}.pack"
        entries, offset = [], len(_MAGIC)
        for name, part in self._new_chunks.items():
            entries.append(_ENTRY.pack(name, offset, len(part)))
            self._locations.setdefault(name, []).append(Location(path, offset, len(part)))
            offset += len(part)
        index = b"".join(entries)
        trailer = _TRAILER.pack(len(entries), _checksum(index), _MAGIC)
        pack = b"".join((_MAGIC, *self._new_chunks.values(), index, trailer))
        write_file(path, pack)
        self._new_chunks.clear()
        self._new_bytes = 0
        self.written += len(pack)

    def chunk(self, name: bytes) -> bytes:
        """The content of a chunk. Raises DamagedBackup if no intact copy is there."""
        problem = "it is missing"
        for location in self._locations.get(name, ()):
            try:
                data = self._unprotect(location.read(), name, CHUNK_BYTES)
            except (DamagedBackup, OSError) as error:
                problem = f"{location.pack.name}: {error}"
                continue
            if self._cipher.name(data) == name:
                return data
            problem = f"{location.pack.name}: its content does not match its name"
        raise DamagedBackup(f"Chunk {name.hex()[:12]} cannot be read ({problem}).")

    def forget(self, name: bytes) -> None:
        """Store a chunk again when it is added next, because what is there cannot be read."""
        self._locations.pop(name, None)

    def _protect(self, data: bytes, context: bytes) -> bytes:
        return self._cipher.protect(self._compressor.compress(data), context)

    def _unprotect(self, part: bytes, context: bytes, limit: int) -> bytes:
        frame = self._cipher.unprotect(part, context)
        try:
            size = zstandard.frame_content_size(frame)
            if not 0 <= size <= limit:
                raise DamagedBackup("A part has an impossible size.")
            return zstandard.ZstdDecompressor().decompress(frame)
        except zstandard.ZstdError as error:
            raise DamagedBackup(f"A part cannot be decompressed: {error}") from error

    # -- files ---

    def add_file(self, path: str, stream: BinaryIO, advance: Advance) -> FileRecord:
        """Store what a stream contains, cut into chunks."""
        digest = hashlib.blake2b(digest_size=NAME_BYTES)
        names: list[bytes] = []
        size = 0
        while data := stream.read(CHUNK_BYTES):
            digest.update(data)
            size += len(data)
            names.append(self.add_chunk(data))
            advance(len(data))
        count = CHUNK_BYTES // NAME_BYTES
        lists = [
            self.add_chunk(b"".join(names[start : start + count])).hex()
            for start in range(0, len(names), count)
        ]
        return FileRecord(path, size, digest.hexdigest(), tuple(lists))

    def chunk_names(self, file: FileRecord) -> Iterator[bytes]:
        """The names of the chunks of a file."""
        for list_name in file.lists:
            names = self.chunk(bytes.fromhex(list_name))
            for start in range(0, len(names), NAME_BYTES):
                yield names[start : start + NAME_BYTES]

    def read_file(self, file: FileRecord) -> Iterator[bytes]:
        """The content of a file. Raises DamagedBackup, at the latest at its end."""
        digest = hashlib.blake2b(digest_size=NAME_BYTES)
        size = 0
        for name in self.chunk_names(file):
            data = self.chunk(name)
            digest.update(data)
            size += len(data)
            if size > file.size:
                break  # a list that names one chunk many times must not fill the disk
            yield data
        if size != file.size or digest.hexdigest() != file.digest:
            raise DamagedBackup(f"{file.path} differs from the file that was backed up.")

    def unreadable_chunks(self, file: FileRecord, advance: Advance) -> dict[bytes, str]:
        """The chunks of a file that cannot be read, each with the reason.

        Raises DamagedBackup if all of them can be read but do not make up the file.
        """
        problems: dict[bytes, str] = {}
        digest = hashlib.blake2b(digest_size=NAME_BYTES)

        def read(name: bytes) -> bytes:
            try:
                return self.chunk(name)
            except DamagedBackup as error:
                problems[name] = str(error)
                return b""

        for list_name in file.lists:
            names = read(bytes.fromhex(list_name))
            for start in range(0, len(names), NAME_BYTES):
                data = read(names[start : start + NAME_BYTES])
                digest.update(data)
                advance(len(data))
        if not problems and digest.hexdigest() != file.digest:
            raise DamagedBackup(f"{file.path} differs from the file that was backed up.")
        return problems

    # -- manifests ---

    def ids(self) -> list[str]:
        """The ids of all backups, oldest first."""
        names = (file.stem for file in self._backups.glob("*.manifest"))
        return sorted(name for name in names if _ID.fullmatch(name))

    def write_manifest(self, backup: Manifest) -> None:
        data = self._protect(backup.to_json(), _context(backup.id))
        write_file(self._manifest_file(backup.id), data)
        if self.manifest(backup.id) != backup:
            raise DamagedBackup(f"The manifest of backup {backup.id} could not be read back.")

    def manifest(self, id: str) -> Manifest:
        try:
            data = self._manifest_file(id).read_bytes()
        except FileNotFoundError as error:
            raise NotFound(f"There is no backup {id!r} in {self.folder}.") from error
        try:
            content = self._unprotect(data, _context(id), MAX_MANIFEST_BYTES)
            backup = Manifest.from_json(content)
        except DamagedBackup as error:
            raise DamagedBackup(f"The manifest of backup {id} is damaged: {error}") from error
        if backup.id != id:
            raise DamagedBackup(f"The manifest of backup {id} belongs to backup {backup.id}.")
        return backup

    def readable_manifests(self) -> tuple[list[Manifest], dict[str, str]]:
        """The backups, oldest first, and by their ids the reasons why others cannot be read."""
        backups, problems = [], {}
        for id_ in self.ids():
            try:
                backups.append(self.manifest(id_))
            except DamagedBackup as error:
                problems[id_] = str(error)
        return backups, problems

    def delete_manifest(self, id: str) -> None:
        self._manifest_file(id).unlink(missing_ok=True)
        sync_folder(self._backups)

    def _manifest_file(self, id: str) -> Path:
        return self._backups / f"{id}.manifest"

    # -- packs ---

    def keep_chunks(self, live: set[bytes], max_waste: float) -> int:
        """Delete all other chunks, and return the bytes freed. Only with the lock.

        A pack is rewritten if more than this share of it is no longer needed: its needed chunks are
        copied to new packs before it is deleted. One with a needed chunk that cannot be read stays.
        """
        before = self._pack_bytes()
        packs: dict[Path, list[tuple[bytes, int]]] = {}
        for name, locations in self._locations.items():
            for location in locations:
                packs.setdefault(location.pack, []).append((name, location.length))
        deletable = []
        copies: set[bytes] = set()
        for pack, entries in packs.items():
            names = [name for name, _ in entries if name in live]
            size = sum(length for _, length in entries)
            needed = sum(length for name, length in entries if name in live)
            if names and size - needed <= max_waste * size:
                continue
            try:
                chunks = {name: self.chunk(name) for name in names if name not in copies}
            except DamagedBackup:
                continue
            for name, data in chunks.items():
                self._pack(name, data)
            copies |= chunks.keys()
            deletable.append(pack)
        self.flush()
        for pack in deletable:
            pack.unlink(missing_ok=True)
        sync_folder(self._packs)
        self._read_indexes()
        return before - self._pack_bytes()

    def _pack_bytes(self) -> int:
        return sum(pack.stat().st_size for pack in self._packs.glob("*.pack"))


def _context(id: str) -> bytes:
    return b"manifest " + id.encode()


def read_index(pack: Path) -> Iterator[tuple[bytes, Location]]:
    """The chunks of a pack. Raises DamagedBackup if its index cannot be trusted."""
    with pack.open("rb") as file:
        start = file.seek(0, os.SEEK_END) - _TRAILER.size
        if start < len(_MAGIC):
            raise DamagedBackup(f"{pack} is cut off.")
        file.seek(start)
        count, checksum, magic = _TRAILER.unpack(file.read(_TRAILER.size))
        start -= count * _ENTRY.size
        if magic != _MAGIC or start < len(_MAGIC):
            raise DamagedBackup(f"{pack} is damaged or cut off.")
        file.seek(start)
        index = file.read(count * _ENTRY.size)
    if _checksum(index) != checksum:
        raise DamagedBackup(f"The index of {pack} is damaged.")
    for name, offset, length in _ENTRY.iter_unpack(index):
        if offset + length > start:
            raise DamagedBackup(f"The index of {pack} is damaged.")
        yield name, Location(pack, offset, length)


# -- opening -------------------------------------------------------------------


def exists(folder: Path) -> bool:
    return (folder / CONFIG).exists()


def is_encrypted(folder: Path) -> bool:
    """Whether a backup folder needs a passphrase."""
    return read_config(folder).get("encryption") is not None


def create_repository(folder: Path, passphrase: str | None) -> Repository:
    """Create an empty backup folder, or open it if another process has just created it."""
    record: dict[str, Any] = {"format": FORMAT, "encryption": None}
    if passphrase is not None:
        record["encryption"] = wrap_key(os.urandom(KEY_BYTES), passphrase, CONFIG.encode())
    with explain_disk_errors(folder, "No backup was made."):
        # An interrupted creation may have left a part of ours.
        for path in folder.iterdir() if folder.exists() else ():
            if path.name not in ("packs", "backups", "lock") and path.suffix != TEMPORARY:
                raise InvalidInput(
                    f"{folder} contains other files. Choose an empty or new folder for backups."
                )
        with file_lock(folder / "lock", wait=True):
            if not exists(folder):
                make_folder(folder / "packs")
                make_folder(folder / "backups")
                write_file(folder / CONFIG, orjson.dumps(record, option=orjson.OPT_INDENT_2))
    return open_repository(folder, passphrase)


def open_repository(folder: Path, passphrase: str | None) -> Repository:
    """Open a backup folder. Raises InvalidInput for a wrong passphrase."""
    record = read_config(folder).get("encryption")
    if record is None:
        if passphrase is not None:
            # Otherwise, whoever can change the folder could switch encryption off.
            raise InvalidInput(
                f"The backups in {folder} are not encrypted, but a passphrase is set. Use another "
                "folder for encrypted backups, or unset the passphrase."
            )
        return Repository(folder, Cipher(), is_encrypted=False)
    if passphrase is None:
        raise InvalidInput(
            f"The backups in {folder} are encrypted. Use --passphrase-file FILE, or set "
            "RECOLLECT_BACKUP_PASSPHRASE_FILE or RECOLLECT_BACKUP_PASSPHRASE."
        )
    try:
        cipher = Cipher(unwrap_key(passphrase, record, CONFIG.encode()))
    except WrongPassphrase as error:
        raise InvalidInput(
            "The passphrase is wrong: it does not open this backup folder."
        ) from error
    except UnusableRecord as error:
        raise DamagedBackup(f"The backup folder cannot be opened. {error}") from error
    return Repository(folder, cipher, is_encrypted=True)


def read_config(folder: Path) -> dict[str, Any]:
    path = folder / CONFIG
    try:
        record = orjson.loads(path.read_bytes())
    except FileNotFoundError as error:
        raise NotFound(
            f"There are no backups in {folder}. Make one with `recollect backup`, or name another "
            "folder with --folder."
        ) from error
    except (OSError, orjson.JSONDecodeError) as error:
        raise DamagedBackup(f"{path} cannot be read: {error}") from error
    if not isinstance(record, dict) or not isinstance(record.get("format"), int):
        raise DamagedBackup(f"{path} is not the configuration of a backup folder.")
    if record["format"] > FORMAT:
        raise InvalidInput(f"{folder} was written by a newer Recollect. Upgrade to use it.")
    return record
