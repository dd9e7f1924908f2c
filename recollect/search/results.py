"""From ranked candidates to what is listed: each text once, with variety, and scores for users."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Hashable, Sequence
from functools import cached_property
from typing import Any

from recollect.language.queries.intent import QUESTION
from recollect.language.queries.query_tree import Word
from recollect.language.text import comparable
from recollect.model.kinds import CONVERSATION
from recollect.model.search import Hit
from recollect.search.evidence import CERTAIN, Assessment, assess
from recollect.search.passages import ScoredCandidate
from recollect.search.queries.interpretation import Interpretation
from recollect.search.queries.terms import RankingQuery
from recollect.search.rerank import rerank_if_useful
from recollect.search.snippets import snippet_at
from recollect.settings import LIMITS
from recollect.store.values import Candidate

_IN_A_ROW = 2
"""The most messages of a conversation that come before those of others."""
_LONG_MESSAGE = 120  # characters
_COMPARABLE = 0.8
"""An answer to a question comes later only for one with at least this share of its score."""


class Ranking:
    """The candidates of a search, best first, and how much of the query they contain."""

    def __init__(
        self,
        interpretation: Interpretation,
        ranked: Sequence[ScoredCandidate],
        *,
        has_observations: bool = False,
    ) -> None:
        """`has_observations`: observations are among the candidates.

        They are assessed in their order before reranking, so that scores do not depend on it.
        """
        self.interpretation = interpretation
        self._assessed = ranked
        self._has_observations = has_observations
        options, query = interpretation.options, interpretation.ranking_query
        self.candidates = rerank_if_useful(options, query, ranked)

    @cached_property
    def listed(self) -> Sequence[ScoredCandidate]:
        """The candidates with at most two messages of a conversation before those of others."""
        options, query = self.interpretation.options, self.interpretation.ranking_query
        if options.group == "conversation" or options.score != "rank":
            return self.candidates
        if query.intent == QUESTION:
            return spread_answers(self.candidates)
        return spread_matches(query, self.candidates)

    @cached_property
    def assessment(self) -> Assessment:
        """What the candidates are worth as hits; see `search.evidence`."""
        interpretation = self.interpretation
        if not interpretation.needs_evidence:
            return CERTAIN
        return assess(
            interpretation.ranking_query,
            self._assessed,
            interpretation.meaning.noise_floor,
            self._has_observations,
        )

    @cached_property
    def _scale(self) -> float:
        """What a score of the ranker is multiplied with for users."""
        if self.interpretation.every_term:  # several rankings share a scale
            from recollect.search.ranking import perfect_score  # imports numpy

            return 1 / perfect_score(self.interpretation.intent)
        best = max((scored.score for scored in self.candidates), default=0.0)
        is_relative = self.interpretation.options.score != "fts"
        return (self.assessment.confidence if is_relative else 1.0) / max(best, 1e-6)

    def score(self, ranker_score: float) -> float:
        """A score of the ranker as users see it: greater than 0, at most 1."""
        return min(max(round(ranker_score * self._scale, 6), 1e-6), 1.0)

    @property
    def last_score(self) -> float:
        """The score of the last candidate, as users see it; 0 without candidates."""
        return self.score(self.candidates[-1].score) if self.candidates else 0.0

    def hit(self, scored: ScoredCandidate, length: int) -> Hit:
        """A ranked candidate as a hit, with the reasons for its score."""
        score = self.score(scored.score)
        share = score / scored.score if scored.score > 0 else 0.0
        names = self.interpretation.term_names
        return make_hit(
            scored.candidate,
            self.interpretation.words,
            score,
            length,
            arms=scored.arms,
            terms=tuple([names[number] for number in scored.terms]),
            parts={name: round(value * share, 4) for name, value in scored.parts.items()},
            copies=scored.copies,
        )


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


# -- variety -----------------------------------------------------------------------


def merge_copies(
    ranking: Sequence[ScoredCandidate], *, by_conversation: bool = False
) -> list[ScoredCandidate]:
    """Each message once: the best candidate represents those with the same text.

    With `by_conversation`, only those of the same conversation, or of copies of it: these have the
    same title, or a message in common that is too long for people to write it twice.

    If only their titles have words of the query, these must be the same as well: many conversations
    begin with "Hello". Items that are not conversations stay apart, since each is a thing of its
    own.
    """
    # Copies have the same words, so other texts need not be compared.
    sizes = Counter([(scored.words, scored.terms) for scored in ranking])
    by_text: dict[Hashable, ScoredCandidate] = {}
    distinct = []
    for scored in ranking:
        candidate, first = scored.candidate, scored
        if sizes[scored.words, scored.terms] > 1 and candidate.kind == CONVERSATION:
            beginning = candidate.content[: LIMITS.ranked_characters]
            text: tuple[Hashable, ...] = (comparable(beginning),)
            if len(beginning) < len(candidate.content):
                text += (len(candidate.content),)
            if scored.title_terms and not scored.terms:
                text += ("title", candidate.title)
            if by_conversation and len(candidate.content) < _LONG_MESSAGE:
                text += ("in", candidate.title or candidate.document)
            first = by_text.setdefault(text, scored)
        if first is scored:
            distinct.append(scored)
        else:
            first.copies += 1
    return distinct


def spread_matches(
    query: RankingQuery, ranking: Sequence[ScoredCandidate]
) -> list[ScoredCandidate]:
    """In rounds: in each, every conversation has its next two messages.

    All words still come before some of them, and identifiers, in the text or in the title, before
    everything else.
    """
    identifiers = {number for number, term in enumerate(query.terms) if term.exact}
    counts: Counter[Hashable] = Counter()
    places: dict[int, tuple[int, float, int]] = {}
    for scored in ranking:
        exact = len(identifiers.intersection((*scored.terms, *scored.title_terms)))
        complete = scored.part("complete")
        group = (scored.candidate.document, exact, complete)
        places[scored.candidate.key] = (-exact, -complete, counts[group] // _IN_A_ROW)
        counts[group] += 1
    # Sorting is stable, so each round keeps the order of the ranking.
    return sorted(ranking, key=lambda scored: places[scored.candidate.key])


def spread_answers(ranking: Sequence[ScoredCandidate]) -> list[ScoredCandidate]:
    """A third message comes later if another conversation has one that is nearly as good.

    Not in dialogues between people: there, the answer to a question is often spread over several
    messages of one conversation.
    """
    counts: Counter[str] = Counter()
    order: list[ScoredCandidate] = []
    later: deque[ScoredCandidate] = deque()
    for scored in ranking:
        while later and scored.score < _COMPARABLE * later[0].score:
            order.append(later.popleft())
        counts[scored.candidate.document] += 1
        is_late = counts[scored.candidate.document] > _IN_A_ROW and not scored.is_between_people
        (later if is_late else order).append(scored)
    return [*order, *later]
