"""The projects, sources and tags in use, kept until the library changes."""

from __future__ import annotations

from recollect.store.base import Store

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
            facets = self._store.facets(kind)
            self._facets[kind] = (version, facets)
        return {name: list(counts) for name, counts in facets.items()}
