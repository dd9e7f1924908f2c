"""The concepts of a text: the phrases that name what it is about.

Sequences of meaningful words are weighted by how rare they are in the conversation. YAKE 0.7 was
measured and rejected: it takes 44 ms of CPU per exchange, eight times the budget of all the rest.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

from recollect.language.text import fold
from recollect.memory.observe.salience import Salience
from recollect.memory.observe.sentence_words import COMMON, terms_of_word, word_set

MAX_CONCEPTS = 6
_MAX_PHRASE_WORDS = 3
_TOKEN = re.compile(r"`[^`\n]{2,40}`|[^\W_][\w'’.+#/@-]*|[^\w\s]+|\n")
# Code, a word, punctuation or the end of a line.
_CODE = re.compile(r"`([^`\n]{2,40})`")
_MAX_WORD_LENGTH = 32
_CACHED_TOKENS = 40_000
_MAX_FOREIGN_WORD_LENGTH = 14  # in a script without spaces, a longer word is a sentence
_VERBS = word_set(
    "add added adding ask asked based began bring brought build buy bought check checking choose"
    " create created"
    " creating enjoy ensure explore feel felt focus happen hear improve learn leave love meet move"
    " moved offer order"
    " ordered plan planned planning prefer read realize recently remember run said send spend spent"
    " stay stick support"
    " talk thought told http https www understand update visit visited watch watched write wrote"
    " currently generally"
    " mentioned allow allows helps helped worth fun today yesterday total various additional common"
    " popular overall"
    " potential"
)


class Phrase(NamedTuple):
    text: str
    key: str
    """The words by which it is recognized."""
    terms: tuple[str, ...]
    """The same words."""
    is_name: bool
    """Whether it is a name or code."""


class _Token(NamedTuple):
    """Inline code, a word, or punctuation."""

    text: str
    """Without punctuation at its end."""
    terms: tuple[str, ...]
    phrase: Phrase
    """The phrase if it is the only word."""
    is_code: bool = False
    is_useful: bool = False
    """Whether it can be part of a phrase."""
    ends_phrase: bool = True
    has_capital: bool = False


def concepts(
    texts: Iterable[tuple[str, float]], salience: Salience, limit: int = MAX_CONCEPTS
) -> tuple[str, ...]:
    """The most significant phrases of these texts, each of which has a weight."""
    scores: dict[str, float] = {}
    values: dict[str, float] = {}
    phrases: dict[str, str] = {}
    for text, weight in texts:
        for phrase, key, phrase_terms, is_name in _phrases(text):
            if key not in phrases:
                phrases[key] = phrase
                values[key] = salience.total(phrase_terms)
                if len(phrase_terms) > 1:
                    values[key] /= len(phrase_terms) ** 0.5
            elif phrase[0].islower() and not phrases[key][0].islower():
                phrases[key] = phrase
            value = values[key]
            if is_name:
                value *= 1.4
            scores[key] = scores.get(key, 0.0) + weight * value
    best_keys: list[str] = []
    best_words: list[set[str]] = []
    keys = sorted(scores)
    keys.sort(key=scores.__getitem__, reverse=True)  # phrases of the same score stay in order
    for key in keys:
        words = set(key.split())
        if not any(words <= other or other <= words for other in best_words):
            best_keys.append(key)
            best_words.append(words)
            if len(best_keys) == limit:
                break
    return tuple(phrases[key] for key in best_keys)


@lru_cache(maxsize=512)  # an observation quotes the sentences of a person
def _phrases(text: str) -> list[Phrase]:
    """Sequences of words that carry meaning, and inline code."""
    phrases: list[Phrase] = []
    run: list[_Token] = []
    for token in map(_TOKENS.__getitem__, _TOKEN.findall(text)):
        if token is _SEPARATOR:  # most tokens
            if run:
                phrases.append(_join(run))
                run = []
        elif token.is_code:
            if run:
                phrases.append(_join(run))
                run = []
            if token.is_useful:
                phrases.append(token.phrase)
        else:
            run.append(token)
            if token.ends_phrase or len(run) == _MAX_PHRASE_WORDS:
                phrases.append(_join(run))
                run = []
    if run:
        phrases.append(_join(run))
    return phrases


def _join(run: Sequence[_Token]) -> Phrase:
    first = run[0]
    if len(run) == 1:
        return first.phrase
    text = " ".join([word.text for word in run])
    phrase_terms = tuple(chain.from_iterable([word.terms for word in run]))
    is_name = first.phrase.is_name or any([word.has_capital for word in run[1:]])
    return _phrase(text, phrase_terms, is_name)


def _phrase(text: str, terms: tuple[str, ...], is_name: bool) -> Phrase:
    if not terms:
        terms = _all_words(text)
    return Phrase(text, " ".join(terms), terms, is_name)


def _all_words(text: str) -> tuple[str, ...]:
    return tuple(fold(text).split())


_SEPARATOR = _Token("", (), _phrase("", (), False))
"""Punctuation, or a word that is not part of phrases."""


class _Tokens(dict[str, _Token]):
    """A cache of tokens. The words of a conversation repeat."""

    def __missing__(self, text: str) -> _Token:
        if len(self) >= _CACHED_TOKENS:
            self.clear()
        self[text] = token = _parse_token(text)
        return token


_TOKENS = _Tokens()


def _parse_token(token: str) -> _Token:
    if token.isalpha() and token.isascii() and token == token.lower():  # most words
        if _is_common(token):
            return _SEPARATOR
        terms = terms_of_word(token)
        phrase = _phrase(token, terms, False)
        return _Token(token, terms, phrase, is_useful=True, ends_phrase=False)
    if token[0] == "`" and _CODE.fullmatch(token):
        text = token[1:-1].strip()
        code_terms = terms_of_word(text) or _all_words(text)
        is_word = text != "" and " " not in text
        phrase = _phrase(text, code_terms, True)
        return _Token(text, code_terms, phrase, is_code=True, is_useful=is_word)
    if not token[0].isalnum() or not _is_useful(token):
        return _SEPARATOR
    text = token.rstrip(".-/'’").removesuffix("'s").removesuffix("’s")
    terms = terms_of_word(text)
    return _Token(
        text,
        terms,
        _phrase(text, terms, _has_capital(text[1:])),
        is_useful=True,
        ends_phrase=token != text,
        has_capital=_has_capital(text),
    )


def _has_capital(text: str) -> bool:
    if text.isascii():
        return text != text.lower()
    return any(char.isupper() for char in text)


def _is_useful(word: str) -> bool:
    bare = fold(word).removesuffix("'s").removesuffix("’s").rstrip(".-/'’")
    if bare.isnumeric() or "'" in bare or "’" in bare:
        return False
    return not _is_common(bare)


def _is_common(bare: str) -> bool:
    """Whether a word without punctuation says nothing, or is too short or too long for a word."""
    if len(bare) <= 2 or bare in COMMON or bare in _VERBS:
        return True
    if bare.isascii():
        return len(bare) > _MAX_WORD_LENGTH
    return len(bare) > _MAX_FOREIGN_WORD_LENGTH
