"""Searching messages with the help of observations.

An observation says in a few sentences what came of an exchange: a decision, a cause, a preference.
So it often has the words of a question that no single message has. Observations are ranked together
with messages, and each stands for one of the messages that it was made of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from recollect.language.queries.intent import IDENTIFIER
from recollect.model.kinds import OBSERVATION
from recollect.model.search import Filter
from recollect.search.candidates.arms import has_messages
from recollect.search.candidates.pool import CandidatePool, add_context, read_candidates, read_pools
from recollect.search.passages import ScoredCandidate, find_terms
from recollect.search.queries.interpretation import Interpretation
from recollect.store.observed import ObservationStore

_CANDIDATES = 60
"""Observations of each arm. They are short, so the best of them come first."""
_MAX_OBSERVATIONS = 20
"""The best observations that stand for messages. Further ones are on no first page."""

_MessageId = tuple[str, str]
"""The id of a conversation and of a message in it."""


class Observations:
    """The observations that match a query. They raise the messages that they were made of."""

    def __init__(self, interpretation: Interpretation, messages: CandidatePool) -> None:
        """`messages` is the pool of the messages that match the same query."""
        self._interpretation = interpretation
        self._messages = messages
        self._scope = messages.scope
        self.is_empty = True
        """Whether there are no observations among the candidates."""

    def candidates(self) -> list[ScoredCandidate]:
        """Messages and observations."""
        if not self._may_match():
            (messages,) = read_pools([self._messages])
            return messages
        filter = self._scope.filter
        observation_filter = replace(_projects_and_dates(filter), hidden=True, kinds=(OBSERVATION,))
        scope = self._scope.with_part(ObservationStore(self._scope.store), observation_filter)
        pools = (self._messages, CandidatePool(self._interpretation, scope, _CANDIDATES))
        messages, observations = add_context(pools, read_candidates(pools))
        self.is_empty = not observations
        return messages + observations

    def _may_match(self) -> bool:
        """An observation cannot satisfy what operators and identifiers require of a message."""
        is_identifier = self._interpretation.intent == IDENTIFIER
        if not self._interpretation.is_plain or is_identifier:
            return False
        return _may_have_observations(self._scope.filter)

    def raise_messages(self, ranking: Sequence[ScoredCandidate]) -> list[ScoredCandidate]:
        """The messages of a ranking, each with the score of its best observation if it is higher.

        Messages that were found only through their observations are added.
        """
        messages = {_message_id(s): s for s in ranking if s.candidate.kind != OBSERVATION}
        observations = [s for s in ranking if s.candidate.kind == OBSERVATION][:_MAX_OBSERVATIONS]
        keys = [scored.candidate.key for scored in observations]
        passages = self._scope.store.passages_by_key(keys)
        ids = {key: _observed_messages(passage.metadata) for key, (_, passage) in passages.items()}
        unranked = self._unranked_messages(
            [ids[key][0] for key in keys if ids.get(key) and messages.keys().isdisjoint(ids[key])]
        )
        for observation in observations:
            # Without ids, it was deleted during the search.
            message = _message_of(ids.get(observation.candidate.key, ()), messages, unranked)
            if message is None:
                continue
            messages.setdefault(_message_id(message), message)
            if message.score < observation.score:
                message.score = observation.score
                message.part_names = observation.part_names
                message.part_values = observation.part_values
        return sorted(messages.values(), key=lambda each: (-each.score, -each.candidate.key))

    def _unranked_messages(self, ids: Sequence[_MessageId]) -> dict[_MessageId, ScoredCandidate]:
        """The messages with these ids, with the score 0.

        Those that were deleted, or are hidden from the reader, are missing.
        """
        distinct_ids = list(dict.fromkeys(ids))
        candidates = self._scope.store.candidates_by_id(distinct_ids, self._scope.filter)
        messages = [ScoredCandidate(candidate, by_text=True) for candidate in candidates]
        find_terms(self._interpretation.ranking_query, messages)
        return {_message_id(scored): scored for scored in messages}


def _message_id(scored: ScoredCandidate) -> _MessageId:
    return scored.candidate.document, scored.candidate.id


def _message_of(
    ids: Sequence[_MessageId],
    messages: Mapping[_MessageId, ScoredCandidate],
    unranked: Mapping[_MessageId, ScoredCandidate],
) -> ScoredCandidate | None:
    """The best of an observation's messages, or its first one if none was found itself."""
    ranked = [messages[id_] for id_ in ids if id_ in messages]
    if ranked:
        return max(ranked, key=lambda scored: scored.score)
    if not ids:
        return None
    return unranked.get(ids[0])


def _may_have_observations(filter: Filter) -> bool:
    """Whether observations pass a filter that messages pass: they have neither role nor author."""
    has_only_these = filter == replace(_projects_and_dates(filter), kinds=filter.kinds)
    return has_messages(filter) and has_only_these


def _projects_and_dates(filter: Filter) -> Filter:
    """A filter with those of its conditions that observations can meet."""
    return Filter(
        projects=filter.projects,
        not_projects=filter.not_projects,
        after=filter.after,
        before=filter.before,
    )


def _observed_messages(metadata: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The messages that an observation with this metadata was made of."""
    conversation = str(metadata.get("conversation"))
    return [(conversation, str(id_)) for id_ in metadata.get("passages") or ()]
