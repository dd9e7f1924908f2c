"""Hashes of all words of many texts at once, and a table that maps them to numbers.

To make a string of each word and look it up in a dictionary took a quarter of a search. Here, numpy
does the same with whole arrays.

The hash of a word is a polynomial of its bytes modulo 2**64. Among 300,000 words, two have the same
hash with a probability of 1 in 400,000,000. The key is random, so no text can be written on purpose
whose words collide.
"""

from __future__ import annotations

import os
from hashlib import blake2b
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int32]
"""Words, each as its number."""
Hashes = NDArray[np.uint64]
Places = NDArray[np.intp]

MISSING = -1
"""The number of a word that a table does not have."""
_SPACE = 0x20
_KEY = os.urandom(16)
_FACTOR = int.from_bytes(_KEY, "big") | 1
_INVERSE = pow(_FACTOR, -1, 1 << 64)
_FIRST_SLOTS = 1 << 14


def _byte_values() -> Hashes:
    digests = [blake2b(bytes([n]), digest_size=8, key=_KEY).digest() for n in range(256)]
    return np.frombuffer(b"".join(digests), np.uint64)


_BYTE_VALUES = _byte_values()


class _Powers:
    """The powers of a number modulo 2**64."""

    def __init__(self, base: int) -> None:
        self._base = np.uint64(base % (1 << 64))
        self._powers: Hashes = np.ones(1, np.uint64)

    def up_to(self, count: int) -> Hashes:
        powers = self._powers
        if len(powers) < count:
            factors = np.full(max(count, 2 * len(powers)), self._base)
            factors[0] = 1
            powers = np.multiply.accumulate(factors)
            self._powers = powers
        return powers


_powers = _Powers(_FACTOR)
_inverse_powers = _Powers(_INVERSE)


class HashedWords(NamedTuple):
    """The words of a text: their hashes, and where they start and end."""

    hashes: Hashes
    starts: Places
    ends: Places

    def at(self, places: Places) -> HashedWords:
        """Some of the words."""
        return HashedWords(self.hashes[places], self.starts[places], self.ends[places])


def hash_words(text: bytes) -> HashedWords:
    """The words of a text. They are separated by spaces."""
    codes = np.frombuffer(text, np.uint8)
    size = len(codes)
    is_word = np.zeros(size + 2, np.bool_)
    np.not_equal(codes, _SPACE, out=is_word[1:-1])
    changes = np.flatnonzero(is_word[1:] != is_word[:-1])
    starts, ends = changes[::2], changes[1::2]
    # In one array, because large ones are new memory each time.
    sums = np.zeros(size + 1, np.uint64)
    values = sums[1:]
    np.take(_BYTE_VALUES, codes, out=values, mode="clip")
    values *= _powers.up_to(size)[:size]
    np.cumsum(values, out=values)
    hashes = (sums[ends] - sums[starts]) * _inverse_powers.up_to(size)[starts]
    return HashedWords(hashes, starts, ends)


def first_places(hashes: Hashes) -> Places:
    """Where each distinct hash occurs first, in order."""
    order = np.argsort(hashes, kind="stable")
    ordered = hashes[order]
    is_first = np.ones(len(hashes), np.bool_)
    is_first[1:] = ordered[1:] != ordered[:-1]
    return np.sort(order[is_first])


class HashTable:
    """Maps hashes to the numbers 0, 1, 2 and so on, in the order in which they were added."""

    def __init__(self) -> None:
        self._size = 0
        self._hashes: Hashes = np.zeros(_FIRST_SLOTS, np.uint64)
        self._numbers: Numbers = np.full(_FIRST_SLOTS, MISSING, np.int32)

    def __len__(self) -> int:
        return self._size

    def find(self, hashes: Hashes) -> Numbers:
        """The number of each hash, or MISSING."""
        slots = self._first_slots(hashes)
        numbers = self._numbers[slots]
        pending = np.flatnonzero((self._hashes[slots] != hashes) & (numbers != MISSING))
        while len(pending):
            slots[pending] = self._next_slots(slots[pending])
            numbers[pending] = self._numbers[slots[pending]]
            is_other = self._hashes[slots[pending]] != hashes[pending]
            pending = pending[is_other & (numbers[pending] != MISSING)]
        return numbers

    def add(self, hashes: Hashes) -> None:
        """Add distinct hashes that the table does not have."""
        size = self._size + len(hashes)
        numbers = np.arange(self._size, size, dtype=np.int32)
        if 2 * size > len(self._numbers):
            is_used = self._numbers != MISSING
            hashes = np.concatenate([self._hashes[is_used], hashes])
            numbers = np.concatenate([self._numbers[is_used], numbers])
            slots = 4 << size.bit_length()
            self._hashes = np.zeros(slots, np.uint64)
            self._numbers = np.full(slots, MISSING, np.int32)
        self._insert(hashes, numbers)
        self._size = size

    def _insert(self, hashes: Hashes, numbers: Numbers) -> None:
        slots = self._first_slots(hashes)
        pending = np.arange(len(hashes))
        while len(pending):
            free = pending[self._numbers[slots[pending]] == MISSING]
            # If several want the same slot, one of them has it afterwards.
            self._numbers[slots[free]] = numbers[free]
            placed = free[self._numbers[slots[free]] == numbers[free]]
            self._hashes[slots[placed]] = hashes[placed]
            pending = pending[self._numbers[slots[pending]] != numbers[pending]]
            slots[pending] = self._next_slots(slots[pending])

    def _first_slots(self, hashes: Hashes) -> Places:
        # The highest bits depend on every byte of a word, the lowest ones do not.
        bits = len(self._numbers).bit_length() - 1
        return (hashes >> np.uint64(64 - bits)).astype(np.intp)

    def _next_slots(self, slots: Places) -> Places:
        return (slots + 1) % len(self._numbers)
