"""`recollect backup` and `recollect restore`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from getpass import getpass
from pathlib import Path
from typing import Any

from rich.filesize import decimal

from recollect.backup import repository as repositories
from recollect.backup.files import missing_backup, work_folder
from recollect.backup.making import make_backup, verify
from recollect.backup.manifest import LATEST, Manifest, pick
from recollect.backup.repository import Repository, create_repository, open_repository
from recollect.backup.restoring import RestoreOptions, restore
from recollect.backup.schedule import (
    RULES,
    backup_folder,
    configured_passphrase,
    parse_rules,
    prune,
)
from recollect.cli.commands import command, together
from recollect.cli.common import ask_for_passphrase, plural, print_json, print_table, safe, show
from recollect.cli.terminal import ProgressBar
from recollect.configuration import expand_path
from recollect.errors import DamagedBackup, InvalidInput
from recollect.passphrases import read_passphrase, require_strength
from recollect.places import library_file, record
from recollect.settings import BACKUP_KEEP, default_user, home, place
from recollect.store.audit_log import RESTORE, Entry

_FOLDER = """
    --folder FOLDER         the backup folder
                            (default: RECOLLECT_BACKUP_FOLDER, or one beside the home folder)
    --passphrase-file FILE  read the passphrase from the first line of a file
                            (default: RECOLLECT_BACKUP_PASSPHRASE_FILE)
"""
_KEEP = """
    --keep-last 0..     keep so many of the newest backups
    --keep-daily 0..    keep the newest backup of each day, for this many days
    --keep-weekly 0..   keep the newest backup of each week, for this many weeks
    --keep-monthly 0..  keep the newest backup of each month, for this many months
"""


# -- the folder and its passphrase ---------------------------------------------


def folder_of(arguments: argparse.Namespace) -> Path:
    return backup_folder(place(arguments.home), arguments.folder)


def passphrase_of(arguments: argparse.Namespace) -> str | None:
    if arguments.passphrase_file:
        return read_passphrase(expand_path(arguments.passphrase_file))
    return configured_passphrase()


@contextmanager
def existing_repository(arguments: argparse.Namespace) -> Iterator[Repository]:
    folder, passphrase = folder_of(arguments), passphrase_of(arguments)
    if passphrase is None and repositories.is_encrypted(folder) and sys.stdin.isatty():
        passphrase = getpass("Passphrase of the backups: ")
    with open_repository(folder, passphrase) as repository:
        yield repository


@contextmanager
def new_or_existing_repository(arguments: argparse.Namespace) -> Iterator[Repository]:
    folder = folder_of(arguments)
    if repositories.exists(folder):
        with existing_repository(arguments) as repository:
            if arguments.encrypt and not repository.is_encrypted:
                raise InvalidInput(
                    f"The backups in {folder} are not encrypted. Use another folder: --folder."
                )
            yield repository
        return
    passphrase = passphrase_of(arguments)
    if passphrase is None and arguments.encrypt:
        variables = "RECOLLECT_BACKUP_PASSPHRASE_FILE or RECOLLECT_BACKUP_PASSPHRASE"
        passphrase = ask_for_passphrase("nobody can restore", f"--passphrase-file, {variables}")
    if passphrase is not None:
        require_strength(passphrase)
    with create_repository(folder, passphrase) as repository:
        yield repository


def rules_of(arguments: argparse.Namespace) -> dict[str, int] | None:
    """The rules on the command line; None if there are none."""
    numbers = {rule: getattr(arguments, f"keep_{rule}") for rule in RULES}
    if all(number is None for number in numbers.values()):
        return None
    return {rule: number or 0 for rule, number in numbers.items()}


def describe_missing(arguments: argparse.Namespace, repository: Repository) -> str | None:
    """A sentence about the newest backup of this home, if it has disappeared from the folder."""
    where = place(arguments.home)
    if not isinstance(where, Path):
        return None
    return missing_backup(where, repository.folder, repository.ids()) or None


# -- commands ------------------------------------------------------------------


@command(
    "backup",
    together(_FOLDER, "--encrypt  encrypt a new backup folder with a passphrase", _KEEP),
    """
    recollect backup                                     all libraries, to the backup folder
    recollect backup --folder /media/usb/backups         to another disk
    recollect backup --encrypt                           asks for a passphrase the first time
    recollect backup --user ann                          one library
    recollect backup --keep-daily 7                      and remove older backups
    recollect backup list
    recollect backup verify                              read and check the newest backup
    recollect backup verify --all
    recollect backup prune --keep-daily 7 --keep-weekly 4

    A backup stores only what changed since the last one. Programs can go on
    writing meanwhile. It counts only after all of it was read back and checked.
    `recollect restore` restores any of them.
    """,
)
def backup(arguments: argparse.Namespace) -> int | None:
    where, user = place(arguments.home), arguments.user
    if user is None and isinstance(where, str):
        user = default_user()
    rules = rules_of(arguments)
    with new_or_existing_repository(arguments) as repository:
        missing = describe_missing(arguments, repository)
        if missing:
            print(f"recollect: {missing}", file=sys.stderr)
        with ProgressBar("Backing up", "bytes") as bar:
            manifest = make_backup(repository, where, user, bar.report, work_home=home())
        folder = str(repository.folder)
        result: dict[str, Any] = manifest.summary() | {"folder": folder}
        if rules is not None:
            result["removed"] = list(prune(repository, rules).removed_ids)
    if arguments.json:
        return print_json(result)
    show(
        f"[green]Backup {manifest.id}[/]: {amounts(manifest)}. "
        f"{decimal(manifest.added_bytes)} were new. Read back and verified."
    )
    if result.get("removed"):
        show(f"Removed {plural(len(result['removed']), 'expired backup')}.")
    show(f"[dim]In {safe(folder)}[/]")
    return None


def amounts(manifest: Manifest) -> str:
    count = len(manifest.libraries)
    parts = [
        "" if count == 1 else f"{count:,} libraries",
        plural(manifest.documents, "document"),
        f"{plural(manifest.messages, 'message')} and passages",
        decimal(manifest.size),
    ]
    return ", ".join(filter(None, parts))


@command("backup list", _FOLDER, "recollect backup list --json")
def list_(arguments: argparse.Namespace) -> int:
    """List the backups."""
    with existing_repository(arguments) as repository:
        backups, problems = repository.readable_manifests()
        missing = describe_missing(arguments, repository)
        folder = str(repository.folder)
    if arguments.json:
        summaries = [backup.summary() for backup in backups]
        print_json(
            {"folder": folder, "backups": summaries, "damaged": problems, "missing": missing}
        )
        return int(bool(problems or missing))
    rows = [
        (
            backup.id,
            safe(backup.user) or str(len(backup.libraries)),
            f"{backup.documents:,}",
            f"{backup.messages:,}",
            decimal(backup.size),
            decimal(backup.added_bytes),
        )
        for backup in backups
    ]
    print_table("backup (UTC), libraries, documents, messages, size, new", rows)
    for problem in problems.values():
        show(f"[red]damaged[/]: {safe(problem)}")
    if missing:
        show(f"[red]missing[/]: {safe(missing)}")
    show(f"[dim]In {safe(folder)}[/]")
    return int(bool(problems or missing))


@command(
    "backup verify",
    together(
        _FOLDER,
        f"""
        backup? BACKUP ={LATEST}  which one
        --all  verify every backup
        """,
    ),
    "recollect backup verify --all",
)
def run_verify(arguments: argparse.Namespace) -> int:
    """Read backups, rebuild their databases and check them."""
    where = place(arguments.home)
    with (
        existing_repository(arguments) as repository,
        repository.lock(for_reading=True),
        work_folder(where if isinstance(where, Path) else home()) as work,
    ):
        ids = repository.ids()
        if not arguments.all and arguments.backup in ids:
            ids = [arguments.backup]
        elif not arguments.all:
            ids = [pick(repository.readable_manifests()[0], arguments.backup).id]
        missing = describe_missing(arguments, repository)
        with ProgressBar("Verifying", "bytes") as bar:
            results = [verify(repository, id_, work, bar.report) for id_ in ids]
        damaged_packs = list(repository.damaged_packs)
    is_good = all(result.is_good for result in results) and not missing
    if arguments.json:
        records = [
            {"id": result.id, "good": result.is_good, "problems": list(result.problems)}
            for result in results
        ]
        summary = {"good": is_good, "backups": records, "damaged_packs": damaged_packs}
        print_json(summary | {"missing": missing})
        return int(not is_good)
    for result in results:
        if result.is_good:
            show(f"{result.id}: [green]good[/]")
        for problem in result.problems:
            show(f"{result.id}: [red]damaged[/]: {safe(problem)}")
    for problem in damaged_packs:
        show(f"[yellow]pack[/]: {safe(problem)}")
    if missing:
        show(f"[red]missing[/]: {safe(missing)}")
    return int(not is_good)


@command(
    "backup prune",
    together(
        _FOLDER,
        _KEEP,
        "--compact  leave no byte of removed backups, even if that rewrites much",
    ),
    "recollect backup prune --keep-daily 7 --keep-weekly 4",
)
def run_prune(arguments: argparse.Namespace) -> int | None:
    """Remove backups that no rule keeps."""
    rules = rules_of(arguments)
    if rules is None:
        rules = parse_rules(BACKUP_KEEP.get())
    with existing_repository(arguments) as repository:
        result = prune(repository, rules, compact=arguments.compact)
    removed, remaining = list(result.removed_ids), list(result.remaining_ids)
    if arguments.json:
        return print_json(
            {"removed": removed, "remaining": remaining, "freed_bytes": result.freed_bytes}
        )
    show(
        f"Removed {plural(len(removed), 'backup')}, freed {decimal(result.freed_bytes)}. "
        f"{plural(len(remaining), 'backup')} left."
    )
    return None


@command(
    "restore",
    together(
        _FOLDER,
        f"""
        backup? BACKUP ={LATEST}  an id or its start, or a date (the newest backup up to then)
        --to PLACE      where to restore it: a folder or postgresql://…
                        (default: the home folder)
        --to-user NAME  with --user: the user who gets the library
        --replace       replace libraries even if they changed after the backup; they are kept
                        beside it
        """,
    ),
    """
    recollect restore --to ~/restored                    the newest backup, to a new place
    recollect restore 2026-11-01 --to ~/restored         the newest up to this day
    recollect restore 20261116-093000-4f2a9c --replace   over the present libraries
    recollect restore latest --user ann --to ~/restored  one library

    The whole backup is checked first. Replaced files are kept in the home folder,
    in a folder named replaced-DATE.
    """,
)
def run_restore(arguments: argparse.Namespace) -> int | None:
    if arguments.to_user and not arguments.user:
        raise InvalidInput("--to-user needs --user: whose library to restore.")
    target = place(arguments.home if arguments.to is None else arguments.to)
    options = RestoreOptions(arguments.user or "", arguments.to_user or "", arguments.replace)
    with existing_repository(arguments) as repository:
        backup = pick_backup(repository, options.user, arguments.backup)
        with ProgressBar("Restoring", "bytes") as bar:
            result = restore(repository, backup, target, options, bar.report, work_home=home())
    record(target, options.to_user or options.user or None, Entry.of(RESTORE, "backup"))
    if arguments.json:
        return print_json(
            backup.summary()
            | {
                "restored_to": result.place,
                "restored_files": list(result.restored_files),
                "retained_files": list(result.retained_files),
                "replaced_folder": result.replaced_folder or None,
            }
        )
    show(f"[green]Restored[/] {backup.id} to {safe(result.place)}: {amounts(result.backup)}.")
    if result.retained_files:
        names = ", ".join(result.retained_files[:5])
        show(f"Not replaced, because they exist: {safe(names)}.")
    if result.replaced_folder:
        show(f"The previous files are now in {safe(result.replaced_folder)}.")
    show("The index is rebuilt in the background, or by `recollect index`.")
    return None


def pick_backup(repository: Repository, user: str, text: str) -> Manifest:
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
