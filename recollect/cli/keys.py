"""`recollect keys`: who may come in through the network."""

from __future__ import annotations

import argparse
from contextlib import closing
from datetime import UTC, datetime

from rich.box import SIMPLE_HEAD
from rich.table import Table

from recollect.cli.common import Commands, add_command, console, print_json, safe, when
from recollect.errors import InvalidInput
from recollect.language.text import bound
from recollect.places import keys
from recollect.serve.accounts import SCOPES, new_key, revoke
from recollect.settings import default_user
from recollect.store.api_keys import ApiKey

_EXAMPLES = """\
  recollect keys add laptop --user ann
  recollect keys add "claude on the server" --user ann --scope read --agent
  recollect keys list
  recollect keys revoke 3f9a0c21d4e7

From the first key on, everybody who uses the server needs one. A key opens
the library of one user; it is shown when it is made, and never again.
"""
_ADD_EXAMPLES = """\
  recollect keys add laptop --user ann
  recollect keys add dashboard --scope read --expires 2027-01-31
  recollect keys add bus-agent --agent --toolset bus
  recollect keys add operator --scope read --scope write --scope admin

Use it as:  curl -H "Authorization: Bearer KEY" http://127.0.0.1:8765/conversations
"""


def register(commands: Commands) -> None:
    group: argparse.ArgumentParser = commands.add_parser(
        "keys",
        help="make, list and revoke the API keys of the server",
        description="Make, list and revoke the API keys of the server.",
        epilog="examples:\n" + _EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    actions = group.add_subparsers(dest="action", metavar="ACTION", required=True)
    add = add_command(actions, "add", "make a key; it is shown once", run_add, _ADD_EXAMPLES)
    add.add_argument("name", metavar="NAME", help="what the key is for, for your own eyes")
    add.add_argument(
        "--scope",
        action="append",
        default=[],
        choices=SCOPES,
        help="what it may do; may be repeated (read and write)",
    )
    add.add_argument(
        "--toolset",
        action="append",
        default=[],
        metavar="NAME",
        help="only this group of routes (conversations, bus, knowledge); may be repeated (default: all)",
    )
    add.add_argument(
        "--agent",
        action="store_true",
        help="for an agent, which does not see what only people may see",
    )
    add.add_argument(
        "--expires",
        metavar="DATE",
        help="until when it works, in ISO 8601; a bare date is its whole day",
    )
    add_command(
        actions,
        "list",
        "list the keys, without their secrets",
        run_list,
        "  recollect keys list --json\n",
    )
    revoke_ = add_command(
        actions,
        "revoke",
        "let a key open nothing any more",
        run_revoke,
        "  recollect keys revoke 3f9a0c21d4e7\n",
    )
    revoke_.add_argument("id", metavar="ID", help="as `recollect keys list` shows it")


def run_add(given: argparse.Namespace) -> int:
    user = default_user() if given.user is None else given.user
    with closing(keys(given.home)) as kept:
        text, key = new_key(
            kept,
            user,
            given.name,
            given.scope or ("read", "write"),
            given.toolset or None,
            given.agent,
            _moment(given.expires),
        )
    if given.json:
        print_json({**_shape(key), "key": text})
        return 0
    out = console()
    out.print(
        f"A key for the library of [bold]{safe(user)}[/] ({', '.join(key.scopes)}), id {key.id}:"
    )
    out.print(f"\n  [bold]{text}[/]\n", soft_wrap=True)
    out.print(
        "[yellow]Keep it now: it is not shown again.[/] From now on the server asks everybody for a key."
    )
    return 0


def run_list(given: argparse.Namespace) -> int:
    with closing(keys(given.home)) as kept:
        found = kept.every()
    if given.json:
        print_json({"keys": [_shape(key) for key in found]})
        return 0
    if not found:
        console().print(
            "There is no key. The server lets in whoever is on this computer.\nMake one: recollect keys add NAME"
        )
        return 0
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for heading in ("id", "name", "user", "may", "made", "used", "state"):
        table.add_column(heading)
    for key in found:
        may = ", ".join(key.scopes) + (
            f" in {', '.join(key.toolsets)}" if key.toolsets is not None else ""
        )
        table.add_row(
            key.id,
            safe(key.name),
            safe(key.user),
            may + (" (agent)" if key.agent else ""),
            when(key.created_at),
            when(key.used_at) if key.used_at else "never",
            _state(key),
        )
    console().print(table)
    return 0


def run_revoke(given: argparse.Namespace) -> int:
    with closing(keys(given.home)) as kept:
        revoke(kept, given.id)
    if given.json:
        print_json({"revoked": given.id})
    else:
        console().print("The key opens nothing any more.")
    return 0


def _state(key: ApiKey) -> str:
    if key.revoked_at is not None:
        return f"[red]revoked[/] {when(key.revoked_at)}"
    if key.expires_at is None:
        return "[green]good[/]"
    if key.expires_at <= datetime.now(UTC):
        return f"[red]expired[/] {when(key.expires_at)}"
    return f"[green]good[/] until {when(key.expires_at)}"


def _shape(key: ApiKey) -> dict[str, object]:
    names = (
        "id",
        "user",
        "name",
        "scopes",
        "toolsets",
        "agent",
        "created_at",
        "expires_at",
        "revoked_at",
        "used_at",
    )
    return {name: getattr(key, name) for name in names}


def _moment(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        return bound(text, end=True)
    except ValueError as error:
        raise InvalidInput(
            f"--expires: {text!r} is not a date. Use ISO 8601, such as 2027-01-31."
        ) from error
