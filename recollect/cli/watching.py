"""`recollect watch` and `recollect archive`: following coding agents, and the files that they wrote."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import threading
from dataclasses import asdict
from pathlib import Path
from types import FrameType

from rich.box import SIMPLE_HEAD
from rich.table import Table

from recollect.cli.common import (
    Commands,
    add_command,
    console,
    existing,
    print_json,
    safe,
    when,
    writable,
)
from recollect.cli.indexing import index_after_import
from recollect.errors import InvalidInput
from recollect.model.sources import WATCHED
from recollect.places import open

_WATCH_EXAMPLES = """\
  recollect watch                                      Claude Code, Codex and Gemini CLI, until Ctrl-C
  recollect watch --tool claude-code
  recollect watch --once                               what changed since the last time, then end
  recollect watch --folder ~/transcripts --json
"""
_ARCHIVE_EXAMPLES = """\
  recollect archive list
  recollect archive restore 3                          to where it was
  recollect archive restore 3 --to folder              with older copies of it, if there are any
  recollect archive restore all --to folder
"""


def register(commands: Commands) -> None:
    command = add_command(
        commands,
        "watch",
        "take in what coding agents write, while they write it",
        watch,
        _WATCH_EXAMPLES,
    )
    command.add_argument("--once", action="store_true", help="take in what has changed, then end")
    command.add_argument(
        "--tool",
        action="append",
        default=[],
        choices=WATCHED,
        help="only this one; may be repeated",
    )
    command.add_argument(
        "--folder",
        action="append",
        default=[],
        metavar="PATH",
        help="a folder of transcripts of any known format, instead of or besides those of --tool; may be repeated",
    )
    command.add_argument(
        "--no-archive", action="store_true", help="do not keep copies of the files"
    )
    command.add_argument(
        "--no-index", action="store_true", help="leave indexing for later; words are found at once"
    )
    command = add_command(
        commands,
        "archive",
        "list or restore the files that conversations were taken from",
        archive,
        _ARCHIVE_EXAMPLES,
    )
    command.add_argument("action", choices=("list", "restore"))
    command.add_argument(
        "name", nargs="?", help="a number of the list, a conversation, a file's name, or all"
    )
    command.add_argument("--to", metavar="FOLDER", help="where to put it (default: where it was)")


# -- watching ----------------------------------------------------------------


def watch(given: argparse.Namespace) -> int:
    from recollect.capture.transcripts.watch import Watcher, changes, folders

    followed = folders(given.tool, [Path(path) for path in given.folder])
    for path in given.folder:
        if not Path(path).expanduser().is_dir():
            raise InvalidInput(f"There is no folder {path}.")
    tell = _as_json if given.json else _for_people
    background = False if given.once or given.no_index else None
    with open(given.home, given.user, background=background) as library:
        watcher = Watcher(
            library, followed, lambda event: tell(asdict(event)), not given.no_archive
        )
        if given.once:
            watcher.once()
            _end(given, watcher.read)
            return index_after_import(library, given) if watcher.read else 0
        stop = _stopping()
        if not given.json:
            shown = ", ".join(safe(str(f.root)) for f in followed)
            console().print(f"Following {shown}  [dim](Ctrl+C stops it)[/]", soft_wrap=True)
        sys.stdout.flush()
        watcher.follow(changes([folder.root for folder in followed], stop))
        _end(given, watcher.read)
    return 0


def _stopping() -> threading.Event:
    """Set by Ctrl-C and by whoever ends the process; what is being saved is saved first."""
    stop = threading.Event()

    def ask(number: int, frame: FrameType | None) -> None:
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, ask)
    return stop


def _end(given: argparse.Namespace, read: int) -> None:
    if not given.json:
        console().print(f"{read:,} files read." if read else "Nothing has changed.")


def _as_json(event: dict[str, object]) -> None:
    print(json.dumps(event), flush=True)


def _for_people(event: dict[str, object]) -> None:
    about = f"[bold]{safe(str(event['tool']))}[/] {safe(_short(str(event['path'])))}"
    kind, reason = event["kind"], safe(str(event["reason"]))
    if kind == "taken":
        said = f"{event['messages']:,} new messages"
        said += f", {event['changed']:,} changed" if event["changed"] else ""
    else:
        colour = "red" if kind == "failed" else "yellow"
        said = f"[{colour}]{kind}[/]: {reason}"
    console().print(f"{about}: {said}", soft_wrap=True)


def _short(path: str) -> str:
    home = str(Path.home())
    return f"~{path[len(home) :]}" if path.startswith(home) else path


# -- the archive -------------------------------------------------------------


def archive(given: argparse.Namespace) -> int:
    return _list(given) if given.action == "list" else _restore(given)


def _list(given: argparse.Namespace) -> int:
    with existing(given) as library:
        files = library.archive.files()
    if given.json:
        print_json({"files": [asdict(file) | {"path": str(file.path)} for file in files]})
        return 0
    table = Table(
        "no", "file", "size", "archived", "older", "when", box=SIMPLE_HEAD, pad_edge=False
    )
    for file in files:
        table.add_row(
            str(file.id),
            safe(_short(file.source)),
            f"{file.size:,}",
            f"{file.bytes:,}",
            str(file.copies or ""),
            when(file.archived_at),
        )
    console().print(table if files else "Nothing is archived yet; `recollect watch` does that.")
    return 0


def _restore(given: argparse.Namespace) -> int:
    if not given.name:
        raise InvalidInput("Which file? Say a number of `recollect archive list`, or all.")
    to = Path(given.to).expanduser() if given.to else None
    with writable(given) as library:
        found = library.archive.files() if given.name == "all" else library.archive.find(given.name)
        written = [path for file in found for path in library.archive.restore(file, to)]
    if given.json:
        print_json({"files": [str(path) for path in written]})
    for path in () if given.json else written:
        console().print(f"Wrote {safe(str(path))}", soft_wrap=True)
    return 0
