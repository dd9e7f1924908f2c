"""Citus: tables that are distributed over several machines by their owner.

All rows of a user are on one worker, so her transactions run there. `account` and `migration` stay
on the coordinator: Citus does not pass privileges on columns on.
"""

from __future__ import annotations

from typing import Any

import psycopg

_LOCAL_TABLES = ("account", "migration")
_PARTITIONING = " partition by hash (owner)"
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


def without_partitions(script: str) -> str:
    """A migration for a cluster, where a table has shards instead of partitions."""
    return script.replace(_PARTITIONING, "")


def _undistributed_tables(connection: psycopg.Connection[Any], schema: str) -> list[str]:
    """The tables with an owner that are not distributed yet, in the order to distribute them."""
    rows = connection.execute(
        """select c.relname from pg_class c
        where c.relnamespace = %s::regnamespace and c.relkind in ('r', 'p')
          and not c.relispartition and c.relname <> all(%s)
          and not exists (select from pg_dist_partition d where d.logicalrelid = c.oid)
        order by array_position(%s, c.relname::text), c.relname""",
        [schema, list(_LOCAL_TABLES), list(_FIRST_TABLES)],
    ).fetchall()
    return [name for (name,) in rows]


def distribute_tables(connection: psycopg.Connection[Any], schema: str) -> None:
    """Distribute the tables that are not distributed yet."""
    for table in _undistributed_tables(connection, schema):
        _drop_sequences(connection, schema, table)
        colocate_with = "none"
        if table != _FIRST_TABLES[0]:
            colocate_with = f"{schema}.{_FIRST_TABLES[0]}"
        connection.execute(
            "select create_distributed_table(%s, 'owner', colocate_with => %s)",
            [f"{schema}.{table}", colocate_with],
        )


def _drop_sequences(connection: psycopg.Connection[Any], schema: str, table: str) -> None:
    """Drop the defaults that use a sequence, which older versions needed."""
    rows = connection.execute(
        """select a.attname from pg_attrdef d
          join pg_attribute a on a.attrelid = d.adrelid and a.attnum = d.adnum
        where d.adrelid = %s::regclass and pg_get_expr(d.adbin, d.adrelid) like 'nextval%%'""",
        [f"{schema}.{table}"],
    ).fetchall()
    for (column,) in rows:
        connection.execute(f"alter table {schema}.{table} alter {column} drop default")


def distribute_function(connection: psycopg.Connection[Any], name: str) -> None:
    """Let a function run on the worker that has the owner in its first argument."""
    connection.execute(
        """select create_distributed_function(%s::regprocedure, '$1',
          colocate_with => 'recollect.last_key', force_delegation => true)""",
        [name],
    )
