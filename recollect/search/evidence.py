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
from collections.abc import Iterable, Sequence, Set
from typing import NamedTuple

from recollect.language.detection import language_of
from recollect.language.languages import ENGLISH, Language
from recollect.language.queries.intent import KEYWORDS, QUESTION
from recollect.language.when import period_words
from recollect.language.words import names_in, synonyms
from recollect.model.kinds import CONVERSATION
from recollect.search.passages import ScoredCandidate
from recollect.search.queries.terms import DATE_WORDS, RankingQuery, evidence_shares, own_terms

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
    if not query.terms:
        assessment = Assessment(_meaning_alone(ranking, noise_floor))
    elif query.intent != QUESTION:
        assessment = Assessment(_keyword_confidence(query, ranking, noise_floor))
    else:
        assessment = _assess_question(query, ranking, noise_floor, has_observations)
        exact = {number for number, term in enumerate(query.terms) if term.exact}
        if exact and any(not exact.isdisjoint(scored.terms) for scored in ranking):
            assessment = assessment._replace(is_weak=False)
        if assessment.is_weak and _has_statement(query, ranking[:_BEST]):
            assessment = assessment._replace(is_weak=False)
    confidence = min(max(assessment.confidence, _MIN_CONFIDENCE), 1.0)
    return assessment._replace(confidence=confidence)


def _meaning_alone(ranking: Sequence[ScoredCandidate], noise_floor: float | None) -> float:
    """The confidence in hits by their meaning alone: a half if the best cosine is the noise floor.

    Without a noise floor, it is the best cosine itself.
    """
    nearest = max(scored.cosine or 0.0 for scored in ranking[:_BEST])
    if not noise_floor:
        return nearest
    return _MEANING * nearest / noise_floor


def _keyword_confidence(
    query: RankingQuery, ranking: Sequence[ScoredCandidate], noise_floor: float | None
) -> float:
    """Keywords name words: a hit that contains all of them is certain, whatever its meaning."""
    terms = query.terms
    total = math.fsum(term.weight for term in own_terms(terms)) or 1.0
    # Synonyms have a smaller weight, but they count: the library may have nothing else.
    weights = [math.fsum(terms[n].weight for n in s.all_terms) for s in ranking[:_BEST]]
    share = max(weights) / total
    if not noise_floor or query.intent != KEYWORDS:
        return share
    return max(share, _meaning_alone(ranking, noise_floor))


def _assess_question(
    query: RankingQuery,
    ranking: Sequence[ScoredCandidate],
    noise_floor: float | None,
    has_observations: bool,
) -> Assessment:
    """How much of a question the best exchanges contain.

    Their meaning counts only in English, which the model knows best.
    """
    language = language_of(query.text)
    rules: set[int] | None = None
    if has_observations and language.asks_for_rule(query.text):
        rules = _rules(ranking)
    if language is not ENGLISH:
        return _assess_foreign_question(query, ranking, rules, language)
    exchanges = _best_exchanges(query, ranking)
    share = max(each.share for each in exchanges)
    lacks_name = share < _MIN_SHARE_WITHOUT_NAME and _lacks_name(query, ranking)
    if not noise_floor:
        return Assessment(share, lacks_name or share < _MIN_SHARE)
    names = _known_names(query)
    most = max(_evidence(each, names, rules, noise_floor) for each in exchanges)
    return Assessment(most / _FULL_EVIDENCE, lacks_name or most < _MIN_EVIDENCE)


def _assess_foreign_question(
    query: RankingQuery,
    ranking: Sequence[ScoredCandidate],
    rules: set[int] | None,
    language: Language,
) -> Assessment:
    share = _conversation_share(query, ranking, rules)
    least = _MIN_SHARE_IN_OTHER_LANGUAGES
    if language.unspaced:
        least = _MIN_SHARE_WITHOUT_SPACES
    return Assessment(share, share < least)


class _Exchange(NamedTuple):
    """One of the best hits, and the terms in it and in the messages around it."""

    hit: ScoredCandidate
    terms: Set[int]
    share: float
    """The share of the question that the terms make up, by weight."""

    def words_and_meaning(self, noise_floor: float) -> float:
        return self.share + _MEANING * self.similarity(noise_floor)

    def similarity(self, noise_floor: float) -> float:
        return (self.hit.cosine or 0.0) / noise_floor


def _evidence(
    exchange: _Exchange, names: Set[int], rules: set[int] | None, noise_floor: float
) -> float:
    """How much of the question an exchange has, in words and in meaning.

    If the question names something, other words are evidence only next to one of the names. A name
    alone says what the question is about, not that the exchange answers it.
    """
    lacks_name = bool(names) and names.isdisjoint(exchange.terms)
    if lacks_name or _lacks_rule(exchange, rules):
        return _MEANING * exchange.similarity(noise_floor)
    if names and exchange.terms <= names and exchange.similarity(noise_floor) < 1:
        return 0.0
    return exchange.words_and_meaning(noise_floor)


def _has_statement(query: RankingQuery, best: Sequence[ScoredCandidate]) -> bool:
    """Whether a request meets what the user told the assistant about the topic.

    A request is about something new ("Suggest a flight to Rome"), so it may mention names that the
    library does not have. Preferences about flights are what it needs.
    """
    if not language_of(query.text).is_request(query.text):
        return False
    statements = [s for s in best if s.part("liking") > 0 or s.part("instruction") > 0]
    if not statements:
        return False
    shares = _shares_without(query, names_in(query.text))
    return any(math.fsum(shares[n] for n in s.terms) >= _MIN_SHARE for s in statements)


def _rules(ranking: Sequence[ScoredCandidate]) -> set[int]:
    """The keys of the hits that are standing instructions or stand for observed preferences."""
    return {
        scored.candidate.key
        for scored in ranking
        if scored.part("preference") > 0 or scored.part("instruction") > 0
    }


def _lacks_rule(exchange: _Exchange, rules: Set[int] | None) -> bool:
    """Whether a question asks for a rule, and the exchange only mentions what it is about.

    Such questions are short and use frequent words, so some exchange always contains them. A rule
    that was stated is an instruction, or has been observed as a preference.
    """
    if rules is None or exchange.hit.candidate.key in rules:
        return False
    return exchange.share < _MIN_SHARE_WITHOUT_RULE


def _conversation_share(
    query: RankingQuery, ranking: Sequence[ScoredCandidate], rules: Set[int] | None
) -> float:
    """The largest share of the question, by weight, that one conversation contains.

    If the question asks for a rule, only conversations with a rule count, unless one contains
    nearly all of the question.
    """
    numbers: dict[str, set[int]] = {}
    for scored in ranking:
        numbers.setdefault(scored.candidate.document, set()).update(scored.all_terms)
    share = _largest_share(query, numbers.values())
    if rules is None or share >= _MIN_SHARE_WITHOUT_RULE:
        return share
    with_rule = {s.candidate.document for s in ranking if s.candidate.key in rules}
    return _largest_share(query, [set(), *(numbers[document] for document in with_rule)])


def _best_exchanges(query: RankingQuery, ranking: Sequence[ScoredCandidate]) -> list[_Exchange]:
    best = ranking[:_BEST]
    documents = {scored.candidate.document for scored in best}
    by_place = {
        (scored.candidate.document, scored.candidate.position): scored
        for scored in ranking
        if scored.candidate.document in documents and scored.candidate.kind == CONVERSATION
    }
    times = _times(query)
    exchanges = []
    for scored in best:
        messages = [scored]
        candidate = scored.candidate
        if candidate.kind == CONVERSATION:
            positions = range(candidate.position - _EXCHANGE, candidate.position + _EXCHANGE + 1)
            places = [(candidate.document, position) for position in positions]
            messages += [by_place[place] for place in places if place in by_place]
        terms = _terms_of(messages, times)
        exchanges.append(_Exchange(scored, terms, _largest_share(query, [terms])))
    return exchanges


def _times(query: RankingQuery) -> set[int]:
    """The numbers of the terms for a time; none if a question has no others."""
    names = period_words(query.text)
    numbers = {number for number, term in enumerate(query.terms) if term.name in names}
    if len(numbers) == len(query.terms):
        return set()
    return numbers


def _terms_of(messages: Sequence[ScoredCandidate], times: Set[int]) -> set[int]:
    """The terms in the messages of an exchange.

    That they were written at the time of the question says nothing about its topic, so the words of
    their dates count only next to others.
    """
    terms = set().union(*(message.all_terms for message in messages))
    in_texts = set().union(*({*message.terms, *message.title_terms} for message in messages))
    if terms <= times and not in_texts:
        return set()
    return terms


def _largest_share(query: RankingQuery, term_sets: Iterable[set[int]]) -> float:
    """The largest share of the query, by weight, that one of these sets of terms makes up.

    Words for a time that occur nowhere do not count: what was written "before 2024" rarely says so.
    """
    shares = _shares_without(query, period_words(query.text))
    return max(math.fsum([shares[number] for number in each]) for each in term_sets)


def _shares_without(query: RankingQuery, names: Set[str]) -> Sequence[float]:
    """The share of each term of a query, without those of these names that occur nowhere."""
    terms = []
    for term in query.terms:
        if term.name in names and not term.frequency:
            term = term._replace(weight=0.0)
        terms.append(term)
    return evidence_shares(terms)


def _known_names(query: RankingQuery) -> set[int]:
    """The numbers of the terms that are names in the question and occur in the library.

    For a name that does not occur, these are its synonyms: an exchange about any server does not
    answer a question about Jenkins, one about CI may. Empty if the question has no other words: a
    message that mentions David is evidence for "Who is David?"
    """
    names = names_in(query.text) - DATE_WORDS
    numbers = {
        number
        for number, term in enumerate(query.terms)
        if not names.isdisjoint((term.name, term.stands_for)) and term.frequency
    }
    if len(numbers) == len(query.terms):
        return set()
    return numbers


def _lacks_name(query: RankingQuery, ranking: Sequence[ScoredCandidate]) -> bool:
    """Whether the question mentions something by a name that the library does not have."""
    names = names_in(query.text) - DATE_WORDS
    missing = {
        number: term.name
        for number, term in enumerate(query.terms)
        if term.name in names and not term.frequency
    }
    if not missing:
        return False
    numbers = set().union(*(scored.all_terms for scored in ranking))
    absent = [name for number, name in missing.items() if number not in numbers]
    return any(not phrases for phrases in synonyms(absent))
