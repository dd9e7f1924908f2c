"""Cues that a passage answers a question.

The tense and the person are recognized in English only.

People ask about what happened to somebody, and the answer is usually told by that person, in the
past tense. A question for a time or a number is answered by a passage that has one.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from recollect.language.detection import language_of
from recollect.language.languages.base import Language
from recollect.language.languages.english import ENGLISH
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


class AnswerType:
    """What kind of answer a question asks for: a time, a number, or anything."""

    def __init__(self, question: str) -> None:
        self._language = language_of(question)
        self._is_time = self._language.asks_for_time(question)
        self._is_number = self._language.asks_for_number(question)

    def is_in(self, words: Sequence[str]) -> bool:
        """Whether a passage has a time or a number, if the question asks for one."""
        if not self._is_time and not self._is_number:
            return False
        if any(map(str.isdigit, words)):
            return True
        if self._is_time and not _times(self._language).isdisjoint(words):
            return True
        return self._is_number and not _numbers(self._language).isdisjoint(words)


@cache
def _times(language: Language) -> frozenset[str]:
    """The words for times, as the index has them. Single characters say too little."""
    if language.unspaced:
        return frozenset()
    times = language.times
    adverbs = [moment for moment in times.moments if " " not in moment]
    names = [*times.months, *times.weekdays, *times.units, *adverbs]
    if language is ENGLISH:
        names.append(_MORE_TIMES)
    return frozenset(indexable(" ".join(names)).split())


@cache
def _numbers(language: Language) -> frozenset[str]:
    """The words for numbers, as the index has them. In most languages, "one" is also "a"."""
    if language.unspaced:
        return frozenset()
    if language is ENGLISH:
        return frozenset(" ".join([*language.times.numbers, _MORE_NUMBERS]).split())
    return frozenset(indexable(" ".join(language.times.numbers[1:])).split())


def first_person_share(words: Sequence[str]) -> float:
    """The share of words such as "I" and "our"."""
    if not words:
        return 0.0
    return sum(map(_FIRST_PERSON.__contains__, words)) / len(words)


def tells_past(words: Sequence[str]) -> bool:
    """Whether somebody tells what happened to them: "I" or "we", and a verb in the past tense."""
    if _FIRST_PERSON.isdisjoint(words):
        return False
    if not _PAST.isdisjoint(words):
        return True
    if "ed " not in f"{' '.join(words)} ":  # much faster than to look at each word
        return False
    return any(word.endswith("ed") and len(word) >= _MIN_REGULAR_PAST for word in words)


def states_preference(words: Sequence[str]) -> bool:
    """Whether somebody says what they like, want or do, on which advice to them depends."""
    return not _FIRST_PERSON.isdisjoint(words) and not _PREFERENCES.isdisjoint(words)
