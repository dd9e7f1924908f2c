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

_Entry = tuple[object, int]
"""A version, and a key of it."""


class CandidateCache:
    """Remembers what was used in this generation or in the one before it.

    For any number of threads: at worst, a candidate is read twice.
    """

    def __init__(self) -> None:
        self._candidates: dict[_Entry, Candidate | None] = {}
        self._earlier_candidates: dict[_Entry, Candidate | None] = {}
        self._characters = 0

    def get(
        self,
        version: object,
        keys: Sequence[int],
        read: Callable[[Sequence[int]], Iterable[tuple[int, Candidate]]],
    ) -> list[Candidate]:
        """The candidates of these keys, in their order.

        `read` returns the candidates of the keys that are not known, each with its key. Keys may
        have none.
        """
        entries = self._entries(version, keys)
        unread = [key for key in keys if key not in entries]
        if unread:
            new: dict[int, Candidate | None] = dict.fromkeys(unread)
            new.update(read(sorted(unread)))  # keys next to each other are on the same page
            self._add(version, new)
            entries |= new
        return [candidate for candidate in map(entries.get, keys) if candidate is not None]

    def _entries(self, version: object, keys: Iterable[int]) -> dict[int, Candidate | None]:
        entries: dict[int, Candidate | None] = {}
        earlier: dict[int, Candidate | None] = {}
        # Another thread may begin a generation meanwhile.
        candidates, earlier_candidates = self._candidates, self._earlier_candidates
        for key in keys:
            entry = version, key
            if entry in candidates:
                entries[key] = candidates[entry]
            elif entry in earlier_candidates:
                earlier[key] = earlier_candidates[entry]
        if earlier:
            self._add(version, earlier)
            entries |= earlier
        return entries

    def _add(self, version: object, candidates: dict[int, Candidate | None]) -> None:
        if len(self._candidates) > _MAX_CANDIDATES or self._characters > _MAX_CHARACTERS:
            self._earlier_candidates = self._candidates
            self._candidates = {}
            self._characters = 0
        for key, candidate in candidates.items():
            if candidate is not None:
                if len(candidate.content) > _MAX_CHARACTERS_OF_ONE:
                    continue
                self._characters += len(candidate.content)
            self._candidates[version, key] = candidate
