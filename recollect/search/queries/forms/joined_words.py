"""Words of the library that contain a word of the query.

A search for "service" should find `PaymentService`, and a search for "autovac" autovacuum. But
"companion" has nothing to do with "anion". So a longer word counts only if it begins with the word,
or if the rest of it consists of words, too. In a library in a language that joins words, it may
also end with the word: a library seldom has both parts of "Krankenversicherung".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache

from recollect.language.languages import LATIN
from recollect.store.base import Store

_MIN_PART = 5  # letters; shorter words are in too many others
_MIN_ENGLISH_WORD = 3
# Shorter words of a library are often abbreviations or names.
_MIN_LIBRARY_WORD = 5
_MAX_REST = 40  # letters that are split into words
_MIN_HEAD = 6  # letters of a last part; shorter ones are often the end of another word
_MIN_MODIFIER = 4  # letters before it; shorter ones are often prefixes, as in "Ein-richtung"
_MOST_WORDS = 50


@cache
def linking_elements() -> list[str]:
    """What may stand between the parts of compounds in any language."""
    return sorted({element for language in LATIN for element in language.linking_elements})


def longer_words(part: str, store: Store) -> list[str]:
    """The words of the library that contain a text."""
    if len(part) < _MIN_PART:
        return []
    return store.words_containing([part])[part][:_MOST_WORDS]


def joined_words(
    words: Sequence[str],
    store: Store,
    is_english: Callable[[str], bool],
    joins_words: Callable[[], bool] = lambda: False,
) -> dict[str, list[str]]:
    """For each word: the words of the library that begin with it, or consist of it and others.

    `joins_words` says whether the library has a language that joins words.
    """
    long_enough = [word for word in words if len(word) >= _MIN_PART]
    if not long_enough:
        return {}
    rests = {
        word: {longer: _rests(longer, word) for longer in longer_words}
        for word, longer_words in store.words_containing(long_enough).items()
    }
    all_rests = {rest for each in rests.values() for parts in each.values() for rest in parts}
    unknown = {rest for rest in all_rests if not _are_words(rest, is_english)}
    unknown -= _words_of_library(unknown, store)

    def is_joined(longer: str, word: str) -> bool:
        if unknown.isdisjoint(rests[word][longer]):
            return True
        return _may_be_head(word, longer) and joins_words()

    return {
        word: [longer for longer in rests[word] if is_joined(longer, word)][:_MOST_WORDS]
        for word in rests
    }


def _rests(longer: str, word: str) -> list[str]:
    """The parts of a longer word that must be words, too."""
    if longer.startswith(word):
        return []
    return list(filter(None, longer.split(word)))


def _may_be_head(word: str, longer_word: str) -> bool:
    """Whether a word may be the last part of a compound."""
    if len(word) < _MIN_HEAD or not longer_word.isalpha():
        return False
    return longer_word.endswith(word) and len(longer_word) >= len(word) + _MIN_MODIFIER


def _are_words(text: str, is_english: Callable[[str], bool]) -> bool:
    """Whether a text is a number or consists of English words."""
    if text.isdigit():
        return True
    if len(text) > _MAX_REST:
        return False
    word_ends = [0]
    for end in range(_MIN_ENGLISH_WORD, len(text) + 1):
        starts = [start for start in word_ends if end - start >= _MIN_ENGLISH_WORD]
        if any(is_english(text[start:end]) for start in starts):
            word_ends.append(end)
    return word_ends[-1] == len(text)


def _words_of_library(texts: Iterable[str], store: Store) -> set[str]:
    """The texts that are words of the library, perhaps with a linking element after the word."""
    words: dict[str, set[str]] = {}
    for text in texts:
        forms = {text, *(text.removesuffix(element) for element in linking_elements())}
        words[text] = {form for form in forms if len(form) >= _MIN_LIBRARY_WORD}
    candidates = set().union(*words.values())
    if not candidates:
        return set()
    library_words = store.known_words(sorted(candidates))
    return {text for text, forms in words.items() if not library_words.isdisjoint(forms)}
