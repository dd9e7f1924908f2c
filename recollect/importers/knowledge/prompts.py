"""Prompts: JSON and CSV of many programs, and Markdown with front matter.

Programs name the same fields differently; the first name that has a value is used. Some names are
unambiguous (`system_prompt`, or `act` with `prompt`). Files with other names (`title` and `text`)
count as prompts if their path or the user says so. Prompts are identified by their name; a second
prompt of the same name in a file gets a number.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from recollect.importers.entries import UNREADABLE, Entry, Unreadable
from recollect.importers.items import with_fields
from recollect.importers.jsonstream import lines, peek, records
from recollect.importers.knowledge import frontmatter
from recollect.importers.records import UNEXPECTED, contain_errors, failure, is_blank, join_texts
from recollect.importers.texts import decode_text, parse_tags, read_text
from recollect.language.text import moment, truncate
from recollect.model.documents import Document, Json
from recollect.model.kinds import PROMPT
from recollect.model.receipts import Problem
from recollect.model.sources import PROMPTS
from recollect.settings import LIMITS

SOURCE = PROMPTS
DESCRIPTION = "Prompts (JSON, CSV, or Markdown with front matter)"

_NAMES = ("name", "title", "act", "label", "command")
_USER = tuple("user_prompt userPrompt user prompt content text template message body".split())
_SYSTEM = ("system_prompt", "systemPrompt", "system", "system_message")
_DETAILS = ("details", "description", "notes", "summary")
_AUTHOR = ("author", "creator", "contributor")
_KEYWORDS = ("keywords", "tags", "labels", "keyword", "tag", "category", "categories")
_CREATED = ("created", "created_at", "createdAt", "date")
_UPDATED = ("updated", "updated_at", "updatedAt", "modified", "timestamp")
_LISTS = ("prompts", "templates", "qrList", "presets", "items", "data")
"""The names of a list of prompts."""
_UNAMBIGUOUS = frozenset({"user_prompt", "userPrompt", "system_prompt", "systemPrompt"})
_TEXTS = frozenset({*_USER, *_SYSTEM, "messages"})
_SYSTEM_ROLES = ("system", "developer")

_MARKDOWN = (".md", ".markdown", ".mdx")
_PROMPT_FILES = (".prompt.md", ".prompt")
_TABLES = (".csv", ".tsv")
_JSON = (".json", ".jsonl", ".ndjson")
_PROMPT_FRONT_MATTER = re.compile(
    rb"^(?:(?:type|kind)\s*[:=]\s*[\"']?prompt[\"']?\s*$|(?:(?:system|user)_)?prompt\s*[:=])",
    re.IGNORECASE | re.MULTILINE,
)
_FRONT_MATTER_END = re.compile(rb"^(?:---|\.\.\.|\+\+\+)\s*$", re.MULTILINE)
_HEAD_BYTES = 4_096
_CSV_FIELD_CHARACTERS = 4_000_000
_NAME_CHARACTERS = 60

Records = Iterator[tuple[str, Any] | Problem]
"""Records, each with its place in the file."""


# -- detection ---------------------------------------------------------------


def claims(entry: Entry) -> bool:
    return is_certain(entry) or is_guess(entry)


def accepts(entry: Entry) -> bool:
    return entry.basename.lower().endswith((*_MARKDOWN, *_PROMPT_FILES, *_TABLES, *_JSON, ".txt"))


def is_guess(entry: Entry) -> bool:
    """Whether a file probably has prompts, judged by its path and the keys of its records."""
    if is_certain(entry):
        return False
    keys = _keys(entry)
    is_named_prompt = "prompt" in entry.name.lower()
    if keys.isdisjoint(_NAMES):
        return is_named_prompt and not keys.isdisjoint(_LISTS)
    return "prompt" in keys or (is_named_prompt and not keys.isdisjoint(_TEXTS))


def is_certain(entry: Entry) -> bool:
    name = entry.basename.lower()
    if name.endswith(_PROMPT_FILES):
        return True
    if name.endswith(_MARKDOWN):
        return has_prompt_front_matter(entry)
    keys = _keys(entry)
    if {"act", "prompt"} <= keys:
        return True
    return not keys.isdisjoint(_UNAMBIGUOUS) and not keys.isdisjoint(_NAMES)


def _keys(entry: Entry) -> frozenset[str]:
    """The keys of the first record, or the columns of a table."""
    name = entry.basename.lower()
    if name.endswith(_JSON):
        return peek(entry)
    if name.endswith(_TABLES):
        try:
            header = decode_text(entry.head(_HEAD_BYTES).partition(b"\n")[0]).text
            return frozenset(column.lower() for column in _columns(header))
        except (Unreadable, csv.Error, *UNREADABLE):
            return frozenset()  # it is not a table of prompts; other formats are tried
    return frozenset()


def has_prompt_front_matter(entry: Entry) -> bool:
    try:
        head = entry.head(_HEAD_BYTES)
    except UNREADABLE:
        return False
    if not head.startswith((b"---", b"+++")):
        return False
    end = _FRONT_MATTER_END.search(head, 3)
    if end:
        head = head[: end.start()]
    return bool(_PROMPT_FRONT_MATTER.search(head))


# -- files -------------------------------------------------------------------


@contain_errors
def read(entry: Entry) -> Iterator[Document | Problem]:
    is_json = entry.basename.lower().endswith(_JSON)
    by_name: dict[str, set[tuple[str, ...]]] = {}
    for item in read_json(entry) if is_json else _read_text(entry):
        yield item if isinstance(item, Problem) else _prompt(entry, *item, by_name)


def read_json(entry: Entry) -> Records:
    messages: list[dict[str, Any]] = []  # if the file is a list of messages, it is one prompt
    if entry.basename.lower().endswith(".json"):
        items, unit = records(entry, {*_USER, *_SYSTEM}), "record"
    else:
        items, unit = lines(entry), "line"
    for item in items:
        if isinstance(item, Problem):
            yield item
            continue
        number, record = item
        if isinstance(record, dict) and "role" in record and set(record).isdisjoint(_NAMES):
            messages.append(record)
        else:
            for prompt in unnest(record):
                yield f"{unit} {number}", prompt
    if messages:
        yield "record 0", {"name": stem(entry), "messages": messages}


def unnest(record: Any) -> Iterator[Any]:
    """The prompts in a record: a list, a mapping by name, or the record itself."""
    nested = None
    if isinstance(record, dict):
        nested = next((record[key] for key in _LISTS if key in record), None)
    if isinstance(nested, list):
        yield from nested
    elif isinstance(nested, dict):
        for name, prompt in nested.items():
            if not isinstance(prompt, dict):
                prompt = {"prompt": prompt}
            yield {"name": name, **prompt}
    else:
        yield record


def _read_text(entry: Entry) -> Records:
    is_table = entry.basename.lower().endswith(_TABLES)
    limit = LIMITS.card_bytes if is_table else LIMITS.note_bytes
    try:
        text = read_text(entry, limit).text
    except Unreadable as error:
        yield failure(str(error), entry.name)
        return
    yield from read_table(text) if is_table else read_markdown(entry, text)


def read_markdown(entry: Entry, text: str) -> Records:
    parts = frontmatter.split(text)
    if parts.problem:
        yield Problem(f"{parts.problem}; it is imported as text", parts.where or entry.name)
    record = {name.lower(): value for name, value in parts.values.items()}
    if record.keys().isdisjoint(_NAMES):
        record["name"] = stem(entry)
    if not record.get("user_prompt") and not record.get("prompt"):
        record["user_prompt"] = parts.body
    elif not is_blank(parts.body) and record.keys().isdisjoint(_DETAILS):
        record["details"] = parts.body
    yield entry.name, record


def read_table(text: str) -> Records:
    csv.field_size_limit(max(csv.field_size_limit(), _CSV_FIELD_CHARACTERS))
    header, _, body = text.partition("\n")
    columns = [column.lower() for column in _columns(header)]
    rows = csv.reader(io.StringIO(body, newline=""), delimiter=delimiter(header))
    try:
        for row in rows:
            if any(row):
                yield f"row {rows.line_num + 1}", dict(zip(columns, row, strict=False))
    except csv.Error as error:
        where = f"row {rows.line_num + 1}: {error}"
        yield Problem("the rest of the table is damaged", where, True, "conversations")


def _columns(header: str) -> list[str]:
    for row in csv.reader([header], delimiter=delimiter(header)):
        return [column.strip() for column in row]
    return []


def delimiter(header: str) -> str:
    return max(",;\t|", key=header.count)


def stem(entry: Entry) -> str:
    name = entry.basename
    for suffix in (*_PROMPT_FILES, *_MARKDOWN, *_TABLES, *_JSON, ".txt"):
        if name.lower().endswith(suffix) and len(name) > len(suffix):
            return name[: -len(suffix)]
    return name


# -- records -----------------------------------------------------------------


def _prompt(
    entry: Entry, where: str, record: Any, by_name: dict[str, set[tuple[str, ...]]]
) -> Document | Problem:
    """The prompt in a record. `by_name` has those before it, so that names are unique."""
    try:
        fields = _fields(record)
    except UNEXPECTED:
        return failure("prompt of an unknown shape", where)
    name = fields["name"]
    if not fields["user_prompt"] and not fields["system_prompt"]:
        return Problem("prompt without text", name or where, unit="conversations")
    namesakes = by_name.setdefault(name, set())
    values = tuple(fields.values())
    if values in namesakes:
        return Problem("repeated prompt", name, unit="conversations")
    namesakes.add(values)
    if len(namesakes) > 1:
        name = f"{name} ({len(namesakes)})"
        by_name.setdefault(name, set()).add(values)
    modified_at = entry.modified_at
    updated_at = time(record, _UPDATED)
    created_at = time(record, _CREATED) or updated_at or modified_at
    metadata = {"tags": keywords(record), "author": fields["author"], "file": entry.basename}
    document = Document(
        source=SOURCE.name,
        source_id=name,
        title=name,
        kind=PROMPT,
        created_at=created_at,
        updated_at=updated_at or modified_at or created_at,
        metadata={key: value for key, value in metadata.items() if value},
        id=name,
    )
    return with_fields(document, {**fields, "name": name})


def _fields(record: Any) -> dict[str, str]:
    if isinstance(record, str):
        record = {"prompt": record}
    system, user = prompts(record)
    name = first_text(record, _NAMES).strip()
    if not name:
        first_line = (user or system).strip().split("\n", 1)[0]
        name = truncate(first_line, _NAME_CHARACTERS)
    return {
        "name": name,
        "details": first_text(record, _DETAILS),
        "system_prompt": system,
        "user_prompt": user,
        "author": first_text(record, _AUTHOR).strip(),
        "keywords": ", ".join(keywords(record)),
    }


def prompts(record: Mapping[str, Any]) -> tuple[str, str]:
    """The system prompt and the user prompt."""
    system, user = first_text(record, _SYSTEM), first_text(record, _USER)
    if record.get("role") in _SYSTEM_ROLES and not system:
        system, user = user, ""
    messages = _messages(record)
    if messages:
        system_message, conversation = split_messages(messages)
        if not user or "prompt" in record:
            user = conversation
        return join_texts((system, system_message)), user
    if isinstance(record.get("prompt"), dict):
        return prompts(record["prompt"])
    return system, user


def _messages(record: Mapping[str, Any]) -> list[Any]:
    """The messages of a prompt that is written as a conversation."""
    lists = [v for v in (record.get("messages"), record.get("prompt")) if isinstance(v, list)]
    first = lists[0] if lists else []
    return first if first and isinstance(first[0], dict) and "role" in first[0] else []


def split_messages(messages: list[Any]) -> tuple[str, str]:
    """The system messages, and the others. If not only the user speaks, roles are included."""
    system = [_text(m.get("content")) for m in messages if m.get("role") in _SYSTEM_ROLES]
    others = [m for m in messages if m.get("role") not in _SYSTEM_ROLES]
    texts = [_text(m.get("content")) for m in others]
    if not all(m.get("role") == "user" for m in others):
        texts = [f"{m.get('role')}: {text}" for m, text in zip(others, texts, strict=True)]
    return "\n\n".join(system), "\n\n".join(texts)


def _text(value: Any) -> str:
    """A text, or the texts in a list of parts."""
    if isinstance(value, str):
        return value
    parts = value if isinstance(value, list) else [value]
    return join_texts(part.get("text") if isinstance(part, dict) else part for part in parts)


def first_text(record: Mapping[str, Any], names: Iterable[str]) -> str:
    """The first of these fields that has a text."""
    for name in names:
        value = record.get(name)
        text = ""
        if isinstance(value, (str, list)):
            text = _text(value)
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            text = str(value)
        if not is_blank(text):
            return text
    return ""


def keywords(record: Json) -> list[str]:
    fields = record if isinstance(record, Mapping) else {}
    return next(filter(None, (parse_tags(fields.get(name)) for name in _KEYWORDS)), [])


def time(record: Json, names: Iterable[str]) -> datetime | None:
    fields = record if isinstance(record, Mapping) else {}
    return next(filter(None, (moment(fields.get(name)) for name in names)), None)
