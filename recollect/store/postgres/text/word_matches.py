"""Remember which passages have a word, so that the words of usual searches are not looked up again.

The server returns the matches of a word when it is first searched for, and later only those in new
passages. The process keeps them, up to a limit for all of its libraries. New passages have larger
keys than all others, and whoever changes or deletes an indexed passage increases
`last_key.removed`. So matches are valid for one value of that counter, and complete up to a key.
A failover may lose passages, and others get their keys. So it counts as a change as well (see
`Connection.epoch`).
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import reduce
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

from recollect.language.queries.query_tree import And, Node, Or
from recollect.store.postgres.functions import LENGTH_BITS, MAX_NEW_PASSAGES
from recollect.store.postgres.text.lexemes import text_query

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Packed = NDArray[np.int64]
    """Passages that are not hidden, by key: the key, and the number of words in the low bits."""

# numpy is imported where it is used: it takes a while.

_MAX_LENGTH = (1 << LENGTH_BITS) - 1
_MAX_REMEMBERED = 4_000_000  # matches of a process, of eight bytes each


class Matches(NamedTuple):
    """The passages with one of the forms of a word."""

    packed: Packed
    passages: int
    """Their number, with those that are hidden."""
    last_key: int
    """Later passages are not among them."""
    removed: int

    @property
    def visible(self) -> int:
        return len(self.packed)

    def until(self, last_key: int) -> Packed:
        """The matches that a transaction with this last key sees. It may be an older one."""
        if last_key >= self.last_key:
            return self.packed
        import numpy as np

        return self.packed[: np.searchsorted(self.packed, (last_key + 1) << LENGTH_BITS)]

    def next_key(self, last_key: int, removed: int) -> int | None:
        """From which key on matches must be read: 0 for all of them, None if there are no more."""
        if removed != self.removed or last_key - self.last_key > MAX_NEW_PASSAGES:
            return 0
        if last_key <= self.last_key:
            return None
        return self.last_key + 1


def decode(data: bytes, last_key: int, removed: int, earlier: Matches | None = None) -> Matches:
    """Matches from what the server sends, after the earlier ones. See `search_words`."""
    import numpy as np

    values = np.frombuffer(data, ">i8").astype(np.int64)
    is_visible = (values >> LENGTH_BITS) & 1 == 0
    keys = values[is_visible] >> (LENGTH_BITS + 1)
    packed = np.sort(keys << LENGTH_BITS | values[is_visible] & _MAX_LENGTH)
    passages = len(values)
    if earlier is not None:
        packed = np.concatenate([earlier.packed, packed])
        passages += earlier.passages
    return Matches(packed, passages, last_key, removed)


def merge_data(parts: Sequence[bytes]) -> bytes:
    """What the server sends for several words, as if it were the passages with any of them."""
    if len(parts) == 1:
        return parts[0]
    import numpy as np

    return np.unique(np.frombuffer(b"".join(parts), ">i8")).tobytes()


class Memory:
    """The matches that this process remembers, by library and query. Thread-safe."""

    def __init__(self, max_matches: int = _MAX_REMEMBERED) -> None:
        self._max_matches = max_matches
        self._matches: OrderedDict[tuple[int, str], Matches] = OrderedDict()
        self._count = 0
        self._lock = threading.Lock()
        self._libraries = count()

    def new_library(self) -> int:
        return next(self._libraries)

    def get(self, library: int, query: str) -> Matches | None:
        with self._lock:
            matches = self._matches.get((library, query))
            if matches is not None:
                self._matches.move_to_end((library, query))
            return matches

    def add(self, library: int, query: str, matches: Matches) -> None:
        with self._lock:
            self._remove((library, query))
            self._matches[library, query] = matches
            self._count += matches.visible + 1
            while self._count > self._max_matches:
                self._remove(next(iter(self._matches)))

    def _remove(self, key: tuple[int, str]) -> None:
        matches = self._matches.pop(key, None)
        if matches is not None:
            self._count -= matches.visible + 1


MEMORY = Memory()


def matching(node: Node, find: Callable[[str], Packed | None]) -> Packed | None:
    """The passages that match a query, if those of its words are known: `find` returns them."""
    query = text_query(node)
    if not query.is_exact or query.has_phrases:
        return None
    packed = find(query.tsquery)
    if packed is not None or not isinstance(node, And | Or):
        return packed
    parts = [matching(part, find) for part in node.parts]
    known_parts = [part for part in parts if part is not None]
    if len(known_parts) < len(parts):
        return None
    if isinstance(node, Or):
        return union(known_parts)
    return reduce(_intersection, known_parts)


def union(parts: Sequence[Packed]) -> Packed:
    import numpy as np

    return np.unique(np.concatenate(parts))


def _intersection(some: Packed, others: Packed) -> Packed:
    import numpy as np

    return np.intersect1d(some, others, assume_unique=True)


class MatchTable:
    """The passages that match some parts of a query, each part with a weight.

    The arrays have a place for every key up to the last.
    """

    def __init__(self, parts: Sequence[tuple[Packed, float]]) -> None:
        import numpy as np

        self._keys = [packed >> LENGTH_BITS for packed, _ in parts]
        self._part_weights = [weight for _, weight in parts]
        self._size = max((int(keys[-1]) for keys in self._keys if len(keys)), default=0) + 1
        self._lengths = np.zeros(self._size, np.int64)
        for (packed, _), keys in zip(parts, self._keys, strict=True):
            self._lengths[keys] = packed & _MAX_LENGTH
        self._weights = np.zeros(self._size)
        for keys, weight in zip(self._keys, self._part_weights, strict=True):
            self._weights[keys] += weight

    @property
    def total(self) -> int:
        """The number of passages that match any part."""
        import numpy as np

        return int(np.count_nonzero(self._weights))

    def best(self, limit: int) -> list[Row]:
        """The passages with the largest weights."""
        return self._rows(_largest(self._weights, limit))

    def selected(self, selections: Sequence[tuple[Sequence[int], float]], limit: int) -> list[Row]:
        """The passages with the largest weights of selections, by the numbers of their parts."""
        import numpy as np

        weights = np.zeros(self._size)
        for numbers, weight in selections:
            keys, *others = (self._keys[number] for number in numbers)
            for other_keys in others:
                is_match = np.zeros(self._size, np.bool_)
                is_match[other_keys] = True
                keys = keys[is_match[keys]]
            weights[keys] += weight
        return self._rows(_largest(weights, limit))

    def _rows(self, keys: NDArray[np.intp]) -> list[Row]:
        lengths = self._lengths[keys].tolist()
        return list(zip(keys.tolist(), self._weights[keys].tolist(), lengths, strict=True))


Row = tuple[int, float, int]
"""The key of a passage, its weight and its length."""


def _largest(weights: NDArray[np.float64], limit: int) -> NDArray[np.intp]:
    """The keys with the largest weights, and the newest of those with the same."""
    import numpy as np

    keys = np.flatnonzero(weights)[::-1]
    return keys[np.argsort(-weights[keys], kind="stable")[:limit]]
