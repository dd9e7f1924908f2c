"""Searching messages with the help of observations.

An observation says in a few sentences what came of an exchange: a decision, a cause, a preference.
So it often has the words of a question that no single message has. Observations are ranked together
with messages, and each stands for one of the messages that it was made of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

from recollect.errors import NotFound
from recollect.language.queries.intent import IDENTIFIER
from recollect.model.documents import Passage
from recollect.model.kinds import CONVERSATION, OBSERVATION
from recollect.model.search import Filter
from recollect.search.engine import Search
from recollect.search.ranking.scored import ScoredCandidate
from recollect.store.views.observed import ObservationStore

_CANDIDATES = 60
"""Observations of each arm. They are short, so the best of them come first."""
_MAX_OBSERVATIONS = 20
"""The best observations that stand for messages. Further ones are on no first page."""

_MessageId = tuple[str, str]
"""The id of a conversation and of a message in it."""


class ObservedSearch(Search):
    """A search in which observations raise the messages that they were made of."""

    def _ranked_pool(self) -> list[ScoredCandidate]:
        pool = super()._ranked_pool()
        if not self._plain or self.question.intent == IDENTIFIER:
            return pool  # what the query requires of a message, an observation cannot satisfy
        if not _may_have_observations(self._filter):
            return pool
        filter_ = Filter(
            hidden=True,
            kinds=(OBSERVATION,),
            projects=self._filter.projects,
            not_projects=self._filter.not_projects,
            after=self._filter.after,
            before=self._filter.before,
        )
        observations = self.with_filter(filter_, ObservationStore(self._store), _CANDIDATES)
        observed = observations.pool()
        self.has_observations = bool(observed)
        return pool + observed

    def _messages_only(self, ranking: Sequence[ScoredCandidate]) -> list[ScoredCandidate]:
        messages = {
            (scored.candidate.document, scored.candidate.id): scored
            for scored in ranking
            if scored.candidate.kind != OBSERVATION
        }
        observations = [s for s in ranking if s.candidate.kind == OBSERVATION][:_MAX_OBSERVATIONS]
        keys = [scored.candidate.key for scored in observations]
        passages = self._store.passages_by_key(keys)
        ids = {key: _message_ids(passage) for key, (_, passage) in passages.items()}
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

        by_key: dict[int, _MessageId] = {}
        for conversation, id_ in dict.fromkeys(ids):
            with suppress(NotFound):
                by_key[self._store.passage_key(conversation, id_)] = conversation, id_
        candidates = self.candidates(list(by_key))
        messages = [ScoredCandidate(candidate, by_text=True) for candidate in candidates]
        find_terms(self.question, messages)
        return {by_key[scored.candidate.key]: scored for scored in messages}


def _message_ids(observation: Passage) -> list[_MessageId]:
    """The messages that an observation was made of."""
    conversation = str(observation.metadata.get("conversation"))
    return [(conversation, str(id_)) for id_ in observation.metadata.get("passages") or ()]


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
