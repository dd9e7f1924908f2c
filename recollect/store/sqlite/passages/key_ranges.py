"""Ranges of passage keys, and the keys of the passages that pass a filter."""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import pairwise

from recollect.model.search import Filter
from recollect.store.sql.reading.selection import document_filter, few_documents
from recollect.store.sqlite.connections.connection import Connection
from recollect.store.sqlite.passages.filters import conditions

KeyRange = tuple[int, int]
"""A first and a last key, both included."""

# Each range is a query of its own, so nearby keys share one: scanning the keys between them is
# cheaper than another query.
_MAX_RANGES = 32
_MAX_GAP_KEYS = 1_000


def all_keys(db: Connection) -> KeyRange:
    return 1, db.memo.small_value("last key", lambda: db.get("select passage from last_key"))


def passing_keys(db: Connection, keys: Sequence[int], filter: Filter) -> set[int]:
    """The keys of those passages that pass the filter."""
    where, values = conditions(filter)
    sql = f"""select p.key from json_each(?) k cross join passage p on p.key = k.value
      cross join document d on d.key = p.document where {where}"""
    return {key for (key,) in db.execute(sql, (json.dumps(keys), *values))}


def keys_in_few_documents(db: Connection, filter: Filter) -> Sequence[int] | None:
    """The keys of all passages in the documents that pass the filter, in ascending order.

    None if there are too many such documents. The conditions on passages are not checked.
    """
    filter = document_filter(filter)
    return db.memoize(("few documents", filter), lambda: _keys_in_few_documents(db, filter))


def _keys_in_few_documents(db: Connection, filter: Filter) -> list[int] | None:
    documents = few_documents(db, filter)
    if documents is None:
        return None
    sql = """select p.key from json_each(?) k cross join passage p on p.document = k.value
      order by p.key"""
    return [key for (key,) in db.execute(sql, (json.dumps(documents),))]


def ranges_with_keys(key_range: KeyRange, keys: Sequence[int] | None) -> list[KeyRange]:
    """The parts of a range that contain these keys; the whole range if `keys` is None."""
    if keys is None:
        return [key_range]
    inside = keys_in(key_range, keys)
    if not inside:
        return []
    if inside[-1] - inside[0] - len(inside) < _MAX_GAP_KEYS:  # no gap can be wide enough
        return [(inside[0], inside[-1])]
    pairs = list(pairwise(inside))
    widest_gaps = sorted((after - before for before, after in pairs), reverse=True)
    max_gap = _MAX_GAP_KEYS
    if len(widest_gaps) > _MAX_RANGES:
        max_gap = max(max_gap, widest_gaps[_MAX_RANGES])
    gaps = [(before, after) for before, after in pairs if after - before > max_gap]
    starts = [inside[0], *(after for _, after in gaps)]
    ends = [*(before for before, _ in gaps), inside[-1]]
    return list(zip(starts, ends, strict=True))


def keys_in(key_range: KeyRange, keys: Sequence[int]) -> Sequence[int]:
    """Those of some keys, in ascending order, that are in a range."""
    first, last = key_range
    return keys[bisect_left(keys, first) : bisect_right(keys, last)]
