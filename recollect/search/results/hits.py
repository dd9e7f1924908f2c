"""Making hits from candidates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from recollect.language.queries.query_tree import Word
from recollect.model.search import Hit
from recollect.search.results.snippet import snippet_at
from recollect.settings import LIMITS
from recollect.store.values import Candidate


def make_hit(
    candidate: Candidate,
    words: Sequence[Word],
    score: float,
    length: int = LIMITS.snippet_length,
    **reasons: Any,
) -> Hit:
    """A hit with a snippet of about `length` characters around the words.

    `reasons` are fields of the hit that say why it matches.
    """
    start, text, marks = snippet_at(candidate.content, words, length)
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
        start=start,
        marks=marks,
        visibility=candidate.visibility,
        **reasons,
    )
