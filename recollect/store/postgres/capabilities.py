"""What a PostgreSQL server provides: version, role, extensions, and features it lacks."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg import sql

from recollect.errors import RecollectError, StoreUnavailable
from recollect.store.postgres.schema import (
    APP,
    PROPAGATE_SETTINGS,
    SCHEMA,
    SEARCH,
    can_use_app_role,
    create,
    extension_schema,
    is_distributed,
)

log = logging.getLogger(__name__)

OLDEST_VERSION = 150000


@dataclass(frozen=True, slots=True)
class Server:
    version: str
    role: str
    """The role of every connection in the pool."""
    search_path: str
    """The schemas of our tables and of the extensions.

    `pg_temp` comes last. Otherwise a temporary table could replace one of ours.
    """
    types: dict[str, dict[str, str]]
    """The type of every column, by table."""
    pgvector: str
    """The version of pgvector, or empty if the tables do not use it."""
    full_vector: str
    """The qualified name of pgvector's full-precision type. `vector` is also a table of ours."""
    is_cluster: bool
    """Whether Citus distributes the tables over several machines."""
    missing_features: tuple[str, ...]
    """Optional features that the server lacks, each with the consequence."""
    graphs: set[tuple[int, int]] = field(default_factory=set)
    """The owners and vector spaces that are known to have a graph."""

    def configure(self, connection: psycopg.Connection[Any]) -> None:
        """Set the role and search path of a new connection."""
        connection.execute(
            sql.SQL("set role {}; set search_path = {}; set client_min_messages = warning").format(
                sql.Identifier(self.role), sql.SQL(self.search_path)
            )
        )
        if self.is_cluster:
            connection.execute(PROPAGATE_SETTINGS)


@contextmanager
def connect_as_login(url: str, location: str) -> Iterator[psycopg.Connection[Any]]:
    """A separate connection, outside the pool, with the role that logs in."""
    try:
        connection = psycopg.connect(
            url, autocommit=True, connect_timeout=5, application_name="recollect"
        )
    except psycopg.OperationalError as error:
        raise StoreUnavailable(
            f"The PostgreSQL server {location} cannot be reached "
            f"({str(error).splitlines()[0].strip()}). Check the address, and that it is running."
        ) from error
    with connection:
        yield connection


def prepare(url: str, location: str) -> Server:
    """Set up the database, and find out what the server provides."""
    with connect_as_login(url, location) as connection:
        version = connection.info.server_version
        if version < OLDEST_VERSION:
            raise RecollectError(
                f"{location} is PostgreSQL {version // 10000}; "
                f"Recollect needs {OLDEST_VERSION // 10000} or newer."
            )
        create(connection, location)
        server = inspect(connection, location)
    for feature in server.missing_features:
        log.warning("%s: %s", location, feature)
    return server


def inspect(connection: psycopg.Connection[Any], location: str) -> Server:
    """What the server of a database provides. Raises if users are not isolated there."""
    role = APP if can_use_app_role(connection) else connection.info.user
    require_row_security(connection, role, location)
    vector_schema = extension_schema(connection, "vector")
    types = column_types(connection)
    # If pgvector was installed after the tables were created, they do not use it.
    uses_pgvector = types["vector"]["numbers"].endswith("halfvec")
    version = connection.info.server_version
    return Server(
        version=f"{version // 10000}.{version % 10000}",
        role=role,
        search_path=_search_path(vector_schema, extension_schema(connection, "btree_gin")),
        types=types,
        pgvector=extension_version(connection, "vector") if uses_pgvector else "",
        full_vector=f'"{vector_schema}".vector',
        is_cluster=is_distributed(connection),
        missing_features=_missing_features(connection, uses_pgvector),
    )


def require_row_security(connection: psycopg.Connection[Any], role: str, location: str) -> None:
    tables = unprotected_tables(connection, role)
    if tables:
        raise RecollectError(
            f"The role {role} of {location} is not restricted by row-level security "
            f"(on {', '.join(tables)}), so users would not be isolated from each other. "
            f"Grant it {APP}, or open the library with another role (docs/postgres.md)."
        )


def unprotected_tables(connection: psycopg.Connection[Any], role: str) -> list[str]:
    """The tables in which a role would see the rows of all users.

    Row-level security does not apply to the role there, or a policy that is not ours lets it in.
    """
    with connection.transaction():
        connection.execute(sql.SQL("set local role {}").format(sql.Identifier(role)))
        rows = connection.execute(
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
    return [name for (name,) in rows]


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


def _search_path(*extension_schemas: str) -> str:
    schemas = dict.fromkeys([SCHEMA, *filter(None, extension_schemas)])
    return ", ".join([*(f'"{schema}"' for schema in schemas), "pg_temp"])


def extension_version(connection: psycopg.Connection[Any], name: str) -> str:
    row = connection.execute(
        "select extversion from pg_extension where extname = %s", [name]
    ).fetchone()
    return row[0] if row else ""


def _missing_features(connection: psycopg.Connection[Any], uses_pgvector: bool) -> tuple[str, ...]:
    features = []
    if not uses_pgvector:
        features.append(
            "pgvector is not used: every search by meaning reads all vectors of the user. "
            "It must be installed when the database is set up."
        )
    if not index_has_owner(connection):
        features.append(
            "btree_gin is not used: a search by words also visits index entries of other users. "
            "It must be installed when the database is set up."
        )
    if not has_search_role(connection):
        features.append(
            f"the role {SEARCH} is not used: the text index cannot be used under row-level "
            "security, and a search by words reads every message of the user. "
            "Set up the database with a role that may create roles."
        )
    return tuple(features)


def index_has_owner(connection: psycopg.Connection[Any]) -> bool:
    """Whether the owner is a column of the text index."""
    row = connection.execute(
        """select x.indnkeyatts > 1 from pg_index x join pg_class c on c.oid = x.indexrelid
          join pg_namespace n on n.oid = c.relnamespace
        where n.nspname = %s and c.relname = 'passage_text_words'""",
        [SCHEMA],
    ).fetchone()
    return bool(row and row[0])


def has_search_role(connection: psycopg.Connection[Any]) -> bool:
    """Whether the search functions belong to their own role."""
    row = connection.execute(
        """select bool_and(pg_get_userbyid(p.proowner) = %s)
        from pg_proc p join pg_namespace n on n.oid = p.pronamespace
        where n.nspname = %s and p.prosecdef""",
        [SEARCH, SCHEMA],
    ).fetchone()
    return bool(row and row[0])
