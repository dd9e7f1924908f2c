"""`recollect move`, `salvage`, `encrypt` and `decrypt`: whole libraries."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from getpass import getpass
from pathlib import Path

from recollect.cli.common import (
    add_flag,
    add_no_index,
    console,
    define,
    plural,
    print_json,
    safe,
    safe_line,
)
from recollect.cli.indexing import index_after_import
from recollect.cli.terminal import ProgressBar
from recollect.configuration import expand_path
from recollect.encrypting import Conversion, change_passphrase, decrypt_home, encrypt_home
from recollect.errors import InvalidInput
from recollect.home_folder import KEY_FILE
from recollect.passphrases import read_passphrase
from recollect.places import abort_move, move, open, record, reopen, salvage
from recollect.settings import PASSPHRASE_FILE, default_user, place
from recollect.store.audit_log import MOVE, Entry
from recollect.store.sqlite.encryption import configured_passphrase
from recollect.store.values import Contents
from recollect.transfer.moving import MoveResult
from recollect.transfer.salvage import Loss, SalvageReport

_EXAMPLES = """\
  recollect move ~/old-place ~/new-place
  recollect move ~/.local/share/recollect postgresql://me:secret@server/recollect
  recollect move postgresql://me:secret@server/recollect ~/recollect --user ann --remove
  recollect move FROM TO --switch                      programs that write to FROM must use TO
  recollect move FROM TO --abort                       discard an interrupted move
  recollect move FROM TO --reopen                      accept writes at FROM again

Without --switch and --remove, the library at FROM stays as it is, and is copied as it is now.
With one of them, nobody can write to it from now on.
Run the same command again after an interruption.
The command moves one library; to move several, use a loop:
  for user in ann ben; do recollect move FROM TO --user "$user"; done
"""
_UNFINISHED = (
    "The move was interrupted. Run the same command again to complete it, or discard it with "
    "--abort."
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
    add_flag(
        command,
        "--switch",
        "close the library at FROM: writes to it are refused, and TO is used from now on",
    )
    add_flag(
        command,
        "--remove",
        "remove the library at FROM after the copy is verified (includes --switch)",
    )
    add_flag(command, "--reopen", "accept writes at FROM again after --switch")
    add_flag(command, "--abort", "discard what an interrupted move left at TO")
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
        return abort(arguments, to_user)
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
        print_json(as_json(result) | {"user": user, "to_user": to_user})
    else:
        show(result)
    with open(arguments.target, to_user, background=False) as library:
        return index_after_import(library, arguments, "move")


def as_json(result: MoveResult) -> dict[str, object]:
    flags = {"copied": result.copied, "removed": result.removed, "closed": result.closed}
    return result.contents._asdict() | flags


def show(result: MoveResult) -> None:
    out = console()
    out.print(
        f"{summary(result.contents)}: [green]identical[/] [dim](hash {result.contents.hash})[/]",
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


def summary(contents: Contents) -> str:
    parts = [plural(contents.conversations, "conversation")]
    if contents.notes:  # also media, characters, prompts and observations
        parts.append(plural(contents.notes, "other document"))
    parts.append(f"{contents.messages:,} messages and passages")
    parts.append(plural(contents.imports, "import"))
    return ", ".join(parts)


def abort(arguments: argparse.Namespace, user: str) -> int:
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


_SALVAGE_EXAMPLES = """\
  recollect salvage ~/.local/share/recollect ~/rescued
  recollect salvage ~/.local/share/recollect ~/rescued --user ann
  recollect salvage /mnt/old-disk/library.db ~/rescued

The damaged library is not changed. Stop the programs that use it first.
"""
_MAX_LINES = 50
_MAX_NAMES = 10


def define_salvage(command: argparse.ArgumentParser) -> None:
    define(command, run_salvage, _SALVAGE_EXAMPLES)
    command.add_argument(
        "damaged",
        metavar="DAMAGED",
        help="the damaged library: its file, or the folder that holds it (as for --home)",
    )
    command.add_argument(
        "target",
        metavar="NEW",
        help="where to store what is rescued: a folder (as for --home), or postgresql://…",
    )
    command.add_argument(
        "--to-user",
        metavar="NAME",
        help="the user who owns the new library (default: the same as --user)",
    )
    add_no_index(command)


def run_salvage(arguments: argparse.Namespace) -> int:
    if arguments.home is not None:
        raise InvalidInput("`recollect salvage` takes DAMAGED and NEW instead of --home.")
    user = arguments.user or default_user()
    to_user = arguments.to_user or user
    with ProgressBar("Reading") as bar:
        report = salvage(arguments.damaged, arguments.target, user, to_user, progress=bar.report)
    if arguments.json:
        print_json(asdict(report) | {"is_complete": report.is_complete})
    else:
        show_report(report)
    with open(arguments.target, to_user, background=False) as library:
        return index_after_import(library, arguments, "salvage")


def show_report(report: SalvageReport, *, stderr: bool = False) -> None:
    """Print what was rescued, and what is missing."""
    out = console(stderr=stderr)
    out.print(
        f"Rescued {plural(report.messages, 'message')} in "
        f"{documents(report.documents)} from {safe(report.source)}",
        soft_wrap=True,
    )
    if report.is_complete:
        out.print("[green]Nothing is missing.[/]")
        return
    for line in findings(report):
        out.print(line, soft_wrap=True)
    out.print("A backup may have what is missing: recollect restore", soft_wrap=True)


def documents(count: int) -> str:
    if count == 1:
        return "1 conversation or item"
    return f"{count:,} conversations and items"


def findings(report: SalvageReport) -> list[str]:
    lines = []
    if report.missing_messages:
        lines.append(f"[red]missing[/]: {plural(report.missing_messages, 'message')}")
    lines += limited([describe_loss(loss) for loss in report.losses])
    lines += limited([f"[red]lost[/]: all of {safe(repr(id_))}" for id_ in report.lost_documents])
    lines += limited(
        [
            f"[yellow]altered[/]: message {safe(repr(message))} of {safe(repr(document))} "
            "differs from its checksum"
            for document, message in report.altered
        ]
    )
    lines += limited(
        [
            f"[yellow]altered[/]: some fields of {safe(repr(id_))} are lost"
            for id_ in report.altered_documents
        ]
    )
    return lines


def describe_loss(loss: Loss) -> str:
    line = f"[red]incomplete[/]: {safe(repr(loss.id))}"
    if loss.title:
        line += f" ({safe_line(loss.title)})"
    line += f": {plural(loss.rescued, 'message')} rescued, {loss.missing} missing"
    if loss.missing_ids:
        names = ", ".join(loss.missing_ids[:_MAX_NAMES])
        if len(loss.missing_ids) > _MAX_NAMES:
            names += ", …"
        line += f" ({safe(names)})"
    if loss.is_header_lost:
        line += "; its title and dates are lost"
    return line


def limited(lines: list[str]) -> list[str]:
    if len(lines) <= _MAX_LINES:
        return lines
    return [*lines[:_MAX_LINES], f"… and {len(lines) - _MAX_LINES} more (--json lists all)"]


_ENCRYPT_EXAMPLES = """\
  recollect encrypt                                    asks for a passphrase
  recollect encrypt --passphrase-file FILE             uses the first line of a file
  recollect encrypt --change-passphrase --passphrase-file NEW

Needs apsw-sqlite3mc instead of apsw, see docs/encryption.md. Stop servers first. An interrupted
run is resumed by running the command again.
"""
_DECRYPT_EXAMPLES = """\
  recollect decrypt
"""


def define_encrypt(command: argparse.ArgumentParser) -> None:
    define(command, encrypt, _ENCRYPT_EXAMPLES)
    command.add_argument(
        "--passphrase-file",
        metavar="FILE",
        help="read the new passphrase from the first line of a file "
        "(default: RECOLLECT_PASSPHRASE_FILE)",
    )
    add_flag(
        command,
        "--change-passphrase",
        "change the passphrase of an encrypted home; the libraries are not written again",
    )


def define_decrypt(command: argparse.ArgumentParser) -> None:
    define(command, decrypt, _DECRYPT_EXAMPLES)


def encrypt(arguments: argparse.Namespace) -> int:
    home = _home(arguments)
    if arguments.change_passphrase:
        change_passphrase(home, new_passphrase(arguments, default=None))
        print(f"The passphrase of {home} is changed.")
        return 0
    passphrase = new_passphrase(arguments, configured_passphrase())
    with ProgressBar("Encrypting") as bar:
        result = encrypt_home(home, passphrase, bar.report)
    show_encrypt(arguments, "Encrypted", home, result)
    if not arguments.json:
        console().print(
            f"Keep {KEY_FILE} and the passphrase: without either of them, nobody can read "
            f"anything here. Set {PASSPHRASE_FILE.name} for servers and hooks."
        )
    return 0


def decrypt(arguments: argparse.Namespace) -> int:
    home = _home(arguments)
    with ProgressBar("Decrypting") as bar:
        result = decrypt_home(home, progress=bar.report)
    show_encrypt(arguments, "Decrypted", home, result)
    return 0


def _home(arguments: argparse.Namespace) -> Path:
    where = place(arguments.home)
    if not isinstance(where, Path):
        raise InvalidInput(
            "Only SQLite libraries can be encrypted. For PostgreSQL, encrypt the disk of the "
            "server (see docs/encryption.md)."
        )
    return where


def new_passphrase(arguments: argparse.Namespace, default: str | None) -> str:
    if arguments.passphrase_file:
        return read_passphrase(expand_path(arguments.passphrase_file))
    if default is not None:
        return default
    if not sys.stdin.isatty():
        raise InvalidInput("There is no terminal to ask for a passphrase. Use --passphrase-file.")
    passphrase = getpass("New passphrase (without it, nobody can read the libraries): ")
    if getpass("The same again: ") != passphrase:
        raise InvalidInput("The two passphrases differ.")
    return passphrase


def show_encrypt(
    arguments: argparse.Namespace, action: str, home: Path, result: Conversion
) -> None:
    if arguments.json:
        print_json(asdict(result))
        return
    console().print(
        f"{action} {plural(result.databases, 'database')} and "
        f"{plural(result.archived_files, 'archived file')} in {safe(str(home))}."
    )
