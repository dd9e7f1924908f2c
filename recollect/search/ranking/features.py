"""The features of candidates; see `search.rank` for what they mean.

Each is computed for many candidates at once.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime, timedelta

from recollect.language.addressee import is_about_assistant
from recollect.language.detection import language_of
from recollect.language.intent import QUESTION, identifiers
from recollect.language.text import tokens
from recollect.language.when import Window
from recollect.model.kinds import CONVERSATION
from recollect.search.ranking.conversations import Conversations
from recollect.search.ranking.dialogues import prefers_person, speaker_in_query
from recollect.search.ranking.long_texts import ranked_part
from recollect.search.ranking.scored import Question, ScoredCandidate
from recollect.search.ranking.term_pairs import TermPairs
from recollect.search.terms import term_shares

_MINIMUM_NEAREST = 0.2  # if the best cosine is lower, no candidate is similar to the query
_LONG_MESSAGE_WORDS = 100
_SHORT_MESSAGE_WORDS = 40  # at this length `reply` counts half as much as for an empty message
_TITLE_SHARE = 0.9  # an identifier in the title counts this much of one in the text
_OTHER_SPELLING_SHARE = 0.95  # and its words with other punctuation ("1, 6" for 1-6) this much
_WEEK = timedelta(days=7)
_DAY = timedelta(days=1)
_QUESTION_MARKS = ("?", "？", "؟")

Column = Sequence[float]
"""A feature of several candidates. It is empty if it is 0 for all of them."""
Group = Sequence[ScoredCandidate]


class Features:
    """Computes the features of the candidates of one pool."""

    def __init__(self, question: Question, pool: Group) -> None:
        self._question = question
        self._best_text_score = max((s.text_score for s in pool), default=0.0) or 1.0
        nearest = max((s.cosine or 0.0 for s in pool), default=0.0)
        self._nearest = max(nearest, _MINIMUM_NEAREST)
        self._pairs = TermPairs(question.terms)
        self._exact = frozenset(n for n, term in enumerate(question.terms) if term.exact)
        self._spellings = _spellings(question)
        self._shares = term_shares(question.terms)
        self._own_numbers = {n for n, term in enumerate(question.terms) if not term.weak}
        self._columns = {
            "words": self._words,
            "close": self._close,
            "meaning": self._meaning,
            "recent": self._recent,
            "time": self._time,
            "title": self._title,
            "exact": self._exact_terms,
        }
        if question.intent == QUESTION:
            self._add_question_features(pool)
        else:
            self._columns |= {
                "covered": self._covered,
                "complete": self._complete,
                "adjacent": self._adjacent,
                "phrase": self._phrase,
            }

    def _add_question_features(self, pool: Group) -> None:
        text = self._question.text
        self._asks_assistant = is_about_assistant(text)
        self._is_request = language_of(text).is_request(text)
        self._asks_rule = language_of(text).asks_for_rule(text)
        self._by_position = {(s.candidate.document, s.candidate.position): s for s in pool}
        self._conversations = Conversations(self._question, pool)
        self._prefers_person = prefers_person(self._question, pool)
        self._speaker = speaker_in_query(self._question, pool)
        self._columns |= {
            "topic": self._topic,
            "reply": self._replies,
            "whole": self._whole,
            "side": self._side,
            "person": self._person,
            "speaker": self._speakers,
            "question": self._questions,
            "past": self._past,
            "answer": self._answer,
            "preference": self._preference,
            "first_person": self._first_person,
            "around": self._around,
            "context": self._context,
            "length": self._length,
            "opening": self._opening,
            "later": self._later,
        }

    @property
    def names(self) -> Sequence[str]:
        """The features that exist for this kind of query."""
        return tuple(self._columns)

    def column(self, name: str, group: Group) -> Column:
        return self._columns[name](group)

    # -- words ---

    def _words(self, group: Group) -> Column:
        best = self._best_text_score
        return [scored.text_score / best for scored in group]

    def _close(self, group: Group) -> Column:
        proximity = self._pairs.proximity
        return [proximity(s.matches) if len(s.matches) > 1 else 0.0 for s in group]

    def _title(self, group: Group) -> Column:
        if not any(scored.title_terms for scored in group):
            return ()
        return [self._share(scored.title_terms) for scored in group]

    def _exact_terms(self, group: Group) -> Column:
        if not self._exact:
            return ()
        return [self._exact_share(scored) for scored in group]

    def _exact_share(self, scored: ScoredCandidate) -> float:
        """The share of the identifiers. Those in the title count a little less."""
        in_text = sum(
            self._spelling_share(n, scored) for n in self._exact.intersection(scored.terms)
        )
        in_title = len((self._exact & scored.title_terms).difference(scored.terms))
        return (in_text + _TITLE_SHARE * in_title) / len(self._exact)

    def _spelling_share(self, number: int, scored: ScoredCandidate) -> float:
        """What an identifier in the text counts: its words may be there only by chance."""
        spelling = self._spellings.get(number)
        if spelling is None:
            return 1.0
        text = ranked_part(scored.candidate.content, [self._question.terms[number]])
        if spelling.search(text):
            return 1.0
        return _OTHER_SPELLING_SHARE

    def _covered(self, group: Group) -> Column:
        return [self._share(scored.all_terms) for scored in group]

    def _complete(self, group: Group) -> Column:
        return [float(self._own_numbers <= scored.all_terms) for scored in group]

    def _adjacent(self, group: Group) -> Column:
        return [self._pairs.adjacency(scored.matches) for scored in group]

    def _phrase(self, group: Group) -> Column:
        return [float(scored.has_phrase) for scored in group]

    def _share(self, numbers: AbstractSet[int]) -> float:
        """The share of the query, by weight, that these terms are. Synonyms do not count."""
        if not numbers:
            return 0.0
        return math.fsum([self._shares[number] for number in numbers])

    # -- meaning and time ---

    def _meaning(self, group: Group) -> Column:
        return [_cosine(scored) / self._nearest for scored in group]

    def _recent(self, group: Group) -> Column:
        now = self._question.now
        return [_recency(now, scored.candidate.created_at) for scored in group]

    def _time(self, group: Group) -> Column:
        windows = self._question.windows
        if not windows:
            return ()
        return [_time_score(windows, scored.candidate.created_at) for scored in group]

    def _later(self, group: Group) -> Column:
        end = self._question.now + _DAY  # clocks and time zones differ
        return [float((scored.candidate.created_at or end) > end) for scored in group]

    # -- the conversation ---

    def _topic(self, group: Group) -> Column:
        cosines = self._conversations.best_cosines
        return [cosines.get(s.candidate.document, 0.0) / self._nearest for s in group]

    def _whole(self, group: Group) -> Column:
        scores = self._conversations.whole_scores
        return [scores.get(scored.candidate.document, 0.0) for scored in group]

    def _side(self, group: Group) -> Column:
        conversations = self._conversations
        column = []
        for scored in group:
            scores = conversations.whole_scores
            if scored.candidate.kind == CONVERSATION:
                scores = conversations.user_scores
            column.append(scores.get(scored.candidate.document, 0.0))
        return column

    def _replies(self, group: Group) -> Column:
        return [self._reply(scored) for scored in group]

    def _reply(self, scored: ScoredCandidate) -> float:
        """How well the question that this message answers matches."""
        previous = self._neighbour(scored, -1)
        if previous is None or not _is_question(previous.candidate.content):
            return 0.0
        brevity = 1 / (1 + scored.length / _SHORT_MESSAGE_WORDS)
        return previous.text_score / self._best_text_score * brevity

    def _neighbour(self, scored: ScoredCandidate, step: int) -> ScoredCandidate | None:
        """The message before or after, if it is in the pool."""
        candidate = scored.candidate
        return self._by_position.get((candidate.document, candidate.position + step))

    # -- the author ---

    def _person(self, group: Group) -> Column:
        if not self._prefers_person:
            return ()
        return [
            float(scored.candidate.role == "user" or scored.candidate.kind != CONVERSATION)
            for scored in group
        ]

    def _speakers(self, group: Group) -> Column:
        if self._speaker is None:
            return ()
        return [float(scored.candidate.author == self._speaker) for scored in group]

    # -- what the message says ---

    def _questions(self, group: Group) -> Column:
        # Advice depends on what the user said before, also in earlier requests.
        if self._is_request:
            return ()
        return [float(_is_question(scored.candidate.content)) for scored in group]

    def _past(self, group: Group) -> Column:
        return [float(scored.tells_past) for scored in group]

    def _answer(self, group: Group) -> Column:
        return [float(scored.has_answer) for scored in group]

    def _preference(self, group: Group) -> Column:
        if not self._is_request and not self._asks_rule:
            return ()
        return [float(self._answers_preference(scored)) for scored in group]

    def _answers_preference(self, scored: ScoredCandidate) -> bool:
        """Whether it says what the user wants, and the question asks for that."""
        if self._asks_rule and scored.is_observed_preference:
            return True
        by_user = scored.candidate.role == "user"
        return self._is_request and by_user and scored.states_preference

    def _opening(self, group: Group) -> Column:
        if self._asks_assistant:
            return ()
        return [float(scored.candidate.position == 0) for scored in group]

    # -- dialogues between people ---

    def _first_person(self, group: Group) -> Column:
        return [scored.first_person for scored in group]

    def _length(self, group: Group) -> Column:
        return [min(s.length, _LONG_MESSAGE_WORDS) / _LONG_MESSAGE_WORDS for s in group]

    def _around(self, group: Group) -> Column:
        # A message depends more on what it replies to than on the reply to it.
        return [
            (2 * _cosine(self._neighbour(s, -1)) + _cosine(self._neighbour(s, 1)))
            / 3
            / self._nearest
            for s in group
        ]

    def _context(self, group: Group) -> Column:
        column = []
        for scored in group:
            neighbours = self._neighbour(scored, -1), self._neighbour(scored, 1)
            terms = {number for each in neighbours if each is not None for number in each.terms}
            column.append(self._share(terms.difference(scored.all_terms)))
        return column


def _cosine(scored: ScoredCandidate | None) -> float:
    if scored is None or scored.cosine is None or scored.cosine < 0.0:
        return 0.0
    return scored.cosine


def _is_question(content: str) -> bool:
    return content.rstrip().endswith(_QUESTION_MARKS)


def _recency(now: datetime, created_at: datetime | None) -> float:
    """1 for now, a half for a week ago."""
    if created_at is None:
        return 0.0
    return 1 / (1 + abs(now - created_at) / _WEEK)


def _time_score(windows: Sequence[Window], created_at: datetime | None) -> float:
    """1 inside a period that the query names, falling to 0 one period's length away from it."""
    if created_at is None:
        return 0.0
    best = 0.0
    for window in windows:
        width = max(window.end - window.start, _DAY)
        distance = max(window.start - created_at, created_at - window.end, timedelta(0))
        best = max(best, 1 - distance / width)
    return best


def _spellings(question: Question) -> dict[int, re.Pattern[str]]:
    """How the identifiers of several words are spelled, by the numbers of their terms."""
    phrases = {
        number: term.forms[0] for number, term in enumerate(question.terms) if term.is_phrase
    }
    if not phrases:
        return {}
    by_form = {tuple(tokens(word)): word for word in identifiers(question.text)}
    return {
        number: re.compile(rf"(?<!\w){re.escape(by_form[form])}(?!\w)", re.IGNORECASE)
        for number, form in phrases.items()
        if form in by_form
    }
