"""Search for a text as it is written: newest messages first, without ranking."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from recollect.errors import SearchTimeout
from recollect.language.queries.query import check_size
from recollect.language.text import has_token, identifier, storable
from recollect.model.audience import MASK, Audience, is_human_only
from recollect.model.documents import Passage
from recollect.model.kinds import CONVERSATION
from recollect.model.search import Filter
from recollect.settings import LIMITS
from recollect.store.base import Store
from recollect.store.values import Candidate

_FARTHEST_RECENT = 10_000
"""How many messages `recent` looks at before it stops replacing hidden ones by older ones."""


def recent(
    store: Store, text: str | None, filter: Filter, limit: int, audience: Audience
) -> list[Candidate]:
    """The newest messages that contain the text, in content or title.

    If there are none, those that contain all its words.
    """
    check_size(text or "", LIMITS.long_query_bytes)
    query = storable(text) if text else None
    messages = _recent(store, query, filter, limit, audience)
    if not messages and query and has_token(query):
        messages = _recent(store, query, filter, limit, audience, by_words=True)
    return messages


def _recent(
    store: Store,
    text: str | None,
    filter: Filter,
    limit: int,
    audience: Audience,
    by_words: bool = False,
) -> list[Candidate]:
    size = limit
    while True:
        candidates = store.recent(text, filter, size, by_words)
        visible = _visible_candidates(store, candidates, audience)
        if len(visible) >= limit or len(candidates) < size or size >= _FARTHEST_RECENT:
            return visible[:limit]
        size *= 4  # Older messages take the place of hidden ones.


class TextMatches(NamedTuple):
    """One page of the messages that contain a text."""

    messages: list[tuple[str, Passage]]
    """Each with the id of its conversation, newest first."""
    total: int
    """How many messages there are on all pages."""


def find_text(
    store: Store, text: str, conversation_id: str | None, limit: int, offset: int
) -> TextMatches:
    """One page of the messages that contain a text. Raises NotFound or SearchTimeout."""
    check_size(text, LIMITS.long_query_bytes)
    conversations: tuple[str, ...] = ()
    if conversation_id is not None:
        conversations = (identifier(store.header(conversation_id).id),)
    filter = Filter(kinds=(CONVERSATION,), conversations=conversations)
    matches = store.find_substring(storable(text), filter, limit, offset)
    if not matches.is_complete:
        raise SearchTimeout
    contents = store.passages_by_key([candidate.key for candidate in matches.candidates])
    messages = [contents[c.key] for c in matches.candidates if c.key in contents]
    return TextMatches(messages, matches.total)


def _visible_candidates(
    store: Store, candidates: Sequence[Candidate], audience: Audience
) -> list[Candidate]:
    """Mask or drop the human-only messages among these, unless a person reads them."""
    if audience is Audience.PERSON:
        return list(candidates)
    contents = store.passages_by_key([candidate.key for candidate in candidates])
    human_only = {key for key, (_, message) in contents.items() if is_human_only(message)}
    visible = []
    for candidate in candidates:
        if candidate.key not in human_only:
            visible.append(candidate)
        elif audience is Audience.AGENT_MASKED:
            visible.append(candidate._replace(content=MASK))
    return visible
