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
        confidence, is_weak = _Question(query, ranking, noise_floor, has_observations).assess()
    return Assessment(min(max(confidence, _MIN_CONFIDENCE), 1.0), is_weak)


class _Exchange(NamedTuple):
    """One of the best hits, and the terms in it and in the messages around it."""

    hit: ScoredCandidate
    terms: Set[int]
    share: float
    """The share of the question that the terms make up, by weight."""


class _Question:
    """How much of a question the best exchanges contain."""

    def __init__(
        self,
        query: RankingQuery,
        ranking: Sequence[ScoredCandidate],
        noise_floor: float | None,
        has_observations: bool,
    ) -> None:
        self._query = query
        self._ranking = ranking
        self._noise_floor = noise_floor
        self._language = language_of(query.text)
        self._names = names_in(query.text) - DATE_WORDS
        self._times = period_words(query.text)
        self._shares = self._shares_without(self._times)
        self._rules: set[int] | None = None
        """If the question asks for a rule: the hits that are standing instructions or stand for
        observed preferences."""
        if has_observations and self._language.has("asks_rule", query.text):
            self._rules = {
                scored.candidate.key
                for scored in ranking
                if scored.part("preference") > 0 or scored.part("instruction") > 0
            }

    def assess(self) -> tuple[float, bool]:
        """The confidence in the hits, and whether they are probably unrelated.

        Their meaning counts only in English, which the model knows best.
        """
        if self._language is ENGLISH:
            confidence, is_weak = self._assess_exchanges()
        else:
            confidence = self._conversation_share()
            is_weak = confidence < _MIN_SHARE_IN_OTHER_LANGUAGES
            if self._language.unspaced:
                is_weak = confidence < _MIN_SHARE_WITHOUT_SPACES
        exact = {number for number, term in enumerate(self._query.terms) if term.exact}
        has_exact = any(not exact.isdisjoint(scored.terms) for scored in self._ranking)
        return confidence, is_weak and not has_exact and not self._has_statement()

    def _assess_exchanges(self) -> tuple[float, bool]:
        exchanges = self._best_exchanges()
        share = max(each.share for each in exchanges)
        lacks_name = share < _MIN_SHARE_WITHOUT_NAME and self._lacks_name()
        if not self._noise_floor:
            return share, lacks_name or share < _MIN_SHARE
        names = self._known_names()
        most = max(self._evidence(each, names, self._noise_floor) for each in exchanges)
        return most / _FULL_EVIDENCE, lacks_name or most < _MIN_EVIDENCE

    def _evidence(self, exchange: _Exchange, names: Set[int], noise_floor: float) -> float:
        """How much of the question an exchange has, in words and in meaning.

        If the question names something, other words are evidence only next to one of the names. A
        name alone says what the question is about, not that the exchange answers it.
        """
        similarity = (exchange.hit.cosine or 0.0) / noise_floor
        lacks_name = bool(names) and names.isdisjoint(exchange.terms)
        # Questions for a rule are short and use frequent words, so some exchange always has them.
        lacks_rule = (
            self._rules is not None
            and exchange.hit.candidate.key not in self._rules
            and exchange.share < _MIN_SHARE_WITHOUT_RULE
        )
        if lacks_name or lacks_rule:
            return _MEANING * similarity
        if names and exchange.terms <= names and similarity < 1:
            return 0.0
        return exchange.share + _MEANING * similarity

    def _best_exchanges(self) -> list[_Exchange]:
        best = self._ranking[:_BEST]
        by_place = {
            (scored.candidate.document, scored.candidate.position): scored
            for scored in self._ranking
            if scored.candidate.kind == CONVERSATION
        }
        times = {n for n, term in enumerate(self._query.terms) if term.name in self._times}
        if len(times) == len(self._query.terms):
            times = set()
        exchanges = []
        for scored in best:
            messages = [scored]
            candidate = scored.candidate
            if candidate.kind == CONVERSATION:
                first = candidate.position - _EXCHANGE
                places = [(candidate.document, first + n) for n in range(2 * _EXCHANGE + 1)]
                messages += [by_place[place] for place in places if place in by_place]
            terms = set().union(*(message.all_terms for message in messages))
            in_texts = set().union(*({*m.terms, *m.title_terms} for m in messages))
            # That they were written at the time of the question says nothing about its topic, so
            # the words of their dates count only next to others.
            if terms <= times and not in_texts:
                terms = set()
            exchanges.append(_Exchange(scored, terms, self._share(terms)))
        return exchanges

    def _conversation_share(self) -> float:
        """The largest share of the question, by weight, that one conversation contains.

        If the question asks for a rule, only conversations with a rule count, unless one contains
        nearly all of the question.
        """
        terms: dict[str, set[int]] = {}
        for scored in self._ranking:
            terms.setdefault(scored.candidate.document, set()).update(scored.all_terms)
        share = max(map(self._share, terms.values()))
        if self._rules is None or share >= _MIN_SHARE_WITHOUT_RULE:
            return share
        with_rule = {s.candidate.document for s in self._ranking if s.candidate.key in self._rules}
        return max((self._share(terms[document]) for document in with_rule), default=0.0)

    def _share(self, terms: Iterable[int]) -> float:
        return math.fsum([self._shares[number] for number in terms])

    def _shares_without(self, names: Set[str]) -> Sequence[float]:
        """The share of each term of the question, without those of these names that occur nowhere.

        What was written "before 2024" rarely says so.
        """
        return term_shares(
            [
                term._replace(weight=0.0) if term.name in names and not term.frequency else term
                for term in self._query.terms
            ]
        )

    def _has_statement(self) -> bool:
        """Whether a request meets what the user told the assistant about the topic.

        A request is about something new ("Suggest a flight to Rome"), so it may mention names that
        the library does not have. Preferences about flights are what it needs.
        """
        if not self._language.has("requests", self._query.text):
            return False
        shares = self._shares_without(names_in(self._query.text))
        return any(
            math.fsum(shares[number] for number in scored.terms) >= _MIN_SHARE
            for scored in self._ranking[:_BEST]
            if scored.part("liking") > 0 or scored.part("instruction") > 0
        )

    def _known_names(self) -> set[int]:
        """The terms that are names in the question and occur in the library.

        For a name that does not occur, these are its synonyms: an exchange about any server does
        not answer a question about Jenkins, one about CI may. Empty if the question has no other
        words: a message that mentions David is evidence for "Who is David?"
        """
        terms = self._query.terms
        numbers = {
            number
            for number, term in enumerate(terms)
            if not self._names.isdisjoint((term.name, term.stands_for)) and term.frequency
        }
        return numbers if len(numbers) < len(terms) else set()

    def _lacks_name(self) -> bool:
        """Whether the question mentions something by a name that the library does not have."""
        found = set().union(*(scored.all_terms for scored in self._ranking))
        absent = [
            term.name
            for number, term in enumerate(self._query.terms)
            if term.name in self._names and not term.frequency and number not in found
        ]
        return any(not phrases for phrases in synonyms(absent))
