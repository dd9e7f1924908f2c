"""Cues that a passage answers a question. They are those of English.

People ask about what happened to somebody, and the answer is usually told by that person, in the
past tense. A question for a time or a number is answered by a passage that has one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from recollect.language.languages.english import ENGLISH

_FIRST_PERSON_WORDS = "i me my mine myself we us our ours im ive"
_PAST_FORMS = """
    was were went had did got made took bought saw came gave started left met told ate drove flew
    felt thought kept ran sold spent won wrote lost paid grew broke built became began chose heard
    held knew learned sent slept spoke taught wore
"""
_MORE_NUMBERS = "twenty thirty forty fifty hundred thousand once twice several dozen"
_MORE_TIMES = "yesterday today tomorrow tonight ago week weekend month year last next morning"
_FIRST_PERSON = frozenset(_FIRST_PERSON_WORDS.split())
_PAST = frozenset(_PAST_FORMS.split())
_NUMBERS = frozenset(" ".join([*ENGLISH.times.numbers, _MORE_NUMBERS]).split())
_TIMES = frozenset(" ".join([*ENGLISH.times.months, *ENGLISH.times.weekdays, _MORE_TIMES]).split())
_MIN_REGULAR_PAST = 5  # letters; shorter words in -ed are rarely verbs (`bed`, `need`)
_TIME_QUESTION = re.compile(r"\bwhen\b|\b(?:what|which) (?:day|date|month|year|time)\b", re.I)
_NUMBER_QUESTION = re.compile(r"\bhow (?:many|much|old|long|often|far|tall|big|large)\b", re.I)


class AnswerType:
    """What kind of answer a question asks for: a time, a number, or anything."""

    def __init__(self, question: str) -> None:
        self._is_time = bool(_TIME_QUESTION.search(question))
        self._is_number = bool(_NUMBER_QUESTION.search(question))

    def is_in(self, words: Sequence[str]) -> bool:
        """Whether a passage has a time or a number, if the question asks for one."""
        if not self._is_time and not self._is_number:
            return False
        if any(word.isdigit() for word in words):
            return True
        if self._is_time and not _TIMES.isdisjoint(words):
            return True
        return self._is_number and not _NUMBERS.isdisjoint(words)


def first_person_share(words: Sequence[str]) -> float:
    """The share of words such as "I" and "our"."""
    if not words:
        return 0.0
    return sum(word in _FIRST_PERSON for word in words) / len(words)


def tells_past(words: Sequence[str]) -> bool:
    """Whether somebody tells what happened to them: "I" or "we", and a verb in the past tense."""
    if _FIRST_PERSON.isdisjoint(words):
        return False
    if not _PAST.isdisjoint(words):
        return True
    return any(word.endswith("ed") and len(word) >= _MIN_REGULAR_PAST for word in words)
