"""Prompts: JSON and CSV of many programs, and Markdown with front matter.

Programs name the same fields differently; the first name that has a value is used. Some names are
unambiguous (`system_prompt`, or `act` with `prompt`). Files with other names (`title` and `text`)
count as prompts if their path or the user says so. Prompts are identified by their name; a second
prompt of the same name in a file gets a number.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any

from recollect.importers.entries import UNREADABLE, Entry, Unreadable
from recollect.importers.items import with_fields
from recollect.importers.jsonstream import lines, peek, records
from recollect.importers.knowledge import frontmatter
from recollect.importers.records import (
    UNEXPECTED,
    contain_errors,
    decode_text,
    failure,
    is_blank,
    join_texts,
    parse_tags,
    read_text,
)
from recollect.language.text import moment, truncate
from recollect.model.documents import Document
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
    keys, is_named_prompt = _keys(entry), "prompt" in entry.name.lower()
    if is_certain(entry):
        return False
    if keys.isdisjoint(_NAMES):
        return is_named_prompt and not keys.isdisjoint(_LISTS)
    return "prompt" in keys or (is_named_prompt and not keys.isdisjoint(_TEXTS))


def is_certain(entry: Entry) -> bool:
    name, keys = entry.basename.lower(), _keys(entry)
    if name.endswith(_MARKDOWN) and not name.endswith(_PROMPT_FILES):
        return has_prompt_front_matter(entry)
    is_unambiguous = not keys.isdisjoint(_UNAMBIGUOUS) and not keys.isdisjoint(_NAMES)
    return name.endswith(_PROMPT_FILES) or {"act", "prompt"} <= keys or is_unambiguous


def _keys(entry: Entry) -> frozenset[str]:
    """The keys of the first record, or the columns of a table."""
    name = entry.basename.lower()
    if name.endswith(_JSON):
        return peek(entry)
    if name.endswith(_TABLES):
        # If it is not a table of prompts, other formats are tried.
        with suppress(Unreadable, csv.Error, *UNREADABLE):
            header = decode_text(entry.head(_HEAD_BYTES).partition(b"\n")[0]).text
            return frozenset(column.lower() for column in _columns(header))
    return frozenset()


def has_prompt_front_matter(entry: Entry) -> bool:
    """Whether a file says that it is a prompt: `type: prompt`, `prompt: …`, `system_prompt: …`."""
    try:
        head = entry.head(_HEAD_BYTES)
    except UNREADABLE:
        return False
    if not head.startswith((b"---", b"+++")):
        return False
    for line in head[3:].splitlines()[1:]:
        if line.rstrip() in (b"---", b"...", b"+++"):
            return False
        key, _, value = line.lower().replace(b"=", b":", 1).partition(b":")
        is_kind = key.strip() in (b"type", b"kind") and value.strip(b" \t\"'") == b"prompt"
        if is_kind or key.rstrip() in (b"prompt", b"system_prompt", b"user_prompt"):
            return True
    return False


# -- files -------------------------------------------------------------------


@contain_errors
def read(entry: Entry) -> Iterator[Document | Problem]:
    is_json = entry.basename.lower().endswith(_JSON)
    by_name: dict[str, set[tuple[str, ...]]] = {}
    for item in read_json(entry) if is_json else _read_text(entry):
        yield item if isinstance(item, Problem) else _prompt(entry, *item, by_name)


def read_json(entry: Entry) -> Records:
    """The prompts in each record: a list of them, a mapping by name, or the record itself."""
    messages: list[dict[str, Any]] = []  # if the file is a list of messages, it is one prompt
    is_json = entry.basename.lower().endswith(".json")
    for item in records(entry, {*_USER, *_SYSTEM}) if is_json else lines(entry):
        if isinstance(item, Problem):
            yield item
            continue
        number, record = item
        fields = record if isinstance(record, dict) else {}
        if "role" in fields and set(fields).isdisjoint(_NAMES):
            messages.append(record)
            continue
        nested = next((fields[key] for key in _LISTS if key in fields), None)
        if isinstance(nested, dict):
            nested = [
                {"name": name, **(prompt if isinstance(prompt, dict) else {"prompt": prompt})}
                for name, prompt in nested.items()
            ]
        for prompt in nested if isinstance(nested, list) else [record]:
            yield f"{'record' if is_json else 'line'} {number}", prompt
    if messages:
        yield "record 0", {"name": stem(entry), "messages": messages}


def _read_text(entry: Entry) -> Records:
    is_table = entry.basename.lower().endswith(_TABLES)
    text = read_text(entry, LIMITS.card_bytes if is_table else LIMITS.note_bytes).text
    return read_table(text) if is_table else read_markdown(entry, text)


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
    modified_at, about = entry.modified_at, record if isinstance(record, Mapping) else {}
    updated_at = time(about, _UPDATED)
    created_at = time(about, _CREATED) or updated_at or modified_at
    metadata = {"tags": keywords(about), "author": fields["author"], "file": entry.basename}
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
    first_line = (user or system).strip().split("\n", 1)[0]
    return {
        "name": first_text(record, _NAMES).strip() or truncate(first_line, _NAME_CHARACTERS),
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
    lists = [v for v in (record.get("messages"), record.get("prompt")) if isinstance(v, list)]
    messages = lists[0] if lists else []
    if messages and isinstance(messages[0], dict) and "role" in messages[0]:
        # Written as a conversation. If not only the user speaks in it, roles are included.
        roles_and_texts = [(m.get("role"), _text(m.get("content"))) for m in messages]
        spoken = [(role, text) for role, text in roles_and_texts if role not in _SYSTEM_ROLES]
        has_one_speaker = all(role == "user" for role, _ in spoken)
        texts = [text if has_one_speaker else f"{role}: {text}" for role, text in spoken]
        instructions = (text for role, text in roles_and_texts if role in _SYSTEM_ROLES)
        if not user or "prompt" in record:
            user = "\n\n".join(texts)
        return join_texts((system, "\n\n".join(instructions))), user
    if isinstance(record.get("prompt"), dict):
        return prompts(record["prompt"])
    return system, user


def _text(value: Any) -> str:
    """A text, or the texts in a list of parts."""
    if isinstance(value, str):
        return value
    parts = value if isinstance(value, list) else [value]
    return join_texts(part.get("text") if isinstance(part, dict) else part for part in parts)


def first_text(record: Mapping[str, Any], names: Iterable[str]) -> str:
    """The first of these fields that has a text."""
    for value in map(record.get, names):
        text = _text(value) if isinstance(value, (str, list)) else ""
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            text = str(value)
        if not is_blank(text):
            return text
    return ""


def keywords(record: Mapping[str, Any]) -> list[str]:
    return next(filter(None, (parse_tags(record.get(name)) for name in _KEYWORDS)), [])


def time(record: Mapping[str, Any], names: Iterable[str]) -> datetime | None:
    return next(filter(None, (moment(record.get(name)) for name in names)), None)
