"""`recollect postgres`: prepare a PostgreSQL database, and spread it over a cluster."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from recollect.cli.commands import command, command_group
from recollect.cli.common import print_json, safe, show
from recollect.errors import InvalidInput
from recollect.places import postgres_url
from recollect.settings import default_user

TYPE_CHECKING = False
if TYPE_CHECKING:
    from recollect.store.postgres.administration import DatabaseStatus

# `administration` is imported where it is used: its packages may not be installed, which
# `postgres_url` explains.

_MEBIBYTE = 1 << 20

command_group(
    "postgres",
    """
    recollect postgres prepare --home postgresql://postgres@server/recollect
    recollect postgres status
    recollect postgres spread                            on a Citus cluster
    recollect postgres move-user 10.0.0.7:5432 --user ann

    --home or RECOLLECT_HOME is the URL of the database. docs/postgres.md has the details.
    """,
)


@command(
    "postgres prepare",
    "--grant ROLE  let this login use the libraries in the database",
    "recollect postgres prepare --grant recollect_login",
)
def prepare(arguments: argparse.Namespace) -> int:
    """Create the schema, as an administrator."""
    url = postgres_url(arguments.home)
    from recollect.store.postgres.administration import prepare_database

    return show_status(arguments, prepare_database(url, arguments.grant))


@command("postgres status", examples="recollect postgres status --json")
def status(arguments: argparse.Namespace) -> int:
    """Show the schema and the machines of a cluster."""
    url = postgres_url(arguments.home)
    from recollect.store.postgres.administration import database_status

    return show_status(arguments, database_status(url))


@command(
    "postgres spread",
    examples="""
    recollect postgres spread

    Run it again after adding a worker. Users keep working.
    """,
)
def run_spread(arguments: argparse.Namespace) -> int:
    """Give every worker of a Citus cluster its share of the users."""
    url = postgres_url(arguments.home)
    from recollect.store.postgres.administration import spread

    return show_status(arguments, spread(url))


@command(
    "postgres move-user",
    "worker HOST:PORT  the worker to move the user to",
    """
    recollect postgres move-user 10.0.0.7:5432 --user ann

    The user can search and write all the time.
    """,
)
def run_move_user(arguments: argparse.Namespace) -> int:
    """Move a user to another worker of a Citus cluster."""
    host, _, port = arguments.worker.rpartition(":")
    if not host or not port.isdecimal():
        raise InvalidInput(f"{arguments.worker!r} is not a worker. Write it as HOST:PORT.")
    url = postgres_url(arguments.home)
    from recollect.store.postgres.administration import move_user

    user = arguments.user or default_user()
    move_user(url, user, host, int(port))
    if arguments.json:
        return print_json({"user": user, "worker": arguments.worker})
    show(safe(f"{user} is on {arguments.worker}."))
    return 0


def show_status(arguments: argparse.Namespace, status: DatabaseStatus) -> int:
    if arguments.json:
        return print_json(asdict(status))
    lines = [f"{status.location}: PostgreSQL {status.version}"]
    if status.is_prepared:
        lines.append("The schema is up to date.")
    else:
        lines.append("The schema must be created: recollect postgres prepare")
    if status.users is not None:
        lines.append(f"Users: {status.users}")
    for node in status.nodes:
        size = f"{node.shards} shards, {node.bytes / _MEBIBYTE:,.1f} MiB"
        lines.append(f"{node.host}:{node.port}: {size}{'' if node.is_active else ', inactive'}")
    for line in lines:
        show(safe(line))
    return 0
