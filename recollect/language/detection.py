"""The language of a query, by its function words.

A query is taken as English unless its words speak for another language. Names, titles and loan
words do not: "lake como", "mit license" and "die hard" stay English. So another language needs two
of its words, one of which is not also English or a name, or a single word that opens a question
("wann") or names a day ("ayer"). Words that several languages share count for each of them in part.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from itertools import chain

from recollect.language.languages import (
    CHINESE,
    ENGLISH,
    GERMAN,
    JAPANESE,
    KOREAN,
    LATIN,
    Language,
    without_accents,
)
from recollect.language.text import fold

_JAPANESE_TIMES = "先週|今週|週間|曜日|先々|先月|先日|一昨|[今昨]晩"
"""Words for times that are not Chinese, although they have no kana."""
# Japanese also has Chinese characters, but no other language has kana. The patterns are compiled
# when they are first used, which takes Python milliseconds.
_SCRIPTS = (
    (f"[\u3040-\u30ff]|{_JAPANESE_TIMES}", JAPANESE),
    ("[\u1100-\u11ff\uac00-\ud7a3]", KOREAN),
    ("[\u3400-\u4dbf\u4e00-\u9fff]", CHINESE),
)
_WORD = re.compile(r"[^\W\d_]+(?:['-][^\W\d_]+)*")
_MOST_WORDS = 40
_LETTER_WEIGHT = 0.25
# How many words of a language are enough if each of them is English or a name as well.
_ENOUGH_AMONG_ENGLISH = 3  # was hat der
_ENOUGH_WITHOUT_QUESTION = 4  # da chi di mia, but not de la del
# "Was" also begins questions in English, but these words do not follow it there.
_GERMAN_OPENING = "was"
_GERMAN_AFTER_OPENING = frozenset(["er", "im"])


@lru_cache(maxsize=1024)
def language_of(text: str) -> Language:
    """The language of a query; English if it is undecided."""
    words = _words(text)
    languages_by_word = _languages_by_word()
    languages_of = {word: languages_by_word.get(word, ()) for word in words}
    if words and words[0] == _GERMAN_OPENING:
        languages_of |= dict.fromkeys(_GERMAN_AFTER_OPENING.intersection(words), (GERMAN,))
    scores: dict[Language, float] = {}
    for word in words:
        for language in languages_of[word]:
            scores[language] = scores.get(language, 0.0) + 1 / len(languages_of[word])
    if not scores:
        return unspaced_language(text) or ENGLISH
    letters = {fold(letter) for letter in text if not letter.isascii()}
    for language in scores:
        scores[language] += _LETTER_WEIGHT * len(letters.intersection(letters_of(language)))
    best_score = max(scores.values())
    best, *others = [language for language, score in scores.items() if score == best_score]
    return ENGLISH if others or not is_certain(best, languages_of, words[0]) else best


def unspaced_language(text: str) -> Language | None:
    """The language of the parts of a text that are in Chinese, Japanese or Korean script."""
    if text.isascii():
        return None
    return next((language for script, language in _SCRIPTS if re.search(script, text)), None)


def _words(text: str) -> list[str]:
    """The words of a text, and the parts of words with an apostrophe or a hyphen.

    Words in capital letters are left out, because they are abbreviations (MIT, WAS, DIE).
    """
    plain = text.replace("\u2019", "'")
    is_upper_case = plain.upper() == plain
    words = []
    for word in _WORD.findall(plain)[:_MOST_WORDS]:
        if is_upper_case or len(word) == 1 or not word.isupper():
            word = fold(word)
            words.append(word)
            if "'" in word or "-" in word:
                words += word.replace("-", "'").split("'")
    return words


def is_certain(
    language: Language, languages_of: Mapping[str, Sequence[Language]], first: str
) -> bool:
    """Whether the words of a language are enough to take a query as that language.

    `languages_of` has the languages of each word; `first` is the first one.
    """
    evidence = [word for word, languages in languages_of.items() if language in languages]
    english = [word for word, languages in languages_of.items() if ENGLISH in languages]
    foreign = [word for word in evidence if word not in english_too() and word not in english]
    opens_question = first in language.opening_words and first in evidence
    if foreign:
        return opens_question or len(evidence) > 1 or foreign[0] in moments(language)
    if english:
        return opens_question and len(evidence) >= _ENOUGH_AMONG_ENGLISH
    return len(evidence) >= (2 if opens_question else _ENOUGH_WITHOUT_QUESTION)


@cache
def english_too() -> frozenset[str]:
    """Words of other languages that are English as well, or part of well-known names."""
    return frozenset(ENGLISH.fields.words("foreign_too"))


@cache
def _languages_by_word() -> dict[str, tuple[Language, ...]]:
    """For each word that tells languages apart: the languages that have it."""
    table: dict[str, tuple[Language, ...]] = {}
    for language in LATIN:
        for word in telling_words(language):
            if len(word) > 1 or not word.isascii():  # the s of "Ada's" is not French
                table[word] = (*table.get(word, ()), language)
    return table


@cache
def letters_of(language: Language) -> frozenset[str]:
    return frozenset(language.fields.text("letters"))


def telling_words(language: Language) -> set[str]:
    times = language.times
    names = chain(*times.months, *times.weekdays, *times.numbers, times.seasons, times.units)
    words = {*names, *moments(language), *language.fields.words("typical_words")}
    words |= without_accents(words)
    return words | language.stop_words | language.opening_words


@cache
def moments(language: Language) -> frozenset[str]:
    """The adverbs of time that are a single word, such as `yesterday`."""
    words = {word for word in language.times.moments if " " not in word}
    return frozenset(words | without_accents(words))
