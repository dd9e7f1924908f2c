"""Making hits from candidates."""

from __future__ import annotations

from collections.abc import Sequence

from recollect.language.query import Word
from recollect.model.search import Hit
from recollect.search.snippet import snippet
from recollect.store.values import Candidate


def make_hit(candidate: Candidate, words: Sequence[Word], score: float) -> Hit:
    """A hit with a snippet around the words."""
    text, marks = snippet(candidate.content, words)
    return Hit(
        message_id=candidate.id,
        conversation_id=candidate.document,
        title=candidate.title,
        role=candidate.role,
        author=candidate.author,
        type=candidate.type,
        created_at=candidate.created_at,
        source=candidate.source,
        kind=candidate.kind,
        project=candidate.project,
        position=candidate.position,
        canonical=candidate.canonical,
        score=score,
        snippet=text,
        marks=marks,
        visibility=candidate.visibility,
    )
