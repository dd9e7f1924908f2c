"""`recollect keys`: manage the API keys of the server."""

from __future__ import annotations

import argparse
from contextlib import closing
from datetime import UTC, datetime

from rich.box import SIMPLE_HEAD
from rich.table import Table

from recollect.cli.common import add_command, console, define_group, print_json, safe, when
from recollect.errors import InvalidInput
from recollect.language.text import bound
from recollect.places import keys
from recollect.serve.identity.accounts import new_key, revoke
from recollect.serve.identity.principal import SCOPES
from recollect.settings import default_user
from recollect.store.api_keys import COLUMNS, ApiKey

_EXAMPLES = """\
  recollect keys add laptop --user ann
  recollect keys add "claude on the server" --user ann --scope read --agent
  recollect keys list
  recollect keys revoke 3f9a0c21d4e7

After you add the first key, every client needs one. A key gives access to the
library of one user. It is shown once, when you create it.
"""
_ADD_EXAMPLES = """\
  recollect keys add laptop --user ann
  recollect keys add dashboard --scope read --expires 2027-01-31
  recollect keys add bus-agent --agent --toolset bus
  recollect keys add operator --scope read --scope write --scope admin

Use it as:  curl -H "Authorization: Bearer KEY" http://127.0.0.1:8765/conversations
"""


def define_keys(group: argparse.ArgumentParser) -> None:
    actions = define_group(group, _EXAMPLES)
    add = add_command(actions, "add", "create a key; it is shown once", run_add, _ADD_EXAMPLES)
    add.add_argument("name", metavar="NAME", help="a name that tells you what the key is for")
    add.add_argument(
        "--scope",
        action="append",
        default=[],
        choices=SCOPES,
        help="what it may do; may be repeated (default: read and write)",
    )
    add.add_argument(
        "--toolset",
        action="append",
        default=[],
        metavar="NAME",
        help="only this group of routes (conversations, bus, knowledge); may be repeated",
    )
    add.add_argument(
        "--agent",
        action="store_true",
        help="for an agent, which cannot read human-only messages",
    )
    add.add_argument(
        "--expires",
        metavar="DATE",
        help="when it expires (ISO 8601); a bare date includes the whole day",
    )
    add_command(
        actions,
        "list",
        "list the keys",
        run_list,
        "  recollect keys list --json\n",
    )
    revoke_ = add_command(
        actions,
        "revoke",
        "revoke a key",
        run_revoke,
        "  recollect keys revoke 3f9a0c21d4e7\n",
    )
    revoke_.add_argument("id", metavar="ID", help="as `recollect keys list` shows it")


def run_add(arguments: argparse.Namespace) -> int:
    user = arguments.user
    if user is None:
        user = default_user()
    with closing(keys(arguments.home)) as store:
        text, key = new_key(
            store,
            user,
            arguments.name,
            arguments.scope or ("read", "write"),
            arguments.toolset or None,
            arguments.agent,
            _parse_date(arguments.expires),
        )
    if arguments.json:
        print_json({**_record(key), "key": text})
        return 0
    out = console()
    out.print(
        f"A key for the library of [bold]{safe(user)}[/] ({', '.join(key.scopes)}), id {key.id}:"
    )
    out.print(f"\n  [bold]{text}[/]\n", soft_wrap=True)
    out.print(
        "[yellow]Copy it now: it is not shown again.[/] From now on, every client needs a key."
    )
    return 0


def run_list(arguments: argparse.Namespace) -> int:
    with closing(keys(arguments.home)) as store:
        api_keys = store.all_keys()
    if arguments.json:
        print_json({"keys": [_record(key) for key in api_keys]})
        return 0
    if not api_keys:
        console().print(
            "There are no keys, so everyone on this computer has access to the server.\n"
            "Create one: recollect keys add NAME"
        )
        return 0
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for heading in ("id", "name", "user", "scopes", "created", "last used", "state"):
        table.add_column(heading)
    for key in api_keys:
        last_use = "never"
        if key.used_at:
            last_use = when(key.used_at)
        table.add_row(
            key.id,
            safe(key.name),
            safe(key.user),
            _scopes(key),
            when(key.created_at),
            last_use,
            _state(key),
        )
    console().print(table)
    return 0


def _scopes(key: ApiKey) -> str:
    text = ", ".join(key.scopes)
    if key.toolsets is not None:
        text += f" in {', '.join(key.toolsets)}"
    if key.agent:
        text += " (agent)"
    return text


def run_revoke(arguments: argparse.Namespace) -> int:
    with closing(keys(arguments.home)) as store:
        revoke(store, arguments.id)
    if arguments.json:
        print_json({"revoked": arguments.id})
    else:
        console().print("The key was revoked.")
    return 0


def _state(key: ApiKey) -> str:
    if key.revoked_at is not None:
        return f"[red]revoked[/] {when(key.revoked_at)}"
    if key.expires_at is None:
        return "[green]valid[/]"
    if key.expires_at <= datetime.now(UTC):
        return f"[red]expired[/] {when(key.expires_at)}"
    return f"[green]valid[/] until {when(key.expires_at)}"


def _record(key: ApiKey) -> dict[str, object]:
    names = (name for name in COLUMNS if name != "hash")
    return {name: getattr(key, name) for name in names}


def _parse_date(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        return bound(text, end=True)
    except ValueError as error:
        raise InvalidInput(
            f"--expires: {text!r} is not a date. Use ISO 8601, such as 2027-01-31."
        ) from error
