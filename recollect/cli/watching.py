"""`recollect watch`, `hook` and `archive`: import transcripts live, and keep their originals."""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

from recollect.capture import hooks
from recollect.cli.commands import command, together
from recollect.cli.common import (
    NO_INDEX,
    existing,
    existing_folders,
    plural,
    print_json,
    print_table,
    safe,
    show,
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


@command(
    "watch",
    together(
        f"""
        --once           import what has changed, then exit
        --tool {"|".join(WATCHED)}...  only this agent; may be repeated
        --folder FOLDER...  a folder with transcripts of any known format; may be repeated
        --no-archive     do not archive the files
        """,
        NO_INDEX,
    ),
    """
    recollect watch                                      all coding agents, until Ctrl-C
    recollect watch --tool claude-code
    recollect watch --once                               import what has changed, then exit
    recollect watch --folder ~/transcripts --json
    """,
)
def watch(arguments: argparse.Namespace) -> int:
    from recollect.backup.schedule import BackupSchedule
    from recollect.capture.watch import Watcher, changes, folders

    watch_folders = folders(arguments.tool, existing_folders(arguments.folder))
    report = print_event_json if arguments.json else print_event
    background = False if arguments.once or arguments.no_index else None
    with open(arguments.home, arguments.user, background=background) as library:
        watcher = Watcher(
            library, watch_folders, lambda event: report(asdict(event)), not arguments.no_archive
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
            show(f"Watching {names}  [dim](Ctrl+C stops it)[/]")
        sys.stdout.flush()
        with closing(BackupSchedule(place(arguments.home))) as schedule:
            schedule.start()
            watcher.follow(changes([folder.root for folder in watch_folders], stop))
        print_end(arguments, watcher.read)
    return 0


def print_end(arguments: argparse.Namespace, files: int) -> None:
    if not arguments.json:
        show(f"Read {plural(files, 'file')}." if files else "Nothing has changed.")


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
    show(f"[bold]{safe(event['tool'])}[/] {safe(short(event['path']))}: {outcome}")


def short(path: str) -> str:
    """The path with ~ for the home folder."""
    home = str(Path.home())
    if path.startswith(home):
        return f"~{path[len(home) :]}"
    return path


# -- hooks -------------------------------------------------------------------


@command(
    "hook",
    f"event {'|'.join(hooks.EVENTS)}  the event; the agent writes its details to standard input",
    """
    recollect hook session-start < event.json            recent work in this project, for the model
    recollect hook stop < event.json                     queue the transcript for import
    recollect hook import                                import what is queued
    """,
)
def hook(arguments: argparse.Namespace) -> int:
    """Run a hook. `__main__` usually does this before the parser is built."""
    words = [arguments.event]
    if arguments.home:
        words.append(f"--home={arguments.home}")
    if arguments.user:
        words.append(f"--user={arguments.user}")
    return hooks.main(words) or 0


# -- the archive -------------------------------------------------------------


@command(
    "archive",
    """
    action list|restore  what to do
    name?        a number from the list, a conversation, a file name, or all
    --to FOLDER  where to put it (default: its original place)
    """,
    """
    recollect archive list
    recollect archive restore 3                          to its original place
    recollect archive restore 3 --to folder              with its older copies, if any
    recollect archive restore all --to folder
    """,
)
def archive(arguments: argparse.Namespace) -> int:
    return list_files(arguments) if arguments.action == "list" else restore(arguments)


def list_files(arguments: argparse.Namespace) -> int:
    with existing(arguments) as library:
        files = library.archive.files()
    if arguments.json:
        return print_json({"files": [asdict(file) | {"path": str(file.path)} for file in files]})
    if not files:
        show("Nothing is archived yet. `recollect watch` archives transcripts.")
        return 0
    rows = [
        (
            str(file.id),
            safe(short(file.source)),
            f"{file.size:,}",
            f"{file.bytes:,}",
            str(file.copies or ""),
            when(file.archived_at),
        )
        for file in files
    ]
    print_table("no, file, size, archived, older, when", rows)
    return 0


def restore(arguments: argparse.Namespace) -> int:
    if not arguments.name:
        raise InvalidInput("Name a file: a number from `recollect archive list`, or all.")
    target = expand_path(arguments.to) if arguments.to else None
    paths: list[Path] = []
    problems: list[str] = []
    with writable(arguments) as library:
        files = library.archive.files()
        if arguments.name != "all":
            files = library.archive.find(arguments.name)
        for file in files:
            try:
                paths += library.archive.restore(file, target)
            except (DamagedLibrary, InvalidInput) as error:
                problems.append(str(error))
    if arguments.json:
        print_json({"files": [str(path) for path in paths], "problems": problems})
        return bool(problems)
    for path in paths:
        show(f"Wrote {safe(str(path))}")
    for problem in problems:
        show(safe(problem), stderr=True)
    return bool(problems)
