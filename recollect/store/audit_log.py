"""The audit log: who did what to which library, and when. It contains ids and counts, no content.

Each user has a log of her own. It is append-only, and every record contains the hash of the record
before it, so a record that was changed, removed or inserted breaks the chain. A hash chain cannot
show that its end was cut off. Therefore the number and hash of the last record, the head, are
stored apart, and can be compared with a head that was written down elsewhere.

Records are written by a thread, many at a time. `record` waits until a deletion is on disk, but not
for the record of a search: after a power cut, the last searches may be missing.
"""

from __future__ import annotations

import errno
import hashlib
import json
import queue
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

from recollect.errors import RecollectError
from recollect.language.text import iso, moment, printable, storable, truncate

READ, SEARCH, EXPORT, DENIED = "read", "search", "export", "denied"
DELETE, FORGET, REDACT, UNDO, RESTORE = "delete", "forget", "redact", "undo import", "restore"
MOVE, KEY, SETTING = "move", "key", "setting"
ACTIONS = (
    *(READ, SEARCH, EXPORT, DENIED),
    *(DELETE, FORGET, REDACT, UNDO, RESTORE),
    *(MOVE, KEY, SETTING),
)
LOSSY_ACTIONS = frozenset((READ, SEARCH, DENIED))
"""Actions whose records may be lost in a power cut. All others are on disk before they return."""

START = "0" * 64
"""What stands for the hash before the first record."""

_MAX_IDS = 20
_MAX_ID_CHARACTERS = 200
_MAX_BATCH = 500
_MAX_PENDING = 100_000
_WAIT_SECONDS = 30.0


# -- who ---


class Actor(NamedTuple):
    """Who acts: a credential, the interface it is used with, and the address it comes from."""

    user: str = ""
    """The user of the credential; empty on the computer of the library."""
    key: str = ""
    """The id of the API key, which is not secret."""
    interface: str = "python"
    address: str = ""


_ACTOR: ContextVar[Actor] = ContextVar("actor", default=Actor())  # noqa: B039


def current_actor() -> Actor:
    return _ACTOR.get()


def set_actor(actor: Actor) -> None:
    """Set who acts from here on, in this task or thread."""
    _ACTOR.set(actor)


@contextmanager
def acting(actor: Actor) -> Iterator[None]:
    """Set who acts in a block."""
    token = _ACTOR.set(actor)
    try:
        yield
    finally:
        _ACTOR.reset(token)


# -- what ---


@dataclass(frozen=True, slots=True)
class Entry:
    """What happened, before it has a place in the chain."""

    at: datetime
    actor: Actor
    action: str
    operation: str = ""
    """What exactly: the route, the tool or the method."""
    ids: tuple[str, ...] = ()
    """At most twenty; `count` has their number."""
    count: int | None = None

    @classmethod
    def of(
        cls, action: str, operation: str = "", ids: Iterable[str] = (), count: int | None = None
    ) -> Entry:
        names = [truncate(storable(id_), _MAX_ID_CHARACTERS) for id_ in ids]
        if count is None and names:
            count = len(names)
        now = datetime.now(UTC)
        return cls(now, current_actor(), action, operation, tuple(names[:_MAX_IDS]), count)


class Record(NamedTuple):
    """One record of the log, as it is stored."""

    number: int
    text: str
    """The record as JSON. Its hash includes everything else."""
    hash: str

    @property
    def values(self) -> dict[str, Any]:
        values = json.loads(self.text)
        return {"number": self.number, **values}


class Head(NamedTuple):
    """The last record of a log."""

    number: int = 0
    hash: str = START

    def __str__(self) -> str:
        return f"{self.number}:{self.hash}"


def chain(entries: Sequence[Entry], head: Head) -> list[Record]:
    """The records of entries that follow the head of a log."""
    records = []
    for entry in entries:
        actor = entry.actor
        optional = {
            "operation": entry.operation,
            "ids": list(entry.ids),
            "count": entry.count,
            "by": actor.user,
            "key": actor.key,
            "interface": actor.interface,
            "address": actor.address,
        }
        values: dict[str, Any] = {"at": iso(entry.at), "action": entry.action}
        values |= {name: value for name, value in optional.items() if value not in ("", [], None)}
        values["previous"] = head.hash
        text = json.dumps(values, ensure_ascii=True, separators=(",", ":"))
        number = head.number + 1
        head = Head(number, record_hash(number, text))
        records.append(Record(number, text, head.hash))
    return records


def record_hash(number: int, text: str) -> str:
    return hashlib.sha256(f"{number}:{text}".encode()).hexdigest()


# -- verification ---


@dataclass(slots=True)
class Verification:
    """Whether a log is complete and unchanged."""

    records: int = 0
    first: int = 0
    """The number of the first record; more than 1 if older ones were dropped."""
    head: Head = field(default_factory=Head)
    problems: list[str] = field(default_factory=list)
    """Where the chain breaks, in order; at most a hundred."""

    def report(self, problem: str) -> None:
        if len(self.problems) < 100:
            self.problems.append(problem)


def verify_chain(records: Iterable[Record], heads: Iterable[Head] = ()) -> Verification:
    """Check every link of a chain, and that it contains these heads."""
    result = Verification()
    expected = [head for head in heads if head.number]
    for record in records:
        verify_record(record, result)
        for head in expected:
            if head.number == record.number and head.hash != record.hash:
                result.report(f"record {record.number}: it is not the record that was there before")
        result.records += 1
        result.head = Head(record.number, record.hash)
    last = max((head.number for head in expected), default=0)
    if last > result.head.number:
        result.report(
            f"the end is missing: the log ends with record {result.head.number}, and once had "
            f"record {last}"
        )
    for head in expected:
        if head.number < result.first:
            result.report(
                f"record {head.number}: it cannot be compared, because the log begins with record "
                f"{result.first}"
            )
    return result


def verify_record(record: Record, result: Verification) -> None:
    if record_hash(record.number, record.text) != record.hash:
        result.report(f"record {record.number}: it was changed (its hash is wrong)")
    try:
        previous = json.loads(record.text).get("previous")
    except (ValueError, AttributeError):
        previous = None
    if not result.records:
        result.first = record.number
        if record.number == 1 and previous != START:
            result.report("record 1: it does not begin the chain")
        return
    last = result.head
    missing = record.number - last.number - 1
    if missing == 1:
        result.report(f"record {last.number + 1}: it is missing")
    elif missing > 1:
        result.report(f"records {last.number + 1} to {record.number - 1}: they are missing")
    elif missing < 0:
        result.report(f"record {record.number}: it is in the wrong place, after {last.number}")
    elif previous != last.hash:
        result.report(f"record {record.number}: it does not follow record {last.number}")


# -- logs ---


class AuditLogs(ABC):
    """The logs of all users of a place. Thread-safe."""

    def __init__(self) -> None:
        self._queue: queue.Queue[_Pending] = queue.Queue(_MAX_PENDING)
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def record(self, user: str, entry: Entry) -> None:
        """Append an entry to a user's log; on return, entries about changes are on disk.

        A log that cannot be written must not keep anybody from reading: such entries are dropped
        with a warning. Changes raise RecollectError.
        """
        is_lossy = entry.action in LOSSY_ACTIONS
        pending = _Pending(user, entry, not is_lossy)
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(
                    target=self._run, name="recollect-audit", daemon=True
                )
                self._thread.start()
        try:
            self._queue.put(pending, block=not is_lossy, timeout=_WAIT_SECONDS)
        except queue.Full as error:
            if not is_lossy:
                raise unrecorded("it is too slow") from error
            warn("The audit log is too slow; a record was dropped.")
        if is_lossy:
            return
        if not pending.written.wait(_WAIT_SECONDS):
            raise unrecorded("it is too slow")
        if isinstance(pending.error, OSError) and pending.error.errno == errno.EROFS:
            return  # on a read-only disk, nothing can have been changed
        if pending.error is not None:
            raise unrecorded(str(pending.error)) from pending.error

    def flush(self) -> None:
        """Wait until everything that was recorded is written."""
        if self._thread is not None:
            self._queue.join()

    @abstractmethod
    def write(self, user: str, entries: Sequence[Entry], durable: bool) -> None:
        """Append entries to a user's log, in one transaction."""

    @abstractmethod
    def records(self, user: str) -> Iterator[Record]:
        """All records of a user, oldest first."""

    @abstractmethod
    def stored_head(self, user: str) -> Head | None:
        """The head that is stored apart from the records, if there is one. Raises ValueError."""

    @abstractmethod
    def users(self) -> list[str]:
        """The users that have a log, as far as they are known."""

    def verify(self, user: str, head: Head | None = None) -> Verification:
        """Check a user's log, and that it contains a head that was written down elsewhere."""
        self.flush()
        heads = [] if head is None else [head]
        problem = ""
        try:
            stored_head = self.stored_head(user)
            if stored_head is not None:
                heads.append(stored_head)
        except ValueError as error:
            problem = str(error)
        result = verify_chain(self.records(user), heads)
        if problem:
            result.report(problem)
        return result

    # -- the thread that writes ---

    def _run(self) -> None:
        while True:
            batch = [self._queue.get()]
            while len(batch) < _MAX_BATCH and not self._queue.empty():
                batch.append(self._queue.get())
            for user in dict.fromkeys(pending.user for pending in batch):
                self._write_batch(user, [pending for pending in batch if pending.user == user])
            for _ in batch:
                self._queue.task_done()

    def _write_batch(self, user: str, batch: list[_Pending]) -> None:
        error: Exception | None = None
        try:
            durable = any(pending.durable for pending in batch)
            self.write(user, [pending.entry for pending in batch], durable)
        except Exception as failure:  # the thread must go on
            error = failure
            reason = printable(str(failure))[:300]
            warn(f"The audit log cannot be written: {reason}")
        for pending in batch:
            pending.error = error
            pending.written.set()


def unrecorded(reason: str) -> RecollectError:
    return RecollectError(
        f"The audit log cannot be written: {reason}. It was done, but there is no record of it."
    )


@dataclass(slots=True, eq=False)
class _Pending:
    """An entry that waits to be written."""

    user: str
    entry: Entry
    durable: bool
    written: threading.Event = field(default_factory=threading.Event)
    error: Exception | None = None


def warn(message: str) -> None:
    import logging  # most commands need no log

    logging.getLogger(__name__).warning("%s", message)


# -- selecting records ---


@dataclass(frozen=True, slots=True)
class RecordFilter:
    """Which records to list. All conditions must hold."""

    actions: tuple[str, ...] = ()
    by: str = ""
    """A user or the id of an API key."""
    after: datetime | None = None
    before: datetime | None = None

    def matches(self, values: dict[str, Any]) -> bool:
        if self.actions and values.get("action") not in self.actions:
            return False
        if self.by and self.by not in (values.get("by"), values.get("key")):
            return False
        at = moment(values.get("at"))
        if at is None:
            return self.after is None and self.before is None
        return (self.after is None or at >= self.after) and (
            self.before is None or at <= self.before
        )


def newest_records(
    logs: AuditLogs, user: str, conditions: RecordFilter, limit: int
) -> list[dict[str, Any]]:
    """The newest records of a user that pass the filter, newest first."""
    logs.flush()
    newest: deque[dict[str, Any]] = deque(maxlen=limit)
    for record in logs.records(user):
        values = _values(record)
        if conditions.matches(values):
            newest.append(values)
    return list(reversed(newest))


def _values(record: Record) -> dict[str, Any]:
    """The values of a record. Of one that was damaged or changed, only what can be shown."""
    try:
        values = record.values
        datetime.fromisoformat(values["at"])
        if isinstance(values.get("ids", []), list) and isinstance(values.get("count", 0), int):
            return values
    except (ValueError, TypeError, KeyError):
        pass
    return {"number": record.number, "at": "1970-01-01T00:00:00Z", "action": "damaged"}
