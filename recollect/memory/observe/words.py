"""The words of a sentence, and the languages that it may be in."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache, lru_cache
from typing import NamedTuple

from recollect.language.detection import english_too, unspaced_language
from recollect.language.languages import ENGLISH, LATIN, Language
from recollect.language.text import indexable, tokens
from recollect.language.words import stem


class Words(NamedTuple):
    """The words of a text, and the stems of those that carry meaning."""

    all: frozenset[str]
    terms: tuple[str, ...]
    distinct: frozenset[str]
    """The distinct terms."""


def split_words(text: str) -> Words:
    all_words = tokens(text)
    text_terms = tuple(filter(None, map(term, all_words)))
    return Words(frozenset(all_words), text_terms, frozenset(text_terms))


words = lru_cache(maxsize=8_192)(split_words)
"""The words of a sentence. Those of a long text should not be cached: see `split_words`."""


def terms(text: str) -> tuple[str, ...]:
    """The stems of the words that carry meaning."""
    return words(text).terms


def overlap(text: str, others: Iterable[str]) -> float:
    """The largest share of the words of a text that one of the others contains."""
    distinct = words(text).distinct
    if not distinct:
        return 1.0
    shared = [len(distinct & words(other).distinct) for other in others]
    return max(shared, default=0) / len(distinct)


@lru_cache(maxsize=60_000)
def term(word: str) -> str:
    """The stem of a word, or nothing if the word has no meaning of its own."""
    return "" if word in common_words() else stem(word)


@cache
def common_words() -> frozenset[str]:
    """Words without a meaning of their own, in any language: that of a sentence is unknown."""
    own = ENGLISH.fields.table("observer").words("common_words")
    foreign = {indexable(word) for language in LATIN[1:] for word in language.stop_words}
    return frozenset(own) | (foreign - english_too())


@lru_cache(maxsize=8_192)
def languages_of(text: str) -> tuple[Language, ...]:
    """English, and the languages of which a sentence has a script or a function word."""
    languages = [ENGLISH]
    unspaced = unspaced_language(text)
    if unspaced is not None:
        languages.append(unspaced)
    by_word = languages_by_word()
    for word in words(text).all:
        languages += by_word.get(word, ())
    return tuple(dict.fromkeys(languages))


@cache
def languages_by_word() -> dict[str, list[Language]]:
    """The languages that have each function word, without words that are English, too."""
    table: dict[str, list[Language]] = {}
    for language in LATIN[1:]:
        for word in {indexable(word) for word in language.stop_words - ENGLISH.stop_words}:
            if len(word) > 1:
                table.setdefault(word, []).append(language)
    return table
