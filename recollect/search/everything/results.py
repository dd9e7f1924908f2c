"""The results of a search over all kinds, in order."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping

from recollect.language.queries.query_tree import Word
from recollect.search.everything.entries import Entry


class Results(ABC):
    """All results of a search, in order. They are computed only as far as they are read."""

    @property
    @abstractmethod
    def words(self) -> list[Word]:
        """The words to highlight."""

    @property
    @abstractmethod
    def note(self) -> str:
        """What the user should know, such as why vectors were not used."""

    @property
    @abstractmethod
    def is_partial(self) -> bool:
        """Whether the search was stopped, so that there may be more and better results."""

    @property
    def is_weak(self) -> bool:
        """Whether the results are probably unrelated; see `search.evidence`."""
        return False

    @property
    def corrections(self) -> Mapping[str, str]:
        """Misspelled words of the query, and what was searched for instead."""
        return {}

    def entries(self) -> Iterator[Entry]:
        """Every result once, in order."""
        identities: set[tuple[str, str]] = set()
        for entry in self.all_entries():
            if entry.identity not in identities:
                identities.add(entry.identity)
                yield entry

    @abstractmethod
    def all_entries(self) -> Iterator[Entry]:
        """The results in order, with duplicates."""

    def nearest(self) -> list[Entry]:
        """If there are no results, up to three that are the closest in meaning."""
        return []

    @abstractmethod
    def total(self) -> tuple[int, bool]:
        """The number of results, and whether it is exact or an estimate."""
