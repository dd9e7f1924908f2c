"""The ranking: the score of a candidate is the weighted sum of the features in one table.

It uses no store, no clock and no model, so the same candidates always have the same order. Each
feature lies between 0 and about 1, and is computed for all candidates at once, as an array.

The table is at the end of this module. To add a feature, write its function and its row: its
weights for questions (in chats with an assistant, and in dialogues between people) and for
keywords, 0 where it does not count. The weights of questions were fitted on questions with known
answers (`python -m bench.fit` shows what each is worth). Those of keywords follow from rules: all
words before some of them, adjacent words before scattered ones, words as typed before other forms,
words before meaning, and dates only between equals.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from recollect.language.detection import language_of
from recollect.language.queries.intent import (
    QUESTION,
    identifiers,
    is_about_assistant,
    is_about_user,
    is_to_assistant,
)
from recollect.language.text import is_unspaced, tokens, transcriptions
from recollect.language.words import names_in
from recollect.model.kinds import CONVERSATION
from recollect.search import answers
from recollect.search.passages import ScoredCandidate, ranked_part
from recollect.search.queries.terms import RankingQuery, term_shares

Column = Any
"""An array with a value of each candidate. The results of most operations have no known type."""
Matrix = Any
"""An array with a value of each candidate (a row) and each term of the query."""

_MINIMUM_NEAREST = 0.2  # if the best cosine is lower, no candidate is similar to the query
_LONG_MESSAGE_WORDS = 100
_SHORT_MESSAGE_WORDS = 40  # at this length `reply` counts half as much as for an empty message
_INSTRUCTION_LENGTH = 200  # characters in which a standing instruction begins
# What an identifier counts that is not in the text as it was typed, compared with one that is: in
# the title only, or with other punctuation ("1, 6" for 1-6). That takes away more than a title with
# its words adds.
_TITLE_SHARE = 0.9
_OTHER_SPELLING_SHARE = 0.7
_K1, _B = 1.2, 0.75  # BM25 of conversations
_MIN_NAME = 2  # letters; shorter ones are initials
_DAY = timedelta(days=1)
_WEEK_SECONDS = 7 * 86_400
_NEVER = datetime.min.replace(tzinfo=UTC)
_QUESTION_MARKS = frozenset("?？؟")


def rank(query: RankingQuery, candidates: Sequence[ScoredCandidate]) -> list[ScoredCandidate]:
    """Set the scores of the candidates that an arm found, and return these, best first.

    `find_terms` must have been called for all of them.
    """
    if not candidates:
        return []
    pool = Pool(query, candidates)
    scores = np.zeros(len(candidates))
    for members in (pool.is_ranked & ~pool.is_dialogue, pool.is_ranked & pool.is_dialogue):
        rows = np.flatnonzero(members)
        if not len(rows):
            continue
        weights = weights_for(query, candidates[rows[0]].is_between_people)
        names = tuple(weights)
        parts = np.array([weight * pool.column(name) for name, weight in weights.items()])[:, rows]
        scores[rows] = parts.sum(axis=0)
        for row, score, values in zip(rows.tolist(), scores[rows].tolist(), parts.T, strict=True):
            scored = candidates[row]
            scored.score, scored.part_names, scored.part_values = score, names, values
    keys = np.array([scored.candidate.key for scored in candidates])
    order = np.lexsort((keys, scores, pool.is_ranked))[::-1]
    return [candidates[row] for row in order[: pool.is_ranked.sum()].tolist()]


def authors_in_query(text: str, authors: Iterable[str]) -> list[str]:
    """The authors whom a plain query names.

    A stop word is a name only if it has a capital letter: "What did Will plant?" Without spaces
    between words, the whole name must be in the query, because many words share a character.
    """
    words = {word for word in tokens(text) if len(word) >= _MIN_NAME}
    words -= language_of(text).stop_words - names_in(text)
    words.update(transcriptions(text).values())
    return [
        author
        for author in authors
        if not words.isdisjoint([*tokens(author), *transcriptions(author).values()])
        or (is_unspaced(author) and len(author) >= _MIN_NAME and author in text)
    ]


class Pool:
    """The candidates of one query, as columns. Features share what several of them need."""

    def __init__(self, query: RankingQuery, candidates: Sequence[ScoredCandidate]) -> None:
        self.query = query
        self.scored = candidates
        self.candidates = [scored.candidate for scored in candidates]
        self.is_ranked = flags([s.by_text or s.by_vector for s in candidates])
        """Whether an arm found the candidate. The others are the messages around them."""
        self.mark_dialogues()
        self.is_dialogue = flags([s.is_between_people for s in candidates])
        self.zeros: Column = np.zeros(len(candidates))
        self.cosines: Column = np.maximum([s.cosine or 0.0 for s in candidates], 0.0)
        self.nearest = max(self.cosines.max(), _MINIMUM_NEAREST)
        self.language = language_of(query.text)
        self.columns: dict[str, Column] = {}

    def column(self, name: str) -> Column:
        """A feature of each candidate."""
        if name not in self.columns:
            self.columns[name] = FEATURES[name].value(self)
        return self.columns[name]

    def mark_dialogues(self) -> None:
        """Mark the messages of dialogues between people.

        Their messages name their authors. Chats with an assistant have roles instead, at most with
        the name of the one user.
        """
        authors: dict[str, set[str]] = {}
        for candidate in self.candidates:
            if candidate.author and candidate.kind == CONVERSATION:
                authors.setdefault(candidate.document, set()).add(candidate.author)
        has_several = len(set().union(*authors.values())) > 1
        for scored in self.scored:
            scored.is_between_people = has_several and scored.candidate.document in authors

    # -- terms ---

    @cached_property
    def counts(self) -> Matrix:
        """How often each text has each term."""
        counts = np.zeros((len(self.scored), len(self.query.terms)))
        for row, scored in enumerate(self.scored):
            for term, count in scored.counts.items():
                counts[row, term] = count
        return counts

    def matrix(self, terms: Iterable[Sequence[int]]) -> Matrix:
        """Whether each candidate has each term."""
        matrix = np.zeros((len(self.scored), len(self.query.terms)), np.bool_)
        for row, numbers in enumerate(terms):
            for number in numbers:
                matrix[row, number] = True
        return matrix

    @cached_property
    def is_in_text(self) -> Matrix:
        return self.counts > 0

    @cached_property
    def is_in_label(self) -> Matrix:
        """Whether the title, the author's name or the date has each term."""
        return self.matrix((*s.title_terms, *s.metadata_terms) for s in self.scored)

    @cached_property
    def is_anywhere(self) -> Matrix:
        return self.is_in_text | self.is_in_label

    def share(self, terms: Matrix) -> Column:
        """The share of the query, by weight, that terms make up. Synonyms do not count."""
        return (terms * np.array(term_shares(self.query.terms))).sum(axis=1)

    # -- messages and their conversations ---

    @cached_property
    def is_message(self) -> Column:
        return flags([c.kind == CONVERSATION for c in self.candidates])

    @cached_property
    def is_by_user(self) -> Column:
        return flags([c.role == "user" for c in self.candidates])

    @cached_property
    def is_question(self) -> Column:
        return flags([c.content.rstrip()[-1:] in _QUESTION_MARKS for c in self.candidates])

    @cached_property
    def words(self) -> Column:
        return np.array([s.words for s in self.scored])

    @cached_property
    def positions(self) -> Column:
        return np.array([c.position for c in self.candidates], np.int64)

    def has_traits(self, traits: int) -> Column:
        """Whether the best window has words with each of these traits."""
        return flags([(s.traits & traits) == traits for s in self.scored])

    @cached_property
    def is_request(self) -> bool:
        return self.language.has("requests", self.query.text)

    @cached_property
    def is_to_assistant(self) -> bool:
        return is_to_assistant(self.query.text)

    @cached_property
    def conversations(self) -> Column:
        """The number of each candidate's conversation."""
        numbers: dict[str, int] = {}
        names = [candidate.document for candidate in self.candidates]
        return np.array([numbers.setdefault(name, len(numbers)) for name in names], np.intp)

    def best_of_conversation(self, column: Column) -> Column:
        """The highest value in the conversation of each candidate."""
        best = np.zeros(self.conversations.max() + 1)
        np.maximum.at(best, self.conversations, column)
        return best[self.conversations]

    def conversation_scores(self, is_part: Column) -> Column:
        """BM25 of the candidates of each conversation, as a share of the best conversation's.

        Only some candidates count. Titles, authors and dates count once per conversation.
        """
        shape = (self.conversations.max() + 1, len(self.query.terms))
        counts, labels, sizes = np.zeros(shape), np.zeros(shape), np.zeros(shape[0])
        np.add.at(counts, self.conversations[is_part], self.counts[is_part])
        np.maximum.at(labels, self.conversations[is_part], self.is_in_label[is_part])
        sizes[self.conversations[::-1]] = [c.passages for c in reversed(self.candidates)]
        counts = np.maximum(counts, labels)
        norms = _K1 * (1 - _B + _B * sizes / sizes.mean())[:, np.newaxis]
        weights = np.array([term.weight * (_K1 + 1) for term in self.query.terms])
        scores = (counts / (counts + norms) * weights).sum(axis=1)
        return (scores / (scores.max() or 1.0))[self.conversations]

    def beside(self, step: int, column: Column) -> Column:
        """The value of the message before (-1) or after (1); 0 if it is not in the pool."""
        places = self.places + step
        rows = self.order[np.searchsorted(self.places, places, "right", self.order) - 1]
        values = column[rows]
        values[self.places[rows] != places] = 0
        return values

    @cached_property
    def places(self) -> Column:
        """Numbers that are consecutive only for consecutive messages of a conversation."""
        positions = self.positions - self.positions.min()
        return self.conversations * (positions.max() + 2) + positions

    @cached_property
    def order(self) -> Column:
        return np.argsort(self.places, kind="stable")

    @cached_property
    def weeks(self) -> Column:
        """The age of each candidate; infinite if it has no date."""
        now = self.query.now
        ages = [(now - (c.created_at or _NEVER)).total_seconds() for c in self.candidates]
        has_no_date = flags([c.created_at is None for c in self.candidates])
        return np.where(has_no_date, np.inf, np.array(ages) / _WEEK_SECONDS)


def flags(values: Sequence[bool]) -> Column:
    """Booleans as an array. For some hundred, this is four times as fast as `np.array`."""
    return np.frombuffer(bytes(values), np.bool_)


# -- words -----------------------------------------------------------------------


def words(pool: Pool) -> Column:
    scores = np.array([s.text_score for s in pool.scored])
    return scores / (scores.max() or 1.0)


def close(pool: Pool) -> Column:
    return np.array([s.close for s in pool.scored])


def title(pool: Pool) -> Column:
    return pool.share(pool.matrix(s.title_terms for s in pool.scored))


def exact(pool: Pool) -> Column:
    """The share of the identifiers in the text, or a little less for those in the title."""
    numbers = {number for number, term in enumerate(pool.query.terms) if term.exact}
    if not numbers:
        return pool.zeros
    spellings = _spellings(pool.query)

    def value(number: int, scored: ScoredCandidate) -> float:
        if number not in scored.terms:
            return _TITLE_SHARE if number in scored.title_terms else 0.0
        text = ranked_part(scored.candidate.content, [pool.query.terms[number]])
        # Its words may be there only by chance.
        is_spelled_so = number not in spellings or spellings[number].search(text)
        return 1.0 if is_spelled_so else _OTHER_SPELLING_SHARE

    return np.array([sum(value(n, s) for n in numbers) / len(numbers) for s in pool.scored])


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


def phrase(pool: Pool) -> Column:
    return flags([s.has_phrase for s in pool.scored])


def covered(pool: Pool) -> Column:
    return pool.share(pool.is_anywhere)


def complete(pool: Pool) -> Column:
    own_numbers = [n for n, term in enumerate(pool.query.terms) if not term.weak]
    return pool.is_anywhere[:, own_numbers].all(axis=1)


def adjacent(pool: Pool) -> Column:
    return np.array([s.adjacent for s in pool.scored])


def typed(pool: Pool) -> Column:
    return pool.share(pool.matrix(s.typed_terms for s in pool.scored))


# -- meaning and time --------------------------------------------------------------


def meaning(pool: Pool) -> Column:
    return pool.cosines / pool.nearest


def recent(pool: Pool) -> Column:
    """1 for now, a half for a week ago."""
    return 1 / (1 + np.abs(pool.weeks))


def later(pool: Pool) -> Column:
    if not pool.query.by_person:  # nobody asked anything
        return pool.zeros
    return pool.weeks < -1 / 7  # clocks and time zones differ


def time(pool: Pool) -> Column:
    """1 inside a period that the query names, falling to 0 one period's length away from it."""
    windows = pool.query.windows

    def value(moment: datetime | None) -> float:
        best = 0.0
        if moment is not None:
            for window in windows:
                width = max(window.end - window.start, _DAY)
                distance = max(window.start - moment, moment - window.end, timedelta(0))
                best = max(best, 1 - distance / width)
        return best

    if not windows:
        return pool.zeros
    return np.array([value(c.created_at) for c in pool.candidates])


# -- the conversation ----------------------------------------------------------------


def topic(pool: Pool) -> Column:
    return pool.best_of_conversation(pool.cosines) / pool.nearest


def whole(pool: Pool) -> Column:
    return pool.conversation_scores(pool.zeros == 0)


def side(pool: Pool) -> Column:
    return np.where(
        pool.is_message, pool.conversation_scores(pool.is_by_user), pool.column("whole")
    )


def reply(pool: Pool) -> Column:
    brevity = 1 / (1 + pool.words / _SHORT_MESSAGE_WORDS)
    return pool.beside(-1, pool.column("words") * pool.is_question) * brevity


def opening(pool: Pool) -> Column:
    if is_about_assistant(pool.query.text):
        return pool.zeros
    return pool.positions == 0


# -- the author ------------------------------------------------------------------------


def person(pool: Pool) -> Column:
    """Only if the user and others wrote the candidates, and the query is about the user.

    Items that are not conversations were saved by the user on purpose, so they are the user's own.
    """
    rows = np.flatnonzero(pool.is_ranked & pool.is_message).tolist()
    roles = {pool.candidates[row].role for row in rows}
    is_about_others = "user" not in roles or len(roles) < 2
    if is_about_others or not pool.query.by_person or not is_about_user(pool.query.text):
        return pool.zeros
    is_own = pool.is_by_user | ~pool.is_message
    has_word = pool.is_anywhere.any(axis=1)
    if not has_word.any():
        return is_own
    # Every conversation has messages by the user. Without a word of the question, only a
    # resemblance says that one is about it, which is less than the words in a reply say.
    return is_own & has_word


def speaker(pool: Pool) -> Column:
    authors = [candidate.author for candidate in pool.candidates]
    speakers = authors_in_query(pool.query.text, filter(None, set(authors)))
    if len(speakers) != 1:
        return pool.zeros
    return flags([author == speakers[0] for author in authors])


# -- what the message says ---------------------------------------------------------------


def question(pool: Pool) -> Column:
    if pool.is_request:  # advice depends on what the user said before, also in earlier requests
        return pool.zeros
    return pool.is_question


def past(pool: Pool) -> Column:
    return pool.has_traits(answers.FIRST_PERSON | answers.PAST)


def answer(pool: Pool) -> Column:
    return pool.has_traits(answers.ANSWER)


def preference(pool: Pool) -> Column:
    """A request for advice is answered by what the user likes, wants or does; a question for what
    is allowed or preferred, by an observed preference."""
    asks_rule = pool.language.has("asks_rule", pool.query.text)
    if not asks_rule and not pool.is_request:
        return pool.zeros
    is_observed = flags([s.is_observed_preference for s in pool.scored])
    is_stated = pool.has_traits(answers.FIRST_PERSON | answers.PREFERENCE) & pool.is_by_user
    return (asks_rule & is_observed) | (pool.is_request & is_stated)


def liking(pool: Pool) -> Column:
    if not pool.is_to_assistant:
        return pool.zeros
    return pool.has_traits(answers.FIRST_PERSON | answers.LIKING) & pool.is_by_user


def instruction(pool: Pool) -> Column:
    if not pool.is_to_assistant:
        return pool.zeros
    beginnings = [c.content[:_INSTRUCTION_LENGTH] for c in pool.candidates]
    is_said = flags([pool.language.has("standing_instructions", each) for each in beginnings])
    return pool.is_by_user * is_said * pool.column("meaning")


# -- dialogues between people, whose messages are short and depend on each other -----------


def first_person(pool: Pool) -> Column:
    return np.array([s.first_person for s in pool.scored])


def length(pool: Pool) -> Column:
    return np.minimum(pool.words, _LONG_MESSAGE_WORDS) / _LONG_MESSAGE_WORDS


def around(pool: Pool) -> Column:
    # A message depends more on what it replies to than on the reply to it.
    cosines = 2 * pool.beside(-1, pool.cosines) + pool.beside(1, pool.cosines)
    return cosines / 3 / pool.nearest


def context(pool: Pool) -> Column:
    is_around = pool.beside(-1, pool.is_in_text) | pool.beside(1, pool.is_in_text)
    return pool.share(is_around & ~pool.is_anywhere)


# -- the table ---------------------------------------------------------------------------


class Feature(NamedTuple):
    name: str
    question: float
    """The weight for questions, of messages in chats with an assistant and of all other items."""
    dialogue: float
    """The weight for questions, of messages in dialogues between people."""
    keywords: float
    """The weight for keywords and identifiers."""
    value: Callable[[Pool], Column]
    explanation: str
    """Why a hit with this part matches."""
    is_optional: bool = False
    """Whether a perfect hit may lack it, because only some queries have it."""


FEATURES = {
    feature.name: feature
    for feature in (
        Feature("exact", 20, 20, 20, exact, "it contains the identifiers of the query", True),
        Feature("phrase", 20, 20, 6, phrase, "it contains the query exactly as typed"),
        Feature("words", 3, 3, 2, words, "it contains words of the query"),
        Feature("close", 2, 2, 1, close, "the words are close together"),
        Feature("complete", 0, 0, 6, complete, "it contains all words of the query"),
        Feature("covered", 0, 0, 6, covered, "it contains this share of the query"),
        Feature("adjacent", 0, 0, 3, adjacent, "the words are next to each other, as in the query"),
        Feature("typed", 0, 0, 2, typed, "it contains the words in the form you typed"),
        Feature("title", 1, 1, 4, title, "the title contains words of the query"),
        Feature("meaning", 2.5, 2.5, 1, meaning, "its meaning is similar"),
        Feature("topic", 0.5, 1.5, 0, topic, "its conversation has a similar meaning"),
        Feature("reply", 2, 2, 0, reply, "it answers a message that asks this"),
        Feature("whole", 1.5, 1.5, 0, whole, "its conversation contains words of the query"),
        Feature("side", 2, 2, 0, side, "the user used these words in the conversation"),
        Feature("person", 3, 3, 0, person, "the user wrote it"),
        Feature("speaker", 3, 3, 0, speaker, "the person named in the query wrote it", True),
        Feature("recent", 1.5, 0, 0.01, recent, "it is recent"),
        Feature("time", 4, 4, 4, time, "it is from the time named in the query", True),
        Feature("later", -3, -3, 0, later, "it was written after the question was asked"),
        Feature(
            "question",
            -0.8,
            -0.8,
            0,
            question,
            "it is a question, so it rarely contains the answer",
        ),
        Feature("opening", 1, 0, 0, opening, "it is the first message of its conversation"),
        Feature("past", 0.5, 0.5, 0, past, "it tells what happened, in the first person"),
        Feature("answer", 0.5, 1, 0, answer, "it has a time or a number, which the query asks for"),
        Feature(
            "preference",
            3,
            3,
            0,
            preference,
            "it says what the user likes, wants or does, and the query asks for advice",
            True,
        ),
        Feature(
            "liking",
            1.5,
            0,
            0,
            liking,
            "the user says what they like or dislike, and the query is for the assistant",
            True,
        ),
        Feature(
            "instruction",
            4,
            0,
            0,
            instruction,
            "it tells the assistant what to do from now on, and the query is for it",
            True,
        ),
        Feature("first_person", 0, 3, 0, first_person, "it is about its author", True),
        Feature(
            "around", 0, 1.5, 0, around, "the messages before and after it have a similar meaning"
        ),
        Feature(
            "context",
            0,
            2,
            0,
            context,
            "the messages before and after it contain other words of the query",
        ),
        Feature("length", 0, 1, 0, length, "it is long enough to say something"),
    )
}
RERANK = "rerank"
JUDGEMENT = "how well it answers the query, as the reranker judges"
"""The explanation of the part that the reranker adds."""
EXPLANATIONS = {**{f.name: f.explanation for f in FEATURES.values()}, RERANK: JUDGEMENT}


def _weights(column: str) -> dict[str, float]:
    return {f.name: getattr(f, column) for f in FEATURES.values() if getattr(f, column)}


def weights_by_meaning(weights: Mapping[str, float]) -> dict[str, float]:
    """Meaning stands in for words, and topic for those of the conversation.

    Otherwise, who wrote a message and when would outweigh its meaning. The sum stays about that of
    what a question without words has otherwise, so that chats and dialogues remain comparable.
    """
    by_meaning = {**weights, "meaning": 7.5, "topic": 4.0}
    for name in ("phrase", "words", "close", "reply", "whole", "side", "title"):
        del by_meaning[name]
    return {name: 0.53 * weight for name, weight in by_meaning.items()}


WEIGHTS = {name: _weights(name) for name in ("question", "dialogue", "keywords")}
WEIGHTS["meaning"] = weights_by_meaning(WEIGHTS["question"])


def weights_for(query: RankingQuery, is_between_people: bool) -> Mapping[str, float]:
    """The weights of the features of a candidate."""
    if query.intent != QUESTION:
        return WEIGHTS["keywords"]
    if is_between_people:
        return WEIGHTS["dialogue"]
    return WEIGHTS["question" if query.terms else "meaning"]


def perfect_score(intent: str) -> float:
    """The score of a perfect hit. A question has no phrase."""
    if intent != QUESTION:
        return sum(f.keywords for f in FEATURES.values() if not f.is_optional)
    required = [f for f in FEATURES.values() if not f.is_optional and f.name != "phrase"]
    return max(
        sum(max(feature.question, 0) for feature in required),
        sum(max(feature.dialogue, 0) for feature in required),
    )
