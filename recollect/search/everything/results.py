"""The results of a search over all kinds, in order."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

from recollect.language.queries.query_tree import Node, Word
from recollect.model.search import Filter
from recollect.search.everything.entries import Entry


class Results(ABC):
    """All results of a search, in order. They are computed only as far as they are read."""

    title_filters: Sequence[Filter] = ()
    """Where conversations without messages may be found by their titles."""
    title_node: Node | None = None
    """What these titles must match."""

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
        return distinct(self.all_entries())

    @abstractmethod
    def all_entries(self) -> Iterator[Entry]:
        """The results in order, with duplicates."""

    def entries_from(self, offset: int) -> tuple[int, Iterator[Entry]]:
        """The results from an offset on, and how many come before them.

        That is less than the offset if there are not so many.
        """
        entries = self.entries()
        skipped = sum(1 for _ in islice(entries, offset))
        return skipped, entries

    def entries_of(self, kind: str) -> Iterator[Entry]:
        """The results of one kind, in order."""
        return (entry for entry in self.entries() if entry.candidate.kind == kind)

    def nearest(self) -> list[Entry]:
        """If there are no results, up to three that are the closest in meaning."""
        return []

    @abstractmethod
    def total(self) -> int:
        """The number of results; if there are very many, an estimate."""


def distinct(entries: Iterable[Entry]) -> Iterator[Entry]:
    """Each result once."""
    identities: set[tuple[str, str]] = set()
    for entry in entries:
        if entry.identity not in identities:
            identities.add(entry.identity)
            yield entry
