"""Cues that a passage answers a question.

People ask about what happened to somebody, and the answer is usually told by that person, in the
past tense. A question for a time or a number is answered by a passage that has one.

The tense, the person and preferences are recognized in English only.
"""

from __future__ import annotations

from collections.abc import Set
from functools import cache
from itertools import chain

from recollect.language.detection import language_of
from recollect.language.languages import ENGLISH, Language
from recollect.language.text import indexable

FIRST_PERSON_WORDS = frozenset(
    ["i", "me", "my", "mine", "myself", "we", "us", "our", "ours", "im", "ive"]
)
_PAST_WORDS = """
    was were went had did got made took bought saw came gave started left met told ate drove flew
    felt thought kept ran sold spent won wrote lost paid grew broke built became began chose heard
    held knew learned sent slept spoke taught wore
"""
_PREFERENCE_WORDS = """
    prefer favorite favourite love like enjoy hate dislike avoid allergic vegetarian vegan always
    never usually interested fan want trying started recently own
"""
_MORE_NUMBERS = "twenty thirty forty fifty hundred thousand once twice several dozen"
_MORE_TIMES = "yesterday today tomorrow tonight ago week weekend month year last next morning"
_MIN_REGULAR_PAST = 5  # letters; shorter words in -ed are rarely verbs (`bed`, `need`)

# The traits of a text, which can be combined.
FIRST_PERSON = 1
PAST = 2
PREFERENCE = 4
LIKING = 8
ANSWER = 16
_WORDS = {
    FIRST_PERSON: FIRST_PERSON_WORDS,
    PAST: frozenset(_PAST_WORDS.split()),
    PREFERENCE: frozenset(_PREFERENCE_WORDS.split()),
}


def traits_of(words: Set[str]) -> int:
    """The traits of a text with these words, if one of them is in the first person."""
    if FIRST_PERSON_WORDS.isdisjoint(words):
        return 0
    traits = sum(trait for trait, of_trait in _WORDS.items() if not of_trait.isdisjoint(words))
    if not ENGLISH.statement_words.isdisjoint(words):
        traits |= LIKING
    if not traits & PAST and any(
        word.endswith("ed") and len(word) >= _MIN_REGULAR_PAST for word in words
    ):
        traits |= PAST
    return traits


class AnswerType:
    """What kind of answer a question asks for: a time, a number, or anything."""

    def __init__(self, question: str) -> None:
        language = language_of(question)
        asks_for_time = language.has("asks_time", question)
        asks_for_number = language.has("asks_number", question)
        self.has_type = asks_for_time or asks_for_number
        self.words: frozenset[str] = frozenset()
        """The words of such an answer, besides digits."""
        if asks_for_time:
            self.words |= _times(language)
        if asks_for_number:
            self.words |= numbers(language)

    def trait(self, words: Set[str]) -> int:
        """ANSWER if these words may be an answer."""
        if not self.has_type:
            return 0
        if any(map(str.isdigit, words)) or not self.words.isdisjoint(words):
            return ANSWER
        return 0


@cache
def _times(language: Language) -> frozenset[str]:
    """The words for times, as the index has them. Single characters say too little."""
    if language.unspaced:
        return frozenset()
    times = language.times
    adverbs = [moment for moment in times.moments if " " not in moment]
    names = [*chain(*times.months, *times.weekdays), *times.units, *adverbs]
    if language is ENGLISH:
        names.append(_MORE_TIMES)
    return frozenset(indexable(" ".join(names)).split())


@cache
def numbers(language: Language) -> frozenset[str]:
    """The words for numbers, as the index has them. In most languages, "one" is also "a"."""
    if language.unspaced:
        return frozenset()
    if language is ENGLISH:
        return frozenset([*chain(*language.times.numbers), *_MORE_NUMBERS.split()])
    return frozenset(indexable(" ".join(chain(*language.times.numbers[1:]))).split())
