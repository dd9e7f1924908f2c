"""What the transcripts of coding agents have in common (Claude Code, Codex, Gemini CLI)."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from recollect.importers.entries import Entry
from recollect.importers.jsonstream import UNREADABLE
from recollect.importers.records import UNEXPECTED, UNKNOWN_MESSAGE
from recollect.language.text import printable, truncate
from recollect.model.chat_messages import as_blocks, as_mapping, as_text
from recollect.model.documents import Json, Passage
from recollect.model.receipts import Problem

TITLE_LENGTH = 80
_MAX_REASONS = 20
_MAX_LINES = 40
_TAG = re.compile(r"</?[\w-]+>")


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


def add_records(
    items: Iterable[tuple[int, Json] | Problem], add: Callable[[int, Json], None]
) -> Iterator[Problem]:
    """Call `add` for each record of a log, with its number.

    Yields the problems among the items, and one for each record that `add` cannot use.
    """
    for item in items:
        if isinstance(item, Problem):
            yield item
            continue
        number, record = item
        try:
            add(number, record)
        except Unusable as error:
            yield Problem(str(error), where=f"line {number}", failed=True)
        except UNEXPECTED:
            yield Problem(UNKNOWN_MESSAGE, where=f"line {number}", failed=True)


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
    records = []
    for line in head.split("\n")[:_MAX_LINES]:
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            records.append(value)
    return records


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
