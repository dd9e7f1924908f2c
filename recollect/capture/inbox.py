"""The queue of transcripts to import: one small file each, in a folder of the home.

A hook adds a file and exits; one process at a time imports what is queued. A transcript that is
added twice is queued once. Only the standard library is imported, since an agent waits for the
hook.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import contextmanager, suppress

TYPE_CHECKING = False  # typing takes longer to load than a hook to run
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_QUEUED, _CLAIMED = ".json", ".taken"


class Inbox:
    """The queue in a folder. The folder is text: importing pathlib would slow the hook down."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def put(self, transcript: str, **details: Any) -> None:
        """Queue a transcript. It stays queued when this process ends."""
        from hashlib import blake2b

        os.makedirs(self.folder, mode=0o700, exist_ok=True)  # noqa: PTH103
        record = json.dumps({**details, "transcript": transcript}).encode()
        name = blake2b(transcript.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
        part = self._path(f"{name}.{os.getpid()}.part")
        file = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            os.write(file, record)
        finally:
            os.close(file)
        os.replace(part, self._path(name + _QUEUED))  # noqa: PTH105

    def items(self) -> set[str]:
        """The names of the items that are queued or claimed."""
        names = self._names()
        return {name.partition(".")[0] for name in names if name.endswith((_QUEUED, _CLAIMED))}

    def claim(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Claim what is queued: each item's name, for `remove` or `release`, and its record.

        Only for the holder of the lock. Items that were claimed before belong to a process that
        ended in the middle, so they are claimed again.
        """
        for item in sorted(self.items()):
            record = self._claim(item)
            if record is None:
                self.remove(item)
            else:
                yield item, record

    def _claim(self, item: str) -> dict[str, Any] | None:
        """Claim one item and read its record; None if it is damaged."""
        path = self._path(item + _CLAIMED)
        try:
            with suppress(FileNotFoundError):  # it was claimed before
                os.replace(self._path(item + _QUEUED), path)  # noqa: PTH105
            with open(path, "rb") as file:  # noqa: PTH123
                record = json.loads(file.read())
        except (OSError, ValueError):
            return None
        if isinstance(record, dict) and isinstance(record.get("transcript"), str):
            return record
        return None

    def remove(self, item: str) -> None:
        """Remove a claimed item."""
        with suppress(OSError):
            os.unlink(self._path(item + _CLAIMED))  # noqa: PTH108

    def release(self, item: str) -> None:
        """Leave a claimed item for the next run, unless it was queued again meanwhile."""
        if item + _QUEUED in self._names():
            self.remove(item)

    @contextmanager
    def lock(self) -> Iterator[bool]:
        """Yields True if this process holds the lock for the block, False if another one does."""
        os.makedirs(self.folder, mode=0o700, exist_ok=True)  # noqa: PTH103
        file = os.open(self._path("lock"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            yield try_lock(file)
        finally:
            os.close(file)  # this releases the lock

    def _names(self) -> list[str]:
        try:
            return os.listdir(self.folder)  # noqa: PTH208
        except OSError:
            return []

    def _path(self, name: str) -> str:
        return os.path.join(self.folder, name)  # noqa: PTH118


def try_lock(file: int) -> bool:
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
