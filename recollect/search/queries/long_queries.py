"""Long queries: a pasted text, such as a stack trace, is searched by its most distinctive words."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import groupby, pairwise

from recollect.language.detection import language_of
from recollect.language.queries.intent import is_identifier
from recollect.language.queries.query import Query, QueryTooLong, check_size, parse_query
from recollect.language.queries.query_tokens import Fields
from recollect.language.queries.query_tree import Word, all_of
from recollect.language.text import fold, is_unspaced, tokens
from recollect.settings import LIMITS
from recollect.store.base import Store

_MOST_WORDS = 24
_NAMED_IN_NOTE = 8
# The frequencies of at most 200 words are looked up, 50 at a time: each lookup has a deadline.
_MOST_CANDIDATES = 200
# So many of them are plain words, however many ids or lines of encoded data a text has.
_MIN_PLAIN_WORDS = 50
_LOOKUPS_AT_ONCE = 50
_CHARACTERS_FOR_LANGUAGE = 1_000
_MIN_LETTERS = 3
_LONGEST_WORD = 100
# An identifier counts as much as a plain word that is seven times as rare, and a number as one that
# is seven times as frequent: a stack trace has many, such as those of lines.
_IDENTIFIER_BONUS = 2.0
_NUMBER_BONUS = -2.0
_SEPARATORS = re.compile(r"[\s\"'`“”‘’,;()\[\]{}<>=|]+")
_EDGES = ".:!?…¿¡*~^-"
# Hexadecimal numbers, base64 and the like. Their beginning is enough to find them.
_DATA_CHARACTER = "[A-Za-z0-9+/=_-]"
_DATA = re.compile(rf"(?<!{_DATA_CHARACTER})({_DATA_CHARACTER}{{1024}}){_DATA_CHARACTER}+")


def parse_any_length(text: str, store: Store) -> Query:
    """Parse a query. One that is too long for that is reduced to its most distinctive words.

    Then `Query.note` says so, and its operators and fields are text. Raises InvalidInput.
    """
    try:
        return parse_query(text)
    except QueryTooLong:
        text = _DATA.sub(r"\1", text)
        check_size(text, LIMITS.long_query_bytes)
        words = distinctive_words(text, store)
        query = Query(text, None, Fields(), plain=True, literal=False, rest=" ".join(words))
        if words:
            node = all_of(list(map(Word, words)))
            names = ", ".join(words[:_NAMED_IN_NOTE])
            if len(words) > _NAMED_IN_NOTE:
                names += f" and {len(words) - _NAMED_IN_NOTE} more"
            count = f"{len(words)} most distinctive words" if words[1:] else "most distinctive word"
            note = f"The query is long. Searched for its {count}: {names}."
            return query._replace(node=node, note=note, pasted=text)
        # One word may be too long to be searched for as a whole.
        long_word = next((word for word in tokens(fold(text)) if len(word) > _LONGEST_WORD), None)
        if long_word is None:
            raise
        beginning = long_word[:_LONGEST_WORD]
        note = (
            f"The query is long. Searched for words with the same first {_LONGEST_WORD} characters."
        )
        node = Word(beginning, prefix=True)
        return query._replace(node=node, plain=False, rest=beginning, note=note)


def distinctive_words(text: str, store: Store) -> list[str]:
    """The rarest words and identifiers of a text that the library contains, best first.

    If it contains none of them, those that are probably the most distinctive.
    """
    candidates = likely_candidates(text)
    words: list[str] = []
    parts_of_words: set[str] = set()
    for word in rarest(candidates, store) or candidates:
        parts = tokens(fold(word))
        if not parts_of_words.issuperset(parts):
            words.append(word)
            parts_of_words.update(parts)
    return words[:_MOST_WORDS]


def likely_candidates(text: str) -> dict[str, bool]:
    """The words that are probably the most distinctive, and whether each is an identifier."""
    stop_words = language_of(text[:_CHARACTERS_FOR_LANGUAGE]).stop_words
    identifiers: Counter[str] = Counter()
    words: dict[str, None] = {}
    parts: dict[str, None] = {}
    """Words in identifiers and in encoded data."""
    for piece, repetitions in Counter(_SEPARATORS.split(text)).items():
        names = [name.strip(_EDGES) for name in (piece, *piece.replace("\\", "/").split("/"))]
        own = [name for name in names if is_identifier(name[:_LONGEST_WORD])]
        for name in own:
            if len(name) <= _LONGEST_WORD:
                identifiers[name] += repetitions
        single = [word for word in single_words(piece) if is_telling(word, stop_words)]
        (parts if own else words).update(dict.fromkeys(single))
    # A text is about what it repeats: the error, not the frames of a deep stack.
    likely = sorted(identifiers, key=lambda name: (identifiers[name], len(name)), reverse=True)
    most = _MOST_CANDIDATES - min(len(words), _MIN_PLAIN_WORDS)
    candidates = dict.fromkeys(likely[:most], True)
    for group in (words, parts):
        for word in sorted(group, key=len, reverse=True):
            if len(candidates) < _MOST_CANDIDATES:
                candidates.setdefault(word, False)
    return candidates


def single_words(text: str) -> Iterator[str]:
    """The words of a text, or the pairs of its characters if its script has no spaces."""
    for is_unspaced_run, run in groupby(tokens(fold(text)), is_unspaced):
        if is_unspaced_run:
            yield from map("".join, pairwise(run))
        else:
            yield from run


def is_telling(word: str, stop_words: frozenset[str]) -> bool:
    if is_unspaced(word):
        return True
    return _MIN_LETTERS <= len(word) <= _LONGEST_WORD and word not in stop_words


def rarest(candidates: Mapping[str, bool], store: Store) -> list[str]:
    """The words that the library contains, the most distinctive first."""
    words = list(candidates)
    scores: dict[str, float] = {}
    for start in range(0, len(words), _LOOKUPS_AT_ONCE):
        batch = words[start : start + _LOOKUPS_AT_ONCE]
        frequencies, passages = store.frequencies([Word(word) for word in batch])
        for word, frequency in zip(batch, frequencies, strict=True):
            if frequency:
                bonus = _NUMBER_BONUS if word.isdecimal() else 0.0
                bonus = _IDENTIFIER_BONUS if candidates[word] else bonus
                scores[word] = math.log((passages + 1) / frequency) + bonus
    return sorted(scores, key=lambda word: -scores[word])
