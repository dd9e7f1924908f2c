"""`recollect keys`: manage the API keys of the server."""

from __future__ import annotations

import argparse
import re
from contextlib import closing
from datetime import datetime, timedelta

from rich.box import SIMPLE_HEAD
from rich.table import Table

from recollect.cli.common import (
    Commands,
    add_command,
    add_flag,
    add_list,
    console,
    define_group,
    print_json,
    safe,
    when,
)
from recollect.errors import InvalidInput
from recollect.language.text import bound
from recollect.places import keys, record
from recollect.serve.identity.accounts import (
    BEING_REPLACED,
    EXPIRED,
    REPLACED,
    REVOKED,
    is_valid,
    key_state,
    live_sessions,
    new_key,
    require_name,
    revoke,
    rotate,
)
from recollect.serve.identity.principal import SCOPES
from recollect.serve.mcp.toolsets import TOOLSETS
from recollect.settings import default_user
from recollect.store.api_keys import COLUMNS, SESSION_COLUMNS, ApiKey, ApiKeys
from recollect.store.audit_log import KEY, Entry

_DURATION = re.compile(r"([0-9]{1,6})([smhd]?)")
_UNITS = {"": "seconds", "s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_EXAMPLES = """\
  recollect keys add laptop --user ann
  recollect keys add "claude on the server" --user ann --scope read --agent
  recollect keys list
  recollect keys rotate laptop --grace 1d
  recollect keys revoke 3f9a0c21d4e7
  recollect keys sessions

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
    define_add(actions)
    add_command(actions, "list", "list the keys", run_list, "  recollect keys list --json\n")
    define_rotate(actions)
    define_sessions(actions)
    define_revoke(actions)


def define_add(actions: Commands) -> None:
    add = add_command(actions, "add", "create a key; it is shown once", run_add, _ADD_EXAMPLES)
    add.add_argument("name", metavar="NAME", help="a name that tells you what the key is for")
    add_list(
        add, "--scope", "what it may do; may be repeated (default: read and write)", choices=SCOPES
    )
    add_list(
        add,
        "--toolset",
        "only this group of routes (conversations, bus, knowledge) or tools; may be repeated",
        metavar="NAME",
    )
    add_flag(add, "--agent", "for an agent, which cannot read human-only messages")
    add.add_argument(
        "--expires",
        metavar="DATE",
        help="when it expires (ISO 8601); a bare date includes the whole day",
    )


def define_rotate(actions: Commands) -> None:
    rotate_ = add_command(
        actions,
        "rotate",
        "replace a key with a new one that may do the same; it is shown once",
        run_rotate,
        "  recollect keys rotate laptop\n  recollect keys rotate 3f9a0c21d4e7 --grace 1d\n",
    )
    rotate_.add_argument("name", metavar="NAME", help="the name of the key, or its id")
    rotate_.add_argument(
        "--grace",
        default="0",
        metavar="TIME",
        help="how long the old key still works, such as 30m, 12h or 1d (default: not at all)",
    )


def define_sessions(actions: Commands) -> None:
    sessions = add_command(
        actions,
        "sessions",
        "list who is signed in to the console, or end a session",
        run_sessions,
        "  recollect keys sessions\n  recollect keys sessions --end 7c1e90b2aa35\n",
    )
    sessions.add_argument("--end", metavar="ID", help="end this session")


def define_revoke(actions: Commands) -> None:
    examples = "  recollect keys revoke 3f9a0c21d4e7\n"
    revoke_ = add_command(actions, "revoke", "revoke a key", run_revoke, examples)
    revoke_.add_argument("id", metavar="ID", help="as `recollect keys list` shows it")


def run_add(arguments: argparse.Namespace) -> int:
    user = arguments.user
    if user is None:
        user = default_user()
    require_name(arguments.name)
    require_toolsets(arguments.toolset)
    with closing(keys(arguments.home)) as store:
        text, key = new_key(
            store,
            user,
            arguments.name,
            arguments.scope or ("read", "write"),
            arguments.toolset or None,
            arguments.agent,
            parse_date(arguments.expires),
        )
    record(arguments.home, user, Entry.of(KEY, "add", [key.id]))
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


def require_toolsets(names: list[str]) -> None:
    """Refuse a toolset that does not exist: such a key could do nothing."""
    for name in names:
        if name not in TOOLSETS:
            raise InvalidInput(f"{name!r} is not the name of a toolset. Use {', '.join(TOOLSETS)}.")


def run_list(arguments: argparse.Namespace) -> int:
    with closing(keys(arguments.home)) as store:
        api_keys, replacements = store.all_keys(), store.replacements()
    if arguments.json:
        records = [{**_record(key), "replaced_by": replacements.get(key.id)} for key in api_keys]
        print_json({"keys": records})
        return 0
    if not api_keys:
        console().print(
            "There are no keys, so everyone on this computer has access to the server.\n"
            "Create one: recollect keys add NAME"
        )
        return 0
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("id", no_wrap=True)
    for heading in ("name", "user", "scopes", "created", "last used", "state"):
        table.add_column(heading)
    for key in api_keys:
        last_use = "never"
        if key.used_at:
            last_use = when(key.used_at)
        table.add_row(
            key.id,
            safe(key.name),
            safe(key.user),
            scopes(key),
            when(key.created_at),
            last_use,
            _state(key, replacements.get(key.id)),
        )
    console().print(table)
    return 0


def scopes(key: ApiKey) -> str:
    text = ", ".join(key.scopes)
    if key.toolsets is not None:
        text += f" in {', '.join(key.toolsets)}"
    if key.agent:
        text += " (agent)"
    return text


def run_rotate(arguments: argparse.Namespace) -> int:
    with closing(keys(arguments.home)) as store:
        text, key, old = rotate(
            store, arguments.name, parse_duration(arguments.grace), arguments.user
        )
    record(arguments.home, key.user, Entry.of(KEY, "rotate", [old.id, key.id]))
    if arguments.json:
        print_json({**_record(key), "key": text, "replaces": old.id})
        return 0
    out = console()
    out.print(f"A new key for [bold]{safe(key.name or key.id)}[/], id {key.id}:")
    out.print(f"\n  [bold]{text}[/]\n", soft_wrap=True)
    ending = "The old key no longer works."
    if is_valid(old):
        ending = f"The old key works until {when(old.expires_at)}."
    out.print(f"[yellow]Copy it now: it is not shown again.[/] {ending}")
    return 0


def run_sessions(arguments: argparse.Namespace) -> int:
    with closing(keys(arguments.home)) as store:
        if arguments.end is not None:
            return end_session(store, arguments)
        sessions = live_sessions(store, arguments.user)
    if arguments.json:
        names = [name for name in SESSION_COLUMNS if name != "hash"]
        records = [{name: getattr(session, name) for name in names} for session in sessions]
        print_json({"sessions": records})
        return 0
    if not sessions:
        console().print("Nobody is signed in to the console.")
        return 0
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("id", no_wrap=True)
    for heading in ("user", "key", "browser", "from", "signed in", "last used", "ends"):
        table.add_column(heading)
    for session in sessions:
        table.add_row(
            session.id,
            safe(session.user),
            session.key or "token",
            safe(session.user_agent[:40]),
            safe(session.address),
            when(session.created_at),
            when(session.used_at),
            when(session.expires_at),
        )
    console().print(table)
    return 0


def end_session(store: ApiKeys, arguments: argparse.Namespace) -> int:
    store.end_session(arguments.end)
    if arguments.json:
        print_json({"ended": arguments.end})
    else:
        console().print("The session was ended.")
    return 0


def run_revoke(arguments: argparse.Namespace) -> int:
    with closing(keys(arguments.home)) as store:
        revoke(store, arguments.id)
        key = next(key for key in store.all_keys() if key.id in arguments.id)
    record(arguments.home, key.user, Entry.of(KEY, "revoke", [key.id]))
    if arguments.json:
        print_json({"revoked": key.id})
    else:
        console().print(f"The key {safe(key.name)} ({key.id}) was revoked.")
    return 0


def _state(key: ApiKey, successor: str | None = None) -> str:
    state = key_state(key, successor)
    if state == REVOKED:
        return f"[red]revoked[/] {when(key.revoked_at)}"
    if state == REPLACED:
        return f"[red]replaced[/] by {successor}"
    if state == BEING_REPLACED:
        return f"[yellow]being replaced[/] by {successor}, until {when(key.expires_at)}"
    if state == EXPIRED:
        return f"[red]expired[/] {when(key.expires_at)}"
    if key.expires_at is None:
        return "[green]valid[/]"
    return f"[green]valid[/] until {when(key.expires_at)}"


def _record(key: ApiKey) -> dict[str, object]:
    names = (name for name in COLUMNS if name != "hash")
    return {name: getattr(key, name) for name in names}


def parse_duration(text: str) -> timedelta:
    match = _DURATION.fullmatch(text.strip().lower())
    if match is None:
        raise InvalidInput(f"--grace: {text!r} is not a time. Use a number with s, m, h or d: 12h.")
    return timedelta(**{_UNITS[match[2]]: int(match[1])})


def parse_date(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        return bound(text, end=True)
    except ValueError as error:
        raise InvalidInput(
            f"--expires: {text!r} is not a date. Use ISO 8601, such as 2027-01-31."
        ) from error
