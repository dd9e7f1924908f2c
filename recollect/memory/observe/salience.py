"""Which sentences of a conversation are worth remembering, and the concepts that they name.

A sentence scores for words that are rare in this conversation, and for what people ask for later:
names, numbers, dates, quotes, statements about themselves, outcomes. Pleasantries score nothing.

Concepts are sequences of meaningful words, weighted by how rare they are in the conversation. YAKE
0.7 was measured and rejected: it takes 44 ms of CPU per exchange, eight times all the rest.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

from recollect.language.text import fold
from recollect.memory.observe.cues import (
    ASIDE,
    DECISION,
    EMPTY,
    LEARNING,
    OWN,
    PREFERENCE,
    SECURITY,
    STEP,
    cue_words,
)
from recollect.memory.observe.words import common_words, terms, words

# A word with a capital inside a sentence, or an abbreviation. The conditions on what stands before
# the capital follow it, because searching for a capital is much faster.
_NAME = re.compile(
    r"[A-Z](?<!\w.)(?:(?<![.!?:\"“]\s.)(?<!^.)(?!(?<=I)(?:\b|')|(?<=O)K\b|(?<=A)I\b)"
    r"[\w'’-]{0,60}[a-z0-9][\w'’-]*+|[A-Z]{1,5}\d*\b)"
)
_NUMBER = re.compile(r"\d\d*(?:[.,:/-]\d+)*")  # a single digit is searched for faster than \d+
_QUOTED = re.compile(r"[\"“«「『`][^\"”»」』`]{2,80}[\"”»」』`]|(?<!\w)'[A-Z][^']{2,60}'")
_LONG_SENTENCE = 320  # characters


class Salience:
    """Scores the sentences of one conversation."""

    def __init__(self, parts: Iterable[Iterable[str]]) -> None:
        """`parts` are the sentences of each part of the conversation.

        A word that occurs in few parts is significant.
        """
        parts_terms = [
            frozenset[str]().union(*[words(sentence).distinct for sentence in sentences])
            for sentences in parts
        ]
        part_count = len(parts_terms)
        maximum = math.log(1 + max(2, part_count))
        self._weights: dict[str, float] = defaultdict(lambda: 1.0)
        for term, count in Counter(chain.from_iterable(parts_terms)).items():
            self._weights[term] = 0.3 + 0.7 * math.log(1 + part_count / count) / maximum
        self._person_scores: dict[str, float] = {}

    def total(self, terms: Iterable[str]) -> float:
        """The sum of the weights: from 0.3 for a word in every part of a conversation to 1."""
        return math.fsum(map(self._weights.__getitem__, terms))

    def of_words(self, sentence: str) -> float:
        distinct = words(sentence).distinct
        if not distinct:
            return 0.0
        norm: float = (len(distinct) + 4) ** 0.5
        return self.total(distinct) / norm

    def of_person(self, sentence: str, *, question: bool) -> float:
        """The score of a person's sentence: highest for statements about themselves."""
        if is_empty(sentence):
            return 0.0
        score = self._person_scores.get(sentence)
        if score is None:
            score = self.of_words(sentence) + score_details(sentence)
            score += 1.2 * OWN.is_in(sentence) + 0.8 * ASIDE.is_in(sentence)
            score += 0.8 * sum(cue.is_in(sentence) for cue in (PREFERENCE, DECISION, SECURITY))
            self._person_scores[sentence] = score
        return score - 1.5 * question

    def of_answer(self, sentence: str, *, question: bool, last: bool = False) -> float:
        """The score of a model's sentence: conclusions and names before explanations."""
        if question or is_empty(sentence):
            return 0.0
        score = self.of_words(sentence) + score_details(sentence)
        score += 0.9 * LEARNING.is_in(sentence) + 0.5 * SECURITY.is_in(sentence) + 0.5 * last
        score += 0.7 * (not words(sentence).all.isdisjoint(cue_words("outcome_words")))
        is_step = STEP.at_start(sentence) is not None
        return score - 1.0 * is_step - 0.8 * (len(sentence) > _LONG_SENTENCE)


@lru_cache(maxsize=4_096)
def score_details(sentence: str) -> float:
    """Names, numbers, times and quotes: what people ask for later."""
    all_words = words(sentence).all
    numbers = len(_NUMBER.findall(sentence)) + len(all_words & cue_words("count_words"))
    return (
        0.35 * min(len(_NAME.findall(sentence)), 4)
        + 0.5 * min(numbers, 3)
        + 0.5 * min(len(all_words & cue_words("time_words")), 2)
        + 0.5 * min(len(_QUOTED.findall(sentence)), 2)
    )


@lru_cache(maxsize=4_096)
def is_empty(sentence: str) -> bool:
    """Whether a sentence says nothing worth remembering."""
    if not words(sentence).terms:
        return True
    match = EMPTY.at_start(sentence)
    return match is not None and match.end() == len(sentence)


# -- concepts ---

MAX_CONCEPTS = 6
_MAX_PHRASE_WORDS = 3
_TOKEN = re.compile(r"`[^`\n]{2,40}`|[^\W_][\w'’.+#/@-]*|[^\w\s]+|\n")
# Code, a word, punctuation or the end of a line.
_MAX_WORD_LENGTH = 32
_MAX_FOREIGN_WORD_LENGTH = 14  # in a script without spaces, a longer word is a sentence
_BONUS_OF_NAMES = 1.4


class Phrase(NamedTuple):
    """A name, inline code, or words next to each other."""

    text: str
    terms: tuple[str, ...]
    """The words by which it is recognized."""
    is_name: bool
    """Whether it is a name or code."""


class _Token(NamedTuple):
    """Inline code, or a word that can be part of a phrase."""

    text: str
    """Without punctuation at its end."""
    terms: tuple[str, ...]
    has_capital: bool
    is_name: bool
    """Whether it is code, or has a capital that is not its first letter."""
    is_code: bool
    ends_phrase: bool
    """Whether punctuation follows."""


def concepts(
    texts: Iterable[tuple[str, float]], salience: Salience, limit: int = MAX_CONCEPTS
) -> tuple[str, ...]:
    """The most significant phrases of these texts, each of which has a weight."""
    scores: dict[tuple[str, ...], float] = {}
    names: dict[tuple[str, ...], str] = {}
    for text, weight in texts:
        for phrase in _phrases(text):
            name = names.setdefault(phrase.terms, phrase.text)
            if phrase.text[0].islower() and not name[0].islower():
                names[phrase.terms] = phrase.text
            value = salience.total(phrase.terms) / max(len(phrase.terms), 1) ** 0.5
            if phrase.is_name:
                value *= _BONUS_OF_NAMES
            scores[phrase.terms] = scores.get(phrase.terms, 0.0) + weight * value
    best: list[tuple[str, ...]] = []
    best_words: list[set[str]] = []
    for key in sorted(scores, key=lambda key: (-scores[key], key)):
        own = set(key)
        if not any(own <= other or other <= own for other in best_words):
            best.append(key)
            best_words.append(own)
            if len(best) == limit:
                break
    return tuple(names[key] for key in best)


@lru_cache(maxsize=512)  # an observation quotes the sentences of a person
def _phrases(text: str) -> list[Phrase]:
    """Sequences of words that carry meaning, and inline code."""
    phrases: list[Phrase] = []
    run: list[_Token] = []
    for token in (*map(_token, _TOKEN.findall(text)), None):
        if run and (token is None or token.is_code or len(run) == _MAX_PHRASE_WORDS):
            phrases.append(_phrase(run))
            run = []
        if token is not None:
            run.append(token)
            if token.ends_phrase:
                phrases.append(_phrase(run))
                run = []
    return phrases


def _phrase(run: Sequence[_Token]) -> Phrase:
    text = " ".join([token.text for token in run])
    phrase_terms = tuple(chain.from_iterable([token.terms for token in run]))
    is_name = run[0].is_name or any([token.has_capital for token in run[1:]])
    return Phrase(text, phrase_terms or tuple(fold(text).split()), is_name)


@lru_cache(maxsize=40_000)
def _token(text: str) -> _Token | None:
    """None for punctuation, and for a word that is not part of phrases."""
    if text[0] == "`" and text[-1] == "`" and len(text) > 2:
        code = text[1:-1].strip()
        if not code or " " in code:
            return None
        return _Token(code, terms(code), True, is_name=True, is_code=True, ends_phrase=True)
    if not text[0].isalnum() or not is_useful(text):
        return None
    bare = text.rstrip(".-/'’").removesuffix("'s").removesuffix("’s")
    return _Token(
        bare,
        terms(bare),
        has_capital=bare != bare.lower(),
        is_name=bare[1:] != bare[1:].lower(),
        is_code=False,
        ends_phrase=text != bare,
    )


def is_useful(word: str) -> bool:
    bare = fold(word).removesuffix("'s").removesuffix("’s").rstrip(".-/'’")
    if len(bare) <= 2 or bare.isnumeric() or "'" in bare or "’" in bare:
        return False
    if bare in common_words() or bare in cue_words("weak_verbs"):
        return False
    return len(bare) <= (_MAX_WORD_LENGTH if bare.isascii() else _MAX_FOREIGN_WORD_LENGTH)
