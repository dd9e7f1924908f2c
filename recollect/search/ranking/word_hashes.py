"""Hashes of all words of many texts at once, and a table that maps them to numbers.

To make a string of each word and look it up in a dictionary took a quarter of a search. Here, numpy
does the same with whole arrays.

The hash of a word mixes its bytes, eight at a time, into a number below 2**64. Among 300,000 words,
two have the same hash with a probability of 1 in 400,000,000. The key is random, so no text can be
written on purpose whose words collide.
"""

from __future__ import annotations

import os
from hashlib import blake2b
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from recollect.search.ranking.growing_array import GrowingArray

Numbers = NDArray[np.int32]
"""Words, each as its number."""
Hashes = NDArray[np.uint64]
Places = NDArray[np.intp]

MISSING = -1
"""The number of a word that a table does not have."""
_SPACE = 0x20
_KEY = os.urandom(16)
# Odd, so that different numbers stay different.
_FIRST_FACTOR = np.uint64(int.from_bytes(_KEY[:8], "big") | 1)
_SECOND_FACTOR = np.uint64(int.from_bytes(_KEY[8:], "big") | 1)
_BLOCK = 8  # bytes
_MASKS = np.frombuffer(
    b"".join(b"\xff" * size + bytes(_BLOCK - size) for size in range(_BLOCK + 1)), np.uint64
)
"""What remains of a block that a word of this many bytes begins with."""
_MAX_BLOCKS = 3
"""Longer words are hashed one by one."""
_FIRST_SLOTS = 1 << 14


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
    is_word = np.zeros(len(codes) + 2, np.bool_)
    np.not_equal(codes, _SPACE, out=is_word[1:-1])
    changes = np.flatnonzero(is_word[1:] != is_word[:-1])
    starts, ends = changes[::2], changes[1::2]
    # The block at each place of the text. Most words have one.
    blocks = np.ndarray(len(text), f"V{_BLOCK}", text + bytes(_BLOCK), strides=(1,))
    lengths = ends - starts
    hashes = _mix(_block(blocks, starts, lengths))
    rows = np.arange(len(starts))
    for offset in range(_BLOCK, _MAX_BLOCKS * _BLOCK, _BLOCK):
        rows = rows[lengths[rows] > offset]
        if not len(rows):
            break
        more = _block(blocks, starts[rows] + offset, lengths[rows] - offset)
        hashes[rows] = _mix(hashes[rows] + more)
    for row in np.flatnonzero(lengths > _MAX_BLOCKS * _BLOCK).tolist():
        digest = blake2b(text[starts[row] : ends[row]], digest_size=_BLOCK, key=_KEY).digest()
        hashes[row] = int.from_bytes(digest, "big")
    return HashedWords(hashes, starts, ends)


def _block(blocks: NDArray[np.void], places: Places, lengths: Places) -> Hashes:
    """The blocks at these places as numbers, each cut off at its length."""
    return blocks[places].view(np.uint64) & _MASKS.take(lengths, mode="clip")


def _mix(numbers: Hashes) -> Hashes:
    """Change numbers to others, whose highest bits depend on all bits."""
    mixed = numbers * _FIRST_FACTOR
    mixed ^= mixed >> np.uint64(32)
    return mixed * _SECOND_FACTOR


class HashTable:
    """Maps hashes to the numbers 0, 1, 2 and so on, in the order in which they were added."""

    def __init__(self) -> None:
        self._hashes = GrowingArray(np.uint64)
        """By number."""
        self._slots: Numbers = np.full(_FIRST_SLOTS, MISSING, np.int32)
        """Numbers, each in the slot of its hash or in one of the next ones."""

    def __len__(self) -> int:
        return len(self._hashes)

    def find(self, hashes: Hashes) -> Numbers:
        """The number of each hash, or MISSING."""
        by_number = self._hashes.space
        slots = self._first_slots(hashes)
        numbers = self._slots[slots]
        pending = np.flatnonzero((by_number.take(numbers) != hashes) & (numbers != MISSING))
        while len(pending):
            slots[pending] = self._next_slots(slots[pending])
            numbers[pending] = self._slots[slots[pending]]
            is_other = by_number.take(numbers[pending]) != hashes[pending]
            pending = pending[is_other & (numbers[pending] != MISSING)]
        return numbers

    def add(self, hashes: Hashes) -> None:
        """Add distinct hashes that the table does not have."""
        first = len(self._hashes)
        self._hashes.extend(hashes)
        size = len(self._hashes)
        if 4 * size > len(self._slots):
            first = 0
            self._slots = np.full(8 << size.bit_length(), MISSING, np.int32)
        self._insert(np.arange(first, size, dtype=np.int32))

    def _insert(self, numbers: Numbers) -> None:
        slots = self._first_slots(self._hashes.values[numbers])
        while len(numbers):
            is_free = self._slots[slots] == MISSING
            # If several want the same slot, one of them has it afterwards.
            self._slots[slots[is_free]] = numbers[is_free]
            is_pending = self._slots[slots] != numbers
            numbers, slots = numbers[is_pending], self._next_slots(slots[is_pending])

    def _first_slots(self, hashes: Hashes) -> Places:
        bits = len(self._slots).bit_length() - 1
        return (hashes >> np.uint64(64 - bits)).astype(np.intp)

    def _next_slots(self, slots: Places) -> Places:
        return (slots + 1) % len(self._slots)
