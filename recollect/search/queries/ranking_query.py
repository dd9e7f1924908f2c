"""What the ranker needs to know about a query."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from recollect.language.queries.intent import QUESTION
from recollect.language.when import Window
from recollect.search.queries.terms import Term


@dataclass(frozen=True, slots=True)
class RankingQuery:
    """A query as the ranker sees it: a question, keywords or an identifier."""

    text: str
    terms: tuple[Term, ...]
    now: datetime
    windows: tuple[Window, ...] = ()
    by_person: bool = True
    """False when searching for messages similar to another message."""
    intent: str = QUESTION
    phrase: Term | None = None
    """The words of keywords or a statement as typed, next to each other."""
