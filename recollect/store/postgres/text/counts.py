"""Count the passages that match a query."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from recollect.language.queries.query_tree import Node, Or, Word
from recollect.model.search import Filter
from recollect.store.postgres.connections.connection import Connection, removals
from recollect.store.postgres.filters import OWNER
from recollect.store.postgres.text.lexemes import TextQuery, text_query
from recollect.store.postgres.text.matches import (
    FILTER_PARAMETERS,
    filter_arguments,
    has_incomplete_positions,
    keys_of_few,
    matches_among,
    matches_outside_index,
)
from recollect.store.postgres.text.word_matches import MEMORY, Matches, decode, matching

if TYPE_CHECKING:
    from recollect.store.postgres.text.word_matches import Packed

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


def size_and_removed(db: Connection) -> tuple[int, int]:
    if db.facts is not None:
        return db.facts.size, db.epoch(db.facts.removed)
    ((size, removed),) = db.rows(
        "select passage, removed from last_key where owner = ?::integer", (db.owner,)
    )
    return size, db.epoch(removed)


class _Entry(NamedTuple):
    passages: int
    visible: int
    size: int
    removed: int
    """`size` and `removed` (see `Connection.epoch`) are those when the passages were counted."""


class _Forms(NamedTuple):
    """The words of the library with the same stem as a word."""

    words: Sequence[str]
    size: int
    removed: int
    relatives: Mapping[str, bool]
    """Words that may be related, and whether the library has them."""
    similar: frozenset[str] | None = None
    """The words that are similar to one that the library does not have, if they are known."""


class State(NamedTuple):
    """What is remembered of a word or query, as the server needs it to leave that out.

    See `search_words` and `search_start` in `functions.py`.
    """

    size: int | None
    removed: int | None
    is_frequent: bool = False
    passages: int = 0


UNKNOWN = State(None, None)


class Counts:
    """A cache of the number of passages that match a tsquery, exactly or nearly.

    If a word does not have too many matches, the passages themselves are remembered as well.
    """

    def __init__(self) -> None:
        self._library = MEMORY.new_library()
        self._entries: dict[str, _Entry] = {}
        self._queries: dict[str, str] = {}
        """The tsquery that was last used for a word in all its forms."""
        self._forms: dict[str, _Forms] = {}

    def get(self, db: Connection, queries: Sequence[str]) -> tuple[list[tuple[int, int]], int]:
        """The counts for each tsquery, and the number of all passages.

        The counts are the number of matching passages and how many of them are not hidden.
        """
        size, removed = size_and_removed(db)
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

    def recall(self, word: str, db: Connection) -> bool:
        """Whether the forms of a word and their matches are remembered. Adds them to `db.terms`."""
        forms = self._forms.get(word)
        if forms is None or forms[1:3] != size_and_removed(db) or self._must_read(word, db):
            return False
        self._add_terms(db, word, forms)
        return True

    def add_forms(
        self,
        db: Connection,
        word: str,
        words: Sequence[str],
        possible_relatives: Collection[str],
        relatives: Collection[str],
    ) -> None:
        """Add the words with the same stem as a word, and those of its relatives that are known."""
        if len(self._forms) > _CACHE_SIZE:
            self._forms = {}
        is_known = dict.fromkeys(possible_relatives, False) | dict.fromkeys(relatives, True)
        forms = self._forms[word] = _Forms(words, *size_and_removed(db), is_known)
        self._add_terms(db, word, forms)

    def add_similar(self, db: Connection, word: str, similar: frozenset[str]) -> None:
        """Add the words that are similar to one whose forms were added."""
        if word in self._forms:
            forms = self._forms[word] = self._forms[word]._replace(similar=similar)
            self._add_terms(db, word, forms)

    def _add_terms(self, db: Connection, word: str, forms: _Forms) -> None:
        db.terms.forms[word] = forms.words
        db.terms.is_in_library.update(forms.relatives)
        if forms.similar is not None:
            db.terms.similar[word] = forms.similar

    def _must_read(self, word: str, db: Connection) -> bool:
        """Whether matches of a word are missing."""
        size, removed = size_and_removed(db)
        query = self._queries.get(word, "")
        matches = MEMORY.get(self._library, query)
        if matches is not None:
            return matches.next_key(size, removed) is not None
        entry = self._entries.get(query)
        return entry is None or entry.passages < MAX_COUNTED

    def word_state(self, word: str, relatives: frozenset[str], is_correctable: bool) -> State:
        forms = self._forms.get(word)
        if forms is None or not relatives <= forms.relatives.keys():
            return UNKNOWN
        if is_correctable and not forms.words and forms.similar is None:
            return UNKNOWN
        query = self._queries.get(word, "")
        matches = MEMORY.get(self._library, query)
        size, removed = forms.size, removals(forms.removed)
        if matches is not None and (matches.last_key, matches.removed) == forms[1:3]:
            return State(size, removed, passages=matches.passages)
        entry = self._entries.get(query)
        if matches is None and entry is not None and entry.passages >= MAX_COUNTED:
            return State(size, removed, is_frequent=True)
        return UNKNOWN

    def query_state(self, query: str) -> State:
        entry = self._entries.get(query)
        if entry is None:
            return UNKNOWN
        return State(entry.size, removals(entry.removed), entry.passages > _APPROXIMATE_FROM)

    def visible(self, db: Connection, query: str) -> int | None:
        """The number of passages that match a tsquery and are not hidden, if it is known."""
        entry = self._entries.get(query)
        if entry is None or (entry.size, entry.removed) != size_and_removed(db):
            return None
        return entry.visible

    def add_query(self, db: Connection, query: str, counts: tuple[int, int]) -> None:
        """Add the counts for a tsquery, as `get` returns them."""
        self._add({query: _Entry(*counts, *size_and_removed(db))})

    def add_matches(
        self, db: Connection, word: str, forms: Sequence[str], data: bytes, next_key: int
    ) -> None:
        """Add the matches of a word in its forms, from a key on, as the server sends them."""
        size, removed = size_and_removed(db)
        query = self._set_query(word, forms)
        if query is None:
            return
        earlier = None
        if next_key:
            earlier = MEMORY.get(self._library, query)
            # The library may have a new form of the word, and another thread may have been faster.
            if earlier is None or earlier.next_key(size, removed) != next_key:
                return
        self._remember(query, decode(data, size, removed, earlier))

    def add_family(self, db: Connection, words: Sequence[str], data: bytes) -> None:
        """Add the passages with one of several words, as the server sends them."""
        query = _query_of_forms(words)
        if query is not None:
            self._remember(query, decode(data, *size_and_removed(db)))

    def _remember(self, query: str, matches: Matches) -> None:
        entry = _Entry(matches.passages, matches.visible, matches.last_key, matches.removed)
        self._add({query: entry})
        if matches.passages < MAX_COUNTED:
            MEMORY.add(self._library, query, matches)

    def _set_query(self, word: str, forms: Sequence[str]) -> str | None:
        """The tsquery of a word in its forms; None if the index cannot decide it."""
        query = _query_of_forms(forms)
        if query is None:
            return None
        if len(self._queries) > _CACHE_SIZE:
            self._queries = {}
        self._queries[word] = query
        return query

    def matching(self, db: Connection, node: Node) -> Packed | None:
        """The passages that match, except hidden ones; None if they are not remembered."""
        size, removed = size_and_removed(db)

        def find(query: str) -> Packed | None:
            matches = MEMORY.get(self._library, query)
            if matches is None or matches.removed != removed or matches.last_key < size:
                return None
            return matches.until(size)

        return matching(node, find)

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
        # A transaction may have an older state than the one that was counted.
        changes = abs(size - entry.size) + abs(removed - entry.removed)
        return entry.passages > _APPROXIMATE_FROM and changes < entry.size / 50


def _query_of_forms(forms: Sequence[str]) -> str | None:
    nodes = tuple(Word(form) for form in forms)
    query = text_query(nodes[0] if len(nodes) == 1 else Or(nodes))
    if not query.is_exact or query.has_phrases:
        return None
    return query.tsquery


def frequencies(db: Connection, nodes: Sequence[Node], counts: Counts) -> tuple[list[int], int]:
    """See Store.frequencies."""
    queries = [text_query(node) for node in nodes]
    cached, size = counts.get(db, [query.tsquery for query in queries])
    totals = [passages for passages, _ in cached]
    for number, (node, query) in enumerate(zip(nodes, queries, strict=True)):
        if not query.is_exact or (query.has_phrases and has_incomplete_positions(db)):
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
    if known_total is None and filter == Filter():
        matches = counts.matching(db, node)
        if matches is not None:
            known_total = len(matches)
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
