"""What is found in a library as contract 3 shapes it: the same fields for every kind of document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from recollect.importers.items import seconds_at
from recollect.language.query import Word
from recollect.language.text import identifier, iso
from recollect.model.audience import MASK, Audience, is_human_only
from recollect.model.documents import Document, Json, Passage, Summary
from recollect.model.kinds import CHARACTER, CONVERSATION, MEDIA, NOTE, PROMPT
from recollect.search.snippet import first_match, short_snippet

KINDS: Mapping[str, str] = {
    "notes": NOTE,
    "media": MEDIA,
    "chats": CONVERSATION,
    "characters": CHARACTER,
    "prompts": PROMPT,
}
"""The contract's names for the kinds of documents, and ours."""
NAMES = {kind: name for name, kind in KINDS.items()}
"""How messages that only people may see are answered: as they are, masked, or not at all."""

_LISTED = (
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
_SHOWN_ELSEWHERE = frozenset(("tags", "media_type", "url", "card"))


def uri_of(kind: str, document: str, message: str = "") -> str:
    """The address of a result; for a conversation, of one of its messages."""
    address = f"{NAMES[kind]}://{quote(identifier(document), safe='')}"
    return f"{address}#{quote(identifier(message), safe='')}" if message else address


def result(
    about: Summary | Document,
    passage: Passage | None,
    words: Sequence[Word],
    length: int,
    *,
    score: float,
    score_type: str,
    message: bool = False,
    title: bool = False,
    audience: Audience = Audience.PERSON,
) -> dict[str, Json]:
    """A result: a document found by one of its passages, or (`message`) that message of a conversation.

    With `title`, a conversation found by its title: its first message is shown after it.
    """
    masked = passage is not None and audience is not Audience.PERSON and is_human_only(passage)
    id_ = about.id or about.source_id
    shape: dict[str, Json] = {
        "id": id_,
        "source": NAMES[about.kind],
        "title": about.title or None,
        "snippet": _snippet(about, passage, words, length, title, masked),
        "uri": uri_of(about.kind, id_, passage.id if message and passage is not None else ""),
        "score": score,
        "score_type": score_type,
        "created_at": iso(about.created_at),
        "last_modified": iso(about.updated_at or about.created_at),
        "version": about.version,
        "tags": tags_of(about.metadata) or None,
        "media_type": None,
        "url": None,
        "conversation_id": None,
        "message_id": None,
        "sender": None,
        "loc": None
        if passage is None
        else location(about, passage, words, message=message, masked=masked),
    }
    if about.kind == MEDIA:
        shape |= {
            "media_type": _text(about.metadata, "media_type"),
            "url": _text(about.metadata, "url"),
        }
    if about.kind == CONVERSATION:
        shape["conversation_id"] = id_
        if message and passage is not None:
            shape |= {
                "message_id": passage.id,
                "sender": sender_of(passage),
                "created_at": iso(passage.created_at),
            }
            said = passage.updated_at or passage.created_at
            shape["last_modified"] = iso(said) if said is not None else shape["last_modified"]
    return shape


def list_entry(about: Summary) -> dict[str, Json]:
    """A document as lists show it: a result without what a search adds, and what else is known of it."""
    shape = result(about, None, (), 0, score=0, score_type="")
    kept = {name: value for name, value in about.metadata.items() if name not in _SHOWN_ELSEWHERE}
    return {name: shape[name] for name in _LISTED} | {"metadata": kept}


def location(
    about: Summary | Document,
    passage: Passage,
    words: Sequence[Word],
    *,
    message: bool = True,
    masked: bool = False,
) -> dict[str, Json]:
    """Where in its document a passage lies, and where in it the words do: what `get` takes to show more of it."""
    if about.kind == CONVERSATION:
        named: dict[str, Json] = {"conversation_id": about.id or about.source_id}
        return named | (
            {"message_id": passage.id, "message_index": passage.position} if message else {}
        )
    at = 0 if masked else first_match(passage.content, words) or 0
    where: dict[str, Json] = {
        "chunk_index": passage.position,
        "chunk_uuid": passage.id,
        "approx_offset": int(passage.metadata.get("start") or 0) + at,
    }
    if passage.type == "field":
        return {"field": passage.role} | where
    if about.kind == MEDIA:
        where = {"media_id": about.id or about.source_id, **where}
        if (page := passage.metadata.get("page")) is not None:
            where["page"] = page
        if (seconds := seconds_at(passage, at)) is not None:
            where["seconds"] = seconds
    return where


def sender_of(passage: Passage) -> str:
    return passage.author or passage.role or "unknown"


def tags_of(metadata: Mapping[str, Any]) -> list[str]:
    tags = metadata.get("tags")
    return [tag for tag in tags if isinstance(tag, str)] if isinstance(tags, list) else []


def _snippet(
    about: Summary | Document,
    passage: Passage | None,
    words: Sequence[Word],
    length: int,
    title: bool,
    masked: bool,
) -> str | None:
    if passage is None:
        return None
    if masked:
        return MASK[:length]
    if not title:
        return short_snippet(passage.content, words, length)
    heading = " ".join(about.title.split())[:length]
    room = length - len(heading) - 3
    first = short_snippet(passage.content, (), room) if room > 0 else ""
    return f"{heading} – {first}" if first else heading


def _text(metadata: Mapping[str, Any], name: str) -> str | None:
    value = metadata.get(name)
    return value if isinstance(value, str) and value else None
