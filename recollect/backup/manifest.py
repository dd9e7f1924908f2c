"""The manifest of a backup: what it contains, and which chunks that consists of."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import orjson

from recollect.errors import DamagedBackup
from recollect.language.text import iso

_NAME = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class FileRecord:
    """One file of a backup."""

    path: str
    """Below the home folder, with forward slashes."""
    size: int
    digest: str
    """A hash of the whole file."""
    lists: tuple[str, ...]
    """The names of the chunks that contain the names of the chunks of the file."""

    @property
    def is_database(self) -> bool:
        return self.path.endswith(".db")


@dataclass(frozen=True, slots=True)
class LibraryRecord:
    """One library of a backup, as it was counted in the copy."""

    name: str
    """The name of its folder."""
    schema: int
    documents: int
    messages: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """One backup."""

    id: str
    created_at: datetime
    user: str
    """The user whose library it is, or an empty text for all libraries of a home."""
    engine: str
    recollect: str
    """The version of the program that made it."""
    libraries: tuple[LibraryRecord, ...]
    files: tuple[FileRecord, ...]
    added_bytes: int
    """What the backup added to the folder."""
    sequence: int = 0
    """Grows with every backup of a folder, whatever the clock says. Older versions gave none."""

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)

    @property
    def documents(self) -> int:
        return sum(library.documents for library in self.libraries)

    @property
    def messages(self) -> int:
        return sum(library.messages for library in self.libraries)

    def summary(self) -> dict[str, Any]:
        """The backup for programs, without its chunks."""
        return {
            "id": self.id,
            "created_at": iso(self.created_at),
            "user": self.user or None,
            "engine": self.engine,
            "recollect": self.recollect,
            "libraries": [
                {
                    "name": library.name,
                    "schema": library.schema,
                    "documents": library.documents,
                    "messages": library.messages,
                }
                for library in self.libraries
            ],
            "documents": self.documents,
            "messages": self.messages,
            "files": len(self.files),
            "bytes": self.size,
            "added_bytes": self.added_bytes,
        }

    def to_json(self) -> bytes:
        return orjson.dumps(self)


def oldest_first(backups: Iterable[Manifest]) -> list[Manifest]:
    """Backups in the order in which they were made.

    The clock may have been wrong then: a time in the future says nothing.
    """
    now = datetime.now(UTC)
    return sorted(
        backups, key=lambda each: (each.sequence, each.created_at <= now, each.created_at, each.id)
    )


def clock_problem(backup: Manifest) -> str:
    """What is wrong with the time of a backup; empty if nothing is."""
    if backup.created_at <= datetime.now(UTC):
        return ""
    return f"Backup {backup.id} seems to be from the future: the clock was wrong when it was made."


def new_id(moment: datetime) -> str:
    """An id that sorts by time: 20261116-093000-4f2a9c."""
    fraction = moment.microsecond // 256
    return f"{moment.astimezone(UTC):%Y%m%d-%H%M%S}-{fraction:03x}{secrets.token_hex(2)[:3]}"


def from_json(data: bytes) -> Manifest:
    try:
        record = orjson.loads(data)
        return Manifest(
            id=record["id"],
            created_at=datetime.fromisoformat(record["created_at"]),
            user=record["user"],
            engine=record["engine"],
            recollect=record["recollect"],
            libraries=tuple(LibraryRecord(**library) for library in record["libraries"]),
            files=tuple(_file_record(file) for file in record["files"]),
            added_bytes=record["added_bytes"],
            sequence=record.get("sequence", 0),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedBackup(f"A manifest cannot be read: {error}") from error


def _file_record(record: dict[str, Any]) -> FileRecord:
    """Raises ValueError for what only somebody else can have written."""
    path, size, lists = record["path"], record["size"], record["lists"]
    if not _is_safe(path):
        raise ValueError(f"{path[:80]!r} is not a path below a home folder")
    if not isinstance(size, int) or size < 0:
        raise ValueError(f"{path!r} has an impossible size")
    if not all(_NAME.fullmatch(name) for name in lists):
        raise ValueError(f"{path!r} has an impossible chunk")
    return FileRecord(path, size, record["digest"], tuple(lists))


def _is_safe(path: str) -> bool:
    """Whether a path stays below the folder it is joined to, on every system."""
    if not path or any(character in path for character in "\\:\0"):
        return False
    return all(part not in ("", ".", "..") for part in path.split("/"))
