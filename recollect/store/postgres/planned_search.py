"""Find the matches by words and the nearest neighbours with one statement (see `Store.expect`).

A cluster runs a search function only if it is alone in its statement, so there the
neighbours are read separately.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from recollect.language.queries.query_tree import Node
from recollect.model.search import Filter
from recollect.store.postgres.connection import Connection, PlannedResults
from recollect.store.postgres.text.best_matches import (
    MATCHES,
    FewMatches,
    Step,
    StepMatches,
    matches_of_steps,
    remembered_matches,
    step_arguments,
    steps_of,
)
from recollect.store.postgres.text.counts import Counts
from recollect.store.postgres.text.matches import among_query, few_passages, filter_arguments
from recollect.store.sql.reading.selection import document_filter, resolve_filter
from recollect.store.values import SearchPlan, Space


def planned_matches(
    db: Connection, node: Node, filter: Filter, limit: int, counts: Counts
) -> list[int] | None:
    """The matches of a query if they are part of the plan, otherwise None."""
    plan = db.plan
    if plan is None or node not in plan.nodes or (filter, limit) != (plan.filter, plan.limit):
        return None
    if db.results is None or db.results.plan is not plan:
        db.results = _run(db, plan, counts)
    return db.results.matches.get(node)


def planned_total(db: Connection, node: Node, filter: Filter) -> int | None:
    """The number of all matches of a query, if the plan has counted them."""
    if db.results is None or filter != db.results.plan.filter:
        return None
    return db.results.totals.get(node)


def planned_neighbours(
    db: Connection, space: Space, vector: Any, filter: Filter, limit: int
) -> list[tuple[int, float]] | None:
    """The nearest neighbours, if the plan has read them."""
    if db.results is None or db.results.plan.vector is not vector:
        return None
    plan = db.results.plan
    if (space, filter, limit) != (plan.space, plan.filter, plan.limit):
        return None
    return db.results.neighbours


def _run(db: Connection, plan: SearchPlan, counts: Counts) -> PlannedResults:
    results = PlannedResults(plan)
    filter = resolve_filter(db, plan.filter)
    if document_filter(filter) != Filter(hidden=True):
        _read_few(db, plan, filter, counts, results)
        return results  # otherwise, the documents come first
    steps: list[Step] = []
    for node in plan.nodes:
        remembered = remembered_matches(db, node, filter, plan.limit, counts)
        if remembered is not None:
            _add_matches(results, node, remembered)
            if len(remembered.keys) >= plan.limit:
                break
            continue
        node_steps = steps_of(db, node, plan.limit, counts)
        if not node_steps:
            return results
        steps += node_steps
    rows = _read_arms(db, plan, filter, steps, results)
    for node, matches in matches_of_steps(steps, rows, plan.limit).items():
        _add_matches(results, node, matches)
    return results


def _read_few(
    db: Connection, plan: SearchPlan, filter: Filter, counts: Counts, results: PlannedResults
) -> None:
    """Both arms, if the passages that pass the filter are few."""
    few_clause = few_passages(db, filter)
    if few_clause is None or not db.server.pgvector:
        return
    from recollect.store.postgres.vectors import nearest_among, rows_for

    keys = "(select l.keys from listed l)::bigint[]"
    few = FewMatches(db, plan.nodes, counts)
    among, among_values = among_query(db, few.queries, keys)
    clause, values = few_clause
    statement = f"""{clause}
      select null::bigint as number, null::bigint as key, null::integer as length, l.is_few,
        null::boolean as sure, null::real as scale, null::halfvec as numbers from listed l
      union all select m.*, null, null from ({among}) m"""
    values += among_values
    if plan.space is not None:
        nearest, vector = nearest_among(db, plan.space, plan.vector, keys, rows_for(plan.limit))
        statement += f"""
      union all select -1, n.passage, null, null, null, n.scale, n.numbers from ({nearest}) n"""
        values.append(vector)
    by_number: dict[int | None, list[tuple[Any, ...]]] = defaultdict(list)
    for row in db.rows(statement, values):
        by_number[row[0]].append(row)
    ((_, _, _, is_few, *_),) = by_number.pop(None)
    if not is_few:
        return
    neighbours = [(row[1], row[5], row[6]) for row in by_number.pop(-1, [])]
    if plan.space is not None:
        _add_neighbours(results, plan, neighbours)
    match_rows = [row[:5] for rows in by_number.values() for row in rows]
    for node, matches in few.matches(match_rows, plan.limit).items():
        _add_matches(results, node, matches)


def _add_neighbours(
    results: PlannedResults, plan: SearchPlan, rows: Sequence[tuple[Any, ...]]
) -> None:
    from recollect.store.postgres.vectors import nearest_of_rows

    assert plan.space is not None
    for row in rows:
        results.vectors.setdefault(row[0], []).append(row)
    results.neighbours = nearest_of_rows(rows, plan.space, plan.vector, plan.limit)


def _add_matches(results: PlannedResults, node: Node, matches: StepMatches) -> None:
    results.matches[node] = matches.keys
    if matches.total is not None:
        results.totals[node] = matches.total


def _read_arms(
    db: Connection,
    plan: SearchPlan,
    filter: Filter,
    steps: Sequence[Step],
    results: PlannedResults,
) -> list[tuple[Any, ...]]:
    """The rows of MATCHES. The results receive the neighbours, if they are part of the plan."""
    can_combine = db.server.pgvector and not db.server.is_cluster
    has_neighbours = plan.space is not None and can_combine
    if not steps and not has_neighbours:
        return []
    arguments = step_arguments(steps, plan.limit, filter_arguments(db, filter))
    if plan.space is None or not can_combine:
        return db.rows(f"select * from {MATCHES}", arguments, generic_plan=True)
    from recollect.store.postgres.vectors import nearest_query, rows_for

    query, values = nearest_query(db, plan.space, plan.vector, filter, rows_for(plan.limit))
    rows = db.rows(
        f"""select m.step, m.key, m.weight, m.length, m.total, null::real as scale,
          null::halfvec as numbers
        from {MATCHES} m
        union all select 0, n.passage, null, null, null, n.scale, n.numbers from ({query}) n""",
        (*arguments, *values),
        generic_plan=True,
    )
    _add_neighbours(results, plan, [(row[1], row[5], row[6]) for row in rows if row[0] == 0])
    return [row[:5] for row in rows if row[0] != 0]
