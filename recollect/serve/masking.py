"""What only people may see, as an agent sees it: that it is there, and nothing of what it says.

Every route and every tool lets what it shows pass through here. A person's key sees
everything; an agent's key sees the mask in place of contents.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol

from recollect.model.audience import HUMAN_ONLY, MASK, is_human_only, is_marked_human_only
from recollect.model.documents import Document, Json, Passage
from recollect.model.search import Hit

__all__ = [
    "HUMAN_ONLY",
    "Reader",
    "is_marked_human_only",
    "masks",
    "shown_document",
    "shown_hit",
    "shown_passage",
]

_TOLD = (
    "visibility",
    "audience",
    "ui_type",
    "handoff_target",
    "target_admin_id",
    "source_message_id",
    "decision_type",
)
_HIDDEN: dict[str, Json] = {"content_hidden": True, "content_hidden_reason": HUMAN_ONLY}


class Reader(Protocol):
    """Who asks: a principal of the service, or the context of a tool's call."""

    @property
    def agent(self) -> bool: ...


def masks(reader: Reader, found: Passage | Hit) -> bool:
    return reader.agent and is_human_only(found)


def shown_passage(reader: Reader, passage: Passage) -> Passage:
    if not masks(reader, passage):
        return passage
    return passage._replace(
        content=MASK, attachments=(), citations=(), metadata=_projected(passage.metadata)
    )


def _projected(metadata: Mapping[str, Json]) -> dict[str, Json]:
    return {**{key: metadata[key] for key in _TOLD if key in metadata}, **_HIDDEN}


def shown_document(reader: Reader, document: Document) -> Document:
    if not any(masks(reader, passage) for passage in document.passages):
        return document
    return replace(document, passages=tuple(shown_passage(reader, p) for p in document.passages))


def shown_hit(reader: Reader, hit: Hit) -> Hit:
    if not reader.agent:
        return hit
    also = tuple(shown_hit(reader, other) for other in hit.also)
    if not masks(reader, hit):
        return replace(hit, also=also)
    return replace(
        hit,
        snippet=MASK,
        marks=(),
        terms=(),
        parts={},
        also=also,
        metadata=_projected(hit.metadata),
    )
