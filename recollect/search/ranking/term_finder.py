"""Finding the terms of a query in many texts at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from recollect.search.ranking.vocabulary import Vocabulary
from recollect.search.ranking.word_hashes import Numbers
from recollect.search.terms import Form, Term

Match = tuple[int, int]
"""The position of a word in its text, and the number of the term."""


class Texts:
    """Texts one after the other in one array of words."""

    def __init__(self, vocabulary: Vocabulary, texts: Sequence[str]) -> None:
        self.vocabulary = vocabulary
        parts = vocabulary.split(texts)
        self.words: Numbers = np.concatenate([*parts, np.empty(0, np.int32)])
        lengths = np.fromiter(map(len, parts), np.intp, len(texts))
        self.ends: NDArray[np.intp] = np.cumsum(lengths)
        """Where each text ends in `words`."""
        self.starts: NDArray[np.intp] = self.ends - lengths

    def sums(self) -> NDArray[np.int64]:
        """The sum of the numbers of the words of each text: the same for the same words."""
        sums = np.zeros(len(self.words) + 1, np.int64)
        np.cumsum(self.words, out=sums[1:])
        return sums[self.ends] - sums[self.starts]

    def traits(self) -> NDArray[np.uint8]:
        """The traits of each word; see `search.ranking.answer`."""
        return self.vocabulary.traits(self.words)

    def are_among(self, words: Iterable[str]) -> NDArray[np.bool_]:
        """Whether each word is one of these."""
        return self.have_number(list(self.vocabulary.numbers(words).values()))

    def have_number(self, numbers: Sequence[int]) -> NDArray[np.bool_]:
        """Whether each word has one of these numbers."""
        is_member = np.zeros(len(self.vocabulary), np.bool_)
        is_member[numbers] = True
        return is_member[self.words]


class _Entry(NamedTuple):
    """A form of a term that begins with a certain word."""

    term: int
    next_words: tuple[frozenset[int], ...]
    """What may follow, word by word."""


class TermFinder:
    """Finds terms in texts."""

    def __init__(self, texts: Texts, terms: Sequence[Term]) -> None:
        self._texts = texts
        self._entries: dict[int, list[_Entry]] = {}
        """By the number of the first word."""
        self._numbers = texts.vocabulary.numbers(
            word for term in terms for form in term.forms for word in form
        )
        for number, term in enumerate(terms):
            for form in term.forms:
                self._add(number, form, term.prefix)

    def _add(self, term: int, form: Form, is_prefix: bool) -> None:
        places = [self._choices(word) for word in form]
        if is_prefix:
            places[-1] = self._texts.vocabulary.numbers_with_prefix(form[-1])
        entry = _Entry(term, tuple(map(frozenset, places[1:])))
        for number in places[0]:
            self._entries.setdefault(number, []).append(entry)

    def _choices(self, word: str) -> list[int]:
        """The number of a word, if it has one."""
        if word not in self._numbers:
            return []
        return [self._numbers[word]]

    def find(self) -> dict[int, list[Match]]:
        """The matches in each text that has any, in order, by the number of the text."""
        texts = self._texts
        matches: dict[int, list[Match]] = {}
        places = np.flatnonzero(texts.have_number(list(self._entries)))
        owners = np.searchsorted(texts.ends, places, side="right")
        for owner, position, place, word in zip(
            owners.tolist(),
            (places - texts.starts[owners]).tolist(),
            places.tolist(),
            texts.words[places].tolist(),
            strict=True,
        ):
            for term, next_words in self._entries[word]:
                if not next_words or self._follow(owner, place, next_words):
                    matches.setdefault(owner, []).append((position, term))
        return matches

    def _follow(self, owner: int, place: int, next_words: tuple[frozenset[int], ...]) -> bool:
        """Whether the words after a place of a text are those of a form."""
        texts = self._texts
        end = place + 1 + len(next_words)
        if end > texts.ends[owner]:
            return False
        words = texts.words[place + 1 : end].tolist()
        return all(word in choices for word, choices in zip(words, next_words, strict=True))
