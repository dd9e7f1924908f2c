"""What agents see of a store.

`AudienceStore` is a store without the messages that only people may see.

Agents must not even learn that such messages exist. The store knows which messages these are, but
its indexes do not: the view asks for more results until enough visible ones remain, and subtracts
the human-only matches from counts. Counts end at `MAX_COUNTED`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cached_property
from typing import Any, TypeVar

from recollect.language.queries.query_tree import Node, Word
from recollect.model.audience import HUMAN_ONLY, Audience, is_human_only
from recollect.model.documents import Document, Passage, Position
from recollect.model.search import Filter
from recollect.store.base import Passages, Store
from recollect.store.errors import missing_passage
from recollect.store.values import (
    Candidate,
    CandidatePage,
    MatchGroups,
    OnDamage,
    Space,
    TimedMatches,
)
from recollect.store.views import StoreView

T = TypeVar("T")

# Larger counts are lower bounds.
MAX_COUNTED = 10_000
_PASSAGES_PER_QUERY = 500
# Up to this frequency of a word, its visible matches are counted. Above it, one visible match is
# enough for the frequency to count.
_MAX_EXACT_FREQUENCY = 200
# Human-only matches are counted in the documents that have human-only messages, unless these are
# more than the store lists by key.
_MAX_SEARCHED_DOCUMENTS = 2_000
_ALL = Filter(hidden=True)

SHOWS_NO_TEXT = {
    **dict.fromkeys(("path", "read_only", "version"), "it tells only where the library is"),
    "snapshot": "it returns nothing",
    "summary": "it returns the document without its messages",
    "summaries": "it returns documents without their messages",
    "list_position": "it returns only a number",
    "summaries_after": "it returns documents without their messages",
    "find_id": "it returns only the id of a document",
    "size": "it returns only a number",
    "variants": "it returns single words, which widen a query and are never shown",
    "words_containing": "it returns single words, which widen a query and are never shown",
    "known_words": "it returns words of the caller; a correction needs a message that is visible",
    "authors": "it returns names, which widen a query; a remark shows those of visible messages",
    "spaces": "it returns the state of models, not messages",
    "stats": "it returns only counts and sizes",
    "facet_names": "it returns projects, sources, tags and types of documents",
    "activity": "it returns only counts",
}


class AudienceStore(StoreView):
    PASSES = SHOWS_NO_TEXT

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._visibility: dict[int, bool] = {}

    @cached_property
    def _hidden(self) -> dict[int, str]:
        """The human-only messages of the library, with the ids of their documents."""
        return self._store.human_only()

    # -- documents ---

    def document(self, id: str, with_passages: bool = True) -> Document:
        return visible_part(self._store.document(id, with_passages))

    def documents(self, ids: Sequence[str]) -> dict[str, Document]:
        documents = self._store.documents(ids)
        return {id_: visible_part(document) for id_, document in documents.items()}

    def iter_documents(
        self, filter: Filter, on_damage: OnDamage | None = None
    ) -> Iterator[Document]:
        return map(visible_part, self._store.iter_documents(filter, on_damage))

    def is_linear(self, id: str) -> bool:
        """False: a path may skip messages, and the answer must not tell whether it does."""
        self._store.document(id, with_passages=False)  # raises NotFound
        return False

    def positions(self, id: str) -> list[Position]:
        positions = self._store.positions(id)
        visible = self._visible_set(position.key for position in positions)
        return [position for position in positions if position.key in visible]

    def passage_page(self, id: str, position: int, limit: int) -> tuple[list[Passage], int]:
        passages = self.document(id).passages
        following = [passage for passage in passages if passage.position >= position]
        return following[:limit], len(passages)

    def passage_key(self, document: str, passage: str) -> int:
        key = self._store.passage_key(document, passage)
        if not self._visible([key]):
            raise missing_passage(document, passage)
        return key

    def passages_by_key(self, keys: Sequence[int]) -> dict[int, tuple[str, Passage]]:
        return {
            key: (document, passage)
            for key, (document, passage) in self._store.passages_by_key(keys).items()
            if not is_human_only(passage)
        }

    def documents_containing(self, source: str, passages: Sequence[str]) -> list[tuple[str, str]]:
        pairs = self._store.documents_containing(source, passages)
        keys = [self._store.passage_key(document, passage) for document, passage in pairs]
        visible = self._visible_set(keys)
        return [pair for pair, key in zip(pairs, keys, strict=True) if key in visible]

    def ids_with_prefix(self, prefix: str, limit: int, document: str | None = None) -> list[str]:
        if document is None:
            return self._store.ids_with_prefix(prefix, limit)
        ids = {position.id for position in self.positions(document)}
        stored = self._store.ids_with_prefix(prefix, _PASSAGES_PER_QUERY, document)
        return [id_ for id_ in stored if id_ in ids][:limit]

    def human_only(self, keys: Sequence[int] | None = None) -> dict[int, str]:
        """Nothing: agents must not learn which messages are hidden."""
        return {}

    def change_times(self, keys: Sequence[int]) -> list[tuple[int, str, datetime | None]]:
        return self._store.change_times(self._visible(keys))

    # -- text search ---

    def match(self, node: Node, filter: Filter, limit: int) -> list[int]:
        return enough(limit, lambda n: self._store.match(node, filter, n), self._visible)

    def has_match(self, node: Node, filter: Filter) -> bool:
        return bool(self.match(node, filter, 1))

    def count(self, node: Node, filter: Filter) -> tuple[int, bool]:
        total, is_exact = self._store.count(node, filter)
        if total - len(self._hidden) > MAX_COUNTED:
            return MAX_COUNTED, False
        hidden = self._count_hidden(node, filter)
        if is_exact and hidden is not None:
            visible = total - hidden
        else:
            visible = len(self.match(node, filter, MAX_COUNTED + 1))
        return min(visible, MAX_COUNTED), visible <= MAX_COUNTED

    def _count_hidden(self, node: Node, filter: Filter) -> int | None:
        """The number of human-only matches; None if too many messages would have to be searched."""
        documents = set(self._hidden.values())
        if filter.conversations:
            documents.intersection_update(filter.conversations)
        if not documents:
            return 0
        if len(documents) > _MAX_SEARCHED_DOCUMENTS:
            return None
        with_hidden = replace(filter, conversations=tuple(sorted(documents)))
        keys = self._store.match(node, with_hidden, MAX_COUNTED)
        if len(keys) >= MAX_COUNTED:
            return None
        return sum(key in self._hidden for key in keys)

    def match_groups(
        self, node: Node | None, filter: Filter, keys: Sequence[int] | None = None
    ) -> MatchGroups:
        """Groups of the visible matches, up to `MAX_COUNTED` of them."""
        if keys is not None:
            keys = self._visible(keys)
        elif node is None:
            keys = [each.key for each in self.newest(filter, MAX_COUNTED + 1).candidates]
        else:
            keys = self.match(node, filter, MAX_COUNTED + 1)
        groups = self._store.match_groups(node, filter, keys[:MAX_COUNTED])
        return groups._replace(is_complete=len(keys) <= MAX_COUNTED)

    def match_times(self, node: Node | None, filter: Filter) -> TimedMatches:
        return self._store.match_times(node, filter).without(self._hidden)

    def frequencies(self, nodes: Sequence[Node]) -> tuple[list[int], int]:
        """The frequencies of words in visible messages, since scores depend on them.

        A word that occurs only in hidden messages must score like a word that does not occur.
        """
        counts, size = self._store.frequencies(nodes)
        if not self._hidden:
            return counts, size
        visible = [
            self._visible_frequency(node, count) for node, count in zip(nodes, counts, strict=True)
        ]
        return visible, size

    def _visible_frequency(self, node: Node, frequency: int) -> int:
        if not frequency:
            return 0
        if frequency <= _MAX_EXACT_FREQUENCY:
            return len(self.match(node, _ALL, frequency))
        if self.match(node, _ALL, 1):
            return frequency
        return 0

    def title_matches(self, words: Sequence[Word]) -> list[int]:
        return self._visible(self._store.title_matches(words))

    def candidates(
        self, passages: Passages, filter: Filter, previous: bool = False
    ) -> list[Candidate]:
        return self._visible_candidates(self._store.candidates(passages, filter, previous))

    def text_scores(self, node: Node, keys: Sequence[int]) -> dict[int, float]:
        return self._store.text_scores(node, self._visible(keys))

    def newest(
        self,
        filter: Filter,
        limit: int,
        offset: int = 0,
        *,
        text: str | None = None,
        where: str = "content",
        by_document: bool = False,
        counted: bool = True,
    ) -> CandidatePage:
        def read(
            limit: int, offset: int = 0, by_document: bool = False, counted: bool = True
        ) -> CandidatePage:
            return self._store.newest(
                filter,
                limit,
                offset,
                text=text,
                where=where,
                by_document=by_document,
                counted=counted,
            )

        if not self._hidden:
            return read(limit, offset, by_document, counted)
        if where != "content" or not (counted or by_document):
            found = enough(
                offset + limit,
                lambda n: read(n, counted=False).candidates,
                self._visible_candidates,
            )
            return CandidatePage(found[offset:], len(found[offset:]))
        # All of them are counted. A count per page would tell how many messages other pages hide.
        candidates, total, is_complete = read(MAX_COUNTED)
        visible = self._visible_candidates(candidates)
        total += len(visible) - len(candidates)
        if by_document:
            firsts: dict[str, Candidate] = {}
            for candidate in visible:
                firsts.setdefault(candidate.document, candidate)
            visible, total = list(firsts.values()), len(firsts)
        return CandidatePage(visible[offset : offset + limit], total, is_complete)

    # -- vectors ---

    def nearest(
        self, space: Space, vector: Any, filter: Filter, limit: int
    ) -> list[tuple[int, float]]:
        def visible(neighbours: Sequence[tuple[int, float]]) -> list[tuple[int, float]]:
            keys = self._visible_set(key for key, _ in neighbours)
            return [(key, cosine) for key, cosine in neighbours if key in keys]

        return enough(limit, lambda n: self._store.nearest(space, vector, filter, n), visible)

    def cosines(self, space: Space, vector: Any, keys: Sequence[int]) -> dict[int, float]:
        return self._store.cosines(space, vector, self._visible(keys))

    def vectors(self, space: Space, key: int) -> list[Any]:
        if not self._visible([key]):
            return []
        return self._store.vectors(space, key)

    # -- visibility ---

    def _visible_candidates(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        visible = self._visible_set(candidate.key for candidate in candidates)
        return [candidate for candidate in candidates if candidate.key in visible]

    def _visible_set(self, keys: Iterable[int]) -> set[int]:
        return set(self._visible(list(keys)))

    def _visible(self, keys: Sequence[int]) -> list[int]:
        """The keys of those passages that everybody may see, in the same order."""
        unchecked = [key for key in keys if key not in self._visibility]
        if unchecked:
            hidden = self._store.human_only(unchecked)
            self._visibility.update((key, key not in hidden) for key in unchecked)
        return [key for key in keys if self._visibility[key]]


def enough(
    limit: int, read: Callable[[int], Sequence[T]], select: Callable[[Sequence[T]], list[T]]
) -> list[T]:
    """The first selected values. More are read until there are enough of them, or no more."""
    request = limit
    while True:
        values = read(request)
        selected = select(values)
        if len(selected) >= limit or len(values) < request:
            return selected[:limit]
        request = 2 * request + _PASSAGES_PER_QUERY


def visible_part(document: Document) -> Document:
    passages = tuple(p for p in document.passages if not is_human_only(p))
    if len(passages) == len(document.passages):
        return document
    return replace(document, passages=passages)


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
    """A store whose candidates say which are human-only, for readers that mask them.

    The index knows the visibility of a message, but not its metadata, which can mark it as well.
    What is shown of words without a message, such as corrections, comes from the others only.
    """

    def has_match(self, node: Node, filter: Filter) -> bool:
        return AudienceStore(self._store).has_match(node, filter)

    def candidates(
        self, passages: Passages, filter: Filter, previous: bool = False
    ) -> list[Candidate]:
        return self._label(self._store.candidates(passages, filter, previous))

    def newest(self, filter: Filter, limit: int, offset: int = 0, **options: Any) -> CandidatePage:
        page = self._store.newest(filter, limit, offset, **options)
        return page._replace(candidates=self._label(page.candidates))

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
