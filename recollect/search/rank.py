"""The ranker: computes the score of every candidate and sorts them.

It uses no store, no clock and no model, so the same candidates always have the same order.

A score is a weighted sum of features. Each feature lies between 0 and about 1. Its weight depends
on what the query is (`search.ranking.weights`).

- words: BM25 of the best window of 120 words, so that long messages gain nothing from their
  length. The author's name and the date count as words of the message.
- close: adjacent terms of the query that are close together in the message.
- meaning: cosine similarity of the message; topic: the best cosine in its conversation.
- reply: the message answers a question that contains the query's words. Short messages depend
  on the question they answer; long messages speak for themselves.
- whole: BM25 of everything found in the conversation; side: of the user's messages alone.
- person: users usually look for what they said themselves, unless they ask for advice or for what
  the assistant said (`language.queries.addressee`). Items that are not conversations were saved by
  the user on purpose, so `person` treats them as the user's own. It counts only with a word of the
  query, unless no candidate has one.
- speaker: the message is by the author named in the query.
- recent: how new the message is; time: whether it lies in or near a period named in the query;
  later: it was written after the question was asked, so the question cannot be about it.
- title: the share of the query that the title contains.
- question: a message that asks a question rarely contains the answer.
- opening: the first message of a chat with an assistant says what the chat is about.
- past: somebody tells in the first person what happened; first_person: how much is about them;
  answer: the message has a time or a number if the question asks for one.
- preference: a request for advice is answered by what the user likes, wants or does; a question for
  what is allowed or preferred, by an observed preference.
- liking, instruction: an assistant's answer also depends on what the user likes or dislikes, and
  on what the user told it to do from now on ("Always …"), as far as that is similar in meaning.
- around: the cosines of the messages before and after it; context: the share of the query that
  only these contain; length: up to 100 words. They count in dialogues between people, whose
  messages are short and depend on each other. There, recency says nothing.
- exact: the identifiers of the query (paths, codes, versions, quotes) that the message contains,
  a little less if their words have other punctuation there.
- covered: the share of the query that the message or its title contains; complete: all of it.
- adjacent: pairs of words that are next to each other in the message as they are in the query;
  typed: the share of the query that it contains in the form in which it was typed, because people
  type what they remember.
- phrase: the message or its title contains the whole query, exactly as typed. A question has none.
"""

from __future__ import annotations

from collections.abc import Sequence

from recollect.search.queries.ranking_query import RankingQuery
from recollect.search.ranking.scored import ScoredCandidate

_NEAR_SHARE = 0.3  # candidates below this share of the best cosine are noise


def rank(query: RankingQuery, pool: Sequence[ScoredCandidate]) -> list[ScoredCandidate]:
    """Set the scores of the candidates that an arm found, and return these, best first.

    `find_terms` must have been called for the pool.
    """
    if not pool:
        return []
    # A server must start without numpy, which takes long to import.
    from recollect.search.ranking.scoring import rank_pool

    return rank_pool(query, pool)


def preliminary_score(scored: ScoredCandidate) -> float:
    """A rough score that is known before the neighbours of a candidate have been read."""
    return scored.text_score + 3 * (scored.cosine or 0.0)


def drop_distant(neighbours: Sequence[tuple[int, float]]) -> list[tuple[int, float]]:
    """Drop keys whose cosine is far below the best one. The best one comes first."""
    return [(key, cosine) for key, cosine in neighbours if cosine >= _NEAR_SHARE * neighbours[0][1]]
