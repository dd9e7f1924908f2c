"""Create and migrate the schema on a PostgreSQL server.

There are three roles:

- The role that migrates owns the tables. Policies apply to it as well (`force`).
- Connections use `recollect_app`. It sees the rows of the owner that the transaction names.
- `recollect_search` owns the functions that search the text index. PostgreSQL does not use an index
  for `@@` under a policy, because `@@` is not leakproof. So a policy lets this role read all of
  `passage_text` and `word`, and each function selects the rows of the owner.

The last two can neither log in nor bypass row-level security.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import Any

import psycopg
from psycopg import errors

from recollect.errors import Conflict, RecollectError
from recollect.store.postgres.schema.cluster import (
    ONE_CONNECTION_PER_WORKER,
    distribute_function,
    distribute_tables,
    is_cluster,
    is_distributed,
    without_partitions,
)
from recollect.store.postgres.schema.migration_steps import (
    BASELINE,
    CONTRACTIONS,
    MIGRATIONS,
    Contraction,
)
from recollect.store.postgres.schema.names import APP, APPEND_ONLY, PARTITIONS, SCHEMA, SEARCH
from recollect.store.postgres.schema.online import (
    change_rows,
    create_index,
    drop_index,
    extension_schema,
    migration_lock,
    retry_until_unlocked,
    set_search_path,
)
from recollect.store.postgres.schema.search_functions import FUNCTIONS
from recollect.store.postgres.schema.transaction_functions import TRANSACTION_FUNCTIONS
from recollect.store.postgres.schema.versions import (
    can_set_role,
    connected_programs,
    is_index_step,
    is_optional,
    pending_contractions,
    read_steps,
    statements,
)

log = logging.getLogger(__name__)

# The steps that change the search functions, or the tables and columns that they use.
_FUNCTION_STEPS = frozenset(
    {
        "m002_search",
        "m004_knowledge",
        "m025_cluster",
        "m029_fewer_statements",
        "m032_transaction_functions",
        "m033_word_matches",
        "m035_search_start",
        "m036_append_message",
        "m037_search_facts",
        "m038_stored_kinds",
        "m039_search_terms",
        "m040_similar_words",
    }
)


def migrate(
    connection: psycopg.Connection[Any], location: str, stop_before: str | None = None
) -> list[str]:
    """Run the pending steps, and return their names.

    A new database, or one from before `BASELINE`, is migrated in one transaction. Later steps run
    one by one, while programs use the database.
    """
    steps = pending_steps(connection, location, stop_before)
    if not steps:
        return []
    try:
        with migration_lock(connection):
            # Another process may have migrated the database in the meantime.
            steps = pending_steps(connection, location, stop_before)
            _run_steps(connection, steps, finish=stop_before is None)
    except errors.InsufficientPrivilege as error:
        if all(map(is_optional, steps)):
            log.warning("%s: run `recollect postgres prepare` to create new indexes", location)
            return []
        raise RecollectError(
            f"{location} must be set up or migrated first ({error.diag.message_primary}). Open it "
            "once with a role that may create a schema and roles, as docs/postgres.md shows, then "
            "with this role again."
        ) from error
    return steps


def pending_steps(
    connection: psycopg.Connection[Any], location: str, stop_before: str | None = None
) -> list[str]:
    """The names of the migrations that have not run in this database."""
    completed: frozenset[str] = frozenset()
    if is_set_up(connection):
        completed = read_steps(connection, location).completed
    names = [name for name, _ in MIGRATIONS]
    if stop_before:
        names = names[: names.index(stop_before)]
    return [name for name in names if name not in completed]


def finish(connection: psycopg.Connection[Any], location: str) -> list[str]:
    """Run the contractions, and return their names. Raises if an older program is connected."""
    with migration_lock(connection):
        pending = pending_contractions(read_steps(connection, location).completed)
        if pending:
            _refuse_older_programs(connection, location, pending)
        for step in pending:
            retry_until_unlocked(connection, partial(_contract, connection, step))
    return [step.name for step in pending]


def _refuse_older_programs(
    connection: psycopg.Connection[Any], location: str, pending: list[Contraction]
) -> None:
    """Let no older program connect from now on, unless one is connected already."""
    needed = max(step.oldest_program for step in pending)
    with connection.transaction():
        for step in pending:
            _record_step(connection, step.name, step.oldest_program, is_complete=False)
    older = [program for program in connected_programs(connection) if program.step < needed]
    if not older:
        return
    with connection.transaction():
        connection.execute(f"delete from {SCHEMA}.migration where at is null")
    connections = sum(program.connections for program in older)
    raise Conflict(
        f"{connections} {'connection' if connections == 1 else 'connections'} to {location} "
        f"{'belongs' if connections == 1 else 'belong'} to older programs (schema "
        f"{older[0].step or 'unknown'}; {needed} or newer is needed). Nothing was changed. Replace "
        "or stop these programs, which `recollect postgres status` lists, and try again."
    )


def _record_step(
    connection: psycopg.Connection[Any], name: str, oldest_program: str, is_complete: bool = True
) -> None:
    connection.execute(
        f"""insert into {SCHEMA}.migration (name, at, oldest_program)
        values (%(name)s, case when %(is_complete)s then now() end, %(oldest)s)
        on conflict (name) do update
        set at = excluded.at, oldest_program = excluded.oldest_program""",
        {"name": name, "oldest": oldest_program, "is_complete": is_complete},
    )


def is_set_up(connection: psycopg.Connection[Any]) -> bool:
    """Whether this database has our schema."""
    row = connection.execute(
        """select exists (select from pg_class c join pg_namespace n on n.oid = c.relnamespace
        where n.nspname = %s and c.relname = 'migration')""",
        [SCHEMA],
    ).fetchone()
    return bool(row and row[0])


def can_use_app_role(connection: psycopg.Connection[Any]) -> bool:
    return can_set_role(connection, APP)


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


def _run_steps(connection: psycopg.Connection[Any], steps: list[str], finish: bool) -> None:
    is_new = "m001_documents" in steps
    # If Citus was installed later, the tables have partitions and are not distributed.
    on_cluster = is_cluster(connection) and (is_new or is_distributed(connection))
    early_steps = steps
    if not is_new:
        early_steps = [name for name in steps if name <= BASELINE]
    later_steps = steps[len(early_steps) :]
    last_function_step = max(_FUNCTION_STEPS.intersection(steps), default="")
    if early_steps:
        with connection.transaction():
            if on_cluster:
                connection.execute(ONE_CONNECTION_PER_WORKER)
            _run_all(connection, early_steps, on_cluster, last_function_step)
            if is_new and finish:
                for step in CONTRACTIONS:
                    _contract(connection, step)
    for name in later_steps:
        _run_online(connection, name, on_cluster, name == last_function_step)


def _run_all(
    connection: psycopg.Connection[Any], steps: list[str], on_cluster: bool, function_step: str
) -> None:
    """Run steps in the transaction of the caller. Programs wait until it ends.

    The functions are created after `function_step`, which may be a later one.
    """
    if "m001_documents" in steps:
        _set_up(connection)
    for name in steps:
        _run_step(connection, name, on_cluster)
    if on_cluster:
        distribute_tables(connection, SCHEMA)
    if not _FUNCTION_STEPS.isdisjoint(steps):
        for function in _function_names(connection):
            connection.execute(f"drop function {function}")
    if function_step in steps:
        _create_functions(connection, on_cluster)


def _run_online(
    connection: psycopg.Connection[Any], name: str, on_cluster: bool, with_functions: bool
) -> None:
    """Run a step while programs read and write."""
    script = dict(MIGRATIONS)[name]
    if is_index_step(script):
        for statement in statements(script):
            if statement.startswith("drop "):
                drop_index(connection, statement)
            else:
                create_index(connection, statement, on_cluster)
        _record_step(connection, name, BASELINE)
        return
    if "{owner}" in script:
        for statement in statements(script):
            change_rows(connection, statement)
        _record_step(connection, name, BASELINE)
        return

    def work() -> None:
        if on_cluster:
            connection.execute(ONE_CONNECTION_PER_WORKER)
        _run_step(connection, name, on_cluster)
        if on_cluster:
            distribute_tables(connection, SCHEMA)
        if with_functions:
            _create_functions(connection, on_cluster)

    retry_until_unlocked(connection, work)


def _run_step(connection: psycopg.Connection[Any], name: str, on_cluster: bool) -> None:
    script = dict(MIGRATIONS)[name]
    set_search_path(connection)
    pgvector = extension_schema(connection, "vector")
    script = script.replace("{vector}", "halfvec" if pgvector else "bytea")
    if on_cluster:
        script = without_partitions(script)
    if "{owner}" not in script:  # which a new database has no rows for
        for statement in statements(script):
            connection.execute(statement)
    if name == "m002_search":
        columns = "owner, words" if extension_schema(connection, "btree_gin") else "words"
        connection.execute(
            f"create index passage_text_words on passage_text using gin ({columns}) "
            "with (gin_pending_list_limit = 1024)"
        )
        if pgvector:
            connection.execute("alter table vector alter numbers set storage plain")
    _secure_new_tables(connection)
    if name < BASELINE:
        connection.execute("insert into migration (name) values (%s)", [name])
    else:
        _record_step(connection, name, BASELINE)


def _contract(connection: psycopg.Connection[Any], step: Contraction) -> None:
    set_search_path(connection)
    for statement in statements(step.script):
        connection.execute(statement)
    _record_step(connection, step.name, step.oldest_program)


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


def _create_functions(connection: psycopg.Connection[Any], on_cluster: bool) -> None:
    """Create the functions. Those with the same arguments are replaced, and others stay."""
    _try(connection, f"grant {SEARCH} to current_user")
    for function in FUNCTIONS.split("$$;")[:-1]:
        statement = function.replace("create function", "create or replace function", 1)
        connection.execute(f"{statement}$$")
    if on_cluster:
        for name in _function_names(connection):
            distribute_function(connection, name)
    has_search_role = can_set_role(connection, SEARCH)
    app = _app_role(connection)
    if has_search_role:
        connection.execute(f"grant usage, create on schema {SCHEMA} to {SEARCH}")
        for table in ("passage_text", "word"):
            _let_search_role_read(connection, table)
    connection.execute(f"revoke all on all functions in schema {SCHEMA} from public")
    for name in _function_names(connection):
        connection.execute(f"grant execute on function {name} to {app}")
        if has_search_role:
            connection.execute(f"alter function {name} owner to {SEARCH}")
    if has_search_role:
        connection.execute(f"revoke create on schema {SCHEMA} from {SEARCH}")
        _try(connection, f"revoke {SEARCH} from current_user")
    _create_transaction_functions(connection, app, on_cluster)


def _create_transaction_functions(
    connection: psycopg.Connection[Any], app: str, on_cluster: bool
) -> None:
    for function in TRANSACTION_FUNCTIONS.split("$$;")[:-1]:
        connection.execute(f"{function}$$")
    for name in _function_names(connection, is_definer=False):
        if on_cluster:
            distribute_function(connection, name)
        connection.execute(f"revoke all on function {name} from public")
        connection.execute(f"grant execute on function {name} to {app}")


def _let_search_role_read(connection: psycopg.Connection[Any], table: str) -> None:
    connection.execute(f"grant select on {table} to {SEARCH}")
    row = connection.execute(
        """select exists (select from pg_policy
        where polname = 'search' and polrelid = %s::regclass)""",
        [f"{SCHEMA}.{table}"],
    ).fetchone()
    if row != (True,):
        connection.execute(f"create policy search on {table} for select to {SEARCH} using (true)")


def _function_names(connection: psycopg.Connection[Any], is_definer: bool = True) -> list[str]:
    """The functions that run with the privileges of their owner, or those that do not."""
    rows = connection.execute(
        """select p.oid::regprocedure::text
        from pg_proc p join pg_namespace n on n.oid = p.pronamespace
        where n.nspname = %s and p.prosecdef = %s""",
        [SCHEMA, is_definer],
    ).fetchall()
    return [name for (name,) in rows]
