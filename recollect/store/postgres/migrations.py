"""Create and migrate the schema on a PostgreSQL server.

There are three roles:

- The role that migrates owns the tables. Policies apply to it as well (`force`).
- Connections use `recollect_app`. It sees the rows of the owner that the transaction names.
- `recollect_search` owns the functions that search the text index. PostgreSQL does not use an index
  for `@@` under a policy, because `@@` is not leakproof. So a policy lets this role read all of
  `passage_text`, and each function selects the rows of the owner.

The last two can neither log in nor bypass row-level security.
"""

from __future__ import annotations

import re
from typing import Any

import psycopg
from psycopg import errors, sql

from recollect.errors import NewerLibrary, RecollectError
from recollect.store.postgres.cluster import (
    ONE_CONNECTION_PER_WORKER,
    distribute_function,
    distribute_tables,
    is_cluster,
    is_distributed,
    without_partitions,
)
from recollect.store.postgres.schema import (
    APP,
    APPEND_ONLY,
    FUNCTIONS,
    MIGRATIONS,
    PARTITIONS,
    SCHEMA,
    SEARCH,
)

_LOCK = 0x5265636F
# The steps that change the tables or columns which the search functions use.
_FUNCTION_STEPS = frozenset({"m002_search", "m004_knowledge", "m025_cluster"})


def migrate(
    connection: psycopg.Connection[Any], location: str, stop_before: str | None = None
) -> list[str]:
    """Run the pending steps in one transaction, and return their names."""
    if not pending_steps(connection, location, stop_before):
        return []
    try:
        with connection.transaction():
            # Another process may be migrating the database. Look again when it has finished.
            connection.execute("select pg_advisory_xact_lock(%s, 0)", [_LOCK])
            steps = pending_steps(connection, location, stop_before)
            is_new = "m001_documents" in steps
            # If Citus was installed later, the tables have partitions and are not distributed.
            on_cluster = is_cluster(connection) and (is_new or is_distributed(connection))
            if on_cluster:
                connection.execute(ONE_CONNECTION_PER_WORKER)
            if is_new:
                _set_up(connection)
            for name in steps:
                _run_step(connection, name, on_cluster)
            if on_cluster:
                distribute_tables(connection, SCHEMA)
            if not _FUNCTION_STEPS.isdisjoint(steps):
                _replace_functions(connection, on_cluster)
    except errors.InsufficientPrivilege as error:
        raise RecollectError(
            f"{location} must be set up or migrated first ({error.diag.message_primary}). Open it "
            "once with a role that may create a schema and roles, as docs/postgres.md shows, then "
            "with this role again."
        ) from error
    return steps


def pending_steps(
    connection: psycopg.Connection[Any], location: str, stop_before: str | None = None
) -> list[str]:
    """The names of the steps that have not run in this database."""
    completed: set[str] = set()
    if is_set_up(connection):
        completed = _completed_steps(connection, location)
    names = [name for name, _ in MIGRATIONS]
    newer = sorted(completed.difference(names))
    if newer:
        raise NewerLibrary(
            f"{location} was written by a newer version of Recollect (it has {newer[-1]}). "
            "Nothing was changed. Upgrade Recollect to open it."
        )
    if stop_before:
        names = names[: names.index(stop_before)]
    return [name for name in names if name not in completed]


def _completed_steps(connection: psycopg.Connection[Any], location: str) -> set[str]:
    try:
        # The rollback also resets the role, so that migrations do not run as the application.
        with connection.transaction(force_rollback=True):
            if can_use_app_role(connection):
                connection.execute(f"set local role {APP}")
            rows = connection.execute(f"select name from {SCHEMA}.migration").fetchall()
            return {name for (name,) in rows}
    except errors.InsufficientPrivilege as error:
        raise RecollectError(
            f"The role {connection.info.user} may not use the libraries in {location} "
            f"({error.diag.message_primary}). Grant it {APP}, as docs/postgres.md shows."
        ) from error


def is_set_up(connection: psycopg.Connection[Any]) -> bool:
    """Whether this database has our schema."""
    row = connection.execute(
        """select exists (select from pg_class c join pg_namespace n on n.oid = c.relnamespace
        where n.nspname = %s and c.relname = 'migration')""",
        [SCHEMA],
    ).fetchone()
    return bool(row and row[0])


def can_use_app_role(connection: psycopg.Connection[Any]) -> bool:
    return _can_set_role(connection, APP)


def _can_set_role(connection: psycopg.Connection[Any], role: str) -> bool:
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


# -- one step ------------------------------------------------------------------


def _set_up(connection: psycopg.Connection[Any]) -> None:
    """Create the roles, the schema, and the extensions that the server offers."""
    # The coordinator of a cluster logs in to its workers with the role of the transaction.
    login = "login" if is_cluster(connection) else "nologin"
    for role in (APP, SEARCH):
        _try(connection, f"create role {role} {login} nobypassrls")
        if login == "login" and not _can_log_in(connection, role):
            _try(connection, f"alter role {role} login")
        _try(connection, f"grant {role} to current_user")
    connection.execute(f"create schema if not exists {SCHEMA}")
    connection.execute(f"alter schema {SCHEMA} owner to current_user")
    for extension in ("btree_gin", "vector"):
        _try(connection, f"create extension if not exists {extension}")
    connection.execute(
        f"create table {SCHEMA}.migration (name text primary key, at timestamptz default now())"
    )


def _can_log_in(connection: psycopg.Connection[Any], role: str) -> bool:
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


def _run_step(connection: psycopg.Connection[Any], name: str, on_cluster: bool) -> None:
    script = dict(MIGRATIONS)[name]
    pgvector = extension_schema(connection, "vector")
    btree_gin = extension_schema(connection, "btree_gin")
    schemas = [SCHEMA, *sorted({btree_gin, pgvector} - {""})]
    connection.execute(
        sql.SQL("set local search_path = {}").format(
            sql.SQL(", ").join(map(sql.Identifier, schemas))
        )
    )
    script = script.replace("{vector}", "halfvec" if pgvector else "bytea")
    if on_cluster:
        script = without_partitions(script)
    for statement in _statements(script):
        connection.execute(statement)
    if name == "m002_search":
        columns = "owner, words" if btree_gin else "words"
        connection.execute(
            f"create index passage_text_words on passage_text using gin ({columns}) "
            "with (gin_pending_list_limit = 1024)"
        )
        if pgvector:
            connection.execute("alter table vector alter numbers set storage plain")
    _secure_new_tables(connection)
    connection.execute("insert into migration (name) values (%s)", [name])


def _statements(script: str) -> list[str]:
    """The statements of a script. Citus passes a message on as a whole, so each is sent alone."""
    return [part for part in re.split(r";\s*(?:\n|$)", script) if part.strip()]


def _secure_new_tables(connection: psycopg.Connection[Any]) -> None:
    """Create the partitions and policies of new tables, and grant the application access."""
    tables = connection.execute(
        """select c.relname, c.relname = 'account', c.relkind = 'p'
        from pg_class c join pg_namespace n on n.oid = c.relnamespace
        where n.nspname = %s and c.relkind in ('r', 'p') and not c.relispartition
          and not c.relrowsecurity and c.relname <> 'migration'""",
        [SCHEMA],
    ).fetchall()
    app = _app_role(connection)
    connection.execute(f"grant usage on schema {SCHEMA} to {app}")
    connection.execute(f"grant select on migration to {app}")
    for table, is_account, is_partitioned in tables:
        if is_account:
            _secure_account(connection, table, app)
            continue
        partitions = []
        if is_partitioned:
            partitions = _create_partitions(connection, table)
        _secure_table(connection, table, app, partitions)
    connection.execute(f"grant usage on all sequences in schema {SCHEMA} to {app}")


def _create_partitions(connection: psycopg.Connection[Any], table: str) -> list[str]:
    partitions = [f"{table}_{number}" for number in range(PARTITIONS)]
    for number, partition in enumerate(partitions):
        connection.execute(
            f"create table {partition} partition of {table} "
            f"for values with (modulus {PARTITIONS}, remainder {number})"
        )
    return partitions


def _secure_table(
    connection: psycopg.Connection[Any], table: str, app: str, partitions: list[str]
) -> None:
    """Partitions get no policy, so they can only be read through their table."""
    is_own = "owner = nullif(current_setting('recollect.owner', true), '')::integer"
    connection.execute(f"create policy own on {table} using ({is_own}) with check ({is_own})")
    privileges = "select, insert, update, delete"
    if table in APPEND_ONLY:
        privileges = "select, insert"
    connection.execute(f"grant {privileges} on {table} to {app}")
    for name in (table, *partitions):
        _force_row_security(connection, name)


def _secure_account(connection: psycopg.Connection[Any], table: str, app: str) -> None:
    """Accounts cannot be changed or deleted, so nobody can take over the number of another user."""
    is_own = "name = nullif(current_setting('recollect.user', true), '')"
    connection.execute(f"create policy own on {table} using ({is_own}) with check ({is_own})")
    connection.execute(f"grant select, insert (name) on {table} to {app}")
    _force_row_security(connection, table)


def _force_row_security(connection: psycopg.Connection[Any], table: str) -> None:
    connection.execute(f"alter table {table} enable row level security")
    connection.execute(f"alter table {table} force row level security")


def _app_role(connection: psycopg.Connection[Any]) -> str:
    return APP if can_use_app_role(connection) else "current_user"


# -- the search functions ------------------------------------------------------


def _replace_functions(connection: psycopg.Connection[Any], on_cluster: bool) -> None:
    for name in _function_names(connection):
        connection.execute(f"drop function {name}")
    for statement in _statements(FUNCTIONS):
        connection.execute(statement)
    if on_cluster:
        for name in _function_names(connection):
            distribute_function(connection, name)
    _try(connection, f"grant {SEARCH} to current_user")
    has_search_role = _can_set_role(connection, SEARCH)
    app = _app_role(connection)
    if has_search_role:
        for statement in (
            f"grant usage, create on schema {SCHEMA} to {SEARCH}",
            f"grant select on passage_text to {SEARCH}",
            "drop policy if exists search on passage_text",
            f"create policy search on passage_text for select to {SEARCH} using (true)",
        ):
            connection.execute(statement)
    connection.execute(f"revoke all on all functions in schema {SCHEMA} from public")
    for name in _function_names(connection):
        connection.execute(f"grant execute on function {name} to {app}")
        if has_search_role:
            connection.execute(f"alter function {name} owner to {SEARCH}")
    if has_search_role:
        connection.execute(f"revoke create on schema {SCHEMA} from {SEARCH}")
        _try(connection, f"revoke {SEARCH} from current_user")


def _function_names(connection: psycopg.Connection[Any]) -> list[str]:
    rows = connection.execute(
        """select p.oid::regprocedure::text
        from pg_proc p join pg_namespace n on n.oid = p.pronamespace
        where n.nspname = %s and p.prosecdef""",
        [SCHEMA],
    ).fetchall()
    return [name for (name,) in rows]
