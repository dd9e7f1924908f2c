"""When passages and their documents last changed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from recollect.language.text import from_micros
from recollect.store.sql.database import Database
from recollect.store.values import NO_TIME, TimedMatches

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Numbers = NDArray[np.int64]

# Up to this many documents are looked up. For more, reading those of the whole library is faster.
_MAX_LOOKUPS = 2_000


def change_times(db: Database, keys: Sequence[int]) -> list[tuple[int, str, datetime | None]]:
    """See Store.change_times."""
    members, value = db.in_list(list(keys))
    rows = db.rows(
        """select p.key, d.id, coalesce(
          case when d.kind = 'conversation' then p.created_at end, d.updated_at, d.created_at) """
        f"from passage p {db.by_key('document', 'd', 'p.document')} "
        f"where {db.own('p')} and p.key in ({members})",
        (value,),
    )
    return [(key, document, from_micros(time)) for key, document, time in rows]


def timed_matches(db: Database, source: str, values: Sequence[Any]) -> TimedMatches:
    """See Store.match_times. `source` ends a statement that selects each match `p`.

    Documents are read by a statement of their own, because a server that knows nothing about a new
    user may read all of them for each match.
    """
    import numpy as np

    columns = ("p.key", "p.document", f"coalesce(p.created_at, {NO_TIME})")
    keys, documents, times = _arrays(db, columns, source, values)
    if len(keys):
        document_times, are_conversations = _document_times(db, documents)
        has_own_time = are_conversations & (times != NO_TIME)
        times = np.where(has_own_time, times, document_times)
    return TimedMatches(keys, documents, times)


def newest_of_documents(db: Database, source: str, values: Sequence[Any]) -> list[int]:
    """The keys of the newest passage of each document, newest first.

    `source` ends a statement that selects passages `p`. Those without a date come last.
    """
    import numpy as np

    columns = ("p.key", "p.document", f"coalesce(p.created_at, {NO_TIME})")
    keys, documents, times = _arrays(db, columns, source, values)
    order = np.lexsort((-keys, -times))
    _, places = np.unique(documents[order], return_index=True)
    places.sort()
    newest: list[int] = keys[order][places].tolist()
    return newest


def _document_times(db: Database, documents: Numbers) -> tuple[Numbers, NDArray[np.bool_]]:
    """The time of each of these documents, and whether it is a conversation."""
    import numpy as np

    where, values = db.own("d"), []
    distinct = np.unique(documents)
    if len(distinct) <= _MAX_LOOKUPS:
        members, value = db.in_list(distinct.tolist())
        where += f" and d.key in ({members})"
        values = [value]
    columns = (
        "d.key",
        f"coalesce(d.updated_at, d.created_at, {NO_TIME})",
        "case when d.kind = 'conversation' then 1 else 0 end",
    )
    keys, times, are_conversations = _arrays(db, columns, f"document d where {where}", values)
    order = np.argsort(keys)
    places = order[np.searchsorted(keys, documents, sorter=order)]
    return times[places], are_conversations[places] == 1


def _arrays(
    db: Database, columns: Sequence[str], source: str, values: Sequence[Any]
) -> list[Numbers]:
    """Columns of numbers as arrays, which takes a fraction of the time of rows."""
    import numpy as np

    arrays = ", ".join(map(db.array_of, columns))
    (row,) = db.rows(f"select {arrays} from {source}", values)
    return [np.empty(0, np.int64) if array is None else db.parse_array(array) for array in row]
