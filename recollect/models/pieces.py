"""Splitting texts into word pieces, and counting the pieces of many texts at once.

Texts are split into pieces as BERT's uncased models do, except that symbols are separate words: an
emoji next to a word would otherwise make the word unknown.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from recollect.language.text import non_ascii_characters

LONGEST_WORD = 100  # as in BERT; anything longer is not a word
_MAX_REPLACED_SINGLY = 8  # distinct characters
MAX_CACHED = 60_000  # words; about 13 MB
_MAX_NUMBERED = 100_000  # words; about 13 MB
# Texts that are counted at once, and the characters after which no further text is added to them.
_MAX_TEXTS = 500
_MAX_CHARACTERS = 500_000

Integers = NDArray[np.signedinteger]

# -- splitting -----------------------------------------------------------------

# Non-ASCII characters are folded before, so those that are left belong to words.
# The first set is [a-z0-9] and every character from \x80, by what it excludes: Python would
# take milliseconds to compile so large a range.
_WORD_OR_SYMBOL = re.compile("[^\x00-/:-`{-\x7f]+|[!-/:-@\\[-`{-~]")
_NON_ASCII = re.compile("[^\x00-\x7f]+")
_CJK = "[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002ceaf\U0002f800-\U0002fa1f]"
_PREFIX_LENGTH = 5
_CONTINUATION = "##"  # marks pieces that do not begin a word


class Pieces(dict[str, tuple[int, ...]]):
    """Splits words into pieces, by their numbers in the table. It is also a cache of words."""

    def __init__(self, numbers: dict[str, int]) -> None:
        self._numbers = numbers

    @cached_property
    def _longest(self) -> dict[str, int]:
        """The length of the longest piece with each prefix.

        Without it, a megabyte of base64 takes seconds. Words that are one piece do not need it.
        """
        return {piece[:_PREFIX_LENGTH]: len(piece) for piece in sorted(self._numbers, key=len)}

    def of(self, text: str) -> list[int]:
        """All known pieces of a text, in order."""
        words = _WORD_OR_SYMBOL.findall(fold(text).lower().decode())
        return list(chain.from_iterable(map(self.__getitem__, words)))

    def __missing__(self, word: str) -> tuple[int, ...]:
        if len(word) > LONGEST_WORD:
            return ()
        if len(self) >= MAX_CACHED:
            self.clear()
        self[word] = pieces = tuple(self.split(word))
        return pieces

    def split(self, word: str) -> list[int]:
        """The longest piece that fits, repeatedly; nothing at all if a part has no piece."""
        if len(word) > LONGEST_WORD:
            return []
        numbers = self._numbers
        if word in numbers:
            return [numbers[word]]
        pieces: list[int] = []
        rest = word
        start = 0
        while len(rest) > start:
            end = min(len(rest), self._longest.get(rest[:_PREFIX_LENGTH], _PREFIX_LENGTH))
            number = None
            while end > start:
                number = numbers.get(rest[:end])
                if number is not None:
                    break
                end -= 1
            if number is None:
                return []
            pieces.append(number)
            rest = _CONTINUATION + rest[end:]
            start = len(_CONTINUATION)
        return pieces


def fold(text: str) -> bytes:
    """The text in UTF-8, with its non-ASCII characters folded. ASCII characters stay as they are.

    `str.translate` would look up every character. Most texts are ASCII except for a few quotes.
    Replacing a character twice does not matter: it adds only spaces.
    """
    if text.isascii():
        return text.encode()
    others = non_ascii_characters(text)
    if len(others) > _MAX_REPLACED_SINGLY:
        return _NON_ASCII.sub(fold_run, text).encode()
    for character in others:
        text = text.replace(character, _FOLDED_CHARACTERS[ord(character)])
    return text.encode()


def fold_run(run: re.Match[str]) -> str:
    return run[0].translate(_FOLDED_CHARACTERS)


class _CharacterFolding(dict[int, str]):
    """A table for `str.translate`: lower case, without accents, with spaces around symbols."""

    def __missing__(self, code: int) -> str:
        if len(self) >= MAX_CACHED:
            self.clear()
        characters = unicodedata.normalize("NFD", chr(code)).lower()
        self[code] = folded = "".join(map(fold_character, characters))
        return folded


_FOLDED_CHARACTERS = _CharacterFolding()


def fold_character(character: str) -> str:
    category = unicodedata.category(character)
    if character.isspace() or (category == "Cc" and character.isascii()):
        return " "
    if category[0] == "C" or category == "Mn":
        return ""
    if category[0] in "PS" or re.match(_CJK, character):
        return f" {character} "
    return character


# -- counting ------------------------------------------------------------------

_SYMBOLS = b"!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
_OTHER_THAN_SYMBOLS = bytes(set(range(256)) - set(_SYMBOLS))


def lower_or_space(code: int) -> int:
    if code < 128 and not chr(code).isalnum():
        return 0x20
    return ord(bytes([code]).lower())


_WORD_BYTES = bytes(map(lower_or_space, range(256)))


class Bags(NamedTuple):
    """The pieces of several texts, without their order."""

    texts: Integers
    """For each distinct piece of a text, the number of the text, in ascending order."""
    pieces: Integers
    """The number of the piece. The pieces of a text are in ascending order."""
    occurrences: Integers
    """How often it occurs in the text."""
    ends: list[int]
    """Where the pieces of each text end."""

    @classmethod
    def of_text(cls, pieces: Iterable[int]) -> Bags:
        """The pieces of one text. For a short one, this is faster than a `PieceCounter`."""
        counts = Counter(pieces)
        distinct = sorted(counts)
        occurrences = [counts[piece] for piece in distinct]
        texts = np.zeros(len(distinct), np.intp)
        return cls(texts, np.array(distinct, np.intp), np.array(occurrences, np.intp), [len(texts)])


class PieceCounter:
    """Counts pieces with arrays instead of a loop over words. Safe to use from several threads."""

    def __init__(self, pieces: Pieces, size: int) -> None:
        """`size` is the number of pieces in the table."""
        self._pieces = pieces
        self._size = size
        self._lock = threading.Lock()
        self._words = _WordNumbers(pieces)

    def count(self, texts: Iterable[str]) -> Iterator[Bags]:
        """The pieces of the texts, some texts at a time."""
        block: list[str] = []
        characters = 0
        for text in texts:
            block.append(text)
            characters += len(text)
            if len(block) == _MAX_TEXTS or characters > _MAX_CHARACTERS:
                yield self._count(block)
                block = []
                characters = 0
        if block:
            yield self._count(block)

    def _count(self, texts: list[str]) -> Bags:
        folded = [fold(text) for text in texts]
        symbols = [data.translate(None, _OTHER_THAN_SYMBOLS) for data in folded]
        words = _Words.of(folded)
        pieces, lengths = self._split(words, b"".join(symbols))
        # Sorting brings equal pieces of a text together.
        first_keys = np.tile(np.arange(len(texts), dtype=np.int32) * self._size, 2)
        counts = np.concatenate([words.counts, [len(part) for part in symbols]])
        keys = np.repeat(np.repeat(first_keys, counts), lengths) + pieces
        distinct, occurrences = np.unique(keys, return_counts=True)
        numbers, distinct_pieces = np.divmod(distinct, self._size)
        ends = np.searchsorted(numbers, np.arange(len(texts)), "right").tolist()
        return Bags(numbers, distinct_pieces, occurrences, ends)

    def _split(self, words: _Words, symbols: bytes) -> tuple[Integers, Integers]:
        """The pieces of the words and then of the symbols, and how many each of them has."""
        with self._lock:
            if len(self._words) > _MAX_NUMBERED:
                self._words = _WordNumbers(self._pieces)
            numbers = self._words.of(words)
            symbol_numbers = self._words.symbols[np.frombuffer(symbols, np.uint8)]
            return self._words.pieces(np.concatenate([numbers, symbol_numbers]))


_KEY_BYTES = 16  # of a word; nearly all words are shorter
_KEY_MASKS = np.frombuffer(
    b"".join(b"\xff" * n + b"\0" * (_KEY_BYTES - n) for n in range(_KEY_BYTES + 1)), np.uint64
).reshape(-1, 2)
_SLOT_BITS = 18
_MULTIPLIERS = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F], np.uint64)


class _Words(NamedTuple):
    """The words of several texts, as places in one text."""

    text: bytes
    starts: Integers
    lengths: Integers
    counts: Integers
    """How many words each text has."""

    @classmethod
    def of(cls, texts: list[bytes]) -> _Words:
        """The words of folded texts. ASCII symbols and spaces separate words."""
        text = b" %b %b" % (b" ".join(texts).translate(_WORD_BYTES), b" " * _KEY_BYTES)
        is_space = np.frombuffer(text, np.uint8) == 0x20
        edges = np.flatnonzero(is_space[1:] != is_space[:-1]) + 1
        starts = edges[::2]
        text_ends = np.cumsum([len(data) + 1 for data in texts])
        words_before = np.searchsorted(starts, text_ends, "right")
        return cls(text, starts, edges[1::2] - starts, np.diff(words_before, prepend=0))

    def keys(self) -> NDArray[np.uint64]:
        """The first 16 bytes of each word as two numbers. Shorter words are filled with zeros."""
        data = np.frombuffer(self.text, np.uint8)
        windows = np.lib.stride_tricks.sliding_window_view(data, _KEY_BYTES)[self.starts]
        keys: NDArray[np.uint64] = windows.view(np.uint64)
        return keys & _KEY_MASKS.take(self.lengths, axis=0, mode="clip")

    def at(self, indexes: Integers) -> list[str]:
        """Some of the words."""
        starts = self.starts[indexes].tolist()
        lengths = self.lengths[indexes].tolist()
        return [
            self.text[start : start + length].decode()
            for start, length in zip(starts, lengths, strict=True)
        ]


class _WordNumbers(dict[str, int]):
    """Numbers words. The pieces of all words are in one array, in the order of their numbers.

    Each word has a slot by the hash of its key. All words of some texts are compared with the words
    in their slots at once. The dictionary is for long words, and where a slot has another word: the
    first one stays, which is usually the most frequent.
    """

    def __init__(self, pieces: Pieces) -> None:
        self._splitter = pieces
        self._all_pieces = array("i", [0])
        self._ends = array("i", [1])
        self._slot_keys = np.zeros((1 << _SLOT_BITS, 2), np.uint64)
        self._slot_numbers = np.zeros(1 << _SLOT_BITS, np.intp)
        self.symbols = np.zeros(256, np.intp)
        self.symbols[list(_SYMBOLS)] = [self[chr(code)] for code in _SYMBOLS]

    def of(self, words: _Words) -> Integers:
        """The numbers of some words."""
        keys = words.keys()
        hashes = keys[:, 0] * _MULTIPLIERS[0] + keys[:, 1] * _MULTIPLIERS[1]
        slots = (hashes >> np.uint64(64 - _SLOT_BITS)).astype(np.intp)
        # `take` is faster than brackets.
        numbers: Integers = self._slot_numbers.take(slots)
        slot_keys = self._slot_keys.take(slots, axis=0)
        is_other = (slot_keys[:, 0] != keys[:, 0]) | (slot_keys[:, 1] != keys[:, 1])
        is_other |= words.lengths > _KEY_BYTES
        others = np.flatnonzero(is_other)
        numbers[others] = [self[word] for word in words.at(others)]
        is_new = (self._slot_numbers[slots[others]] == 0) & (words.lengths[others] <= _KEY_BYTES)
        new = others[is_new]
        self._slot_keys[slots[new]] = keys[new]
        self._slot_numbers[slots[new]] = numbers[new]
        return numbers

    def __missing__(self, word: str) -> int:
        if len(word) > LONGEST_WORD:
            return self[""]  # it has no pieces either
        self._all_pieces.extend(self._splitter.split(word))
        self._ends.append(len(self._all_pieces))
        self[word] = number = len(self._ends) - 2
        return number

    def pieces(self, numbers: Integers) -> tuple[Integers, Integers]:
        """The pieces of these words, one after the other, and how many each word has."""
        ends = np.frombuffer(self._ends, np.int32)
        starts = ends.take(numbers)
        lengths = ends.take(numbers + 1) - starts
        starts -= np.cumsum(lengths, dtype=np.int32)
        starts += lengths
        indexes = np.repeat(starts, lengths)
        indexes += np.arange(len(indexes), dtype=np.int32)
        return np.frombuffer(self._all_pieces, np.int32).take(indexes), lengths
