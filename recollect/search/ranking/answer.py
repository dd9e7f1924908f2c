"""Cues that a passage answers a question.

People ask about what happened to somebody, and the answer is usually told by that person, in the
past tense. A question for a time or a number is answered by a passage that has one.

The tense, the person and preferences are recognized in English only.
"""

from __future__ import annotations

from functools import cache
from itertools import chain

from recollect.language.detection import language_of
from recollect.language.languages import ENGLISH, Language
from recollect.language.text import indexable

_FIRST_PERSON_WORDS = "i me my mine myself we us our ours im ive"
_PAST_FORMS = """
    was were went had did got made took bought saw came gave started left met told ate drove flew
    felt thought kept ran sold spent won wrote lost paid grew broke built became began chose heard
    held knew learned sent slept spoke taught wore
"""
_MORE_NUMBERS = "twenty thirty forty fifty hundred thousand once twice several dozen"
_MORE_TIMES = "yesterday today tomorrow tonight ago week weekend month year last next morning"
_PREFERENCE_WORDS = """
    prefer favorite favourite love like enjoy hate dislike avoid allergic vegetarian vegan always
    never usually interested fan want trying started recently own
"""
_PREFERENCES = frozenset(_PREFERENCE_WORDS.split())
_FIRST_PERSON = frozenset(_FIRST_PERSON_WORDS.split())
_PAST = frozenset(_PAST_FORMS.split())
_MIN_REGULAR_PAST = 5  # letters; shorter words in -ed are rarely verbs (`bed`, `need`)

# The traits of a word, which can be combined.
FIRST_PERSON = 1
PAST = 2
PREFERENCE = 4
DIGITS = 8
ANSWER = 16  # depends on the question; see `AnswerType`
LIKING = 32


def traits(word: str) -> int:
    """The traits of a word. It has ANSWER only in the context of a question."""
    flags = _traits_by_word().get(word, 0)
    if word.endswith("ed") and len(word) >= _MIN_REGULAR_PAST:
        flags |= PAST
    if word.isdigit():
        flags |= DIGITS
    return flags


@cache
def _traits_by_word() -> dict[str, int]:
    table: dict[str, int] = {}
    for trait, words in (
        (FIRST_PERSON, _FIRST_PERSON),
        (PAST, _PAST),
        (PREFERENCE, _PREFERENCES),
        (LIKING, ENGLISH.statement_words),
    ):
        for word in words:
            table[word] = table.get(word, 0) | trait
    return table


class AnswerType:
    """What kind of answer a question asks for: a time, a number, or anything."""

    def __init__(self, question: str) -> None:
        language = language_of(question)
        self.words: frozenset[str] = frozenset()
        """The words of such an answer."""
        self.traits = 0
        """The traits of the words of such an answer."""
        if language.asks_for_time(question):
            self.words |= _times(language)
            self.traits = DIGITS | ANSWER
        if language.asks_for_number(question):
            self.words |= _numbers(language)
            self.traits = DIGITS | ANSWER


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
def _numbers(language: Language) -> frozenset[str]:
    """The words for numbers, as the index has them. In most languages, "one" is also "a"."""
    if language.unspaced:
        return frozenset()
    if language is ENGLISH:
        return frozenset([*chain(*language.times.numbers), *_MORE_NUMBERS.split()])
    return frozenset(indexable(" ".join(chain(*language.times.numbers[1:]))).split())
