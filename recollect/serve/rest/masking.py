"""What only people may see, as an agent sees it: that it is there, and nothing of what it says.

Every route lets what it shows pass through here. A person's key sees
everything; an agent's key sees the mask in place of contents.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from recollect.model import MASK, Document, Hit, Json, Passage
from recollect.serve.access import Principal

HUMAN_ONLY = "human_only"

_TOLD = (
    "visibility", "audience", "ui_type", "handoff_target", "target_admin_id", "source_message_id", "decision_type",
)  # fmt: skip
_HIDDEN: dict[str, Json] = {"content_hidden": True, "content_hidden_reason": HUMAN_ONLY}


def for_people(metadata: Mapping[str, Json]) -> bool:
    """Whether a message's metadata says that only people may see it."""
    visibility, audience = metadata.get("visibility"), metadata.get("audience")
    return _said(visibility) == HUMAN_ONLY or _said(audience) == "human"


def _said(value: Json) -> str:
    return value.strip().lower() if isinstance(value, str) else ""


def masks(principal: Principal, passage: Passage) -> bool:
    return principal.agent and (passage.visibility == HUMAN_ONLY or for_people(passage.metadata))


def shown_passage(principal: Principal, passage: Passage) -> Passage:
    if not masks(principal, passage):
        return passage
    return passage._replace(content=MASK, attachments=(), citations=(), metadata=_projected(passage.metadata))


def _projected(metadata: Mapping[str, Json]) -> dict[str, Json]:
    return {**{key: metadata[key] for key in _TOLD if key in metadata}, **_HIDDEN}


def shown_document(principal: Principal, document: Document) -> Document:
    if not any(masks(principal, passage) for passage in document.passages):
        return document
    return replace(document, passages=tuple(shown_passage(principal, p) for p in document.passages))


def shown_hit(principal: Principal, hit: Hit) -> Hit:
    if not principal.agent:
        return hit
    also = tuple(shown_hit(principal, other) for other in hit.also)
    if hit.visibility != HUMAN_ONLY and not for_people(hit.metadata):
        return replace(hit, also=also)
    return replace(
        hit, snippet=MASK, marks=(), terms=(), parts={}, also=also, metadata=_projected(hit.metadata)
    )  # fmt: skip
