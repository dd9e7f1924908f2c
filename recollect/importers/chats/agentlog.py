"""What the transcripts of coding agents have in common (Claude Code, Codex, Gemini CLI).

Tool calls and results become text in which every word of the original can be found: JSON is
unfolded into `key: value` lines, because its escapes join words. Embedded files are described, not
stored.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from recollect.importers.entries import Entry
from recollect.importers.jsonstream import UNREADABLE, nested_too_deeply
from recollect.importers.records import UNEXPECTED, UNKNOWN_MESSAGE
from recollect.language.text import printable, truncate
from recollect.model.documents import Json, Passage
from recollect.model.receipts import Problem

TITLE_LENGTH = 80
_MAX_REASONS = 20
_MAX_LINES = 40
_TAG = re.compile(r"</?[\w-]+>")
_DATA_URL = re.compile(r"data:([^;,]*)(?:;[^,]*)?,(.*)", re.DOTALL)


class Unusable(ValueError):
    """A record without anything to import. The message is the reason."""


# -- values ------------------------------------------------------------------


def as_mapping(value: Json) -> dict[str, Json]:
    return value if isinstance(value, dict) else {}


def as_text(value: Json) -> str:
    return value if isinstance(value, str) else ""


def content_blocks(content: Json) -> list[dict[str, Json]]:
    """The blocks of a message. A plain string, alone or in the list, is a text block."""
    if isinstance(content, str):
        content = [content]
    if not isinstance(content, list):
        raise Unusable("message without content")
    blocks = []
    for block in content:
        if isinstance(block, str):
            block = {"type": "text", "text": block}
        blocks.append(as_mapping(block))
    return blocks


# -- text --------------------------------------------------------------------


def as_lines(value: Json) -> str:
    """A tool's input or output as lines of text. Strings stay as they are."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return "\n".join(
            _line(key, item) for key, item in value.items() if not _is_base64(key, value)
        )
    if isinstance(value, list):
        return "\n".join(as_lines(item) for item in value)
    return json.dumps(value)


def _line(key: str, value: Json) -> str:
    if key in ("command", "cmd") and isinstance(value, list):
        return f"{key}: {' '.join(map(as_lines, value))}"
    text = as_lines(value)
    separator = "\n" if "\n" in text else " "
    return f"{key}:{separator}{text}"


def _is_base64(key: str, parent: dict[str, Json]) -> bool:
    return key == "base64" or (key == "data" and parent.get("type") == "base64")


def unfold_json(text: str) -> str:
    """Like `as_lines`, for JSON in a string. Text that is not JSON stays as it is."""
    value = parse_json(text)
    if value is None:
        return text
    return as_lines(value)


def parse_json(text: str) -> Json:
    """The value of JSON in a string; None if it is invalid or nested too deeply."""
    try:
        value = json.loads(text, parse_float=_parse_float, parse_constant=str)
    except (ValueError, RecursionError):
        return None
    if nested_too_deeply(value):
        return None
    return value


def _parse_float(digits: str) -> float | str:
    value = float(digits)
    return value if math.isfinite(value) else digits


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


# -- files in messages -------------------------------------------------------


def embedded_file(kind: str, media_type: Json, data: Json) -> dict[str, Json]:
    """Describe a file in base64: its type, size and hash."""
    file: dict[str, Json] = {"type": kind, "media_type": as_text(media_type)}
    if isinstance(data, str):
        try:
            raw = base64.b64decode(data)
        except ValueError:
            file["bytes"] = len(data) * 3 // 4
        else:
            file |= {"bytes": len(raw), "sha256": hashlib.sha256(raw).hexdigest()}
    return file


def linked_file(kind: str, url: Json) -> dict[str, Json]:
    """Describe a file given by its URL, which may be a data URL."""
    data_url = _DATA_URL.match(as_text(url))
    if data_url:
        return embedded_file(kind, data_url[1], data_url[2])
    return {"type": kind, "url": as_text(url)}


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
