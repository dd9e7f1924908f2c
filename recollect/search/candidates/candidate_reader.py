"""Reading candidates: their texts, the terms in them, and the messages before the best of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from recollect.language.queries.intent import QUESTION
from recollect.model.kinds import CONVERSATION, KINDS
from recollect.search.candidates.arms import VectorArm
from recollect.search.candidates.scope import Scope
from recollect.search.passages import ScoredCandidate, find_terms
from recollect.search.queries.interpretation import Interpretation
from recollect.settings import LIMITS

_CHARACTERS_AT_ONCE = 300_000  # the deadline is checked after each batch
_WITHOUT_MESSAGES = frozenset(KINDS) - {CONVERSATION}
# For the best candidates, the previous message is read as well.
_MESSAGES_WITH_CONTEXT = 16
_CONVERSATIONS_WITH_CONTEXT = 64


class CandidateReader:
    """Prepares the candidates of one pool for the ranker, as many as there is time for."""

    def __init__(self, interpretation: Interpretation, scope: Scope, vector_arm: VectorArm) -> None:
        self._interpretation = interpretation
        self._store = scope.store
        self._deadline = scope.store.deadline
        self._vector_arm = vector_arm
        self._kinds = frozenset(scope.filter.kinds)

    def context(self, pool: Sequence[ScoredCandidate]) -> list[ScoredCandidate]:
        """The messages before the best candidates, if they are not candidates themselves.

        The ranking of questions depends on them.
        """
        if not pool or not self._may_need_context() or self._deadline.is_over():
            return []
        size = _MESSAGES_WITH_CONTEXT
        if self._interpretation.options.group == "conversation":
            size = _CONVERSATIONS_WITH_CONTEXT
        best = sorted(pool, key=preliminary_score, reverse=True)[:size]
        keys = {scored.candidate.key for scored in pool}
        previous = self._store.previous_passages([scored.candidate.key for scored in best])
        context = self.with_terms(
            [ScoredCandidate(candidate) for candidate in previous if candidate.key not in keys]
        )
        self.set_cosines(context, {})
        return context

    def _may_need_context(self) -> bool:
        """Whether this is a question, and not only for notes, media, characters or prompts."""
        has_messages = not self._kinds or not self._kinds <= _WITHOUT_MESSAGES
        return has_messages and self._interpretation.intent == QUESTION

    def with_terms(self, candidates: Sequence[ScoredCandidate]) -> list[ScoredCandidate]:
        """The candidates with their terms, as many as there is time for."""
        pool: list[ScoredCandidate] = []
        for batch in _batches(candidates):
            if pool and self._deadline.is_over():
                break
            find_terms(self._interpretation.ranking_query, batch)
            pool += batch
        return pool

    def set_cosines(self, pool: Sequence[ScoredCandidate], cosines: Mapping[int, float]) -> None:
        """Set the cosines of candidates. `cosines` is what the vector arm has found."""
        if self._interpretation.meaning.vector is None:
            return
        keys = [scored.candidate.key for scored in pool]
        missing = [key for key in keys if key not in cosines]
        all_cosines = {**cosines, **self._vector_arm.cosines(missing)}
        for scored, key in zip(pool, keys, strict=True):
            scored.cosine = all_cosines.get(key)


def _batches(candidates: Sequence[ScoredCandidate]) -> Iterator[Sequence[ScoredCandidate]]:
    """Candidates in batches of limited length."""
    lengths = [len(scored.candidate.content) for scored in candidates]
    if sum(lengths) <= _CHARACTERS_AT_ONCE:  # as usual
        if candidates:
            yield candidates
        return
    start = 0
    characters = 0
    longest = LIMITS.ranked_characters
    for end, length in enumerate(lengths, 1):
        characters += min(length, longest)
        if characters > _CHARACTERS_AT_ONCE:
            yield candidates[start:end]
            start, characters = end, 0
    if start < len(candidates):
        yield candidates[start:]


def preliminary_score(scored: ScoredCandidate) -> float:
    """A rough score that is known before the neighbours of a candidate have been read."""
    return scored.text_score + 3 * (scored.cosine or 0.0)
