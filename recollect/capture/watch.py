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
from recollect.model.receipts import Problem
from recollect.model.sources import SOURCES, WATCHED
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
        transcripts = SOURCES[self.tool].transcripts if self.tool in SOURCES else None
        if transcripts is None:
            return file.name.lower().endswith((".jsonl", ".json"))
        return transcripts.includes(file.relative_to(self.root))

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
        transcripts = SOURCES[tool].transcripts
        assert transcripts is not None
        home = expand_path(os.environ.get(transcripts.variable) or transcripts.home)
        base = (home / transcripts.base).resolve()
        result += [Folder(tool, base / name, base) for name in transcripts.folders]
    return result


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
        if self._last_scan == float("-inf"):  # what is archived, and is still in the library
            for source, (stamp, names) in self.library.archive.seen().items():
                path = Path(source)
                if self._folder(path) is None or not path.exists():
                    continue
                if all(self.library.find_id(*name) is not None for name in names):
                    self._stamps[path] = stamp
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
        try:
            exclusion = self.library.exclusion()
            exclusion.remember(self.library.archive.left_out())
        except RecollectError as error:  # what must not be imported is unknown: try again later
            folder = str(self.library.archive.folder)
            self.report(Event("failed", folder, "archive", reason=str(error)))
            self._due |= dict.fromkeys(ready, self.clock() + _RETRY_SECONDS)
            return
        POOL.prepare(self._roots, wait=True)  # so that no file is blamed for the time it takes
        deadline = float("inf") if everything else self.clock() + _TURN_SECONDS
        for path in ready:
            if self.clock() > deadline:
                return
            self._work_on(path, exclusion)

    @property
    def _roots(self) -> list[Path]:
        return [folder.root for folder in self.folders]

    def _work_on(self, path: Path, exclusion: Exclusion) -> None:
        del self._queue[path]
        self._urgent.discard(path)
        start = self.clock()
        folder = self._folder(path)
        assert folder is not None  # only files in a folder are queued
        self._due.pop(path, None)
        try:
            self._import(path, folder, exclusion)
            excess = self.clock() - start - _FREE_SECONDS
            if excess > 0:
                self._due[path] = self.clock() + min(_DELAY_FACTOR * excess, _LONGEST_DELAY)
        except (RecollectError, OSError) as error:  # it may become readable without changing
            self.report(Event("failed", str(path), folder.tool, reason=str(error)))
            self._queue[path] = None
            self._due[path] = self.clock() + _RETRY_SECONDS
        except Exception as error:  # whatever is wrong with one file, the others are watched
            reason = f"{type(error).__name__}: {error}"
            self.report(Event("failed", str(path), folder.tool, reason=reason))

    def _import(self, path: Path, folder: Folder, exclusion: Exclusion) -> None:
        def report(kind: str, reason: str) -> None:
            self.report(Event(kind, str(path), folder.tool, reason=reason))

        try:
            status = path.lstat()
        except FileNotFoundError:
            if self._stamps.pop(path, None) is not None:
                report("gone", "its conversations stay in the library")
            return
        stamp = Stamp(status.st_size, status.st_mtime_ns)
        if self._stamps.get(path) == stamp or not stat.S_ISREG(status.st_mode):
            return
        with path.open("rb"):
            pass  # a file that may not be read raises here, and is not taken for an unknown format
        archive = self.library.archive
        exclude = self.library.admission(exclusion)
        names: list[Name] = []
        deleted: list[Name] = []
        excluded: dict[Name, str] = {}

        def admit(document: Document) -> Document | Problem:
            """Decide which conversations of the file are imported, and remember the decision."""
            name = (document.source, document.source_id)
            decision = exclude(document)
            if isinstance(decision, Problem):
                excluded[name] = decision.reason
                return decision
            if archive.deleted([name]):
                if self.library.find_id(*name) is None:
                    deleted.append(name)
                    return Problem("deleted from the library", document.title, unit="conversations")
                archive.undelete([name])  # it was imported or restored since
            names.append(name)
            return decision

        sources = (folder.tool,) if folder.tool in SOURCES else tuple(SOURCES)
        receipt = self.library.import_file(path, sources, admit, self._roots)
        if receipt is None:  # still empty, or no transcript
            self._stamps[path] = stamp
            return
        self.read += 1
        name, all_names = folder.archive_name(path), [*names, *deleted, *excluded]
        reason = next(iter(excluded.values()), "")
        archive.note(path, stamp, name, all_names, reason)
        is_kept = self.archiving and names and not deleted and not reason
        archived = bool(is_kept and archive.keep(path, name, all_names))
        self._stamps[path] = stamp
        for reason in dict.fromkeys(excluded.values()):
            report("excluded", reason)
        if deleted:
            report("deleted", "deleted from the library; `recollect import` imports it again")
        new, messages = receipt.conversations, receipt.messages
        for reason in (*new.failed, *messages.failed):
            report("failed", reason)
        if new.new or new.changed:
            counts = (new.new, messages.new, messages.changed)
            self.report(Event("taken", str(path), folder.tool, *counts, archived))


def import_transcript(library: Library, path: Path) -> list[Event]:
    """Import one transcript, wherever it is: what a hook queues."""
    path = expand_path(path).resolve()
    own = (folder for folder in folders() if path.is_relative_to(folder.root))
    folder = next(own, Folder("folder", path.parent, path.parent))
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
            for batch in batches([root for root, _ in present], stop):
                yield batch
                if _present(roots) != present:
                    break
        except OSError:
            yield None
            stop.wait(1.0)


def batches(roots: Sequence[Path], stop: Stop) -> Iterator[Collection[Path] | None]:
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
