"""Citus: tables that are distributed over several machines by their owner.

All rows of a user are on one worker, so her transactions run there. `account` stays on the
coordinator, because Citus does not pass privileges on columns on, and so does the version.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg

# Other tables refer to these, so they are distributed first.
_FIRST_TABLES = ("last_key", "document", "passage", "receipt")

PROPAGATE_SETTINGS = "set citus.propagate_set_commands = 'local'"
"""Makes `set local` apply on the workers, where policies read the owner."""
ONE_CONNECTION_PER_WORKER = "set local citus.multi_shard_modify_mode = 'sequential'"
"""Needed by a transaction that creates roles, schemas or functions besides tables."""


def is_cluster(connection: psycopg.Connection[Any]) -> bool:
    """Whether this database is the coordinator of a Citus cluster."""
    row = connection.execute(
        "select exists (select from pg_extension where extname = 'citus')"
    ).fetchone()
    return bool(row and row[0])


def is_distributed(connection: psycopg.Connection[Any]) -> bool:
    """Whether our tables are distributed over the workers of a cluster."""
    if not is_cluster(connection):
        return False
    row = connection.execute(
        """select exists (select from pg_dist_partition
        where logicalrelid = to_regclass('recollect.last_key'))"""
    ).fetchone()
    return bool(row and row[0])


def distribute_tables(
    connection: psycopg.Connection[Any], schema: str, local_tables: Sequence[str]
) -> None:
    """Distribute the tables that have an owner."""
    rows = connection.execute(
        """select c.relname from pg_class c
        where c.relnamespace = %s::regnamespace and c.relkind = 'r' and c.relname <> all(%s)
        order by array_position(%s, c.relname::text), c.relname""",
        [schema, list(local_tables), list(_FIRST_TABLES)],
    ).fetchall()
    for (table,) in rows:
        colocate_with = "none"
        if table != _FIRST_TABLES[0]:
            colocate_with = f"{schema}.{_FIRST_TABLES[0]}"
        connection.execute(
            "select create_distributed_table(%s, 'owner', colocate_with => %s)",
            [f"{schema}.{table}", colocate_with],
        )


def distribute_function(connection: psycopg.Connection[Any], name: str) -> None:
    """Let a function run on the worker that has the owner in its first argument."""
    connection.execute(
        """select create_distributed_function(%s::regprocedure, '$1',
          colocate_with => 'recollect.last_key', force_delegation => true)""",
        [name],
    )
