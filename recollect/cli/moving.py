"""`recollect move`, `salvage`, `encrypt` and `decrypt`: whole libraries."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

from recollect.cli.commands import command, together
from recollect.cli.common import (
    NO_INDEX,
    ask_for_passphrase,
    plural,
    print_json,
    safe,
    safe_line,
    show,
)
from recollect.cli.indexing import index_after_import
from recollect.cli.terminal import ProgressBar
from recollect.configuration import expand_path
from recollect.encrypting import change_passphrase, decrypt_home, encrypt_home
from recollect.errors import InvalidInput
from recollect.home_folder import KEY_FILE
from recollect.passphrases import read_passphrase
from recollect.places import abort_move, open, record, reopen, salvage
from recollect.places import move as move_library
from recollect.settings import PASSPHRASE_FILE, default_user, place
from recollect.store.audit_log import MOVE, Entry
from recollect.store.sqlite.encryption import configured_passphrase
from recollect.transfer.moving import MoveResult
from recollect.transfer.salvage import Loss, SalvageReport

_MAX_LINES = 50
_MAX_NAMES = 10


@command(
    "move",
    together(
        """
        source FROM   where it is now: a folder (as for --home), or postgresql://…
        target TO     where to copy it; there must be no conversations yet
        --to-user NAME  the user who owns the copy (default: the same as --user)
        --switch      close the library at FROM: writes to it are refused, TO is used from now on
        --remove      remove the library at FROM after the copy is verified (includes --switch)
        --reopen      accept writes at FROM again after --switch
        --abort       discard what an interrupted move left at TO
        """,
        NO_INDEX,
    ),
    """
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
    """,
)
def move(arguments: argparse.Namespace) -> int:
    if arguments.home is not None:
        raise InvalidInput("`recollect move` takes FROM and TO instead of --home.")
    user = default_user() if arguments.user is None else arguments.user
    to_user = user if arguments.to_user is None else arguments.to_user
    if arguments.abort:
        abort_move(arguments.target, to_user)
        if arguments.json:
            return print_json({"aborted": True, "to_user": to_user})
        show(f"The incomplete library of {safe(to_user)} at TO was removed.")
        return 0
    if arguments.reopen:
        reopen(arguments.source, user)
        if arguments.json:
            return print_json({"reopened": True, "user": user})
        show(f"The library of {safe(user)} at FROM accepts writes again.")
        return 0
    try:
        with ProgressBar("Copying") as bar:
            result = move_library(
                arguments.source,
                arguments.target,
                user,
                to_user,
                switch=arguments.switch,
                remove=arguments.remove,
                progress=bar.report,
            )
    except KeyboardInterrupt:
        print(
            "recollect: The move was interrupted. Run the same command again to complete it, or "
            "discard it with --abort.",
            file=sys.stderr,
        )
        return 130
    record(arguments.target, to_user, Entry.of(MOVE, "library", (), result.contents.messages))
    if arguments.json:
        flags = {"copied": result.copied, "removed": result.removed, "closed": result.closed}
        print_json(result.contents._asdict() | flags | {"user": user, "to_user": to_user})
    else:
        show_move(result)
    with open(arguments.target, to_user, background=False) as library:
        return index_after_import(library, arguments, "move")


def show_move(result: MoveResult) -> None:
    contents = result.contents
    parts = [plural(contents.conversations, "conversation")]
    if contents.notes:  # also media, characters, prompts and observations
        parts.append(plural(contents.notes, "other document"))
    parts += [f"{contents.messages:,} messages and passages", plural(contents.imports, "import")]
    show(f"{', '.join(parts)}: [green]identical[/] [dim](hash {contents.hash})[/]")
    if not result.copied:
        show("The copy was already complete.")
    if result.removed:
        show("The library at FROM was removed.")
        return
    state = "still there."
    if result.closed:
        state = "closed: programs that write to it are told to use TO."
    show(
        f"The library at FROM is {state} Run the same command with [bold]--remove[/] to remove it."
    )


@command(
    "salvage",
    together(
        """
        damaged DAMAGED  the damaged library: its file, or the folder that holds it (as for --home)
        target NEW       where to store what is rescued: a folder (as for --home), or postgresql://…
        --to-user NAME   the user who owns the new library (default: the same as --user)
        """,
        NO_INDEX,
    ),
    """
    recollect salvage ~/.local/share/recollect ~/rescued
    recollect salvage ~/.local/share/recollect ~/rescued --user ann
    recollect salvage /mnt/old-disk/library.db ~/rescued

    The damaged library is not changed. Stop the programs that use it first.
    """,
)
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
    documents = "1 conversation or item"
    if report.documents != 1:
        documents = f"{report.documents:,} conversations and items"
    messages = plural(report.messages, "message")
    lines = [f"Rescued {messages} in {documents} from {safe(report.source)}"]
    if report.is_complete:
        lines.append("[green]Nothing is missing.[/]")
    if report.missing_messages:
        lines.append(f"[red]missing[/]: {plural(report.missing_messages, 'message')}")
    lines += limited(map(describe_loss, report.losses))
    lines += limited(f"[red]lost[/]: all of {safe(repr(id_))}" for id_ in report.lost_documents)
    lines += limited(
        f"[yellow]altered[/]: message {safe(repr(message))} of {safe(repr(document))} "
        "differs from its checksum"
        for document, message in report.altered
    )
    lines += limited(
        f"[yellow]altered[/]: some fields of {safe(repr(id_))} are lost"
        for id_ in report.altered_documents
    )
    if not report.is_complete:
        lines.append("A backup may have what is missing: recollect restore")
    for line in lines:
        show(line, stderr=stderr)


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


def limited(lines: Iterable[str]) -> list[str]:
    lines = list(lines)
    if len(lines) <= _MAX_LINES:
        return lines
    return [*lines[:_MAX_LINES], f"… and {len(lines) - _MAX_LINES} more (--json lists all)"]


@command(
    "encrypt",
    """
    --passphrase-file FILE  read the new passphrase from the first line of a file
                            (default: RECOLLECT_PASSPHRASE_FILE)
    --change-passphrase     change the passphrase of an encrypted home; the libraries are not
                            written again
    """,
    """
    recollect encrypt                                    asks for a passphrase
    recollect encrypt --passphrase-file FILE             uses the first line of a file
    recollect encrypt --change-passphrase --passphrase-file NEW

    Needs apsw-sqlite3mc instead of apsw, see docs/encryption.md. Stop servers first. An interrupted
    run is resumed by running the command again.
    """,
)
def encrypt(arguments: argparse.Namespace) -> int:
    home = home_to_convert(arguments)
    passphrase = None if arguments.change_passphrase else configured_passphrase()
    if arguments.passphrase_file:
        passphrase = read_passphrase(expand_path(arguments.passphrase_file))
    if passphrase is None:
        passphrase = ask_for_passphrase("nobody can read the libraries", "--passphrase-file")
    if arguments.change_passphrase:
        change_passphrase(home, passphrase)
        print(f"The passphrase of {home} is changed.")
        return 0
    with ProgressBar("Encrypting") as bar:
        result = encrypt_home(home, passphrase, bar.report)
    if arguments.json:
        return print_json(asdict(result))
    databases, files = plural(result.databases, "database"), result.archived_files
    show(f"Encrypted {databases} and {plural(files, 'archived file')} in {safe(str(home))}.")
    show(
        f"Keep {KEY_FILE} and the passphrase: without either of them, nobody can read "
        f"anything here. Set {PASSPHRASE_FILE.name} for servers and hooks."
    )
    return 0


@command("decrypt", "", "recollect decrypt")
def decrypt(arguments: argparse.Namespace) -> int:
    home = home_to_convert(arguments)
    with ProgressBar("Decrypting") as bar:
        result = decrypt_home(home, progress=bar.report)
    if arguments.json:
        return print_json(asdict(result))
    databases, files = plural(result.databases, "database"), result.archived_files
    show(f"Decrypted {databases} and {plural(files, 'archived file')} in {safe(str(home))}.")
    return 0


def home_to_convert(arguments: argparse.Namespace) -> Path:
    where = place(arguments.home)
    if not isinstance(where, Path):
        raise InvalidInput(
            "Only SQLite libraries can be encrypted. For PostgreSQL, encrypt the disk of the "
            "server (see docs/encryption.md)."
        )
    return where
