"""The words of texts as numbers, so that many texts are searched for words at once.

While somebody types, or asks several questions about one topic, searches rank the same messages
again and again. So the numbers of the last texts are remembered.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from recollect.language.text import separated_words
from recollect.search.ranking import answer
from recollect.search.ranking.word_hashes import (
    MISSING,
    HashedWords,
    HashTable,
    Numbers,
    first_places,
    hash_words,
)

# With more words than this, about 40 MB, a new vocabulary is begun.
_MAX_WORDS = 300_000
# Texts with at most so many words in all are remembered twice over: together about 12 MB.
_MAX_REMEMBERED = 500_000
# Bytes of a word by which words with a prefix are found.
_HEAD_BYTES = 8


class Vocabulary:
    """The words of the texts that were ranked lately. For any number of threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._table = HashTable()
        self._words: list[str] = []
        """Words by their numbers."""
        self._traits = bytearray()
        """The traits of these words; see `search.ranking.answer`. The newest may be missing."""
        self._heads: NDArray[np.uint64] = np.zeros(0, np.uint64)
        """The first bytes of these words as numbers, with space for more."""
        self._heads_size = 0
        self._texts: dict[str, Numbers] = {}
        self._earlier_texts: dict[str, Numbers] = {}
        self._remembered = 0
        """How many words the texts have."""

    def __len__(self) -> int:
        return len(self._words)

    # -- texts ---

    def split(self, texts: Sequence[str]) -> list[Numbers]:
        """The words of each text, as the index has them."""
        splits = list(map(self._remembered_split, texts))
        new_texts = [text for text, numbers in zip(texts, splits, strict=True) if numbers is None]
        if not new_texts:
            return splits  # type: ignore[return-value]
        new_splits = dict(zip(new_texts, self._split(new_texts), strict=True))
        for text, numbers in new_splits.items():
            self._remember(text, numbers)
        return [
            new_splits[text] if numbers is None else numbers
            for text, numbers in zip(texts, splits, strict=True)
        ]

    def _remembered_split(self, text: str) -> Numbers | None:
        numbers = self._texts.get(text)
        if numbers is None:
            numbers = self._earlier_texts.get(text)
            if numbers is not None:
                self._remember(text, numbers)
        return numbers

    def _split(self, texts: Sequence[str]) -> list[Numbers]:
        parts = list(map(separated_words, texts))
        joined = b" ".join(parts)
        words = hash_words(joined)
        with self._lock:
            numbers = self._table.find(words.hashes)
            missing = np.flatnonzero(numbers == MISSING)
            if len(missing):
                self._add(joined, words.at(missing))
                numbers[missing] = self._table.find(words.hashes[missing])
        lengths = np.fromiter(map(len, parts), np.intp, len(parts))
        ends = np.searchsorted(words.starts, np.cumsum(lengths + 1)).tolist()
        return [numbers[start:end].copy() for start, end in zip([0, *ends[:-1]], ends, strict=True)]

    def _add(self, text: bytes, words: HashedWords) -> None:
        """Add words of a text that are new. They may occur several times."""
        first = first_places(words.hashes)
        self._table.add(words.hashes[first])
        bounds = zip(words.starts[first].tolist(), words.ends[first].tolist(), strict=True)
        self._words += [text[start:end].decode() for start, end in bounds]

    def _remember(self, text: str, numbers: Numbers) -> None:
        """Keep a text. What was not used for a while is forgotten."""
        if self._remembered > _MAX_REMEMBERED:
            self._earlier_texts = self._texts
            self._texts = {}
            self._remembered = 0
        self._texts[text] = numbers
        self._remembered += len(numbers)

    # -- words ---

    def numbers(self, words: Iterable[str]) -> dict[str, int]:
        """The numbers of those words that occur in any text."""
        distinct = [word for word in dict.fromkeys(words) if word and " " not in word]
        hashes = hash_words(" ".join(distinct).encode()).hashes
        with self._lock:
            numbers = self._table.find(hashes).tolist()
        pairs = zip(distinct, numbers, strict=True)
        return {word: number for word, number in pairs if number != MISSING}

    def numbers_with_prefix(self, prefix: str) -> list[int]:
        """The numbers of all words with a prefix."""
        encoded = prefix.encode()
        first = _head(encoded)
        last = _head(encoded, b"\xff")
        with self._lock:
            heads = self._all_heads()
        places: list[int] = np.flatnonzero((heads >= first) & (heads <= last)).tolist()
        if len(encoded) > _HEAD_BYTES:
            places = [place for place in places if self._words[place].startswith(prefix)]
        return places

    def _all_heads(self) -> NDArray[np.uint64]:
        """The heads of all words."""
        size = len(self._words)
        if size > len(self._heads):
            heads = np.zeros(2 * size, np.uint64)
            heads[: self._heads_size] = self._heads[: self._heads_size]
            self._heads = heads
        new_words = self._words[self._heads_size :]
        self._heads[self._heads_size : size] = [_head(word.encode()) for word in new_words]
        self._heads_size = size
        return self._heads[:size]

    def traits(self, numbers: Numbers) -> NDArray[np.uint8]:
        """The traits of words; see `search.ranking.answer`."""
        with self._lock:
            self._traits.extend(map(answer.traits, self._words[len(self._traits) :]))
            traits = bytes(self._traits)
        return np.frombuffer(traits, np.uint8)[numbers]


def _head(word: bytes, filler: bytes = b"\0") -> int:
    """The first bytes of a word as a number, in alphabetical order."""
    return int.from_bytes(word[:_HEAD_BYTES].ljust(_HEAD_BYTES, filler), "big")


_vocabulary = Vocabulary()


def current_vocabulary() -> Vocabulary:
    """The vocabulary of this process. Use the same one as long as numbers are compared."""
    global _vocabulary
    if len(_vocabulary) > _MAX_WORDS:
        _vocabulary = Vocabulary()
    return _vocabulary
