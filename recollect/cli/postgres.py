"""`recollect postgres`: prepare a PostgreSQL database, and spread it over a cluster."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from recollect.cli.common import Commands, add_command, console, define_group, print_json, safe
from recollect.errors import InvalidInput
from recollect.places import postgres_url
from recollect.settings import default_user

TYPE_CHECKING = False
if TYPE_CHECKING:
    from recollect.store.postgres.administration import DatabaseStatus

# `administration` is imported where it is used: its packages may not be installed, which
# `postgres_url` explains.

_EXAMPLES = """\
  recollect postgres prepare --home postgresql://postgres@server/recollect
  recollect postgres status
  recollect postgres spread                            on a Citus cluster
  recollect postgres move-user 10.0.0.7:5432 --user ann

--home or RECOLLECT_HOME is the URL of the database. docs/postgres.md has the details.
"""
_MEBIBYTE = 1 << 20


def define_postgres(group: argparse.ArgumentParser) -> None:
    actions = define_group(group, _EXAMPLES)
    define_prepare(actions)
    add_command(
        actions,
        "status",
        "show the schema and the machines of a cluster",
        run_status,
        "  recollect postgres status --json\n",
    )
    add_command(
        actions,
        "spread",
        "give every worker of a Citus cluster its share of the users",
        run_spread,
        "  recollect postgres spread\n\nRun it again after adding a worker. Users keep working.\n",
    )
    define_move_user(actions)


def define_prepare(actions: Commands) -> None:
    prepare = add_command(
        actions,
        "prepare",
        "create the schema, as an administrator",
        run_prepare,
        "  recollect postgres prepare --grant recollect_login\n",
    )
    prepare.add_argument(
        "--grant", metavar="ROLE", help="let this login use the libraries in the database"
    )


def define_move_user(actions: Commands) -> None:
    move = add_command(
        actions,
        "move-user",
        "move a user to another worker of a Citus cluster",
        run_move_user,
        "  recollect postgres move-user 10.0.0.7:5432 --user ann\n\n"
        "The user can search and write all the time.\n",
    )
    move.add_argument("worker", metavar="HOST:PORT", help="the worker to move the user to")


def run_prepare(arguments: argparse.Namespace) -> int:
    url = postgres_url(arguments.home)
    from recollect.store.postgres.administration import prepare_database

    status = prepare_database(url, arguments.grant)
    return print_status(status, arguments.json)


def run_status(arguments: argparse.Namespace) -> int:
    url = postgres_url(arguments.home)
    from recollect.store.postgres.administration import database_status

    return print_status(database_status(url), arguments.json)


def run_spread(arguments: argparse.Namespace) -> int:
    url = postgres_url(arguments.home)
    from recollect.store.postgres.administration import spread

    return print_status(spread(url), arguments.json)


def run_move_user(arguments: argparse.Namespace) -> int:
    host, _, port = arguments.worker.rpartition(":")
    if not host or not port.isdecimal():
        raise InvalidInput(f"{arguments.worker!r} is not a worker. Write it as HOST:PORT.")
    url = postgres_url(arguments.home)
    from recollect.store.postgres.administration import move_user

    user = arguments.user or default_user()
    move_user(url, user, host, int(port))
    if arguments.json:
        print_json({"user": user, "worker": arguments.worker})
    else:
        console().print(safe(f"{user} is on {arguments.worker}."))
    return 0


def print_status(status: DatabaseStatus, as_json: bool) -> int:
    if as_json:
        print_json(asdict(status))
        return 0
    out = console()
    out.print(safe(f"{status.location}: PostgreSQL {status.version}"))
    if status.is_prepared:
        out.print("The schema is up to date.")
    else:
        out.print("The schema must be created: recollect postgres prepare")
    if status.users is not None:
        out.print(f"Users: {status.users}")
    for node in status.nodes:
        state = "" if node.is_active else ", inactive"
        out.print(
            safe(
                f"{node.host}:{node.port}: {node.shards} shards, "
                f"{node.bytes / _MEBIBYTE:,.1f} MiB{state}"
            )
        )
    return 0
