"""The projects, sources and tags in use, kept until the library changes."""

from __future__ import annotations

from collections.abc import Sequence

from recollect.language.text import fold
from recollect.store.base import Store
from recollect.store.values import MAX_FACET_NAMES

Facets = dict[str, list[tuple[str, int]]]
"""Names with their numbers of documents, most first, for each facet."""


class FacetCache:
    """Every page of the console shows facets, and every key that is typed into its palette."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._facets: dict[str, tuple[object, Facets]] = {}
        """The last facets of each kind, and the version of the library that has them."""

    def facets(self, kind: str) -> Facets:
        """The facets of a kind of document."""
        version = self._store.version()  # read first: what is written meanwhile changes it
        cached_version, facets = self._facets.get(kind, (None, {}))
        if cached_version != version:
            facets = {
                facet: self._store.facet_names(facet, kinds=(kind,))[:MAX_FACET_NAMES]
                for facet in ("projects", "sources", "tags")
            }
            self._facets[kind] = (version, facets)
        return {name: list(counts) for name, counts in facets.items()}

    def names(self, facet: str, text: str, kinds: Sequence[str]) -> list[tuple[str, int]]:
        """All names of a facet that contain a text. See Store.facet_names."""
        if len(kinds) == 1:
            names = self.facets(kinds[0])[facet]
            if len(names) < MAX_FACET_NAMES:  # these are all, and most libraries have fewer
                part = fold(text)
                return [(name, count) for name, count in names if part in fold(name)]
        return self._store.facet_names(facet, text, kinds)
