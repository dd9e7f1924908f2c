"""What the transcripts of coding agents have in common (Claude Code, Codex, Gemini CLI)."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Protocol

from recollect.importers.entries import UNREADABLE, Entry
from recollect.importers.jsonstream import lines, records
from recollect.importers.records import UNEXPECTED, UNKNOWN_MESSAGE, as_list
from recollect.language.text import printable, truncate
from recollect.model.chat_messages import as_blocks, as_mapping, as_text
from recollect.model.documents import Document, Json, Passage
from recollect.model.receipts import Problem

TITLE_LENGTH = 80
_MAX_REASONS = 20
_MAX_LINES = 40
_TAG = re.compile(r"</?[\w-]+>")
UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


class Unusable(ValueError):
    """A record without anything to import. The message is the reason."""


def content_blocks(content: Json) -> list[dict[str, Json]]:
    """The blocks of a message. A plain string, alone or in the list, is a text block."""
    if not isinstance(content, str | list):
        raise Unusable("message without content")
    texts = ({"type": "text", "text": b} if isinstance(b, str) else b for b in as_blocks(content))
    return list(map(as_mapping, texts))


def title_of(passages: Iterable[Passage]) -> str:
    """The first line that the user wrote, or else the first visible line."""
    visible = [p for p in passages if p.visibility == "all" and p.content.strip()]
    if not visible:
        return ""
    prompts = [p for p in visible if p.role == "user" and p.type == "message"]
    first = (prompts or visible)[0]
    if first.type == "message":
        return first_line(first.content)
    return first_line(_TAG.sub(" ", first.content))


def first_line(value: str) -> str:
    return truncate(value.strip().split("\n", 1)[0].strip(), TITLE_LENGTH)


# -- records -----------------------------------------------------------------


class Session(Protocol):
    """Collects the records of a log, and makes documents of them."""

    tally: Tally

    def add(self, number: int, record: dict[str, Json]) -> None: ...
    def documents(self) -> Iterator[Document]: ...


def read_log(
    entry: Entry, session: Session, *, marks: tuple[str, ...] = (), inside: str = ""
) -> Iterator[Document | Problem]:
    """The documents in a log: JSON Lines, or JSON with the records in a list, perhaps `inside` one.

    What cannot be used becomes a Problem, and reading goes on with the next record.
    """
    for number, record in _numbered(entry, marks, inside):
        if isinstance(record, Problem):
            yield record
            continue
        try:
            if not isinstance(record, dict):
                raise Unusable("line without a record")
            session.add(number, record)
        except Unusable as error:
            yield Problem(str(error), where=f"line {number}", failed=True)
        except UNEXPECTED:
            yield Problem(UNKNOWN_MESSAGE, where=f"line {number}", failed=True)
    documents = list(session.documents())
    yield from documents
    if not documents:
        yield Problem("session without messages", entry.name, unit="conversations")
    yield from session.tally.problems()


def _numbered(entry: Entry, marks: tuple[str, ...], inside: str) -> Iterator[tuple[int, Json]]:
    is_lines = entry.basename.lower().endswith(".jsonl")
    number = 0
    for item in lines(entry) if is_lines else records(entry, marks):
        if isinstance(item, Problem):
            yield number, item
        elif is_lines:
            yield item
        else:
            for record in as_list(as_mapping(item[1]).get(inside)) or [item[1]]:
                number += 1
                yield number, record


# -- detection ---------------------------------------------------------------


def head_text(entry: Entry) -> str:
    """The start of a file as text; empty if it cannot be read."""
    try:
        head = entry.head()
    except UNREADABLE:
        return ""
    return head.decode(json.detect_encoding(head), "replace").removeprefix("\ufeff")


def first_records(head: str) -> list[dict[str, Json]]:
    """The objects on the first lines that are complete in the head of a file."""
    values = []
    for line in head.split("\n")[:_MAX_LINES]:
        with suppress(ValueError, RecursionError):
            values.append(json.loads(line))
    return [value for value in values if isinstance(value, dict)]


def stem(entry: Entry) -> str:
    return entry.basename.rsplit(".", 1)[0]


class Tally:
    """Counts skipped records by reason, so that a receipt lists each reason once."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._counts: Counter[str] = Counter()

    def skip(self, what: str, kind: Json = "") -> None:
        reason = f"{what} {printable(as_text(kind))[:40]}".strip()
        if reason not in self._counts and len(self._counts) >= _MAX_REASONS:
            reason = "record of another unknown type"
        self._counts[reason] += 1

    def problems(self) -> Iterator[Problem]:
        for reason, count in self._counts.items():
            yield Problem(reason, where=self._where, count=count)
