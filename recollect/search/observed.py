"""Searching messages with the help of observations.

An observation says in a few sentences what came of an exchange: a decision, a cause, a preference.
So it often has the words of a question that no single message has. Observations are ranked together
with messages, and each stands for one of the messages that it was made of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from recollect.language.queries.intent import IDENTIFIER
from recollect.model.kinds import CONVERSATION, OBSERVATION
from recollect.model.search import Filter
from recollect.search.engine import Search
from recollect.search.pool import add_context, read_candidates
from recollect.search.rank import preliminary_score
from recollect.search.ranking.scored import ScoredCandidate
from recollect.store.values import CandidateRead
from recollect.store.views.observed import ObservationStore

_CANDIDATES = 60
"""Observations of each arm. They are short, so the best of them come first."""
_MAX_OBSERVATIONS = 20
"""The best observations that stand for messages. Further ones are on no first page."""

_MessageId = tuple[str, str]
"""The id of a conversation and of a message in it."""


class ObservedSearch(Search):
    """A search in which observations raise the messages that they were made of."""

    _observed: Mapping[int, list[_MessageId]] = MappingProxyType({})
    """The messages of the best observations, by the keys of these."""

    def _ranked_pool(self) -> list[ScoredCandidate]:
        if not self._plain or self.question.intent == IDENTIFIER:
            # What the query requires of a message, an observation cannot satisfy.
            return super()._ranked_pool()
        if not _may_have_observations(self._filter):
            return super()._ranked_pool()
        filter_ = Filter(
            hidden=True,
            kinds=(OBSERVATION,),
            projects=self._filter.projects,
            not_projects=self._filter.not_projects,
            after=self._filter.after,
            before=self._filter.before,
        )
        observations = self.with_filter(filter_, ObservationStore(self._store), _CANDIDATES)
        searches = (self, observations)
        pools = read_candidates(searches)
        unranked = CandidateRead(ids=self._likely_unranked(*pools), filter=self._filter)
        pool, observed = add_context(searches, pools, unranked)
        self.has_observations = bool(observed)
        return pool + observed

    def _likely_unranked(
        self, pool: Sequence[ScoredCandidate], observed: Sequence[ScoredCandidate]
    ) -> tuple[_MessageId, ...]:
        """The messages outside of the pool for which the best observations probably stand."""
        best = sorted(observed, key=preliminary_score, reverse=True)[: 2 * _MAX_OBSERVATIONS]
        self._observed = self._store.observed_messages([each.candidate.key for each in best])
        pool_ids = {(scored.candidate.document, scored.candidate.id) for scored in pool}
        all_ids = self._observed.values()
        return tuple([ids[0] for ids in all_ids if ids and pool_ids.isdisjoint(ids)])

    def _messages_only(self, ranking: Sequence[ScoredCandidate]) -> list[ScoredCandidate]:
        messages = {
            (scored.candidate.document, scored.candidate.id): scored
            for scored in ranking
            if scored.candidate.kind != OBSERVATION
        }
        observations = [s for s in ranking if s.candidate.kind == OBSERVATION][:_MAX_OBSERVATIONS]
        keys = [scored.candidate.key for scored in observations]
        ids = self._observed
        missing = [key for key in keys if key not in ids]
        if missing:
            ids = {**ids, **self._store.observed_messages(missing)}
        unranked = self._unranked_messages(
            [ids[key][0] for key in keys if ids.get(key) and messages.keys().isdisjoint(ids[key])]
        )
        for observation in observations:
            # Without ids, it was deleted during the search.
            message = _message_of(ids.get(observation.candidate.key, ()), messages, unranked)
            if message is not None and message.score < observation.score:
                message.score = observation.score
                message.part_names = observation.part_names
                message.part_values = observation.part_values
        return sorted(messages.values(), key=lambda each: (-each.score, -each.candidate.key))

    def _unranked_messages(self, ids: Sequence[_MessageId]) -> dict[_MessageId, ScoredCandidate]:
        """Messages with the score 0, without those deleted or that the reader may not find."""
        from recollect.search.ranking.passages import find_terms

        candidates = self._store.candidates_by_id(list(dict.fromkeys(ids)), self._filter)
        messages = [ScoredCandidate(candidate, by_text=True) for candidate in candidates]
        find_terms(self.question, messages)
        return {(each.candidate.document, each.candidate.id): each for each in messages}


def _message_of(
    ids: Sequence[_MessageId],
    messages: dict[_MessageId, ScoredCandidate],
    unranked: Mapping[_MessageId, ScoredCandidate],
) -> ScoredCandidate | None:
    """The best of an observation's messages, or its first one if none was found itself."""
    ranked = [messages[id_] for id_ in ids if id_ in messages]
    if ranked:
        return max(ranked, key=lambda scored: scored.score)
    if not ids or ids[0] not in unranked:
        return None
    messages[ids[0]] = unranked[ids[0]]
    return messages[ids[0]]


def _may_have_observations(filter: Filter) -> bool:
    """Whether observations pass a filter that messages pass: they have neither role nor author."""
    only_projects_and_dates = Filter(
        kinds=filter.kinds,
        projects=filter.projects,
        not_projects=filter.not_projects,
        after=filter.after,
        before=filter.before,
    )
    has_conversations = not filter.kinds or CONVERSATION in filter.kinds
    return has_conversations and filter == only_projects_and_dates
