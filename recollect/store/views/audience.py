"""A store as it is for somebody who must not even learn that there are messages only people may see.

No index knows of these, so what was found is checked: more is asked for until
enough is left, and matches are counted one by one, as far as `COUNTED`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from recollect.language.query import Node
from recollect.model.audience import is_human_only
from recollect.model.search import Filter
from recollect.store.base import Candidate, Space, Store

COUNTED = 10_000
_READ = 500  # passages at once


def withheld(store: Store) -> Store:
    """The store without what only people may see. Only what searching asks of a store is covered."""
    return cast(Store, _Withholding(store))


class _Withholding:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[int, bool] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def match(self, node: Node, filter: Filter, limit: int) -> list[int]:
        wanted = limit
        while True:
            keys = self._store.match(node, filter, wanted)
            left = self._left(keys)
            if len(left) >= limit or len(keys) < wanted:
                return left[:limit]
            wanted = 2 * wanted + _READ

    def count(self, node: Node, filter: Filter) -> tuple[int, bool]:
        found = len(self.match(node, filter, COUNTED + 1))
        return min(found, COUNTED), found <= COUNTED

    def passages(self, keys: Sequence[int], filter: Filter) -> list[Candidate]:
        return self._shown(self._store.passages(keys, filter))

    def preceding(self, keys: Sequence[int]) -> list[Candidate]:
        return self._shown(self._store.preceding(keys))

    def nearest(
        self, space: Space, vector: Any, filter: Filter, limit: int
    ) -> list[tuple[int, float]]:
        found = self._store.nearest(space, vector, filter, limit)
        left = set(self._left([key for key, _ in found]))
        return [(key, cosine) for key, cosine in found if key in left]

    def newest(
        self, filter: Filter, limit: int, offset: int, by_document: bool = False
    ) -> tuple[list[Candidate], int]:
        return self._page(self._store.newest(filter, COUNTED, 0, by_document), limit, offset)

    def find_literal(
        self, text: str, filter: Filter, limit: int, offset: int
    ) -> tuple[list[Candidate], int]:
        return self._page(self._store.find_literal(text, filter, COUNTED, 0), limit, offset)

    def _page(
        self, everything: tuple[list[Candidate], int], limit: int, offset: int
    ) -> tuple[list[Candidate], int]:
        """A page of what is left; counted over all of it, or what withheld messages the other pages have would tell."""
        found, total = everything
        shown = self._shown(found)
        return shown[offset : offset + limit], total - len(found) + len(shown)

    def _shown(self, found: Sequence[Candidate]) -> list[Candidate]:
        left = set(self._left([candidate.key for candidate in found]))
        return [candidate for candidate in found if candidate.key in left]

    def _left(self, keys: Sequence[int]) -> list[int]:
        """Those of these passages that everybody may see, in the order given."""
        new = [key for key in keys if key not in self._known]
        for at in range(0, len(new), _READ):
            some = new[at : at + _READ]
            read = self._store.contents(some)
            self._known |= {key: key in read and not is_human_only(read[key][1]) for key in some}
        return [key for key in keys if self._known[key]]
