"""The parsing process: find the files of an import, read them, and send what they contain.

It starts with an import of the importers and a request that says what it may read. From then on
it is confined; see `confinement`. It reads one request after another until its input ends.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

from recollect.errors import RecollectError, UnknownFormat
from recollect.importers.entries import Entry
from recollect.importers.records import failure, reason_of
from recollect.importers.registry import CONVERSATION_FORMATS, Format, find, find_conversations
from recollect.importers.sandbox import protocol
from recollect.importers.sandbox.confinement import Memory, confine, limit_cpu
from recollect.importers.sandbox.protocol import Bounds
from recollect.model.documents import Document
from recollect.model.receipts import Problem

_BUFFER_BYTES = 1 << 16
_PROGRESS_BYTES = 1 << 16


class Worker:
    """Answers the requests of the parent."""

    def __init__(self, requests: IO[bytes], replies: int) -> None:
        self._requests = requests
        self._replies = replies
        self._buffer = bytearray()
        self._memory = Memory()
        self._bounds = Bounds()
        self._files: list[tuple[Entry, Format]] = []
        self._avoid: frozenset[str] = frozenset()
        self._unreported = 0

    def run(self) -> None:
        for line in self._requests:
            request = json.loads(line)
            match request["do"]:
                case "confine":
                    self._bounds = Bounds(**request["bounds"])
                    self._memory.limit_growth(self._bounds.largest_memory, for_good=True)
                    active = confine([Path(path) for path in request["readable"]])
                    self._send(protocol.json_frame(protocol.READY, active))
                case "find":
                    self._find(request)
                case "read":
                    self._read_all(request["numbers"])
            self._flush()

    # -- finding ---

    def _find(self, request: dict[str, Any]) -> None:
        self._files = []
        self._avoid = frozenset(request["avoid"])
        with suppress(OSError):  # paths may be relative
            os.chdir(request["folder"])
        try:
            for item in self._discover(request):
                if isinstance(item, Problem):
                    self._send(protocol.problem_frame(item))
                else:
                    entry, format_ = item
                    self._files.append(item)
                    record = [entry.name, entry.place, entry.size, format_.SOURCE.name]
                    self._send(protocol.json_frame(protocol.FILE, record))
        except Exception as error:  # a parser may raise anything for a hostile file
            failure: list[Any] = ["RecollectError", [f"The files cannot be examined: {error!r}"]]
            if isinstance(error, RecollectError):
                failure = [type(error).__name__, [str(error)]]
            elif isinstance(error, OSError):
                failure = ["OSError", [error.errno, error.strerror, str(error.filename or "")]]
            self._send(protocol.json_frame(protocol.FAILURE, failure))
        finally:
            limit_cpu(0)
        self._send(protocol.frame(protocol.END))

    def _discover(self, request: dict[str, Any]) -> Iterator[tuple[Entry, Format] | Problem]:
        """What can be imported. A path without a known format does not affect the others."""
        errors: dict[str, UnknownFormat] = {}
        has_files = False
        within = request["within"] and Path(request["within"])
        for path in map(Path, request["paths"]):
            try:
                found = (
                    find(path, request["kind"], within, self._visit)
                    if request["sources"] is None
                    else find_conversations(path, request["sources"], self._visit)
                )
                for item in found:
                    has_files = has_files or not isinstance(item, Problem)
                    yield item
            except UnknownFormat as error:
                errors[str(path)] = error
        for name, unknown in errors.items():
            if not has_files:
                raise unknown
            yield Problem(f"{name} has no known format", name, failed=True, unit="files")

    def _visit(self, name: str, place: str, size: int) -> bool:
        """Tell the parent what is examined next, and begin to measure its cost."""
        if place in self._avoid:
            return False
        self._send(protocol.json_frame(protocol.LOOK, [name, place, size]))
        self._flush()
        self._limit(size)
        return True

    def _limit(self, size: int) -> None:
        limit_cpu(self._bounds.cpu_seconds_for(size))
        self._memory.limit_growth(self._bounds.memory_for(size))

    # -- reading ---

    def _read_all(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            entry, format_ = self._files[number]
            self._send(protocol.json_frame(protocol.BEGIN, number))
            self._flush()
            self._limit(entry.size)
            self._read(entry, format_)
            limit_cpu(0)
            self._send(protocol.frame(protocol.END))
            self._flush()

    def _read(self, entry: Entry, format_: Format) -> None:
        try:
            # Conversations are sent before the end of a file shows that it is damaged, and a
            # damaged message must not replace a stored one.
            is_damaged = format_ in CONVERSATION_FORMATS and entry.is_damaged()
            for item in format_.read(entry.with_progress(self._report_progress)):
                if isinstance(item, Document):
                    if is_damaged:
                        item = replace(item, partial=True)
                    self._send(protocol.document_frame(item))
                else:
                    self._send(protocol.problem_frame(item))
                self._flush()
        except Exception as error:  # a malicious file can make a library raise anything
            reason = reason_of(error)
            if isinstance(error, MemoryError):
                size = self._bounds.memory_for(entry.size) // 1_000_000
                reason = f"cannot be read: it needs more than {size:,} MB of memory"
            self._send(protocol.problem_frame(failure(reason, entry.name)))

    def _report_progress(self, count: int) -> None:
        self._unreported += count
        if self._unreported >= _PROGRESS_BYTES:
            self._send(protocol.json_frame(protocol.PROGRESS, self._unreported))
            self._flush()
            self._unreported = 0

    # -- replies ---

    def _send(self, data: bytes) -> None:
        self._buffer += data
        if len(self._buffer) >= _BUFFER_BYTES:
            self._flush()

    def _flush(self) -> None:
        data, self._buffer = memoryview(self._buffer), bytearray()
        while data:
            data = data[os.write(self._replies, data) :]


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides when to stop
    replies = os.dup(1)
    os.dup2(2, 1)  # what a library prints must not get between the replies
    gc.freeze()
    gc.set_threshold(100_000, 20, 100)
    try:
        Worker(sys.stdin.buffer, replies).run()
    except BrokenPipeError:  # the parent is gone
        os._exit(1)


if __name__ == "__main__":
    main()
