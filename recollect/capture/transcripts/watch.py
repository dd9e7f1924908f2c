"""Import transcripts while coding agents write them.

A file that changed is read again from its start and merged by message id. So it does not matter
whether it grew, was truncated, rewound or replaced; messages it no longer has stay in the
library. A file that takes more than half a second to read is delayed for twice the excess: nearly
all files are read at once, and a huge one that grows line by line costs a third of one core.
Watching writes no receipts: every turn would need one, and deleting the conversation undoes it.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from recollect.configuration import expand_path
from recollect.errors import InvalidInput, RecollectError
from recollect.importers.sandbox.process import POOL
from recollect.library import Library
from recollect.model.documents import Document
from recollect.model.receipts import FileReceipt, Problem
from recollect.model.sources import SOURCES, WATCHED, Transcripts
from recollect.transfer.archive import Name, Stamp
from recollect.transfer.exclusion import Exclusion, is_agent

_FREE_SECONDS = 0.5  # reading a file may take this long without a delay
_DELAY_FACTOR = 2.0  # a slower file is delayed by this multiple of the excess
_LONGEST_DELAY = 60.0
_TURN_SECONDS = 1.0  # work this long before looking for new changes
_RETRY_SECONDS = 30.0  # until a file that failed is tried again
_SCAN_SECONDS = 30.0  # between scans of all folders, for changes the system did not report
_TICK_MILLISECONDS = 500  # the longest wait between two looks at the queue
_DEBOUNCE_MILLISECONDS = 300  # changes in quick succession are collected this long
_STEP_MILLISECONDS = 50

Changes = Iterable[Collection[Path] | None]
"""Files and folders that changed, in batches; None means that everything should be scanned."""


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder to watch, with everything below it."""

    tool: str
    root: Path
    base: Path
    """Names in the archive are relative to this folder."""

    def includes(self, file: Path) -> bool:
        transcripts = _transcripts(self.tool)
        if transcripts is None:
            return file.name.lower().endswith((".jsonl", ".json"))
        return transcripts.includes(file.relative_to(self.root))

    @property
    def sources(self) -> tuple[str, ...]:
        """The sources that a transcript in this folder can have."""
        if self.tool in SOURCES:
            return (self.tool,)
        return tuple(SOURCES)

    def archive_name(self, file: Path) -> str:
        return f"{self.tool}/{file.relative_to(self.base).as_posix()}"


@dataclass(frozen=True, slots=True)
class Event:
    """What happened to a file."""

    kind: str
    """taken, excluded, deleted, failed or gone"""
    path: str
    tool: str
    conversations: int = 0
    """How many are new."""
    messages: int = 0
    changed: int = 0
    archived: bool = False
    reason: str = ""


Report = Callable[[Event], None]


# -- where agents write their transcripts --------------------------------------


def folders(tools: Sequence[str] = (), paths: Sequence[Path] = ()) -> list[Folder]:
    """The folders to watch: those of `tools`, and `paths`; without either, those of every tool.

    They need not exist yet.
    """
    unknown = set(tools) - set(WATCHED)
    if unknown:
        raise InvalidInput(f"{min(unknown)!r} cannot be watched. Use one of: {', '.join(WATCHED)}.")
    if not tools and not paths:
        tools = tuple(WATCHED)
    roots = [expand_path(path).resolve() for path in paths]
    result = [Folder("folder", root, root.parent) for root in roots]
    for tool in tools:
        result += _tool_folders(tool)
    return result


def _tool_folders(tool: str) -> list[Folder]:
    transcripts = _transcripts(tool)
    assert transcripts is not None  # `folders` rejects other tools
    home = expand_path(os.environ.get(transcripts.variable) or transcripts.home)
    base = (home / transcripts.base).resolve()
    return [Folder(tool, base / name, base) for name in transcripts.folders]


def _transcripts(tool: str) -> Transcripts | None:
    source = SOURCES.get(tool)
    if source is None:
        return None
    return source.transcripts


# -- watching ------------------------------------------------------------------


@dataclass(slots=True)
class Watcher:
    """Imports what changes in some folders. It never sleeps: `follow` is driven by its input."""

    library: Library
    folders: Sequence[Folder]
    report: Report = lambda event: None
    archiving: bool = True
    clock: Callable[[], float] = time.monotonic
    read: int = 0
    """How many files were read."""
    _stamps: dict[Path, Stamp] = field(default_factory=dict)
    """Files that are up to date, as they were when they were imported."""
    _queue: dict[Path, None] = field(default_factory=dict)
    _urgent: set[Path] = field(default_factory=set)
    """Files that are being written now; they come before those that a scan discovered."""
    _due: dict[Path, float] = field(default_factory=dict)
    _last_scan: float = float("-inf")

    def once(self) -> None:
        """Import everything that changed since any watcher of this library last imported it."""
        self.scan()
        self.work(everything=True)

    def follow(self, changes: Changes) -> None:
        for paths in changes:
            if paths:
                self.changed(paths)
            if paths is None or self.clock() >= self._last_scan + _SCAN_SECONDS:
                self.scan()
            self.work()

    def scan(self) -> None:
        """Queue every file that has changed since it was imported."""
        if self._last_scan == float("-inf"):
            self._stamps |= self._archived_stamps()
        self._last_scan = self.clock()
        files: dict[Path, Stamp] = {}
        for folder in self.folders:
            files |= transcript_files(folder)
        changes = [path for path, stamp in files.items() if self._stamps.get(path) != stamp]
        # Sessions come before their sub-agents, which are excluded with them; older first.
        changes.sort(key=lambda path: (is_agent(str(path)), files[path].modified))
        self._queue |= dict.fromkeys(changes)
        missing = [path for path in self._stamps if path not in files and not path.exists()]
        self._queue |= dict.fromkeys(missing)

    def _archived_stamps(self) -> dict[Path, Stamp]:
        """The files in these folders that are in the archive and whose conversations are stored."""
        stamps = {}
        for source, (stamp, names) in self.library.archive.seen().items():
            path = Path(source)
            if self._folder(path) is None or not path.exists():
                continue
            if all(self.library.find_id(*name) is not None for name in names):
                stamps[path] = stamp
        return stamps

    def changed(self, paths: Iterable[Path]) -> None:
        """Queue files that have changed, and the files in new folders."""
        for path in sorted(paths):
            folder = self._folder(path)
            if folder is None:
                continue
            if path.is_dir() and not path.is_symlink():
                # Files created before the folder was watched are not reported by the system.
                self._queue |= dict.fromkeys(transcript_files(folder, path))
            elif folder.includes(path):
                self._queue[path] = None
                self._urgent.add(path)

    def _folder(self, path: Path) -> Folder | None:
        return next((folder for folder in self.folders if path.is_relative_to(folder.root)), None)

    def work(self, *, everything: bool = False) -> None:
        """Import queued files for about a second, except those that are delayed.

        With `everything`, import the whole queue.
        """
        now = self.clock()
        ready = [path for path in self._queue if everything or self._due.get(path, 0.0) <= now]
        if not ready:
            return
        ready.sort(key=lambda path: path not in self._urgent)
        exclusion = self._load_exclusion(ready)
        if exclusion is None:
            return
        POOL.prepare(self._roots, wait=True)  # so that no file is blamed for the time it takes
        deadline = float("inf")
        if not everything:
            deadline = self.clock() + _TURN_SECONDS
        for path in ready:
            if self.clock() > deadline:
                return
            self._work_on(path, exclusion)

    @property
    def _roots(self) -> list[Path]:
        return [folder.root for folder in self.folders]

    def _load_exclusion(self, ready: Iterable[Path]) -> Exclusion | None:
        """What must not be imported; None, and a retry later, if the archive cannot be read."""
        try:
            exclusion = self.library.exclusion()
            exclusion.remember(self.library.archive.left_out())
        except RecollectError as error:
            folder = str(self.library.archive.folder)
            self.report(Event("failed", folder, "archive", reason=str(error)))
            self._due |= dict.fromkeys(ready, self.clock() + _RETRY_SECONDS)
            return None
        return exclusion

    def _work_on(self, path: Path, exclusion: Exclusion) -> None:
        del self._queue[path]
        self._urgent.discard(path)
        start = self.clock()
        folder = self._folder(path)
        assert folder is not None  # only files in a folder are queued
        try:
            self._import(path, folder, exclusion)
            self._delay(path, self.clock() - start - _FREE_SECONDS)
        except Exception as error:  # whatever is wrong with one file, the others are watched
            self._report_failure(path, folder, error)

    def _delay(self, path: Path, excess: float) -> None:
        if excess > 0:
            self._due[path] = self.clock() + min(_DELAY_FACTOR * excess, _LONGEST_DELAY)
        else:
            self._due.pop(path, None)

    def _report_failure(self, path: Path, folder: Folder, error: Exception) -> None:
        is_expected = isinstance(error, (RecollectError, OSError))
        reason = str(error)
        if not is_expected:
            reason = f"{type(error).__name__}: {error}"
        self.report(Event("failed", str(path), folder.tool, reason=reason))
        if is_expected:  # the file may become readable without changing
            self._queue[path] = None
            self._due[path] = self.clock() + _RETRY_SECONDS

    def _import(self, path: Path, folder: Folder, exclusion: Exclusion) -> None:
        try:
            status = path.lstat()
        except FileNotFoundError:
            if self._stamps.pop(path, None) is not None:
                reason = "its conversations stay in the library"
                self.report(Event("gone", str(path), folder.tool, reason=reason))
            return
        stamp = Stamp(status.st_size, status.st_mtime_ns)
        if self._stamps.get(path) == stamp or not stat.S_ISREG(status.st_mode):
            return
        with path.open("rb"):
            pass  # a file that may not be read raises here, and is not taken for an unknown format
        reading = _Reading(self.library, exclusion)
        receipt = self.library.import_file(path, folder.sources, reading.admit, self._roots)
        if receipt is None:  # still empty, or no transcript
            self._stamps[path] = stamp
            return
        self.read += 1
        archived = self._archive(path, stamp, folder, reading)
        self._stamps[path] = stamp
        self._report_import(Outcome(path, folder, receipt, archived), reading)

    def _archive(self, path: Path, stamp: Stamp, folder: Folder, reading: _Reading) -> bool:
        archive = self.library.archive
        names = [*reading.names, *reading.deleted, *reading.excluded]
        reason = next(iter(reading.excluded.values()), "")
        archive.note(path, stamp, folder.archive_name(path), names, reason)
        if not self.archiving or reason or reading.deleted or not reading.names:
            return False
        return archive.keep(path, folder.archive_name(path), names)

    def _report_import(self, outcome: Outcome, reading: _Reading) -> None:
        path, tool = str(outcome.path), outcome.folder.tool
        for reason in dict.fromkeys(reading.excluded.values()):
            self.report(Event("excluded", path, tool, reason=reason))
        if reading.deleted:
            reason = "deleted from the library; `recollect import` imports it again"
            self.report(Event("deleted", path, tool, reason=reason))
        conversations, messages = outcome.receipt.conversations, outcome.receipt.messages
        for counts in (conversations, messages):
            for reason in counts.failed:
                self.report(Event("failed", path, tool, reason=reason))
        if conversations.new or conversations.changed:
            self.report(
                Event(
                    "taken",
                    path,
                    tool,
                    conversations.new,
                    messages.new,
                    messages.changed,
                    outcome.archived,
                )
            )


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of importing one file."""

    path: Path
    folder: Folder
    receipt: FileReceipt
    archived: bool


class _Reading:
    """Decides which conversations of a file are imported, and records the decisions."""

    def __init__(self, library: Library, exclusion: Exclusion) -> None:
        self._library = library
        self._exclude = library.admission(exclusion)
        self.names: list[Name] = []
        self.deleted: list[Name] = []
        self.excluded: dict[Name, str] = {}

    def admit(self, document: Document) -> Document | Problem:
        name = (document.source, document.source_id)
        decision = self._exclude(document)
        if isinstance(decision, Problem):
            self.excluded[name] = decision.reason
        elif self._is_deleted(name):
            self.deleted.append(name)
            return Problem("deleted from the library", document.title, unit="conversations")
        else:
            self.names.append(name)
        return decision

    def _is_deleted(self, name: Name) -> bool:
        if not self._library.archive.deleted([name]):
            return False
        if self._library.find_id(*name) is None:
            return True
        self._library.archive.undelete([name])  # it was imported or restored since
        return False


def import_transcript(library: Library, path: Path) -> list[Event]:
    """Import one transcript, wherever it is: what a hook queues."""
    path = expand_path(path).resolve()
    folder = Folder("folder", path.parent, path.parent)
    for candidate in folders():
        if path.is_relative_to(candidate.root):
            folder = candidate
            break
    events: list[Event] = []
    watcher = Watcher(library, [folder], events.append)
    watcher.changed([path])
    watcher.work(everything=True)
    return events


def transcript_files(folder: Folder, root: Path | None = None) -> dict[Path, Stamp]:
    """The transcripts in a folder, or below a part of it, as they are now; no symbolic links."""
    stamps = {}
    for parent, _, names in os.walk(root or folder.root):
        for name in names:
            path = Path(parent, name)
            if folder.includes(path):
                with suppress(OSError):  # it may be gone by now
                    status = path.lstat()
                    if stat.S_ISREG(status.st_mode):
                        stamps[path] = Stamp(status.st_size, status.st_mtime_ns)
    return stamps


# -- changes reported by the system --------------------------------------------


class Stop(Protocol):
    """A `threading.Event`, or what a signal sets."""

    def is_set(self) -> bool: ...

    def wait(self, seconds: float, /) -> bool: ...


def changes(roots: Sequence[Path], stop: Stop) -> Iterator[Collection[Path] | None]:
    """What changes below some folders until `stop`; yields at least every half second.

    Folders need not exist yet. Where the system cannot report changes, everything is scanned
    every second.
    """
    while not stop.is_set():
        present = _present(roots)
        if not present:
            yield None
            stop.wait(1.0)
            continue
        try:
            for batch in _batches([root for root, _ in present], stop):
                yield batch
                if _present(roots) != present:
                    break
        except OSError:
            yield None
            stop.wait(1.0)


def _batches(roots: Sequence[Path], stop: Stop) -> Iterator[Collection[Path] | None]:
    from watchfiles import watch

    is_first = True
    for batch in watch(
        *roots,
        watch_filter=None,
        debounce=_DEBOUNCE_MILLISECONDS,
        step=_STEP_MILLISECONDS,
        stop_event=stop,
        rust_timeout=_TICK_MILLISECONDS,
        yield_on_timeout=True,
        raise_interrupt=False,
    ):
        if is_first:
            yield None  # now that changes are reported, scan for those before
        else:
            yield {Path(path) for _, path in batch}
        is_first = False


def _present(roots: Sequence[Path]) -> list[tuple[Path, int]]:
    """The folders that exist, each with its inode, so that a replaced folder is noticed."""
    present = []
    for root in roots:
        with suppress(OSError):
            if root.is_dir():
                present.append((root, root.stat().st_ino))
    return present
