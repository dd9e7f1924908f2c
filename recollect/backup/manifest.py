"""The manifest of a backup: what it contains, and which chunks that consists of."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

import orjson

from recollect.errors import DamagedBackup, InvalidInput, NotFound
from recollect.language.text import bound, iso

LATEST = "latest"
_NAME = re.compile(r"[0-9a-f]{64}")
_DATE = re.compile(r"\d{4}-\d{2}(-\d{2}.*)?")


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
    sequence: int
    """Grows with every backup of a folder, whatever the clock says."""

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)

    @property
    def documents(self) -> int:
        return sum(library.documents for library in self.libraries)

    @property
    def messages(self) -> int:
        return sum(library.messages for library in self.libraries)

    @property
    def clock_problem(self) -> str:
        """What is wrong with the time of the backup; empty if nothing is."""
        if self.created_at <= datetime.now(UTC):
            return ""
        return (
            f"Backup {self.id} seems to be from the future: the clock was wrong when it was made."
        )

    def summary(self) -> dict[str, Any]:
        """The backup for programs, without its chunks."""
        return {
            "id": self.id,
            "created_at": iso(self.created_at),
            "user": self.user or None,
            "engine": self.engine,
            "recollect": self.recollect,
            "libraries": [asdict(library) for library in self.libraries],
            "documents": self.documents,
            "messages": self.messages,
            "files": len(self.files),
            "bytes": self.size,
            "added_bytes": self.added_bytes,
        }

    def to_json(self) -> bytes:
        return orjson.dumps(self)

    @classmethod
    def from_json(cls, data: bytes) -> Manifest:
        """Raises DamagedBackup for what only somebody else can have written."""
        try:
            record = orjson.loads(data)
            record["created_at"] = datetime.fromisoformat(record["created_at"])
            record["libraries"] = tuple(LibraryRecord(**each) for each in record["libraries"])
            record["files"] = tuple(file_record(**each) for each in record["files"])
            return cls(**record)
        except (KeyError, TypeError, ValueError) as error:
            raise DamagedBackup(f"A manifest cannot be read: {error}") from error


def file_record(path: str, size: int, digest: str, lists: Sequence[str]) -> FileRecord:
    is_below = path and not any(character in path for character in "\\:\0")
    if not is_below or any(part in ("", ".", "..") for part in path.split("/")):
        raise ValueError(f"{path[:80]!r} is not a path below a home folder")
    if not isinstance(size, int) or size < 0:
        raise ValueError(f"{path!r} has an impossible size")
    if not all(_NAME.fullmatch(name) for name in lists):
        raise ValueError(f"{path!r} has an impossible chunk")
    return FileRecord(path, size, digest, tuple(lists))


def new_id(moment: datetime) -> str:
    """An id that sorts by time: 20261116-093000-4f2a9c."""
    fraction = moment.microsecond // 256
    return f"{moment.astimezone(UTC):%Y%m%d-%H%M%S}-{fraction:03x}{secrets.token_hex(2)[:3]}"


def oldest_first(backups: Iterable[Manifest]) -> list[Manifest]:
    """Backups in the order in which they were made, whatever the clock was then."""
    return sorted(backups, key=lambda each: (each.sequence, each.created_at, each.id))


def pick(backups: Sequence[Manifest], text: str) -> Manifest:
    """A backup by its id, the start of its id, a date, or `latest`.

    A date means the newest backup up to then. Raises NotFound, InvalidInput.
    """
    if not backups:
        raise NotFound("There is no backup here that contains this library.")
    in_order = oldest_first(backups)
    if text == LATEST:
        return in_order[-1]
    if _DATE.fullmatch(text):
        until = bound(text, end=True)
        if until.tzinfo is None:
            until = until.replace(tzinfo=UTC)
        candidates = [backup for backup in in_order if backup.created_at <= until]
        if not candidates:
            raise NotFound(
                f"There is no backup from {text} or earlier; the oldest is {in_order[0].id}."
            )
        return candidates[-1]
    matches = [backup for backup in in_order if backup.id.startswith(text)]
    if not text or not matches:
        raise NotFound(f"There is no backup {text!r}. `recollect backup list` shows them.")
    if len(matches) > 1:
        ids = ", ".join(backup.id for backup in matches[-5:])
        raise InvalidInput(f"{text!r} matches {len(matches)} backups. Name one of them: {ids}.")
    return matches[0]
