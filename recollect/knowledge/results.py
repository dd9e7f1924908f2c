"""Results of the Knowledge API: the same fields for every kind of item."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from recollect.importers.items import page_at, seconds_at
from recollect.language.queries.query_tree import Word
from recollect.language.symbols import without_terminal_codes
from recollect.language.text import identifier, iso
from recollect.model.audience import MASK, Audience, is_human_only
from recollect.model.documents import Document, Json, Passage, Summary
from recollect.model.fields import EDITED_FIELDS
from recollect.model.kinds import CHARACTER, CONVERSATION, KIND_TABLE, MEDIA, NOTE, PROMPT
from recollect.search.snippets import best_match, short_snippet

SOURCE_NAMES: Mapping[str, str] = {kind.name: kind.knowledge for kind in KIND_TABLE}
"""The API's name for each kind: its `source`."""
SOURCES: Mapping[str, str] = {
    SOURCE_NAMES[kind]: kind for kind in (NOTE, MEDIA, CONVERSATION, CHARACTER, PROMPT)
}
"""The kind of each source, in the order of the API."""

_RESULT_FIELDS = (
    "id",
    "source",
    "title",
    "snippet",
    "uri",
    "score",
    "score_type",
    "created_at",
    "last_modified",
    "version",
    "tags",
    "media_type",
    "url",
    "conversation_id",
    "message_id",
    "sender",
    "loc",
)
"""The fields of a result, in their order. Those that do not apply are null."""
_LIST_FIELDS = (
    "id",
    "source",
    "title",
    "uri",
    "created_at",
    "last_modified",
    "version",
    "tags",
    "media_type",
    "url",
)
_START_OF_MESSAGE = 40
"""A match in the first characters of a message needs no offset: every snippet shows it."""
_HIDDEN_METADATA = frozenset(("tags", "media_type", "url", "card", EDITED_FIELDS))
"""Metadata that lists have in fields of their own, or not at all."""


@dataclass(frozen=True, slots=True)
class SnippetOptions:
    """How to make the snippet of a result."""

    words: Sequence[Word] = ()
    length: int = 0
    audience: Audience = Audience.PERSON
    offset: int | None = None
    """The place in the passage to show. None: where the words are."""

    def place_in(self, passage: Passage) -> int:
        """The offset in a passage of what the result is about."""
        if self.is_masked(passage):
            return 0
        if self.offset is not None:
            return self.offset
        return best_match(passage.content, self.words, self.length) or 0

    def is_masked(self, passage: Passage | None) -> bool:
        """Whether the reader gets a mask instead of the passage."""
        if passage is None or self.audience is Audience.PERSON:
            return False
        return is_human_only(passage)


def uri_of(kind: str, document: str, message: str = "") -> str:
    """The URI of an item; of a message, if one is given."""
    uri = f"{SOURCE_NAMES[kind]}://{quote(identifier(document), safe='')}"
    if message:
        uri += f"#{quote(identifier(message), safe='')}"
    return uri


def result(
    about: Summary | Document,
    passage: Passage | None,
    options: SnippetOptions,
    *,
    score: float,
    score_type: str,
    is_message: bool = False,
    by_title: bool = False,
) -> dict[str, Json]:
    """A result: an item found by one of its passages, or a message of a conversation.

    With `is_message` the result is the passage itself. With `by_title` it is a conversation found
    by its title; its snippet is the title, followed by the passage.
    """
    id_ = about.id or about.source_id
    fields: dict[str, Json] = dict.fromkeys(_RESULT_FIELDS)
    fields |= {
        "id": id_,
        "source": SOURCE_NAMES[about.kind],
        "title": about.title or None,
        "snippet": snippet(about, passage, options, by_title),
        "uri": uri_of(about.kind, id_),
        "score": score,
        "score_type": score_type,
        "created_at": iso(about.created_at),
        "last_modified": iso(about.updated_at or about.created_at),
        "version": about.version,
        "tags": tags_of(about.metadata) or None,
    }
    if about.kind == MEDIA:
        fields |= media_fields(about.metadata)
    if about.kind == CONVERSATION:
        fields["conversation_id"] = id_
    if passage is not None:
        fields["loc"] = location(about, passage, options, is_message=is_message)
        if is_message:
            fields |= message_fields(passage, uri_of(about.kind, id_, passage.id))
    return fields


def media_fields(metadata: Mapping[str, Any]) -> dict[str, Json]:
    return {"media_type": _text(metadata, "media_type"), "url": _text(metadata, "url")}


def message_fields(passage: Passage, uri: str) -> dict[str, Json]:
    """The fields that a message has instead of its conversation's."""
    fields: dict[str, Json] = {
        "uri": uri,
        "message_id": passage.id,
        "sender": sender_of(passage),
        "created_at": iso(passage.created_at),
    }
    changed_at = passage.updated_at or passage.created_at
    if changed_at is not None:
        fields["last_modified"] = iso(changed_at)
    return fields


def list_entry(about: Summary) -> dict[str, Json]:
    """An item in a list: a result without the fields of a search, but with its metadata."""
    fields = result(about, None, SnippetOptions(), score=0, score_type="")
    metadata = {name: v for name, v in about.metadata.items() if name not in _HIDDEN_METADATA}
    return {name: fields[name] for name in _LIST_FIELDS} | {"metadata": metadata}


def location(
    about: Summary | Document,
    passage: Passage,
    options: SnippetOptions,
    *,
    is_message: bool = True,
) -> dict[str, Json]:
    """Where the words are: the `loc` of a result, which `get` takes to return more text."""
    id_ = about.id or about.source_id
    offset = options.place_in(passage)
    if about.kind == CONVERSATION:
        loc: dict[str, Json] = {"conversation_id": id_}
        if is_message:
            loc |= {"message_id": passage.id, "message_index": passage.position}
            if offset > _START_OF_MESSAGE:
                loc["approx_offset"] = offset
        return loc
    loc = {
        "chunk_index": passage.position,
        "chunk_uuid": passage.id,
        "approx_offset": int(passage.metadata.get("start") or 0) + offset,
    }
    if passage.type == "field":
        return {"field": passage.role} | loc
    if about.kind != MEDIA:
        return loc
    loc = {"media_id": id_, **loc}
    page = page_at(passage, offset)
    if page is not None:
        loc["page"] = page
    seconds = seconds_at(passage, offset)
    if seconds is not None:
        loc["seconds"] = seconds
    return loc


def sender_of(passage: Passage) -> str:
    return passage.author or passage.role or "unknown"


def tags_of(metadata: Mapping[str, Any]) -> list[str]:
    tags = metadata.get("tags")
    if not isinstance(tags, list):
        return []
    return [tag for tag in tags if isinstance(tag, str)]


def snippet(
    about: Summary | Document, passage: Passage | None, options: SnippetOptions, by_title: bool
) -> str | None:
    if passage is None:
        return None
    if by_title:
        return title_snippet(about, passage, options)
    if options.is_masked(passage):
        return MASK[: options.length]
    if options.offset is not None:
        return text_around(passage.content, options.offset, options.length)
    return short_snippet(passage.content, options.words, options.length)


def title_snippet(about: Summary | Document, passage: Passage, options: SnippetOptions) -> str:
    """The title, and the start of the passage if there is room."""
    heading = " ".join(about.title.split())[: options.length]
    room = options.length - len(heading) - 3
    if room <= 0:
        return heading
    text = MASK[:room]
    if not options.is_masked(passage):
        text = short_snippet(passage.content, (), room)
    if not text:
        return heading
    return f"{heading} – {text}"


def text_around(content: str, offset: int, length: int) -> str:
    """At most `length` characters, a quarter of them before the offset."""
    before = without_terminal_codes(content[:offset])
    content = before + without_terminal_codes(content[offset:])
    offset = len(before)
    room = max(1, length - 2)
    start = max(0, min(offset - room // 4, len(content) - room))
    if start > 0:
        space = content.find(" ", start, offset)
        start = max(start, space + 1)
    text = " ".join(content[start : start + room].split())
    if start > 0:
        text = "…" + text
    if start + room < len(content):
        text += "…"
    return text[:length]


def _text(metadata: Mapping[str, Any], name: str) -> str | None:
    value = metadata.get(name)
    if isinstance(value, str) and value:
        return value
    return None
