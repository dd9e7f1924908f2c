"""Searching for messages that are similar to a message."""

from __future__ import annotations

from collections.abc import Sequence

from recollect.index.meaning import Meaning
from recollect.language.queries.query import parse_query
from recollect.language.text import tokens
from recollect.model.search import Filter, Page, SearchOptions
from recollect.search.engine import Search
from recollect.search.evidence import CERTAIN, Assessment
from recollect.search.ranking.scored import Question, ScoredCandidate
from recollect.settings import LIMITS
from recollect.store.base import Store
from recollect.store.values import Candidate

_TERMS_OF_MESSAGE = 12  # terms of a message used to find similar ones


def related(
    store: Store,
    meaning: Meaning,
    conversation: str,
    message: str,
    filter: Filter,
    options: SearchOptions,
) -> Page:
    """Messages similar to a message, in words and in meaning, without the message itself."""
    key = store.passage_key(conversation, message)
    (candidate,) = store.candidates([key], Filter(hidden=True))
    return _SimilarSearch(store, meaning, candidate, filter, options).page()


class _SimilarSearch(Search):
    """A search for messages similar to a message."""

    def __init__(
        self,
        store: Store,
        meaning: Meaning,
        candidate: Candidate,
        filter: Filter,
        options: SearchOptions,
    ) -> None:
        self._candidate = candidate
        text = " ".join(dict.fromkeys(tokens(candidate.content)))
        super().__init__(store, meaning, parse_query(_truncate_query(text)), filter, options)
        self._pool_keys |= {candidate.key}  # keeps the message itself out of the pool
        shared = [term for term in self._own_terms if term.frequency > 1]
        shared.sort(key=lambda term: -term.weight)
        self._terms = tuple(shared[:_TERMS_OF_MESSAGE])
        self.node = self._text_node()
        now = candidate.created_at or options.now
        self.question = Question("", self._scoring_terms(), now, by_person=False)

    def _embed_query(self, text: str) -> None:
        """Use the vectors of the message if it has any."""
        self._space = self._meaning.space()
        if self._space is not None:
            vectors = self._store.vectors(self._space, self._candidate.key)
            if vectors:
                total = sum(vectors[1:], vectors[0])
                self._vector = total / (total @ total) ** 0.5
                return
        super()._embed_query(text)

    def assess(self, ranking: Sequence[ScoredCandidate]) -> Assessment:
        """Similar messages need not contain most of the message, as hits should of a query."""
        return CERTAIN

    def _total(self, ranking: Sequence[ScoredCandidate]) -> tuple[int, bool]:
        total, is_exact = super()._total(ranking)
        if is_exact and not self.is_exhausted and self.candidates([self._candidate.key]):
            total -= 1  # the text index counts the message itself
        return max(total, len(ranking)), is_exact


def _truncate_query(text: str) -> str:
    """As much of a text as a query may have."""
    cut = text.encode()[: LIMITS.query_bytes].decode(errors="ignore")
    return " ".join(cut.split()[: LIMITS.query_terms])
