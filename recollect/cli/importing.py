"""`recollect import` and `recollect setup`: find files, import them, print a receipt."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime

from rich.box import SIMPLE_HEAD
from rich.table import Table

from recollect.capture.discovery import Discovery, discover
from recollect.cli.common import (
    add_flag,
    add_folders,
    add_no_index,
    at_terminal,
    console,
    define,
    existing,
    existing_folders,
    plural,
    print_json,
    print_purge,
    safe,
    when,
    writable,
)
from recollect.cli.indexing import index_after_import
from recollect.cli.terminal import ProgressBar
from recollect.configuration import expand_path
from recollect.errors import InvalidInput
from recollect.importers.sandbox.files import Request, prepare
from recollect.model.kinds import KIND_TABLE
from recollect.model.receipts import Counts, FileReceipt, Receipt

_EXAMPLES = """\
  recollect import                                     look for conversations, and ask
  recollect import chatgpt-export.zip
  recollect import ~/.claude/projects ~/.codex/sessions
  recollect import ~/Notes
  recollect import --as notes mixed-folder
  recollect import conversations.json --json
  recollect import --list
  recollect import --undo 3
"""
KINDS = tuple(kind.plural for kind in KIND_TABLE)
_ROWS = 20
STOPPED = "stopped"


def define_import(command: argparse.ArgumentParser) -> None:
    define(command, run, _EXAMPLES)
    command.add_argument(
        "paths", nargs="*", metavar="PATH", help="a file, zip or folder; the format is detected"
    )
    command.add_argument(
        "--as", dest="kind", choices=KINDS, help="the kind of the files, if detection gets it wrong"
    )
    command.add_argument("--undo", type=int, metavar="RECEIPT", help="undo one import")
    add_flag(command, "--list", "list the imports of this library")
    add_no_index(command)


def run(arguments: argparse.Namespace) -> int:
    if arguments.undo is not None and (arguments.paths or arguments.list):
        raise InvalidInput("--undo takes the number of one import, and nothing else.")
    if arguments.list and arguments.paths:
        raise InvalidInput("--list shows all imports. Leave out the path.")
    if arguments.list:
        return _list(arguments)
    if arguments.undo is not None:
        return undo(arguments)
    if arguments.paths:
        return import_paths(arguments, arguments.paths, arguments.kind)
    if sys.stdin.isatty() and at_terminal() and not arguments.json:
        paths = paths_of(ask(find()))
        if not paths:
            return 0
        return import_paths(arguments, paths, arguments.kind)
    raise InvalidInput(
        "Nothing to import. Give a file or folder: recollect import PATH\n"
        "Or look for conversations on this computer: recollect setup"
    )


def import_paths(arguments: argparse.Namespace, paths: Sequence[str], kind: str | None) -> int:
    """Import files and folders, print the receipt, and index what is new."""
    prepare(Request(tuple(expand_path(path) for path in paths)))
    with writable(arguments) as library:
        with ProgressBar("Importing", "bytes", files=True) as bar:
            receipt = library.import_path(*paths, kind=kind, progress=bar.report)
        if arguments.json:
            print_json(asdict(receipt))
        else:
            show(receipt)
        imported = _imported(receipt)
        if imported:
            return index_after_import(library, arguments)
    return int(has_failures(receipt))


def _imported(receipt: Receipt) -> int:
    """How many conversations and messages of the files are now in the library."""
    counts = [c for file in receipt.files for c in (file.conversations, file.messages)]
    return sum(count.new + count.same + count.changed for count in counts)


def has_failures(receipt: Receipt) -> bool:
    files = any(file.conversations.failed or file.messages.failed for file in receipt.files)
    return bool(receipt.left_out.failed) or files


def show(receipt: Receipt) -> None:
    out = console()
    out.print(f"[bold]Receipt {receipt.id}[/]")
    table = Table("file", "format", *receipt.units, box=SIMPLE_HEAD, pad_edge=False)
    rows = receipt.files
    if len(rows) > _ROWS:
        rows = by_format(receipt)
    for file in rows:
        table.add_row(
            safe(file.name), file.format, _counts(file.conversations), _counts(file.messages)
        )
    out.print(table)
    if receipt.contents:
        out.print(f"{receipt.units[0].capitalize()}: {receipt.contents}")
    for file in receipt.files:
        show_problems(file)
    for kind, count in redacted(receipt).items():
        out.print(f"redacted {count:,} {kind}")
    for word, reasons in (
        ("skipped", receipt.left_out.skipped),
        ("[red]rejected[/]", receipt.left_out.failed),
    ):
        for reason, count in reasons.items():
            out.print(f"{word} {plural(count, 'file')}: {safe(reason)}", soft_wrap=True)
    out.print(f"Undo with: [bold]recollect import --undo {receipt.id}[/]")


def redacted(receipt: Receipt) -> dict[str, int]:
    totals: Counter[str] = Counter()
    for file in receipt.files:
        totals.update(file.redacted)
    return totals


def _counts(counts: Counts) -> str:
    parts = [f"[green]{counts.new:,} new[/]", f"{counts.same:,} same"]
    if counts.changed:
        parts.append(f"{counts.changed:,} changed")
    if counts.skipped:
        parts.append(f"[yellow]{sum(counts.skipped.values()):,} skipped[/]")
    if counts.failed:
        parts.append(f"[red]{sum(counts.failed.values()):,} failed[/]")
    return ", ".join(parts)


def show_problems(file: FileReceipt) -> None:
    out = console()
    for unit, counts in zip(file.units, (file.conversations, file.messages), strict=True):
        for word, colour, reasons in (
            ("skipped", "yellow", counts.skipped),
            ("failed", "red", counts.failed),
        ):
            for reason, count in reasons.items():
                amount = plural(count, unit.removesuffix("s"))
                line = f"[{colour}]{word}[/] {amount} in {safe(file.name)}: {safe(reason)}"
                samples = ", ".join(safe(sample) for sample in file.samples.get(reason, []))
                if samples:
                    line += f" [dim]({samples})[/]"
                out.print(line)


def by_format(receipt: Receipt) -> list[FileReceipt]:
    """One row per format, if there are too many files for a row each."""
    rows: dict[str, FileReceipt] = {}
    files: dict[str, int] = {}
    for file in receipt.files:
        row = rows.setdefault(file.format, FileReceipt("", file.format))
        files[file.format] = files.get(file.format, 0) + 1
        row.name = plural(files[file.format], "file")
        for total, counts in (
            (row.conversations, file.conversations),
            (row.messages, file.messages),
        ):
            total.new += counts.new
            total.same += counts.same
            total.changed += counts.changed
            for mine, theirs in ((total.skipped, counts.skipped), (total.failed, counts.failed)):
                for reason, count in theirs.items():
                    mine[reason] = mine.get(reason, 0) + count
    return list(rows.values())


def _list(arguments: argparse.Namespace) -> int:
    with existing(arguments) as library:
        receipts = library.receipts()
        running = library.running_imports()
    if arguments.json:
        print_json({"receipts": [asdict(r) for r in receipts]})
        return 0
    if not receipts:
        console().print("Nothing was imported yet.")
        return 0
    table = Table("receipt", "when", "new", "state", "path", box=SIMPLE_HEAD, pad_edge=False)
    for receipt in receipts:
        new = sum(f.messages.new for f in receipt.files)
        table.add_row(
            str(receipt.id),
            when(receipt.started_at),
            plural(new, receipt.units[1].removesuffix("s")),
            _state(receipt, running),
            safe(receipt.path),
        )
    console().print(table)
    complete_paths: set[str] = set()
    for receipt in receipts:
        state = _state(receipt, running)
        if state == "complete":
            complete_paths.add(receipt.path)
        if state == STOPPED and receipt.path not in complete_paths:
            command = f"recollect import {_words(receipt.path)}"
            console().print(
                f"Import {receipt.id} was stopped; what it had saved is in the library. "
                f"Resume it with: [bold]{safe(command)}[/]",
                soft_wrap=True,
            )
    return 0


def _state(receipt: Receipt, running: datetime | None) -> str:
    """`running` is when the oldest import that runs now was started."""
    if receipt.undone_at:
        return "undone"
    if receipt.finished_at:
        return "complete"
    if running is not None and receipt.started_at >= running:
        return "running"
    return STOPPED


def _words(path: str) -> str:
    """The paths of a receipt, as they can be typed in a shell."""
    return " ".join(shlex.quote(part) for part in path.split(", "))


def undo(arguments: argparse.Namespace) -> int:
    with existing(arguments) as library:
        receipt = library.undo_import(arguments.undo)
        purge = library.purge_status()
    if arguments.json:
        print_json(asdict(receipt) | {"purge": purge.state})
    else:
        console().print(f"Import {receipt.id} of {safe(receipt.path)} was undone.")
        print_purge(purge)
    return 0


NOTHING = """\
Found no conversations on this computer. Import an export of your conversations:
  ChatGPT  Settings > Data controls > Export data
  Claude   Settings > Privacy > Export data
Then: recollect import PATH"""


def find(download_folders: Sequence[str] = ()) -> list[Discovery]:
    """What could be imported, judging by the names of files."""
    if not download_folders:
        return discover()
    return discover(existing_folders(download_folders))


def ask(discoveries: Sequence[Discovery]) -> list[Discovery]:
    """Ask what to import. Without a terminal, say how to do it."""
    out = console()
    if not discoveries:
        out.print(NOTHING, markup=False)
        return []
    if len(discoveries) == 1:
        out.print(f"Found {safe(discoveries[0].label)}.", soft_wrap=True)
    else:
        out.print("Found:")
        for number, discovery in enumerate(discoveries, 1):
            out.print(f"[bold cyan]{number:>3}[/]  {safe(discovery.label)}", soft_wrap=True)
    if not sys.stdin.isatty():
        out.print("Import all of it with: recollect setup --yes")
        return []
    question = "Import it? [Y/n] "
    if len(discoveries) > 1:
        question = "Import all? [Y/n, or numbers such as 1 3] "
    return choose(discoveries, input(question))


def choose(discoveries: Sequence[Discovery], answer: str) -> list[Discovery]:
    """The discoveries that an answer selects. Raises InvalidInput if it is no answer."""
    words = answer.replace(",", " ").split()
    if not words or answer.strip().lower() in ("y", "yes", "a", "all"):
        return list(discoveries)
    if answer.strip().lower() in ("n", "no", "q", "quit"):
        console().print("Nothing was imported.")
        return []
    numbers = [int(word) for word in words if word.isdigit() and word.isascii()]
    if len(numbers) < len(words) or not all(1 <= n <= len(discoveries) for n in numbers):
        raise InvalidInput(
            f"Answer yes, no, or numbers from 1 to {len(discoveries)}. Nothing was imported."
        )
    return [discoveries[number - 1] for number in dict.fromkeys(numbers)]


def paths_of(discoveries: Sequence[Discovery]) -> list[str]:
    return [str(path) for discovery in discoveries for path in discovery.paths]


_SETUP_EXAMPLES = """\
  recollect setup                                      look, ask, and import
  recollect setup --yes                                import everything without asking
  recollect setup --json                               only print what could be imported
  recollect setup --downloads ~/Desktop

Setup looks at the names of files: where Claude Code, Codex and Gemini CLI write
their sessions, and exports in your downloads. It opens no file before you
agree.
"""


def define_setup(command: argparse.ArgumentParser) -> None:
    define(command, run_setup, _SETUP_EXAMPLES)
    add_folders(command, "--downloads", "where exports are (default: your downloads)")
    add_flag(command, "--yes", "import everything without asking")
    add_no_index(command)


def run_setup(arguments: argparse.Namespace) -> int:
    discoveries = find(arguments.downloads)
    if arguments.json and not arguments.yes:
        print_json({"found": [record(discovery) for discovery in discoveries]})
        return 0
    selection = discoveries
    if not arguments.yes or not discoveries:
        selection = ask(discoveries)
    if not selection:
        return 0
    status = import_paths(arguments, paths_of(selection), kind=None)
    if not arguments.json:
        out = console()
        out.print("\nTry: [bold]recollect search[/] WORDS, or [bold]recollect serve --open[/]")
        if any(discovery.sessions for discovery in selection):
            out.print("To import new sessions as they grow: recollect service install watch")
    return status


def record(discovery: Discovery) -> dict[str, object]:
    return {
        "source": discovery.source,
        "label": discovery.label,
        "sessions": discovery.sessions,
        "paths": [str(path) for path in discovery.paths],
    }
