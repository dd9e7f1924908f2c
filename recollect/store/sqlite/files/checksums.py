"""Checksums of the files of vectors and volumes, and a log of damage that they revealed.

Files are verified before they are used if they were written, or the computer was started, since the
last verification, or if that is a day ago. The modification time of the file with the checksums is
the time of the last verification.
"""

from __future__ import annotations

import json
import os
import time
import zlib
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

ROWS_PER_BLOCK = 4_096
UNKNOWN = -1
"""The checksum of a block that is being changed."""
_SECONDS_BETWEEN_CHECKS = 86_400
_CHUNK = 1 << 20
_LOG = "damage.log"
_MAX_EVENTS = 20


# -- when to verify ---


def is_check_due(checksums: Path, files: Iterable[Path]) -> bool:
    """Whether files must be verified: they were written or the computer started later, or it is a
    day ago. What was written just before a power cut may be damaged.
    """
    try:
        checked_at = checksums.stat().st_mtime
        seconds_ago = time.time() - checked_at
        if not 0 <= seconds_ago < min(_SECONDS_BETWEEN_CHECKS, time.monotonic()):
            return True
        return any(file.stat().st_mtime > checked_at for file in files)
    except FileNotFoundError:
        return True


def may_be_due(folder: Path) -> bool:
    """Whether any vectors in a folder may have to be checked. This does without numpy."""
    for vectors in folder.glob("space-*.vectors"):
        files = [vectors, vectors.with_suffix(".attributes")]
        if is_check_due(vectors.with_suffix(".checksums"), files):
            return True
    return False


def mark_checked(checksums: Path) -> None:
    with suppress(OSError):  # on read-only media, files are verified every time
        os.utime(checksums)


# -- whole files ---


def file_checksum(path: Path) -> int:
    value = 0
    with path.open("rb") as file:
        chunk = file.read(_CHUNK)
        while chunk:
            value = zlib.crc32(chunk, value)
            chunk = file.read(_CHUNK)
    return value


def write_durably(path: Path, text: str) -> None:
    """Replace a file, so that it has its old or its new content."""
    unfinished = path.with_name(f".{path.name}.part")
    file = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        os.write(file, text.encode())
        os.fsync(file)
    finally:
        os.close(file)
    unfinished.replace(path)


# -- rows of vectors ---


@dataclass(slots=True)
class RowChecksums:
    """The checksums of two files with one entry per vector, for each block of rows.

    Rows after `rows` have none yet.
    """

    rows: int = 0
    integers: list[int] = field(default_factory=list)
    attributes: list[int] = field(default_factory=list)

    @classmethod
    def load(cls, path: Path) -> RowChecksums | None:
        try:
            return cls(**json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return None

    def save(self, path: Path) -> None:
        write_durably(path, json.dumps(asdict(self)))

    def extend(self, integers: bytes, attributes: bytes, rows: int) -> None:
        """Add the checksums of rows that were appended."""
        _extend(self.integers, integers, self.rows, rows)
        _extend(self.attributes, attributes, self.rows, rows)
        self.rows += rows

    def truncate(self, rows: int) -> None:
        """Forget the rows from this one on, up to the beginning of their block."""
        if rows >= self.rows:
            return
        blocks = rows // ROWS_PER_BLOCK
        self.rows = blocks * ROWS_PER_BLOCK
        del self.integers[blocks:], self.attributes[blocks:]

    def block_range(self, block: int) -> tuple[int, int]:
        start = block * ROWS_PER_BLOCK
        return start, min(start + ROWS_PER_BLOCK, self.rows)

    def damaged_blocks(
        self, read: Callable[[int, int], tuple[bytes, bytes]], blocks: Iterable[int] | None = None
    ) -> list[int]:
        """The blocks that differ from their checksums. `read` returns the bytes of some rows."""
        damaged = []
        if blocks is None:
            blocks = range(len(self.integers))
        for block in blocks:
            if UNKNOWN in (self.integers[block], self.attributes[block]):
                continue
            integers, attributes = read(*self.block_range(block))
            if (zlib.crc32(integers), zlib.crc32(attributes)) != (
                self.integers[block],
                self.attributes[block],
            ):
                damaged.append(block)
        return damaged


def _extend(checksums: list[int], data: bytes, start: int, rows: int) -> None:
    if not rows:
        return
    row_bytes = len(data) // rows
    row = 0
    while row < rows:
        block, offset = divmod(start + row, ROWS_PER_BLOCK)
        count = min(ROWS_PER_BLOCK - offset, rows - row)
        part = data[row * row_bytes : (row + count) * row_bytes]
        if offset == 0:
            checksums.append(zlib.crc32(part))
        elif checksums[block] != UNKNOWN:
            checksums[block] = zlib.crc32(part, checksums[block])
        row += count


# -- the log ---


def log_damage(index_folder: Path, event: str) -> None:
    """Record that a damaged file was dropped, for `recollect doctor`."""
    import logging  # most commands need no log

    logging.getLogger(__name__).warning("%s", event)
    moment = datetime.now(UTC).isoformat(timespec="seconds")
    with suppress(OSError):
        file = os.open(index_folder / _LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(file, "a", encoding="utf-8") as opened:
            opened.write(f"{moment} {event}\n")


def damage_events(index_folder: Path) -> list[str]:
    """The last events of the log."""
    try:
        lines = (index_folder / _LOG).read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return []
    return lines[-_MAX_EVENTS:]
