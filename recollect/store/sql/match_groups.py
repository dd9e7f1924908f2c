"""Groups of matching passages, from which a search counts its matches by source, month and so on.

Each engine finds the matches with its own text index. The columns, the grouping and the models of
the documents are the same for both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from recollect.language.text import micros
from recollect.store.sql.database import Database
from recollect.store.values import Candidate, MatchGroup, MatchGroups

_DAY = 86_400_000_000
COLUMNS = (
    "d.key, d.id, d.kind, d.source, d.project, p.role, "
    # Division truncates, so it does not round times before 1970 down.
    f"(p.created_at - ((p.created_at % {_DAY}) + {_DAY}) % {_DAY}) / {_DAY}, count(*)"
)
"""The columns of a group: the key of the document and the fields of a MatchGroup."""
GROUPING = "group by 1, 2, 3, 4, 5, 6, 7"


def with_models(db: Database, rows: Sequence[tuple[Any, ...]]) -> MatchGroups:
    """The groups of the rows of an engine, with the models of their documents."""
    ids = {key: id_ for key, id_, *_ in rows}
    members, value = db.in_list(list(ids))
    models: dict[str, list[str]] = {}
    pairs = db.rows(
        "select distinct document, model from passage "
        f"where {db.own()} and model is not null and document in ({members}) order by 1, 2",
        (value,),
    )
    for key, model in pairs:
        models.setdefault(ids[key], []).append(model)
    groups = [MatchGroup(*row[1:]) for row in rows]
    return MatchGroups(groups, {id_: tuple(names) for id_, names in models.items()})


def group_candidates(candidates: Iterable[Candidate]) -> list[MatchGroup]:
    """The same groups, made of passages that have been read."""
    counts = Counter((c.document, c.kind, c.source, c.project, c.role, _day(c)) for c in candidates)
    return [MatchGroup(*fields, count) for fields, count in counts.items()]


def _day(candidate: Candidate) -> int | None:
    time = micros(candidate.created_at)
    if time is None:
        return None
    return time // _DAY
