"""The ranking: the score of a candidate is the weighted sum of the features in one table.

It uses no store, no clock and no model, so the same candidates always have the same order. Each
feature lies between 0 and about 1, and is computed for all candidates at once, as an array.

To add a feature, compute its column in one of the functions below, and add its row to the table:
its weights for questions (in chats with an assistant, and in dialogues between people) and for
keywords, 0 where it does not count. The weights of questions were fitted on questions with known
answers (`python -m bench.fit` shows what each is worth). Those of keywords follow from rules: all
words before some of them, adjacent words before scattered ones, words as typed before other forms,
words before meaning, and dates only between equals.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
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
from recollect.model.kinds import CONVERSATION, OBSERVATION, PREFERENCE
from recollect.search import passages
from recollect.search.passages import ScoredCandidate, ranked_part
from recollect.search.queries.terms import RankingQuery, term_shares


class Feature(NamedTuple):
    name: str
    question: float
    """The weight for questions, of messages in chats with an assistant and of all other items."""
    dialogue: float
    """The weight for questions, of messages in dialogues between people."""
    keywords: float
    """The weight for keywords and identifiers."""
    explanation: str
    """Why a hit with this part matches."""
    is_optional: bool = False
    """Whether a perfect hit may lack it, because only some queries have it."""


FEATURES = {
    row[0]: Feature(*row)
    for row in (
        ("exact", 20, 20, 20, "it contains the identifiers of the query", True),
        ("phrase", 20, 20, 6, "it contains the query exactly as typed"),
        ("words", 3, 3, 2, "it contains words of the query"),
        ("close", 2, 2, 1, "the words are close together"),
        ("complete", 0, 0, 6, "it contains all words of the query"),
        ("covered", 0, 0, 6, "it contains this share of the query"),
        ("adjacent", 0, 0, 3, "the words are next to each other, as in the query"),
        ("typed", 0, 0, 2, "it contains the words in the form you typed"),
        ("title", 1, 1, 4, "the title contains words of the query"),
        ("meaning", 2.5, 2.5, 1, "its meaning is similar"),
        ("topic", 0.5, 1.5, 0, "its conversation has a similar meaning"),
        ("reply", 2, 2, 0, "it answers a message that asks this"),
        ("whole", 1.5, 1.5, 0, "its conversation contains words of the query"),
        ("side", 2, 2, 0, "the user used these words in the conversation"),
        ("person", 3, 3, 0, "the user wrote it"),
        ("speaker", 3, 3, 0, "the person named in the query wrote it", True),
        ("recent", 1.5, 0, 0.01, "it is recent"),
        ("time", 4, 4, 4, "it is from the time named in the query", True),
        ("later", -3, -3, 0, "it was written after the question was asked"),
        ("question", -0.8, -0.8, 0, "it is a question, so it rarely contains the answer"),
        ("opening", 1, 0, 0, "it is the first message of its conversation"),
        ("past", 0.5, 0.5, 0, "it tells what happened, in the first person"),
        ("answer", 0.5, 1, 0, "it has a time or a number, which the query asks for"),
        (
            *("preference", 3, 3, 0),
            "it says what the user likes, wants or does, and the query asks for advice",
            True,
        ),
        (
            *("liking", 1.5, 0, 0),
            "the user says what they like or dislike, and the query is for the assistant",
            True,
        ),
        (
            *("instruction", 4, 0, 0),
            "it tells the assistant what to do from now on, and the query is for it",
            True,
        ),
        ("first_person", 0, 3, 0, "it is about its author", True),
        ("around", 0, 1.5, 0, "the messages before and after it have a similar meaning"),
        ("context", 0, 2, 0, "the messages before and after it contain other words of the query"),
        ("length", 0, 1, 0, "it is long enough to say something"),
    )
}
RERANK = "rerank"
JUDGEMENT = "how well it answers the query, as the reranker judges"
"""The explanation of the part that the reranker adds."""
EXPLANATIONS = {**{f.name: f.explanation for f in FEATURES.values()}, RERANK: JUDGEMENT}

WEIGHTS = {
    column: {f.name: getattr(f, column) for f in FEATURES.values() if getattr(f, column)}
    for column in ("question", "dialogue", "keywords")
}
_OF_WORDS = ("phrase", "words", "close", "reply", "whole", "side", "title")
# For a question without words, meaning stands in for them, and topic for those of the conversation.
# Otherwise, who wrote a message and when would outweigh its meaning. The sum stays about that of
# what such a question has otherwise, so that chats and dialogues remain comparable.
WEIGHTS["meaning"] = {
    name: 0.53 * weight
    for name, weight in {**WEIGHTS["question"], "meaning": 7.5, "topic": 4.0}.items()
    if name not in _OF_WORDS
}


def weights_for(query: RankingQuery, is_between_people: bool) -> Mapping[str, float]:
    """The weights of the features of a candidate."""
    if query.intent != QUESTION:
        return WEIGHTS["keywords"]
    if is_between_people:
        return WEIGHTS["dialogue"]
    return WEIGHTS["question" if query.terms else "meaning"]


def perfect_score(intent: str) -> float:
    """The score of a perfect hit. A question has no phrase."""
    required = [f for f in FEATURES.values() if not f.is_optional]
    if intent != QUESTION:
        return sum(feature.keywords for feature in required)
    required = [feature for feature in required if feature.name != "phrase"]
    return max(
        sum(max(feature.question, 0) for feature in required),
        sum(max(feature.dialogue, 0) for feature in required),
    )


Column = Any
"""An array with a value of each candidate. The results of most operations have no known type."""
Matrix = Any
"""An array with a value of each candidate (a row) and each term of the query."""


def rank(query: RankingQuery, candidates: Sequence[ScoredCandidate]) -> list[ScoredCandidate]:
    """Set the scores of the candidates that an arm found, and return these, best first.

    `find_terms` must have been called for all of them.
    """
    if not candidates:
        return []
    pool = Pool(query, candidates)
    columns = common_features(pool)
    if query.intent == QUESTION:
        columns |= conversation_features(pool, columns["words"])
        columns |= author_features(pool)
        columns |= statement_features(pool, columns["meaning"])
    else:
        columns |= keyword_features(pool)
    scores = np.zeros(len(candidates))
    is_ranked = flags([s.by_text or s.by_vector for s in candidates])
    for members in (is_ranked & ~pool.is_dialogue, is_ranked & pool.is_dialogue):
        rows = np.flatnonzero(members)
        if not len(rows):
            continue
        weights = weights_for(query, candidates[rows[0]].is_between_people)
        names = tuple(weights)
        parts = np.array([weight * columns[name] for name, weight in weights.items()])[:, rows]
        scores[rows] = parts.sum(axis=0)
        for row, score, values in zip(rows.tolist(), scores[rows].tolist(), parts.T, strict=True):
            scored = candidates[row]
            scored.score, scored.part_names, scored.part_values = score, names, values
    keys = np.array([scored.candidate.key for scored in candidates])
    order = np.lexsort((keys, scores, is_ranked))[::-1]
    return [candidates[row] for row in order[: is_ranked.sum()].tolist()]


_MINIMUM_NEAREST = 0.2  # if the best cosine is lower, no candidate is similar to the query


class Pool:
    """The candidates of one query as columns, of which several features need the same."""

    def __init__(self, query: RankingQuery, scored: Sequence[ScoredCandidate]) -> None:
        self.query = query
        self.scored = scored
        self.candidates = candidates = [each.candidate for each in scored]
        self.zeros: Column = np.zeros(len(scored))
        self.is_message: Column = flags([c.kind == CONVERSATION for c in candidates])
        self.is_by_user: Column = flags([c.role == "user" for c in candidates])
        self.cosines: Column = np.maximum([s.cosine or 0.0 for s in scored], 0.0)
        self.nearest = max(self.cosines.max(), _MINIMUM_NEAREST)
        # The messages of dialogues between people name their authors. Chats with an assistant have
        # roles instead, at most with the name of the one user.
        named = {c.document: c.author for c in candidates if c.author and c.kind == CONVERSATION}
        authors = {c.author for c in candidates if c.author and c.kind == CONVERSATION}
        for each in scored:
            each.is_between_people = len(authors) > 1 and each.candidate.document in named
        self.is_dialogue: Column = flags([s.is_between_people for s in scored])
        self.counts: Matrix = np.zeros((len(scored), len(query.terms)))
        """How often each text has each term."""
        for row, each in enumerate(scored):
            for term, count in each.counts.items():
                self.counts[row, term] = count
        self.is_in_label = self.matrix((*s.title_terms, *s.metadata_terms) for s in scored)
        """Whether the title, the author's name or the date has each term."""
        self.is_anywhere = (self.counts > 0) | self.is_in_label

    def matrix(self, terms: Iterable[Sequence[int]]) -> Matrix:
        """Whether each candidate has each term."""
        matrix = np.zeros((len(self.scored), len(self.query.terms)), np.bool_)
        for row, numbers in enumerate(terms):
            for number in numbers:
                matrix[row, number] = True
        return matrix

    def share(self, terms: Matrix) -> Column:
        """The share of the query, by weight, that terms make up. Synonyms do not count."""
        return (terms * np.array(term_shares(self.query.terms))).sum(axis=1)


def flags(values: Sequence[bool]) -> Column:
    """Booleans as an array. For some hundred, this is four times as fast as `np.array`."""
    return np.frombuffer(bytes(values), np.bool_)


# -- words, meaning and time -------------------------------------------------------------

_DAY = timedelta(days=1)
_WEEK_SECONDS = 7 * 86_400
_NEVER = datetime.min.replace(tzinfo=UTC)


def common_features(pool: Pool) -> dict[str, Column]:
    """Of questions and keywords."""
    query, scored = pool.query, pool.scored
    text_scores = np.array([s.text_score for s in scored])
    times = [candidate.created_at for candidate in pool.candidates]
    ages = np.array([(query.now - (time or _NEVER)).total_seconds() for time in times])
    weeks = np.where(flags([time is None for time in times]), np.inf, ages / _WEEK_SECONDS)

    def nearness(time: datetime | None) -> float:
        """1 inside a period that the query names, falling to 0 one period's length away."""
        if time is None:
            return 0.0
        best = 0.0
        for window in query.windows:
            width = max(window.end - window.start, _DAY)
            best = max(best, 1 - max(window.start - time, time - window.end, 0 * _DAY) / width)
        return best

    return {
        "exact": exact(pool),
        "phrase": flags([s.has_phrase for s in scored]),
        "words": text_scores / (text_scores.max() or 1.0),
        "close": np.array([s.close for s in scored]),
        "title": pool.share(pool.matrix(s.title_terms for s in scored)),
        "meaning": pool.cosines / pool.nearest,
        "recent": 1 / (1 + np.abs(weeks)),  # 1 for now, a half for a week ago
        "time": np.array([nearness(time) for time in times]) if query.windows else pool.zeros,
        # Clocks and time zones differ. For a message that resembles another, nobody asked anything.
        "later": weeks < -1 / 7 if query.by_person else pool.zeros,
    }


def keyword_features(pool: Pool) -> dict[str, Column]:
    own_numbers = [n for n, term in enumerate(pool.query.terms) if not term.weak]
    return {
        "covered": pool.share(pool.is_anywhere),
        "complete": pool.is_anywhere[:, own_numbers].all(axis=1),
        "adjacent": np.array([s.adjacent for s in pool.scored]),
        "typed": pool.share(pool.matrix(s.typed_terms for s in pool.scored)),
    }


# What an identifier counts that is not in the text as it was typed, compared with one that is: in
# the title only, or with other punctuation ("1, 6" for 1-6). That takes away more than a title with
# its words adds.
_TITLE_SHARE = 0.9
_OTHER_SPELLING_SHARE = 0.7


def exact(pool: Pool) -> Column:
    """The share of the identifiers in the text, or a little less for those in the title."""
    terms = pool.query.terms
    numbers = {number for number, term in enumerate(terms) if term.exact}
    if not numbers:
        return pool.zeros
    # How the identifiers of several words are spelled.
    typed = {tuple(tokens(word)): word for word in identifiers(pool.query.text)}
    spellings = {
        number: re.compile(rf"(?<!\w){re.escape(typed[form])}(?!\w)", re.IGNORECASE)
        for number, form in ((n, terms[n].forms[0]) for n in numbers if terms[n].is_phrase)
        if form in typed
    }

    def value(number: int, scored: ScoredCandidate) -> float:
        if number not in scored.terms:
            return _TITLE_SHARE if number in scored.title_terms else 0.0
        text = ranked_part(scored.candidate.content, [terms[number]])
        # Its words may be there only by chance.
        is_spelled_so = number not in spellings or spellings[number].search(text)
        return 1.0 if is_spelled_so else _OTHER_SPELLING_SHARE

    return np.array([sum(value(n, s) for n in numbers) / len(numbers) for s in pool.scored])


# -- the conversation ----------------------------------------------------------------------

_K1, _B = 1.2, 0.75  # BM25 of conversations
_SHORT_MESSAGE_WORDS = 40  # at this length `reply` counts half as much as for an empty message
_LONG_MESSAGE_WORDS = 100
_QUESTION_MARKS = frozenset("?？؟")


def conversation_features(pool: Pool, words: Column) -> dict[str, Column]:
    """`words` is the feature of this name."""
    candidates = pool.candidates
    numbers: dict[str, int] = {}
    conversations = np.array([numbers.setdefault(c.document, len(numbers)) for c in candidates])
    positions = np.array([candidate.position for candidate in candidates], np.int64)
    # Numbers that are consecutive only for consecutive messages of a conversation.
    offsets = positions - positions.min()
    places = conversations * (offsets.max() + 2) + offsets
    order = np.argsort(places, kind="stable")

    def beside(step: int, column: Column) -> Column:
        """The value of the message before (-1) or after (1); 0 if it is not in the pool."""
        wanted = places + step
        rows = order[np.searchsorted(places, wanted, "right", order) - 1]
        values = column[rows]
        values[places[rows] != wanted] = 0
        return values

    def scores(is_part: Column) -> Column:
        """BM25 of the candidates of each conversation, as a share of the best conversation's.

        Only some candidates count. Titles, authors and dates count once per conversation.
        """
        shape = (len(numbers), len(pool.query.terms))
        counts, labels, sizes = np.zeros(shape), np.zeros(shape), np.zeros(shape[0])
        np.add.at(counts, conversations[is_part], pool.counts[is_part])
        np.maximum.at(labels, conversations[is_part], pool.is_in_label[is_part])
        sizes[conversations[::-1]] = [c.passages for c in reversed(candidates)]
        counts = np.maximum(counts, labels)
        norms = _K1 * (1 - _B + _B * sizes / sizes.mean())[:, np.newaxis]
        weights = np.array([term.weight * (_K1 + 1) for term in pool.query.terms])
        scores = (counts / (counts + norms) * weights).sum(axis=1)
        return (scores / (scores.max() or 1.0))[conversations]

    nearest = np.zeros(len(numbers))
    np.maximum.at(nearest, conversations, pool.cosines)
    whole = scores(pool.zeros == 0)
    lengths = np.array([s.words for s in pool.scored])
    is_question = flags([c.content.rstrip()[-1:] in _QUESTION_MARKS for c in candidates])
    is_request = language_of(pool.query.text).has("requests", pool.query.text)
    columns = {
        "topic": nearest[conversations] / pool.nearest,
        "whole": whole,
        "side": np.where(pool.is_message, scores(pool.is_by_user), whole),
        "reply": beside(-1, words * is_question) / (1 + lengths / _SHORT_MESSAGE_WORDS),
        "opening": pool.zeros if is_about_assistant(pool.query.text) else positions == 0,
        # Advice depends on what the user said before, also in earlier requests.
        "question": pool.zeros if is_request else is_question,
    }
    if pool.is_dialogue.any():  # in which messages are short and depend on each other
        is_around = beside(-1, pool.counts > 0) | beside(1, pool.counts > 0)
        columns |= {
            # A message depends more on what it replies to than on the reply to it.
            "around": (2 * beside(-1, pool.cosines) + beside(1, pool.cosines)) / 3 / pool.nearest,
            "context": pool.share(is_around & ~pool.is_anywhere),
            "length": np.minimum(lengths, _LONG_MESSAGE_WORDS) / _LONG_MESSAGE_WORDS,
            "first_person": np.array([s.first_person for s in pool.scored]),
        }
    return columns


# -- the author ------------------------------------------------------------------------------

_MIN_NAME = 2  # letters; shorter ones are initials


def author_features(pool: Pool) -> dict[str, Column]:
    """The user is the author only if others wrote candidates, too, and the query is about the user.

    Items that are not conversations were saved by the user on purpose, so they are the user's own.
    """
    person = speaker = pool.zeros
    text, candidates = pool.query.text, pool.candidates
    roles = {
        s.candidate.role
        for s in pool.scored
        if (s.by_text or s.by_vector) and s.candidate.kind == CONVERSATION
    }
    if pool.query.by_person and "user" in roles and len(roles) > 1 and is_about_user(text):
        person = pool.is_by_user | ~pool.is_message
        has_word = pool.is_anywhere.any(axis=1)
        if has_word.any():
            # Every conversation has messages by the user. Without a word of the question, only a
            # resemblance says that one is about it, which is less than the words in a reply say.
            person = person & has_word
    speakers = authors_in_query(text, {c.author for c in candidates if c.author})
    if len(speakers) == 1:
        speaker = flags([candidate.author == speakers[0] for candidate in candidates])
    return {"person": person, "speaker": speaker}


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


# -- what the message says -------------------------------------------------------------------

_INSTRUCTION_LENGTH = 200  # characters in which a standing instruction begins


def statement_features(pool: Pool, meaning: Column) -> dict[str, Column]:
    """`meaning` is the feature of this name."""
    text, language = pool.query.text, language_of(pool.query.text)
    traits = np.array([s.traits for s in pool.scored])

    def has(trait: int) -> Column:
        wanted = passages.FIRST_PERSON | trait
        return traits & wanted == wanted

    preference = liking = instruction = pool.zeros
    if language.has("asks_rule", text):  # an observation may say what is allowed or preferred
        preference = flags(
            [c.kind == OBSERVATION and c.role == PREFERENCE for c in pool.candidates]
        )
    if language.has("requests", text):  # advice depends on what the user likes, wants or does
        preference = (preference > 0) | (has(passages.PREFERENCE) & pool.is_by_user)
    if is_to_assistant(text):
        liking = has(passages.LIKING) & pool.is_by_user
        beginnings = [c.content[:_INSTRUCTION_LENGTH] for c in pool.candidates]
        is_said = [language.has("standing_instructions", each) for each in beginnings]
        instruction = pool.is_by_user * flags(is_said) * meaning
    return {
        "past": has(passages.PAST),
        "answer": traits & passages.ANSWER > 0,
        "preference": preference,
        "liking": liking,
        "instruction": instruction,
    }
