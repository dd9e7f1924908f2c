"""A backup folder: chunks, each stored once, and the manifests of the backups made of them.

    folder/
      recollect-backups.json   the format and, if encrypted, the key behind the passphrase
      packs/                   the chunks
      backups/                 a manifest for each backup
      lock

A chunk is named by the hash of its content. Packs are written before the manifest that needs them,
and a manifest is deleted before its packs. So whatever is interrupted, every manifest is complete.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

import orjson
import zstandard

from recollect.backup import durable, encryption, manifest, packs
from recollect.backup.durable import explain_disk_errors
from recollect.backup.encryption import Cipher
from recollect.backup.manifest import Manifest
from recollect.errors import DamagedBackup, InvalidInput, NotFound, StoreBusy
from recollect.store.durability import sync_folder
from recollect.store.sqlite.files.file_lock import file_lock

CONFIG = "recollect-backups.json"
FORMAT = 1
CHUNK_BYTES = 65_536
"""A multiple of the page size of a database, so that a page that did not change is in a chunk that
did not change."""
MAX_MANIFEST_BYTES = 1 << 30
_RAW = b"\0"
_ZSTD = b"\1"
_MANIFEST_SUFFIX = ".manifest"
_ID = re.compile(r"\d{8}-\d{6}-[0-9a-f]{6}")


class Repository:
    """An open backup folder. Use `open_repository` or `create_repository`."""

    def __init__(self, folder: Path, cipher: Cipher, *, is_encrypted: bool) -> None:
        self.folder = folder
        self.is_encrypted = is_encrypted
        self._cipher = cipher
        self._packs = folder / "packs"
        self._backups = folder / "backups"
        self._reader = packs.PackReader()
        self._writer = packs.PackWriter(self._packs)
        self._pending: set[bytes] = set()
        self._locations: dict[bytes, list[packs.Location]] = {}
        self.damaged_packs: list[str] = []
        """Why some packs cannot be used."""
        self._compressor = zstandard.ZstdCompressor(level=6)
        self.refresh()

    def __enter__(self) -> Repository:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self._writer.abandon()
        self._reader.close()

    def refresh(self) -> None:
        """Read the indexes of all packs."""
        self._reader.close()
        self._locations.clear()
        self.damaged_packs.clear()
        for pack in sorted(self._packs.glob(f"*{packs.SUFFIX}")):
            try:
                self._add_locations(packs.read_index(pack))
            except (DamagedBackup, OSError) as error:
                self.damaged_packs.append(str(error))

    def _add_locations(self, entries: Iterable[tuple[bytes, packs.Location]]) -> None:
        for name, location in entries:
            self._locations.setdefault(name, []).append(location)

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
            self.refresh()
            yield

    def sweep(self) -> None:
        """Delete what an interrupted backup left. Only with the lock."""
        for folder in (self.folder, self._packs, self._backups):
            for file in folder.glob(f"*{durable.TEMPORARY}"):
                file.unlink(missing_ok=True)

    # -- chunks ---

    def add_chunk(self, data: bytes) -> bytes:
        """Store a chunk, unless there is one like it. Returns its name."""
        name = self._cipher.name(data)
        if name not in self._locations and name not in self._pending:
            payload = self._cipher.encrypt(self._compress(data), name)
            self._pending.add(name)
            self._finish(self._writer.add(name, payload))
        return name

    def flush(self) -> int:
        """Make all chunks durable. Returns the bytes written since the folder was opened."""
        self._finish(self._writer.finish())
        return self._writer.bytes

    def _finish(self, locations: dict[bytes, packs.Location]) -> None:
        self._add_locations(locations.items())
        self._pending -= locations.keys()

    def chunk(self, name: bytes) -> bytes:
        """The content of a chunk. Raises DamagedBackup if no intact copy is there."""
        problem = "it is missing"
        for location in self._locations.get(name, ()):
            try:
                data = self._decompress(
                    self._cipher.decrypt(self._reader.read(location), name), CHUNK_BYTES
                )
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

    def _compress(self, data: bytes) -> bytes:
        frame = self._compressor.compress(data)
        if len(frame) < len(data):
            return _ZSTD + frame
        return _RAW + data

    def _decompress(self, data: bytes, limit: int) -> bytes:
        if data[:1] == _RAW:
            return data[1:]
        frame = data[1:]
        try:
            size = zstandard.frame_content_size(frame)
            if not 0 <= size <= limit:
                raise DamagedBackup("A part has an impossible size.")
            return zstandard.ZstdDecompressor().decompress(frame)
        except zstandard.ZstdError as error:
            raise DamagedBackup(f"A part cannot be decompressed: {error}") from error

    # -- manifests ---

    def ids(self) -> list[str]:
        """The ids of all backups, oldest first."""
        names = (file.stem for file in self._backups.glob(f"*{_MANIFEST_SUFFIX}"))
        return sorted(name for name in names if _ID.fullmatch(name))

    def write_manifest(self, backup: Manifest) -> None:
        context = _manifest_context(backup.id)
        data = self._cipher.encrypt(self._compress(backup.to_json()), context)
        durable.write_file(self._manifest_file(backup.id), data)
        if self.manifest(backup.id) != backup:
            raise DamagedBackup(f"The manifest of backup {backup.id} could not be read back.")

    def manifest(self, id: str) -> Manifest:
        try:
            data = self._manifest_file(id).read_bytes()
        except FileNotFoundError as error:
            raise NotFound(f"There is no backup {id!r} in {self.folder}.") from error
        try:
            content = self._decompress(
                self._cipher.decrypt(data, _manifest_context(id)), MAX_MANIFEST_BYTES
            )
            backup = manifest.from_json(content)
        except DamagedBackup as error:
            raise DamagedBackup(f"The manifest of backup {id} is damaged: {error}") from error
        if backup.id != id:
            raise DamagedBackup(f"The manifest of backup {id} belongs to backup {backup.id}.")
        return backup

    def manifests(self) -> list[Manifest]:
        """All backups, oldest first. Raises DamagedBackup if one cannot be read."""
        return [self.manifest(id_) for id_ in self.ids()]

    def readable_manifests(self) -> tuple[list[Manifest], dict[str, str]]:
        """The backups, oldest first, and by their ids the reasons why others cannot be read."""
        backups = []
        problems = {}
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
        return self._backups / f"{id}{_MANIFEST_SUFFIX}"

    # -- packs ---

    def keep_chunks(self, live: set[bytes], max_waste: float) -> int:
        """Delete all other chunks, and return the bytes freed. Only with the lock.

        A pack is rewritten if more than this share of it is no longer needed.
        """
        before = self._pack_bytes()
        wasteful_packs = []
        for pack, entries in self._entries_by_pack().items():
            live_names = [name for name, _ in entries if name in live]
            live_bytes = sum(location.length for name, location in entries if name in live)
            all_bytes = sum(location.length for _, location in entries)
            if not live_names or all_bytes - live_bytes > max_waste * all_bytes:
                wasteful_packs.append((pack, live_names))
        self._rewrite(wasteful_packs)
        return before - self._pack_bytes()

    def _rewrite(self, wasteful_packs: list[tuple[Path, list[bytes]]]) -> None:
        """Copy the chunks that are needed to new packs, and then delete the old packs.

        A pack with a needed chunk that cannot be read stays as it is.
        """
        deletable = []
        copies: set[bytes] = set()
        for pack, names in wasteful_packs:
            try:
                chunks = {name: self.chunk(name) for name in names if name not in copies}
            except DamagedBackup:
                continue
            for name, data in chunks.items():
                self._writer.add(name, self._cipher.encrypt(self._compress(data), name))
            copies |= chunks.keys()
            deletable.append(pack)
        self._writer.finish()
        self._reader.close()
        for pack in deletable:
            pack.unlink(missing_ok=True)
        sync_folder(self._packs)
        self.refresh()

    def _entries_by_pack(self) -> dict[Path, list[tuple[bytes, packs.Location]]]:
        entries: dict[Path, list[tuple[bytes, packs.Location]]] = {}
        for name, locations in self._locations.items():
            for location in locations:
                entries.setdefault(location.pack, []).append((name, location))
        return entries

    def _pack_bytes(self) -> int:
        return sum(pack.stat().st_size for pack in self._packs.glob(f"*{packs.SUFFIX}"))


def _manifest_context(id: str) -> bytes:
    return b"manifest " + id.encode()


# -- opening -------------------------------------------------------------------


def exists(folder: Path) -> bool:
    return (folder / CONFIG).exists()


def is_encrypted(folder: Path) -> bool:
    """Whether a backup folder needs a passphrase."""
    return _read_config(folder).get("encryption") is not None


def create_repository(folder: Path, passphrase: str | None) -> Repository:
    """Create an empty backup folder, or open it if another process has just created it."""
    record: dict[str, Any] = {"format": FORMAT, "encryption": None}
    if passphrase is not None:
        _, record["encryption"] = encryption.new_key(passphrase, CONFIG.encode())
    with explain_disk_errors(folder, "No backup was made."):
        _require_empty(folder)
        with file_lock(folder / "lock", wait=True):
            if not exists(folder):
                for name in ("packs", "backups"):
                    durable.make_folder(folder / name)
                data = orjson.dumps(record, option=orjson.OPT_INDENT_2)
                durable.write_file(folder / CONFIG, data)
    return open_repository(folder, passphrase)


def _require_empty(folder: Path) -> None:
    """Refuse a folder with other files. An interrupted creation may have left a part of ours."""
    if not folder.exists():
        return
    for path in folder.iterdir():
        if path.name not in ("packs", "backups", "lock") and path.suffix != durable.TEMPORARY:
            raise InvalidInput(
                f"{folder} contains other files. Choose an empty or new folder for backups."
            )


def open_repository(folder: Path, passphrase: str | None) -> Repository:
    """Open a backup folder. Raises InvalidInput for a wrong passphrase."""
    record = _read_config(folder)
    key = record.get("encryption")
    if key is None:
        if passphrase is not None:
            # Otherwise, whoever can change the folder could switch encryption off.
            raise InvalidInput(
                f"The backups in {folder} are not encrypted, but a passphrase is set. Use another "
                "folder for encrypted backups, or unset the passphrase."
            )
        return Repository(folder, encryption.Checksums(), is_encrypted=False)
    if passphrase is None:
        raise InvalidInput(
            f"The backups in {folder} are encrypted. Use --passphrase-file FILE, or set "
            "RECOLLECT_BACKUP_PASSPHRASE_FILE or RECOLLECT_BACKUP_PASSPHRASE."
        )
    cipher = encryption.recover_key(passphrase, key, CONFIG.encode())
    return Repository(folder, cipher, is_encrypted=True)


def _read_config(folder: Path) -> dict[str, Any]:
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
