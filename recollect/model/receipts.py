"""Receipts: the record of an import."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime

from recollect.model.kinds import CONVERSATION, KIND_TABLE


@dataclass(frozen=True, slots=True)
class Problem:
    """A record that an importer could not use, or left out on purpose.

    `failed` means that something was lost and the person should know;
    otherwise the record was skipped for the reason given.
    """

    reason: str
    where: str = ""
    failed: bool = False
    unit: str = "messages"
    count: int = 1


@dataclass(slots=True)
class Counts:
    """What an import did with the conversations or messages of one file."""

    new: int = 0
    same: int = 0
    changed: int = 0
    skipped: dict[str, int] = field(default_factory=dict)
    failed: dict[str, int] = field(default_factory=dict)

    def note(self, problem: Problem) -> None:
        bucket = self.failed if problem.failed else self.skipped
        bucket[problem.reason] = bucket.get(problem.reason, 0) + problem.count


@dataclass(slots=True)
class FileReceipt:
    """What an import did with one file. `samples` has the places of a few problems per reason."""

    name: str
    format: str
    conversations: Counts = field(default_factory=Counts)
    messages: Counts = field(default_factory=Counts)
    samples: dict[str, list[str]] = field(default_factory=dict)
    redacted: dict[str, int] = field(default_factory=dict)
    """Secrets that were taken out, by kind."""
    kinds: dict[str, int] = field(default_factory=dict)
    """How many documents of each kind the file has."""

    @property
    def units(self) -> tuple[str, str]:
        """The units of its two counts, for people to read."""
        if self.format in _OF_ITEMS or any(kind != CONVERSATION for kind in self.kinds):
            return ("items", "parts")
        return ("conversations", "messages")


_OF_ITEMS = ("notes", "media", "transcripts", "characters", "prompts")


@dataclass(slots=True, repr=False)
class Receipt:
    """The record of one import, by which it can be taken back."""

    id: int
    path: str
    started_at: datetime
    finished_at: datetime | None = None
    undone_at: datetime | None = None
    files: list[FileReceipt] = field(default_factory=list)
    left_out: Counts = field(default_factory=Counts)
    """Files that were not read, by reason."""
    job: str = ""
    """The id of the job that made the import; empty if it was not a job."""

    def __repr__(self) -> str:
        new = sum(file.messages.new for file in self.files)
        return f"<Receipt {self.id} of {self.path!r}: {len(self.files)} files, {new} new messages>"

    @property
    def name(self) -> str:
        """The name of the file or folder that was imported, without where it was."""
        return self.path.replace("\\", "/").rstrip("/").rsplit("/", 1)[-1] or self.path

    @property
    def units(self) -> tuple[str, str]:
        """The units of the counts of all its files."""
        units = {file.units for file in self.files} or {("conversations", "messages")}
        return units.pop() if len(units) == 1 else ("items", "parts")

    @property
    def contents(self) -> str:
        """How many documents of each kind the files have, for people: "2 conversations, 1 note".

        Empty if all are of one kind.
        """
        counts = Counter[str]()
        for file in self.files:
            counts.update(file.kinds)
        if len(counts) < 2:
            return ""
        parts = []
        for kind in KIND_TABLE:
            count = counts[kind.name]
            if count == 1:
                parts.append(f"1 {kind.name}")
            elif count:
                parts.append(f"{count:,} {kind.plural}")
        return ", ".join(parts)
