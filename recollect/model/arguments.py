"""Arguments of the Python API: dates, names, messages and pages, validated and converted."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from datetime import UTC, date, datetime
from typing import Any

from recollect.errors import InvalidInput
from recollect.language.text import bound, identifier, storable, truncate
from recollect.model.audience import (
    ALL,
    HUMAN_ONLY,
    has_human_only_values,
    is_marked_human_only,
)
from recollect.model.chat_messages import (
    chat_messages,
    is_response_item,
    message_passages,
    plain,
    sdk_fields,
)
from recollect.model.documents import PASSAGE_TYPES, VISIBILITIES, Document, Json, Passage
from recollect.model.kinds import KINDS, OBSERVATION
from recollect.model.sources import RECOLLECT
from recollect.settings import LIMITS

Moment = str | date | datetime | None
"""A point in time. Text is ISO 8601; a time without a zone is UTC."""

_MOST_NAMES = 100
_MESSAGE_FIELDS = frozenset(Passage._fields) - {"position", "canonical"}
_ANSWER_FIELDS = ("stop_reason", "stop_sequence", "usage")
"""What Anthropic's answers have beside the fields of a message."""
_OPTIONAL_TEXTS = ("author", "model", "tool", "parent")
_CHOICES = {"type": PASSAGE_TYPES, "visibility": VISIBILITIES}


def parse_moment(value: Moment, name: str, *, end: bool = False) -> datetime | None:
    """Convert a date or time. A bare date is the start of that day in UTC, or its `end`."""
    if value is None:
        return None
    try:
        if isinstance(value, datetime):
            if value.tzinfo is None:
                return value.replace(tzinfo=UTC)
            return value.astimezone(UTC)
        text = value if isinstance(value, str) else value.isoformat()
        return bound(text, end=end)
    except (ValueError, AttributeError, OverflowError, TypeError) as error:
        raise InvalidInput(
            f"{name}: {truncate(repr(value), 80)} is not a date. "
            "Use ISO 8601, such as 2026-01-31 or 2026-01-31T14:30:00+01:00."
        ) from error


def parse_names(values: str | Iterable[str], name: str) -> tuple[str, ...]:
    """Convert one name, or several."""
    names = (values,) if isinstance(values, str) else tuple(iterate(values, name))
    if len(names) > _MOST_NAMES:
        raise InvalidInput(f"{name}: at most {_MOST_NAMES} values are accepted.")
    for value in names:
        if not isinstance(value, str):
            raise InvalidInput(f"{name}: {truncate(repr(value), 80)} is not text.")
    return tuple(storable(value) for value in names)


def iterate(values: Iterable[str], name: str) -> Iterable[str]:
    if not isinstance(values, Iterable):
        raise InvalidInput(f"{name}: {truncate(repr(values), 80)} is neither a name nor a list.")
    return values


def parse_kinds(values: str | Iterable[str], name: str = "kinds") -> tuple[str, ...]:
    """Convert one kind of document, or several. Other names would find nothing."""
    kinds = parse_names(values, name)
    for kind in kinds:
        if kind not in (*KINDS, OBSERVATION):
            raise InvalidInput(f"{name}: {truncate(kind, 80)!r} is not one of {', '.join(KINDS)}.")
    return kinds


def require_choice(name: str, value: object, choices: Iterable[str]) -> None:
    """Raise InvalidInput if an argument has a value that it cannot have."""
    choices = tuple(choices)
    if value not in choices:
        text = truncate(str(value), 80)
        raise InvalidInput(f"{name}: {text!r} is not one of {', '.join(choices)}.")


def parse_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Convert one tag or several. Raises InvalidInput if there is none, or a blank one."""
    tags = parse_names(tags, "tags")
    names = names_of_tags(tags)
    if not names:
        raise InvalidInput("tags: name at least one tag.")
    if len(names) < len(tags):
        raise InvalidInput("tags: a tag must not be blank.")
    return names


def require_text(value: str, name: str) -> None:
    """Raise InvalidInput if a title or the name of a project is blank."""
    if not isinstance(value, str):
        raise InvalidInput(f"{name}: {truncate(repr(value), 80)} is not text.")
    if not value.strip():
        raise InvalidInput(f"{name}: it must not be blank.")


def names_of_tags(tags: Iterable[str]) -> tuple[str, ...]:
    names = (tag.strip() for tag in parse_names(tags, "tags"))
    return tuple(name for name in names if name)


def with_arguments(options: Any, arguments: Mapping[str, Any]) -> Any:
    """A dataclass with the arguments of a call in place of its own. Raises InvalidInput."""
    names = [field.name for field in fields(options)]
    for name in arguments:
        if name not in names:
            raise InvalidInput(
                f"There is no argument {truncate(name, 80)!r}. Use {', '.join(names)}."
            )
    return replace(options, **arguments)


def metadata_changes(
    metadata: Mapping[str, Json] | None, tags: Iterable[str] | None, pinned: bool | None
) -> dict[str, Json]:
    """The keys of the metadata to change, with tags and pin among them. None removes a key."""
    changes = dict(metadata or {})
    if pinned is not None:
        changes["pinned"] = pinned or None
    if tags is not None:
        changes["tags"] = list(dict.fromkeys(names_of_tags(tags))) or None
    return changes


def parse_message(message: Mapping[str, Any], tools: dict[str, str]) -> list[Passage]:
    """Convert a message: the fields of a Passage, or a message as an SDK has it.

    `tools` has the names of the tools of earlier calls, and gets those of this message.
    """
    fields = plain(message)
    values = {name: value for name, value in fields.items() if name not in sdk_fields(fields)}
    answer = {name: values.pop(name) for name in _ANSWER_FIELDS if name in values}
    unknown = sorted(values.keys() - _MESSAGE_FIELDS)
    if unknown:
        raise InvalidInput(
            f"A message has no field {unknown[0]!r}; extra data goes into `metadata`."
        )
    for name in ("id", "role"):
        value = fields.get(name)
        if not isinstance(value, str) or not value:
            raise InvalidInput(f"A message needs `{name}` as text, not {value!r}.")
    if has_human_only_values(fields.get("visibility") or ALL, {}):
        values["visibility"] = HUMAN_ONLY  # however it is spelled
    check_texts(values)
    for name in ("created_at", "updated_at"):
        values[name] = parse_moment(fields.get(name), name)
    for name in ("attachments", "citations"):
        value = fields.get(name) or ()
        if not isinstance(value, list | tuple):
            raise InvalidInput(f"{name}: {truncate(repr(value), 80)} is not a list.")
        values[name] = tuple(value)
    values["metadata"] = answer | mapping("metadata", fields.get("metadata"))
    if is_marked_human_only(values["metadata"]):
        values["visibility"] = HUMAN_ONLY
    passages = message_passages(Passage(**{**values, "content": ""}), fields, tools)
    if not passages:
        content = truncate(repr(fields.get("content")), 80)
        raise InvalidInput(f"A message needs `content` as text, not {content}.")
    return passages


def check_texts(fields: Mapping[str, Any]) -> None:
    """Raise InvalidInput if an optional field has a value that it cannot have."""
    for name in _OPTIONAL_TEXTS:
        value = fields.get(name)
        if value is not None and not isinstance(value, str):
            raise InvalidInput(f"{name}: {truncate(repr(value), 80)} is not text.")
    for name, choices in _CHOICES.items():
        require_choice(name, fields.get(name, choices[0]), choices)


def mapping(name: str, value: Mapping[str, Json] | None) -> dict[str, Json]:
    if value is not None and not isinstance(value, Mapping):
        raise InvalidInput(f"{name}: {truncate(repr(value), 80)} is not a mapping.")
    return dict(value or {})


def parse_messages(conversation_id: str, messages: Iterable[Mapping[str, Json]]) -> list[Passage]:
    """Convert messages. Without an id they are numbered; without a parent they are a sequence."""
    passages: list[Passage] = []
    ids: set[str] = set()
    tools: dict[str, str] = {}
    parent = None
    records = [plain(message) for message in messages]
    if any(map(is_response_item, records)):
        records = chat_messages(records)
    for number, message in enumerate(records):
        if not isinstance(message, Mapping):
            raise InvalidInput(
                f"messages: {truncate(repr(message), 80)} is not a message. "
                "Give mappings with `role` and `content`."
            )
        fields = {"id": f"{conversation_id}:{number}", "parent": parent, **message}
        for passage in parse_message(fields, tools):
            parent = passage.id
            if identifier(parent) in ids:
                raise InvalidInput(
                    f"Two messages have the id {truncate(parent, 80)!r}. "
                    "Ids must be unique in a conversation."
                )
            ids.add(identifier(parent))
            passages.append(passage)
    return passages


def new_message(role: str, content: Json, fields: Mapping[str, Any]) -> list[Passage]:
    """Build the passages of a message. Without an id in `fields` it gets a random one."""
    id_ = fields.get("id") or str(uuid.uuid4())
    return parse_message({**fields, "id": id_, "role": role, "content": content}, {})


def new_conversation(
    source_id: str,
    title: str,
    messages: Iterable[Mapping[str, Json]],
    *,
    project: str,
    created_at: Moment,
    metadata: Mapping[str, Json] | None,
) -> Document:
    """Build a conversation. By default it starts with its first message, or now."""
    for name, value in (("id", source_id), ("title", title)):
        if not isinstance(value, str):
            raise InvalidInput(f"{name}: {truncate(repr(value), 80)} is not text.")
    require_text(project, "project")
    passages = parse_messages(source_id, messages)
    times = [passage.created_at for passage in passages if passage.created_at]
    start = parse_moment(created_at, "created_at")
    if start is None and passages:
        start = passages[0].created_at
    if start is None:
        start = datetime.now(UTC)
    return Document(
        RECOLLECT.name,
        source_id,
        title,
        project=project,
        created_at=start,
        updated_at=max(times, default=start),
        passages=tuple(passages),
        metadata=mapping("metadata", metadata),
    )


def page_size(limit: int) -> int:
    """The size of a page, within what is allowed."""
    return max(1, min(whole_number(limit, "limit"), LIMITS.page_size))


def page_offset(offset: int) -> int:
    """The offset of a page, within what is allowed."""
    return max(0, min(whole_number(offset, "offset"), LIMITS.page_offset))


def whole_number(value: int, name: str) -> int:
    if not isinstance(value, int):
        raise InvalidInput(f"{name}: {truncate(repr(value), 80)} is not a whole number.")
    return value
