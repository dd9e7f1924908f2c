"""Find the matches by words and the nearest neighbours with one statement (see `Store.expect`).

A search can have several plans, such as one for messages and one for observations. The statement is
a union of what each of them has to read.

A cluster runs a search function only if it is alone in its statement, so there each of them has a
statement of its own, and the neighbours of such a plan are read separately.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

from recollect.language.queries.query_tree import Node
from recollect.model.search import Filter
from recollect.store.postgres.connections.connection import Connection
from recollect.store.postgres.connections.search_state import PlannedResults
from recollect.store.postgres.text.best_matches import (
    MATCHES,
    MATCHES_IN_CHOSEN,
    FewMatches,
    Step,
    StepMatches,
    best,
    matches_of_steps,
    remembered_matches,
    step_arguments,
    steps_of,
)
from recollect.store.postgres.text.counts import Counts
from recollect.store.postgres.text.lexemes import text_query
from recollect.store.postgres.text.matches import (
    among_query,
    filter_arguments,
    filter_without_documents,
    selected_passages,
)
from recollect.store.sql.reading.selection import document_filter, resolve_filter
from recollect.store.values import SearchPlan, Space

Row = tuple[Any, ...]
_LISTED = "(select l.keys from listed l)::bigint[]"
_TYPES = {
    "number": "integer",
    "key": "bigint",
    "weight": "float8",
    "length": "integer",
    "total": "bigint",
    "is_match": "boolean",
    "sure": "boolean",
    "scale": "real",
    "numbers": "halfvec",
}
"""The columns of the rows: those that `matches` and `among_query` return, and those of vectors."""
_MATCH_COLUMNS = 5
_IS_MATCH = 5
_among_columns = itemgetter(0, 1, 3, 5, 6)
_VECTOR = 7
# What a row is about. Matches have the number of a step or query instead.
_NEAREST = -1
_SUMMARY = -2


def planned_matches(
    db: Connection, node: Node, filter: Filter, limit: int, counts: Counts
) -> list[int] | None:
    """The matches of a query if they are part of a plan, otherwise None."""
    for place, plan in enumerate(db.planned.plans):
        if node in plan.nodes and (filter, limit) == (plan.filter, plan.limit):
            return _results(db, counts)[place].matches.get(node)
    return None


def has_match(db: Connection, node: Node, filter: Filter, counts: Counts) -> bool:
    """See Store.has_match."""
    query = text_query(node)
    if resolve_filter(db, filter) == Filter() and query.is_exact and not query.has_phrases:
        visible = counts.visible(db, query.tsquery)
        if visible is not None:
            return visible > 0
    results = PlannedResults()
    reading = _reading(db, SearchPlan((node,), filter, 1), counts, results)
    if reading is not None:
        _read(db, [reading])
    keys = results.matches.get(node)
    if keys is None:
        keys = best(db, node, resolve_filter(db, filter), 1, counts)
    return bool(keys)


def planned_total(db: Connection, node: Node, filter: Filter) -> int | None:
    """The number of all matches of a query, if a plan has counted them."""
    for plan, results in zip(db.planned.plans, db.planned.results or (), strict=False):
        if filter == plan.filter and node in results.totals:
            return results.totals[node]
    return None


def planned_neighbours(
    db: Connection, space: Space, vector: Any, filter: Filter, limit: int
) -> list[tuple[int, float]] | None:
    """The nearest neighbours, if a plan has read them."""
    for plan, results in zip(db.planned.plans, db.planned.results or (), strict=False):
        is_planned = (space, filter, limit) == (plan.space, plan.filter, plan.limit)
        if is_planned and plan.vector is vector:
            return results.neighbours
    return None


def _results(db: Connection, counts: Counts) -> list[PlannedResults]:
    planned = db.planned
    if planned.results is None:
        results = [PlannedResults() for _ in planned.plans]
        readings: list[_Reading] = []
        most_matches: float = math.inf
        for plan, plan_results in zip(planned.plans, results, strict=True):
            if plan.after_matches > most_matches:
                plan = plan._replace(nodes=())
            reading = _reading(db, plan, counts, plan_results)
            if reading is not None:
                readings.append(reading)
            if not plan.after_matches:
                most_matches = _most_matches(plan, plan_results)
        _read(db, readings)
        planned.results = results
    return planned.results


def _most_matches(plan: SearchPlan, results: PlannedResults) -> float:
    """The most matches that a plan can have, as far as that is known before anything is read."""
    if not plan.nodes or plan.nodes[-1] not in results.matches:
        return math.inf
    return len({key for keys in results.matches.values() for key in keys})


class _Reading(NamedTuple):
    """What the statement reads for one plan."""

    sql: str
    values: Sequence[Any]
    receive: Callable[[Sequence[Row]], None]
    generic_plan: bool
    is_function: bool = False
    """Whether it is a call of a search function, which is alone in its statement on a cluster."""


def _read(db: Connection, readings: Sequence[_Reading]) -> None:
    """Read everything with one statement; on a cluster, the functions with one for each."""
    if db.server.is_cluster:
        for reading in readings:
            if reading.is_function:
                reading.receive(db.rows(reading.sql, reading.values))
        readings = [reading for reading in readings if not reading.is_function]
    if not readings:
        return
    selections = [
        f"select {place} as place, r.* from ({reading.sql}) r"
        for place, reading in enumerate(readings)
    ]
    values = [value for reading in readings for value in reading.values]
    rows_of_readings: list[list[Row]] = [[] for _ in readings]
    generic_plan = all(reading.generic_plan for reading in readings)
    for place, *row in db.rows(" union all ".join(selections), values, generic_plan=generic_plan):
        rows_of_readings[place].append(tuple(row))
    for reading, rows in zip(readings, rows_of_readings, strict=True):
        reading.receive(rows)


def _reading(
    db: Connection, plan: SearchPlan, counts: Counts, results: PlannedResults
) -> _Reading | None:
    filter = resolve_filter(db, plan.filter)
    if document_filter(filter) == Filter(hidden=True):
        return _read_any_document(db, plan, filter, counts, results)
    return _read_selected_documents(db, plan, filter, counts, results)


def _read_any_document(
    db: Connection, plan: SearchPlan, filter: Filter, counts: Counts, results: PlannedResults
) -> _Reading | None:
    steps = _steps_to_read(db, plan, filter, counts, results)
    if steps is None:
        return None
    selections = []
    values: list[Any] = []
    if steps:
        selections.append(_step_rows(db, MATCHES))
        values += step_arguments(steps, plan.limit, filter_arguments(db, filter))
    is_function = bool(steps) and db.server.is_cluster
    has_neighbours = plan.space is not None and bool(db.server.pgvector) and not is_function
    if has_neighbours:
        query, more_values = _nearest_query(db, plan, filter)
        selections.append(_vector_rows(db, query))
        values += more_values
    if not selections:
        return None

    def receive(rows: Sequence[Row]) -> None:
        if has_neighbours:
            _add_neighbours(db, plan, results, rows)
        step_rows = [row[:_MATCH_COLUMNS] for row in rows if row[0] != _NEAREST]
        _add_all_matches(results, matches_of_steps(steps, step_rows, plan.limit))

    sql = " union all ".join(selections)
    return _Reading(sql, values, receive, generic_plan=True, is_function=is_function)


def _steps_to_read(
    db: Connection, plan: SearchPlan, filter: Filter, counts: Counts, results: PlannedResults
) -> list[Step] | None:
    """The steps of the queries whose matches are not remembered.

    None if the index cannot decide one of them.
    """
    steps: list[Step] = []
    for node in plan.nodes:
        remembered = remembered_matches(db, node, filter, plan.limit, counts)
        if remembered is not None:
            _add_all_matches(results, {node: remembered})
            if len(remembered.keys) >= plan.limit:
                break
            continue
        node_steps = steps_of(db, node, plan.limit, counts)
        if not node_steps:
            return None
        steps += node_steps
    return steps


def _read_selected_documents(
    db: Connection, plan: SearchPlan, filter: Filter, counts: Counts, results: PlannedResults
) -> _Reading | None:
    """If the passages that pass the filter are few, the others are not looked at."""
    if not db.server.pgvector:
        return None
    few = FewMatches(db, plan.nodes, counts)
    steps = _steps_of_all(db, plan, counts)
    clause, values = selected_passages(db, filter)
    selections = [_select(db, "from listed l", number=str(_SUMMARY), is_match="l.is_few")]
    if plan.nodes:
        query, more_values = among_query(db, few.queries, _LISTED)
        selections.append(_among_rows(db, query))
        values += more_values
    if steps and not db.server.is_cluster:
        selections.append(_step_rows(db, MATCHES_IN_CHOSEN))
        values += step_arguments(steps, plan.limit, filter_without_documents(filter))
    if plan.space is not None:
        for query, more_values in _nearest_in_documents(db, plan, filter):
            selections.append(_vector_rows(db, query))
            values += more_values

    def receive(rows: Sequence[Row]) -> None:
        (is_few,) = (row[_IS_MATCH] for row in rows if row[0] == _SUMMARY)
        if not is_few and db.server.is_cluster:
            return
        if plan.space is not None:
            _add_neighbours(db, plan, results, rows)
        match_rows = [row for row in rows if row[0] >= 0]
        if is_few:
            _add_all_matches(results, few.matches(map(_among_columns, match_rows), plan.limit))
        else:
            step_rows = [row[:_MATCH_COLUMNS] for row in match_rows]
            _add_all_matches(results, matches_of_steps(steps, step_rows, plan.limit))

    sql = f"{clause} {' union all '.join(selections)}"
    return _Reading(sql, values, receive, generic_plan=False)


def _nearest_query(db: Connection, plan: SearchPlan, filter: Filter) -> tuple[str, list[Any]]:
    from recollect.store.postgres.vectors import nearest_query, rows_for

    assert plan.space is not None
    return nearest_query(db, plan.space, plan.vector, filter, rows_for(plan.limit))


def _nearest_in_documents(
    db: Connection, plan: SearchPlan, filter: Filter
) -> list[tuple[str, list[Any]]]:
    """Queries of which one finds the nearest vectors, because there are few passages or many."""
    from recollect.store.postgres.vectors import nearest_among, nearest_in_chosen, rows_for

    assert plan.space is not None
    row_limit = rows_for(plan.limit)
    query, vector = nearest_among(db, plan.space, plan.vector, _LISTED, row_limit)
    queries = [(query, [vector])]
    if not db.server.is_cluster:
        queries.append(nearest_in_chosen(db, plan.space, plan.vector, filter, row_limit))
    return queries


def _steps_of_all(db: Connection, plan: SearchPlan, counts: Counts) -> list[Step]:
    """The steps of all queries; none if the index cannot decide one of them."""
    steps: list[Step] = []
    for node in plan.nodes:
        node_steps = steps_of(db, node, plan.limit, counts)
        if not node_steps:
            return []
        steps += node_steps
    return steps


# -- rows ----------------------------------------------------------------------


def _step_rows(db: Connection, source: str) -> str:
    if db.server.is_cluster:
        return f"select * from {source}"
    return _select(
        db,
        f"from {source} m",
        number="m.step",
        key="m.key",
        weight="m.weight",
        length="m.length",
        total="m.total",
    )


def _among_rows(db: Connection, query: str) -> str:
    return _select(
        db,
        f"from ({query}) m",
        number="m.number",
        key="m.key",
        length="m.length",
        is_match="m.is_match",
        sure="m.sure",
    )


def _vector_rows(db: Connection, query: str) -> str:
    return _select(
        db,
        f"from ({query}) n",
        number=str(_NEAREST),
        key="n.passage",
        scale="n.scale",
        numbers="n.numbers",
    )


def _select(db: Connection, source: str, **columns: str) -> str:
    """Rows of a plan. They have the same columns, some of which are null."""
    types = _TYPES
    if not db.server.pgvector:
        types = types | {"numbers": "bytea"}
    names = [
        f"{columns.get(name, 'null')}::{type_name} as {name}" for name, type_name in types.items()
    ]
    return f"select {', '.join(names)} {source}"


# -- results ---------------------------------------------------------------------


def _add_neighbours(
    db: Connection, plan: SearchPlan, results: PlannedResults, rows: Sequence[Row]
) -> None:
    from recollect.store.postgres.vectors import nearest_of_rows

    assert plan.space is not None
    vectors = [(row[1], *row[_VECTOR:]) for row in rows if row[0] == _NEAREST]
    by_key: dict[int, list[Row]] = defaultdict(list)
    for row in vectors:
        by_key[row[0]].append(row)
    db.planned.vectors |= by_key
    results.neighbours = nearest_of_rows(vectors, plan.space, plan.vector, plan.limit)


def _add_all_matches(results: PlannedResults, matches: Mapping[Node, StepMatches]) -> None:
    for node, (keys, total) in matches.items():
        results.matches[node] = keys
        if total is not None:
            results.totals[node] = total
