"""Prompts: JSON, Markdown with front matter, CSV.

Programs that keep prompts agree on little more than that one has a name and a
text, so records are read by the names that are in use for each part. Of some files
the names of their fields say what they are (`system_prompt`, `act` and `prompt`);
others (`title` and `text`) are taken for prompts where their path says so, or a
person does.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from recollect.importers.entries import Entry
from recollect.importers.items import with_fields
from recollect.importers.jsonstream import UNREADABLE, lines, peek, records
from recollect.importers.knowledge import frontmatter
from recollect.importers.knowledge.notes import words
from recollect.importers.records import UNEXPECTED, is_blank, join_texts
from recollect.importers.texts import Unreadable, decoded, read_text
from recollect.language.text import moment, truncate
from recollect.model.documents import Document, Json
from recollect.model.kinds import PROMPT
from recollect.model.receipts import Problem
from recollect.model.sources import PROMPTS
from recollect.settings import LIMITS

SOURCE = PROMPTS
DESCRIPTION = "Prompts (JSON, CSV, or Markdown with front matter)"

_NAMES = ("name", "title", "act", "label", "command")
_USER = (
    "user_prompt",
    "userPrompt",
    "user",
    "prompt",
    "content",
    "text",
    "template",
    "message",
    "body",
)
_SYSTEM = ("system_prompt", "systemPrompt", "system", "system_message")
_DETAILS = ("details", "description", "notes", "summary")
_AUTHOR = ("author", "creator", "contributor")
_KEYWORDS = ("keywords", "tags", "labels", "keyword", "tag", "category", "categories")
_CREATED = ("created", "created_at", "createdAt", "date")
_UPDATED = ("updated", "updated_at", "updatedAt", "modified", "timestamp")
_LISTS = ("prompts", "templates", "qrList", "presets", "items", "data")
"""Under which names a list of prompts is kept."""
_SURE = frozenset({"user_prompt", "userPrompt", "system_prompt", "systemPrompt"})
_TEXTS = frozenset({*_USER, *_SYSTEM, "messages"})
_SYSTEM_ROLES = ("system", "developer")

_MARKDOWN = (".md", ".markdown", ".mdx")
_PROMPT_FILES = (".prompt.md", ".prompt")
_TABLES = (".csv", ".tsv")
_JSON = (".json", ".jsonl", ".ndjson")
_SAYS_SO = re.compile(
    rb"^(?:(?:type|kind)\s*[:=]\s*[\"']?prompt[\"']?\s*$|(?:(?:system|user)_)?prompt\s*[:=])",
    re.IGNORECASE | re.MULTILINE,
)
_LONGEST_FIELD = 4_000_000
_FIRST_WORDS = 60


# -- recognising -------------------------------------------------------------


def claims(entry: Entry) -> bool:
    return sure(entry) or is_guess(entry)


def sure(entry: Entry) -> bool:
    """Whether it can be nothing else."""
    name = entry.basename.lower()
    if name.endswith(_PROMPT_FILES):
        return True
    if name.endswith(_MARKDOWN):
        return _front_matter_says_so(entry)
    keys = _keys(entry)
    return (not keys.isdisjoint(_SURE) and not keys.isdisjoint(_NAMES)) or {"act", "prompt"} <= keys


def is_guess(entry: Entry) -> bool:
    """Whether it is likely, by what its records have, or by that and its path."""
    if sure(entry):
        return False
    keys = _keys(entry)
    if keys.isdisjoint(_NAMES):
        return "prompt" in entry.name.lower() and not keys.isdisjoint(_LISTS)
    return "prompt" in keys or ("prompt" in entry.name.lower() and not keys.isdisjoint(_TEXTS))


def accepts(entry: Entry) -> bool:
    """Any file of these kinds, if somebody says that it holds prompts."""
    return entry.basename.lower().endswith((*_MARKDOWN, *_PROMPT_FILES, *_TABLES, *_JSON, ".txt"))


def _keys(entry: Entry) -> frozenset[str]:
    """The names of the fields of the first record."""
    name = entry.basename.lower()
    if name.endswith(_JSON):
        return peek(entry)
    if name.endswith(_TABLES):
        try:
            header = decoded(entry.head(4_096).partition(b"\n")[0]).text
            return frozenset(column.lower() for column in _header(header))
        except (Unreadable, csv.Error, *UNREADABLE):
            pass
    return frozenset()


def _front_matter_says_so(entry: Entry) -> bool:
    try:
        head = entry.head(4_096)
    except UNREADABLE:
        return False
    end = re.search(rb"^(?:---|\.\.\.|\+\+\+)\s*$", head[3:], re.MULTILINE)
    return bool(
        head.startswith((b"---", b"+++"))
        and _SAYS_SO.search(head[: end.start() + 3 if end else None])
    )


# -- reading -----------------------------------------------------------------


def read(entry: Entry) -> Iterator[Document | Problem]:
    name = entry.basename.lower()
    prompts = _Prompts(entry)
    found = (
        _from_json(entry)
        if name.endswith(_JSON)
        else _from_text(entry, table=name.endswith(_TABLES))
    )
    for item in found:
        if isinstance(item, Problem):
            yield item
        else:
            yield from prompts.add(*item)


Found = Iterator[tuple[str, Any] | Problem]
"""Where a record stands, and the record."""


def _from_json(entry: Entry) -> Found:
    said: list[dict[str, Any]] = []
    """Messages that are the file's own records: it is one prompt then."""
    by_lines = not entry.basename.lower().endswith(".json")
    for item in lines(entry) if by_lines else records(entry, {*_USER, *_SYSTEM}):
        if isinstance(item, Problem):
            yield item
        elif isinstance(item[1], dict) and "role" in item[1] and set(item[1]).isdisjoint(_NAMES):
            said.append(item[1])
        else:
            where = f"{'line' if by_lines else 'record'} {item[0]}"
            yield from ((where, record) for record in _unfolded(item[1]))
    if said:
        yield "record 0", {"name": _stem(entry), "messages": said}


def _unfolded(record: Any) -> Iterator[Any]:
    """The prompts in a record: itself, those that it lists, or those that it names."""
    inner = (
        next((record[key] for key in _LISTS if key in record), None)
        if isinstance(record, dict)
        else None
    )
    if isinstance(inner, list):
        yield from inner
    elif isinstance(inner, dict):
        yield from (
            {"name": name, **(one if isinstance(one, dict) else {"prompt": one})}
            for name, one in inner.items()
        )
    else:
        yield record


def _from_text(entry: Entry, *, table: bool) -> Found:
    try:
        text = read_text(entry, LIMITS.card_bytes if table else LIMITS.note_bytes).text
    except Unreadable as error:
        yield Problem(str(error), entry.name, failed=True, unit="conversations")
        return
    yield from _from_table(text) if table else _from_markdown(entry, text)


def _from_markdown(entry: Entry, text: str) -> Found:
    said = frontmatter.split(text)
    if said.problem:
        yield Problem(f"{said.problem}; it is kept as text", said.where or entry.name)
    record = {name.lower(): value for name, value in said.values.items()}
    if not record.keys() & set(_NAMES):
        record["name"] = _stem(entry)
    given = next((key for key in ("user_prompt", "prompt") if record.get(key)), None)
    if given is None:
        record["user_prompt"] = said.body
    elif not is_blank(said.body) and record.keys().isdisjoint(_DETAILS):
        record["details"] = said.body
    yield entry.name, record


def _from_table(text: str) -> Found:
    csv.field_size_limit(max(csv.field_size_limit(), _LONGEST_FIELD))
    header, _, rest = text.partition("\n")
    columns = [column.lower() for column in _header(header)]
    rows = csv.reader(io.StringIO(rest, newline=""), delimiter=_delimiter(header))
    try:
        for row in rows:
            if any(row):
                yield f"row {rows.line_num + 1}", dict(zip(columns, row, strict=False))
    except csv.Error as error:
        yield Problem(
            "table that cannot be read on",
            f"row {rows.line_num + 1}: {error}",
            True,
            "conversations",
        )


def _header(line: str) -> list[str]:
    return [column.strip() for column in next(csv.reader([line], delimiter=_delimiter(line)), [])]


def _delimiter(header: str) -> str:
    return max(",;\t|", key=header.count)


# -- records -----------------------------------------------------------------


@dataclass(slots=True)
class _Prompts:
    """The prompts of one file; two of them never have the same name."""

    entry: Entry
    taken: dict[str, list[dict[str, str]]] = field(default_factory=dict)

    def add(self, where: str, record: Any) -> Iterator[Document | Problem]:
        try:
            fields = _fields(record)
        except UNEXPECTED:
            yield Problem("prompt of an unknown shape", where, failed=True, unit="conversations")
            return
        name = fields["name"]
        if not fields["user_prompt"] and not fields["system_prompt"]:
            yield Problem("prompt without a text", name or where, unit="conversations")
            return
        same = self.taken.setdefault(name, [])
        if fields in same:
            yield Problem("the same prompt twice", name, unit="conversations")
            return
        same.append(fields)
        if len(same) > 1:
            name = f"{name} ({len(same)})"
            self.taken.setdefault(name, []).append(fields)
        yield self._document({**fields, "name": name}, record)

    def _document(self, fields: Mapping[str, str], record: Mapping[str, Any]) -> Document:
        updated_at = _time(record, _UPDATED)
        created_at = _time(record, _CREATED) or updated_at or self.entry.written
        metadata = {
            "tags": _keywords(record),
            "author": fields["author"],
            "file": self.entry.basename,
        }
        document = Document(
            source=SOURCE.name,
            source_id=fields["name"],
            title=fields["name"],
            kind=PROMPT,
            created_at=created_at,
            updated_at=updated_at or self.entry.written or created_at,
            metadata={key: value for key, value in metadata.items() if value},
            id=fields["name"],
        )
        return with_fields(document, fields)


def _fields(record: Any) -> dict[str, str]:
    if isinstance(record, str):
        record = {"prompt": record}
    system, user = _said(record)
    name = _first(record, _NAMES).strip() or truncate(
        next(iter((user or system).split("\n")), ""), _FIRST_WORDS
    )
    return {
        "name": name,
        "details": _first(record, _DETAILS),
        "system_prompt": system,
        "user_prompt": user,
        "author": _first(record, _AUTHOR).strip(),
        "keywords": ", ".join(_keywords(record)),
    }


def _said(record: Mapping[str, Any]) -> tuple[str, str]:
    """What the system is told, and what the user says."""
    system, user = _first(record, _SYSTEM), _first(record, _USER)
    if record.get("role") in _SYSTEM_ROLES and not system:
        system, user = user, ""
    messages = next(
        (m for m in (record.get("messages"), record.get("prompt")) if isinstance(m, list)), None
    )
    if messages and isinstance(messages[0], dict) and "role" in messages[0]:
        told, rest = _spoken(messages)
        return join_texts((system, told)), user if user and "prompt" not in record else rest
    if isinstance(record.get("prompt"), dict):
        return _said(record["prompt"])
    return system, user


def _spoken(messages: list[Any]) -> tuple[str, str]:
    """A list of messages as OpenAI writes it. Where not only the user speaks, it is said who does."""
    told = "\n\n".join(_text(m.get("content")) for m in messages if m.get("role") in _SYSTEM_ROLES)
    rest = [m for m in messages if m.get("role") not in _SYSTEM_ROLES]
    alone = all(m.get("role") == "user" for m in rest)
    return told, "\n\n".join(
        _text(m.get("content")) if alone else f"{m.get('role')}: {_text(m.get('content'))}"
        for m in rest
    )


def _text(value: Any) -> str:
    """A text, or a list of parts of which some are texts."""
    if isinstance(value, str):
        return value
    parts = value if isinstance(value, list) else [value]
    return join_texts(part.get("text") if isinstance(part, dict) else part for part in parts)


def _first(record: Mapping[str, Any], names: Iterable[str]) -> str:
    """The first of these that says something; a list only where it is one of texts."""
    for name in names:
        value = record.get(name)
        text = value if isinstance(value, str) else _text(value) if isinstance(value, list) else ""
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            text = str(value)
        if not is_blank(text):
            return text
    return ""


def _keywords(record: Json) -> list[str]:
    if not isinstance(record, Mapping):
        return []
    return next((found for name in _KEYWORDS if (found := words(record.get(name)))), [])


def _time(record: Json, names: Iterable[str]) -> Any:
    if not isinstance(record, Mapping):
        return None
    return next((at for name in names if (at := moment(record.get(name)))), None)


def _stem(entry: Entry) -> str:
    name = entry.basename
    for ending in (*_PROMPT_FILES, *_MARKDOWN, *_TABLES, *_JSON, ".txt"):
        if name.lower().endswith(ending) and len(name) > len(ending):
            return name[: -len(ending)]
    return name
