"""Passages that changed after their volume was written.

They are few, because a volume with many of them is written again. So they are searched one by one,
in memory: a query in FTS5 for each of them would take longer than the search in the volumes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from itertools import accumulate
from operator import itemgetter
from typing import NamedTuple

from recollect.language.queries.query_tree import Node, alternatives
from recollect.model.search import Filter
from recollect.store.sql.encoding import INDEXED_TITLE
from recollect.store.sqlite.connections.connection import Connection
from recollect.store.sqlite.passages.key_ranges import passing_keys
from recollect.store.sqlite.text.fts_match import bm25
from recollect.store.sqlite.text.word_text import matcher, word_text

# All passages together, compressed and not. FTS5 searches those that do not fit.
_MAX_BYTES = 1_000_000
_MAX_CHARACTERS = 2_000_000


class ChangedPassages(NamedTuple):
    """The passages that have changed, in one state of the library."""

    keys: tuple[int, ...]
    """All of them."""
    texts: Mapping[int, str]
    """The words of those that fit into memory, by key; see `word_text`."""


NONE = ChangedPassages((), {})


def changed_passages(db: Connection) -> ChangedPassages:
    """The passages that have changed. They are read once in each state of the library."""
    return db.memoize("changed passages", lambda: _read(db))


def best_matches(
    db: Connection,
    node: Node,
    filter: Filter,
    texts: Mapping[int, str],
    weight: Callable[[Node], float],
) -> list[tuple[int, float]]:
    """The keys of the passages that match, with their scores.

    `weight` returns the weight of a part of the query.
    """
    weights: dict[int, float] = {}
    for part in alternatives(node):
        keys = _matching(part, texts)
        if keys:
            part_weight = weight(part)
            for key in keys:
                weights[key] = weights.get(key, 0.0) + part_weight
    if not weights:
        return []
    passing = passing_keys(db, list(weights), filter)
    return [(key, bm25(weights[key], 1, texts[key].count(" "))) for key in passing]


def matching_keys(
    db: Connection, node: Node, filter: Filter | None, texts: Mapping[int, str]
) -> list[int]:
    """The keys of the passages that match. Without a filter, hidden ones match too."""
    keys = _matching(node, texts)
    if not keys or filter is None:
        return keys
    return sorted(passing_keys(db, keys, filter))


def _read(db: Connection) -> ChangedPassages:
    sizes = db.rows(
        "select s.passage, length(p.body) from stale s join passage p on p.key = s.passage"
    )
    small_first = sorted(sizes, key=itemgetter(1, 0))
    totals = accumulate(size for _, size in small_first)
    keys = [key for (key, _), total in zip(small_first, totals, strict=True) if total <= _MAX_BYTES]
    rows = db.execute(
        f"select p.key, {INDEXED_TITLE}, p.content from json_each(?) k "
        "cross join passage p on p.key = k.value join document d on d.key = p.document",
        (json.dumps(keys),),
    )
    texts: dict[int, str] = {}
    characters = 0
    for key, title, content in rows:
        characters += len(content)
        if characters > _MAX_CHARACTERS:
            break
        texts[key] = word_text(title, content)
    return ChangedPassages(tuple(sorted(key for key, _ in sizes)), texts)


def _matching(node: Node, texts: Mapping[int, str]) -> list[int]:
    is_match = matcher(node)
    return [key for key, text in texts.items() if is_match(text)]
