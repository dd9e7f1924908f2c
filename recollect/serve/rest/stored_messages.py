"""Lookup of a single stored message."""

from __future__ import annotations

from recollect.errors import NotFound
from recollect.library import Library
from recollect.model.documents import Passage


def stored_message(library: Library, conversation_id: str, message_id: str) -> Passage:
    """One message. Raises NotFound."""
    key = library.store.passage_key(conversation_id, message_id)
    match = library.store.passages_by_key([key]).get(key)
    if match is None:
        raise NotFound("The message was deleted.")
    return match[1]
