"""Find the files of an import and read them, in a bounded process.

If a file makes the process exceed a bound, or crash, the file becomes a Problem, and a new process
continues with the next file. It has to look at the files again, since only it knows them.
"""

from __future__ import annotations

import json
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from recollect import errors
from recollect.errors import ImportStopped, RecollectError
from recollect.importers.records import failure
from recollect.importers.sandbox import protocol
from recollect.importers.sandbox.process import POOL, ParsingProcess, ProcessDied
from recollect.importers.sandbox.protocol import Bounds
from recollect.model.documents import Document
from recollect.model.receipts import Problem

_LONGEST_NAME = 300
_LARGE_BYTES = 20_000_000


class File(NamedTuple):
    """A file that can be imported."""

    name: str
    place: str
    size: int
    source: str
    """The name of the source that its format belongs to."""


@dataclass(frozen=True, slots=True)
class Request:
    """What to import."""

    paths: tuple[Path, ...]
    kind: str | None = None
    within: Path | None = None
    """See `recollect.importers.entries`."""
    sources: tuple[str, ...] | None = None
    """Only the first conversation file of each path that has a format of these sources."""

    def readable(self) -> list[Path]:
        """The folders that have to be read: a single file is imported with its neighbours."""
        if self.within is not None:
            return [self.within.resolve()]
        paths = (path.resolve() for path in self.paths)
        return list(dict.fromkeys(path if path.is_dir() else path.parent for path in paths))


class FileEnd:
    """All of a file was read, or as much of it as possible."""


Item = Document | Problem | FileEnd | int
"""What reading a file yields. A number counts bytes that were read."""


def prepare(request: Request) -> None:
    """Start the process for an import that follows soon, without waiting for it."""
    POOL.prepare(request.readable(), wait=False)


@contextmanager
def open_files(
    request: Request,
    readable: Sequence[Path] = (),
    bounds: Bounds | None = None,
    stop: threading.Event | None = None,
) -> Iterator[Files]:
    """The files of an import. Raises UnknownFormat if there is nothing to import.

    `readable` are folders to allow, if the process should be reused for other files in them.
    When `stop` is set, reading raises ImportStopped.
    """
    folders = tuple(readable or request.readable())
    files = Files(request, folders, bounds or Bounds(), stop or threading.Event())
    try:
        files.find()
        yield files
        files.release()
    finally:
        files.close()


class Files:
    """The files of one import, and what is wrong with the others."""

    def __init__(
        self, request: Request, readable: tuple[Path, ...], bounds: Bounds, stop: threading.Event
    ) -> None:
        self.request = request
        self.readable = readable
        self.bounds = bounds
        self.stop = stop
        self.files: list[File] = []
        self.problems: list[Problem] = []
        self._process: ParsingProcess | None = None
        self._look = ("", "", 0.0)
        """The file that is being examined: its name and place, and since when."""
        self._avoid: list[str] = []
        self._rejections: list[Problem] = []
        """Files that could not even be examined."""
        self._failure_seconds = 0.0

    # -- finding ---

    def find(self) -> None:
        """Look for files. Those that exceed a bound while their format is detected are avoided."""
        while True:
            self._look = ("", "", 0.0)
            try:
                self._find()
                return
            except ProcessDied as death:
                self.close()
                self.raise_if_stopped(death)
                name, place, started = self._look
                if not place:
                    raise RecollectError(f"The files cannot be examined: {death}.") from death
                self._avoid.append(place)
                reason = f"{name[:_LONGEST_NAME]} was not imported: {death}"
                self._rejections.append(Problem(reason, name, failed=True, unit="files"))
                self._failure_seconds += time.monotonic() - started
                if self._failure_seconds > self.bounds.failure_seconds:
                    raise RecollectError(
                        f"The import was given up, because {len(self._rejections)} files could not "
                        f"be read within their limits. The last of them was {name}."
                    ) from death

    def _find(self) -> None:
        if self._process is None:
            self._process = POOL.take(self.readable, self.bounds)
            self._process.wait_until_ready()
        process, within = self._process, self.request.within
        self.files = []
        self.problems = list(self._rejections)
        try:
            folder = str(Path.cwd())
        except OSError:  # it was deleted; then only absolute paths are of use
            folder = "/"
        process.send(
            {
                "do": "find",
                "folder": folder,
                "paths": [str(path) for path in self.request.paths],
                "kind": self.request.kind,
                "within": None if within is None else str(within),
                "sources": self.request.sources,
                "avoid": self._avoid,
            }
        )
        with process.watch(self.stop), checked(process):
            while True:
                kind, payload = process.receive()
                if kind in (protocol.LOOK, protocol.FILE):
                    name, place, size, *source = json.loads(payload)
                    protocol.require(type(size) is int and size >= 0)
                    protocol.require(all(type(text) is str for text in (name, place, *source)))
                    if kind == protocol.FILE:
                        self.files.append(File(name, place, size, *source))
                    else:
                        self._look = (name, place, time.monotonic())
                        process.expect(size)
                elif kind == protocol.PROBLEM:
                    self.problems.append(protocol.decode_problem(payload))
                elif kind == protocol.FAILURE:
                    self._raise(*json.loads(payload))
                else:
                    protocol.require(kind == protocol.END)
                    return

    def _raise(self, name: str, arguments: list[Any]) -> None:
        """Raise the error that ended the search, unless it only says that nothing is left."""
        if name == "UnknownFormat" and self._rejections:
            return
        if name == "OSError":
            raise OSError(*arguments)
        error = getattr(errors, name, None)
        if not isinstance(error, type) or not issubclass(error, RecollectError):
            error = RecollectError
        raise error(str(arguments[0]))

    # -- reading ---

    def read(self, files: Sequence[File]) -> Iterator[tuple[File, Item]]:
        """What the files contain, in this order. The last item of each file is a FileEnd."""
        pending = list(files)
        while pending:
            started = time.monotonic()
            try:
                for file, item in self._read(tuple(pending)):
                    yield file, item
                    if isinstance(item, FileEnd):
                        pending.pop(0)
                        started = time.monotonic()
            except ProcessDied as death:
                self.close()
                self.raise_if_stopped(death)
                yield from failed(pending.pop(0), f"cannot be read to its end: {death}")
                self._failure_seconds += time.monotonic() - started
                if self._failure_seconds > self.bounds.failure_seconds:
                    reason = "not read: too many other files of this import exceeded their limits"
                    for file in pending:
                        yield from failed(file, reason)
                    return
                if pending:
                    yield from self._find_again(pending)

    def _read(self, pending: Sequence[File]) -> Iterator[tuple[File, Item]]:
        process = self._process
        assert process is not None
        # The process knows files by their position. Archives can have members of one name.
        positions: dict[str, list[int]] = defaultdict(list)
        for number, file in enumerate(self.files):
            positions[file.place].append(number)
        numbers = []
        for file in pending:
            same = positions[file.place]
            numbers.append(same.pop(0) if len(same) > 1 else same[0])
        process.send({"do": "read", "numbers": numbers})
        with process.watch(self.stop), checked(process):
            for file, number in zip(pending, numbers, strict=True):
                kind, payload = process.receive()
                protocol.require(kind == protocol.BEGIN and int(payload) == number)
                process.expect(file.size)
                while kind != protocol.END:
                    kind, payload = process.receive()
                    if kind in (protocol.DOCUMENT, protocol.EXACT_DOCUMENT):
                        yield file, protocol.decode_document(kind, payload)
                    elif kind == protocol.PROGRESS:
                        yield file, int(payload)
                    elif kind == protocol.PROBLEM:
                        yield file, protocol.decode_problem(payload)
                    else:
                        protocol.require(kind == protocol.END)
                yield file, FileEnd()

    def _find_again(self, pending: list[File]) -> Iterator[tuple[File, Item]]:
        """Find the pending files in a new process, and drop those that have disappeared."""
        try:
            self.find()
        except errors.UnknownFormat:
            self.files = []
        places = {file.place for file in self.files}
        for file in list(pending):
            if file.place not in places:
                pending.remove(file)
                yield from failed(file, "changed or disappeared during the import")

    # -- the process ---

    def release(self) -> None:
        """Keep the process for the next import of the same folder.

        Uploads have their own, and one that has read a large file keeps too much memory.
        """
        is_large = any(file.size > _LARGE_BYTES for file in self.files)
        if self._process is not None and self.request.within is None and not is_large:
            process, self._process = self._process, None
            POOL.give_back(process)

    def close(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.close()

    def raise_if_stopped(self, death: ProcessDied | None = None) -> None:
        if self.stop.is_set():
            raise ImportStopped(
                "The import was stopped before its end. Import the file again."
            ) from death


@contextmanager
def checked(process: ParsingProcess) -> Iterator[None]:
    """Kill a process that does not follow the protocol."""
    try:
        yield
    except (ValueError, TypeError, LookupError, ArithmeticError, RecursionError) as error:
        raise process.reject("the parser failed") from error


def failed(file: File, reason: str) -> Iterator[tuple[File, Item]]:
    yield file, failure(reason, file.name)
    yield file, FileEnd()
