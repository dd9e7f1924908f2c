"""Groups of matching passages, from which a search counts its matches by source, month and so on.

Each engine finds the matches with its own text index. A common word has tens of thousands of them,
so they are grouped in arrays: values are numbered, and the numbers of a group make one code.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from recollect.store.sql.database import Database
from recollect.store.values import DocumentGroup, MatchGroups, PassageGroup, Profile

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Numbers = NDArray[np.int64]

T = TypeVar("T", bound=Hashable)

_DAY = 86_400_000_000
_COLUMNS = (
    "p.role, "
    # Division truncates, so it does not round times before 1970 down.
    f"(p.created_at - ((p.created_at % {_DAY}) + {_DAY}) % {_DAY}) / {_DAY}"
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Up to this many documents are looked up. For more, reading those of the whole library is faster.
_MAX_LOOKUPS = 2_000


def group_passages(db: Database, keys: Sequence[int]) -> MatchGroups:
    """See Store.group_passages."""
    members, value = db.in_list(list(keys))
    source = f"passage p where {db.own('p')} and p.key in ({members})"
    return group_matches(db, source, (value,))


def group_matches(db: Database, source: str, values: Sequence[Any]) -> MatchGroups:
    """The groups of matches. `source` ends a statement that selects each match `p`."""
    import numpy as np

    rows = db.rows(
        f"select {_COLUMNS}, {db.array_of('p.document')} from {source} group by 1, 2", values
    )
    if not rows:
        return MatchGroups([], [])
    role_column, day_column, keys = zip(*rows, strict=True)
    arrays = [db.parse_array(value) for value in keys]
    lengths = [len(array) for array in arrays]
    documents = np.concatenate(arrays)
    profiles = _Profiles(db, documents)
    roles, role_numbers = _number_values(role_column)
    months, month_numbers = _number_values([_month(day) for day in day_column])
    role_numbers = np.repeat(role_numbers, lengths)
    counts = Counter(
        _codes(
            profiles.numbers[documents],
            (role_numbers, len(roles)),
            (np.repeat(month_numbers, lengths), len(months)),
        ).tolist()
    )
    months_by_group: dict[int, dict[str | None, int]] = {}
    for code, count in counts.items():
        group_code, month = divmod(code, len(months))
        months_by_group.setdefault(group_code, {})[months[month]] = count
    passages = []
    for group_code, month_counts in months_by_group.items():
        profile, role = divmod(group_code, len(roles))
        matches = sum(month_counts.values())
        dates = {month: count for month, count in month_counts.items() if month is not None}
        passages.append(PassageGroup(profiles[profile], roles[role], matches, dates))
    document_groups = _group_documents(profiles, documents, roles, role_numbers)
    return MatchGroups(passages, document_groups)


def _group_documents(
    profiles: _Profiles, documents: Numbers, roles: Sequence[str | None], role_numbers: Numbers
) -> list[DocumentGroup]:
    role_sets = _NameSets(len(profiles.numbers))
    for number, role in enumerate(roles):
        role_sets.add(role, documents[role_numbers == number])
    keys = list(set(documents.tolist()))
    counts = Counter(
        _codes(
            profiles.numbers[keys],
            (role_sets.numbers[keys], len(role_sets.sets)),
        ).tolist()
    )
    groups = []
    for code, count in counts.items():
        profile, role_set = divmod(code, len(role_sets.sets))
        names = frozenset(role_sets.sets[role_set])
        groups.append(DocumentGroup(profiles[profile], names, count))
    return groups


def _month(day: int | None) -> str | None:
    if day is None:
        return None
    return f"{_EPOCH + timedelta(days=day):%Y-%m}"


# -- numbers ---


def _number_values(values: Sequence[T]) -> tuple[list[T], Numbers]:
    """The distinct values, and for each value its place among them."""
    import numpy as np

    distinct = list(dict.fromkeys(values))
    places = {value: place for place, value in enumerate(distinct)}
    return distinct, np.fromiter(map(places.__getitem__, values), np.int64, len(values))


def _codes(numbers: Numbers, *columns: tuple[Numbers, int]) -> Numbers:
    """One number for each combination. Further columns come with their number of values."""
    codes = numbers
    for column, size in columns:
        codes = codes * size + column
    return codes


class _NameSets:
    """A set of names for each document, given as the number of that set."""

    def __init__(self, size: int) -> None:
        """`size` is larger than the key of any document."""
        import numpy as np

        self.numbers = np.zeros(size, np.int64)
        self.sets: list[tuple[Any, ...]] = [()]

    def add(self, name: str | None, documents: Numbers) -> None:
        """Add a name to the sets of some documents, which may be repeated."""
        numbers = self.numbers[documents]
        for number in set(numbers.tolist()):
            self.numbers[documents[numbers == number]] = len(self.sets)
            self.sets.append((*self.sets[number], name))


class _Profiles:
    """The profiles of documents."""

    def __init__(self, db: Database, documents: Numbers) -> None:
        import numpy as np

        keys = sorted(set(documents.tolist()))
        if len(keys) > _MAX_LOOKUPS:
            keys = []
        names = _key_arrays(db, "document", ("kind", "source", "project"), "key", keys)
        models = _key_arrays(db, "passage", ("model",), "document", keys)
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


def _key_arrays(
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
