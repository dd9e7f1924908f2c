"""`recollect watch`, `hook` and `archive`: import transcripts live, and keep their originals."""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from recollect.capture import hooks
from recollect.cli.common import (
    add_flag,
    add_folders,
    add_list,
    add_no_index,
    console,
    define,
    existing,
    existing_folders,
    plural,
    print_json,
    safe,
    when,
    writable,
)
from recollect.cli.indexing import index_after_import
from recollect.configuration import expand_path
from recollect.errors import DamagedLibrary, InvalidInput
from recollect.model.sources import WATCHED
from recollect.places import open
from recollect.settings import place
from recollect.stop_signal import StopSignal

_WATCH_EXAMPLES = """\
  recollect watch                                      all coding agents, until Ctrl-C
  recollect watch --tool claude-code
  recollect watch --once                               import what has changed, then exit
  recollect watch --folder ~/transcripts --json
"""
_HOOK_EXAMPLES = """\
  recollect hook session-start < event.json            recent work in this project, for the model
  recollect hook stop < event.json                     queue the transcript for import
  recollect hook import                                import what is queued
"""
_ARCHIVE_EXAMPLES = """\
  recollect archive list
  recollect archive restore 3                          to its original place
  recollect archive restore 3 --to folder              with its older copies, if any
  recollect archive restore all --to folder
"""


def define_watch(command: argparse.ArgumentParser) -> None:
    define(command, watch, _WATCH_EXAMPLES)
    add_flag(command, "--once", "import what has changed, then exit")
    add_list(command, "--tool", "only this agent; may be repeated", choices=WATCHED)
    add_folders(command, "--folder", "a folder with transcripts of any known format")
    add_flag(command, "--no-archive", "do not archive the files")
    add_no_index(command)


def define_hook(command: argparse.ArgumentParser) -> None:
    define(command, hook, _HOOK_EXAMPLES)
    command.add_argument(
        "event",
        choices=hooks.EVENTS,
        help="the event; the agent writes its details to standard input",
    )


def define_archive(command: argparse.ArgumentParser) -> None:
    define(command, archive, _ARCHIVE_EXAMPLES)
    command.add_argument("action", choices=("list", "restore"))
    command.add_argument(
        "name", nargs="?", help="a number from the list, a conversation, a file name, or all"
    )
    command.add_argument(
        "--to", metavar="FOLDER", help="where to put it (default: its original place)"
    )


# -- watching ----------------------------------------------------------------


def watch(arguments: argparse.Namespace) -> int:
    from recollect.backup.schedule import BackupSchedule
    from recollect.capture.watch import Watcher, changes, folders

    watch_folders = folders(arguments.tool, existing_folders(arguments.folder))
    show = print_event_json if arguments.json else print_event
    background = None
    if arguments.once or arguments.no_index:
        background = False
    with open(arguments.home, arguments.user, background=background) as library:
        watcher = Watcher(
            library, watch_folders, lambda event: show(asdict(event)), not arguments.no_archive
        )
        if arguments.once:
            watcher.once()
            print_end(arguments, watcher.read)
            if watcher.read:
                return index_after_import(library, arguments)
            return 0
        stop = StopSignal()  # a save that has begun is completed
        if not arguments.json:
            names = ", ".join(safe(str(folder.root)) for folder in watch_folders)
            console().print(f"Watching {names}  [dim](Ctrl+C stops it)[/]", soft_wrap=True)
        sys.stdout.flush()
        with closing(BackupSchedule(place(arguments.home))) as schedule:
            schedule.start()
            watcher.follow(changes([folder.root for folder in watch_folders], stop))
        print_end(arguments, watcher.read)
    return 0


def print_end(arguments: argparse.Namespace, files: int) -> None:
    if arguments.json:
        return
    if files:
        console().print(f"Read {plural(files, 'file')}.")
    else:
        console().print("Nothing has changed.")


def print_event_json(event: dict[str, object]) -> None:
    print(json.dumps(event), flush=True)


def print_event(event: dict[str, Any]) -> None:
    kind = event["kind"]
    if kind == "taken":
        outcome = plural(event["messages"], "new message")
        if event["changed"]:
            outcome += f", {event['changed']:,} changed"
    else:
        colour = "red" if kind == "failed" else "yellow"
        outcome = f"[{colour}]{kind}[/]: {safe(event['reason'])}"
    subject = f"[bold]{safe(event['tool'])}[/] {safe(short(event['path']))}"
    console().print(f"{subject}: {outcome}", soft_wrap=True)


def short(path: str) -> str:
    """The path with ~ for the home folder."""
    home = str(Path.home())
    if path.startswith(home):
        return f"~{path[len(home) :]}"
    return path


# -- hooks -------------------------------------------------------------------


def hook(arguments: argparse.Namespace) -> int:
    """Run a hook. `__main__` usually does this before the parser is built."""
    words = [arguments.event]
    if arguments.home:
        words.append(f"--home={arguments.home}")
    if arguments.user:
        words.append(f"--user={arguments.user}")
    return hooks.main(words) or 0


# -- the archive -------------------------------------------------------------


def archive(arguments: argparse.Namespace) -> int:
    if arguments.action == "list":
        return _list(arguments)
    return restore(arguments)


def _list(arguments: argparse.Namespace) -> int:
    with existing(arguments) as library:
        files = library.archive.files()
    if arguments.json:
        print_json({"files": [asdict(file) | {"path": str(file.path)} for file in files]})
        return 0
    table = Table(
        "no", "file", "size", "archived", "older", "when", box=SIMPLE_HEAD, pad_edge=False
    )
    for file in files:
        table.add_row(
            str(file.id),
            safe(short(file.source)),
            f"{file.size:,}",
            f"{file.bytes:,}",
            str(file.copies or ""),
            when(file.archived_at),
        )
    console().print(
        table if files else "Nothing is archived yet. `recollect watch` archives transcripts."
    )
    return 0


def restore(arguments: argparse.Namespace) -> int:
    if not arguments.name:
        raise InvalidInput("Name a file: a number from `recollect archive list`, or all.")
    target = None
    if arguments.to:
        target = expand_path(arguments.to)
    with writable(arguments) as library:
        if arguments.name == "all":
            files = library.archive.files()
        else:
            files = library.archive.find(arguments.name)
        paths, problems = [], []
        for file in files:
            try:
                paths += library.archive.restore(file, target)
            except (DamagedLibrary, InvalidInput) as error:
                problems.append(str(error))
    if arguments.json:
        print_json({"files": [str(path) for path in paths], "problems": problems})
        return bool(problems)
    for path in paths:
        console().print(f"Wrote {safe(str(path))}", soft_wrap=True)
    for problem in problems:
        console(stderr=True).print(safe(problem), soft_wrap=True)
    return bool(problems)
