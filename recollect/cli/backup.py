"""`recollect backup` and `recollect restore`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from getpass import getpass
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.filesize import decimal
from rich.table import Table

from recollect.backup import repository as repositories
from recollect.backup.files import missing_backup, work_folder
from recollect.backup.making import Verification, make_backup, verify
from recollect.backup.manifest import LATEST, Manifest, pick
from recollect.backup.repository import Repository, create_repository, open_repository
from recollect.backup.restoring import RestoreOptions, RestoreResult, restore
from recollect.backup.schedule import (
    RULES,
    backup_folder,
    configured_passphrase,
    parse_rules,
    prune,
)
from recollect.cli.common import add_flag, console, define, plural, print_json, safe
from recollect.cli.terminal import ProgressBar
from recollect.configuration import expand_path
from recollect.errors import DamagedBackup, InvalidInput
from recollect.passphrases import read_passphrase, require_strength
from recollect.places import library_file, record
from recollect.settings import BACKUP_KEEP, default_user, home, place
from recollect.store.audit_log import RESTORE, Entry

_EXAMPLES = """\
  recollect backup                                     all libraries, to the backup folder
  recollect backup --folder /media/usb/backups         to another disk
  recollect backup --encrypt                           asks for a passphrase the first time
  recollect backup --user ann                          one library
  recollect backup list
  recollect backup verify                              read and check the newest backup
  recollect backup verify --all
  recollect backup prune --keep-daily 7 --keep-weekly 4

A backup stores only what changed since the last one. Programs can go on
writing meanwhile. It counts only after all of it was read back and checked.
`recollect restore` restores any of them.
"""
_RESTORE_EXAMPLES = """\
  recollect restore --to ~/restored                    the newest backup, to a new place
  recollect restore 2026-11-01 --to ~/restored         the newest up to this day
  recollect restore 20261116-093000-4f2a9c --replace   over the present libraries
  recollect restore latest --user ann --to ~/restored  one library

The whole backup is checked first. Replaced files are kept in the home folder,
in a folder named replaced-DATE.
"""


def define_backup(command: argparse.ArgumentParser) -> None:
    define(command, run_backup, _EXAMPLES)
    add_folder(command)
    add_flag(command, "--encrypt", "encrypt a new backup folder with a passphrase")
    add_rules(command, "after the backup, also prune: ")
    actions = command.add_subparsers(dest="action", metavar="[ACTION]")
    for name, summary, run in (
        ("list", "list the backups", run_list),
        ("verify", "read backups, rebuild their databases and check them", run_verify),
        ("prune", "remove backups that no rule keeps", run_prune),
    ):
        action = actions.add_parser(name, help=summary, description=f"{summary.capitalize()}.")
        define(action, run, f"  recollect backup {name}\n  recollect backup {name} --json\n")
        add_folder(action)
        if name == "verify":
            add_verify_options(action)
        if name == "prune":
            add_rules(action, "")
            add_flag(
                action, "--compact", "leave no byte of removed backups, even if that rewrites much"
            )


def add_folder(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--folder",
        metavar="FOLDER",
        default=argparse.SUPPRESS,
        help="the backup folder (default: RECOLLECT_BACKUP_FOLDER, or one beside the home folder)",
    )
    command.add_argument(
        "--passphrase-file",
        metavar="FILE",
        default=argparse.SUPPRESS,
        help="read the passphrase from the first line of a file "
        "(default: RECOLLECT_BACKUP_PASSPHRASE_FILE)",
    )


def add_verify_options(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "backup", metavar="BACKUP", nargs="?", default=LATEST, help="which one (default: latest)"
    )
    add_flag(command, "--all", "verify every backup")


def add_rules(command: argparse.ArgumentParser, note: str) -> None:
    texts = {
        "last": "keep so many of the newest backups",
        "daily": "keep the newest backup of each day, for this many days",
        "weekly": "keep the newest backup of each week, for this many weeks",
        "monthly": "keep the newest backup of each month, for this many months",
    }
    for rule in RULES:
        command.add_argument(
            f"--keep-{rule}",
            type=_count,
            metavar="NUMBER",
            default=argparse.SUPPRESS,
            help=note + texts[rule],
        )


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number")
    return int(text)


def define_restore(command: argparse.ArgumentParser) -> None:
    define(command, run_restore, _RESTORE_EXAMPLES)
    add_folder(command)
    command.add_argument(
        "backup",
        metavar="BACKUP",
        nargs="?",
        default=LATEST,
        help="an id or its start, a date (the newest backup up to then), or latest (the default)",
    )
    command.add_argument(
        "--to",
        metavar="PLACE",
        help="where to restore it: a folder or postgresql://… (default: the home folder)",
    )
    command.add_argument(
        "--to-user", metavar="NAME", help="with --user: the user who gets the library"
    )
    add_flag(
        command,
        "--replace",
        "replace libraries even if they changed after the backup; they are kept beside it",
    )


# -- the folder and its passphrase ---------------------------------------------


@contextmanager
def _repository(arguments: argparse.Namespace) -> Iterator[Repository]:
    folder = _folder(arguments)
    passphrase = _passphrase(arguments)
    if passphrase is None and repositories.is_encrypted(folder) and sys.stdin.isatty():
        passphrase = getpass("Passphrase of the backups: ")
    with open_repository(folder, passphrase) as repository:
        yield repository


def _folder(arguments: argparse.Namespace) -> Path:
    return backup_folder(place(arguments.home), getattr(arguments, "folder", None))


def _passphrase(arguments: argparse.Namespace) -> str | None:
    file = getattr(arguments, "passphrase_file", None)
    if file:
        return read_passphrase(expand_path(file))
    return configured_passphrase()


@contextmanager
def new_or_existing_repository(arguments: argparse.Namespace) -> Iterator[Repository]:
    folder = _folder(arguments)
    if repositories.exists(folder):
        with _repository(arguments) as repository:
            if arguments.encrypt and not repository.is_encrypted:
                raise InvalidInput(
                    f"The backups in {folder} are not encrypted. Use another folder: --folder."
                )
            yield repository
        return
    passphrase = _passphrase(arguments)
    if passphrase is None and arguments.encrypt:
        passphrase = ask_for_new_passphrase()
    if passphrase is not None:
        require_strength(passphrase)
    with create_repository(folder, passphrase) as repository:
        yield repository


def ask_for_new_passphrase() -> str:
    if not sys.stdin.isatty():
        raise InvalidInput(
            "There is no terminal to ask for a passphrase. Use --passphrase-file, "
            "RECOLLECT_BACKUP_PASSPHRASE_FILE or RECOLLECT_BACKUP_PASSPHRASE."
        )
    passphrase = getpass("New passphrase (without it, nobody can restore): ")
    if getpass("The same again: ") != passphrase:
        raise InvalidInput("The two passphrases differ.")
    return passphrase


# -- commands ------------------------------------------------------------------


def run_backup(arguments: argparse.Namespace) -> int:
    where = place(arguments.home)
    user = arguments.user
    if user is None and isinstance(where, str):
        user = default_user()
    rules = _rules(arguments)
    with new_or_existing_repository(arguments) as repository:
        missing = _missing_backup(arguments, repository)
        if missing:
            print(f"recollect: {missing}", file=sys.stderr)
        with ProgressBar("Backing up", "bytes") as bar:
            manifest = make_backup(repository, where, user, bar.report, work_home=home())
        record: dict[str, Any] = manifest.summary() | {"folder": str(repository.folder)}
        if rules is not None:
            result = prune(repository, rules)
            record["removed"] = list(result.removed_ids)
    if arguments.json:
        print_json(record)
        return 0
    out = console()
    out.print(
        f"[green]Backup {manifest.id}[/]: {amounts(manifest)}. "
        f"{decimal(manifest.added_bytes)} were new. Read back and verified.",
        soft_wrap=True,
    )
    if record.get("removed"):
        out.print(f"Removed {plural(len(record['removed']), 'expired backup')}.")
    out.print(f"[dim]In {safe(record['folder'])}[/]", soft_wrap=True)
    return 0


def amounts(manifest: Manifest) -> str:
    parts = [
        plural(manifest.documents, "document"),
        f"{plural(manifest.messages, 'message')} and passages",
        decimal(manifest.size),
    ]
    if len(manifest.libraries) != 1:
        count = len(manifest.libraries)
        parts.insert(0, f"{count:,} libraries")
    return ", ".join(parts)


def _rules(arguments: argparse.Namespace) -> dict[str, int] | None:
    """The rules on the command line; None if there are none."""
    rules = dict.fromkeys(RULES, 0)
    numbers = {rule: getattr(arguments, f"keep_{rule}", None) for rule in RULES}
    if all(number is None for number in numbers.values()):
        return None
    return rules | {rule: number for rule, number in numbers.items() if number is not None}


def run_list(arguments: argparse.Namespace) -> int:
    with _repository(arguments) as repository:
        backups, problems = repository.readable_manifests()
        missing = _missing_backup(arguments, repository)
        folder = str(repository.folder)
    if arguments.json:
        print_json(
            {
                "folder": folder,
                "backups": [backup.summary() for backup in backups],
                "damaged": problems,
                "missing": missing or None,
            }
        )
        return int(bool(problems or missing))
    out = console()
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for heading in ("backup (UTC)", "libraries", "documents", "messages", "size", "new"):
        table.add_column(heading, no_wrap=True)
    for backup in backups:
        table.add_row(
            backup.id,
            safe(backup.user) or str(len(backup.libraries)),
            f"{backup.documents:,}",
            f"{backup.messages:,}",
            decimal(backup.size),
            decimal(backup.added_bytes),
        )
    out.print(table)
    for problem in problems.values():
        out.print(f"[red]damaged[/]: {safe(problem)}", soft_wrap=True)
    if missing:
        out.print(f"[red]missing[/]: {safe(missing)}", soft_wrap=True)
    out.print(f"[dim]In {safe(folder)}[/]", soft_wrap=True)
    return int(bool(problems or missing))


def _missing_backup(arguments: argparse.Namespace, repository: Repository) -> str:
    """A sentence about the newest backup of this home, if it has disappeared from the folder."""
    where = place(arguments.home)
    if not isinstance(where, Path):
        return ""
    return missing_backup(where, repository.folder, repository.ids())


def run_verify(arguments: argparse.Namespace) -> int:
    with (
        _repository(arguments) as repository,
        repository.lock(for_reading=True),
        _work(arguments) as work,
    ):
        if arguments.all or arguments.backup in repository.ids():
            ids = [id_ for id_ in repository.ids() if arguments.all or id_ == arguments.backup]
        else:
            ids = [pick(repository.readable_manifests()[0], arguments.backup).id]
        missing = _missing_backup(arguments, repository)
        with ProgressBar("Verifying", "bytes") as bar:
            results = [verify(repository, id_, work, bar.report) for id_ in ids]
        damaged_packs = list(repository.damaged_packs)
    is_good = all(result.is_good for result in results) and not missing
    if arguments.json:
        records = [
            {"id": result.id, "good": result.is_good, "problems": list(result.problems)}
            for result in results
        ]
        print_json(
            {
                "good": is_good,
                "backups": records,
                "damaged_packs": damaged_packs,
                "missing": missing or None,
            }
        )
    else:
        show_verification(results, damaged_packs)
        if missing:
            console().print(f"[red]missing[/]: {safe(missing)}", soft_wrap=True)
    return int(not is_good)


@contextmanager
def _work(arguments: argparse.Namespace) -> Iterator[Path]:
    where = place(arguments.home)
    if not isinstance(where, Path):
        where = home()
    with work_folder(where) as work:
        yield work


def show_verification(results: list[Verification], damaged_packs: list[str]) -> None:
    out = console()
    for result in results:
        if result.is_good:
            out.print(f"{result.id}: [green]good[/]")
        for problem in result.problems:
            out.print(f"{result.id}: [red]damaged[/]: {safe(problem)}", soft_wrap=True)
    for problem in damaged_packs:
        out.print(f"[yellow]pack[/]: {safe(problem)}", soft_wrap=True)


def run_prune(arguments: argparse.Namespace) -> int:
    rules = _rules(arguments)
    if rules is None:
        rules = parse_rules(BACKUP_KEEP.get())
    with _repository(arguments) as repository:
        result = prune(repository, rules, compact=arguments.compact)
    if arguments.json:
        print_json(
            {
                "removed": list(result.removed_ids),
                "remaining": list(result.remaining_ids),
                "freed_bytes": result.freed_bytes,
            }
        )
        return 0
    console().print(
        f"Removed {plural(len(result.removed_ids), 'backup')}, "
        f"freed {decimal(result.freed_bytes)}. "
        f"{plural(len(result.remaining_ids), 'backup')} left."
    )
    return 0


def run_restore(arguments: argparse.Namespace) -> int:
    if arguments.to_user and not arguments.user:
        raise InvalidInput("--to-user needs --user: whose library to restore.")
    target = place(arguments.to)
    if arguments.to is None:
        target = place(arguments.home)
    options = RestoreOptions(arguments.user or "", arguments.to_user or "", arguments.replace)
    with _repository(arguments) as repository:
        backup = _pick(repository, options.user, arguments.backup)
        with ProgressBar("Restoring", "bytes") as bar:
            result = restore(repository, backup, target, options, bar.report, work_home=home())
    user = options.to_user or options.user or None
    record(target, user, Entry.of(RESTORE, "backup"))
    if arguments.json:
        print_json(
            backup.summary()
            | {
                "restored_to": result.place,
                "restored_files": list(result.restored_files),
                "retained_files": list(result.retained_files),
                "replaced_folder": result.replaced_folder or None,
            }
        )
    else:
        show_restore(result)
    return 0


def _pick(repository: Repository, user: str, text: str) -> Manifest:
    """The backup that `text` names, among those with the library of a user if there is one."""
    backups, problems = repository.readable_manifests()
    if text in problems:
        raise DamagedBackup(problems[text])
    if user:
        name = library_file(Path(), user).parent.name
        backups = [
            backup
            for backup in backups
            if any(library.name == name for library in backup.libraries)
        ]
    else:
        # The newest backup of everything, not a newer one of a single library.
        backups = [backup for backup in backups if not backup.user or text in backup.id] or backups
    for problem in problems.values():
        print(f"recollect: {problem}", file=sys.stderr)
    return pick(backups, text)


def show_restore(result: RestoreResult) -> None:
    out = console()
    out.print(
        f"[green]Restored[/] {result.backup.id} to {safe(result.place)}: {amounts(result.backup)}.",
        soft_wrap=True,
    )
    if result.retained_files:
        names = ", ".join(result.retained_files[:5])
        out.print(f"Not replaced, because they exist: {safe(names)}.", soft_wrap=True)
    if result.replaced_folder:
        out.print(f"The previous files are now in {safe(result.replaced_folder)}.", soft_wrap=True)
    out.print("The index is rebuilt in the background, or by `recollect index`.")
