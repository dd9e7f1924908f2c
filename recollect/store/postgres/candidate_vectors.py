"""Read candidates together with their vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from recollect.store.postgres.connection import Connection
from recollect.store.postgres.filters import OWNER
from recollect.store.sql.reading.candidates import decode_candidates
from recollect.store.values import Candidate, Space

_NAMES = ", ".join(Candidate._fields)
_NO_CANDIDATE = ", ".join(["null"] * (len(Candidate._fields) - 1))


def read_candidates(db: Connection, query: str, values: Sequence[Any]) -> list[Candidate]:
    """Candidates that a query of COLUMNS returns, of which the keys are the first value.

    If the search compares vectors, those of the candidates are read as well.
    """
    if not values[0]:
        return []
    plan = db.plan
    if plan is None or plan.space is None or db.results is None or db.results.plan is not plan:
        return decode_candidates(db.rows(query, values, generic_plan=True))
    vectors = db.results.vectors
    rows = db.rows(
        f"""with c({_NAMES}) as materialized ({query})
        select c.*, null as scale, null as numbers from c
        union all select c.key, {_NO_CANDIDATE}, v.scale, v.numbers
        from c cross join lateral (select v.scale, v.numbers from vector v
          where v.owner = {OWNER} and v.space = ?::integer and v.passage = c.key offset 0) v
        where c.key not in (select unnest(?::bigint[]))""",
        (*values, plan.space.id, list(vectors)),
        generic_plan=True,
    )
    candidates = []
    for row in rows:
        *columns, scale, numbers = row
        if numbers is None:
            candidates.append(columns)
            vectors.setdefault(row[0], [])
        else:
            vectors.setdefault(row[0], []).append((row[0], scale, numbers))
    return decode_candidates(candidates)


def planned_vectors(
    db: Connection, space: Space, keys: Sequence[int]
) -> tuple[list[tuple[Any, ...]], list[int]]:
    """The rows of vectors that were read with their candidates, and the other keys."""
    if db.results is None or db.results.plan.space != space:
        return [], list(keys)
    rows: list[tuple[Any, ...]] = []
    others = []
    for key in keys:
        if key in db.results.vectors:
            rows += db.results.vectors[key]
        else:
            others.append(key)
    return rows, others
