"""How much of a query its best hits contain.

The ranker compares candidates with each other, so the best one has a high score even if all are
unrelated. Evidence is how much of the query one of the best hits contains, by the weight of its
words in this library, and how close it is in meaning. That becomes the score of the first hit.

A question shares some words with many messages, also one about something that the library does not
have: "Which broker did we pick for the drone fleet?" If no exchange has much of the question, the
hits are probably unrelated. They are returned, because an answer may have other words, but marked
as weak.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence, Set
from typing import NamedTuple

from recollect.language.detection import language_of
from recollect.language.languages import ENGLISH
from recollect.language.queries.intent import KEYWORDS, QUESTION
from recollect.language.when import period_words
from recollect.language.words import names_in, synonyms
from recollect.model.kinds import CONVERSATION
from recollect.search.passages import ScoredCandidate
from recollect.search.queries.terms import DATE_WORDS, RankingQuery, own_terms, term_shares

UNRELATED = "The results are probably unrelated."
_BEST = 5
"""The first hits that are assessed, because people look at these.

In a large library, some message further down has any two words.
"""
_EXCHANGE = 2
"""How many messages before and after a hit belong to the same exchange."""
# Words count as the share of the question, meaning as the share of the noise floor, and half as
# much. With this threshold, about two in a hundred questions lose an answer that would be in the
# first three conversations, with a higher one more; see bench/README.md.
_MIN_EVIDENCE = 0.68
_MEANING = 0.5
_FULL_EVIDENCE = 1 + _MEANING
"""All words of a question, in a hit that is as similar as unrelated ones rarely are."""
_MIN_CONFIDENCE = 0.01
_MIN_SHARE = 0.3
"""The share of the words that a hit needs if the meaning of the question is unknown."""
# In other languages than English, fewer inflected forms are recognized. Without spaces, many pairs
# of characters span two words and occur nowhere.
_MIN_SHARE_IN_OTHER_LANGUAGES = 0.25
_MIN_SHARE_WITHOUT_SPACES = 0.1
_MIN_SHARE_WITHOUT_NAME = 0.5
"""The share if the library does not have a name that the question mentions."""
_MIN_SHARE_WITHOUT_RULE = 0.75
"""The share if a question for a rule meets no rule."""


class Assessment(NamedTuple):
    """What the best hits are worth."""

    confidence: float
    """The share of the query that one of them contains, in words and in meaning: up to 1."""
    is_weak: bool = False
    """Whether the hits are probably unrelated."""


CERTAIN = Assessment(1.0)
"""Every hit satisfies the query."""


def assess(
    query: RankingQuery,
    ranking: Sequence[ScoredCandidate],
    noise_floor: float | None,
    has_observations: bool = False,
) -> Assessment:
    """How much of a plain query the best hits contain.

    `noise_floor` is the cosine that unrelated messages rarely reach; None if the cosines of this
    query mean nothing. `has_observations`: observations are among the candidates.
    """
    if not ranking:
        return Assessment(0.0)
    nearest = max(scored.cosine or 0.0 for scored in ranking[:_BEST])
    # By meaning alone, hits as near as the noise floor are worth a half.
    by_meaning = _MEANING * nearest / noise_floor if noise_floor else nearest
    is_weak = False
    if not query.terms:
        confidence = by_meaning
    elif query.intent != QUESTION:
        # Keywords name words: a hit that contains all of them is certain, whatever its meaning.
        # Synonyms have a smaller weight, but they count: the library may have nothing else.
        total = math.fsum(term.weight for term in own_terms(query.terms)) or 1.0
        terms = [scored.all_terms for scored in ranking[:_BEST]]
        confidence = max(math.fsum(query.terms[n].weight for n in each) for each in terms) / total
        if noise_floor and query.intent == KEYWORDS:
            confidence = max(confidence, by_meaning)
    else:
        confidence, is_weak = assess_question(query, ranking, noise_floor, has_observations)
    return Assessment(min(max(confidence, _MIN_CONFIDENCE), 1.0), is_weak)


def assess_question(
    query: RankingQuery,
    ranking: Sequence[ScoredCandidate],
    noise_floor: float | None,
    has_observations: bool,
) -> tuple[float, bool]:
    """The confidence in the hits of a question, and whether they are probably unrelated."""
    language, terms = language_of(query.text), query.terms
    times = period_words(query.text)

    def shares_without(names: Set[str]) -> Sequence[float]:
        """The share of each term in the question, without those of these names that occur nowhere.

        What was written "before 2024" rarely says so.
        """
        is_left_out = [term.name in names and not term.frequency for term in terms]
        return term_shares(
            [
                t._replace(weight=0.0) if out else t
                for t, out in zip(terms, is_left_out, strict=True)
            ]
        )

    shares = shares_without(times)

    def share(numbers: Iterable[int]) -> float:
        return math.fsum([shares[number] for number in numbers])

    rules: set[int] | None = None
    if has_observations and language.has("asks_rule", query.text):
        rules = {
            scored.candidate.key
            for scored in ranking
            if scored.part("preference") > 0 or scored.part("instruction") > 0
        }
    if language is ENGLISH:  # the language whose meaning the model knows best
        exchanges = best_exchanges(query, ranking, times)
        confidence, is_weak = assess_exchanges(query, exchanges, noise_floor, share, rules)
        names = names_in(query.text) - DATE_WORDS
        most_words = max(share(numbers) for _, numbers in exchanges)
        is_weak = is_weak or (
            most_words < _MIN_SHARE_WITHOUT_NAME and lacks_name(query, ranking, names)
        )
    else:
        confidence = conversation_share(ranking, share, rules)
        is_weak = confidence < (
            _MIN_SHARE_WITHOUT_SPACES if language.unspaced else _MIN_SHARE_IN_OTHER_LANGUAGES
        )
    exact = {number for number, term in enumerate(terms) if term.exact}
    if not is_weak or any(not exact.isdisjoint(scored.terms) for scored in ranking):
        return confidence, False
    # A request is about something new ("Suggest a flight to Rome"), so it may mention names that
    # the library does not have. What the user told the assistant about flights is what it needs.
    if language.has("requests", query.text):
        shares = shares_without(names_in(query.text))
        is_weak = not any(
            share(scored.terms) >= _MIN_SHARE
            for scored in ranking[:_BEST]
            if scored.part("liking") > 0 or scored.part("instruction") > 0
        )
    return confidence, is_weak


Share = Callable[[Iterable[int]], float]
"""The share of a question, by weight, that some of its terms make up."""


def assess_exchanges(
    query: RankingQuery,
    exchanges: Sequence[tuple[ScoredCandidate, set[int]]],
    noise_floor: float | None,
    share: Share,
    rules: Set[int] | None,
) -> tuple[float, bool]:
    """How much of the question an exchange has in words and meaning, and whether it is too little.

    `rules`: if the question asks for a rule, the hits that are standing instructions or stand for
    observed preferences.
    """
    if not noise_floor:
        most = max(share(numbers) for _, numbers in exchanges)
        return most, most < _MIN_SHARE
    # The terms that are names and occur in the library. For a name that does not occur, its
    # synonyms: an exchange about any server does not answer a question about Jenkins, one about CI
    # may. None if the question has no other words: a message that mentions David is evidence for
    # "Who is David?"
    names = names_in(query.text) - DATE_WORDS
    known = {
        number
        for number, term in enumerate(query.terms)
        if term.frequency and not names.isdisjoint((term.name, term.stands_for))
    }
    known = known if len(known) < len(query.terms) else set()
    most = 0.0
    for hit, numbers in exchanges:
        in_words, similarity = share(numbers), (hit.cosine or 0.0) / noise_floor
        # Questions for a rule are short and use frequent words, which some exchange always has.
        lacks_rule = rules is not None and hit.candidate.key not in rules
        # Other words are evidence only next to a name. A name alone says what the question is
        # about, not that the exchange answers it.
        if (known and known.isdisjoint(numbers)) or (
            lacks_rule and in_words < _MIN_SHARE_WITHOUT_RULE
        ):
            in_words = 0.0
        elif known and numbers <= known and similarity < 1:
            continue
        most = max(most, in_words + _MEANING * similarity)
    return most / _FULL_EVIDENCE, most < _MIN_EVIDENCE


def conversation_share(
    ranking: Sequence[ScoredCandidate], share: Share, rules: Set[int] | None
) -> float:
    """The largest share of the question that one conversation contains.

    If the question asks for a rule, only conversations with a rule count, unless one contains
    nearly all of the question.
    """
    terms: dict[str, set[int]] = {}
    for scored in ranking:
        terms.setdefault(scored.candidate.document, set()).update(scored.all_terms)
    most = max(map(share, terms.values()))
    if rules is None or most >= _MIN_SHARE_WITHOUT_RULE:
        return most
    with_rule = {s.candidate.document for s in ranking if s.candidate.key in rules}
    return max((share(terms[document]) for document in with_rule), default=0.0)


def best_exchanges(
    query: RankingQuery, ranking: Sequence[ScoredCandidate], times: Set[str]
) -> list[tuple[ScoredCandidate, set[int]]]:
    """Each of the best hits, and the terms in it and in the messages around it."""
    by_place = {
        (scored.candidate.document, scored.candidate.position): scored
        for scored in ranking
        if scored.candidate.kind == CONVERSATION
    }
    of_times = {n for n, term in enumerate(query.terms) if term.name in times}
    if len(of_times) == len(query.terms):
        of_times = set()
    exchanges = []
    for scored in ranking[:_BEST]:
        document, position = scored.candidate.document, scored.candidate.position
        messages = [scored]
        if scored.candidate.kind == CONVERSATION:
            places = [(document, position + n) for n in range(-_EXCHANGE, _EXCHANGE + 1)]
            messages += [by_place[place] for place in places if place in by_place]
        terms = set().union(*(message.all_terms for message in messages))
        # That they were written at the time of the question says nothing about its topic, so the
        # words of their dates count only next to others.
        if terms <= of_times and not any(m.terms or m.title_terms for m in messages):
            terms = set()
        exchanges.append((scored, terms))
    return exchanges


def lacks_name(query: RankingQuery, ranking: Sequence[ScoredCandidate], names: Set[str]) -> bool:
    """Whether the question mentions something by a name that the library does not have."""
    found = set().union(*(scored.all_terms for scored in ranking))
    absent = [
        term.name
        for number, term in enumerate(query.terms)
        if term.name in names and not term.frequency and number not in found
    ]
    return any(not phrases for phrases in synonyms(absent))
