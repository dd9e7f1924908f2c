"""The words of texts as numbers, so that many texts are searched for words at once.

While somebody types, or asks several questions about one topic, searches rank the same messages
again and again. So the numbers of the last texts are remembered: splitting texts into words would
be a good part of the work.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable
from itertools import count, islice

import numpy as np
from numpy.typing import NDArray

from recollect.language.text import tokens
from recollect.search.ranking import answer

Numbers = NDArray[np.int32]
"""The words of a text, each as its number."""

# With more words than this, about 30 MB, a new vocabulary is begun.
_MAX_WORDS = 300_000
# Texts with at most so many words in all are remembered twice over: together about 12 MB.
_MAX_REMEMBERED = 500_000
# New words that are looked through one by one for a prefix before they are sorted.
_MAX_UNSORTED = 200


class Vocabulary:
    """The words of the texts that were ranked lately. For any number of threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers: defaultdict[str, int] = defaultdict(count().__next__)
        """The number of each word. A new word gets the next one when it is looked up."""
        self._words: list[str] = []
        """Words by their numbers, without the newest ones."""
        self._traits = bytearray()
        """The traits of these words; see `search.ranking.answer`."""
        self._sorted_words: list[str] = []
        """The first of these words, in alphabetical order."""
        self._texts: dict[str, Numbers] = {}
        self._earlier_texts: dict[str, Numbers] = {}
        self._remembered = 0
        """How many words the texts have."""

    def __len__(self) -> int:
        return len(self._numbers)

    # -- texts ---

    def split(self, text: str) -> Numbers:
        """The words of a text, as the index has them."""
        numbers = self._texts.get(text)
        if numbers is None:
            numbers = self._earlier_texts.get(text)
            if numbers is None:
                numbers = self._split(text)
            self._remember(text, numbers)
        return numbers

    def _split(self, text: str) -> Numbers:
        words = tokens(text)
        with self._lock:
            return np.fromiter(map(self._numbers.__getitem__, words), np.int32, len(words))

    def _remember(self, text: str, numbers: Numbers) -> None:
        """Keep a text. What was not used for a while is forgotten."""
        if self._remembered > _MAX_REMEMBERED:
            self._earlier_texts = self._texts
            self._texts = {}
            self._remembered = 0
        self._texts[text] = numbers
        self._remembered += len(numbers)

    # -- words ---

    def numbers(self, words: Iterable[str]) -> list[int]:
        """The numbers of those words that occur in any text."""
        known_words = self._numbers
        return [known_words[word] for word in words if word in known_words]

    def numbers_with_prefix(self, prefix: str) -> list[int]:
        """The numbers of all words with a prefix."""
        with self._lock:
            self._complete_words()
            size = len(self._sorted_words)
            if len(self._words) > size + _MAX_UNSORTED:
                # Sorting again is fast, because most of the list is in order.
                self._sorted_words += self._words[size:]
                self._sorted_words.sort()
                size = len(self._sorted_words)
            start = bisect_left(self._sorted_words, prefix)
            end = bisect_left(self._sorted_words, prefix + "\U0010ffff")
            matches = self._sorted_words[start:end]
            matches += [word for word in self._words[size:] if word.startswith(prefix)]
        return self.numbers(matches)

    def traits(self, numbers: Numbers) -> NDArray[np.uint8]:
        """The traits of words; see `search.ranking.answer`."""
        with self._lock:
            self._complete_words()
            traits = bytes(self._traits)
        return np.frombuffer(traits, np.uint8)[numbers]

    def _complete_words(self) -> None:
        """Add the newest words to the list."""
        new_words = list(islice(reversed(self._numbers), len(self._numbers) - len(self._words)))
        new_words.reverse()
        self._words += new_words
        self._traits.extend(map(answer.traits, new_words))


_vocabulary = Vocabulary()


def current_vocabulary() -> Vocabulary:
    """The vocabulary of this process. Use the same one as long as numbers are compared."""
    global _vocabulary
    if len(_vocabulary) > _MAX_WORDS:
        _vocabulary = Vocabulary()
    return _vocabulary
