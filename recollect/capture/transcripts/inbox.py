"""Transcripts that wait to be taken in: a small file each, in a folder of the home.

A hook puts one there and is done; one process at a time takes them. Whoever
finds that nobody does starts one. A transcript that is handed over again while
it waits waits once. Nothing but the standard library is imported: an agent
waits for the hook.
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

_WAITS, _TAKEN = ".json", ".taken"


class Spool:
    """The folder, by its name: whatever takes a path's class to load is too slow here."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def put(self, transcript: str, **about: Any) -> None:
        """Hand a transcript over, durably enough to outlive the process that does."""
        from hashlib import blake2b

        os.makedirs(self.folder, mode=0o700, exist_ok=True)  # noqa: PTH103
        given = json.dumps({**about, "transcript": transcript}).encode()
        name = blake2b(transcript.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
        part = self._path(f"{name}.{os.getpid()}.part")
        file = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            os.write(file, given)
        finally:
            os.close(file)
        os.replace(part, self._path(name + _WAITS))  # noqa: PTH105

    def waiting(self) -> bool:
        """Whether somebody should take what is there."""
        return any(name.endswith((_WAITS, _TAKEN)) for name in self._names())

    def take(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """What waits, each with a name to give to `done` or `back`. Only for whoever is `alone`: what was taken and
        neither done nor put back was left by one that ended in the middle."""
        there = self._names()
        for stem in sorted(
            {name.partition(".")[0] for name in there if name.endswith((_WAITS, _TAKEN))}
        ):
            taken = self._path(stem + _TAKEN)
            with suppress(OSError, ValueError):
                if stem + _WAITS in there:
                    os.replace(self._path(stem + _WAITS), taken)  # noqa: PTH105
                with open(taken, "rb") as file:  # noqa: PTH123
                    given = json.loads(file.read())
                if isinstance(given, dict) and isinstance(given.get("transcript"), str):
                    yield stem, given
                    continue
            self.done(stem)

    def done(self, stem: str) -> None:
        with suppress(OSError):
            os.unlink(self._path(stem + _TAKEN))  # noqa: PTH108

    def back(self, stem: str) -> None:
        """Let it wait for the next one, unless it was handed over again meanwhile."""
        if stem + _WAITS in self._names():
            self.done(stem)

    @contextmanager
    def alone(self) -> Iterator[bool]:
        """For the block: True when nobody else takes what waits, in any process."""
        os.makedirs(self.folder, mode=0o700, exist_ok=True)  # noqa: PTH103
        file = os.open(self._path("lock"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            yield _locked(file)
        finally:
            os.close(file)  # and with it the lock

    def _names(self) -> list[str]:
        try:
            return os.listdir(self.folder)  # noqa: PTH208
        except OSError:
            return []

    def _path(self, name: str) -> str:
        return os.path.join(self.folder, name)  # noqa: PTH118


def _locked(file: int) -> bool:
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
