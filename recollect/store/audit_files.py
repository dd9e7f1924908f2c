"""Audit logs in files: a line of JSON per record, in a folder per user.

Several processes may write. Each locks the log, reads its last line, and appends. When a file is
full, it gets the number of its first record as its name, and the chain continues in a new one. The
oldest files are deleted when all of them together exceed the limit.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from recollect.settings import LIMITS
from recollect.store.audit_log import AuditLogs, Entry, Head, Record, chain
from recollect.store.durability import sync_file
from recollect.store.sqlite.private_files import create_private_folder, file_lock

_FILES = 8  # the limit is divided by this
_TAIL_BYTES = 65_536  # a record is much shorter


class AuditFiles(AuditLogs):
    """The logs in a folder, in which each user has a folder."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder

    def users(self) -> list[str]:
        if not self._folder.exists():
            return []
        return sorted(entry.name for entry in self._folder.iterdir() if entry.is_dir())

    def stored_head(self, user: str) -> Head | None:
        path = self._folder / user / "head.json"
        if not path.exists():
            return None
        try:
            values = json.loads(path.read_text(encoding="ascii"))
            return Head(int(values["number"]), str(values["hash"]))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ValueError(
                f"{path.name}: it cannot be read, so it is unknown whether the end is missing"
            ) from error

    def records(self, user: str) -> Iterator[Record]:
        number = 0
        for path in _files(self._folder / user):
            with path.open("rb") as file:
                for line in file:
                    record = parse(line, number + 1)
                    number = record.number
                    yield record

    def write(self, user: str, entries: Sequence[Entry], durable: bool) -> None:
        folder = self._folder / user
        create_private_folder(folder)
        with file_lock(folder / "lock", wait=True):
            self._rotate(folder)
            head = last_record(folder)
            records = chain(entries, head)
            append(folder / "log.jsonl", records, durable)
            if durable:
                store_head(folder, Head(records[-1].number, records[-1].hash))

    def _rotate(self, folder: Path) -> None:
        current = folder / "log.jsonl"
        if not current.exists() or current.stat().st_size < LIMITS.audit_bytes // _FILES:
            return
        with current.open("rb") as file:
            first = parse(file.readline(), 1).number
        sync_file(current)
        current.replace(folder / f"log-{first:012d}.jsonl")
        files = _files(folder)
        while sum(path.stat().st_size for path in files) > LIMITS.audit_bytes:
            files.pop(0).unlink()


def _files(folder: Path) -> list[Path]:
    """The files of a log, oldest first."""
    files = sorted(folder.glob("log-*.jsonl"))
    current = folder / "log.jsonl"
    if current.exists():
        files.append(current)
    return files


def parse(line: bytes, number: int) -> Record:
    """A line as a record. A damaged line becomes one whose hash is wrong."""
    try:
        values = json.loads(line)
        return Record(int(values["number"]), str(values["record"]), str(values["hash"]))
    except (ValueError, KeyError, TypeError):
        return Record(number, "", "")


def last_record(folder: Path) -> Head:
    """The head of the log. An incomplete last line, left by a power cut, is removed."""
    files = _files(folder)
    for path in reversed(files):
        size = path.stat().st_size
        with path.open("r+b") as file:
            file.seek(max(0, size - _TAIL_BYTES))
            tail = file.read()
            complete = tail[: tail.rfind(b"\n") + 1]
            if len(complete) < len(tail):
                file.truncate(size - len(tail) + len(complete))
        lines = complete.splitlines()
        if lines:
            record = parse(lines[-1], 0)
            return Head(record.number, record.hash)
    return Head()


def append(path: Path, records: Sequence[Record], durable: bool) -> None:
    lines = [
        json.dumps({"number": record.number, "record": record.text, "hash": record.hash}) + "\n"
        for record in records
    ]
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        data = "".join(lines).encode("ascii")
        while data:
            data = data[os.write(file, data) :]
        if durable:
            os.fsync(file)
    finally:
        os.close(file)


def store_head(folder: Path, head: Head) -> None:
    draft = folder / "head.part"
    file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        os.write(file, json.dumps({"number": head.number, "hash": head.hash}).encode("ascii"))
        os.fsync(file)
    finally:
        os.close(file)
    draft.replace(folder / "head.json")
