"""The PostgreSQL server behind a library: what it must be, what it has, and what it lacks."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg import sql

from recollect.errors import RecollectError, StoreUnavailable
from recollect.store.postgres.migrations import (
    APP,
    SCHEMA,
    SEARCH,
    add_bm25,
    has_extension,
    migrate,
    works_as_app,
)

log = logging.getLogger(__name__)

OLDEST = 150000


@dataclass(frozen=True, slots=True)
class Server:
    version: str
    role: str
    """What every connection works as."""
    path: str
    """The schemas in which our tables and the extensions lie; temporary tables last, or one could
    stand in for ours."""
    types: dict[str, dict[str, str]]
    """The type of every column, by table."""
    pgvector: str = ""
    """Its version, or nothing where the server does not have it."""
    full_vector: str = ""
    """The name of its type of full precision, with the schema: a table of ours has the same name."""
    bm25: str = ""
    lacks: tuple[str, ...] = field(default=())
    """What the server could have and has not, and what that costs."""

    def configure(self, connection: psycopg.Connection[Any]) -> None:
        """Make a new connection one that sees no more than it should."""
        connection.execute(
            sql.SQL("set role {}; set search_path = {}; set client_min_messages = warning").format(
                sql.Identifier(self.role), sql.SQL(self.path)
            )
        )


@contextmanager
def reached(url: str, place: str) -> Iterator[psycopg.Connection[Any]]:
    """A connection of its own, outside any pool, as whoever logs in."""
    try:
        connection = psycopg.connect(
            url, autocommit=True, connect_timeout=5, application_name="recollect"
        )
    except psycopg.OperationalError as error:
        raise StoreUnavailable(
            f"The PostgreSQL server {place} cannot be reached ({str(error).splitlines()[0].strip()}). "
            "Check that it runs, and the address."
        ) from error
    with connection:
        yield connection


def prepare(url: str, place: str) -> Server:
    """Bring the database up to date, and learn what there is."""
    with reached(url, place) as connection:
        if connection.info.server_version < OLDEST:
            raise RecollectError(
                f"{place} is PostgreSQL {connection.info.server_version // 10000}; "
                f"Recollect needs {OLDEST // 10000} or newer."
            )
        migrate(connection, place)
        add_bm25(connection)
        server = _learn(connection, place)
    for line in server.lacks:
        log.warning("%s: %s", place, line)
    return server


def _learn(connection: psycopg.Connection[Any], place: str) -> Server:
    role = APP if works_as_app(connection) else connection.info.user
    if unguarded := _unguarded(connection, role):
        raise RecollectError(
            f"The role {role} of {place} is not held by row-level security (on {', '.join(unguarded)}), so users would "
            f"not be kept apart. Grant it {APP}, or open the library with another role (docs/postgres.md)."
        )
    extensions = {
        name: has_extension(connection, name) for name in ("vector", "btree_gin", "pg_textsearch")
    }
    schemas = dict.fromkeys([SCHEMA, *(s for s in extensions.values() if s)])
    types: dict[str, dict[str, str]] = {}
    for table, column, kind in connection.execute(
        "select c.relname, a.attname, format_type(a.atttypid, a.atttypmod) from pg_attribute a "
        "join pg_class c on c.oid = a.attrelid join pg_namespace n on n.oid = c.relnamespace "
        "where n.nspname = %s and c.relkind in ('r', 'p') and not c.relispartition and a.attnum > 0 "
        "and not a.attisdropped",
        [SCHEMA],
    ).fetchall():
        types.setdefault(table, {})[column] = kind
    by_pgvector = types["vector"]["numbers"].endswith("halfvec")
    lacks = []
    if not by_pgvector:
        lacks.append(
            "pgvector is not used: every search by meaning reads all vectors of the user. It must be there when the "
            "database is prepared."
        )
    if not _finds_by_owner(connection):
        lacks.append(
            "btree_gin is not used: a search by words also visits the matches of other users, unseen. It must be there "
            "when the database is prepared."
        )
    if not _searches_apart(connection):
        lacks.append(
            f"the role {SEARCH} is not used: row-level security hides the text index, and searches by words read "
            "every message of the user. Prepare the database with a role that may create roles."
        )
    version = connection.info.server_version
    return Server(
        version=f"{version // 10000}.{version % 10000}",
        role=role,
        path=", ".join([*(f'"{s}"' for s in schemas), "pg_temp"]),
        types=types,
        pgvector=_extension_version(connection, "vector") if by_pgvector else "",
        full_vector=f'"{extensions["vector"]}".vector',
        bm25=_extension_version(connection, "pg_textsearch"),
        lacks=tuple(lacks),
    )


def _unguarded(connection: psycopg.Connection[Any], role: str) -> list[str]:
    """The tables in which a role would see the rows of everybody: no policy binds it there, or one more than
    ours lets it through."""
    with connection.transaction():
        connection.execute(sql.SQL("set local role {}").format(sql.Identifier(role)))
        rows = connection.execute(
            "select c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace where n.nspname = %s "
            "and c.relkind in ('r', 'p') and not c.relispartition and c.relname <> 'migration' "
            "and (not row_security_active(c.oid) or exists (select from pg_policy p, unnest(p.polroles) r "
            "where p.polrelid = c.oid and p.polpermissive and p.polname <> 'own' "
            "and (r = 0 or pg_has_role(r, 'usage')))) order by 1",
            [SCHEMA],
        ).fetchall()
    return [name for (name,) in rows]


def _finds_by_owner(connection: psycopg.Connection[Any]) -> bool:
    """Whether the text index knows whose a passage is."""
    row = connection.execute(
        "select x.indnkeyatts > 1 from pg_index x join pg_class c on c.oid = x.indexrelid "
        "join pg_namespace n on n.oid = c.relnamespace where n.nspname = %s and c.relname = 'passage_text_words'",
        [SCHEMA],
    ).fetchone()
    return bool(row and row[0])


def _searches_apart(connection: psycopg.Connection[Any]) -> bool:
    """Whether the functions that search belong to the role that is there for them."""
    row = connection.execute(
        "select bool_and(pg_get_userbyid(p.proowner) = %s) from pg_proc p "
        "join pg_namespace n on n.oid = p.pronamespace where n.nspname = %s and p.prosecdef",
        [SEARCH, SCHEMA],
    ).fetchone()
    return bool(row and row[0])


def _extension_version(connection: psycopg.Connection[Any], name: str) -> str:
    row = connection.execute(
        "select extversion from pg_extension where extname = %s", [name]
    ).fetchone()
    return row[0] if row else ""
