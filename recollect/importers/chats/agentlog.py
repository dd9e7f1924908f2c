"""What the transcripts of coding agents (Claude Code, Codex) have in common.

Tool calls and their results become text in which every word of the original
can be found: JSON is unfolded into `key: value` lines, because its escapes
glue words together. Embedded files leave behind what they were, not their
bytes.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator

from recollect.importers.entries import Entry
from recollect.importers.jsonstream import UNREADABLE, nested_too_deeply
from recollect.language.text import printable
from recollect.model.documents import Json, Passage
from recollect.model.receipts import Problem

TITLE_LENGTH = 80
_KINDS_NAMED = 20
_LINES_LOOKED_AT = 40
_TAG = re.compile(r"</?[\w-]+>")
_DATA_URL = re.compile(r"data:([^;,]*)(?:;[^,]*)?,(.*)", re.DOTALL)


class Unusable(ValueError):
    """A record whose shape gives nothing to keep; its text is the reason."""


# -- shapes ------------------------------------------------------------------


def as_mapping(value: Json) -> dict[str, Json]:
    return value if isinstance(value, dict) else {}


def as_text(value: Json) -> str:
    return value if isinstance(value, str) else ""


def content_blocks(content: Json) -> list[dict[str, Json]]:
    """The blocks of a message: a bare string, alone or in the list, is a text block."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    if not isinstance(content, list):
        raise Unusable("message without content")
    return [{"type": "text", "text": b} if isinstance(b, str) else as_mapping(b) for b in content]


# -- text --------------------------------------------------------------------


def as_lines(value: Json) -> str:
    """A tool's input or output as lines of text; strings stay as they are."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return "\n".join(
            _line(key, item) for key, item in value.items() if not _is_payload(key, value)
        )
    if isinstance(value, list):
        return "\n".join(as_lines(item) for item in value)
    return json.dumps(value)


def _line(key: str, value: Json) -> str:
    if key in ("command", "cmd") and isinstance(value, list):
        return f"{key}: {' '.join(map(as_lines, value))}"
    text = as_lines(value)
    return f"{key}:\n{text}" if "\n" in text else f"{key}: {text}"


def _is_payload(key: str, owner: dict[str, Json]) -> bool:
    return key == "base64" or (key == "data" and owner.get("type") == "base64")


def unfold_json(text: str) -> str:
    """The same for JSON inside a string; text that is no JSON stays as it is."""
    value = parse_json(text)
    return text if value is None else as_lines(value)


def parse_json(text: str) -> Json:
    """The value of JSON inside a string; None where there is none, or one that the file itself could not hold."""
    try:
        value = json.loads(text, parse_float=_finite, parse_constant=str)
    except (ValueError, RecursionError):
        return None
    return None if nested_too_deeply(value) else value


def _finite(digits: str) -> float | str:
    return float(digits) if math.isfinite(float(digits)) else digits


def title_of(passages: Iterable[Passage]) -> str:
    """The first line that the person wrote, or else the first one to be seen."""
    shown = [p for p in passages if p.visibility == "all" and p.content.strip()]
    first = next(
        (p for p in shown if p.role == "user" and p.type == "message"), shown[0] if shown else None
    )
    if first is None:
        return ""
    return first_line(first.content if first.type == "message" else _TAG.sub(" ", first.content))


def first_line(value: str) -> str:
    return value.strip().split("\n", 1)[0].strip()[:TITLE_LENGTH]


# -- embedded files ----------------------------------------------------------


def embedded_file(kind: str, media_type: Json, data: Json) -> dict[str, Json]:
    """What is kept of a file in base64: its type, size and fingerprint."""
    found: dict[str, Json] = {"type": kind, "media_type": as_text(media_type)}
    if isinstance(data, str):
        try:
            raw = base64.b64decode(data)
        except ValueError:
            found["bytes"] = len(data) * 3 // 4
        else:
            found |= {"bytes": len(raw), "sha256": hashlib.sha256(raw).hexdigest()}
    return found


def linked_file(kind: str, url: Json) -> dict[str, Json]:
    """The same for a file given as an address, which may hold the file itself."""
    if inline := _DATA_URL.match(as_text(url)):
        return embedded_file(kind, inline[1], inline[2])
    return {"type": kind, "url": as_text(url)}


# -- recognising and counting ------------------------------------------------


def head_text(entry: Entry) -> str:
    """The start of a file as text; empty where it cannot be read."""
    try:
        head = entry.head()
    except UNREADABLE:
        return ""
    return head.decode(json.detect_encoding(head), "replace").removeprefix("\ufeff")


def first_records(head: str) -> list[dict[str, Json]]:
    """The objects on the first lines, as far as the head holds them whole."""
    found = []
    for line in head.split("\n")[:_LINES_LOOKED_AT]:
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            found.append(value)
    return found


def stem(entry: Entry) -> str:
    return entry.basename.rsplit(".", 1)[0]


class Tally:
    """Counts what is left out on purpose, so that a report names each kind once."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._counts: Counter[str] = Counter()

    def skip(self, what: str, kind: Json = "") -> None:
        reason = f"{what} {printable(as_text(kind))[:40]}".strip()
        if reason not in self._counts and len(self._counts) >= _KINDS_NAMED:
            reason = "record of a further unknown type"
        self._counts[reason] += 1

    def problems(self) -> Iterator[Problem]:
        for reason, count in self._counts.items():
            yield Problem(reason, where=self._where, count=count)
