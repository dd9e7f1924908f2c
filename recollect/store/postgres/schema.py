"""The schema of a PostgreSQL database: create `schema.sql`, and check what the server has.

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
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from psycopg import errors

from recollect.errors import NewerLibrary, RecollectError, StoreUnavailable
from recollect.store.postgres.filters import may_be_human_only
from recollect.store.postgres.functions import SEARCH_FUNCTIONS, TRANSACTION_FUNCTIONS

VERSION = 1
SCHEMA = "recollect"
APP = "recollect_app"
SEARCH = "recollect_search"
PARTITIONS = 16
APPEND_ONLY = frozenset({"audit"})
"""Tables whose rows the application may neither change nor delete."""
WITHOUT_OWNER = ("account", "schema_version")
SCRIPT = Path(__file__).with_name("schema.sql")
_OLDEST_SERVER = 150000
_EXTENSIONS = ("btree_gin", "vector")
_PARTITIONING = " partition by hash (owner)"
_LOCK = 0x5265636F
_NOT_ALLOWED = (
    errors.InsufficientPrivilege,
    errors.UndefinedObject,  # a role
    errors.FeatureNotSupported,  # an extension; older servers call it a file
    errors.UndefinedFile,
)


@dataclass(frozen=True, slots=True)
class Server:
    version: str
    """That of the server and of pgvector."""
    search_path: str
    """The schemas of our tables and of the extensions.

    `pg_temp` comes last. Otherwise a temporary table could replace one of ours.
    """
    types: dict[str, dict[str, str]]
    """The type of every column, by table."""
    is_cluster: bool
    """Whether Citus distributes the tables over several machines."""

    def configure(self, connection: psycopg.Connection[Any]) -> None:
        """Set the role and search path of a new connection."""
        connection.execute(
            f"set role {APP}; set search_path = {self.search_path}; "
            "set client_min_messages = warning"
        )
        if self.is_cluster:
            connection.execute(PROPAGATE_SETTINGS)


def connection_options(name: str = "") -> dict[str, Any]:
    """How to connect. The name is what the server shows of the program."""
    return {
        "autocommit": True,
        # Prepare a statement on the server when it has been used this often.
        "prepare_threshold": 3,
        "application_name": f"recollect {name}".rstrip(),
        "connect_timeout": 5,
        # Both sides notice after a minute that the other machine has disappeared.
        "keepalives_idle": 30,
        "keepalives_interval": 10,
        "keepalives_count": 3,
        "tcp_user_timeout": 60_000,
    }


@contextmanager
def connect_as_login(url: str, location: str) -> Iterator[psycopg.Connection[Any]]:
    """A separate connection, outside the pool, with the role that logs in."""
    try:
        connection = psycopg.connect(url, **connection_options())
    except psycopg.OperationalError as error:
        raise StoreUnavailable(
            f"The PostgreSQL server {location} cannot be reached "
            f"({str(error).splitlines()[0].strip()}). Check the address, and that it is running."
        ) from error
    with connection:
        yield connection


def prepare(url: str, location: str) -> Server:
    """Create the schema, unless the database has it, and find out what the server provides.

    Either all of it exists afterwards, or none. Raises NewerLibrary if the database has another
    version, and RecollectError if users would not be isolated from each other.
    """
    with connect_as_login(url, location) as connection:
        version = connection.info.server_version
        if version < _OLDEST_SERVER:
            raise RecollectError(
                f"{location} is PostgreSQL {version // 10000}; "
                f"Recollect needs {_OLDEST_SERVER // 10000} or newer."
            )
        if not is_created(connection, location):
            try:
                with connection.transaction():
                    connection.execute(f"select pg_advisory_xact_lock({_LOCK}, 0)")
                    # Another process may have created it in the meantime.
                    if not is_created(connection, location):
                        _create(connection)
            except _NOT_ALLOWED as error:
                raise RecollectError(
                    f"{location} must be set up first ({error.diag.message_primary}). Open it once "
                    "as an administrator, who may create a schema, roles and extensions, as "
                    "docs/postgres.md shows, then with this role again."
                ) from error
        require_row_security(connection, location)
        pgvector = one(connection, "select extversion from pg_extension where extname = 'vector'")
        return Server(
            f"{server_version(connection)}, pgvector {pgvector}",
            f"{search_path(connection)}, pg_temp",
            column_types(connection),
            is_distributed(connection),
        )


def server_version(connection: psycopg.Connection[Any]) -> str:
    version = connection.info.server_version
    return f"{version // 10000}.{version % 10000}"


def require_row_security(connection: psycopg.Connection[Any], location: str) -> None:
    """Refuse a database in whose tables our role would see the rows of all users.

    Row-level security does not apply to the role there, or a policy that is not ours lets it in.
    """
    with connection.transaction():
        connection.execute(f"set local role {APP}")
        tables = connection.execute(
            """select c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace
            where n.nspname = %s and c.relkind in ('r', 'p') and not c.relispartition
              and c.relname <> 'schema_version'
              and (not row_security_active(c.oid)
                or exists (select from pg_policy p, unnest(p.polroles) r
                  where p.polrelid = c.oid and p.polpermissive and p.polname <> 'own'
                    and (r = 0 or pg_has_role(r, 'usage'))))
            order by 1""",
            [SCHEMA],
        ).fetchall()
    if tables:
        names = ", ".join(name for (name,) in tables)
        raise RecollectError(
            f"The role {APP} of {location} is not restricted by row-level security (on {names}), "
            "so users would not be isolated from each other (docs/postgres.md)."
        )


def column_types(connection: psycopg.Connection[Any]) -> dict[str, dict[str, str]]:
    rows = connection.execute(
        """select c.relname, a.attname, format_type(a.atttypid, a.atttypmod)
        from pg_attribute a join pg_class c on c.oid = a.attrelid
          join pg_namespace n on n.oid = c.relnamespace
        where n.nspname = %s and c.relkind in ('r', 'p') and not c.relispartition
          and a.attnum > 0 and not a.attisdropped""",
        [SCHEMA],
    ).fetchall()
    types: dict[str, dict[str, str]] = {}
    for table, column, type_name in rows:
        types.setdefault(table, {})[column] = type_name
    return types


def is_created(connection: psycopg.Connection[Any], location: str) -> bool:
    """Whether the database has the schema of this version. Raises NewerLibrary for another one."""
    # The catalog shows this to any login.
    has_version = one(
        connection,
        """select bool_or(c.relname = 'schema_version')
        from pg_class c join pg_namespace n on n.oid = c.relnamespace
        where n.nspname = %s and c.relkind in ('r', 'p')""",
        SCHEMA,
    )
    if has_version is None:  # there is no table
        return False
    version = 0
    if has_version:
        try:
            # The rollback also resets the role.
            with connection.transaction(force_rollback=True):
                connection.execute(f"set local role {APP}")
                version = one(connection, f"select max(version) from {SCHEMA}.schema_version") or 0
        except errors.InsufficientPrivilege as error:
            raise RecollectError(
                f"The role {connection.info.user} may not use the libraries in {location} "
                f"({error.diag.message_primary}). Grant it {APP}, as docs/postgres.md shows."
            ) from error
    if version != VERSION:
        raise NewerLibrary(
            f"{location} was written by another version of Recollect (schema {version}; this one "
            f"has schema {VERSION}). Nothing was changed. Open it with that version, and move what "
            "it has with `recollect export` and `recollect import`."
        )
    return True


def one(connection: psycopg.Connection[Any], statement: str, *values: Any) -> Any:
    """The first column of the first row; None if there is no row."""
    row = connection.execute(statement, values or None).fetchone()
    return None if row is None else row[0]


def search_path(connection: psycopg.Connection[Any]) -> str:
    """The schemas of our tables and of the extensions."""
    rows = connection.execute(
        """select distinct quote_ident(n.nspname)
        from pg_extension e join pg_namespace n on n.oid = e.extnamespace
        where e.extname = any(%s) and n.nspname <> %s""",
        [list(_EXTENSIONS), SCHEMA],
    ).fetchall()
    return ", ".join([SCHEMA, *sorted(schema for (schema,) in rows)])


# -- creating it ---


def _create(connection: psycopg.Connection[Any]) -> None:
    on_cluster = is_cluster(connection)
    if on_cluster:
        connection.execute(ONE_CONNECTION_PER_WORKER)
    create_roles(connection, on_cluster)
    connection.execute(f"create schema if not exists {SCHEMA}")
    connection.execute(f"alter schema {SCHEMA} owner to current_user")
    for extension in _EXTENSIONS:
        connection.execute(f"create extension if not exists {extension}")
    connection.execute(f"set local search_path = {search_path(connection)}")
    for statement in table_statements(on_cluster):
        connection.execute(statement)
    connection.execute("insert into schema_version values (%s)", [VERSION])
    secure_tables(connection)
    if on_cluster:
        distribute_tables(connection)
    create_functions(connection, on_cluster)


def create_roles(connection: psycopg.Connection[Any], on_cluster: bool) -> None:
    # The coordinator of a cluster logs in to its workers with the role of the transaction.
    login = "login" if on_cluster else "nologin"
    for role in (APP, SEARCH):
        _try(connection, f"create role {role} {login} nobypassrls")
        if on_cluster:
            _try(connection, f"alter role {role} login")
        _try(connection, f"grant {role} to current_user")


def _try(connection: psycopg.Connection[Any], statement: str) -> None:
    """Run a statement about a role, which may exist already or belong to somebody else."""
    try:
        with connection.transaction():
            connection.execute(statement)
    except (
        errors.InsufficientPrivilege,
        errors.UndefinedObject,
        errors.DuplicateObject,
        errors.UniqueViolation,
        errors.InvalidGrantOperation,
    ):
        pass  # what depends on it fails


def table_statements(on_cluster: bool) -> Iterator[str]:
    """The statements of `schema.sql`, each with those for partitions.

    They are sent one by one, because Citus passes a message on as a whole.
    """
    script = re.sub(r"^--.*\n", "", SCRIPT.read_text(encoding="utf-8"), flags=re.MULTILINE)
    script = script.replace("{may_be_human_only}", may_be_human_only())
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


def secure_tables(connection: psycopg.Connection[Any]) -> None:
    """Enable and force row-level security, and grant the application access.

    Partitions get no policy, so they can only be read through their table. Accounts cannot be
    changed or deleted, so nobody can take over the number of another user.
    """
    connection.execute(f"grant usage on schema {SCHEMA} to {APP}")
    connection.execute(f"grant select on schema_version to {APP}")
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
        connection.execute(f"grant {privileges} on {table} to {APP}")


def create_functions(connection: psycopg.Connection[Any], on_cluster: bool) -> None:
    """The first ones get the privileges of their owner, `recollect_search`; the others do not."""
    create_all(connection, SEARCH_FUNCTIONS, on_cluster)
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
    existing = functions(connection)
    for function in script.split("$$;")[:-1]:
        connection.execute(f"{function}$$")
    for function in sorted(functions(connection) - existing):
        if on_cluster:
            distribute_function(connection, function)
        connection.execute(f"revoke all on function {function} from public")
        connection.execute(f"grant execute on function {function} to {APP}")


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
    return bool(one(connection, "select 1 from pg_extension where extname = 'citus'"))


def is_distributed(connection: psycopg.Connection[Any]) -> bool:
    """Whether our tables are distributed over the workers of a cluster."""
    return is_cluster(connection) and bool(
        one(
            connection,
            """select 1 from pg_dist_partition
            where logicalrelid = to_regclass('recollect.last_key')""",
        )
    )


def distribute_tables(connection: psycopg.Connection[Any]) -> None:
    """Distribute the tables that have an owner."""
    rows = connection.execute(
        """select c.relname from pg_class c
        where c.relnamespace = %s::regnamespace and c.relkind = 'r' and c.relname <> all(%s)
        order by array_position(%s, c.relname::text), c.relname""",
        [SCHEMA, list(WITHOUT_OWNER), list(_FIRST_TABLES)],
    ).fetchall()
    for (table,) in rows:
        colocate_with = "none" if table == _FIRST_TABLES[0] else f"{SCHEMA}.{_FIRST_TABLES[0]}"
        connection.execute(
            "select create_distributed_table(%s, 'owner', colocate_with => %s)",
            [f"{SCHEMA}.{table}", colocate_with],
        )


def distribute_function(connection: psycopg.Connection[Any], name: str) -> None:
    """Let a function run on the worker that has the owner in its first argument."""
    connection.execute(
        """select create_distributed_function(%s::regprocedure, '$1',
          colocate_with => 'recollect.last_key', force_delegation => true)""",
        [name],
    )
