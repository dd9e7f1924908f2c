"""Groups of matching passages, from which a search counts its matches by source, month and so on.

Each engine finds the matches with its own text index. A common word has tens of thousands of them,
so they are grouped in arrays: values are numbered, and the numbers of a group make one code.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from recollect.language.text import from_micros
from recollect.store.sql.database import Database
from recollect.store.values import (
    NO_TIME,
    DocumentGroup,
    MatchGroups,
    PassageGroup,
    Profile,
    TimedMatches,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Numbers = NDArray[np.int64]

# Up to this many documents are looked up. For more, reading those of the whole library is faster.
_MAX_LOOKUPS = 2_000


def group_passages(db: Database, keys: Sequence[int]) -> MatchGroups:
    """The groups of these passages."""
    members, value = db.in_list(list(keys))
    source = f"passage p where {db.own('p')} and p.key in ({members})"
    return group_matches(db, source, (value,))


def group_matches(db: Database, source: str, values: Sequence[Any]) -> MatchGroups:
    """The groups of matches. `source` ends a statement that selects each match `p`."""
    import numpy as np

    # Months are computed here: many small groups take the database longer than a few large ones.
    arrays = f"{db.array_of('p.document')}, {db.array_of(f'coalesce(p.created_at, {NO_TIME})')}"
    rows = db.rows(f"select p.role, {arrays} from {source} group by 1", values)
    if not rows:
        return MatchGroups([], [])
    role_column, document_column, time_column = zip(*rows, strict=True)
    roles = list(role_column)
    documents_by_role = [db.parse_array(value) for value in document_column]
    documents = np.concatenate(documents_by_role)
    role_numbers = np.repeat(np.arange(len(roles)), list(map(len, documents_by_role)))
    months, month_numbers = number_months(np.concatenate([*map(db.parse_array, time_column)]))
    profiles = _Profiles(db, documents)
    codes = _codes(
        profiles.numbers[documents], (role_numbers, len(roles)), (month_numbers, len(months))
    )
    months_by_group: dict[int, dict[str | None, int]] = {}
    for code, count in _counts(codes):
        group_code, month = divmod(code, len(months))
        months_by_group.setdefault(group_code, {})[months[month]] = count
    passages = []
    for group_code, month_counts in months_by_group.items():
        profile, role = divmod(group_code, len(roles))
        matches = sum(month_counts.values())
        dates = {month: count for month, count in month_counts.items() if month is not None}
        passages.append(PassageGroup(profiles[profile], roles[role], matches, dates))
    document_groups = group_documents(profiles, roles, documents_by_role)
    return MatchGroups(passages, document_groups)


def group_documents(
    profiles: _Profiles, roles: Sequence[str | None], documents_by_role: Sequence[Numbers]
) -> list[DocumentGroup]:
    import numpy as np

    role_sets = _NameSets(len(profiles.numbers))
    for role, documents in zip(roles, documents_by_role, strict=True):
        role_sets.add(role, documents)
    keys = np.unique(np.concatenate(documents_by_role))
    codes = _codes(profiles.numbers[keys], (role_sets.numbers[keys], len(role_sets.sets)))
    groups = []
    for code, count in _counts(codes):
        profile, role_set = divmod(code, len(role_sets.sets))
        names = frozenset(role_sets.sets[role_set])
        groups.append(DocumentGroup(profiles[profile], names, count))
    return groups


# -- numbers ---


def number_months(times: Numbers) -> tuple[list[str | None], Numbers]:
    """The distinct months, such as 2025-03, and for each time the place of its month among them."""
    import numpy as np

    moments = times.astype("datetime64[us]")
    moments[times == NO_TIME] = "NaT"
    distinct, places = np.unique(moments.astype("datetime64[M]"), return_inverse=True)
    names = [None if np.isnat(month) else str(month) for month in distinct]
    return names, places


def _codes(numbers: Numbers, *columns: tuple[Numbers, int]) -> Numbers:
    """One number for each combination. Further columns come with their number of values."""
    codes = numbers
    for column, size in columns:
        codes = codes * size + column
    return codes


def _counts(codes: Numbers) -> Iterator[tuple[int, int]]:
    """Each distinct number, and how often it occurs."""
    import numpy as np

    distinct, counts = np.unique(codes, return_counts=True)
    return zip(distinct.tolist(), counts.tolist(), strict=True)


class _NameSets:
    """A set of names for each document, given as the number of that set."""

    def __init__(self, size: int) -> None:
        """`size` is larger than the key of any document."""
        import numpy as np

        self.numbers = np.zeros(size, np.int64)
        self.sets: list[tuple[Any, ...]] = [()]

    def add(self, name: str | None, documents: Numbers) -> None:
        """Add a name to the sets of some documents, which may be repeated."""
        import numpy as np

        numbers = self.numbers[documents]
        for number in np.unique(numbers).tolist():
            self.numbers[documents[numbers == number]] = len(self.sets)
            self.sets.append((*self.sets[number], name))


class _Profiles:
    """The profiles of documents."""

    def __init__(self, db: Database, documents: Numbers) -> None:
        import numpy as np

        keys = np.unique(documents).tolist()
        if len(keys) > _MAX_LOOKUPS:
            keys = []
        names = key_arrays(db, "document", ("kind", "source", "project"), "key", keys)
        models = key_arrays(db, "passage", ("model",), "document", keys)
        size = 1 + max(int(numbers.max()) for *_, numbers in names + models)
        name_numbers = np.zeros(size, np.int64)
        for number, (*_, some_keys) in enumerate(names):
            name_numbers[some_keys] = number
        model_sets = _NameSets(size)
        for model, some_keys in sorted(models, key=lambda row: str(row[0])):
            model_sets.add(model, some_keys)
        self._names = names
        self._models = model_sets.sets
        self.numbers = _codes(model_sets.numbers, (name_numbers, len(names)))
        """The numbers of the profiles, by the keys of the documents."""

    def __getitem__(self, number: int) -> Profile:
        models, names = divmod(number, len(self._names))
        kind, source, project, _ = self._names[names]
        return Profile(kind, source, project, self._models[models])


def key_arrays(
    db: Database, table: str, columns: Sequence[str], key: str, keys: Sequence[int]
) -> list[tuple[Any, ...]]:
    """The distinct values of columns that have some, each with the keys of their rows.

    With `keys`, only rows with these keys are read.
    """
    condition = f"{db.own()} and {columns[0]} is not null"
    values = []
    if keys:
        members, value = db.in_list(list(keys))
        condition += f" and {key} in ({members})"
        values = [value]
    names = ", ".join(columns)
    rows = db.rows(
        f"select {names}, {db.array_of(key)} from {table} where {condition} group by {names}",
        values,
    )
    return [(*some_names, db.parse_array(value)) for *some_names, value in rows]


# -- when passages last changed ---


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
