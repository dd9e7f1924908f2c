"""`recollect move`: copy a library to another place, and verify the copy."""

from __future__ import annotations

import argparse
import sys

from recollect.cli.care.indexing import index_after_import
from recollect.cli.common import add_no_index, console, define, plural, print_json, safe
from recollect.cli.progress import ProgressBar
from recollect.errors import InvalidInput
from recollect.places import abort_move, move, open, record, reopen
from recollect.settings import default_user
from recollect.store.audit_log import MOVE, Entry
from recollect.store.values import Contents
from recollect.transfer.moving import MoveResult

_EXAMPLES = """\
  recollect move ~/old-place ~/new-place
  recollect move ~/.local/share/recollect postgresql://me:secret@server/recollect
  recollect move postgresql://me:secret@server/recollect ~/recollect --user ann --remove
  recollect move FROM TO --switch                      programs that write to FROM must use TO
  recollect move FROM TO --abort                       discard an interrupted move
  recollect move FROM TO --reopen                      accept writes at FROM again

Programs may write to the library in the meantime; what they write is copied too.
Without --switch and --remove, the library at FROM stays as it is.
Run the same command again to resume an interrupted move.
The command moves one library; to move several, use a loop:
  for user in ann ben; do recollect move FROM TO --user "$user"; done
"""
_UNFINISHED = (
    "The move was interrupted. Run the same command again to resume it, or add --abort to discard "
    "it."
)


def define_move(command: argparse.ArgumentParser) -> None:
    define(command, run, _EXAMPLES)
    command.add_argument(
        "source",
        metavar="FROM",
        help="where it is now: a folder (as for --home), or postgresql://…",
    )
    command.add_argument(
        "target", metavar="TO", help="where to copy it; there must be no conversations yet"
    )
    command.add_argument(
        "--to-user", metavar="NAME", help="the user who owns the copy (default: the same as --user)"
    )
    command.add_argument(
        "--switch",
        action="store_true",
        help="close the library at FROM when TO has everything: writes to it are refused",
    )
    command.add_argument(
        "--remove",
        action="store_true",
        help="remove the library at FROM after the copy is verified (includes --switch)",
    )
    command.add_argument(
        "--reopen", action="store_true", help="accept writes at FROM again after --switch"
    )
    command.add_argument(
        "--abort", action="store_true", help="discard what an interrupted move left at TO"
    )
    add_no_index(command)


def run(arguments: argparse.Namespace) -> int:
    if arguments.home is not None:
        raise InvalidInput("`recollect move` takes FROM and TO instead of --home.")
    user = arguments.user
    if user is None:
        user = default_user()
    to_user = arguments.to_user
    if to_user is None:
        to_user = user
    if arguments.abort:
        return _abort(arguments, to_user)
    if arguments.reopen:
        return _reopen(arguments, user)
    try:
        with ProgressBar("Copying") as bar:
            result = move(
                arguments.source,
                arguments.target,
                user,
                to_user,
                switch=arguments.switch,
                remove=arguments.remove,
                progress=bar.report,
            )
    except KeyboardInterrupt:
        print(f"recollect: {_UNFINISHED}", file=sys.stderr)
        return 130
    record(arguments.target, to_user, Entry.of(MOVE, "library", (), result.contents.messages))
    if arguments.json:
        print_json(_as_json(result) | {"user": user, "to_user": to_user})
    else:
        _show(result)
    with open(arguments.target, to_user, background=False) as library:
        return index_after_import(library, arguments, "move")


def _as_json(result: MoveResult) -> dict[str, object]:
    flags = {"copied": result.copied, "removed": result.removed, "closed": result.closed}
    return result.contents._asdict() | flags


def _show(result: MoveResult) -> None:
    out = console()
    out.print(
        f"{_summary(result.contents)}: [green]identical[/] [dim](hash {result.contents.hash})[/]",
        soft_wrap=True,
    )
    if not result.copied:
        out.print("The copy was already complete.")
    if result.removed:
        out.print("The library at FROM was removed.")
    elif result.closed:
        out.print(
            "The library at FROM is closed: programs that write to it are told to use TO. "
            "Run the same command with [bold]--remove[/] to remove it."
        )
    else:
        out.print(
            "The library at FROM is still there. "
            "Run the same command with [bold]--remove[/] to remove it."
        )


def _summary(contents: Contents) -> str:
    parts = [plural(contents.conversations, "conversation")]
    if contents.notes:  # also media, characters, prompts and observations
        parts.append(plural(contents.notes, "other document"))
    parts.append(f"{contents.messages:,} messages and passages")
    parts.append(plural(contents.imports, "import"))
    return ", ".join(parts)


def _abort(arguments: argparse.Namespace, user: str) -> int:
    abort_move(arguments.target, user)
    if arguments.json:
        print_json({"aborted": True, "to_user": user})
    else:
        console().print(f"The incomplete library of {safe(user)} at TO was removed.")
    return 0


def _reopen(arguments: argparse.Namespace, user: str) -> int:
    reopen(arguments.source, user)
    if arguments.json:
        print_json({"reopened": True, "user": user})
    else:
        console().print(f"The library of {safe(user)} at FROM accepts writes again.")
    return 0
