"""Finding the terms of a query in many texts at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from recollect.search.queries.terms import Form, Term
from recollect.search.ranking.vocabulary import Vocabulary
from recollect.search.ranking.word_hashes import Numbers, Places


class Texts:
    """Texts one after the other in one array of words."""

    def __init__(self, vocabulary: Vocabulary, texts: Sequence[str]) -> None:
        self.vocabulary = vocabulary
        splits = vocabulary.split(texts)
        self.words: Numbers = np.frombuffer(b"".join(splits), np.int32)
        sizes = np.fromiter(map(len, splits), np.intp, len(texts))
        self.lengths: Places = sizes // self.words.itemsize
        self.ends: Places = np.cumsum(self.lengths)
        """Where each text ends in `words`."""
        self.starts: Places = self.ends - self.lengths

    def fingerprints(self) -> NDArray[np.int64]:
        """A number of each text that is the same for texts with the same words."""
        sums = np.zeros(len(self.words) + 1, np.int64)
        np.cumsum(self.words, out=sums[1:])
        return sums[self.ends] - sums[self.starts]

    def contain(self, phrase: Term) -> NDArray[np.bool_]:
        """Whether each text has the words of a phrase next to each other."""
        (words,) = phrase.forms
        numbers = self.vocabulary.numbers(words)
        choices = [[numbers[word]] if word in numbers else [] for word in words]
        if phrase.prefix:
            choices[-1] = self.vocabulary.numbers_with_prefix(words[-1])
        last_start = max(len(self.words) - len(words) + 1, 0)
        places = np.flatnonzero(np.isin(self.words[:last_start], choices[0]))
        for distance, each in enumerate(choices[1:], 1):
            places = places[np.isin(self.words[places + distance], each)]
        owners = np.searchsorted(self.ends, places, "right")
        is_inside = places + len(words) <= self.ends[owners]
        contain = np.zeros(len(self.lengths), np.bool_)
        contain[owners[is_inside]] = True
        return contain

    def codes(self, codes: Mapping[int, int]) -> NDArray[np.int16]:
        """The code of each word, by its number; 0 if it has none."""
        by_number = np.zeros(len(self.vocabulary), np.int16)
        by_number[list(codes)] = list(codes.values())
        return by_number.take(self.words)


class Matches(NamedTuple):
    """Matches of terms in texts, in order: a value of each match in each array."""

    texts: Places
    """The numbers of the texts."""
    positions: Places
    """The positions of the words in their texts."""
    terms: Places
    """The numbers of the terms."""

    def in_first(self, texts: int) -> Matches:
        """The matches in the first texts."""
        end = np.searchsorted(self.texts, texts)
        return Matches(self.texts[:end], self.positions[:end], self.terms[:end])

    def counts(self, texts: int, terms: int) -> Places:
        """How often each text (a row) has each term."""
        counts = np.bincount(self.texts * terms + self.terms, minlength=texts * terms)
        return counts.reshape(texts, terms)


# The code of a word that is not the single form of a single term.
_OTHER = -1


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

    def find(self) -> Matches:
        texts = self._texts
        codes = texts.codes({word: _code(entries) for word, entries in self._entries.items()})
        places = np.flatnonzero(codes != 0)
        terms = codes[places].astype(np.intp) - 1
        owners = np.searchsorted(texts.ends, places, "right")
        if (terms < 0).any():
            rows = [
                (number, term)
                for number, (owner, place) in enumerate(
                    zip(owners.tolist(), places.tolist(), strict=True)
                )
                for term in self._terms_at(owner, place)
            ]
            numbers, terms = np.array(rows, np.intp).reshape(-1, 2).T
            owners, places = owners[numbers], places[numbers]
        return Matches(owners, places - texts.starts[owners], terms)

    def _terms_at(self, owner: int, place: int) -> list[int]:
        """The terms that have a form at a place of a text."""
        return [
            entry.term
            for entry in self._entries[int(self._texts.words[place])]
            if not entry.next_words or self._follow(owner, place, entry.next_words)
        ]

    def _follow(self, owner: int, place: int, next_words: tuple[frozenset[int], ...]) -> bool:
        """Whether the words after a place of a text are those of a form."""
        texts = self._texts
        end = place + 1 + len(next_words)
        if end > texts.ends[owner]:
            return False
        words = texts.words[place + 1 : end].tolist()
        return all(word in choices for word, choices in zip(words, next_words, strict=True))


def _code(entries: Sequence[_Entry]) -> int:
    """What stands for a word while terms are searched for."""
    if len(entries) == 1 and not entries[0].next_words:
        return entries[0].term + 1
    return _OTHER
