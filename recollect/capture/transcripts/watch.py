"""Following transcripts while coding agents write them.

A file that changed is read again from its start and merged by the ids of its
messages, so that it does not matter whether it grew, was cut short, rewound or
replaced; what it no longer has stays in the library. A file that takes more
than half a second to read is put off for twice the rest of that time: nearly
all are read at once, and a huge one that grows line by line costs a third of
one processor. There are no receipts: a session that is
followed would need one for every turn, and a deletion takes it back better.
"""

from __future__ import annotations

import os
import stat
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from recollect.errors import InvalidInput, RecollectError
from recollect.importers.entries import Entry, entries
from recollect.importers.registry import CONVERSATION_FORMATS, Format
from recollect.library import Library
from recollect.model.documents import Document
from recollect.model.receipts import FileReceipt, Problem
from recollect.model.sources import SOURCES, WATCHED, Transcripts
from recollect.transfer.archive import Name, Stamp
from recollect.transfer.exclusion import Exclusion, is_agent
from recollect.transfer.importing import admission

_AT_ONCE = 0.5  # seconds that reading a file may take without being put off the next time
_PUT_OFF = 2.0  # times what it took beyond that
_PUT_OFF_AT_MOST = 60.0
_TURN = 1.0  # seconds of work before it is asked what has changed meanwhile
_RETRY = 30.0  # seconds until what could not be read or written is tried again
_LOOK_AGAIN = (
    30.0  # seconds until all folders are looked through, for changes that nobody was told of
)
_TICK = 500  # milliseconds at most between two looks at what waits
_GATHER = 300  # milliseconds in which changes are gathered, while they follow each other closely
_CLOSELY = 50

Changes = Iterable[Collection[Path] | None]
"""Files and folders that changed, a few at a time; None where everything is to be looked through."""


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder that is followed, with all below it."""

    tool: str
    root: Path
    base: Path
    """What the names of its files in the archive begin below."""

    def follows(self, file: Path) -> bool:
        transcripts = _transcripts(self.tool)
        if transcripts is None:
            return file.name.lower().endswith((".jsonl", ".json"))
        return transcripts.includes(file.relative_to(self.root))

    def named(self, file: Path) -> str:
        return f"{self.tool}/{file.relative_to(self.base).as_posix()}"


@dataclass(frozen=True, slots=True)
class Event:
    """Something that a person who watches may want to know."""

    kind: str
    """taken, excluded, deleted, failed or gone"""
    path: str
    tool: str
    conversations: int = 0
    """How many there are new."""
    messages: int = 0
    changed: int = 0
    archived: bool = False
    reason: str = ""


Report = Callable[[Event], None]


# -- where the tools write -----------------------------------------------------


def folders(tools: Sequence[str] = (), given: Sequence[Path] = ()) -> list[Folder]:
    """The folders of these tools, by default of all unless folders are given; whether they exist or not."""
    if unknown := set(tools) - set(WATCHED):
        raise InvalidInput(
            f"{min(unknown)!r} is not a tool that can be followed. Say one of: {', '.join(WATCHED)}."
        )
    found = [
        Folder("folder", root, root.parent)
        for root in (path.expanduser().resolve() for path in given)
    ]
    for tool in tools or (() if given else WATCHED):
        found += _of_tool(tool)
    return found


def _of_tool(tool: str) -> list[Folder]:
    transcripts = _transcripts(tool)
    assert transcripts is not None  # `folders` rejects other tools
    home = Path(os.environ.get(transcripts.variable) or transcripts.home).expanduser()
    base = (home / transcripts.base).resolve()
    return [Folder(tool, base / name, base) for name in transcripts.folders]


def _transcripts(tool: str) -> Transcripts | None:
    source = SOURCES.get(tool)
    if source is None:
        return None
    return source.transcripts


# -- following -----------------------------------------------------------------


@dataclass(slots=True)
class Watcher:
    """Takes in what changes in some folders. It never sleeps: `follow` is driven by what it is given."""

    library: Library
    folders: Sequence[Folder]
    report: Report = lambda event: None
    archiving: bool = True
    clock: Callable[[], float] = time.monotonic
    read: int = 0
    """How many files were read."""
    _seen: dict[Path, Stamp] = field(default_factory=dict)
    _waiting: dict[Path, None] = field(default_factory=dict)
    _told: set[Path] = field(default_factory=set)
    """Those that change now, which come before what was found by looking."""
    _due: dict[Path, float] = field(default_factory=dict)
    _looked: float = float("-inf")

    def once(self) -> None:
        """Take in everything that changed since it was last taken in, by any watcher of this library."""
        self.look()
        self.work(due=True)

    def follow(self, changes: Changes) -> None:
        for paths in changes:
            if paths:
                self.changed(paths)
            if paths is None or self.clock() >= self._looked + _LOOK_AGAIN:
                self.look()
            self.work()

    def look(self) -> None:
        """Look through all folders for files that are not as they were when they were taken in."""
        if self._looked == float("-inf"):
            self._seen |= self._taken_before()
        self._looked = self.clock()
        found: dict[Path, Stamp] = {}
        for folder in self.folders:
            found |= _below(folder, folder.root)
        new = [path for path, stamp in found.items() if self._seen.get(path) != stamp]
        # Sessions before their sub-agents, which are excluded with them; else as they were written.
        self._waiting |= dict.fromkeys(
            sorted(new, key=lambda path: (is_agent(str(path)), found[path].modified))
        )
        self._waiting |= dict.fromkeys(
            path for path in self._seen if path not in found and not path.exists()
        )

    def _taken_before(self) -> dict[Path, Stamp]:
        """What the archive says was taken in of these folders, as far as it is in the library."""
        find = self.library.store.find
        return {
            Path(source): stamp
            for source, (stamp, names) in self.library.archive.seen().items()
            if self._folder(Path(source))
            and Path(source).exists()
            and all(find(*name) is not None for name in names)
        }

    def changed(self, paths: Iterable[Path]) -> None:
        for path in sorted(paths):
            if (folder := self._folder(path)) is None:
                continue
            if (
                path.is_dir() and not path.is_symlink()
            ):  # what was put in it before it was followed is told by nobody
                self._waiting |= dict.fromkeys(_below(folder, path))
            elif folder.follows(path):
                self._waiting[path] = None
                self._told.add(path)

    def _folder(self, path: Path) -> Folder | None:
        return next((f for f in self.folders if path.is_relative_to(f.root)), None)

    def work(self, *, due: bool = False) -> None:
        """Take in what waits for about a second, but for files that were only just read and took long; with `due`
        all of it."""
        ready = [p for p in self._waiting if due or self._due.get(p, 0.0) <= self.clock()]
        if not ready:
            return
        ready.sort(key=lambda path: path not in self._told)
        end = float("inf") if due else self.clock() + _TURN
        try:
            exclusion = self.library.exclusion()
            exclusion.remember(self.library.archive.left_out())
        except RecollectError as error:
            self.report(
                Event("failed", str(self.library.archive.folder), "archive", reason=str(error))
            )
            self._due |= dict.fromkeys(ready, self.clock() + _RETRY)
            return
        for path in ready:
            if self.clock() > end:
                return
            del self._waiting[path]
            self._told.discard(path)
            started = self.clock()
            folder = self._folder(path)
            assert folder is not None  # only what is in a folder waits
            try:
                self._take(path, folder, exclusion)
                self._put_off(path, self.clock() - started - _AT_ONCE)
            except Exception as error:  # whatever is wrong with one file, the others are followed
                self._failed(path, folder, error)

    def _put_off(self, path: Path, beyond: float) -> None:
        if beyond > 0:
            self._due[path] = self.clock() + min(_PUT_OFF * beyond, _PUT_OFF_AT_MOST)
        else:
            self._due.pop(path, None)

    def _failed(self, path: Path, folder: Folder, error: Exception) -> None:
        expected = isinstance(error, (RecollectError, OSError))
        reason = str(error) if expected else f"{type(error).__name__}: {error}"
        self.report(Event("failed", str(path), folder.tool, reason=reason))
        if expected:  # it may be readable later, without being changed
            self._waiting[path] = None
            self._due[path] = self.clock() + _RETRY

    def _take(self, path: Path, folder: Folder, exclusion: Exclusion) -> None:
        try:
            about = path.lstat()
        except FileNotFoundError:
            if self._seen.pop(path, None) is not None:
                self.report(Event("gone", str(path), folder.tool, reason="what was taken in stays"))
            return
        stamp = Stamp(about.st_size, about.st_mtime_ns)
        if self._seen.get(path) == stamp or not stat.S_ISREG(about.st_mode):
            return
        with path.open("rb"):
            pass  # what may not be read raises here, and does not look like an unknown format
        if (found := _found(path, folder)) is None:
            self._seen[path] = stamp  # empty as yet, or of something else
            return
        self.read += 1
        reading = _Reading(self.library, exclusion)
        taken = self.library.import_file(*found, reading.admitted)
        archived = self._remember(path, stamp, folder, reading)
        self._seen[path] = stamp
        self._tell(path, folder, taken, reading, archived)

    def _remember(self, path: Path, stamp: Stamp, folder: Folder, reading: _Reading) -> bool:
        archive, names = self.library.archive, [*reading.names, *reading.deleted, *reading.excluded]
        why = next(iter(reading.excluded.values()), "")
        archive.note(path, stamp, folder.named(path), names, why)
        if not self.archiving or why or reading.deleted or not reading.names:
            return False
        return archive.keep(path, folder.named(path), names)

    def _tell(
        self, path: Path, folder: Folder, taken: FileReceipt, reading: _Reading, archived: bool
    ) -> None:
        about = (str(path), folder.tool)
        for why in dict.fromkeys(reading.excluded.values()):
            self.report(Event("excluded", *about, reason=why))
        if reading.deleted:
            self.report(
                Event(
                    "deleted",
                    *about,
                    reason="deleted from the library; `recollect import` takes it in anew",
                )
            )
        for counts in (taken.conversations, taken.messages):
            for reason in counts.failed:
                self.report(Event("failed", *about, reason=reason))
        said, there = taken.messages, taken.conversations
        if there.new or there.changed:
            self.report(Event("taken", *about, there.new, said.new, said.changed, archived))


class _Reading:
    """Decides about the conversations of one file, and remembers what it decided."""

    def __init__(self, library: Library, exclusion: Exclusion) -> None:
        self._library = library
        self._exclusion = admission(library.store, exclusion)
        self.names: list[Name] = []
        self.deleted: list[Name] = []
        self.excluded: dict[Name, str] = {}

    def admitted(self, document: Document) -> Document | Problem:
        name = (document.source, document.source_id)
        given = self._exclusion(document)
        if isinstance(given, Problem):
            self.excluded[name] = given.reason
        elif self._is_deleted(name):
            self.deleted.append(name)
            return Problem("deleted from the library", document.title, unit="conversations")
        else:
            self.names.append(name)
        return given

    def _is_deleted(self, name: Name) -> bool:
        if not self._library.archive.deleted([name]):
            return False
        if self._library.store.find(*name) is None:
            return True
        self._library.archive.welcome([name])  # somebody has imported or restored it
        return False


def take(library: Library, path: Path, *, archiving: bool = True) -> list[Event]:
    """Take in one transcript, wherever it lies: what a hook hands over."""
    path = path.expanduser().resolve()
    folder = next(
        (f for f in folders() if path.is_relative_to(f.root)),
        Folder("folder", path.parent, path.parent),
    )
    events: list[Event] = []
    watcher = Watcher(library, [folder], events.append, archiving)
    watcher.changed([path])
    watcher.work(due=True)
    return events


def _found(path: Path, folder: Folder) -> tuple[Entry, Format] | None:
    """The file, and the format that it is of; None where it is of none."""
    known = [f for f in CONVERSATION_FORMATS if folder.tool in ("folder", f.SOURCE.name)]
    for entry in entries(path):
        if isinstance(entry, Entry) and (
            format_ := next((f for f in known if f.claims(entry)), None)
        ):
            return entry, format_
    return None


def _below(folder: Folder, root: Path) -> dict[Path, Stamp]:
    """The files of a folder that are followed, links left out, as they are now."""
    found = {}
    for place, _, names in os.walk(root):
        for name in names:
            path = Path(place, name)
            if folder.follows(path):
                with suppress(OSError):  # it may be gone since
                    about = path.lstat()
                    if stat.S_ISREG(about.st_mode):
                        found[path] = Stamp(about.st_size, about.st_mtime_ns)
    return found


# -- changes as the system tells them ------------------------------------------


def changes(roots: Sequence[Path], stop: threading.Event) -> Iterator[Collection[Path] | None]:
    """What changes below some folders until `stop`; at least every half a second something, if only nothing.

    Folders need not exist yet. Where the system cannot tell of changes, everything is looked through each second.
    """
    while not stop.is_set():
        there = _there(roots)
        if not there:
            yield None
            stop.wait(1.0)
            continue
        try:
            for batch in _told([root for root, _ in there], stop):
                yield batch
                if _there(roots) != there:
                    break
        except OSError:
            yield None
            stop.wait(1.0)


def _told(roots: Sequence[Path], stop: threading.Event) -> Iterator[Collection[Path] | None]:
    from watchfiles import watch

    told = watch(
        *roots,
        watch_filter=None,
        debounce=_GATHER,
        step=_CLOSELY,
        stop_event=stop,
        rust_timeout=_TICK,
        yield_on_timeout=True,
        raise_interrupt=False,
    )
    first = True
    for batch in told:
        yield (
            None if first else {Path(path) for _, path in batch}
        )  # what came before is told by nobody
        first = False


def _there(roots: Sequence[Path]) -> list[tuple[Path, int]]:
    found = []
    for root in roots:
        with suppress(OSError):
            if root.is_dir():
                found.append((root, root.stat().st_ino))
    return found
