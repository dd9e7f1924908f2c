"""The ranker: computes the score of every candidate and sorts them.

It uses no store, no clock and no model, so the same candidates always have the same order.

A score is a weighted sum of features. Each feature lies between 0 and about 1. Its weight depends
on what the query is (`language.intent`).

The weights of questions were fitted on questions with known answers, validated on the half of the
questions they were not fitted on, and rounded; `bench/README.md` has the figures. The weights of
keywords follow from rules: all words before some of them, adjacent words before scattered ones,
words before meaning, and dates only between equals.

- words: BM25 of the best window of 120 words, so that long messages gain nothing from their
  length. The author's name and the date count as words of the message.
- close: adjacent terms of the query that are close together in the message.
- meaning: cosine similarity of the message; topic: the best cosine in its conversation.
- reply: the message answers a question that contains the query's words. Short messages depend
  on the question they answer; long messages speak for themselves.
- whole: BM25 of everything found in the conversation; side: of the user's messages alone.
- person: users usually look for what they said themselves, unless they ask for advice or for what
  the assistant said (`language.addressee`). Items that are not conversations were saved by the
  user on purpose, so `person` treats them as the user's own.
- speaker: the message is by the author named in the query.
- recent: how new the message is; time: whether it lies in or near a period named in the query.
- title: the share of the query that the title contains.
- question: a message that asks a question rarely contains the answer.
- opening: the first message of a chat with an assistant says what the chat is about.
- past: somebody tells in the first person what happened; first_person: how much is about them;
  answer: the message has a time or a number if the question asks for one.
- preference: a request for advice is answered by what the user likes, wants or does.
- around: the cosines of the messages before and after it; context: the share of the query that
  only these contain; length: up to 100 words. They count in dialogues between people, whose
  messages are short and depend on each other. There, recency says nothing.
- exact: the identifiers of the query (paths, codes, versions, quotes) that the message contains.
- covered: the share of the query that the message or its title contains; complete: all of it.
- adjacent: pairs of words that are next to each other in the message as they are in the query;
  phrase: all words are, exactly as typed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta

from recollect.language.addressee import is_about_assistant, is_about_user
from recollect.language.detection import language_of
from recollect.language.intent import IDENTIFIER, KEYWORDS, QUESTION
from recollect.language.text import tokens
from recollect.language.when import Window, date_words
from recollect.model.kinds import CONVERSATION
from recollect.search import answer
from recollect.search.long_texts import ranked_part
from recollect.search.term_pairs import TermPairs
from recollect.search.terms import Term, TermFinder, own_terms
from recollect.search.words import words_of
from recollect.store.values import Candidate

# Comments give the change in any@5 by message (LoCoMo, LongMemEval) when a feature is left out
# and the others are fitted again. Features without a figure were kept because they helped on
# questions they were not fitted on.
QUESTION_WEIGHTS: Mapping[str, float] = {
    "exact": 20.0,
    "words": 3.0,
    "close": 2.0,
    "meaning": 2.5,  # -.017, -.004
    # Chats with an assistant wander from topic to topic, dialogues between people less so.
    "topic": 0.5,
    "reply": 2.0,
    "whole": 1.5,
    "side": 2.0,
    "person": 3.0,  # +.004, -.043
    "speaker": 3.0,  # -.018, +.009
    "recent": 1.5,  # without it -.030 on LongMemEval, which asks mostly about the last weeks
    "time": 4.0,  # +.003, -.030
    "title": 1.0,
    "question": -0.8,
    "opening": 1.0,
    "past": 0.5,
    "answer": 0.5,
    "preference": 3.0,
    # The reranker's judgement, in standard deviations; only if it is asked (`search.rerank`).
    "rerank": 0.8,
}
DIALOGUE_WEIGHTS: Mapping[str, float] = {
    **{name: w for name, w in QUESTION_WEIGHTS.items() if name not in ("recent", "opening")},
    "topic": 1.5,
    "answer": 1.0,
    "first_person": 3.0,
    "around": 1.5,
    "context": 2.0,
    "length": 1.0,
}
"""The weights of questions for the messages of dialogues between people."""
# Features that only some queries have, and a share that is never near 1.
_OPTIONAL = ("exact", "time", "speaker", "rerank", "first_person", "preference")


def _perfect_score(weights: Mapping[str, float]) -> float:
    """The score of a perfect hit."""
    return sum(weight for name, weight in weights.items() if weight > 0 and name not in _OPTIONAL)


def _weights_by_meaning() -> dict[str, float]:
    """Meaning stands in for the words of a message, and topic for those of its conversation.

    The sum stays the same, so that chats and dialogues in one library remain comparable.
    """
    weights = {n: w for n, w in QUESTION_WEIGHTS.items() if n not in _WORD_FEATURES}
    before = _perfect_score(weights)
    weights["meaning"] += QUESTION_WEIGHTS["words"] + QUESTION_WEIGHTS["close"]
    weights["topic"] += QUESTION_WEIGHTS["whole"] + QUESTION_WEIGHTS["side"]
    share = before / _perfect_score(weights)
    scaled = {name: share * weight for name, weight in weights.items()}
    return {**scaled, "rerank": QUESTION_WEIGHTS["rerank"]}


_WORD_FEATURES = ("words", "close", "reply", "whole", "side", "title")
MEANING_WEIGHTS: Mapping[str, float] = _weights_by_meaning()
"""The weights of questions by meaning alone for chats with an assistant.

With the usual weights, who wrote a message and when would outweigh its meaning.
"""
KEYWORD_WEIGHTS: Mapping[str, float] = {
    "exact": 20.0,
    "complete": 6.0,
    "covered": 6.0,
    "phrase": 1.5,
    "adjacent": 3.0,
    "words": 2.0,
    "close": 1.0,
    "title": 4.0,
    "meaning": 1.0,
    "time": 4.0,
    "recent": 0.01,
    "rerank": 0.8,
}
DIALOGUE = "dialogue"
BY_MEANING = "meaning"
WEIGHTS = {
    QUESTION: QUESTION_WEIGHTS,
    DIALOGUE: DIALOGUE_WEIGHTS,
    BY_MEANING: MEANING_WEIGHTS,
    KEYWORDS: KEYWORD_WEIGHTS,
    IDENTIFIER: KEYWORD_WEIGHTS,
}
PERFECT_SCORES = {
    QUESTION: max(_perfect_score(QUESTION_WEIGHTS), _perfect_score(DIALOGUE_WEIGHTS)),
    KEYWORDS: _perfect_score(KEYWORD_WEIGHTS),
    IDENTIFIER: _perfect_score(KEYWORD_WEIGHTS),
}

_K1, _B = 0.9, 0.4  # BM25 of a message
_CONVERSATION_K1, _CONVERSATION_B = 1.2, 0.75  # BM25 of a conversation
_WINDOW_WORDS = 120
_AVERAGE_WINDOW_WORDS = 50
_MINIMUM_NEAREST = 0.2  # if the best cosine is lower, no candidate is similar to the query
_NEAR_SHARE = 0.3  # candidates below this share of the best cosine are noise
_LONG_MESSAGE_WORDS = 100
_SHORT_MESSAGE_WORDS = 40  # at this length `reply` counts half as much as for an empty message
_TITLE_SHARE = 0.9  # an identifier in the title counts this much of one in the text
_WEEK = timedelta(days=7)
DATE_WORDS = frozenset(
    word
    for month in range(1, 13)
    for word in tokens(date_words(datetime(2024, month, month, tzinfo=UTC)))
)
"""The names of all months and weekdays."""
_QUESTION_MARKS = ("?", "？", "؟")


@dataclass(frozen=True, slots=True)
class Question:
    """What the ranker needs to know about the query."""

    text: str
    terms: tuple[Term, ...]
    now: datetime
    windows: tuple[Window, ...] = ()
    by_person: bool = True
    """False when searching for messages similar to another message."""
    intent: str = QUESTION
    phrase: Term | None = None
    """The words of a query of keywords as typed, next to each other."""

    def weights_for(self, scored: ScoredCandidate) -> Mapping[str, float]:
        if self.intent != QUESTION:
            return WEIGHTS[self.intent]
        if scored.is_between_people:
            return WEIGHTS[DIALOGUE]
        if not self.terms:
            return WEIGHTS[BY_MEANING]
        return WEIGHTS[QUESTION]


@dataclass(slots=True)
class ScoredCandidate:
    """A candidate, what matched in it, and its score.

    Candidates that neither arm found serve as context: they affect the scores of their neighbours
    but are not ranked themselves.
    """

    candidate: Candidate
    by_text: bool = False
    """Found by the text arm."""
    by_vector: bool = False
    """Found by the vector arm."""
    cosine: float | None = None

    matches: list[tuple[int, int]] = field(default_factory=list)
    """Matches in the text, as (position of the word, number of the term)."""
    terms: tuple[int, ...] = ()
    """The numbers of the terms in the text."""
    metadata_terms: AbstractSet[int] = frozenset()
    """The numbers of the terms in the author's name and the date."""
    title_terms: AbstractSet[int] = frozenset()
    """The numbers of the terms in the title."""
    has_phrase: bool = False
    """The text contains the words next to each other, exactly as typed."""
    is_between_people: bool = False
    """The conversation is a dialogue between people, not with an assistant."""
    length: int = 0
    """Words in the text."""
    window: Sequence[str] = ()
    """The words of the best window."""
    text_score: float = 0.0
    """BM25 of the best window."""

    score: float = 0.0
    parts: Mapping[str, float] = field(default_factory=dict)
    """The weighted features, which add up to the score."""
    copies: int = 0
    """Other candidates with the same text, which this one represents."""

    @property
    def arms(self) -> tuple[str, ...]:
        """How it was found: by words ("text"), by meaning ("vector"), or both."""
        arms = []
        if self.by_text or self.terms:
            arms.append("text")
        if self.by_vector:
            arms.append("vector")
        return tuple(arms)

    @property
    def all_terms(self) -> set[int]:
        """The numbers of the terms in the text, the title, the author's name and the date."""
        return {*self.terms, *self.metadata_terms, *self.title_terms}


def rank(question: Question, pool: Sequence[ScoredCandidate]) -> list[ScoredCandidate]:
    """Set the scores of the candidates that an arm found, and return these, best first.

    `find_terms` must have been called for the pool.
    """
    _mark_dialogues(pool)
    scorer = _Scorer(question, pool)
    ranking = [scored for scored in pool if scored.by_text or scored.by_vector]
    for scored in ranking:
        weights = question.weights_for(scored)
        features = scorer.features(scored)
        scored.parts = {
            name: weights[name] * value
            for name, value in features.items()
            if value and name in weights
        }
        scored.score = math.fsum(scored.parts.values())
    ranking.sort(key=lambda scored: (-scored.score, -scored.candidate.key))
    return ranking


def normalize(question: Question, score: float) -> float:
    """A score as users see it: greater than 0, at most 1."""
    return min(max(round(score / PERFECT_SCORES[question.intent], 6), 1e-6), 1.0)


def preliminary_score(scored: ScoredCandidate) -> float:
    """A rough score that is known before the neighbours of a candidate have been read."""
    return scored.text_score + 3 * (scored.cosine or 0.0)


def drop_distant(neighbours: Sequence[tuple[int, float]]) -> list[tuple[int, float]]:
    """Drop keys whose cosine is far below the best one. The best one comes first."""
    return [(key, cosine) for key, cosine in neighbours if cosine >= _NEAR_SHARE * neighbours[0][1]]


def find_terms(question: Question, pool: Iterable[ScoredCandidate]) -> None:
    """Find the terms of the query in each candidate."""
    finder = TermFinder(question.terms)
    phrase_finder = None
    if question.phrase is not None:
        phrase_finder = TermFinder([question.phrase])
    has_date_terms = any(
        form[0].isdigit() or form[0] in DATE_WORDS for term in question.terms for form in term.forms
    )
    metadata_terms: dict[tuple[str | None, date | None], set[int]] = {}
    title_terms: dict[str, set[int]] = {}
    for scored in pool:
        candidate = scored.candidate
        text = words_of(ranked_part(candidate.content, question.terms))
        scored.length = len(text)
        scored.matches = finder.find(text)
        scored.terms = tuple(sorted({number for _, number in scored.matches}))
        if phrase_finder is not None and len(scored.terms) > 1:
            scored.has_phrase = bool(phrase_finder.find(text))
        day = None
        dates = ""
        if has_date_terms and candidate.created_at is not None:
            day = candidate.created_at.date()
            dates = date_words(candidate.created_at)
        key = candidate.author, day
        if key not in metadata_terms:
            metadata = words_of(f"{candidate.author or ''} {dates}")
            metadata_terms[key] = {number for _, number in finder.find(metadata)}
        scored.metadata_terms = metadata_terms[key]
        if candidate.title not in title_terms:
            title = finder.find(words_of(candidate.title))
            title_terms[candidate.title] = {number for _, number in title}
        scored.title_terms = title_terms[candidate.title]
        scored.text_score, window = _best_window(question.terms, scored)
        scored.window = text[window * _WINDOW_WORDS : (window + 1) * _WINDOW_WORDS]


class _Scorer:
    """Computes the features of the candidates of one pool."""

    def __init__(self, question: Question, pool: Sequence[ScoredCandidate]) -> None:
        self._question = question
        self._answer_type = answer.AnswerType(question.text)
        self._asks_assistant = is_about_assistant(question.text)
        self._is_request = language_of(question.text).is_request(question.text)
        self._best_text_score = max((s.text_score for s in pool), default=0.0) or 1.0
        nearest = max((s.cosine or 0.0 for s in pool), default=0.0)
        self._nearest = max(nearest, _MINIMUM_NEAREST)
        self._by_position = {(s.candidate.document, s.candidate.position): s for s in pool}
        self._conversations = _Conversations(question, pool)
        self._prefers_person = _prefers_person(question, pool)
        self._speaker = _speaker_in_query(question, pool)
        self._pairs = TermPairs(question.terms)
        self._exact = frozenset(n for n, term in enumerate(question.terms) if term.exact)
        self._shares = term_shares(question.terms)
        self._own_numbers = {n for n, term in enumerate(question.terms) if not term.weak}

    def features(self, scored: ScoredCandidate) -> dict[str, float]:
        """The features that have a weight for this query."""
        candidate = scored.candidate
        features = {
            "words": scored.text_score / self._best_text_score,
            "close": self._pairs.proximity(scored.matches),
            "meaning": max(scored.cosine or 0.0, 0.0) / self._nearest,
            "recent": _recency(self._question.now, candidate.created_at),
            "time": _time_score(self._question.windows, candidate.created_at),
            "title": self._share(scored.title_terms),
            "exact": self._exact_share(scored),
        }
        if self._question.intent == QUESTION:
            self._add_question_features(scored, features)
            self._add_answer_features(scored, features)
        else:
            self._add_keyword_features(scored, features)
        return features

    def _add_keyword_features(self, scored: ScoredCandidate, features: dict[str, float]) -> None:
        all_terms = scored.all_terms
        features["covered"] = self._share(all_terms)
        features["complete"] = float(self._own_numbers <= all_terms)
        features["adjacent"] = self._pairs.adjacency(scored.matches)
        features["phrase"] = float(scored.has_phrase)

    def _add_question_features(self, scored: ScoredCandidate, features: dict[str, float]) -> None:
        candidate = scored.candidate
        document = candidate.document
        whole = self._conversations.whole_score(document)
        side = whole
        if candidate.kind == CONVERSATION:
            side = self._conversations.user_score(document)
        is_by_person = candidate.role == "user" or candidate.kind != CONVERSATION
        is_by_speaker = self._speaker is not None and candidate.author == self._speaker
        features["topic"] = self._conversations.best_cosine(document) / self._nearest
        features["reply"] = self._reply(scored)
        features["whole"] = whole
        features["side"] = side
        features["person"] = float(self._prefers_person and is_by_person)
        features["speaker"] = float(is_by_speaker)
        # Advice depends on what the user said before, also in earlier requests.
        features["question"] = float(not self._is_request and _is_question(candidate.content))

    def _add_answer_features(self, scored: ScoredCandidate, features: dict[str, float]) -> None:
        candidate = scored.candidate
        features["past"] = float(answer.tells_past(scored.window))
        features["answer"] = float(self._answer_type.is_in(scored.window))
        if self._is_request and candidate.role == "user":
            features["preference"] = float(answer.states_preference(scored.window))
        if scored.is_between_people:
            self._add_dialogue_features(scored, features)
        else:
            features["opening"] = float(candidate.position == 0 and not self._asks_assistant)

    def _add_dialogue_features(self, scored: ScoredCandidate, features: dict[str, float]) -> None:
        before = self._neighbour(scored, -1)
        after = self._neighbour(scored, 1)
        # A message depends more on what it replies to than on the reply to it.
        cosines = 2 * _cosine(before) + _cosine(after)
        neighbour_terms = {*_terms_of(before), *_terms_of(after)}
        features["first_person"] = answer.first_person_share(scored.window)
        features["around"] = cosines / 3 / self._nearest
        features["context"] = self._share(neighbour_terms.difference(scored.all_terms))
        features["length"] = min(scored.length, _LONG_MESSAGE_WORDS) / _LONG_MESSAGE_WORDS

    def _neighbour(self, scored: ScoredCandidate, step: int) -> ScoredCandidate | None:
        """The message before or after, if it is in the pool."""
        candidate = scored.candidate
        return self._by_position.get((candidate.document, candidate.position + step))

    def _share(self, numbers: AbstractSet[int]) -> float:
        """The share of the query, by weight, that these terms are. Synonyms do not count."""
        return math.fsum([self._shares[number] for number in numbers])

    def _exact_share(self, scored: ScoredCandidate) -> float:
        """The share of the identifiers. Those in the title count a little less."""
        if not self._exact:
            return 0.0
        in_text = len(self._exact.intersection(scored.terms))
        in_title = len((self._exact & scored.title_terms).difference(scored.terms))
        return (in_text + _TITLE_SHARE * in_title) / len(self._exact)

    def _reply(self, scored: ScoredCandidate) -> float:
        """How well the question that this message answers matches."""
        previous = self._neighbour(scored, -1)
        if previous is None or not _is_question(previous.candidate.content):
            return 0.0
        brevity = 1 / (1 + scored.length / _SHORT_MESSAGE_WORDS)
        return previous.text_score / self._best_text_score * brevity


# -- the message itself --------------------------------------------------------


def term_shares(terms: Sequence[Term]) -> list[float]:
    """The share of the query, by weight, that each term is. Synonyms are no part of the query."""
    total = math.fsum(term.weight for term in own_terms(terms)) or 1.0
    shares = []
    for term in terms:
        share = term.weight / total
        if term.weak:
            share = 0.0
        shares.append(share)
    return shares


def _best_window(terms: Sequence[Term], scored: ScoredCandidate) -> tuple[float, int]:
    """BM25 and the number of the best window. Terms in the metadata count in every window."""
    windows: dict[int, dict[int, int]] = {}
    for position, number in scored.matches:
        counts = windows.setdefault(position // _WINDOW_WORDS, {})
        counts[number] = counts.get(number, 0) + 1
    if scored.metadata_terms and not windows:
        windows[0] = {}
    best, best_window = 0.0, 0
    for window, counts in windows.items():
        length = min(scored.length - window * _WINDOW_WORDS, _WINDOW_WORDS)
        norm = _K1 * (1 - _B + _B * length / _AVERAGE_WINDOW_WORDS)
        parts = []
        for number in counts.keys() | scored.metadata_terms:
            count = counts.get(number, 0) + (number in scored.metadata_terms)
            parts.append(terms[number].weight * count * (_K1 + 1) / (count + norm))
        score = math.fsum(parts)
        if score > best:
            best, best_window = score, window
    return best, best_window


def _cosine(scored: ScoredCandidate | None) -> float:
    if scored is None:
        return 0.0
    return max(scored.cosine or 0.0, 0.0)


def _terms_of(scored: ScoredCandidate | None) -> Sequence[int]:
    if scored is None:
        return ()
    return scored.terms


def _is_question(content: str) -> bool:
    return content.rstrip().endswith(_QUESTION_MARKS)


# -- its conversation ----------------------------------------------------------


class _Conversations:
    """Scores of whole conversations, from everything in the pool that belongs to them."""

    def __init__(self, question: Question, pool: Sequence[ScoredCandidate]) -> None:
        self._terms = question.terms
        self._cosines: dict[str, float] = {}
        self._sizes: dict[str, int] = {}
        counts: dict[str, dict[int, int]] = {}
        user_counts: dict[str, dict[int, int]] = {}
        for scored in pool:
            candidate = scored.candidate
            document = candidate.document
            self._cosines[document] = max(scored.cosine or 0.0, self._cosines.get(document, 0.0))
            self._sizes[document] = candidate.passages
            _count_terms(counts.setdefault(document, {}), scored)
            if candidate.role == "user":
                _count_terms(user_counts.setdefault(document, {}), scored)
        # Terms in the metadata count once per conversation, whatever the order of the pool.
        for scored in pool:
            for number in scored.metadata_terms:
                counts[scored.candidate.document].setdefault(number, 1)
                if scored.candidate.role == "user":
                    user_counts[scored.candidate.document].setdefault(number, 1)
        self._average_size = sum(self._sizes.values()) / max(len(self._sizes), 1)
        self._whole_scores = self._scores(counts)
        self._user_scores = self._scores(user_counts)

    def best_cosine(self, document: str) -> float:
        return self._cosines.get(document, 0.0)

    def whole_score(self, document: str) -> float:
        """BM25 of all messages, as a share of the best conversation's."""
        return self._whole_scores.get(document, 0.0)

    def user_score(self, document: str) -> float:
        """BM25 of the user's messages, as a share of the best conversation's."""
        return self._user_scores.get(document, 0.0)

    def _scores(self, counts: Mapping[str, Mapping[int, int]]) -> dict[str, float]:
        scores = {document: self._bm25(document, c) for document, c in counts.items()}
        best = max(scores.values(), default=0.0)
        if not best:
            return {}
        return {document: score / best for document, score in scores.items()}

    def _bm25(self, document: str, counts: Mapping[int, int]) -> float:
        length = self._sizes[document] / self._average_size
        norm = _CONVERSATION_K1 * (1 - _CONVERSATION_B + _CONVERSATION_B * length)
        return math.fsum(
            self._terms[number].weight * count * (_CONVERSATION_K1 + 1) / (count + norm)
            for number, count in counts.items()
        )


def _count_terms(counts: dict[int, int], scored: ScoredCandidate) -> None:
    for _, number in scored.matches:
        counts[number] = counts.get(number, 0) + 1


# -- author and time -----------------------------------------------------------


def _mark_dialogues(pool: Sequence[ScoredCandidate]) -> None:
    """Mark the messages of dialogues between people.

    Their messages name their authors. Chats with an assistant have roles instead, at most with
    the name of the one user.
    """
    authors: dict[str, set[str]] = {}
    for scored in pool:
        candidate = scored.candidate
        if candidate.author and candidate.kind == CONVERSATION:
            authors.setdefault(candidate.document, set()).add(candidate.author)
    has_several = len(set().union(*authors.values())) > 1
    for scored in pool:
        scored.is_between_people = has_several and scored.candidate.document in authors


def _prefers_person(question: Question, pool: Sequence[ScoredCandidate]) -> bool:
    """Whether the user's own messages should rank higher.

    Only if the user and others wrote the candidates, and the query is about the user.
    """
    roles = {
        scored.candidate.role
        for scored in pool
        if (scored.by_text or scored.by_vector) and scored.candidate.kind == CONVERSATION
    }
    if not question.by_person or "user" not in roles or len(roles) < 2:
        return False
    return is_about_user(question.text)


def _speaker_in_query(question: Question, pool: Sequence[ScoredCandidate]) -> str | None:
    """The author whom the query names, if it names exactly one."""
    words = set(tokens(question.text))
    authors = {scored.candidate.author for scored in pool}
    speakers = [
        author for author in authors if author is not None and words.intersection(tokens(author))
    ]
    if len(speakers) != 1:
        return None
    return speakers[0]


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
        width = max(window.end - window.start, timedelta(days=1))
        distance = max(window.start - created_at, created_at - window.end, timedelta(0))
        best = max(best, 1 - distance / width)
    return best
