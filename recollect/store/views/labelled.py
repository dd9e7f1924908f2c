"""A view of a store for readers that mask human-only messages: its candidates say which these are.

The index knows the visibility of a message, but not its metadata, which can mark it as well. What
is shown of words without a message, such as corrections, comes from the other messages only.
"""

from __future__ import annotations

from collections.abc import Sequence

from recollect.language.queries.query_tree import Node
from recollect.model.audience import HUMAN_ONLY, Audience
from recollect.model.search import Filter
from recollect.store.base import Store
from recollect.store.values import Candidate, SubstringMatches
from recollect.store.views.audience import AudienceStore
from recollect.store.views.base import StoreView


def visible_store(store: Store, audience: Audience, *, can_mask: bool = True) -> Store:
    """The store as this audience sees it.

    Agents that read masks find human-only messages too, unless the caller cannot mask its results.
    """
    if audience is Audience.PERSON:
        return store
    if audience is Audience.AGENT_MASKED and can_mask:
        return LabelledStore(store)
    return AudienceStore(store)


class LabelledStore(StoreView):
    def has_match(self, node: Node, filter: Filter) -> bool:
        return AudienceStore(self._store).has_match(node, filter)

    def candidates(self, keys: Sequence[int], filter: Filter) -> list[Candidate]:
        return self._label(self._store.candidates(keys, filter))

    def candidates_by_id(self, ids: Sequence[tuple[str, str]], filter: Filter) -> list[Candidate]:
        return self._label(self._store.candidates_by_id(ids, filter))

    def previous_passages(self, keys: Sequence[int]) -> list[Candidate]:
        return self._label(self._store.previous_passages(keys))

    def newest(
        self, filter: Filter, limit: int, offset: int, by_document: bool = False
    ) -> tuple[list[Candidate], int]:
        candidates, total = self._store.newest(filter, limit, offset, by_document)
        return self._label(candidates), total

    def recent(
        self, text: str | None, filter: Filter, limit: int, by_words: bool = False
    ) -> list[Candidate]:
        return self._label(self._store.recent(text, filter, limit, by_words))

    def find_substring(
        self, text: str, filter: Filter, limit: int, offset: int, by_document: bool = False
    ) -> SubstringMatches:
        matches = self._store.find_substring(text, filter, limit, offset, by_document)
        return matches._replace(candidates=self._label(matches.candidates))

    def _label(self, candidates: list[Candidate]) -> list[Candidate]:
        if not candidates:
            return []
        human_only = self._store.human_only([candidate.key for candidate in candidates])
        if not human_only:
            return candidates
        return [
            candidate._replace(visibility=HUMAN_ONLY) if candidate.key in human_only else candidate
            for candidate in candidates
        ]
