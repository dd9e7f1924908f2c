"""When passages and their documents last changed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from recollect.language.text import from_micros
from recollect.store.sql.database import Database
from recollect.store.values import NO_TIME, TimedMatches

# Of passage p in document d. A message has a time of its own.
_CHANGED_AT = """coalesce(
    case when d.kind = 'conversation' then p.created_at end, d.updated_at, d.created_at
)"""


def change_times(db: Database, keys: Sequence[int]) -> list[tuple[int, str, datetime | None]]:
    """See Store.change_times."""
    members, value = db.in_list(list(keys))
    rows = db.rows(
        f"select p.key, d.id, {_CHANGED_AT} "
        f"from passage p {db.by_key('document', 'd', 'p.document')} "
        f"where {db.own('p')} and p.key in ({members})",
        (value,),
    )
    return [(key, document, from_micros(time)) for key, document, time in rows]


def timed_matches(db: Database, source: str, values: Sequence[Any]) -> TimedMatches:
    """See Store.match_times. `source` ends a statement that selects each match `p`."""
    import numpy as np

    columns = ("p.key", "p.document", f"coalesce({_CHANGED_AT}, {NO_TIME})")
    arrays = ", ".join(map(db.array_of, columns))  # several times faster than rows
    (row,) = db.rows(
        f"select {arrays} from (select p.key, p.document, p.created_at from {source}) p "
        f"{db.by_key('document', 'd', 'p.document')}",
        values,
    )
    if row[0] is None:
        none = np.empty(0, np.int64)
        return TimedMatches(none, none, none)
    return TimedMatches(*map(db.parse_array, row))
