"""Count the passages that match a query."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from recollect.language.query_tree import Node, Or, Word
from recollect.model.search import Filter
from recollect.store.postgres.connection import Connection
from recollect.store.postgres.filters import OWNER
from recollect.store.postgres.text.lexemes import TextQuery, text_query
from recollect.store.postgres.text.matches import (
    FILTER_PARAMETERS,
    filter_arguments,
    keys_of_few,
    matches_among,
    matches_outside_index,
)

MAX_COUNTED = 20_000
"""Counting stops at this number of matches."""
# If one alternative of a query has this many matches, its count is returned as a lower bound:
# counting all alternatives would take longer than the search itself.
_LOWER_BOUND_FROM = 4_000
# A larger count stays in the cache until the library has changed by two percent.
_APPROXIMATE_FROM = 1_000
_CACHE_SIZE = 10_000


def size(db: Connection) -> int:
    """See Store.size."""
    if db.facts is not None:
        return db.facts.size
    return int(db.get("select passage from last_key where owner = ?::integer", (db.owner,)) or 0)


def _size_and_removed(db: Connection) -> tuple[int, int]:
    if db.facts is not None:
        return db.facts.size, db.facts.removed
    ((size, removed),) = db.rows(
        "select passage, removed from last_key where owner = ?::integer", (db.owner,)
    )
    return size, removed


class _Entry(NamedTuple):
    passages: int
    visible: int
    size: int
    removed: int
    """`size` and `removed` are those of the library when the passages were counted."""


class Counts:
    """A cache of the number of passages that match a tsquery, exactly or nearly."""

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {}
        self._queries: dict[str, str] = {}
        """The tsquery that was last used for a word in all its forms."""

    def get(self, db: Connection, queries: Sequence[str]) -> tuple[list[tuple[int, int]], int]:
        """The counts for each tsquery, and the number of all passages.

        The counts are the number of matching passages and how many of them are not hidden.
        """
        size, removed = _size_and_removed(db)
        entries: dict[str, _Entry] = {}
        missing: list[str] = []
        for query in dict.fromkeys(queries):
            entry = self._entries.get(query)
            if entry is not None and self._is_valid(entry, size, removed):
                entries[query] = entry
            else:
                missing.append(query)
        if missing:
            rows = db.rows(
                f"select * from frequencies({OWNER}, ?::tsquery[], ?::integer)",
                (missing, MAX_COUNTED),
            )
            new_entries = {
                query: _Entry(passages, visible, size, removed)
                for query, (passages, visible) in zip(missing, rows, strict=True)
            }
            entries |= new_entries
            self._add(new_entries)
        return [(entries[query].passages, entries[query].visible) for query in queries], size

    def has_word(self, word: str, db: Connection) -> bool:
        """Whether the counts for a word in its forms are in the cache and valid.

        The forms may have changed in the meantime; then the counts are read again by `get`.
        """
        size, removed = _size_and_removed(db)
        entry = self._entries.get(self._queries.get(word, ""))
        return entry is not None and self._is_valid(entry, size, removed)

    def add_word(
        self, db: Connection, word: str, forms: Sequence[str], counts: tuple[int, int]
    ) -> None:
        """Add the counts for a word in its forms, as `get` returns them."""
        nodes = tuple(Word(form) for form in forms)
        query = text_query(nodes[0] if len(nodes) == 1 else Or(nodes))
        if query.is_exact and not query.has_phrases:
            self._add({query.tsquery: _Entry(*counts, *_size_and_removed(db))})
            if len(self._queries) > _CACHE_SIZE:
                self._queries = {}
            self._queries[word] = query.tsquery

    def _add(self, entries: dict[str, _Entry]) -> None:
        if len(self._entries) > _CACHE_SIZE:
            self._entries = entries
        else:
            # A new dict: other threads may be reading the old one.
            self._entries = self._entries | entries

    @staticmethod
    def _is_valid(entry: _Entry, size: int, removed: int) -> bool:
        if (entry.size, entry.removed) == (size, removed):
            return True
        # A replica may have an older state than the one that was counted.
        changes = abs(size - entry.size) + abs(removed - entry.removed)
        return entry.passages > _APPROXIMATE_FROM and changes < entry.size / 50


def frequencies(db: Connection, nodes: Sequence[Node], counts: Counts) -> tuple[list[int], int]:
    """See Store.frequencies."""
    queries = [text_query(node) for node in nodes]
    cached, size = counts.get(db, [query.tsquery for query in queries])
    totals = [passages for passages, _ in cached]
    for number, (node, query) in enumerate(zip(nodes, queries, strict=True)):
        if not query.is_exact or query.has_phrases:
            arguments = filter_arguments(db, Filter(hidden=True))
            totals[number] = _count(db, node, query, arguments)
    return totals, size


def count(
    db: Connection, node: Node, filter: Filter, counts: Counts, known_total: int | None = None
) -> tuple[int, bool]:
    """See Store.count. `known_total` is the number of matches, if they have been counted."""
    if isinstance(node, Or) and filter in (Filter(), Filter(hidden=True)):
        lower_bound = _largest_alternative(db, node, filter.hidden, counts)
        if lower_bound >= _LOWER_BOUND_FROM:
            return lower_bound, False
    if known_total is not None:
        return min(known_total, MAX_COUNTED), known_total < MAX_COUNTED
    query = text_query(node)
    keys = keys_of_few(db, filter)
    if keys is not None:
        return len(matches_among(db, node, query, keys)), True
    total = _count(db, node, query, filter_arguments(db, filter))
    return total, total < MAX_COUNTED


def _largest_alternative(db: Connection, node: Or, hidden: bool, counts: Counts) -> int:
    """The number of matches of the most frequent alternative that the index can count."""
    queries = [text_query(part) for part in node.parts]
    cached, _ = counts.get(
        db, [query.tsquery for query in queries if query.is_exact and not query.has_phrases]
    )
    return max((passages if hidden else visible for passages, visible in cached), default=0)


def _count(db: Connection, node: Node, query: TextQuery, arguments: tuple[Any, ...]) -> int:
    total = 0
    if query.is_exact:
        # With phrases, the index only counts passages with all positions.
        total = db.get(
            f"select counted({OWNER}, ?::tsquery, ?::boolean, ?::integer, {FILTER_PARAMETERS})",
            (query.tsquery, query.has_phrases or None, MAX_COUNTED, *arguments),
        )
    return int(total) + len(matches_outside_index(db, node, query, arguments))
