"""Administer a database: prepare it, show its state, and spread it over the nodes of a cluster."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg import errors, sql

from recollect.errors import InvalidInput, NotFound, RecollectError
from recollect.settings import LIMITS
from recollect.store.postgres.api_keys import ROLE as KEYS
from recollect.store.postgres.api_keys import create_tables
from recollect.store.postgres.schema import (
    APP,
    SCHEMA,
    connect_as_login,
    is_created,
    is_distributed,
    one,
    prepare,
    server_version,
)
from recollect.store.postgres.server_errors import explain_errors, location_of
from recollect.store.postgres.shared_database import ROLE as SERVER
from recollect.store.postgres.shared_database import create_shared_tables
from recollect.store.shared import (
    exclusions,
    jobs,
    sessions,
    uploads,
)

SHARED_TABLES = (
    sessions.TABLES,
    jobs.TABLES,
    uploads.TABLES,
    exclusions.TABLES,
)
"""What servers share. A login without other privileges cannot create these tables itself."""
_NOT_DISTRIBUTED = (
    "The libraries at {location} are not distributed over several machines. Prepare a new database "
    "in which the extension citus is installed, and move users into it with `recollect move`. See "
    "docs/postgres.md."
)


@dataclass(frozen=True, slots=True)
class Node:
    """A machine of a cluster."""

    host: str
    port: int
    is_active: bool
    shards: int
    bytes: int


@dataclass(frozen=True, slots=True)
class DatabaseStatus:
    location: str
    version: str
    is_prepared: bool
    """Whether programs can use it. Otherwise it has no schema."""
    users: int | None = None
    """None if this login may not count them."""
    nodes: list[Node] = field(default_factory=list)
    """Empty unless the database is a cluster."""


def prepare_database(url: str, login: str | None = None) -> DatabaseStatus:
    """Create all tables, and let a login use them."""
    location = location_of(url)
    with explain_errors(location):
        prepare(url, location)
        with connect_as_login(url, location) as connection:
            create_tables(connection)
            create_shared_tables(url, SHARED_TABLES)
            if login is not None:
                grant_roles(connection, login)
    return database_status(url)


def grant_roles(connection: psycopg.Connection[Any], login: str) -> None:
    """Let a login use the libraries, the API keys and what servers share."""
    # The login acts as the application, but uses the other schemas as itself.
    inherit = ""
    if connection.info.server_version >= 160000:
        inherit = " with inherit true"
    try:
        for role, options in ((APP, ""), (KEYS, inherit), (SERVER, inherit)):
            connection.execute(
                sql.SQL(f"grant {role} to {{}}{options}").format(sql.Identifier(login))
            )
    except errors.UndefinedObject as error:
        raise NotFound(
            f"There is no role {login!r}. Create it first: create role {login} login password …"
        ) from error


def database_status(url: str) -> DatabaseStatus:
    location = location_of(url)
    with explain_errors(location), connect_as_login(url, location) as connection:
        is_prepared = is_created(connection, location)
        # Only a login that bypasses the policies can count the users.
        can_count = is_prepared and one(
            connection, "select rolsuper or rolbypassrls from pg_roles where rolname = current_user"
        )
        users = one(connection, f"select count(*) from {SCHEMA}.account") if can_count else None
        return DatabaseStatus(
            location, server_version(connection), is_prepared, users, _nodes(connection)
        )


def _nodes(connection: psycopg.Connection[Any]) -> list[Node]:
    if not is_distributed(connection):
        return []
    rows = connection.execute(
        """select n.nodename, n.nodeport, n.isactive, count(s.shardid),
          coalesce(sum(s.shard_size), 0)
        from pg_dist_node n
          left join citus_shards s on s.nodename = n.nodename and s.nodeport = n.nodeport
        group by 1, 2, 3, n.groupid order by n.groupid"""
    ).fetchall()
    return [Node(host, port, active, count, int(size)) for host, port, active, count, size in rows]


# -- clusters ---


def spread(url: str) -> DatabaseStatus:
    """Give every worker of a cluster its share of the users, while they read and write."""
    location = location_of(url)
    with explain_errors(location), connect_as_login(url, location) as connection:
        require_cluster(connection, location)
        connection.execute("select citus_rebalance_start()")
        connection.execute("select citus_rebalance_wait()")
    return database_status(url)


def move_user(url: str, user: str, host: str, port: int) -> None:
    """Move a user to another worker of a cluster, while the user reads and writes."""
    location = location_of(url)
    with explain_errors(location), connect_as_login(url, location) as connection:
        require_cluster(connection, location)
        owner = owner_of(connection, user, location)
        shard = isolate(connection, owner)
        ((source_host, source_port),) = connection.execute(
            "select nodename, nodeport from pg_dist_shard_placement where shardid = %s", [shard]
        ).fetchall()
        if (source_host, source_port) == (host, port):
            return
        require_worker(connection, host, port)
        connection.execute(
            "select citus_move_shard_placement(%s, %s, %s, %s, %s)",
            [shard, source_host, source_port, host, port],
        )


def require_cluster(connection: psycopg.Connection[Any], location: str) -> None:
    if not is_distributed(connection):
        raise RecollectError(_NOT_DISTRIBUTED.format(location=location))


def require_worker(connection: psycopg.Connection[Any], host: str, port: int) -> None:
    rows = connection.execute(
        "select nodename, nodeport from pg_dist_node where shouldhaveshards order by groupid"
    ).fetchall()
    if (host, port) not in rows:
        names = ", ".join(f"{name}:{number}" for name, number in rows)
        raise InvalidInput(f"{host}:{port} is not a worker of this cluster. Its workers: {names}.")


def owner_of(connection: psycopg.Connection[Any], user: str, location: str) -> int:
    with connection.transaction():
        connection.execute("select set_config('recollect.user', %s, true)", [user])
        owner = one(connection, f"select id from {SCHEMA}.account where name = %s", user)
    if owner is None:
        raise NotFound(f"There is no library of {user!r} at {location}.")
    return int(owner)


def isolate(connection: psycopg.Connection[Any], owner: int) -> int:
    """Give a user shards of her own, and return one of them. The others move with it."""
    table = f"{SCHEMA}.last_key"
    ((shard, is_alone),) = connection.execute(
        """select s.shardid, s.shardminvalue = s.shardmaxvalue from pg_dist_shard s
        where s.shardid = get_shard_id_for_distribution_column(%s, %s)""",
        [table, owner],
    ).fetchall()
    if not is_alone:
        shard = split_shard(connection, table, owner)
    return int(shard)


def split_shard(connection: psycopg.Connection[Any], table: str, owner: int) -> int:
    """Split the shards that a user shares with others. Their writes wait for that.

    Without blocking writes, a split hangs if somebody updates a row in the meantime:
    https://github.com/citusdata/citus/issues/6790
    """
    # Writers give up after their time is over.
    seconds = LIMITS.write_wait_seconds * 2 / 3
    connection.execute(f"set statement_timeout = {seconds * 1000:.0f}")
    try:
        ((shard,),) = connection.execute(
            "select isolate_tenant_to_new_shard(%s::regclass, %s, 'CASCADE', "
            "shard_transfer_mode => 'block_writes')",
            [table, owner],
        ).fetchall()
    except errors.QueryCanceled as error:
        raise RecollectError(
            f"The shards of this user cannot be split within {seconds:.0f} seconds, for which "
            "other users would have to wait. Nothing was changed. Prepare a new database with more "
            "shards (citus.shard_count), or move the user into a database of its own with "
            "`recollect move`."
        ) from error
    finally:
        connection.execute("reset statement_timeout")
    return int(shard)
