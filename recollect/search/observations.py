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
from recollect.search.candidates import CandidatePool, has_messages
from recollect.search.passages import ScoredCandidate, find_terms
from recollect.store.observed import ObservationStore

_CANDIDATES = 60
"""Observations of each arm. They are short, so the best of them come first."""
_MAX_OBSERVATIONS = 20
"""The best observations that stand for messages. Further ones are on no first page."""

_MessageId = tuple[str, str]
"""The id of a conversation and of a message in it."""


def observation_pool(messages: CandidatePool) -> CandidatePool | None:
    """The pool of the observations for the query of a pool of messages; None if none can match.

    An observation cannot satisfy what operators and identifiers require of a message, and has
    neither role nor author.
    """
    interpretation, filter = messages.interpretation, messages.scope.filter
    if not interpretation.is_plain or interpretation.intent == IDENTIFIER:
        return None
    possible = Filter(
        projects=filter.projects,
        not_projects=filter.not_projects,
        after=filter.after,
        before=filter.before,
    )
    if not has_messages(filter) or filter != replace(possible, kinds=filter.kinds):
        return None
    scope = messages.scope.with_part(
        ObservationStore(messages.scope.store), replace(possible, hidden=True, kinds=(OBSERVATION,))
    )
    return CandidatePool(interpretation, scope, _CANDIDATES)


def raise_messages(
    messages_pool: CandidatePool, ranking: Sequence[ScoredCandidate]
) -> list[ScoredCandidate]:
    """The messages of a ranking, each with the score of its best observation if it is higher.

    Messages that were found only through their observations are added.
    """
    store = messages_pool.scope.store
    messages = {message_id(s): s for s in ranking if s.candidate.kind != OBSERVATION}
    observations = [s for s in ranking if s.candidate.kind == OBSERVATION][:_MAX_OBSERVATIONS]
    keys = [scored.candidate.key for scored in observations]
    passages = store.passages_by_key(keys)
    ids = {key: observed_messages(passage.metadata) for key, (_, passage) in passages.items()}
    unranked_ids = [
        ids[key][0] for key in keys if ids.get(key) and messages.keys().isdisjoint(ids[key])
    ]
    # Those that were deleted, or are hidden from the reader, are missing.
    candidates = store.candidates_by_id(
        list(dict.fromkeys(unranked_ids)), messages_pool.scope.filter
    )
    added = [ScoredCandidate(candidate, by_text=True) for candidate in candidates]
    find_terms(messages_pool.interpretation.ranking_query, added)
    unranked = {message_id(scored): scored for scored in added}
    for observation in observations:
        # Without ids, it was deleted during the search.
        message = message_of(ids.get(observation.candidate.key, ()), messages, unranked)
        if message is None:
            continue
        messages.setdefault(message_id(message), message)
        if message.score < observation.score:
            message.score = observation.score
            message.part_names = observation.part_names
            message.part_values = observation.part_values
    return sorted(messages.values(), key=lambda each: (-each.score, -each.candidate.key))


def observed_messages(metadata: Mapping[str, Any]) -> list[_MessageId]:
    """The messages that an observation with this metadata was made of."""
    conversation = str(metadata.get("conversation"))
    return [(conversation, str(id_)) for id_ in metadata.get("passages") or ()]


def message_id(scored: ScoredCandidate) -> _MessageId:
    return scored.candidate.document, scored.candidate.id


def message_of(
    ids: Sequence[_MessageId],
    messages: Mapping[_MessageId, ScoredCandidate],
    unranked: Mapping[_MessageId, ScoredCandidate],
) -> ScoredCandidate | None:
    """The best of an observation's messages, or its first one if none was found itself."""
    ranked = [messages[id_] for id_ in ids if id_ in messages]
    if ranked:
        return max(ranked, key=lambda scored: scored.score)
    return unranked.get(ids[0]) if ids else None
