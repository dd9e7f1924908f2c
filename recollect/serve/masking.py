"""Masking: what an agent gets instead of human-only messages.

Every route and tool passes documents, messages and hits through these functions before it returns
them. People see everything. Agents see that a human-only message exists, but not its content. With
RECOLLECT_HUMAN_ONLY=hide, agents neither find such messages nor read them anywhere but on pages of
the console, which number all messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from recollect import settings
from recollect.model.audience import HUMAN_ONLY, MASK, Audience, Labelled, is_human_only
from recollect.model.documents import Document, Json, Passage
from recollect.model.search import Hit

# Metadata that agents need to handle a message they cannot read.
_VISIBLE_METADATA = (
    "visibility",
    "audience",
    "ui_type",
    "handoff_target",
    "target_admin_id",
    "source_message_id",
    "decision_type",
)


def audience_of(*, is_agent: bool) -> Audience:
    """Who reads an answer, by whether an agent asked for it."""
    if not is_agent:
        return Audience.PERSON
    if settings.HUMAN_ONLY.get() == "hide":
        return Audience.AGENT_HIDDEN
    return Audience.AGENT_MASKED


def can_find(message: Labelled, audience: Audience) -> bool:
    """Whether this audience may know that a message exists. It may still have to be masked."""
    return audience is not Audience.AGENT_HIDDEN or not is_human_only(message)


def is_masked(message: Passage | Hit, audience: Audience) -> bool:
    """Whether this audience gets a mask instead of the message's content."""
    return audience is not Audience.PERSON and is_human_only(message)


def mask_passage(passage: Passage, audience: Audience) -> Passage:
    if not is_masked(passage, audience):
        return passage
    return passage._replace(
        content=MASK, attachments=(), citations=(), metadata=mask_metadata(passage.metadata)
    )


def visible_document(document: Document, audience: Audience) -> Document:
    """The document without the messages that this audience may not find; others are masked."""
    if not has_masked_messages(document, audience):
        return document
    passages = tuple(passage for passage in document.passages if can_find(passage, audience))
    return mask_document(replace(document, passages=passages), audience)


def mask_document(document: Document, audience: Audience) -> Document:
    if not has_masked_messages(document, audience):
        return document
    passages = tuple(mask_passage(passage, audience) for passage in document.passages)
    return replace(document, passages=passages)


def has_masked_messages(document: Document, audience: Audience) -> bool:
    return any(is_masked(passage, audience) for passage in document.passages)


def mask_hit(hit: Hit, audience: Audience) -> Hit:
    if audience is Audience.PERSON:
        return hit
    also = tuple(mask_hit(other, audience) for other in hit.also)
    if not is_masked(hit, audience):
        return replace(hit, also=also)
    return replace(
        hit,
        snippet=MASK,
        marks=(),
        terms=(),
        parts={},
        also=also,
        metadata=mask_metadata(hit.metadata),
    )


def mask_metadata(metadata: Mapping[str, Json]) -> dict[str, Json]:
    visible = {name: metadata[name] for name in _VISIBLE_METADATA if name in metadata}
    return {**visible, "content_hidden": True, "content_hidden_reason": HUMAN_ONLY}
