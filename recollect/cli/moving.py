"""`recollect move`: a library from one place to another, whole or not at all."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from recollect.cli.common import Commands, add_command, console, print_json, safe
from recollect.cli.indexing import index_after_import
from recollect.errors import InvalidInput
from recollect.places import abort_move, move, open
from recollect.settings import default_user
from recollect.store.base import Contents
from recollect.transfer.moving import Moved

_EXAMPLES = """\
  recollect move ~/old-place ~/new-place
  recollect move ~/.local/share/recollect postgresql://me:secret@server/recollect
  recollect move postgresql://me:secret@server/recollect ~/recollect --user ann --remove
  recollect move FROM TO --abort                       take back a move that was not finished

Without --remove nothing is taken away: the library at FROM stays as it is.
A move that was broken off is gone on with by the same command.
One library is moved at a time; for several, a loop in the shell:
  for user in ann ben; do recollect move FROM TO --user "$user"; done
"""
_UNFINISHED = (
    "The move is not finished. The same command goes on with it; with --abort it is taken back."
)


def register(commands: Commands) -> None:
    command = add_command(
        commands,
        "move",
        "copy a library to another place or database, and verify it",
        run,
        _EXAMPLES,
    )
    command.add_argument(
        "source", metavar="FROM", help="where it is: a folder as --home takes it, or postgresql://…"
    )
    command.add_argument(
        "target", metavar="TO", help="where it shall be; there must be no conversations yet"
    )
    command.add_argument(
        "--to-user", metavar="NAME", help="whose library it becomes there (default: as --user)"
    )
    command.add_argument(
        "--remove",
        action="store_true",
        help="remove the library at FROM once the copy is verified (default: it stays)",
    )
    command.add_argument(
        "--abort", action="store_true", help="take away what an unfinished move has left at TO"
    )
    command.add_argument(
        "--no-index", action="store_true", help="leave indexing for later; words are found at once"
    )


def run(given: argparse.Namespace) -> int:
    if given.home is not None:
        raise InvalidInput("A move has two places: say them as FROM and TO, not with --home.")
    user = default_user() if given.user is None else given.user
    to_user = user if given.to_user is None else given.to_user
    if given.abort:
        return _abort(given, to_user)
    try:
        moved = _with_progress(given, user, to_user)
    except KeyboardInterrupt:
        print(f"recollect: {_UNFINISHED}", file=sys.stderr)
        return 130
    if given.json:
        print_json(
            asdict(moved.contents)
            | {"copied": moved.copied, "removed": moved.removed, "user": user, "to_user": to_user}
        )
    else:
        _show(moved)
    with open(given.target, to_user, background=False) as library:
        return index_after_import(library, given, "move")


def _with_progress(given: argparse.Namespace, user: str, to_user: str) -> Moved:
    bar = Progress(
        TextColumn("[bold]{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console(stderr=True),
        transient=True,
    )
    with bar:
        task = bar.add_task("Copying", total=None)

        def report(what: str, done: int, total: int) -> None:
            bar.update(task, description=what, completed=done, total=total)

        return move(given.source, given.target, user, to_user, remove=given.remove, progress=report)


def _show(moved: Moved) -> None:
    out = console()
    out.print(
        f"{_told(moved.contents)}: [green]identical[/] [dim](hash {moved.contents.hash})[/]",
        soft_wrap=True,
    )
    if not moved.copied:
        out.print("Everything was there already; nothing was copied.")
    if moved.removed:
        out.print("The library at FROM was removed.")
    else:
        out.print(
            "The library at FROM is still there. The same command with [bold]--remove[/] removes it."
        )


def _told(contents: Contents) -> str:
    notes = f"{contents.notes:,} notes, " if contents.notes else ""
    return (
        f"{contents.conversations:,} conversations, {notes}{contents.messages:,} messages, "
        f"{contents.imports:,} imports"
    )


def _abort(given: argparse.Namespace, user: str) -> int:
    abort_move(given.target, user)
    if given.json:
        print_json({"aborted": True, "to_user": user})
    else:
        console().print(f"The unfinished library of {safe(user)} at TO was taken away.")
    return 0
