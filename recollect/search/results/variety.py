"""Variety in a list of messages: each text once, and no conversation crowds out the others."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Hashable, Sequence

from recollect.language.queries.intent import QUESTION
from recollect.language.text import comparable
from recollect.model.kinds import CONVERSATION
from recollect.search.passages import ScoredCandidate
from recollect.search.queries.terms import RankingQuery
from recollect.settings import LIMITS

MESSAGES_IN_A_ROW = 2
"""The most messages of a conversation that come before those of others."""
_LONG_MESSAGE = 120  # characters
_COMPARABLE = 0.8
"""An answer to a question comes later only for one with at least this share of its score."""


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
    fingerprints = Counter([_fingerprint(scored) for scored in ranking])
    by_text: dict[Hashable, ScoredCandidate] = {}
    distinct = []
    for scored in ranking:
        first = scored
        if fingerprints[_fingerprint(scored)] > 1 and scored.candidate.kind == CONVERSATION:
            text = _text_to_compare(scored)
            if by_conversation and len(scored.candidate.content) < _LONG_MESSAGE:
                text = text, scored.candidate.title or scored.candidate.document
            first = by_text.setdefault(text, scored)
        if first is scored:
            distinct.append(scored)
        else:
            first.copies += 1
    return distinct


def _fingerprint(scored: ScoredCandidate) -> Hashable:
    """The same for copies, and seldom for others."""
    return scored.words, scored.terms


def spread(query: RankingQuery, ranking: Sequence[ScoredCandidate]) -> list[ScoredCandidate]:
    """The ranking with at most two messages of a conversation before those of others."""
    if query.intent == QUESTION:
        return _spread_answers(ranking)
    return _spread_matches(query, ranking)


def _text_to_compare(scored: ScoredCandidate) -> Hashable:
    content = _comparable(scored.candidate.content)
    if scored.title_terms and not scored.terms:
        return content, scored.candidate.title
    return content


def _comparable(content: str) -> Hashable:
    """Equal for texts that differ only in case or in codes. Very long ones are compared in part."""
    size = LIMITS.ranked_characters
    if len(content) > size:
        return len(content), comparable(content[:size])
    return comparable(content)


def _spread_matches(
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
        places[scored.candidate.key] = (-exact, -complete, counts[group] // MESSAGES_IN_A_ROW)
        counts[group] += 1
    # Sorting is stable, so each round keeps the order of the ranking.
    return sorted(ranking, key=lambda scored: places[scored.candidate.key])


def _spread_answers(ranking: Sequence[ScoredCandidate]) -> list[ScoredCandidate]:
    """A third message comes later if another conversation has one that is nearly as good.

    Not in dialogues between people: there, the answer to a question is often spread over several
    messages of one conversation.
    """
    counts: dict[str, int] = {}
    order: list[ScoredCandidate] = []
    later: deque[ScoredCandidate] = deque()
    for scored in ranking:
        while later and scored.score < _COMPARABLE * later[0].score:
            order.append(later.popleft())
        document = scored.candidate.document
        count = counts.get(document, 0)
        counts[document] = count + 1
        if count < MESSAGES_IN_A_ROW or scored.is_between_people:
            order.append(scored)
        else:
            later.append(scored)
    return [*order, *later]
