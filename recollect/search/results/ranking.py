"""A ranking: candidates, best first, with scores as users see them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

from recollect.search.evidence import CERTAIN, Assessment, assess
from recollect.search.passages import ScoredCandidate
from recollect.search.queries.interpretation import Interpretation


class Ranking:
    """The candidates of a search, best first, and how much of the query they contain."""

    def __init__(
        self,
        interpretation: Interpretation,
        candidates: Sequence[ScoredCandidate],
        *,
        before_reranking: Sequence[ScoredCandidate] | None = None,
        has_observations: bool = False,
    ) -> None:
        """`has_observations`: observations are among the candidates.

        `before_reranking`: the same candidates in their order before. They are assessed in that
        order, so that scores do not depend on whether a computer is fast enough for the reranker.
        """
        self.candidates = candidates
        self._assessed_candidates = candidates if before_reranking is None else before_reranking
        self._interpretation = interpretation
        self._has_observations = has_observations

    @cached_property
    def assessment(self) -> Assessment:
        """What the candidates are worth as hits; see `search.evidence`."""
        interpretation = self._interpretation
        if not interpretation.needs_evidence:
            return CERTAIN
        return assess(
            interpretation.ranking_query,
            self._assessed_candidates,
            interpretation.meaning.noise_floor,
            self._has_observations,
        )

    @cached_property
    def scale(self) -> Scale:
        """How the scores of the ranker become scores as users see them."""
        if self._interpretation.every_term:  # several rankings share a scale
            from recollect.search.ranking import perfect_score  # imports numpy

            return Scale(perfect_score(self._interpretation.intent), 1.0)
        best = max((scored.score for scored in self.candidates), default=0.0)
        if self._interpretation.options.score == "fts":
            return Scale(best, 1.0)
        return Scale(best, self.assessment.confidence)

    @property
    def last_score(self) -> float:
        """The score of the last candidate, as users see it; 0 without candidates."""
        if not self.candidates:
            return 0.0
        return self.scale.score(self.candidates[-1].score)

    @cached_property
    def has_all_terms(self) -> bool:
        """Whether every candidate contains all words of the query."""
        if not self._interpretation.is_plain:
            return True
        terms = enumerate(self._interpretation.terms)
        own = {number for number, term in terms if not term.weak}
        return all(own.issubset((*s.terms, *s.title_terms)) for s in self.candidates)


class Scale(NamedTuple):
    """How the scores of a ranking become scores as users see them: greater than 0, at most 1."""

    best: float
    """The ranker's score of a hit that has `confidence`."""
    confidence: float

    def score(self, ranker_score: float) -> float:
        share = ranker_score / max(self.best, 1e-6)
        return min(max(round(share * self.confidence, 6), 1e-6), 1.0)
