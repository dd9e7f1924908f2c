"""Create the schema of a PostgreSQL database (`schema.sql`), and check that a database has it.

There are three roles:

- The role that creates the schema owns the tables. Policies apply to it as well (`force`).
- Connections use `recollect_app`. It sees the rows of the owner that the transaction names.
- `recollect_search` owns the functions that search the text index. PostgreSQL does not use an index
  for `@@` under a policy, because `@@` is not leakproof. So a policy lets this role read all of
  `passage_text` and `word`, and each function selects the rows of the owner.

The last two can neither log in nor bypass row-level security.

On a Citus cluster, tables are distributed over several machines by their owner. All rows of a user
are on one worker, so her transactions run there. `account` stays on the
coordinator, because Citus does not pass privileges on columns on, and so does the version.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psycopg
from psycopg import errors, sql

from recollect.errors import NewerLibrary, RecollectError
from recollect.store.postgres.filters import may_be_human_only
from recollect.store.postgres.functions import SEARCH_FUNCTIONS, TRANSACTION_FUNCTIONS

VERSION = 1
SCHEMA = "recollect"
APP = "recollect_app"
"""The role of our connections. It sees the rows of the owner that the transaction names."""
SEARCH = "recollect_search"
"""The role that owns the search functions."""
PARTITIONS = 16
APPEND_ONLY = frozenset({"audit"})
"""Tables whose rows the application may neither change nor delete."""
WITHOUT_OWNER = ("account", "schema_version")
SCRIPT = Path(__file__).with_name("schema.sql")
_PARTITIONING = " partition by hash (owner)"
_LOCK = 0x5265636F


def create(connection: psycopg.Connection[Any], location: str) -> None:
    """Create the schema, unless the database has it. Either all of it exists afterwards, or none.

    Raises NewerLibrary if the database has another version.
    """
    if is_created(connection, location):
        return
    try:
        with connection.transaction():
            connection.execute(f"select pg_advisory_xact_lock({_LOCK}, 0)")
            # Another process may have created it in the meantime.
            if not is_created(connection, location):
                _create(connection)
    except errors.InsufficientPrivilege as error:
        raise RecollectError(
            f"{location} must be set up first ({error.diag.message_primary}). Open it once with a "
            "role that may create a schema and roles, as docs/postgres.md shows, then with this "
            "role again."
        ) from error


def is_created(connection: psycopg.Connection[Any], location: str) -> bool:
    """Whether the database has the schema of this version. Raises NewerLibrary for another one."""
    # The catalog shows this to any login.
    ((has_version,),) = connection.execute(
        """select bool_or(c.relname = 'schema_version')
        from pg_class c join pg_namespace n on n.oid = c.relnamespace
        where n.nspname = %s and c.relkind in ('r', 'p')""",
        [SCHEMA],
    ).fetchall()
    if has_version is None:  # there is no table
        return False
    version = read_version(connection, location) if has_version else 0
    if version != VERSION:
        raise NewerLibrary(
            f"{location} was written by another version of Recollect (schema {version}; this one "
            f"has schema {VERSION}). Nothing was changed. Open it with that version, and move what "
            "it has with `recollect export` and `recollect import`."
        )
    return True


def read_version(connection: psycopg.Connection[Any], location: str) -> int:
    try:
        # The rollback also resets the role.
        with connection.transaction(force_rollback=True):
            if can_use_app_role(connection):
                connection.execute(f"set local role {APP}")
            row = connection.execute(f"select max(version) from {SCHEMA}.schema_version").fetchone()
            return (row and row[0]) or 0
    except errors.InsufficientPrivilege as error:
        raise RecollectError(
            f"The role {connection.info.user} may not use the libraries in {location} "
            f"({error.diag.message_primary}). Grant it {APP}, as docs/postgres.md shows."
        ) from error


def can_use_app_role(connection: psycopg.Connection[Any]) -> bool:
    return can_set_role(connection, APP)


def can_set_role(connection: psycopg.Connection[Any], role: str) -> bool:
    """Whether the role exists and this login may use it.

    All databases of a server share their roles, so the role may belong to somebody else.
    """
    privilege = "set" if connection.info.server_version >= 160000 else "member"
    row = connection.execute(
        """select exists (select from pg_roles
        where rolname = %s and pg_has_role(current_user, oid, %s))""",
        [role, privilege],
    ).fetchone()
    return bool(row and row[0])


def extension_schema(connection: psycopg.Connection[Any], name: str) -> str:
    """The schema of an extension, or empty if it is not installed."""
    row = connection.execute(
        """select n.nspname from pg_extension e join pg_namespace n on n.oid = e.extnamespace
        where e.extname = %s""",
        [name],
    ).fetchone()
    return row[0] if row else ""


# -- creating it ---


def _create(connection: psycopg.Connection[Any]) -> None:
    on_cluster = is_cluster(connection)
    if on_cluster:
        connection.execute(ONE_CONNECTION_PER_WORKER)
    create_roles(connection, on_cluster)
    connection.execute(f"create schema if not exists {SCHEMA}")
    connection.execute(f"alter schema {SCHEMA} owner to current_user")
    for extension in ("btree_gin", "vector"):
        _try(connection, f"create extension if not exists {extension}")
    schemas = {SCHEMA: None} | {
        extension_schema(connection, name): None for name in ("btree_gin", "vector")
    }
    connection.execute(
        sql.SQL("set local search_path = {}").format(
            sql.SQL(", ").join(sql.Identifier(schema) for schema in schemas if schema)
        )
    )
    for statement in table_statements(connection, on_cluster):
        connection.execute(statement)
    connection.execute("insert into schema_version values (%s)", [VERSION])
    secure_tables(connection)
    if on_cluster:
        distribute_tables(connection, SCHEMA, WITHOUT_OWNER)
    create_functions(connection, on_cluster)


def create_roles(connection: psycopg.Connection[Any], on_cluster: bool) -> None:
    # The coordinator of a cluster logs in to its workers with the role of the transaction.
    login = "login" if on_cluster else "nologin"
    for role in (APP, SEARCH):
        _try(connection, f"create role {role} {login} nobypassrls")
        if on_cluster and not can_log_in(connection, role):
            _try(connection, f"alter role {role} login")
        _try(connection, f"grant {role} to current_user")


def can_log_in(connection: psycopg.Connection[Any], role: str) -> bool:
    row = connection.execute(
        "select rolcanlogin from pg_roles where rolname = %s", [role]
    ).fetchone()
    return bool(row and row[0])


def _try(connection: psycopg.Connection[Any], statement: str) -> None:
    """Run a statement. Ignore that the server or the login does not allow it."""
    try:
        with connection.transaction():
            connection.execute(statement)
    except (
        errors.InsufficientPrivilege,
        errors.FeatureNotSupported,
        errors.UndefinedFile,
        errors.UndefinedObject,
        errors.DuplicateObject,
        errors.UniqueViolation,
        errors.InvalidGrantOperation,
    ):
        pass  # what depends on it checks for it


def table_statements(connection: psycopg.Connection[Any], on_cluster: bool) -> Iterator[str]:
    """The statements of `schema.sql`, for what this server has, each with those for partitions.

    They are sent one by one, because Citus passes a message on as a whole.
    """
    script = re.sub(r"^--.*\n", "", SCRIPT.read_text(encoding="utf-8"), flags=re.MULTILINE)
    script = script.replace("{may_be_human_only}", may_be_human_only())
    has_pgvector = bool(extension_schema(connection, "vector"))
    if not has_pgvector:
        script = script.replace(" halfvec ", " bytea ")
    if not extension_schema(connection, "btree_gin"):
        script = script.replace("gin (owner, words)", "gin (words)")
    if on_cluster:
        script = script.replace(_PARTITIONING, "")
    for statement in re.split(r";\n+", script.strip()):
        yield statement
        if statement.endswith(_PARTITIONING):
            table = statement.split()[2]
            for number in range(PARTITIONS):
                yield (
                    f"create table {table}_{number} partition of {table} "
                    f"for values with (modulus {PARTITIONS}, remainder {number})"
                )
    if has_pgvector:
        yield "alter table vector alter numbers set storage plain"


def secure_tables(connection: psycopg.Connection[Any]) -> None:
    """Enable and force row-level security, and grant the application access.

    Partitions get no policy, so they can only be read through their table. Accounts cannot be
    changed or deleted, so nobody can take over the number of another user.
    """
    app = APP if can_use_app_role(connection) else "current_user"
    connection.execute(f"grant usage on schema {SCHEMA} to {app}")
    connection.execute(f"grant select on schema_version to {app}")
    tables = connection.execute(
        """select c.relname, c.relispartition from pg_class c
        where c.relnamespace = %s::regnamespace and c.relkind in ('r', 'p')
          and c.relname <> 'schema_version'""",
        [SCHEMA],
    ).fetchall()
    for table, is_partition in tables:
        connection.execute(f"alter table {table} enable row level security")
        connection.execute(f"alter table {table} force row level security")
        if is_partition:
            continue
        is_own = "owner = nullif(current_setting('recollect.owner', true), '')::integer"
        privileges = "select, insert, update, delete"
        if table == "account":
            is_own = "name = nullif(current_setting('recollect.user', true), '')"
            privileges = "select, insert (name)"
        elif table in APPEND_ONLY:
            privileges = "select, insert"
        connection.execute(f"create policy own on {table} using ({is_own}) with check ({is_own})")
        connection.execute(f"grant {privileges} on {table} to {app}")


def create_functions(connection: psycopg.Connection[Any], on_cluster: bool) -> None:
    """The first ones get the privileges of their owner, `recollect_search`; the others do not."""
    create_all(connection, SEARCH_FUNCTIONS, on_cluster)
    if can_set_role(connection, SEARCH):
        connection.execute(f"grant usage, create on schema {SCHEMA} to {SEARCH}")
        for table in ("passage_text", "word"):
            connection.execute(f"grant select on {table} to {SEARCH}")
            policy = f"create policy search on {table} for select to {SEARCH} using (true)"
            connection.execute(policy)
        for function in functions(connection):
            connection.execute(f"alter function {function} owner to {SEARCH}")
        connection.execute(f"revoke create on schema {SCHEMA} from {SEARCH}")
        _try(connection, f"revoke {SEARCH} from current_user")
    create_all(connection, TRANSACTION_FUNCTIONS, on_cluster)


def create_all(connection: psycopg.Connection[Any], script: str, on_cluster: bool) -> None:
    """Create functions that the application may execute."""
    app = APP if can_use_app_role(connection) else "current_user"
    existing = functions(connection)
    for function in script.split("$$;")[:-1]:
        connection.execute(f"{function}$$")
    for function in sorted(functions(connection) - existing):
        if on_cluster:
            distribute_function(connection, function)
        connection.execute(f"revoke all on function {function} from public")
        connection.execute(f"grant execute on function {function} to {app}")


def functions(connection: psycopg.Connection[Any]) -> set[str]:
    rows = connection.execute(
        "select oid::regprocedure::text from pg_proc where pronamespace = %s::regnamespace",
        [SCHEMA],
    ).fetchall()
    return {name for (name,) in rows}


# -- Citus ---


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
