"""The words of texts as numbers, so that many texts are searched for words at once.

While somebody types, or asks several questions about one topic, searches rank the same messages
again and again. So the numbers of the last texts are remembered.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from recollect.language.text import separated_words
from recollect.search.ranking import answer
from recollect.search.ranking.growing_array import GrowingArray
from recollect.search.ranking.word_hashes import (
    MISSING,
    HashedWords,
    HashTable,
    Numbers,
    Places,
    hash_words,
)

Split = bytes
"""The numbers of the words of a text, one after the other, as int32."""

# With more words or characters than this, about 40 MB, a new vocabulary is begun.
_MAX_WORDS = 300_000
_MAX_CHARACTERS = 20 * _MAX_WORDS
# Once the latest texts and their splits have so many bytes, they become the earlier ones.
_MAX_REMEMBERED_BYTES = 5_000_000
# Bytes of a word by which words with a prefix are found.
_HEAD_BYTES = 8


class Vocabulary:
    """The words of the texts that were ranked lately. For any number of threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._table = HashTable()
        self._words: list[str] = []
        """Words by their numbers."""
        self._characters = 0
        """How many characters these words have."""
        self._numbers: dict[str, int] = {}
        """The numbers of words that were asked for."""
        self._traits = GrowingArray(np.uint8)
        """The traits of these words; see `search.ranking.answer`. The newest may be missing."""
        self._heads = GrowingArray(np.uint64)
        """The first bytes of these words as numbers. The newest may be missing."""
        self._texts: dict[str, Split] = {}
        """The latest texts and their splits."""
        self._earlier_texts: dict[str, Split] = {}
        """Those before them. What is not used again is forgotten with them."""
        self._remembered_bytes = 0
        """About how many bytes the latest texts and their splits have."""

    def __len__(self) -> int:
        return len(self._words)

    @property
    def is_full(self) -> bool:
        return len(self._words) > _MAX_WORDS or self._characters > _MAX_CHARACTERS

    # -- texts ---

    def split(self, texts: Sequence[str]) -> list[Split]:
        """The words of each text, as the index has them."""
        splits = list(map(self._texts.get, texts))
        missing = [text for text, split in zip(texts, splits, strict=True) if split is None]
        if missing:
            others = self._remember(missing)
            splits = [others[t] if s is None else s for t, s in zip(texts, splits, strict=True)]
        return splits  # type: ignore[return-value]

    def _remember(self, texts: Sequence[str]) -> dict[str, Split]:
        """Split texts, and remember them. What was not used for a while is forgotten."""
        earlier = self._earlier_texts
        splits = {text: earlier[text] for text in texts if text in earlier}
        new_texts = [text for text in dict.fromkeys(texts) if text not in splits]
        splits.update(zip(new_texts, self._split(new_texts), strict=True))
        if self._remembered_bytes > _MAX_REMEMBERED_BYTES:
            self._earlier_texts = self._texts
            self._texts = {}
            self._remembered_bytes = 0
        self._texts.update(splits)
        self._remembered_bytes += sum(map(len, splits)) + sum(map(len, splits.values()))
        return splits

    def _split(self, texts: Sequence[str]) -> list[Split]:
        parts = list(map(separated_words, texts))
        joined = b" ".join(parts)
        words = hash_words(joined)
        with self._lock:
            numbers = self._table.find(words.hashes)
            missing = np.flatnonzero(numbers == MISSING)
            if len(missing):
                numbers[missing] = self._add(joined, words.at(missing))
        lengths = np.fromiter(map(len, parts), np.intp, len(parts))
        ends = np.searchsorted(words.starts, np.cumsum(lengths + 1)) * numbers.itemsize
        split = numbers.tobytes()
        return [split[start:end] for start, end in pairwise([0, *ends.tolist()])]

    def _add(self, text: bytes, words: HashedWords) -> Places:
        """Add words of a text that are new, maybe several times, and return their numbers."""
        hashes, first, ranks = np.unique(words.hashes, return_index=True, return_inverse=True)
        numbers: Places = len(self._words) + ranks
        self._table.add(hashes)
        bounds = zip(words.starts[first].tolist(), words.ends[first].tolist(), strict=True)
        new_words = [text[start:end].decode() for start, end in bounds]
        self._words += new_words
        self._characters += sum(map(len, new_words))
        return numbers

    # -- words ---

    def numbers(self, words: Iterable[str]) -> dict[str, int]:
        """The numbers of those words that occur in any text."""
        distinct = [word for word in dict.fromkeys(words) if word and " " not in word]
        unknown = [word for word in distinct if word not in self._numbers]
        if unknown:
            hashes = hash_words(" ".join(unknown).encode()).hashes
            with self._lock:
                numbers = self._table.find(hashes).tolist()
            pairs = zip(unknown, numbers, strict=True)
            self._numbers.update({word: number for word, number in pairs if number != MISSING})
        return {word: self._numbers[word] for word in distinct if word in self._numbers}

    def numbers_with_prefix(self, prefix: str) -> list[int]:
        """The numbers of all words with a prefix."""
        encoded = prefix.encode()
        first = _head(encoded)
        last = _head(encoded, b"\xff")
        with self._lock:
            new_words = self._words[len(self._heads) :]
            self._heads.extend([_head(word.encode()) for word in new_words])
            heads = self._heads.values
        places: list[int] = np.flatnonzero((heads >= first) & (heads <= last)).tolist()
        if len(encoded) > _HEAD_BYTES:
            places = [place for place in places if self._words[place].startswith(prefix)]
        return places

    def traits(self, numbers: Numbers) -> NDArray[np.uint8]:
        """The traits of words; see `search.ranking.answer`."""
        with self._lock:
            self._traits.extend(list(map(answer.traits, self._words[len(self._traits) :])))
            traits = self._traits.values
        return traits.take(numbers)


def _head(word: bytes, filler: bytes = b"\0") -> int:
    """The first bytes of a word as a number, in alphabetical order."""
    return int.from_bytes(word[:_HEAD_BYTES].ljust(_HEAD_BYTES, filler), "big")


_vocabulary = Vocabulary()


def current_vocabulary() -> Vocabulary:
    """The vocabulary of this process. Use the same one as long as numbers are compared."""
    global _vocabulary
    if _vocabulary.is_full:
        _vocabulary = Vocabulary()
    return _vocabulary
