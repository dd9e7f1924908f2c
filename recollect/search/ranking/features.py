"""The features of candidates; see `search.rank` for what they mean.

Each is computed for all candidates of a pool at once.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import cached_property
from itertools import accumulate

import numpy as np

from recollect.language.detection import language_of
from recollect.language.queries.addressee import is_about_assistant, is_to_assistant
from recollect.language.queries.intent import QUESTION, identifiers
from recollect.language.text import tokens
from recollect.language.when import Window
from recollect.model.kinds import CONVERSATION
from recollect.search.queries.ranking_query import RankingQuery
from recollect.search.queries.terms import term_shares
from recollect.search.ranking import answer
from recollect.search.ranking.conversations import Conversations
from recollect.search.ranking.dialogues import prefers_person, speaker_in_query
from recollect.search.ranking.long_texts import ranked_part
from recollect.search.ranking.scored import ScoredCandidate
from recollect.search.ranking.text_columns import Column, TermMatrix, TextColumns

_MINIMUM_NEAREST = 0.2  # if the best cosine is lower, no candidate is similar to the query
_LONG_MESSAGE_WORDS = 100
_SHORT_MESSAGE_WORDS = 40  # at this length `reply` counts half as much as for an empty message
_INSTRUCTION_LENGTH = 200  # characters in which a standing instruction begins
# What an identifier counts that is not in the text as it was typed, compared with one that is: in
# the title only, or with other punctuation ("1, 6" for 1-6). That takes away more than a title with
# its words adds.
_TITLE_SHARE = 0.9
_OTHER_SPELLING_SHARE = 0.7
_WEEK = timedelta(days=7)
_DAY = timedelta(days=1)
_WEEK_MICROSECONDS = _WEEK // timedelta(microseconds=1)
_NEVER = datetime.min.replace(tzinfo=UTC)
_QUESTION_MARKS = frozenset("?？؟")


class Features:
    """Computes the features of the candidates of one pool, which is not empty."""

    def __init__(self, query: RankingQuery, pool: Sequence[ScoredCandidate]) -> None:
        self._query = query
        self._pool = pool
        self._texts = _text_columns(pool)
        self._candidates = [scored.candidate for scored in pool]
        self.keys = np.array([candidate.key for candidate in self._candidates], np.int64)
        self.is_ranked = flags([s.by_text or s.by_vector for s in pool])
        """Whether an arm found the candidate."""
        self._zeros: Column = np.zeros(len(pool))
        self._cosines: Column = np.maximum([s.cosine or 0.0 for s in pool], 0.0)
        self._best_text_score = self._texts.scores.max() or 1.0
        self._nearest = max(self._cosines.max(), _MINIMUM_NEAREST)
        self._exact = frozenset(n for n, term in enumerate(query.terms) if term.exact)
        self._spellings = _spellings(query)
        self._shares = np.array(term_shares(query.terms))
        self._columns = {
            "words": self._words,
            "close": self._close,
            "meaning": self._meaning,
            "recent": self._recent,
            "time": self._time,
            "title": self._title,
            "exact": self._exact_terms,
            "phrase": self._phrase,
        }
        if query.intent == QUESTION:
            self._add_question_features()
        else:
            self._columns |= {
                "covered": self._covered,
                "complete": self._complete,
                "adjacent": self._adjacent,
                "typed": self._typed,
            }

    def _add_question_features(self) -> None:
        text = self._query.text
        self._asks_assistant = is_about_assistant(text)
        self._is_to_assistant = is_to_assistant(text)
        self._is_request = language_of(text).is_request(text)
        self._asks_rule = language_of(text).asks_for_rule(text)
        candidates = self._candidates
        self._conversations = Conversations(candidates)
        self._positions = np.array([c.position for c in candidates], np.int64)
        self._is_by_user = flags([c.role == "user" for c in candidates])
        self._is_message = flags([c.kind == CONVERSATION for c in candidates])
        self._is_question = flags([c.content.rstrip()[-1:] in _QUESTION_MARKS for c in candidates])
        self._columns |= {
            "topic": self._topic,
            "reply": self._reply,
            "whole": self._whole,
            "side": self._side,
            "person": self._person,
            "speaker": self._speakers,
            "question": self._questions,
            "past": self._past,
            "answer": self._answer,
            "preference": self._preference,
            "liking": self._liking,
            "instruction": self._instruction,
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

    def column(self, name: str) -> Column:
        """A feature of each candidate."""
        return self._columns[name]()

    # -- words ---

    def _words(self) -> Column:
        return self._texts.scores / self._best_text_score

    def _close(self) -> Column:
        return self._texts.proximity

    def _title(self) -> Column:
        return self._share(self._texts.is_in_title)

    def _exact_terms(self) -> Column:
        if not self._exact:
            return self._zeros
        return np.array([self._exact_share(scored) for scored in self._pool])

    def _exact_share(self, scored: ScoredCandidate) -> float:
        """The share of the identifiers. Those in the title count a little less."""
        in_text = sum(
            self._spelling_share(n, scored) for n in self._exact.intersection(scored.terms)
        )
        in_title = len(self._exact.intersection(scored.title_terms).difference(scored.terms))
        return (in_text + _TITLE_SHARE * in_title) / len(self._exact)

    def _spelling_share(self, number: int, scored: ScoredCandidate) -> float:
        """How much an identifier in the text counts: its words may be there only by chance."""
        spelling = self._spellings.get(number)
        if spelling is None:
            return 1.0
        text = ranked_part(scored.candidate.content, [self._query.terms[number]])
        if spelling.search(text):
            return 1.0
        return _OTHER_SPELLING_SHARE

    def _covered(self) -> Column:
        return self._share(self._texts.is_anywhere)

    def _complete(self) -> Column:
        own_numbers = [n for n, term in enumerate(self._query.terms) if not term.weak]
        return self._texts.is_anywhere[:, own_numbers].all(axis=1)

    def _adjacent(self) -> Column:
        return self._texts.adjacency

    def _typed(self) -> Column:
        return self._share(self._texts.is_as_typed)

    def _phrase(self) -> Column:
        return self._texts.has_phrase

    def _share(self, terms: TermMatrix) -> Column:
        """The share of the query, by weight, that the terms of each candidate make up.

        Synonyms do not count.
        """
        return (terms * self._shares).sum(axis=1)

    # -- meaning and time ---

    def _meaning(self) -> Column:
        return self._cosines / self._nearest

    def _recent(self) -> Column:
        """1 for now, a half for a week ago."""
        return 1 / (1 + np.abs(self._weeks))

    def _later(self) -> Column:
        if not self._query.by_person:  # nobody asked anything
            return self._zeros
        return self._weeks < -_DAY / _WEEK  # clocks and time zones differ

    @cached_property
    def _weeks(self) -> Column:
        """The age of each candidate; infinite if it has no date."""
        now = self._query.now
        moments = [candidate.created_at for candidate in self._candidates]
        ages = [now - (moment or _NEVER) for moment in moments]
        # Faster than dividing each by a week.
        seconds = np.array([age.days * 86_400 + age.seconds for age in ages])
        microseconds = seconds * 1_000_000 + np.array([age.microseconds for age in ages])
        has_no_date = flags([moment is None for moment in moments])
        return np.where(has_no_date, np.inf, microseconds / _WEEK_MICROSECONDS)

    def _time(self) -> Column:
        windows = self._query.windows
        if not windows:
            return self._zeros
        return np.array([_time_score(windows, c.created_at) for c in self._candidates])

    # -- the conversation ---

    def _topic(self) -> Column:
        return self._conversations.best(self._cosines) / self._nearest

    def _whole(self) -> Column:
        return self._conversation_scores[0]

    def _side(self) -> Column:
        whole, by_user = self._conversation_scores
        return np.where(self._is_message, by_user, whole)

    @cached_property
    def _conversation_scores(self) -> Column:
        """BM25 of the whole conversation, and of the user's messages in it."""
        selections = np.column_stack([self._zeros == 0, self._is_by_user])
        return self._conversations.text_scores(self._query.terms, self._texts, selections)

    def _reply(self) -> Column:
        """How well the question that this message answers matches."""
        brevity = 1 / (1 + self._texts.lengths / _SHORT_MESSAGE_WORDS)
        return self._beside(-1, self._words() * self._is_question) * brevity

    # -- the author ---

    def _person(self) -> Column:
        rows = np.flatnonzero(self.is_ranked & self._is_message).tolist()
        if not prefers_person(self._query, {self._candidates[row].role for row in rows}):
            return self._zeros
        is_own = self._is_by_user | ~self._is_message
        has_word = self._texts.is_anywhere.any(axis=1)
        if not has_word.any():
            return is_own
        # Every conversation has messages by the user. Without a word of the question, only a
        # resemblance says that one is about it, which is less than the words in a reply say.
        return is_own & has_word

    def _speakers(self) -> Column:
        authors = [candidate.author for candidate in self._candidates]
        speaker = speaker_in_query(self._query, set(authors))
        if speaker is None:
            return self._zeros
        return flags([author == speaker for author in authors])

    # -- what the message says ---

    def _questions(self) -> Column:
        # Advice depends on what the user said before, also in earlier requests.
        if self._is_request:
            return self._zeros
        return self._is_question

    def _past(self) -> Column:
        return self._has_traits(answer.FIRST_PERSON | answer.PAST)

    def _answer(self) -> Column:
        return self._has_traits(answer.ANSWER)

    def _preference(self) -> Column:
        if not self._is_request and not self._asks_rule:
            return self._zeros
        is_observed = np.array([scored.is_observed_preference for scored in self._pool])
        is_stated = self._has_traits(answer.FIRST_PERSON | answer.PREFERENCE) & self._is_by_user
        return (self._asks_rule & is_observed) | (self._is_request & is_stated)

    def _liking(self) -> Column:
        if not self._is_to_assistant:
            return self._zeros
        return self._has_traits(answer.FIRST_PERSON | answer.LIKING) & self._is_by_user

    def _instruction(self) -> Column:
        if not self._is_to_assistant:
            return self._zeros
        language = language_of(self._query.text)
        is_instruction = [
            c.role == "user" and language.has_standing_instruction(c.content[:_INSTRUCTION_LENGTH])
            for c in self._candidates
        ]
        return flags(is_instruction) * self._meaning()

    def _has_traits(self, traits: int) -> Column:
        """Whether the best window has words with each of these traits."""
        return (self._texts.traits & traits) == traits

    def _opening(self) -> Column:
        if self._asks_assistant:
            return self._zeros
        return self._positions == 0

    # -- dialogues between people ---

    def _first_person(self) -> Column:
        return self._texts.first_person

    def _length(self) -> Column:
        return np.minimum(self._texts.lengths, _LONG_MESSAGE_WORDS) / _LONG_MESSAGE_WORDS

    def _around(self) -> Column:
        # A message depends more on what it replies to than on the reply to it.
        cosines = 2 * self._beside(-1, self._cosines) + self._beside(1, self._cosines)
        return cosines / 3 / self._nearest

    def _context(self) -> Column:
        is_in_text = self._texts.is_in_text
        is_around = self._beside(-1, is_in_text) | self._beside(1, is_in_text)
        return self._share(is_around & ~self._texts.is_anywhere)

    def _beside(self, step: int, column: Column) -> Column:
        """The value of the message before (-1) or after (1); 0 if it is not in the pool."""
        places = self._places + step
        rows = self._order[np.searchsorted(self._places, places, "right", self._order) - 1]
        values = column[rows]
        values[self._places[rows] != places] = 0
        return values

    @cached_property
    def _places(self) -> Column:
        """Numbers that are consecutive only for consecutive messages of a conversation."""
        positions = self._positions - self._positions.min()
        return self._conversations.numbers * (positions.max() + 2) + positions

    @cached_property
    def _order(self) -> Column:
        return np.argsort(self._places, kind="stable")


def flags(values: Sequence[bool]) -> Column:
    """Booleans as an array. For some hundred, this is four times as fast as `np.array`."""
    return np.frombuffer(bytes(values), np.bool_)


def _text_columns(pool: Sequence[ScoredCandidate]) -> TextColumns:
    """The columns of a pool, whose terms were found in one or more batches."""
    batches = {id(scored.batch): scored.batch for scored in pool}
    sizes = [len(batch.scores) for batch in batches.values()]
    starts = dict(zip(batches, accumulate(sizes, initial=0), strict=False))
    rows = [starts[id(scored.batch)] + scored.row for scored in pool]
    columns = TextColumns(*map(np.concatenate, zip(*batches.values(), strict=True)))
    if rows == list(range(sum(sizes))):  # as usual
        return columns
    return TextColumns(*[column[rows] for column in columns])


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


def _spellings(query: RankingQuery) -> dict[int, re.Pattern[str]]:
    """How the identifiers of several words are spelled, by the numbers of their terms."""
    phrases = {number: term.forms[0] for number, term in enumerate(query.terms) if term.is_phrase}
    if not phrases:
        return {}
    by_form = {tuple(tokens(word)): word for word in identifiers(query.text)}
    return {
        number: re.compile(rf"(?<!\w){re.escape(by_form[form])}(?!\w)", re.IGNORECASE)
        for number, form in phrases.items()
        if form in by_form
    }
