"""`recollect keys`: manage the API keys of the server."""

from __future__ import annotations

import argparse
import re
from contextlib import closing
from datetime import timedelta

from recollect.cli.commands import command, command_group
from recollect.cli.common import console, print_json, print_table, safe, show, when
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
)
from recollect.serve.identity.accounts import revoke as revoke_key
from recollect.serve.identity.accounts import rotate as rotate_key
from recollect.serve.identity.principal import SCOPES
from recollect.serve.mcp.toolsets import TOOLSETS
from recollect.settings import default_user
from recollect.store.api_keys import COLUMNS, SESSION_COLUMNS, ApiKey
from recollect.store.audit_log import KEY, Entry

_UNITS = {"": "seconds", "s": "seconds", "m": "minutes", "h": "hours", "d": "days"}

command_group(
    "keys",
    """
    recollect keys add laptop --user ann
    recollect keys add "claude on the server" --user ann --scope read --agent
    recollect keys list
    recollect keys rotate laptop --grace 1d
    recollect keys revoke 3f9a0c21d4e7
    recollect keys sessions

    After you add the first key, every client needs one. A key gives access to the
    library of one user. It is shown once, when you create it.
    """,
)


@command(
    "keys add",
    f"""
    name NAME   a name that tells you what the key is for
    --scope {"|".join(SCOPES)}...  what it may do; may be repeated (default: read and write)
    --toolset NAME...  only this group of routes (conversations, bus, knowledge) or tools;
                       may be repeated
    --agent     for an agent, which cannot read human-only messages
    --expires DATE  when it expires (ISO 8601); a bare date includes the whole day
    """,
    """
    recollect keys add laptop --user ann
    recollect keys add dashboard --scope read --expires 2027-01-31
    recollect keys add bus-agent --agent --toolset bus
    recollect keys add operator --scope read --scope write --scope admin

    Use it as:  curl -H "Authorization: Bearer KEY" http://127.0.0.1:8765/conversations
    """,
)
def add(arguments: argparse.Namespace) -> int | None:
    """Create a key; it is shown once."""
    user = default_user() if arguments.user is None else arguments.user
    require_name(arguments.name)
    for name in arguments.toolset:  # a key for any other could do nothing
        if name not in TOOLSETS:
            raise InvalidInput(f"{name!r} is not the name of a toolset. Use {', '.join(TOOLSETS)}.")
    try:
        expires_at = arguments.expires and bound(arguments.expires, end=True)
    except ValueError as error:
        raise InvalidInput(
            f"--expires: {arguments.expires!r} is not a date. Use ISO 8601, such as 2027-01-31."
        ) from error
    with closing(keys(arguments.home)) as store:
        text, key = new_key(
            store,
            user,
            arguments.name,
            arguments.scope or ("read", "write"),
            arguments.toolset or None,
            arguments.agent,
            expires_at,
        )
    record(arguments.home, user, Entry.of(KEY, "add", [key.id]))
    if arguments.json:
        return print_json({**fields_of(key), "key": text})
    scopes = ", ".join(key.scopes)
    console().print(f"A key for the library of [bold]{safe(user)}[/] ({scopes}), id {key.id}:")
    show_key(text, "From now on, every client needs a key.")
    return None


def show_key(text: str, remark: str) -> None:
    show(f"\n  [bold]{text}[/]\n")
    console().print(f"[yellow]Copy it now: it is not shown again.[/] {remark}")


def fields_of(key: ApiKey) -> dict[str, object]:
    return {name: getattr(key, name) for name in COLUMNS if name != "hash"}


@command("keys list", examples="recollect keys list --json")
def list_(arguments: argparse.Namespace) -> int | None:
    """List the keys."""
    with closing(keys(arguments.home)) as store:
        api_keys, replacements = store.all_keys(), store.replacements()
    if arguments.json:
        return print_json(
            {
                "keys": [
                    {**fields_of(key), "replaced_by": replacements.get(key.id)} for key in api_keys
                ]
            }
        )
    if not api_keys:
        console().print(
            "There are no keys, so everyone on this computer has access to the server.\n"
            "Create one: recollect keys add NAME"
        )
        return None
    rows = []
    for key in api_keys:
        scopes = ", ".join(key.scopes)
        if key.toolsets is not None:
            scopes += f" in {', '.join(key.toolsets)}"
        if key.agent:
            scopes += " (agent)"
        rows.append(
            (
                key.id,
                safe(key.name),
                safe(key.user),
                scopes,
                when(key.created_at),
                when(key.used_at) if key.used_at else "never",
                describe_state(key, replacements.get(key.id)),
            )
        )
    print_table("id, name, user, scopes, created, last used, state", rows)
    return None


def describe_state(key: ApiKey, successor: str | None) -> str:
    state, end = key_state(key, successor), when(key.expires_at)
    texts = {
        REVOKED: f"[red]revoked[/] {when(key.revoked_at)}",
        REPLACED: f"[red]replaced[/] by {successor}",
        BEING_REPLACED: f"[yellow]being replaced[/] by {successor}, until {end}",
        EXPIRED: f"[red]expired[/] {end}",
    }
    return texts.get(state, f"[green]valid[/] until {end}" if key.expires_at else "[green]valid[/]")


@command(
    "keys rotate",
    """
    name NAME  the name of the key, or its id
    --grace TIME =0  how long the old key still works, such as 30m, 12h or 1d
    """,
    """
    recollect keys rotate laptop
    recollect keys rotate 3f9a0c21d4e7 --grace 1d
    """,
)
def rotate(arguments: argparse.Namespace) -> int | None:
    """Replace a key with a new one that may do the same; it is shown once."""
    grace = re.fullmatch(r"([0-9]{1,6})([smhd]?)", arguments.grace.strip().lower())
    if grace is None:
        raise InvalidInput(
            f"--grace: {arguments.grace!r} is not a time. Use a number with s, m, h or d: 12h."
        )
    delay = timedelta(**{_UNITS[grace[2]]: int(grace[1])})
    with closing(keys(arguments.home)) as store:
        text, key, old = rotate_key(store, arguments.name, delay, arguments.user)
    record(arguments.home, key.user, Entry.of(KEY, "rotate", [old.id, key.id]))
    if arguments.json:
        return print_json({**fields_of(key), "key": text, "replaces": old.id})
    console().print(f"A new key for [bold]{safe(key.name or key.id)}[/], id {key.id}:")
    ending = "The old key no longer works."
    if is_valid(old):
        ending = f"The old key works until {when(old.expires_at)}."
    show_key(text, ending)
    return None


@command(
    "keys sessions",
    "--end ID  end this session",
    """
    recollect keys sessions
    recollect keys sessions --end 7c1e90b2aa35
    """,
)
def sessions(arguments: argparse.Namespace) -> int | None:
    """List who is signed in to the console, or end a session."""
    with closing(keys(arguments.home)) as store:
        if arguments.end is not None:
            store.end_session(arguments.end)
            if arguments.json:
                return print_json({"ended": arguments.end})
            console().print("The session was ended.")
            return None
        sessions = live_sessions(store, arguments.user)
    if arguments.json:
        names = [name for name in SESSION_COLUMNS if name != "hash"]
        records = [{name: getattr(session, name) for name in names} for session in sessions]
        return print_json({"sessions": records})
    if not sessions:
        console().print("Nobody is signed in to the console.")
        return None
    rows = [
        (
            session.id,
            safe(session.user),
            session.key or "token",
            safe(session.user_agent[:40]),
            safe(session.address),
            when(session.created_at),
            when(session.used_at),
            when(session.expires_at),
        )
        for session in sessions
    ]
    print_table("id, user, key, browser, from, signed in, last used, ends", rows)
    return None


@command(
    "keys revoke",
    "id ID  as `recollect keys list` shows it",
    "recollect keys revoke 3f9a0c21d4e7",
)
def revoke(arguments: argparse.Namespace) -> int | None:
    """Revoke a key."""
    with closing(keys(arguments.home)) as store:
        revoke_key(store, arguments.id)
        key = next(key for key in store.all_keys() if key.id in arguments.id)
    record(arguments.home, key.user, Entry.of(KEY, "revoke", [key.id]))
    if arguments.json:
        return print_json({"revoked": key.id})
    console().print(f"The key {safe(key.name)} ({key.id}) was revoked.")
    return None
