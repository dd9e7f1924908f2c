"""Which programs may use a database while it is upgraded.

A program is identified by the last step of its schema. There are two kinds of steps:

- Migrations (`schema.MIGRATIONS`) only add. Programs since `schema.BASELINE` keep working, so
  servers can be replaced one by one after the migration.
- Contractions (`schema.CONTRACTIONS`) remove what no program needs any more. They run when no older
  program is connected.

Each row of the table `migration` says which program is the oldest that may use the database after
that step. A program checks it when it opens the database, and with each new connection.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import psycopg
from psycopg import errors

from recollect.errors import NewerLibrary, RecollectError
from recollect.store.postgres.schema.migration_steps import CONTRACTIONS, MIGRATIONS, Contraction
from recollect.store.postgres.schema.names import APP, SCHEMA

try:
    VERSION = version("recollect")
except PackageNotFoundError:  # the program runs from its source code
    VERSION = "0"
PROGRAM = MIGRATIONS[-1][0]
"""The last step that this program knows."""
APPLICATION_NAME = f"recollect {VERSION} {PROGRAM}"
"""The name of our connections in `pg_stat_activity`."""

_INDEX_STATEMENT = re.compile(r"(create|drop) (unique )?index\b")
_ROWS = f"select name, to_jsonb(m) ->> 'oldest_program', at is not null from {SCHEMA}.migration m"
# Programs without a version in their name are older than this policy.
_PROGRAMS = """select application_name, count(*) from pg_stat_activity
  where datname = current_database() and application_name ~ '^recollect( [0-9]|$)'
    and pid <> pg_backend_pid()
  group by 1 order by 1"""


@dataclass(frozen=True, slots=True)
class Steps:
    """What has happened to the schema of a database."""

    completed: frozenset[str]
    oldest_program: str
    """Older programs may not use the database. Empty if there is no such limit."""


@dataclass(frozen=True, slots=True)
class Program:
    """Connections of one version of Recollect to a database."""

    version: str
    step: str
    """The last step that the program knows, or empty for a program that does not say it."""
    connections: int


def statements(script: str) -> list[str]:
    """The statements of a script, without comment lines before them.

    Citus passes a message on as a whole, so each statement is sent alone.
    """
    parts = [_without_comments(part) for part in re.split(r";\s*(?:\n|$)", script)]
    return [part for part in parts if part]


def _without_comments(statement: str) -> str:
    return re.sub(r"\A(\s*--[^\n]*\n)*", "", statement + "\n").strip()


def is_index_step(script: str) -> bool:
    """Whether a step only creates and drops indexes. Programs work without it, but slower."""
    return all(_INDEX_STATEMENT.match(statement) for statement in statements(script))


def is_optional(name: str) -> bool:
    """Whether this program can use a database in which the step has not run."""
    script = dict(MIGRATIONS)[name]
    return is_index_step(script) or script.strip().startswith("alter table migration ")


def read_steps(connection: psycopg.Connection[Any], location: str) -> Steps:
    """The steps that have run. Raises if this program is too old for the database."""
    rows = _read_rows(connection, location)
    steps = _parse_rows(rows)
    own_steps = {name for name, _ in MIGRATIONS} | {step.name for step in CONTRACTIONS}
    newer = sorted(name for name, oldest, _ in rows if name not in own_steps and oldest is None)
    if newer:
        raise NewerLibrary(
            f"{location} was written by a newer version of Recollect (it has {newer[-1]}). "
            "Nothing was changed. Upgrade Recollect to open it."
        )
    _require_supported(steps, location)
    return steps


def require_supported(connection: psycopg.Connection[Any], location: str) -> None:
    """Raise if this program became too old for the database."""
    rows = connection.execute(_ROWS).fetchall()
    _require_supported(_parse_rows(rows), location)


def _parse_rows(rows: list[tuple[str, str | None, bool]]) -> Steps:
    return Steps(
        frozenset(name for name, _, is_complete in rows if is_complete),
        max((oldest for _, oldest, _ in rows if oldest), default=""),
    )


def _require_supported(steps: Steps, location: str) -> None:
    if steps.oldest_program > PROGRAM:
        raise NewerLibrary(
            f"This version of Recollect ({VERSION}, schema {PROGRAM}) is too old for "
            f"{location}, which needs schema {steps.oldest_program} or newer. Nothing was "
            "changed. Upgrade Recollect to open it."
        )


def _read_rows(
    connection: psycopg.Connection[Any], location: str
) -> list[tuple[str, str | None, bool]]:
    try:
        # The rollback also resets the role, so that migrations do not run as the application.
        with connection.transaction(force_rollback=True):
            if can_set_role(connection, APP):
                connection.execute(f"set local role {APP}")
            return connection.execute(_ROWS).fetchall()
    except errors.InsufficientPrivilege as error:
        raise RecollectError(
            f"The role {connection.info.user} may not use the libraries in {location} "
            f"({error.diag.message_primary}). Grant it {APP}, as docs/postgres.md shows."
        ) from error


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


def pending_contractions(completed: frozenset[str]) -> list[Contraction]:
    return [step for step in CONTRACTIONS if step.name not in completed]


def connected_programs(connection: psycopg.Connection[Any]) -> list[Program]:
    """The versions of Recollect that are connected to this database, without this connection."""
    programs = []
    for name, connections in connection.execute(_PROGRAMS).fetchall():
        _, _, identity = name.partition(" ")
        version, _, step = identity.partition(" ")
        programs.append(Program(version, step, connections))
    return programs
