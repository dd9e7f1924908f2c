"""Check that statements name the owner of every table they use, with the server's own planner.

The planner runs without row-level security, so only the statement itself can name the owner. If it
does for every table, all of its scans are in one partition: that of the owner.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from recollect.store.postgres.connection import Connection, number_parameters

Statement = tuple[str, Sequence[Any]]
_PARTITION = re.compile(r"_(\d+)$")
_INSERT = re.compile(r"\s*insert into \w+ \((\w+)")
# The owner, hidden from the planner: see `Connection.by_key`.
_HIDDEN_OWNER = "(select $1::integer)"
_FUNCTIONS = re.compile(r"\b(frequencies|counted|matches|newest|absent)\((\$\d+)")


class Recorder:
    """Keeps each statement that the store executes in a database, with the first values."""

    def __init__(self) -> None:
        self.new: list[Statement] = []
        self._known: set[str] = set()

    def add(self, sql: str, values: Sequence[Any]) -> None:
        if sql not in self._known and not sql.startswith(("explain", "set ")):
            self._known.add(sql)
            self.new.append((sql, values))

    def take(self) -> list[Statement]:
        statements, self.new = self.new, []
        return statements


@contextmanager
def record_statements(database: str) -> Iterator[Recorder]:
    """Record what the store executes in the database with this name."""
    recorder = Recorder()
    execute, run_many = Connection._execute, Connection.run_many

    def record(db: Connection, sql: str, values: Sequence[Any], *options: Any) -> Any:
        # A test may read all rows of its database.
        if db._session.info.dbname == database and _is_called_by_store():
            recorder.add(number_parameters(sql), db._parameters(sql, values))
        return execute(db, sql, values, *options)

    def record_many(db: Connection, sql: str, values: Any) -> None:
        rows = list(values)
        if rows and db._session.info.dbname == database and _is_called_by_store():
            recorder.add(number_parameters(sql), db._parameters(sql, rows[0]))
        run_many(db, sql, rows)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Connection, "_execute", record)
        patch.setattr(Connection, "run_many", record_many)
        yield recorder


def _is_called_by_store() -> bool:
    """Whether the caller of a method of the connection is a module of the package."""
    connection = Connection.rows.__code__.co_filename
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_code.co_filename == connection:
        frame = frame.f_back
    return frame.f_globals["__name__"].startswith("recollect.")


def problem(planner: psycopg.Connection[Any], statement: Statement) -> str:
    """What is wrong with a statement; empty if it names the owner everywhere.

    `planner` is a connection of a superuser.
    """
    sql, values = statement
    inserted = _INSERT.match(sql)
    if inserted and inserted[1] != "owner" and "insert into account" not in sql:
        return "it inserts rows without an owner"
    for name, first in _FUNCTIONS.findall(sql):
        if first != "$1":
            return f"the first argument of {name} is not the owner"
    cursor = psycopg.RawCursor(planner)
    cursor.execute(f"explain (format json) {sql.replace(_HIDDEN_OWNER, '$1::integer')}", values)
    ((plans,),) = cursor.fetchall()
    task_counts = list(_values(plans, "Task Count"))
    if task_counts:  # a cluster; a shard is a task
        return "it uses several shards" if max(task_counts) > 1 else ""
    tables: dict[str, set[str]] = {}
    for name in _values(plans, "Relation Name"):
        if not _PARTITION.search(name):
            continue
        table, _, number = name.rpartition("_")
        tables.setdefault(table, set()).add(number)
    if len(set().union(*tables.values())) > 1:
        return f"it uses several partitions of {', '.join(sorted(tables))}"
    return ""


def _values(plan: Any, key: str) -> Iterator[Any]:
    """The values of a key anywhere in a plan."""
    if isinstance(plan, list):
        for part in plan:
            yield from _values(part, key)
    if not isinstance(plan, dict):
        return
    if key in plan:
        yield plan[key]
    for part in plan.values():
        yield from _values(part, key)
