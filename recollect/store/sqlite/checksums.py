"""Checksums of the files of vectors and volumes, and a log of damage that they revealed.

Files are verified before they are used if they were written, or the computer was started, since the
last verification, or if that is a day ago. The modification time of the file with the checksums is
the time of the last verification.
"""

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

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
