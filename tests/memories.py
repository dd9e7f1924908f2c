"""What tests of the memory need beside its public surface: stored observations, and its texts."""

from __future__ import annotations

from typing import Any

from recollect import Audience, Library
from recollect.language.chunking import count_tokens
from recollect.memory import backlog
from recollect.memory.observe import as_document, conversation_text
from recollect.memory.rendering import search_json, search_text
from recollect.memory.results import ConversationHit, MemoryResults, ObservationHit
from recollect.model.audience import MASK
from recollect.model.observations import Observation

__all__ = [
    "MASK",
    "Audience",
    "ConversationHit",
    "MemoryResults",
    "ObservationHit",
    "conversation_text",
    "count_tokens",
    "search_json",
    "search_text",
]


def save_observations(library: Library, conversation: str, *observations: dict[str, Any]) -> None:
    """Replace the observations of a conversation, and wake the background thread."""
    document = library.conversation(conversation)
    rows = [
        Observation(
            **{
                "type": "decision",
                "conversation": conversation,
                "project": document.project,
                "lines": (5, 12),
                "passages": tuple(passage.id for passage in document.passages),
                "created_at": document.created_at,
                **fields,
            }
        )
        for fields in observations
    ]
    library._store.save_observations(conversation, document.version, as_document(document, rows))
    library.wake_indexer()


def observe_all(library: Library) -> int:
    """Observe what is new, and return the number of conversations."""
    return backlog.catch_up(library._store)
