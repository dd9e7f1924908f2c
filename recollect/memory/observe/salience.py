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
from collections.abc import Iterable
from functools import lru_cache
from itertools import chain

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
    spoken = sentence.split()
    names = sum(1 for word in spoken[1:] if word[0].isupper() and word[1:2].isalnum())
    numbers = sum(1 for word in spoken if any(map(str.isdigit, word)))
    all_words = words(sentence).all
    numbers += len(all_words & cue_words("count_words"))
    return (
        0.35 * min(names, 4)
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
_CODE = re.compile(r"`([^`\s]{1,40})`")
_BREAK = re.compile(r"[^\w\s'’.+#/@-]+|[.\-/'’]+(?=\s|$)|\n")
"""Punctuation, which ends a phrase."""
_MAX_WORD_LENGTH = 32
_MAX_FOREIGN_WORD_LENGTH = 14  # in a script without spaces, a longer word is a sentence
_BONUS_OF_NAMES = 1.4


def concepts(
    texts: Iterable[tuple[str, float]], salience: Salience, limit: int = MAX_CONCEPTS
) -> tuple[str, ...]:
    """The most significant phrases of these texts, each of which has a weight."""
    scores: dict[tuple[str, ...], float] = defaultdict(float)
    names: dict[tuple[str, ...], str] = {}
    for text, weight in texts:
        for phrase in _phrases(text):
            key = terms(phrase) or tuple(fold(phrase).split())
            if key not in names or phrase[0].islower():
                names[key] = phrase
            is_name = phrase[1:] != phrase[1:].lower()
            value = salience.total(key) / max(len(key), 1) ** 0.5
            scores[key] += weight * value * (_BONUS_OF_NAMES if is_name else 1)
    best: list[tuple[str, ...]] = []
    for key in sorted(scores, key=lambda key: (-scores[key], key)):
        if not any(set(key) <= set(other) or set(other) <= set(key) for other in best):
            best.append(key)
            if len(best) == limit:
                break
    return tuple(names[key] for key in best)


@lru_cache(maxsize=512)  # an observation quotes the sentences of a person
def _phrases(text: str) -> list[str]:
    """Inline code, and words next to each other that carry meaning, up to three."""
    phrases = _CODE.findall(text)
    for part in _BREAK.split(_CODE.sub("\n", text)):
        run: list[str] = []
        for word in (*part.split(), ""):
            if run and (len(run) == _MAX_PHRASE_WORDS or not is_useful(word)):
                phrases.append(" ".join(run))
                run = []
            if is_useful(word):
                run.append(word.removesuffix("'s").removesuffix("’s"))
    return phrases


@lru_cache(maxsize=40_000)
def is_useful(word: str) -> bool:
    """Whether a word can be part of a phrase."""
    if not word[:1].isalnum():
        return False
    bare = fold(word).removesuffix("'s").removesuffix("’s").rstrip(".-/'’")
    if len(bare) <= 2 or bare.isnumeric() or "'" in bare or "’" in bare:
        return False
    if bare in common_words() or bare in cue_words("weak_verbs"):
        return False
    return len(bare) <= (_MAX_WORD_LENGTH if bare.isascii() else _MAX_FOREIGN_WORD_LENGTH)
