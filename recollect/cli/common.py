"""What every command shares: options, the library, the console, and JSON."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from recollect.errors import NotFound
from recollect.language.text import iso, printable
from recollect.library import Library
from recollect.model.sources import SOURCES
from recollect.places import open, open_existing
from recollect.settings import default_user, place

Commands = Any  # argparse keeps the type of its subparsers private
KINDS = ("notes", "media", "chats", "characters", "prompts")
"""As contract 3 names them; here, since every command would wait for the modules that know more of them."""


def add_command(
    commands: Commands,
    name: str,
    summary: str,
    run: Callable[[argparse.Namespace], int],
    examples: str,
) -> argparse.ArgumentParser:
    command: argparse.ArgumentParser = commands.add_parser(
        name,
        help=summary,
        description=summary[0].upper() + summary[1:] + ".",
        epilog="examples:\n" + examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.set_defaults(run=run)
    add_library(command, after_command=True)
    command.add_argument("--json", action="store_true", help="print JSON for programs")
    return command


def add_library(parser: argparse.ArgumentParser, *, after_command: bool = False) -> None:
    """Whose library and where: may be said before the command or after it."""
    where = "where libraries are: a folder, or postgresql://… (default: RECOLLECT_HOME, or your data folder)"
    whose = "whose library (default: RECOLLECT_USER, or default)"
    home, user = (argparse.SUPPRESS, argparse.SUPPRESS) if after_command else (None, None)
    parser.add_argument("--home", metavar="PLACE", help=where, default=home)
    parser.add_argument("--user", metavar="NAME", help=whose, default=user)


def add_filters(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--role",
        action="append",
        default=[],
        metavar="ROLE",
        help="user, assistant, tool or system; may be repeated",
    )
    command.add_argument(
        "--author",
        action="append",
        default=[],
        metavar="NAME",
        help="who wrote it; may be repeated",
    )
    command.add_argument("--after", metavar="DATE", help="not before this ISO 8601 date or time")
    command.add_argument(
        "--before", metavar="DATE", help="not after it; a bare date includes its whole day (UTC)"
    )
    command.add_argument(
        "--namespace",
        action="append",
        default=[],
        metavar="NAME",
        help="only this namespace or project",
    )
    command.add_argument(
        "--origin",
        action="append",
        default=[],
        metavar="NAME",
        help=f"one of {', '.join(SOURCES)}; may be repeated",
    )
    command.add_argument(
        "--tag",
        action="append",
        default=[],
        metavar="NAME",
        help="only conversations with this tag",
    )
    command.add_argument(
        "--conversation",
        action="append",
        default=[],
        metavar="ID",
        help="only inside this conversation",
    )


def kind(known: Collection[str]) -> Callable[[str], str]:
    """How a kind of document is said: "notes", and "note" too."""

    def named(said: str) -> str:
        for name in known:
            if said in (name, name.removesuffix("s")):
                return name
        raise argparse.ArgumentTypeError(f"{said!r} is not one of {', '.join(known)}")

    return named


def add_kind(command: argparse.ArgumentParser, known: Collection[str]) -> None:
    command.add_argument("kind", type=kind(known), metavar="KIND", help=", ".join(known))


def writable(given: argparse.Namespace) -> Library:
    return open(given.home, given.user, background=False)


def existing(given: argparse.Namespace) -> Library:
    """The library to read from; reading never creates one. No command is there long enough to index beside its work."""
    library = open_existing(given.home, given.user, background=False)
    if library is None:
        where = place(given.home)
        shown = where if isinstance(where, Path) else "that address"
        raise NotFound(
            f"There is no library of {given.user or default_user()!r} at {shown} yet. "
            "Import something first: recollect import PATH"
        )
    return library


def console(*, stderr: bool = False) -> Console:
    return Console(stderr=stderr, highlight=False)


def safe(value: str | None) -> str:
    """Stored text for the terminal: no control sequences, no markup."""
    return escape(printable(value or ""))


def when(value: datetime | None) -> str:
    return value.strftime("%Y-%m-%d %H:%M") if value else "no time"


def print_json(value: Any) -> None:
    """ASCII with escapes: lone surrogates in stored text cannot be written as UTF-8."""
    json.dump(value, sys.stdout, indent=2, default=_plain, allow_nan=False)
    sys.stdout.write("\n")


def _plain(value: object) -> Any:
    if isinstance(value, datetime):
        return iso(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"cannot print {type(value).__name__}")
