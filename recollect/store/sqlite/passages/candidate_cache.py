"""The candidates that were read lately.

While somebody types, or asks several questions about one topic, searches read the same messages
again and again. An entry belongs to one version of one library, so no entry is ever outdated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from recollect.store.values import Candidate

# Entries of one generation, and the characters of their contents, which other caches may share.
_MAX_CANDIDATES = 5_000
_MAX_CHARACTERS = 2_500_000
_MAX_CHARACTERS_OF_ONE = 20_000

_Entries = dict[int, Candidate | None]
"""The candidates of keys. A key may have none."""


class CandidateCache:
    """Remembers what was used in this generation or in the one before it.

    For any number of threads: at worst, a candidate is read twice.
    """

    def __init__(self) -> None:
        self._by_version: dict[object, _Entries] = {}
        self._earlier_by_version: dict[object, _Entries] = {}
        self._size = 0
        self._characters = 0

    def get(
        self,
        version: object,
        keys: Sequence[int],
        read: Callable[[Sequence[int]], Iterable[tuple[int, Candidate]]],
    ) -> list[Candidate]:
        """The candidates of these keys, in their order.

        `read` returns the candidates of the keys that are not known, each with its key.
        """
        entries = _select(self._by_version.get(version, {}), keys)
        if len(entries) < len(keys):
            unknown = [key for key in keys if key not in entries]
            new = _select(self._earlier_by_version.get(version, {}), unknown)
            unread = [key for key in unknown if key not in new]
            if unread:
                new |= dict.fromkeys(unread)
                new.update(read(sorted(unread)))  # keys next to each other are on the same page
            self._add(version, new)
            entries |= new
        return [candidate for candidate in map(entries.get, keys) if candidate is not None]

    def _add(self, version: object, entries: _Entries) -> None:
        if self._size > _MAX_CANDIDATES or self._characters > _MAX_CHARACTERS:
            self._earlier_by_version = self._by_version
            self._by_version = {}
            self._size = self._characters = 0
        of_version = self._by_version.setdefault(version, {})
        for key, candidate in entries.items():
            length = 0
            if candidate is not None:
                length = len(candidate.content)
            if length <= _MAX_CHARACTERS_OF_ONE:
                of_version[key] = candidate
                self._characters += length
        self._size += len(entries)


def _select(entries: _Entries, keys: Iterable[int]) -> _Entries:
    """The entries of these keys."""
    return {key: entries[key] for key in keys if key in entries}
