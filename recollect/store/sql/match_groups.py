"""Groups of matching passages, from which a search counts its matches by source, month and so on.

Each engine finds the matches with its own text index. A common word has tens of thousands of them,
so they are grouped in arrays: values are numbered, and the numbers of a group make one code.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
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
COLUMNS = (
    "p.document, p.role, "
    # Division truncates, so it does not round times before 1970 down.
    f"(p.created_at - ((p.created_at % {_DAY}) + {_DAY}) % {_DAY}) / {_DAY}"
)
"""The columns of a match: the key of its document, its role, and the days since 1970 in UTC."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# So many documents are looked up. For more, it is faster to read those of the whole library.
_MAX_LOOKUPS = 2_000


def group_passages(db: Database, keys: Sequence[int]) -> MatchGroups:
    """See Store.group_passages."""
    members, value = db.in_list(list(keys))
    sql = f"select {COLUMNS} from passage p where {db.own('p')} and p.key in ({members})"
    return group_matches(db, db.rows(sql, (value,)))


def group_matches(db: Database, rows: Sequence[tuple[Any, ...]]) -> MatchGroups:
    """Group matches, given as rows of COLUMNS."""
    import numpy as np

    if not rows:
        return MatchGroups([], [])
    document_column, role_column, day_column = zip(*rows, strict=True)
    documents = np.array(document_column, np.int64)
    profiles = _Profiles(db, documents)
    roles, role_numbers = _number_values(role_column)
    days, day_numbers = _number_values(day_column)
    months, month_numbers = _number_values(map(_month, days))
    counts = Counter(
        _codes(
            profiles.numbers[documents],
            (role_numbers, len(roles)),
            (month_numbers[day_numbers], len(months)),
        ).tolist()
    )
    groups: dict[int, PassageGroup] = {}
    for code, count in counts.items():
        group_code, month = divmod(code, len(months))
        if group_code not in groups:
            profile, role = divmod(group_code, len(roles))
            groups[group_code] = PassageGroup(profiles[profile], roles[role], 0, {})
        groups[group_code] = _add_matches(groups[group_code], months[month], count)
    document_groups = _group_documents(profiles, documents, roles, role_numbers)
    return MatchGroups(list(groups.values()), document_groups)


def _add_matches(group: PassageGroup, month: str | None, count: int) -> PassageGroup:
    if month is not None:
        group.months[month] = group.months.get(month, 0) + count
    return group._replace(matches=group.matches + count)


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


def _number_values(values: Iterable[T]) -> tuple[list[T], Numbers]:
    """The distinct values, and for each value its place among them."""
    import numpy as np

    places: dict[T, int] = {}
    numbers = [places.setdefault(value, len(places)) for value in values]
    return list(places), np.array(numbers, np.int64)


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
        names = db.key_lists("document", "kind, source, project", "key", keys)
        models = db.key_lists("passage", "model", "document", keys)
        size = 1 + max(int(numbers.max()) for *_, numbers in names + models)
        name_numbers = np.zeros(size, np.int64)
        for number, (*_, some_keys) in enumerate(names):
            name_numbers[some_keys] = number
        model_sets = _NameSets(size)
        for model, some_keys in sorted(models, key=lambda row: str(row[0])):
            if model is not None:
                model_sets.add(model, some_keys)
        self._names = names
        self._models = model_sets.sets
        self.numbers = _codes(model_sets.numbers, (name_numbers, len(names)))
        """The numbers of the profiles, by the keys of the documents."""

    def __getitem__(self, number: int) -> Profile:
        models, names = divmod(number, len(self._names))
        kind, source, project, _ = self._names[names]
        return Profile(kind, source, project, self._models[models])
