"""What the ranker knows about each candidate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from recollect.language.queries.intent import QUESTION
from recollect.model.kinds import OBSERVATION, PREFERENCE
from recollect.search.queries.ranking_query import RankingQuery
from recollect.search.ranking.weights import BY_MEANING, DIALOGUE, WEIGHTS
from recollect.store.values import Candidate

if TYPE_CHECKING:  # a server must start without numpy
    from recollect.search.ranking.text_columns import TextColumns


@dataclass(slots=True)
class ScoredCandidate:
    """A candidate, what matched in it, and its score.

    Candidates that neither arm found serve as context: they affect the scores of their neighbours
    but are not ranked themselves.
    """

    candidate: Candidate
    by_text: bool = False
    """Found by the text arm."""
    by_vector: bool = False
    """Found by the vector arm."""
    cosine: float | None = None

    terms: Sequence[int] = ()
    """The numbers of the terms in the text, in order."""
    metadata_terms: Sequence[int] = ()
    """The numbers of the terms in the author's name and the date."""
    title_terms: Sequence[int] = ()
    """The numbers of the terms in the title."""
    fingerprint: int = 0
    """A number that is the same for texts with the same words."""
    text_score: float = 0.0
    """BM25 of the best window of the text."""
    batch: TextColumns = field(default=None, compare=False)  # type: ignore[assignment]
    """How the texts of several candidates match the query. `find_terms` sets it."""
    row: int = 0
    """The row of this candidate in `batch`."""
    is_between_people: bool = False
    """The conversation is a dialogue between people, not with an assistant."""

    score: float = 0.0
    part_names: tuple[str, ...] = ()
    part_values: Sequence[float] = field(default=(), compare=False)
    """The weighted features, which add up to the score. All candidates share the names."""
    copies: int = 0
    """Other candidates with the same text, which this one represents."""

    @property
    def arms(self) -> tuple[str, ...]:
        """How it was found: by words ("text"), by meaning ("vector"), or both."""
        arms = []
        if self.by_text or self.terms:
            arms.append("text")
        if self.by_vector:
            arms.append("vector")
        return tuple(arms)

    @property
    def is_observed_preference(self) -> bool:
        """Whether it is an observation of what the user allows, requires or prefers."""
        return self.candidate.kind == OBSERVATION and self.candidate.role == PREFERENCE

    @property
    def parts(self) -> dict[str, float]:
        """The parts of the score that are not 0. Only those of a page are shown."""
        pairs = zip(self.part_names, self.part_values, strict=True)
        return {name: float(value) for name, value in pairs if value}

    def part(self, name: str) -> float:
        """One part of the score."""
        if name not in self.part_names:
            return 0.0
        return float(self.part_values[self.part_names.index(name)])

    @property
    def has_terms(self) -> bool:
        return bool(self.terms or self.title_terms or self.metadata_terms)

    @property
    def all_terms(self) -> set[int]:
        """The numbers of the terms in the text, the title, the author's name and the date."""
        return {*self.terms, *self.metadata_terms, *self.title_terms}


def weights_for(query: RankingQuery, scored: ScoredCandidate) -> Mapping[str, float]:
    """The weights of the features of a candidate."""
    if query.intent != QUESTION:
        return WEIGHTS[query.intent]
    if scored.is_between_people:
        return WEIGHTS[DIALOGUE]
    if not query.terms:
        return WEIGHTS[BY_MEANING]
    return WEIGHTS[QUESTION]


class Scale(NamedTuple):
    """How the scores of a ranking become scores as users see them: greater than 0, at most 1."""

    best: float
    """The ranker's score of a hit that has `confidence`."""
    confidence: float

    def score(self, ranker_score: float) -> float:
        share = ranker_score / max(self.best, 1e-6)
        return min(max(round(share * self.confidence, 6), 1e-6), 1.0)
