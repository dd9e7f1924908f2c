"""Creating and editing items, and conversations: once, even if several processes try to."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from recollect.errors import Conflict, InvalidInput, NotFound
from recollect.importers.items import FIELDS, fields_of, with_cues, with_fields, with_text
from recollect.importers.knowledge.characters import card_fields
from recollect.importers.knowledge.notes import links
from recollect.knowledge.results import SOURCE_NAMES, tags_of
from recollect.language import transcript
from recollect.language.text import identifier, moment, storable, truncate
from recollect.model.documents import Document, Json, Passage, Summary
from recollect.model.kinds import CHARACTER, CONVERSATION, MEDIA, NOTE, PROMPT
from recollect.model.sources import RECOLLECT
from recollect.store.base import Store

MEDIA_TYPES = tuple(
    "video audio podcast pdf epub docx pptx html markdown txt image article".split()
)
"""The usual types of media; any other word is allowed."""
CARD_NAMES = {"first_message": "first_mes", "message_example": "mes_example"}
"""Fields that have another name on character cards."""
_WRITABLE_FIELDS: Mapping[str, frozenset[str]] = {
    NOTE: frozenset(("title", "content", "keywords", "tags")),
    MEDIA: frozenset(
        "title content transcript media_type url author language created_at keywords tags".split()
    ),
    CHARACTER: frozenset((*FIELDS[CHARACTER], "card", "keywords")),
    PROMPT: frozenset((*FIELDS[PROMPT], "tags")),
}
_LONGEST_NAME = 500
_LONGEST_TITLE = 120  # of a title taken from the text
_MOST_KEYWORDS = 200


def new_document(kind: str, fields: Mapping[str, Any]) -> Document:
    """A new item with these fields. Raises InvalidInput."""
    check_fields(kind, fields)
    now = datetime.now(UTC)
    document = Document(
        RECOLLECT.name,
        str(uuid.uuid4()),
        kind=kind,
        created_at=_created_at(fields) or now,
        updated_at=now,
    )
    texts = (_text(fields, name).strip() for name in ("title", "content", "transcript"))
    if kind not in FIELDS and not any(texts):
        raise InvalidInput(f"title: a {kind} needs a title or a content.")
    return edit_document(document, fields)


def edit_document(document: Document, fields: Mapping[str, Any]) -> Document:
    """The item with these fields changed; everything else stays. Raises InvalidInput."""
    check_fields(document.kind, fields)
    document = replace(document, metadata=_metadata(document, fields), updated_at=datetime.now(UTC))
    if document.kind == CHARACTER:
        return edit_character(document, fields)
    if document.kind == PROMPT:
        return edit_prompt(document, fields)
    if "title" in fields:
        document = replace(document, title=single_line(_text(fields, "title")))
    document = replace(document, created_at=_created_at(fields) or document.created_at)
    if fields.get("transcript"):
        return with_transcript(document, fields["transcript"])
    if "content" in fields or not document.passages:
        content = _text(fields, "content")
        if document.kind == NOTE:
            document = replace(document, metadata={**document.metadata, "links": links(content)})
        return with_text(replace(document, title=document.title or first_line(content)), content)
    passages = tuple(p._replace(created_at=document.created_at) for p in document.passages)
    return replace(document, passages=passages)


def check_fields(kind: str, fields: Mapping[str, Any]) -> None:
    if kind == CONVERSATION:
        raise InvalidInput("Conversations are written message by message, through /conversations.")
    writable = _WRITABLE_FIELDS[kind]
    unknown = sorted(fields.keys() - writable)
    if unknown:
        raise InvalidInput(
            f"{SOURCE_NAMES[kind]}: there is no field {truncate(unknown[0], 80)!r}. "
            f"The fields are {', '.join(sorted(writable))}."
        )


def _metadata(document: Document, fields: Mapping[str, Any]) -> dict[str, Json]:
    metadata = dict(document.metadata)
    if document.kind == MEDIA:
        for name in ("url", "author", "language"):
            if name in fields:
                metadata[name] = _text(fields, name) or None
        media_type = single_line(_text(fields, "media_type")).lower()
        metadata["media_type"] = media_type or metadata.get("media_type") or "txt"
    keywords = fields.get("keywords", fields.get("tags"))
    if keywords is not None:
        metadata["tags"] = _keywords(keywords) or None
    return {name: value for name, value in metadata.items() if value is not None}


def with_transcript(document: Document, value: Any) -> Document:
    if not isinstance(value, str):
        value = json.dumps(value)
    cues = transcript.parse(storable(value)).cues
    if not cues:
        raise InvalidInput(
            "transcript: it contains no times. Give SRT, VTT, SBV or JSON with segments."
        )
    return with_cues(document, cues)


# -- characters and prompts ----------------------------------------------------


def edit_character(document: Document, fields: Mapping[str, Any]) -> Document:
    card = edit_card(document, fields)
    values = fields_of(document.passages)
    for name, text in card_fields(card).items():
        if CARD_NAMES.get(name, name) in card:
            values[name] = text
    tags = _keywords(card.get("tags") or [])
    values["tags"] = ", ".join(tags)
    document = replace(document, metadata={**document.metadata, "card": card, "tags": tags})
    return with_values(document, values)


def edit_prompt(document: Document, fields: Mapping[str, Any]) -> Document:
    values = fields_of(document.passages)
    for name in FIELDS[PROMPT]:
        if name in fields:
            values[name] = join(fields[name], name)
    values["keywords"] = ", ".join(tags_of(document.metadata))
    author = values.get("author", "")
    document = replace(document, metadata={**document.metadata, "author": author})
    return with_values(document, values)


def with_values(document: Document, values: dict[str, str]) -> Document:
    values["name"] = single_line(values.get("name") or "")
    if not values["name"]:
        raise InvalidInput(f"name: a {document.kind} needs a name.")
    edited = with_fields(document, values)
    if not document.passages or not document.passages[0].attachments:
        return edited
    # The avatar is attached to the first passage.
    first = edited.passages[0]._replace(attachments=document.passages[0].attachments)
    return replace(edited, passages=(first, *edited.passages[1:]))


def edit_card(document: Document, fields: Mapping[str, Any]) -> dict[str, Any]:
    card = dict(document.metadata.get("card") or {})
    data = fields.get("card") or {}
    if not isinstance(data, Mapping):
        raise InvalidInput("card must be an object: the card's `data`.")
    if "spec" in data and isinstance(data.get("data"), Mapping):
        data = data["data"]
    card |= data
    for name in FIELDS[CHARACTER]:
        if name in fields:
            card[CARD_NAMES.get(name, name)] = card_value(name, fields[name])
    if "keywords" in fields or "tags" in fields:
        card["tags"] = _keywords(fields.get("keywords", fields.get("tags")))
    return card


def card_value(name: str, value: Any) -> Any:
    """A field as cards have it: greetings are a list, and the lorebook is an object."""
    if name == "alternate_greetings" and isinstance(value, str):
        return [value] if value else []
    if name == "character_book" and isinstance(value, str):
        entry = {"keys": [], "content": value, "enabled": True, "insertion_order": 0}
        return {"entries": [{**entry, "extensions": {}}]}
    if isinstance(value, (list, tuple, Mapping)):
        return value
    return join(value, name)


# -- values --------------------------------------------------------------------


def join(value: Any, name: str) -> str:
    """A field as text. Lists have one item per paragraph; keywords are separated by commas."""
    if value is None:
        return ""
    if isinstance(value, (list, tuple)):
        separator = ", " if name in ("tags", "keywords") else "\n\n"
        return separator.join(storable(str(item)) for item in value)
    if not isinstance(value, (str, int, float)) or isinstance(value, bool):
        raise InvalidInput(f"{name}: give a text.")
    return storable(str(value))


def _text(fields: Mapping[str, Any], name: str) -> str:
    value = fields.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InvalidInput(f"{name}: give a text, not {truncate(repr(value), 80)}.")
    return storable(value)


def _keywords(value: Any) -> list[str]:
    """Keywords from a list, or from a text with commas."""
    if isinstance(value, str):
        value = value.split(",")
    is_list = isinstance(value, (list, tuple)) and len(value) <= _MOST_KEYWORDS
    if not is_list or not all(isinstance(item, str) for item in value):
        raise InvalidInput(
            f"keywords: give a list of up to {_MOST_KEYWORDS} texts, or one text with commas "
            "between them."
        )
    keywords = [single_line(storable(item)) for item in value if item.strip()]
    return list(dict.fromkeys(keywords))


def _created_at(fields: Mapping[str, Any]) -> datetime | None:
    value = fields.get("created_at")
    if value is None:
        return None
    created_at = moment(value)
    if created_at is None:
        raise InvalidInput(
            f"created_at: {truncate(repr(value), 80)} is not a date. Use ISO 8601, such as "
            "2026-01-31."
        )
    return created_at


def single_line(text: str) -> str:
    return " ".join(text.split())[:_LONGEST_NAME]


def first_line(text: str) -> str:
    for line in text.splitlines():
        if line.strip(" #"):
            return single_line(line.strip().lstrip("#"))[:_LONGEST_TITLE]
    return ""


# -- conversations -------------------------------------------------------------


def ensure_conversation(
    store: Store, conversation: Document, id: str | None, on_create: Callable[[], None]
) -> Summary:
    """The conversation with this source and source id. See `Library.ensure_conversation`."""
    source, source_id = conversation.source, conversation.source_id
    existing = store.find_id(source, source_id)
    if existing is None and id is not None and exists(store, id):
        existing = store.find_id(source, source_id)  # It may have been created just now.
        if existing is None:
            raise id_in_use(id)
    if existing is None:
        existing = create(store, conversation, id)
        on_create()
    if id is not None and identifier(existing) != identifier(id):
        raise Conflict(
            f"Session {source_id[:80]!r} already has the conversation {existing[:80]!r}."
        )
    return store.summary(existing)


def add_conversation(store: Store, conversation: Document, defaults: Sequence[str]) -> str:
    """Store a conversation, or add what the stored one does not have. Returns its id.

    The fields named in `defaults`, empty fields and other keys of the metadata stay as they are
    stored. Raises Conflict if the stored conversation has another message with one of the ids.
    """
    id_ = store.find_id(conversation.source, conversation.source_id)
    if id_ is None:
        (saved,) = store.save([conversation], only_new=True)
        if saved.created:
            return saved.id
        id_ = saved.id  # Another process was faster.
    if conversation.passages:
        store.extend(id_, new_replies(store, id_, conversation.passages), require_same=True)
    stored = store.document(id_, with_passages=False)
    stored_fields = {name: getattr(stored, name) for name in defaults}
    fields = replace(
        conversation,
        passages=(),
        updated_at=stored.updated_at,
        metadata={**stored.metadata, **conversation.metadata},
        **stored_fields,
    )
    store.save([fields])
    return id_


def new_replies(store: Store, id: str, passages: Sequence[Passage]) -> list[Passage]:
    """The passages; those that are stored have no parent, because it is known."""
    stored_ids = {identifier(position.id) for position in store.positions(id)}
    replies = []
    for passage in passages:
        if identifier(passage.id) in stored_ids:
            passage = passage._replace(parent=None)
        replies.append(passage)
    return replies


def create(store: Store, conversation: Document, id: str | None) -> str:
    now = datetime.now(UTC)
    new_id = id or conversation.id or str(uuid.uuid4())
    document = replace(conversation, id=new_id, created_at=now, updated_at=now)
    (saved,) = store.save([document])
    if id is not None and saved.created and identifier(saved.id) != identifier(id):
        # Another process used the id in the meantime.
        store.delete(saved.id)
        raise id_in_use(id)
    return saved.id


def exists(store: Store, id: str) -> bool:
    with suppress(NotFound):
        return identifier(store.document(id, with_passages=False).id) == identifier(id)
    return False


def id_in_use(id: str) -> Conflict:
    return Conflict(f"Conversation id {id[:80]!r} is already used by another conversation.")
